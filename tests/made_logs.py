"""Many small logs made with inspect_ai's own writer, and what inspect_ai itself says of logs.

Nothing here is by the code under test: `Truth` is made of inspect's own readers alone.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import math
import os
import random
import shutil
import warnings
import zipfile
from collections.abc import Iterable, Iterator, Sequence
from copy import copy
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any, Literal, NamedTuple

import inspect_ai
import pytest
import zipfile_zstd  # noqa: F401  (adds method 93 to zipfile)
from inspect_ai.log import (
    EvalConfig,
    EvalDataset,
    EvalError,
    EvalLog,
    EvalMetric,
    EvalPlan,
    EvalResults,
    EvalRetryError,
    EvalSample,
    EvalSampleLimit,
    EvalSampleSummary,
    EvalScore,
    EvalSpec,
    EvalStats,
    HeadlineMetric,
    ProvenanceData,
    TagsEdit,
    edit_eval_log,
    edit_score,
    invalidate_samples,
    read_eval_log,
    read_eval_log_sample_summaries,
    write_eval_log,
)
from inspect_ai.log._recorders.eval import EvalRecorder
from inspect_ai.model import ModelUsage
from inspect_ai.scorer import Score, ScoreEdit

Key = tuple[str, int]

START = datetime(2026, 1, 2, tzinfo=timezone.utc)
BY = ProvenanceData(author="a test")
ERRORS = ("TimeoutError('no answer')", "RateLimitError('too many')", "CancelledError('x')")
LIMITS: tuple[Literal["message", "time", "token"], ...] = ("message", "time", "token")
KINDS = ("ints", "texts", "odd", "negative")
HEADLINES = (None, HeadlineMetric(metric="se"), HeadlineMetric(score="grade"),
    HeadlineMetric(scorer="graded", metric="mean"), HeadlineMetric(scorer="gone"))  # fmt: skip
TASKS, MODELS = 11, 5
_LETTERS = "23456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz"


# --- writing -------------------------------------------------------------------------------


class Made(NamedTuple):
    """One log that was made: its path and the samples it was given, in order."""

    path: Path
    spec: EvalSpec
    samples: list[EvalSample]


def make_logs(folder: Path, count: int, seed: int = 1) -> list[Made]:
    """Write `count` logs, three attempts to a task; some of each kind that inspect can write."""
    folder.mkdir(parents=True, exist_ok=True)
    made: list[Made] = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a second member of one name is what some logs need
        asyncio.run(_make_all(folder, count, random.Random(seed), made))
        for number, one in enumerate(made):
            if number % 29 == 3 and number % 8 != 5:  # not in those that run
                invalidate(one.path, 1)
    return made


_SETS: dict[int, tuple[Path, list[Made]]] = {}


def a_set(factory: pytest.TempPathFactory, count: int) -> tuple[Path, list[Made]]:
    """A new copy of a set of logs, which is made once."""
    if count not in _SETS:
        source = factory.mktemp("made")
        _SETS[count] = source, make_logs(source, count)
    source, made = _SETS[count]
    folder = factory.mktemp("set") / "logs"
    shutil.copytree(source, folder)
    return folder, [one._replace(path=folder / one.path.relative_to(source)) for one in made]


async def _make_all(folder: Path, count: int, rng: random.Random, made: list[Made]) -> None:
    earlier: list[EvalSample] = []
    for number in range(count):
        group, attempt = divmod(number, 3)
        if attempt == 0:
            earlier = []
        path = folder / f"set-{group % 7}" / f"log-{number:04}.eval"
        one = await make_log(path, made_spec(rng, group, attempt), rng, earlier, number)
        earlier = earlier + one.samples
        made.append(one)


def made_ids(rng: random.Random, group: int) -> list[str | int]:
    size = rng.randint(2, 4)
    kind = KINDS[group % len(KINDS)]
    if kind == "ints":
        return list(range(1, size + 1))
    if kind == "texts":
        return [f"q-{n}" for n in range(size)]
    if kind == "negative":
        return list(range(-size, 0))
    odd: list[str | int] = ["a/b", "x_epoch_2", "007", 12]
    return odd[:size]


def made_spec(rng: random.Random, group: int, attempt: int) -> EvalSpec:
    ids = made_ids(random.Random(group), group)
    created = START + timedelta(minutes=group * 10 + attempt, seconds=rng.randrange(30))
    unknown = group % 10 == 0 or (group % 17 == 0 and attempt == 1)
    return EvalSpec(
        created=created.isoformat(),
        task=f"task-{group % TASKS}",
        task_id=f"task-id-{group}",
        task_version=group % 3,
        task_file=f"tasks/{group % TASKS}.py",
        run_id=f"run-{group}-{attempt}",
        eval_id=f"eval-{group}-{attempt}",
        eval_set_id=f"set-{group % 7}" if group % 2 else None,
        solver="made" if group % 2 else None,
        tags=[f"tag-{group % 3}", "made"] if group % 4 else None,
        metadata={"group": group},
        dataset=EvalDataset(
            name="made",
            location=f"data/{group % 4}.json",
            samples=len(ids),
            sample_ids=None if unknown else ids,
            shuffled=bool(group % 2),
        ),
        model=f"org/model-{group % MODELS}",
        config=EvalConfig(epochs=(1, 2, 3, None)[group % 4]),
        packages={"inspect_ai": inspect_ai.__version__},
        headline_metric=rng.choice(HEADLINES),
    )


async def make_log(
    path: Path, spec: EvalSpec, rng: random.Random, earlier: Sequence[EvalSample], number: int
) -> Made:
    """One log: seeded with some `earlier` samples, others new; every 8th is still running."""
    path.parent.mkdir(parents=True, exist_ok=True)
    recorder = EvalRecorder(str(path.parent))
    await recorder.log_init(spec, str(path))
    await recorder.log_start(spec, EvalPlan())
    good = {_key(s): s for s in earlier if s.error is None}
    written: list[EvalSample] = []
    for epoch in range(1, (spec.config.epochs or 1) + 1):
        for id in made_ids(random.Random(_group(spec)), _group(spec)):
            sample = good.get((str(id), epoch))
            if sample is None or rng.random() < 0.3:
                if rng.random() < 0.15:
                    continue  # this attempt did not come to it
                sample = made_sample(rng, id, epoch)
            await recorder.log_sample(spec, sample)
            written.append(sample)
            if rng.random() < 0.2:
                await recorder.flush(spec)
    if number % 5 == 2 and written:  # requeued: its second record counts
        again = made_sample(rng, written[0].id, written[0].epoch)
        await recorder.log_sample(spec, again)
        written.append(again)
    if number % 8 == 5:
        await recorder.flush(spec)
        _let_go(recorder)
        return Made(path, spec, written)
    status: Literal["success", "error", "cancelled"] = (
        "cancelled" if number % 8 == 2 else "error" if number % 8 == 4 else "success"
    )
    results = None if number % 13 == 6 else made_results(rng, written)
    error = EvalError(message="it broke", traceback="", traceback_ansi="")
    stats = EvalStats(started_at=spec.created, completed_at=spec.created)
    await recorder.log_finish(
        spec, status, stats, results, None, error if status == "error" else None
    )
    return Made(path, spec, written)


def _group(spec: EvalSpec) -> int:
    return int((spec.task_id or "-0").rpartition("-")[2])


def _key(sample: EvalSample | EvalSampleSummary) -> Key:
    return str(sample.id), sample.epoch


def made_results(rng: random.Random, samples: Sequence[EvalSample]) -> EvalResults:
    values = [rng.random(), 1, float("nan"), float("inf"), -0.5]
    metrics = {name: EvalMetric(name=name, value=rng.choice(values)) for name in ("accuracy", "se")}
    return EvalResults(
        total_samples=len(samples) + 1,
        completed_samples=len(samples),
        logged_samples=rng.choice([None, len(samples)]),
        headline=rng.choice([None, None, HeadlineMetric(score="match", metric="se")]),
        scores=[
            EvalScore(name="match", scorer="match", reducer=rng.choice([None, "mean"]),
                metrics=metrics),
            EvalScore(name="grade", scorer="graded",
                metrics={"mean": EvalMetric(name="mean", value=rng.choice(values))}),
        ],
    )  # fmt: skip


def made_sample(rng: random.Random, id: str | int, epoch: int) -> EvalSample:
    error = rng.choice(ERRORS) if rng.random() < 0.25 else None
    limit = rng.choice(LIMITS) if rng.random() < 0.15 else None
    odd: list[Any] = [float("nan"), float("inf"), True, [1, "a"], {"x": 1, "y": 0.25}, 2**60, 0]
    scores = {
        "match": Score(value=rng.choice("CI")),
        "grade": Score(value=rng.random()),
        "odd": Score(value=rng.choice(odd)),
    }
    usage = ModelUsage(input_tokens=3, output_tokens=4, total_tokens=rng.randrange(1000))
    old = EvalRetryError(message="before", traceback="", traceback_ansi="")
    return EvalSample(
        id=id,
        epoch=epoch,
        uuid="".join(rng.choices(_LETTERS, k=22)),
        input=f"What is {rng.randrange(10)}?",
        target="it",
        error=None if error is None else EvalError(message=error, traceback="", traceback_ansi=""),
        limit=None if limit is None else EvalSampleLimit(type=limit, limit=10),
        error_retries=rng.choice([None, [old], [old, old]]),
        scores=None if error is not None and rng.random() < 0.5 else scores,
        model_usage={"m": usage, "other": usage} if rng.random() < 0.8 else {},
        total_time=rng.random() * 60,
        working_time=rng.random() * 30,
        started_at=(START + timedelta(seconds=rng.randrange(10_000))).isoformat(),
    )


# --- changing behind an index's back -------------------------------------------------------


def append(made: Made, samples: Iterable[EvalSample]) -> None:
    """Write more samples into a finished log, as a retry or a requeue does."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        asyncio.run(_append(made, samples, finish=True))


