"""Inspect's own objects, out of an index: each equals what inspect itself reads."""

from __future__ import annotations

import asyncio
import errno
import gc
import importlib
import json
import re
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import inspect_ai._util.async_zip as inspects_zip
import inspect_ai.log as inspect_log
import pytest
from inspect_ai.log._condense import condense_sample
from inspect_ai.log._recorders.chunked.convert import convert_eval_logs_to_chunked
from pydantic import ValidationError

import evalindex
import evalindex.inspect_ai as bridge
from evalindex import directory, heal
from evalindex.inspect_ai import guard, samples
from tests.builders import Entry, archive, encoded, members_by_zipfile, sample_member, write_log

INT_LOG = "finished_int_2epochs.eval"
V3_LOG = "legacy_0_3_199_v3_pools.eval"
#: Logs whose samples have `message_pool` and `call_pool`, both empty: nothing is lost.
EMPTY_POOLS = ("legacy_0_3_199_deflate.eval", "mixed_deflate_then_zstd_header.eval")
KEYS = [(id, epoch) for epoch in (1, 2) for id in (1, 2, 3)]
RESOLVE: list[Any] = [False, True, "full", "core"]
EXCLUSIONS: list[set[str] | None] = [
    None,
    {"events"},
    {"events", "timelines"},
    {"store", "attachments"},
    {"input"},
    {"events_data"},
    {"id"},
    {"messages", "metadata"},
]
BACKENDS = ("asyncio", "trio")


def minimal(**fields: Any) -> dict[str, Any]:
    return {"epoch": 1, "input": "question", "target": "answer", **fields}


@pytest.fixture
def logs(copied_logs: Path) -> Path:
    evalindex.build(copied_logs)
    return copied_logs


@pytest.fixture
def index(logs: Path) -> Iterator[evalindex.Index]:
    with evalindex.open(logs) as opened:
        yield opened


@pytest.fixture
def directory_reads(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """Grows whenever the directory of a log is read."""
    reads: list[object] = []
    read = directory.read_directory

    def counted(file: Any) -> Any:
        reads.append(file)
        return read(file)

    monkeypatch.setattr(heal, "read_directory", counted)
    return reads


@pytest.fixture
def made(tmp_path: Path) -> Path:
    """A folder of two logs with the same keys and different samples."""
    make_logs(tmp_path / "made", logs=2, samples=3)
    return tmp_path / "made"


def make_logs(folder: Path, **options: int) -> None:
    maker().make_logs(folder, **options)


def maker() -> Any:
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(Path(__file__).resolve().parents[1] / "scripts"))
        return importlib.import_module("make_logs")


def document(sample: Any) -> Any:
    """All that a sample says, but for times that inspect draws from the clock."""
    return timeless(json.loads(json.dumps(sample.model_dump(), default=str)))


def timeless(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: timeless(v) for name, v in value.items() if name != "working_start"}
    return [timeless(v) for v in value] if isinstance(value, list) else value


def text(sample: Any) -> str:
    """As `document`; in a text NaN equals NaN, and True is not 1."""
    return json.dumps(document(sample))


def texts(samples: Any) -> list[str]:
    return [text(sample) for sample in samples]


def outcome(read: Callable[[], Any]) -> str:
    try:
        return text(read())
    except Exception as error:
        return f"{type(error).__module__}.{type(error).__name__}"


def by_inspect(log: Path, keys: Any = KEYS, **options: Any) -> list[str]:
    return texts(inspect_log.read_eval_log_sample(log, *key, **options) for key in keys)


# Equality


def test_each_sample_of_each_log_equals_inspects(
    logs: Path, index: evalindex.Index, directory_reads: list[object]
) -> None:
    compared, differing, looked = 0, [], {}
    for log in sorted(logs.rglob("*.eval")):
        if "chunked" in log.name:  # inspect itself cannot read those
            continue
        keys = [(row.id, row.epoch) for row in index.samples(log)]
        counts = []
        for group in (keys[:3] + keys[3:][-1:], [("no such id", 1)]):
            del directory_reads[:]
            for id, epoch in group:
                for resolve in RESOLVE:
                    for exclude in EXCLUSIONS:
                        args: Any = (log, id, epoch, None, resolve, "auto", exclude)
                        ours = partial(bridge.read_eval_log_sample, *args, index=index)
                        theirs = partial(inspect_log.read_eval_log_sample, *args)
                        compared += 1
                        if outcome(ours) != outcome(theirs):
                            differing.append(args)
            counts.append(len(directory_reads))
        looked[log.name] = counts
    assert differing == []
    assert compared > 2_000
    # That a sample is absent is proved from the log, once for all of these.
    assert set(map(tuple, looked.values())) == {(0, 1)}


