"""Chunked samples, written by inspect's own converter: each equals what was converted."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import evalindex
from evalindex import chunked
from evalindex.errors import CorruptMember
from tests.builders import (
    STORED,
    Entry,
    archive,
    change_index,
    encoded,
    members_by_zipfile,
    settle,
)

PREFIX = "samples/a_epoch_1/"


def parts(**changes: Any) -> dict[str, Any]:
    """The documents of a small chunked sample: 5 messages in chunks of 2, 3 events, 1 call."""
    documents: dict[str, Any] = {
        "sample.json": {"id": "a", "epoch": 1, "input": "x", "message_refs": [[0, 2], [4, 5]]},
        "metadata.json": {"k": 1},
        "skeleton.json": {"version": 1},
        "events/stats.json": {},
        "events/uuids.json": [],
        "messages/0.json": ["m0", "m1"],
        "messages/2.json": ["m2", "m3"],
        "messages/4.json": ["m4"],
        "events/0.json": ["e0", "e1"],
        "events/2.json": ["e2"],
        "calls/0.json": ["c0"],
        "attachments/0.json": ["t0"],
        "attachments/1.json": ["t1"],
    }
    documents.update({name.replace("__", "/") + ".json": d for name, d in changes.items()})
    return {name: d for name, d in documents.items() if d is not None}


def assembled(documents: dict[str, Any], exclude: set[str] | None = None) -> dict[str, Any]:
    return chunked.assemble({n: encoded(d) for n, d in documents.items()}, exclude or set())


def write(path: Path, documents: dict[str, Any]) -> Path:
    entries = [Entry(b"_journal/start.json", b"{}")]
    entries += [Entry((PREFIX + n).encode(), encoded(d)) for n, d in documents.items()]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(archive([*entries, Entry(b"header.json", b"{}")]))
    settle(path)
    return path


WHOLE = {
    "id": "a",
    "epoch": 1,
    "input": "x",
    "messages": ["m0", "m1", "m4"],
    "metadata": {"k": 1},
    "events": ["e0", "e1", "e2"],
    "events_data": {"messages": ["m0", "m1", "m2", "m3", "m4"], "calls": ["c0"]},
    "attachments": {"0": "t0", "1": "t1"},
}


def test_parts_become_the_single_member_shape() -> None:
    assert assembled(parts()) == WHOLE


def test_what_has_no_items_has_no_chunks() -> None:
    empty = {"sample.json": {"id": "a", "epoch": 1, "message_refs": []}}
    assert assembled(empty) == {
        "id": "a",
        "epoch": 1,
        "messages": [],
        "metadata": {},
        "events": [],
        "events_data": {"messages": [], "calls": []},
        "attachments": {},
    }


@pytest.mark.parametrize(
    "excluded",
    [{"events", "events_data"}, {"messages"}, {"attachments"}, {"metadata", "input"}, set(WHOLE)],
)
def test_excluded_fields_are_left_out(excluded: set[str]) -> None:
    found = assembled(parts(), excluded)
    assert found == {name: value for name, value in WHOLE.items() if name not in excluded}


@pytest.mark.parametrize("sequence", ["messages", "events", "attachments"])
def test_an_excluded_sequence_is_not_parsed(sequence: str) -> None:
    documents = {name: encoded(d) for name, d in parts().items()}
    documents[f"{sequence}/0.json"] = b"not JSON"
    excluded = {sequence, "events", "events_data", "messages"}
    assert sequence not in chunked.assemble(documents, excluded)
    with pytest.raises(CorruptMember):
        chunked.assemble(documents, set())


@pytest.mark.parametrize(
    "change",
    [
        {"messages__0": ["m0"]},
        {"messages__0": ["m0", "m1", "extra"]},
        {"messages__0": None},
        {"messages__2": None},
        {"messages__4": []},
        {"messages__4": {"a": 1}},
        {"events__0": ["e0"]},
        {"attachments__0": None},
        {"sample": ["no", "object"]},
        {"sample": {"id": "a", "epoch": 1, "message_refs": [[0, 6]]}},
        {"sample": {"id": "a", "epoch": 1, "message_refs": [[-1, 1]]}},
        {"sample": {"id": "a", "epoch": 1, "message_refs": [[2, 1]]}},
        {"sample": {"id": "a", "epoch": 1, "message_refs": [[0, 2**70]]}},
        {"sample": {"id": "a", "epoch": 1, "message_refs": [[0]]}},
        {"sample": {"id": "a", "epoch": 1, "message_refs": 7}},
        {"sample": {"id": "a", "epoch": 1, "message_refs": [[0, 1.5]]}},
    ],
    ids=str,
)
def test_parts_that_do_not_fit_together_are_corrupt(change: dict[str, Any]) -> None:
    with pytest.raises(CorruptMember):
        assembled(parts(**change))


@pytest.fixture(params=["indexed", "unindexed"])
def log(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    log = write(tmp_path / "logs" / "run.eval", parts())
    if request.param == "indexed":
        evalindex.build(log.parent)
    return log


def test_each_form_of_a_read(log: Path) -> None:
    with evalindex.open(log) as index:
        assert index.read(log, "a") == WHOLE
        assert (
            index.read_samples(log, ["a", "a"], exclude_fields="events")
            == [{n: v for n, v in WHOLE.items() if n not in ("events", "events_data")}] * 2
        )
        with pytest.raises(evalindex.UnsupportedMember, match="chunked sample of 13 members"):
            index.read(log, "a", as_="bytes")
        with pytest.raises(evalindex.UnsupportedMember, match="read_member"):
            index.stream(log, "a")
        with pytest.raises(evalindex.SampleNotFound):
            index.read(log, "b")
        bad = index.read_samples(log, ["a", "b"], errors="return", as_="bytes")
        assert [type(e) for e in bad] == [evalindex.UnsupportedMember, evalindex.SampleNotFound]


def test_each_member_can_be_read(log: Path) -> None:
    with evalindex.open(log) as index:
        for name, data in members_by_zipfile(log).items():
            assert index.read_member(log, name) == data
            with index.stream_member(log, name) as stream:
                assert stream.read() == data
        assert set(index.member_names(log)) == members_by_zipfile(log).keys()
        for name in ("samples/b_epoch_1/sample.json", "", "a\0b", "\ud800"):
            with pytest.raises(evalindex.MemberNotFound):
                index.read_member(log, name)


@pytest.mark.parametrize("field", ["messages", "events"])
@pytest.mark.parametrize("start", range(5))
@pytest.mark.parametrize("stop", [*range(5), 99, None])
def test_a_slice_is_that_of_the_whole(log: Path, field: Any, start: int, stop: int | None) -> None:
    with evalindex.open(log) as index:
        found = index.read_slice(log, "a", field=field, start=start, stop=stop)
    assert found == WHOLE[field][start:stop]  # type: ignore[index]


def test_a_slice_touches_only_its_chunks(tmp_path: Path) -> None:
    documents = parts(events__2="no list", messages__4="no list", calls__0="no list")
    log = write(tmp_path / "run.eval", documents)
    with evalindex.open(log) as index:
        assert index.read_slice(log, "a", field="events", stop=2) == ["e0", "e1"]
        assert index.read_slice(log, "a", field="messages", stop=2) == ["m0", "m1"]
        with pytest.raises(CorruptMember):
            index.read_slice(log, "a", field="events", start=1, stop=3)
        with pytest.raises(CorruptMember):
            index.read_slice(log, "a", field="messages", start=2)


def test_a_slice_of_a_single_member(tmp_path: Path) -> None:
    document = {"id": 7, "epoch": 1, "events": [1, 2, 3], "messages": ["a", "b"]}
    entries = [Entry(b"samples/7_epoch_1.json", encoded(document)), Entry(b"header.json", b"{}")]
    log = tmp_path / "run.eval"
    log.write_bytes(archive(entries))
    with evalindex.open(log) as index:
        assert index.read_slice(log, 7, field="events", start=1) == [2, 3]
        assert index.read_slice(log, 7, field="messages", stop=1) == ["a"]
        with pytest.raises(evalindex.SampleNotFound):
            index.read_slice(log, 8, field="events")
        wrong: Any = "input"
        for options in ({"field": wrong}, {"field": "events", "start": -1}):
            with pytest.raises(ValueError, match=r"field|0 or more"):
                index.read_slice(log, 7, **options)


def test_another_samples_parts_are_corrupt(tmp_path: Path) -> None:
    log = write(tmp_path / "run.eval", parts(sample={"id": "b", "epoch": 1}))
    with evalindex.open(log) as index:
        for read in (
            lambda: index.read(log, "a"),
            lambda: index.read_slice(log, "a", field="events"),
        ):
            with pytest.raises(CorruptMember, match="holds id 'b'"):
                read()


def test_one_damaged_part_spoils_its_sample_alone(tmp_path: Path) -> None:
    log = write(tmp_path / "run.eval", parts())
    data = bytearray(log.read_bytes())
    data[data.index(b'["e2"]') + 2] ^= 1
    log.write_bytes(data)
    with evalindex.open(log) as index:
        found = index.read_samples(log, ["a", "b"], errors="return")
        assert [type(e) for e in found] == [CorruptMember, evalindex.SampleNotFound]
        assert index.read_slice(log, "a", field="events", stop=2) == ["e0", "e1"]


def test_all_parts_are_of_one_version(tmp_path: Path) -> None:
    """Rewritten between two windows with every part in another place: all new, never mixed."""
    log = write(tmp_path / "logs" / "run.eval", parts())
    evalindex.build(log.parent)
    with evalindex.open(log.parent) as index:
        assert index.read(log, "a") == WHOLE
        write(log, dict(reversed(parts(events__2=["new"], messages__4=["new"]).items())))
        sample = index.read(log, "a")
    assert sample["events"] == ["e0", "e1", "new"]
    assert sample["messages"] == ["m0", "m1", "new"]


@pytest.mark.parametrize(
    "lost", ["sample.json", "messages/2.json", "events/2.json", "attachments/1.json"]
)
def test_a_part_that_the_index_lost_is_found_in_the_log(tmp_path: Path, lost: str) -> None:
    log = write(tmp_path / "logs" / "run.eval", parts())
    evalindex.build(log.parent)
    change_index(
        log.parent / "evalindex.db", f"UPDATE member SET name = 'x' WHERE name = '{PREFIX + lost}'"
    )
    with evalindex.open(log.parent) as index:
        assert index.read(log, "a") == WHOLE


def test_the_single_member_wins_where_both_shapes_are(tmp_path: Path) -> None:
    """As in inspect's classify_sample_shape."""
    both = [Entry((PREFIX + n).encode(), encoded(d)) for n, d in parts().items()]
    single = {"id": "a", "epoch": 1, "single": True}
    both.append(Entry(b"samples/a_epoch_1.json", encoded(single), STORED))
    log = tmp_path / "run.eval"
    log.write_bytes(archive(both))
    with evalindex.open(log) as index:
        assert index.read(log, "a") == single


