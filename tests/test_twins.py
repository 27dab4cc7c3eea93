"""The async twins, under asyncio and trio: what they give, and what they leave behind."""

from __future__ import annotations

import gc
import json
import sys
import threading
import time
from collections.abc import Callable, Coroutine, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import aclosing
from pathlib import Path
from typing import Any

import anyio
import pytest

import evalindex
import evalindex.decode
from evalindex import IndexClosed, SampleNotFound
from tests.builders import in_fork, sample, write_log

SAMPLES = 50
BACKENDS = ("asyncio", "trio")
both = pytest.mark.parametrize("backend", BACKENDS)


def document(number: int) -> dict[str, Any]:
    return sample(number, target="answer", metadata={"n": number}, store={"n": number})


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = tmp_path / "logs"
    for name in ("a.eval", "b.eval"):
        write_log(root / name, [document(number) for number in range(SAMPLES)])
    evalindex.build(root)
    return root


@pytest.fixture
def index(root: Path) -> Iterator[Any]:
    with evalindex.open(root) as index:
        yield index


async def collected(index: Any, keys: Iterable[Any], **options: Any) -> list[Any]:
    async with aclosing(index.aiter_samples(keys, **options)) as answers:
        return [answer async for answer in answers]


def comparable(value: Any) -> Any:
    """Errors and inspect's objects by what they say."""
    if isinstance(value, (list, tuple)):
        return [comparable(each) for each in value]
    if isinstance(value, Exception):
        return type(value), str(value)
    return value.model_dump() if hasattr(value, "model_dump") else value


#: A read of all samples of a log by each twin; `aread` reads one.
CALLS: dict[str, Callable[[Any], Coroutine[Any, Any, Any]]] = {
    "aread": lambda index: index.aread("a.eval", 2),
    "aread_samples": lambda index: index.aread_samples("a.eval", range(SAMPLES)),
    "aiter_samples": lambda index: collected(index, [("a.eval", n) for n in range(SAMPLES)]),
}
#: The same with the caller's keys.
BY_KEYS: dict[str, Callable[[Any, Iterable[Any]], Coroutine[Any, Any, Any]]] = {
    "aread_samples": lambda index, keys: index.aread_samples("a.eval", keys),
    "aiter_samples": lambda index, keys: collected(index, (("a.eval", key) for key in keys)),
}


class Gate:
    """A point in a worker thread where a read is held up until it is opened."""

    def __init__(self) -> None:
        self.reached = threading.Event()
        self.opened = threading.Event()
        self.waiting = False

    def wait(self) -> None:
        self.waiting = True
        self.reached.set()
        opened = self.opened.wait(20)
        self.waiting = False
        assert opened

    def hold_up_2(self, id: str) -> None:
        if id == "2":
            self.wait()

    async def until_reached(self) -> None:
        """Only a loop that is not blocked gets out of here while a read is held up."""
        with anyio.fail_after(15):
            while not self.reached.is_set():
                await anyio.sleep(0.001)
        assert self.waiting


def on_decoding(monkeypatch: pytest.MonkeyPatch, job: Callable[[str], object]) -> list[str]:
    """Have a job done, with the id, before each sample is decoded; the ids decoded so far."""
    genuine = evalindex.decode.decode_sample
    decoded: list[str] = []

    def decode(data: bytes, id: str, *rest: Any) -> dict[str, Any]:
        decoded.append(id)
        job(id)
        return genuine(data, id, *rest)

    monkeypatch.setattr(evalindex.decode, "decode_sample", decode)
    return decoded


def wait_until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 15
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.002)


def whole_budget_is_free(index: Any) -> bool:
    most = index._budget._most
    free: bool = index._budget.take(most)
    if free:
        index._budget.give_back(most)
    return free and index._budget._held == 0


@both
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"as_": "bytes"},
        {"as_": "sample"},
        {"errors": "skip"},
        {"errors": "return"},
        {"as_": "bytes", "errors": "return"},
        {"exclude_fields": ["store", "input"]},
        {"as_": "sample", "exclude_fields": {"metadata"}, "resolve_attachments": "core"},
    ],
)
def test_the_twins_give_what_the_reads_give(
    index: Any, backend: str, options: dict[str, Any]
) -> None:
    limits = {"concurrency": 1, "max_bytes": 1}
    ids: list[Any] = [3, (1, 1), "7", 3] + ([99, (1, 2)] if "errors" in options else [])
    keys = [(log, 3) for log in ("a.eval", "b.eval")] * 2
    keys += [("gone.eval", 1), ("b.eval", 99)] if "errors" in options else []

    async def answers() -> list[Any]:
        return [
            await index.aread("a.eval", ids[-1] if ids[-1] == 3 else 99, **options),
            await index.aread_samples("a.eval", ids, **options, **limits),
            await collected(index, keys, **options, **limits),
            await collected(index, keys, ordered=False, **options),
        ]

    expected = [
        index.read("a.eval", ids[-1] if ids[-1] == 3 else 99, **options),
        index.read_samples("a.eval", ids, **options),
        list(index.iter_samples(keys, **options)),
        list(index.iter_samples(keys, ordered=False, **options)),
    ]
    assert expected[2] != expected[3]  # the option matters
    assert comparable(anyio.run(answers, backend=backend)) == comparable(expected)