# Batches


def test_a_batch_has_the_order_of_its_keys_and_an_object_for_each(logs: Path) -> None:
    keys: list[tuple[str | int, int]] = [(3, 2), (1, 1), (3, 2), ("2", 1)]
    found = bridge.read_eval_log_samples_by_id(logs / INT_LOG, (key for key in keys))
    assert texts(found) == by_inspect(logs / INT_LOG, keys)
    assert found[0] is not found[2]
    found[0].metadata["changed"] = True
    assert "changed" not in found[2].metadata
    assert bridge.read_eval_log_samples_by_id(logs / INT_LOG, []) == []


def test_all_that_is_missing_is_named(logs: Path) -> None:
    keys: list[Any] = [(1, 1), *((number, 1) for number in range(1001, 1016)), ("none", 7)]
    with pytest.raises(IndexError) as caught:
        bridge.read_eval_log_samples_by_id(logs / INT_LOG, keys)
    assert type(caught.value) is IndexError
    for id, epoch in keys[1:]:
        assert f"id {id} for epoch {epoch}" in str(caught.value)
    assert "id 1 for" not in str(caught.value)


@pytest.mark.parametrize("content", [b"", b"a text, no archive"])
def test_what_is_no_archive_is_a_value_error(tmp_path: Path, content: bytes) -> None:
    log = tmp_path / "run.eval"
    log.write_bytes(content)
    for room in (bridge, inspect_log):
        with pytest.raises(ValueError) as caught:  # noqa: PT011
            room.read_eval_log_sample(log, 1)
        assert type(caught.value) is ValueError
    with pytest.raises(ValueError, match=re.escape(str(log))) as caught:
        bridge.read_eval_log_samples_by_id(log, [(1, 1)])
    assert type(caught.value) is ValueError


def test_a_log_that_is_not_there_is_a_file_not_found_error(tmp_path: Path) -> None:
    log = tmp_path / "none.eval"
    for read in (
        lambda: bridge.read_eval_log_sample(log, 1),
        lambda: bridge.read_eval_log_samples_by_id(log, [(1, 1)]),
        lambda: anyio.run(bridge.read_eval_log_sample_async, log, 1),
    ):
        with pytest.raises(FileNotFoundError) as caught:
            read()
        assert type(caught.value) is FileNotFoundError
        assert (caught.value.errno, caught.value.filename) == (errno.ENOENT, str(log))


def test_json_logs_are_left_to_inspect(logs: Path) -> None:
    log = logs / "finished_int_2epochs.json"
    assert texts(bridge.read_eval_log_samples_by_id(log, KEYS)) == by_inspect(log)
    assert [text(bridge.read_eval_log_sample(log, *key)) for key in KEYS] == by_inspect(log)


def test_the_format_counts_and_not_the_extension(
    logs: Path, index: evalindex.Index, tmp_path: Path
) -> None:
    log = tmp_path / "run.zip"
    shutil.copyfile(logs / INT_LOG, log)
    expected = by_inspect(logs / INT_LOG)
    options: Any = {"format": "eval", "index": index}
    assert texts(bridge.read_eval_log_samples_by_id(log, KEYS, **options)) == expected
    assert text(bridge.read_eval_log_sample(log, *KEYS[0], **options)) == expected[0]
    with pytest.raises(ValueError, match=r".") as theirs:
        inspect_log.read_eval_log_sample(log, 1)
    for read in (
        lambda: bridge.read_eval_log_sample(log, 1),
        lambda: bridge.read_eval_log_samples_by_id(log, [(1, 1)]),
    ):
        with pytest.raises(ValueError, match=re.escape(str(theirs.value))):
            read()


def test_the_format_counts_without_an_index_too(logs: Path, tmp_path: Path) -> None:
    log = tmp_path / "run.zip"
    shutil.copyfile(logs / INT_LOG, log)
    found = bridge.read_eval_log_samples_by_id(log, KEYS, format="eval")
    assert texts(found) == by_inspect(logs / INT_LOG)


