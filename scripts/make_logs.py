"""Make example logs with inspect_ai's own writer.

    make_logs.py FOLDER [--logs N] [--samples N] [--size BYTES] [--epochs N] [--failures N]

Samples look like those of a short conversation; `--size` is about how long their JSON is, and
`--failures` of each log have failed. Nothing is made in a folder that is there already.
"""

from __future__ import annotations

import argparse
import asyncio
import random
from datetime import datetime, timedelta, timezone
from pathlib import Path

import inspect_ai
from inspect_ai.event import InfoEvent
from inspect_ai.log import (
    EvalConfig,
    EvalDataset,
    EvalError,
    EvalPlan,
    EvalSample,
    EvalSpec,
    EvalStats,
)
from inspect_ai.log._recorders.eval import EvalRecorder
from inspect_ai.model import ChatMessageAssistant, ChatMessageUser, ModelOutput, ModelUsage
from inspect_ai.scorer import Score

_CREATED = "2026-01-02T03:04:05+00:00"
_FLUSH_EVERY = 2_000
_EVENT_SIZE = 1_000
_STARTED = datetime(2026, 1, 2, 3, 4, 5, tzinfo=timezone.utc)
_UUID_LETTERS = "23456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz"


def make_logs(
    folder: Path,
    *,
    logs: int,
    samples: int,
    size: int = 5_000,
    epochs: int = 1,
    failures: int = 0,
) -> None:
    """Write `logs` finished logs with `samples` ids each; `size` in bytes of JSON a sample."""
    folder.mkdir(parents=True)
    for number in range(logs):
        asyncio.run(_make_log(folder, number, samples, size, epochs, failures))


async def _make_log(
    folder: Path, number: int, samples: int, size: int, epochs: int, failures: int
) -> None:
    failed = set(random.Random(number).sample(range(samples * epochs), failures))
    spec = EvalSpec(
        created=_CREATED,
        task=f"task-{number % 7}",
        dataset=EvalDataset(
            name="made", samples=samples, sample_ids=list(range(1, samples + 1)), shuffled=False
        ),
        model=f"mockllm/model-{number % 3}",
        config=EvalConfig(epochs=epochs),
        packages={"inspect_ai": inspect_ai.__version__},
        task_id=f"task-id-{number}",
        run_id=f"run-id-{number}",
    )
    recorder = EvalRecorder(str(folder))
    await recorder.log_init(spec, str(folder / f"run-{number:05}.eval"))
    await recorder.log_start(spec, EvalPlan())
    for count in range(samples * epochs):
        id, epoch = count % samples + 1, count // samples + 1
        rng = random.Random(1_000_003 * number + count)
        await recorder.log_sample(spec, _sample(id, epoch, size, rng, count in failed))
        if count % _FLUSH_EVERY == _FLUSH_EVERY - 1:
            await recorder.flush(spec)
    await recorder.log_finish(spec, "success", EvalStats(), None, None)


def _sample(id: int, epoch: int, size: int, rng: random.Random, failed: bool) -> EvalSample:
    answer = f"{rng.getrandbits(200):x}"
    output = ModelOutput.from_content("mockllm/model", answer)
    events = max(0, round((size - 900) / (_EVENT_SIZE + 140)))
    seconds = rng.random() * 60
    started = _STARTED + timedelta(seconds=rng.randrange(10_000))
    message = rng.choice(["TimeoutError('no answer')", "RateLimitError('too many requests')"])
    usage = ModelUsage(input_tokens=rng.randrange(500), output_tokens=rng.randrange(500))
    usage.total_tokens = usage.input_tokens + usage.output_tokens
    return EvalSample(
        id=id,
        epoch=epoch,
        uuid="".join(rng.choices(_UUID_LETTERS, k=22)),
        metadata={"subject": rng.choice(["algebra", "law", "history"]), "level": rng.randrange(5)},
        model_usage={"mockllm/model": usage},
        started_at=started.isoformat(),
        completed_at=(started + timedelta(seconds=seconds)).isoformat(),
        total_time=seconds,
        working_time=seconds / 2,
        error=EvalError(message=message, traceback="", traceback_ansi="") if failed else None,
        input=f"What is {rng.random()}?",
        target=answer,
        messages=[
            ChatMessageUser(content=f"What is {rng.random()}?"),
            ChatMessageAssistant(content=answer),
        ],
        output=output,
        scores=None
        if failed
        else {
            "match": Score(value="C" if rng.random() < 0.7 else "I", answer=answer),
            "grade": Score(value=rng.random(), explanation=f"because of {rng.random()}"),
        },
        events=[
            InfoEvent(source="made", data=f"{rng.getrandbits(4 * _EVENT_SIZE // 4):x}" * 4)
            for _ in range(events)
        ],
    )


def main() -> None:
    parser = argparse.ArgumentParser(description="Make example logs with inspect_ai's own writer.")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--logs", type=int, default=3)
    parser.add_argument("--samples", type=int, default=20)
    parser.add_argument("--size", type=int, default=5_000)
    parser.add_argument("--epochs", type=int, default=1)
    parser.add_argument("--failures", type=int, default=0)
    options = parser.parse_args()
    if not options.folder.exists():
        make_logs(
            options.folder,
            logs=options.logs,
            samples=options.samples,
            size=options.size,
            epochs=options.epochs,
            failures=options.failures,
        )


if __name__ == "__main__":
    main()