@both
def test_the_caller_s_own_keys_come_back_in_their_order(index: Any, backend: str) -> None:
    keys: list[Any] = [["b.eval", 1], ("a.eval", 2), evalindex.SampleKey("b.eval", 3, 1)] * 3
    found = anyio.run(collected, index, iter(keys), backend=backend)
    assert [key is given for (key, _), given in zip(found, keys, strict=True)] == [True] * 9
    assert [value["id"] for _, value in found] == [1, 2, 3] * 3


@both
def test_no_keys_give_no_samples(index: Any, backend: str) -> None:
    assert anyio.run(index.aread_samples, "a.eval", [], backend=backend) == []
    assert anyio.run(collected, index, [], backend=backend) == []


@both
def test_keys_are_taken_once_and_a_window_at_a_time(index: Any, backend: str) -> None:
    taken: list[int] = []

    def keys() -> Iterator[tuple[str, int]]:
        for number in range(10_100):
            taken.append(number)
            yield "a.eval", number % SAMPLES

    async def main() -> int:
        count = 0
        async with aclosing(index.aiter_samples(keys())) as answers:
            async for _ in answers:
                count += 1
                # The window is known to be full by the key behind it.
                assert count > 1 or len(taken) <= 10_001
        return count

    assert anyio.run(main, backend=backend) == 10_100
    assert taken == list(range(10_100))


@both
def test_samples_before_an_error_are_delivered_first(index: Any, backend: str) -> None:
    keys = [("a.eval", id) for id in (1, 2, 3, 99, 4)]
    delivered: list[int] = []

    async def main() -> None:
        async with aclosing(index.aiter_samples(keys)) as answers:
            async for (_, id), _ in answers:
                delivered.append(id)

    with pytest.raises(SampleNotFound) as caught:
        anyio.run(main, backend=backend)
    assert delivered == [1, 2, 3]
    with pytest.raises(SampleNotFound) as expected:
        list(index.iter_samples(keys))
    assert str(caught.value) == str(expected.value)
    with pytest.raises(SampleNotFound) as caught:
        anyio.run(index.aread_samples, "a.eval", [1, 99, (1, 2)], backend=backend)
    assert [(key.id, key.epoch) for key in caught.value.missing] == [(99, 1), (1, 2)]
    with pytest.raises(SampleNotFound):
        anyio.run(index.aread, "a.eval", 99, backend=backend)


@both
@pytest.mark.parametrize(
    ("error", "key", "options"),
    [
        (ValueError, 1, {"as_": "json"}),
        (ValueError, 1, {"errors": "ignore"}),
        (ValueError, 1, {"as_": "bytes", "exclude_fields": ["store"]}),
        (ValueError, 1, {"resolve_attachments": True}),
        (TypeError, 1, {"exclude_fields": [1]}),
        (TypeError, 1, {"unknown": 1}),
        (TypeError, None, {}),
        (TypeError, 1.0, {}),
    ],
)
def test_bad_arguments_are_refused_as_by_the_reads(
    index: Any, backend: str, error: type[Exception], key: Any, options: dict[str, Any]
) -> None:
    async def main() -> None:
        with pytest.raises(error):
            await index.aread("a.eval", key, **options)
        with pytest.raises(error):
            await index.aread_samples("a.eval", [key], **options)
        with pytest.raises(error):
            await collected(index, [("a.eval", key)], **options)

    with pytest.raises(error):
        index.read("a.eval", key, **options)
    anyio.run(main, backend=backend)


@both
@pytest.mark.parametrize("call", CALLS)
def test_other_tasks_run_while_a_sample_is_decoded(
    index: Any, monkeypatch: pytest.MonkeyPatch, backend: str, call: str
) -> None:
    gate = Gate()
    on_decoding(monkeypatch, gate.hold_up_2)

    async def main() -> None:
        async with anyio.create_task_group() as group:
            group.start_soon(CALLS[call], index)
            await gate.until_reached()
            gate.opened.set()

    anyio.run(main, backend=backend)


@both
@pytest.mark.parametrize("call", BY_KEYS)
def test_other_tasks_run_while_keys_are_awaited(index: Any, backend: str, call: str) -> None:
    gate = Gate()

    def keys() -> Iterator[int]:
        yield 1
        gate.wait()
        yield 2

    async def main() -> None:
        async with anyio.create_task_group() as group:
            group.start_soon(BY_KEYS[call], index, keys())
            await gate.until_reached()
            gate.opened.set()

    anyio.run(main, backend=backend)