@pytest.mark.parametrize("backend", BACKENDS)
def test_the_async_twins_give_the_same(logs: Path, index: evalindex.Index, backend: str) -> None:
    log, missing = logs / INT_LOG, (99, 1)

    async def read() -> Any:
        batch = partial(bridge.read_eval_log_samples_by_id_async, log)
        one = bridge.read_eval_log_sample_async
        for absent in (batch([missing]), one(log, *missing, index=index)):
            with pytest.raises(IndexError):
                await absent
        singles = [await one(log, *key) for key in KEYS]
        return [await batch(KEYS), await batch(iter(KEYS), index=index), singles]

    found = anyio.run(read, backend=backend)
    assert [texts(some) for some in found] == [by_inspect(log)] * 3


def test_the_sync_calls_work_inside_a_running_loop(logs: Path) -> None:
    log = logs / INT_LOG

    async def read() -> Any:
        one = [bridge.read_eval_log_sample(log, *key) for key in KEYS]
        return one, bridge.read_eval_log_samples_by_id(log, KEYS)

    one, batch = asyncio.run(read())
    assert texts(one) == texts(batch) == by_inspect(log)


def test_any_form_of_index_and_log_will_do(
    logs: Path, index: evalindex.Index, directory_reads: list[object]
) -> None:
    (info,) = (i for i in inspect_log.list_eval_logs(str(logs)) if i.name.endswith(INT_LOG))
    expected = by_inspect(logs / INT_LOG)
    for log in (logs / INT_LOG, str(logs / INT_LOG), info):
        for of in (None, index, logs, str(logs)):
            found = bridge.read_eval_log_samples_by_id(log, KEYS, index=of)
            assert texts(found) == expected
            assert text(bridge.read_eval_log_sample(log, *KEYS[0], index=of)) == expected[0]
    assert directory_reads == []


def test_a_log_without_an_index_is_read_too(logs: Path, tmp_path: Path) -> None:
    log = tmp_path / INT_LOG
    shutil.copyfile(logs / INT_LOG, log)
    assert texts(bridge.read_eval_log_samples_by_id(log, KEYS)) == by_inspect(log)


def test_a_uuid_alone_gives_what_inspect_gives(logs: Path, index: evalindex.Index) -> None:
    log = logs / INT_LOG
    expected = inspect_log.read_eval_log_sample(log, 2, 2)
    assert expected.uuid
    found = bridge.read_eval_log_sample(log, uuid=expected.uuid, index=index)
    later = anyio.run(partial(bridge.read_eval_log_sample_async, log, uuid=expected.uuid))
    assert text(found) == text(later) == text(expected)
    with pytest.raises(IndexError):
        bridge.read_eval_log_sample(log, uuid="none", index=index)
    with pytest.raises(ValueError, match="uuid"):
        bridge.read_eval_log_sample(log, index=index)


# Chunked samples


def rich_sample(id: int, epoch: int, *_: object) -> Any:
    """Attachments in messages, events, calls and metadata; an answer that is given twice."""
    from inspect_ai.event import ModelEvent
    from inspect_ai.model import (
        ChatMessageAssistant,
        ChatMessageUser,
        GenerateConfig,
        ModelCall,
        ModelOutput,
    )

    messages: list[Any] = []
    events: list[Any] = []
    for turn in range(7):
        messages.append(ChatMessageUser(content=f"{turn} of {id}: " + "long question " * 50))
        output = ModelOutput.from_content("mockllm/model", "the same answer")
        call = ModelCall.create({"turn": turn, "text": "request " * 100}, {"text": "reply " * 99})
        event = ModelEvent(
            model="mockllm/model",
            input=list(messages),
            tools=[],
            tool_choice="none",
            config=GenerateConfig(),
            output=output,
            call=call,
        )
        events.append(event)
        messages.append(ChatMessageAssistant(content="the same answer"))
    sample = inspect_log.EvalSample(
        **minimal(id=id, epoch=epoch, messages=messages, events=events, output=output),
        metadata={"note": "metadata " * 100},
    )
    return condense_sample(sample, log_images=True)