async def _append(made: Made, samples: Iterable[EvalSample], *, finish: bool) -> None:
    recorder = EvalRecorder(str(made.path.parent))
    await recorder.log_init(made.spec, str(made.path))
    await recorder.log_start(made.spec, EvalPlan())
    for sample in samples:
        await recorder.log_sample(made.spec, sample)
    await recorder.flush(made.spec)
    if finish:
        await recorder.log_finish(made.spec, "success", EvalStats(), None, None)
    else:
        _let_go(recorder)


def _let_go(recorder: EvalRecorder) -> None:
    """Close what a recorder holds of logs that it does not finish, as its process's end would."""
    for log in recorder.data.values():
        if log._zip is not None:
            log._zip.close()
            log._zip = None
        log._temp_file.close()


def grow(made: Made, samples: Iterable[EvalSample]) -> None:
    """Let a running log have one flush more. Its members are inspect's, from a log of their own."""
    other = made._replace(path=made.path.with_suffix(".growth"))
    asyncio.run(_append(other, samples, finish=False))
    with (
        warnings.catch_warnings(),
        zipfile.ZipFile(other.path) as source,
        zipfile.ZipFile(made.path, "a", compression=93) as target,
    ):
        warnings.simplefilter("ignore")
        journal = "_journal/summaries/{}.json"
        count = sum(name.startswith(journal[:18]) for name in target.namelist())
        for name in source.namelist():
            if name.startswith("samples/"):
                target.writestr(name, source.read(name))
        target.writestr(journal.format(count + 1), source.read(journal.format(1)))
    other.path.unlink()