@both
@pytest.mark.parametrize("call", CALLS)
def test_a_cancelled_read_is_left_at_once_and_stops_behind_its_sample(
    index: Any, monkeypatch: pytest.MonkeyPatch, backend: str, call: str
) -> None:
    assert gc.isenabled()
    gate = Gate()
    decoded = on_decoding(monkeypatch, gate.hold_up_2)

    async def main() -> None:
        async with anyio.create_task_group() as group:
            group.start_soon(CALLS[call], index)
            await gate.until_reached()
            assert not whole_budget_is_free(index)
            group.cancel_scope.cancel()
        assert gate.waiting  # the thread still hangs
        gate.opened.set()

    anyio.run(main, backend=backend)
    wait_until(lambda: whole_budget_is_free(index) and gc.isenabled())
    assert decoded == (["2"] if call == "aread" else ["0", "1", "2"])
    monkeypatch.undo()
    assert index.read("a.eval", 2) == document(2)


@both
@pytest.mark.parametrize("call", BY_KEYS)
def test_a_cancelled_read_takes_no_more_keys(index: Any, backend: str, call: str) -> None:
    gate = Gate()
    taken: list[int] = []

    def keys() -> Iterator[int]:
        for number in range(1000):
            taken.append(number)
            if number == 3:
                gate.wait()
            yield number % SAMPLES

    async def main() -> None:
        async with anyio.create_task_group() as group:
            group.start_soon(BY_KEYS[call], index, keys())
            await gate.until_reached()
            group.cancel_scope.cancel()
        gate.opened.set()

    anyio.run(main, backend=backend)
    time.sleep(0.5)  # is enough for all of them, if they were taken
    assert len(taken) <= 5


@both
@pytest.mark.parametrize("way", ["break", "raise"])
def test_a_loop_that_is_left_gives_back_what_it_held(
    index: Any, monkeypatch: pytest.MonkeyPatch, backend: str, way: str
) -> None:
    decoded = on_decoding(monkeypatch, lambda _: time.sleep(0.004))

    async def main() -> None:
        keys = [("a.eval", number) for number in range(SAMPLES)]
        try:
            async with aclosing(index.aiter_samples(keys)) as answers:
                async for _ in answers:
                    assert not whole_budget_is_free(index)
                    if way == "break":
                        break
                    raise LookupError
        except LookupError:
            pass
        assert whole_budget_is_free(index)

    anyio.run(main, backend=backend)
    assert len(decoded) < 10
    assert gc.isenabled()