@pytest.fixture(params=["shared", "converted"])
def converted(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> tuple[Path, Path]:
    """A log, and the same one after conversion."""
    if request.param == "shared":
        copied_logs: Path = request.getfixturevalue("copied_logs")
        return copied_logs / "finished_rich_attachments.eval", copied_logs / "chunked_rich.eval"
    monkeypatch.setattr(maker(), "_sample", rich_sample)
    make_logs(tmp_path / "made", logs=1, samples=2, epochs=2)
    (log,) = (tmp_path / "made").iterdir()
    convert_eval_logs_to_chunked(
        str(log), str(tmp_path / "chunked"), chunk_size=3, attachments_chunk_bytes=2_000
    )
    return log, tmp_path / "chunked" / log.name


def differences(a: Any, b: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Where two documents differ, but for the ids of messages: the converter keeps one message of
    those that say the same."""
    if isinstance(a, dict) and isinstance(b, dict) and a.keys() == b.keys():
        for name in a:
            if not (name == "id" and "role" in a and path):
                yield from differences(a[name], b[name], (*path, name))
    elif isinstance(a, list) and isinstance(b, list) and len(a) == len(b):
        for number, (one, other) in enumerate(zip(a, b, strict=True)):
            yield from differences(one, other, (*path, number))
    elif json.dumps(a) != json.dumps(b):
        yield path


def dereferenced(sample: dict[str, Any]) -> Any:
    attachments = sample.pop("attachments")
    assert attachments

    def put(value: Any) -> Any:
        if isinstance(value, dict):
            return {name: put(v) for name, v in value.items()}
        if isinstance(value, list):
            return [put(v) for v in value]
        if isinstance(value, str):
            return re.sub("attachment://([0-9a-f]+)", lambda m: attachments[m[1]], value)
        return value

    return put(sample)


@pytest.mark.parametrize("indexed", [True, False])
def test_a_chunked_sample_is_the_one_before_conversion(
    converted: tuple[Path, Path], indexed: bool
) -> None:
    before, after = converted
    if indexed:
        evalindex.build(after.parent)
    with evalindex.open(after) as index:
        keys = [(row.id, row.epoch) for row in index.samples(after)]
        assert keys
        assert any(name.endswith("/events/3.json") for name in index.member_names(after)) or (
            "rich" in before.name
        )
        for id, epoch in keys:
            read = partial(index.read, after, id, epoch, as_="sample")
            whole = inspect_log.read_eval_log_sample(before, id, epoch, None, "full")
            found = read(resolve_attachments="full")
            assert list(differences(document(found), document(whole))) == []
            assert "attachment://" not in text(found)
            kept = inspect_log.read_eval_log_sample(before, id, epoch)
            pair = dereferenced(document(read())), dereferenced(document(kept))
            assert list(differences(*pair)) == []


# Inspect's functions with our reader


@pytest.mark.parametrize("backend", BACKENDS)
def test_inspects_functions_work_with_our_reader(
    logs: Path, index: evalindex.Index, backend: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in (INT_LOG, "finished_with_timelines.eval", "finished_rich_attachments.eval"):
        log = logs / name
        rows = list(index.samples(log))
        keys = [(row.id, row.epoch) for row in rows]
        exclude = {"store", "messages"}
        expected = by_inspect(log, keys)
        without = by_inspect(log, keys, exclude_fields=exclude)
        uuids = [json.loads(sample)["uuid"] for sample in expected]
        reader = bridge.reader(index, log)

        async def read(log: Path, keys: Any, uuids: Any, reader: Any, exclude: Any) -> Any:
            one: Any = partial(inspect_log.read_eval_log_sample_async, log, reader=reader)
            batch = partial(read_samples_by_id_async(), log, keys, reader=reader)
            with pytest.raises(IndexError):
                await one("none")
            with pytest.raises(IndexError):
                await one(uuid="none")
            return (
                [await one(*key) for key in keys],
                await batch(),
                [await one(uuid=uuid) for uuid in uuids],
                [await one(*key, exclude_fields=exclude) for key in keys],
                await batch(exclude_fields=exclude),
            )

        with monkeypatch.context() as patch:
            patch.setattr(inspects_zip, "_parse_central_directory", refuse)
            with pytest.raises(AssertionError):
                inspect_log.read_eval_log_sample(log, *keys[0])
            found = anyio.run(read, log, keys, uuids, reader, exclude, backend=backend)
        assert [texts(f) for f in found] == [*[expected] * 3, *[without] * 2]


def read_samples_by_id_async() -> Any:
    return guard.inspect_function("read_eval_log_samples_by_id_async")


async def refuse(*_: object, **__: object) -> Any:
    raise AssertionError("inspect reads a directory")


def test_our_own_twins_take_a_reader(logs: Path, index: evalindex.Index) -> None:
    reader = bridge.reader(index, logs / INT_LOG)
    one = partial(bridge.read_eval_log_sample_async, logs / INT_LOG, *KEYS[0], reader=reader)
    some = partial(bridge.read_eval_log_samples_by_id_async, logs / INT_LOG, KEYS, reader=reader)
    assert [text(anyio.run(one))] == by_inspect(logs / INT_LOG, KEYS[:1])
    assert texts(anyio.run(some)) == by_inspect(logs / INT_LOG)


@pytest.mark.parametrize("exclude", [None, {"store"}])
def test_a_reader_sees_a_log_that_is_rewritten(made: Path, exclude: set[str] | None) -> None:
    log, other = sorted(made.iterdir())
    evalindex.build(made)
    with evalindex.open(made) as index:
        read: Any = partial(
            inspect_log.read_eval_log_sample_async,
            log,
            2,
            reader=bridge.reader(index, log),
            exclude_fields=exclude,
        )
        old = by_inspect(log, [(2, 1)], exclude_fields=exclude)
        assert [text(anyio.run(read))] == old
        shutil.copyfile(other, log)
        new = by_inspect(log, [(2, 1)], exclude_fields=exclude)
        assert new != old
        assert [text(anyio.run(read))] == new


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize(
    "backend",
    [
        "asyncio",
        "trio",
    ],
)
@pytest.mark.parametrize("id", ["absent", 1])
def test_a_reader_still_works_after_an_error(made: Path, backend: str, id: str | int) -> None:
    log = min(made.iterdir())
    name = sample_member(1).encode()
    data = bytearray(log.read_bytes())
    data[data.index(name) + len(name) + 60] ^= 255
    log.write_bytes(data)
    expected = by_inspect(log, [(2, 1)], exclude_fields={"store"})

    async def read(reader: Any) -> Any:
        one: Any = partial(inspect_log.read_eval_log_sample_async, log, reader=reader)
        with pytest.raises(IndexError if id == "absent" else evalindex.CorruptMember):
            await one(id, exclude_fields={"store"})
        return await one(2, exclude_fields={"store"})

    try:
        with evalindex.open(log) as index:
            found = anyio.run(read, bridge.reader(index, log), backend=backend)
        assert [text(found)] == expected
    finally:
        gc.collect()  # what was left half done says so here, not in another test


# Errors


def test_a_timeline_without_its_events_is_an_invalid_sample(
    logs: Path, index: evalindex.Index
) -> None:
    log = logs / "finished_with_timelines.eval"
    keys = [(row.id, row.epoch) for row in index.samples(log)]
    options: Any = {"as_": "sample", "exclude_fields": {"events"}}
    with pytest.raises(evalindex.SampleInvalid, match="ValidationError") as caught:
        index.read(log, *keys[0], **options)
    assert type(caught.value.__cause__) is ValidationError
    whole = index.read(log, *keys[0], as_="sample", exclude_fields={"events", "timelines"})
    assert whole.events == []
    found = index.read_samples(log, keys, errors="return", **options)
    assert [type(error) for error in found] == [evalindex.SampleInvalid] * len(keys)
    assert index.read_samples(log, keys, errors="skip", **options) == []
    for room in (bridge, inspect_log):
        with pytest.raises(ValidationError):
            room.read_eval_log_sample(log, *keys[0], exclude_fields={"events"})


def test_the_hint_says_to_exclude_timelines_too(logs: Path, index: evalindex.Index) -> None:
    log = logs / "finished_with_timelines.eval"
    with pytest.raises(evalindex.SampleInvalid) as caught:
        index.read(log, "s1", as_="sample", exclude_fields={"events"})
    assert "timelines" in (caught.value.hint or "")


@pytest.mark.parametrize("exclude", [None, {"store"}])
def test_bytes_that_are_not_the_sample_are_corrupt(
    tmp_path: Path, exclude: set[str] | None
) -> None:
    bodies = [
        b"not JSON",
        encoded(minimal(id=7)),
        encoded(minimal(id=2, epoch=2)),
        encoded(minimal(id=3)),
    ]
    entries = [Entry(sample_member(id).encode(), body) for id, body in enumerate(bodies)]
    log = tmp_path / "run.eval"
    log.write_bytes(archive([*entries, Entry(b"header.json", b"{}")]))
    with evalindex.open(log) as index:
        options: Any = {"as_": "sample", "exclude_fields": exclude}
        found = index.read_samples(log, range(4), errors="return", **options)
        assert [type(f) for f in found[:3]] == [evalindex.CorruptMember] * 3
        assert found[3].id == 3
        assert [s.id for s in index.read_samples(log, range(4), errors="skip", **options)] == [3]
        for id in range(3):
            with pytest.raises(evalindex.CorruptMember):
                index.read(log, id, **options)
            with pytest.raises(evalindex.CorruptMember):
                bridge.read_eval_log_sample(log, id, exclude_fields=exclude, index=index)


def test_only_inspect_resolves_attachments(logs: Path, index: evalindex.Index) -> None:
    options: Any = {"resolve_attachments": True}
    for as_ in ("dict", "bytes"):
        with pytest.raises(ValueError, match="resolve_attachments"):
            index.read_samples(logs / INT_LOG, KEYS, as_=as_, **options)


# Pools of version 3


@pytest.fixture
def warned(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> Callable[[], list[str]]:
    """What was said of pools; nothing was said before."""
    monkeypatch.setattr(samples, "_looked_at", {})

    def said() -> list[str]:
        lines = [r.getMessage() for r in caplog.records if r.name == "evalindex"]
        return [line for line in lines if "message pools" in line]

    return said


def read_all(index: evalindex.Index, log: Path) -> list[Any]:
    rows = list(index.samples(log))
    return index.read_samples(log, rows, as_="sample", errors="return")


def test_old_pools_are_kept_but_by_inspect_which_is_said_once(
    logs: Path, index: evalindex.Index, warned: Callable[[], list[str]]
) -> None:
    log = logs / V3_LOG
    rows = list(index.samples(log))
    members = members_by_zipfile(log)
    expected = [members[sample_member(row.id, row.epoch)] for row in rows]
    assert index.read_samples(log, rows, as_="bytes") == expected
    assert index.read_samples(log, rows) == [json.loads(data) for data in expected]
    assert all(json.loads(data)["message_pool"] for data in expected)
    assert warned() == []
    assert len(read_all(index, log)) == 6
    read_all(index, log)
    (line,) = warned()
    assert str(log) in line
    assert "format version 3" in line


def test_of_other_logs_nothing_is_said(
    logs: Path, index: evalindex.Index, warned: Callable[[], list[str]]
) -> None:
    others = [log for log in logs.glob("*.eval") if log.name not in (V3_LOG, *EMPTY_POOLS)]
    assert sum(len(read_all(index, log)) for log in others) > 200
    assert warned() == []


@pytest.mark.parametrize("name", EMPTY_POOLS)
def test_of_empty_pools_nothing_is_said(
    logs: Path, index: evalindex.Index, warned: Callable[[], list[str]], name: str
) -> None:
    assert json.loads(members_by_zipfile(logs / name)["header.json"])["version"] == 2
    assert len(read_all(index, logs / name)) == 6
    assert warned() == []


def test_a_mention_of_pools_is_none(tmp_path: Path, warned: Callable[[], list[str]]) -> None:
    nested = {"message_pool": [1], "call_pool": [2]}
    documents = [
        minimal(id=1, metadata=nested),
        minimal(id=2, metadata={"text": '"message_pool": [1], "call_pool":'}),
    ]
    log = write_log(tmp_path / "run.eval", documents)
    with evalindex.open(log) as index:
        assert index.read(log, 1, as_="sample").metadata == nested
        index.read(log, 2, as_="sample")
    assert warned() == []


# What inspect has to be


WITHOUT = """
import sys
class Blocked:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == "inspect_ai":
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
sys.meta_path.insert(0, Blocked())
import evalindex, evalindex.inspect_ai as bridge
log = sys.argv[1]
with evalindex.open(log) as index:
    assert index.read(log, 1)["id"] == 1
    assert b'"id": 1' in index.read(log, 1, as_="bytes")
    try:
        eval(sys.argv[2])
    except Exception as error:
        print(type(error).__name__, error)
assert "inspect_ai" not in sys.modules
"""


@pytest.mark.parametrize(
    "read",
    [
        'index.read(log, 1, as_="sample")',
        "bridge.read_eval_log_sample(log, 1)",
        'bridge.read_eval_log_sample(log, uuid="u")',
    ],
)
def test_without_inspect_all_but_its_samples_works(tmp_path: Path, read: str) -> None:
    log = write_log(tmp_path / "run.eval", [minimal(id=1, uuid="u")])
    command = [sys.executable, "-c", WITHOUT, str(log), read]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.startswith("MissingExtra ")
    assert "evalindex[inspect]" in done.stdout


async def takes_no_reader(*_: object) -> None: ...


async def waits(*_: object, reader: Any, **__: object) -> None:  # noqa: ARG001
    await asyncio.sleep(0)


async def sleeps(*_: object, reader: Any, **__: object) -> None:  # noqa: ARG001
    await anyio.sleep(0.01)


async def wants_more(*_: object, reader: Any, **__: object) -> None:
    await reader.entries()


@pytest.mark.parametrize(
    ("function", "reason"),
    [
        (takes_no_reader, "takes no reader"),
        (waits, "waits for something"),
        (sleeps, "waits for something"),
        (wants_more, "a reader's entries"),
    ],
)
def test_an_inspect_that_works_otherwise_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, function: Any, reason: str
) -> None:
    log = write_log(tmp_path / "run.eval", [minimal(id=1)])
    caches = (guard.inspect_function, guard._read_sample)
    monkeypatch.setattr(inspect_log, "read_eval_log_sample_async", function)
    for cache in caches:
        cache.cache_clear()
    try:
        with evalindex.open(log) as index:
            with pytest.raises(evalindex.UnsupportedInspect, match=reason) as caught:
                index.read(log, 1, as_="sample")
            assert index.read(log, 1)["id"] == 1
    finally:
        for cache in caches:
            cache.cache_clear()
    installed = importlib.import_module("importlib.metadata").version("inspect_ai")
    assert f"inspect_ai {installed}" in str(caught.value)
    assert "0.3.184" in str(caught.value)


# Threads


def test_eight_threads_read_what_one_reads(logs: Path, index: evalindex.Index) -> None:
    log = logs / "finished_rich_attachments.eval"
    rows = list(index.samples(log))
    start = threading.Barrier(8)

    def read(resolve: Any) -> list[str]:
        start.wait(60)
        options: Any = {"as_": "sample", "resolve_attachments": resolve}
        singles = [index.read(log, row.id, row.epoch, **options) for row in rows]
        return texts([*singles, *index.read_samples(log, rows, **options)])

    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(read, RESOLVE * 2))
    keys = [(row.id, row.epoch) for row in rows]
    expected = [by_inspect(log, keys, resolve_attachments=resolve) * 2 for resolve in RESOLVE]
    assert found == expected * 2


def test_names_and_epochs_mean_what_they_mean_to_inspect(
    logs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A relative name starts in the current folder, and nowhere else; an epoch may be text."""
    shutil.copytree(
        logs,
        tmp_path / "r" / "logs" / "logs",
        ignore=lambda _, names: {name for name in names if name != INT_LOG},
    )
    shutil.copyfile(logs / INT_LOG, tmp_path / "r" / "logs" / INT_LOG)
    evalindex.build(tmp_path / "r" / "logs")
    monkeypatch.chdir(tmp_path / "r")
    found = bridge.read_eval_log_samples_by_id(f"logs/{INT_LOG}", [(1, "1")])  # type: ignore[list-item]
    assert [sample.epoch for sample in found] == [1]
    with evalindex.open("logs") as index:
        monkeypatch.chdir(tmp_path)
        for read in (
            inspect_log.read_eval_log_sample,
            partial(bridge.read_eval_log_sample, index=index),
        ):
            with pytest.raises(FileNotFoundError):
                read(INT_LOG, 1)
    (tmp_path / "folder.eval").mkdir()
    with pytest.raises(IsADirectoryError):
        bridge.read_eval_log_sample(tmp_path / "folder.eval", 1)
    with pytest.raises(TypeError, match="open Index"):
        bridge.reader("logs", INT_LOG)  # type: ignore[arg-type]