def test_the_budget_counts_all_parts(tmp_path: Path) -> None:
    big = parts(attachments__0=["x" * 300_000])
    log = write(tmp_path / "logs" / "run.eval", big)
    evalindex.build(log.parent)
    with evalindex.open(log.parent, max_bytes=100_000) as index:
        samples = [index.read(log, "a") for _ in range(3)]
        assert json.dumps(samples[0]) == json.dumps(samples[2])
        several = index.read_samples(log, ["a"] * 3)
        assert several == samples


def test_a_shell_alone_is_a_chunked_sample(tmp_path: Path) -> None:
    """A sample is chunked by its name, not by how many members it has."""
    document = {"id": "a", "epoch": 1, "message_refs": [[0, 1]]}
    log = write(tmp_path / "run.eval", {"sample.json": document})
    with evalindex.open(log) as index:
        with pytest.raises(CorruptMember, match="more items than it has"):
            index.read_slice(log, "a", field="messages")
        with pytest.raises(evalindex.UnsupportedMember):
            index.stream(log, "a")
        assert index.read_slice(log, "a", field="events") == []


def test_rows_that_are_left_of_a_chunked_sample_do_not_pass_for_it(tmp_path: Path) -> None:
    log = write(tmp_path / "logs" / "run.eval", parts())
    evalindex.build(log.parent)
    change_index(
        log.parent / "evalindex.db", f"DELETE FROM member WHERE name NOT LIKE '{PREFIX}sample%'"
    )
    with evalindex.open(log.parent) as index:
        assert index.read_slice(log, "a", field="messages") == WHOLE["messages"]
    with evalindex.open(log.parent) as index, pytest.raises(evalindex.UnsupportedMember):
        index.stream(log, "a")