def test_asyncio_ends_a_loop_that_nobody_closes(
    index: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    on_decoding(monkeypatch, lambda _: time.sleep(0.004))

    async def leave() -> None:
        async for _ in index.aiter_samples([("a.eval", n) for n in range(SAMPLES)]):
            assert not whole_budget_is_free(index)
            raise LookupError

    async def main() -> None:
        with pytest.raises(LookupError):
            await leave()
        with anyio.fail_after(15):
            while not whole_budget_is_free(index):
                await anyio.sleep(0.001)

    anyio.run(main)


@both
@pytest.mark.parametrize("call", BY_KEYS)
def test_a_failed_read_gives_back_what_it_held(index: Any, backend: str, call: str) -> None:
    async def main() -> bool:
        with pytest.raises(SampleNotFound):
            await BY_KEYS[call](index, [1, 99, 2, 3])
        return whole_budget_is_free(index)

    gc.disable()
    try:
        assert anyio.run(main, backend=backend)
    finally:
        gc.enable()


@both
def test_a_slow_consumer_has_few_samples_made_ahead(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, backend: str
) -> None:
    log = write_log(tmp_path / "big.eval", [sample(n, pad="x" * 300_000) for n in range(200)])
    decoded = on_decoding(monkeypatch, lambda _: time.sleep(0.003))

    async def main() -> list[int]:
        ahead: list[int] = []
        with evalindex.open(log) as index:
            async with aclosing(index.aiter_samples([(log, n) for n in range(200)])) as answers:
                async for _ in answers:
                    await anyio.sleep(0.001)
                    ahead.append(len(decoded) - len(ahead) - 1)
        return ahead

    ahead = anyio.run(main, backend=backend)
    assert len(ahead) == 200
    assert max(ahead) < 20


@both
def test_many_at_once_on_one_index(index: Any, backend: str) -> None:
    found: dict[int, Any] = {}

    async def read(first: int) -> None:
        keys = range(first, SAMPLES, 3)
        found[first] = await index.aread_samples("ab"[first % 2] + ".eval", keys)

    async def main() -> None:
        async with anyio.create_task_group() as group:
            for first in range(20):
                group.start_soon(read, first)

    anyio.run(main, backend=backend)
    expected = {first: [document(n) for n in range(first, SAMPLES, 3)] for first in range(20)}
    assert found == expected


@both
def test_a_read_inside_a_loop_over_samples_does_not_hang(root: Path, backend: str) -> None:
    async def main() -> int:
        count = 0
        async with evalindex.open(root, max_bytes=1, concurrency=1) as index:
            keys = [(log, n) for log in ("a.eval", "b.eval") for n in range(SAMPLES)]
            with anyio.fail_after(30):
                async for (log, id), value in index.aiter_samples(keys):
                    assert await index.aread(log, id) == value == index.read(log, id)
                    count += 1
        return count

    assert anyio.run(main, backend=backend) == 2 * SAMPLES


@both
def test_async_with_closes_the_index(root: Path, backend: str) -> None:
    async def main() -> None:
        async with evalindex.open(root) as index:
            assert await index.aread("a.eval", 1) == document(1)
        for call in CALLS.values():
            with pytest.raises(IndexClosed):
                await call(index)

    anyio.run(main, backend=backend)


def test_sync_and_async_reads_work_in_a_notebook(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import nbformat.v4
    from nbclient import NotebookClient

    command = [sys.executable, "-m", "ipykernel_launcher", "-f", "{connection_file}"]
    spec = {"argv": command, "display_name": "own", "language": "python"}
    (tmp_path / "kernels" / "own").mkdir(parents=True)
    (tmp_path / "kernels" / "own" / "kernel.json").write_text(json.dumps(spec))
    monkeypatch.setenv("JUPYTER_PATH", str(tmp_path))
    for name in ("JUPYTER_RUNTIME_DIR", "JUPYTER_CONFIG_DIR", "IPYTHONDIR"):
        monkeypatch.setenv(name, str(tmp_path / name))
    code = str(Path(evalindex.__file__).parents[1])
    cells = {
        f"import sys; sys.path.insert(0, {code!r})\n"
        "import asyncio, evalindex, evalindex.inspect_ai\n"
        f"index = evalindex.open({str(root)!r}); log = index.locate('a.eval')\n"
        "print(asyncio.get_running_loop().is_running())": "True",
        "print(index.read(log, 1)['store'])": "{'n': 1}",
        "print((await index.aread(log, 2))['store'])": "{'n': 2}",
        "print([s['id'] for s in await index.aread_samples(log, [3, 1])])": "[3, 1]",
        "async for key, s in index.aiter_samples([(log, 4), (log, 5)]):\n"
        "    print(key[1], s['id'], index.read(log, key[1]) == s)": "4 4 True\n5 5 True",
        "by_id = evalindex.inspect_ai.read_eval_log_samples_by_id\n"
        "print([(s.id, s.metadata) for s in by_id(log, [(6, 1), (2, 1)])])": (
            "[(6, {'n': 6}), (2, {'n': 2})]"
        ),
    }
    make: Any = nbformat.v4
    notebook = make.new_notebook(cells=[make.new_code_cell(source) for source in cells])
    NotebookClient(notebook, kernel_name="own", timeout=120).execute()
    printed = [
        "".join(part.text for part in cell.outputs if part.get("name") == "stdout").strip()
        for cell in notebook.cells
    ]
    assert printed == list(cells.values())


@pytest.mark.filterwarnings("ignore:.*multi-threaded.*:DeprecationWarning")
@pytest.mark.parametrize("before", BACKENDS)
@both
def test_a_fork_reads_on_with_the_parents_index(index: Any, before: str, backend: str) -> None:
    expected = [document(number) for number in range(SAMPLES)]
    assert anyio.run(CALLS["aread_samples"], index, backend=before) == expected
    assert in_fork(lambda: anyio.run(CALLS["aread_samples"], index, backend=backend)) == expected
    assert anyio.run(CALLS["aread_samples"], index, backend=before) == expected


def test_eight_loops_share_an_index(index: Any) -> None:
    start = threading.Barrier(8)

    def job(_: int) -> list[Any]:
        start.wait(15)
        return [anyio.run(CALLS["aiter_samples"], index) for _ in range(5)]

    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(job, range(8)))
    assert answers == [[[(("a.eval", n), document(n)) for n in range(SAMPLES)]] * 5] * 8


class Once:
    """An iterable that hands its keys over at the first asking, such as a queue's reader."""

    def __init__(self) -> None:
        self.keys = [1, 2, 3]

    def __iter__(self) -> Iterator[int]:
        keys, self.keys = self.keys, []
        return iter(keys)


@both
def test_keys_are_asked_for_once(index: Any, backend: str) -> None:
    async def main() -> list[Any]:
        [log] = [log.log for log in index.status().logs][:1]
        return list(await index.aread_samples(log, Once()))

    assert len(anyio.run(main, backend=backend)) == 3