def invalidate(path: Path, count: int) -> None:
    log = read_eval_log(str(path))
    uuids = [sample.uuid for sample in log.samples or () if sample.uuid][:count]
    rewrite(invalidate_samples(log, uuids, BY), path)


def retag(path: Path, *tags: str) -> None:
    """Edit the header in place."""
    log = edit_eval_log(
        read_eval_log(str(path), header_only=True), [TagsEdit(tags_add=list(tags))], BY
    )
    write_eval_log(log, str(path), header_only=True)


def rewrite(log: EvalLog, path: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        write_eval_log(log, str(path))


def regrade(path: Path, name: str, old: str, new: str) -> Key | None:
    """Change the first score of a value to another; the key of its sample, or None."""
    log = read_eval_log(str(path))
    for sample in log.samples or ():
        if sample.scores and name in sample.scores and sample.scores[name].value == old:
            edit_score(log, sample.id, name, ScoreEdit(value=new), False, sample.epoch)
            rewrite(log, path)
            return _key(sample)
    return None


def change(folder: Path, made: Sequence[Made]) -> None:
    """All that can happen to a folder of logs while nobody rebuilds its index."""
    rng = random.Random(7)
    before = {path: path.read_bytes() for path in folder.rglob("*.eval")}
    finished = [one for one in made if truth(one.path).header.status != "started"]
    running = [one for one in made if truth(one.path).header.status == "started"]
    full = [one for one in finished if one.samples]
    for one in full[:4]:  # requeued: its first key has a newer record
        append(one, [made_sample(rng, one.samples[0].id, one.samples[0].epoch)])
    for one in running[:8]:
        plan = truth(one.path).header.eval.dataset.sample_ids or [1, 2]
        grow(one, [made_sample(rng, id, 1) for id in plan])
    for one in running[8:10]:  # finished since
        log = read_eval_log(str(one.path))
        log.status = "success"
        rewrite(log, one.path)
    for one in full[4:9]:
        retag(one.path, "edited")
    for one in full[9:12]:  # written anew, without a sample
        log = read_eval_log(str(one.path))
        log.samples = (log.samples or [])[1:]
        rewrite(log, one.path)
    for one in full[12:16]:
        invalidate(one.path, 1)
    changed = [regrade(one.path, "match", "C", "I") for one in full[16:40]]
    assert sum(key is not None for key in changed) >= 5
    for one in full[40:42]:
        one.path.unlink()
    for one in full[42:44]:
        os.utime(one.path)
    shutil.copyfile(full[50].path, full[51].path)  # another log takes the place of one
    make_logs(folder / "new", 6, seed=2)
    after = {path: path.read_bytes() for path in folder.rglob("*.eval")}
    assert sum(before[path] != after.get(path) for path in before) >= 20


# --- what inspect says ---------------------------------------------------------------------


class Truth:
    """What inspect's own readers say of one log as it is."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.header = read_eval_log(str(path), header_only=True)
        samples = read_eval_log(str(path)).samples or []
        self.summaries = {_key(s): s for s in read_eval_log_sample_summaries(str(path))}
        self.samples = {_key(s): s for s in samples}
        self._scores = {key: dict(_flat(s.scores or {})) for key, s in self.samples.items()}
        #: The order of an answer: that of the summaries, then the rest.
        self.order = [key for key in self.summaries if key in self.samples]
        self.order += [key for key in self.samples if key not in self.summaries]

    @property
    def newness(self) -> tuple[str, int, str]:
        return self.header.eval.created, os.stat(self.path).st_mtime_ns, str(self.path)

    @property
    def plan(self) -> dict[Key, str | int] | None:
        """The planned keys and their ids; None if the log does not say."""
        ids, samples = self.header.eval.dataset.sample_ids, self.header.eval.dataset.samples
        if ids is None or (not ids and samples):
            return None
        epochs = range(1, (self.header.eval.config.epochs or 1) + 1)
        plan: dict[Key, str | int] = {}
        for epoch in epochs:
            for id in ids:
                plan.setdefault((str(id), epoch), id)
        return plan

    def scores(self, key: Key) -> dict[str, float | str]:
        """By name; those of a mapping's entries too, as `name.key`."""
        return self._scores[key]


def _flat(scores: dict[str, Score]) -> Iterator[tuple[str, float | str]]:
    for name, score in scores.items():
        yield name, _told(score.value)
        if isinstance(score.value, dict):
            for part, value in score.value.items():
                yield f"{name}.{part}", _told(value)


def _told(value: Any) -> float | str:
    if isinstance(value, str):
        return value
    if isinstance(value, bool | float) or (isinstance(value, int) and abs(value) < 2**53):
        return float(value)
    return json.dumps(value, ensure_ascii=False)


def alike(ours: Any, theirs: Any) -> bool:
    """Equal, of one type, and NaN like NaN."""
    if isinstance(ours, float) and isinstance(theirs, float):
        return ours == theirs or (math.isnan(ours) and math.isnan(theirs))
    return type(ours) is type(theirs) and bool(ours == theirs)


_TRUTHS: dict[bytes, Truth] = {}


def truth(path: Path) -> Truth:
    """What inspect says of a log as it is; not asked again of the same bytes."""
    digest = hashlib.sha256(path.read_bytes()).digest()
    if digest not in _TRUTHS:
        _TRUTHS[digest] = Truth(path)
    found = copy(_TRUTHS[digest])
    found.path = path
    return found


def truths(folder: Path) -> dict[Path, Truth]:
    return {path: truth(path) for path in sorted(folder.rglob("*.eval"))}