def test_few_bytes_of_references_are_not_any_number_of_messages(tmp_path: Path) -> None:
    many = {"id": "a", "epoch": 1, "message_refs": [[0, 1000]] * 200_000}
    documents = {"sample.json": many, "messages/0.json": ["m"] * 1000}
    with pytest.raises(CorruptMember, match="over and over"):
        assembled(documents)
    log = write(tmp_path / "run.eval", documents)
    with evalindex.open(log) as index:
        with pytest.raises(CorruptMember, match="over and over"):
            index.read_slice(log, "a", field="messages")
        assert index.read_slice(log, "a", field="messages", start=998, stop=1003) == ["m"] * 5


def test_another_sample_whose_id_looks_like_a_part_is_none(tmp_path: Path) -> None:
    other = {"id": "a_epoch_1/x", "epoch": 1}
    documents = parts()
    entries = [Entry((PREFIX + n).encode(), encoded(d)) for n, d in documents.items()]
    entries.append(Entry((PREFIX + "x_epoch_1.json").encode(), encoded(other), crc32=1))
    log = tmp_path / "run.eval"
    log.write_bytes(archive(entries))
    with evalindex.open(log) as index:
        assert index.read(log, "a") == WHOLE
        with pytest.raises(CorruptMember):
            index.read(log, "a_epoch_1/x")


def test_to_change_a_message_does_not_change_the_pool() -> None:
    documents = parts(messages__0=[{"m": 0}, {"m": 1}])
    found = assembled(documents)
    found["messages"][0]["m"] = "changed"
    assert found["events_data"]["messages"][0] == {"m": 0}


@pytest.mark.parametrize("value", [{"a": 1}, "abc", 7])
def test_a_slice_of_what_is_no_list_is_corrupt(tmp_path: Path, value: Any) -> None:
    document = {"id": 7, "epoch": 1, "events": value, "messages": None}
    log = tmp_path / "run.eval"
    log.write_bytes(archive([Entry(b"samples/7_epoch_1.json", encoded(document))]))
    with evalindex.open(log) as index:
        with pytest.raises(CorruptMember, match="no list"):
            index.read_slice(log, 7, field="events")
        assert index.read_slice(log, 7, field="messages") == []
