"""Documents of any kind as rows, and what is not parsed again."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from inspect_ai.log import (
    EvalConfig,
    EvalDataset,
    EvalLog,
    EvalMetric,
    EvalResults,
    EvalScore,
    EvalSpec,
    HeadlineMetric,
    headline_metric,
)

import evalindex
from evalindex import documents
from evalindex.documents import read_body, read_log, read_summaries
from evalindex.errors import CorruptMember, EvalIndexError
from evalindex.headers import read_header
from evalindex.records import Facts
from evalindex.summaries import add_body, add_summaries
from tests.builders import encoded, members_by_zipfile, query, sample, sample_member, settle

BIG = 2**70
VERSION = "0.3.285"


def header(**fields: Any) -> dict[str, Any]:
    dataset = {"name": "d", "samples": 3, "sample_ids": [1, 2, 3]}
    spec = {"task": "t", "task_id": "tid", "created": "2026-01-01T00:00:00+00:00", "model": "m",
        "packages": {"inspect_ai": VERSION}, "dataset": dataset, "config": {}}  # fmt: skip
    spec.update(fields.pop("eval", {}))
    return {"version": 2, "status": "success", "eval": spec, **fields}


def write(path: Path, members: list[tuple[str, Any]]) -> Path:
    """A log of these members; text and bytes as they are, other documents as JSON."""
    with zipfile.ZipFile(path, "w") as archive:
        for name, document in members:
            data = document if isinstance(document, bytes | str) else encoded(document)
            archive.writestr(name, data)
    settle(path)
    return path


def body(id: str | int, epoch: int = 1, **fields: Any) -> tuple[str, dict[str, Any]]:
    return sample_member(id, epoch), sample(id, epoch, **fields)


def rows_of(path: Path) -> list[evalindex.SampleRow]:
    """The samples of a log, once from the index and once from the log read just now: alike."""
    evalindex.build(path.parent)
    with evalindex.open(path.parent) as index:
        rows = list(index.find(path))
    evalindex.build(path.parent, summaries=False, full=True)
    with evalindex.open(path.parent) as index:
        live = list(index.find(path))
    assert [_comparable(row) for row in live] == [_comparable(row) for row in rows]
    return rows


def _comparable(row: evalindex.SampleRow) -> str:
    return repr({**row.as_dict(), "checked": 0, "scores": sorted(row.scores.items())})


def log_row(path: Path) -> evalindex.LogRow:
    evalindex.build(path.parent)
    with evalindex.open(path.parent) as index:
        (row,) = index.logs(path)
    return row


# --- hostile documents ---------------------------------------------------------------------

_WRONG = [True, 1.5, "x", "", [], {}, [[]], {"a": []}, None, BIG, -BIG, "\ud800", float("nan")]


@pytest.mark.parametrize("kind", [documents.Summary, documents.Body], ids=["summary", "body"])
def test_a_field_of_a_wrong_type_harms_no_other(kind: Any) -> None:
    """Each field, with each wrong value: the others stay."""
    for field in kind.__struct_fields__:
        for wrong in _WRONG:
            document = {"id": "q", "epoch": 2, "uuid": "u", "input": "i", "target": "t",
                "total_time": 2.5, field: wrong}  # fmt: skip
            try:
                found: Any = (
                    read_body(encoded(document))
                    if kind is documents.Body
                    else read_summaries(encoded([document]))[0]
                )
            except (CorruptMember, IndexError):
                assert field in ("id", "epoch")
                continue
            rest = {"id": "q", "epoch": 2, "uuid": "u", "total_time": 2.5}
            rest.pop(field, None)
            assert {name: getattr(found, name) for name in rest} == rest


def test_wrong_types_in_a_header_harm_no_other_field() -> None:
    for part in ("eval", "results", "stats", "error", "log_updates", "status", "invalidated"):
        for wrong in _WRONG:
            row, _ = read_header(encoded({**header(status="error"), part: wrong}))
            assert row.task == (None if part == "eval" else "t")
            assert part == "status" or row.status == "error"
    for field in documents.Spec.__struct_fields__:
        for wrong in _WRONG:
            row, _ = read_header(encoded(header(eval={field: wrong})))
            assert field == "task" or row.task == "t"
            assert field == "model" or row.model == "m"


def test_numbers_beyond_64_bits(tmp_path: Path) -> None:
    usage = {"m": {"total_tokens": BIG}, "n": {"total_tokens": 5}}
    big = {"id": 1, "epoch": 1, "retries": BIG, "message_count": -BIG, "model_usage": usage,
        "total_time": 1.0, "uuid": "u", "scores": {"s": {"value": BIG}}}  # fmt: skip
    nobody = {"id": 2, "epoch": BIG}
    path = write(
        tmp_path / "a.eval",
        [body(1), ("summaries.json", [big, nobody]),
         ("header.json", header(results={"total_samples": BIG}))],
    )  # fmt: skip
    (row,) = rows_of(path)
    assert (row.id, row.retries, row.message_count, row.uuid) == (1, None, None, "u")
    assert row.total_tokens == 5
    assert row.scores == {"s": str(BIG)}
    assert log_row(path).total_samples is None
    huge = [{"total_tokens": 2**62}] * 4
    many = encoded([{"id": 1, "epoch": 1, "model_usage": dict(zip("abcd", huge, strict=True))}])
    facts: Facts = {}
    add_summaries(facts, read_summaries(many))
    assert facts["1", 1].total_tokens == 2**63 - 1


def test_an_integer_id_beyond_64_bits_is_an_id(tmp_path: Path) -> None:
    summaries = [{"id": BIG, "epoch": 1, "uuid": "u"}]
    path = write(tmp_path / "a.eval", [body(BIG), ("summaries.json", summaries)])
    (row,) = rows_of(path)
    assert (row.id, row.uuid) == (BIG, "u")


def test_lone_surrogates(tmp_path: Path) -> None:
    summaries = [
        {"id": "a\ud800", "epoch": 1},
        {"id": "b", "epoch": 1, "error": "bad \udfff end",
         "scores": {"n\ud800": {"value": "\ud801"}}},
    ]  # fmt: skip
    members = [body("b"), ("summaries.json", summaries), ("header.json", header())]
    row = next(row for row in rows_of(write(tmp_path / "a.eval", members)) if row.id == "b")
    assert row.error == "bad \\udfff end"
    assert row.scores == {"n\\ud800": "\\ud801"}
    with evalindex.open(tmp_path) as index:
        assert [row.id for row in index.find(error="bad * end")] == ["b"]


def test_nan_and_infinity(tmp_path: Path) -> None:
    summaries = (
        '[{"id": 1, "epoch": 1, "scores": {"a": {"value": NaN}, "b": {"value": -Infinity},'
        ' "c": {"value": {"x": NaN}}}, "total_time": NaN, "metadata": {"z": Infinity}}]'
    )
    members = [body(1), ("summaries.json", summaries), ("header.json", header())]
    (row,) = rows_of(write(tmp_path / "a.eval", members))
    assert repr(row.scores["a"]) == "nan"
    assert row.scores["b"] == float("-inf")
    assert row.scores["c"] == '{"x": NaN}'
    assert repr(row.scores["c.x"]) == "nan"


@pytest.mark.parametrize("depth", [500, 100_000])
def test_deep_nesting(tmp_path: Path, depth: int) -> None:
    """Deep metadata is what a log may hold; whatever cannot be read is named, never a crash."""
    deep = "[" * depth + "]" * depth
    text = f'[{{"id": 1, "epoch": 1, "uuid": "u", "metadata": {deep}}}]'
    members = [body(1), ("summaries.json", text), ("header.json", header())]
    path = write(tmp_path / "a.eval", members)
    report = evalindex.build(tmp_path)
    with evalindex.open(tmp_path) as index:
        if report.failures:
            with pytest.raises(EvalIndexError, match="summaries"):
                list(index.find(path))
        else:
            assert [row.uuid for row in index.find(path)] == ["u"]
    assert depth > 1_000 or not report.failures


_NAMES = st.sampled_from(
    [*documents.Summary.__struct_fields__, *documents.Log.__struct_fields__,
     *documents.Spec.__struct_fields__, "value", "total_tokens", "message", "type", "metrics"]
)  # fmt: skip
_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_NAMES, inner, max_size=5),
    max_leaves=15,
)


@settings(max_examples=300, deadline=None)
@given(document=_JSON)
def test_any_json_is_read_or_refused_by_name(document: Any) -> None:
    for text in (json.dumps(document), json.dumps([document]), json.dumps({"eval": document})):
        data = text.encode()
        for reader in (read_log, read_summaries, read_body, read_header):
            try:
                found: Any = reader(data)
            except CorruptMember:
                continue
            if reader is read_summaries:
                add_summaries({}, found)
            if reader is read_body:
                facts: Facts = {}
                add_body(facts, (str(found.id), found.epoch), found)


@settings(max_examples=200, deadline=None)
@given(data=st.binary(max_size=60))
def test_any_bytes_are_read_or_refused_by_name(data: bytes) -> None:
    for reader in (read_log, read_summaries, read_body):
        try:
            reader(data)
        except CorruptMember:
            continue


def test_summaries_that_are_no_list_or_an_empty_one(tmp_path: Path) -> None:
    write(tmp_path / "good.eval", [body(1), ("header.json", header()), ("summaries.json", [])])
    for name, text in (("object", "{}"), ("text", '"x"'), ("cut", '[{"id": 1'), ("none", "")):
        write(tmp_path / f"{name}.eval", [body(1), ("summaries.json", text)])
    report = evalindex.build(tmp_path)
    assert {Path(str(error.log)).stem for error in report.failures} == {
        "object", "text", "cut", "none"}  # fmt: skip
    with evalindex.open(tmp_path) as index:
        answer = index.find()
        assert [(row.path, row.id, row.summarized) for row in answer] == [("good.eval", 1, False)]
        assert len(answer.failures) == 4
        assert index.read(tmp_path / "cut.eval", 1)["id"] == 1  # the sample itself is well


def test_a_summary_without_an_id_is_nobodys(tmp_path: Path) -> None:
    summaries = [{"epoch": 1}, {"id": 1}, {"id": None, "epoch": 1}, {"id": 1.5, "epoch": 1}, 7,
        None, {"id": 2, "epoch": 1, "uuid": "u"}]  # fmt: skip
    path = write(tmp_path / "a.eval", [body(2), ("summaries.json", summaries)])
    assert [(row.id, row.uuid) for row in rows_of(path)] == [(2, "u")]


def test_a_score_named_as_the_entry_of_another(tmp_path: Path) -> None:
    """Both are legal in inspect; a name that two have must not stop a build, or hide a log."""
    scores = {"a": {"value": {"x": 2}}, "a.x": {"value": 1}}
    members = [body(1), ("summaries.json", [one(1, "u", scores=scores)]), ("header.json", header())]
    write(tmp_path / "good.eval", [body(1), ("header.json", header())])
    (row,) = rows_of(write(tmp_path / "a.eval", members))
    assert row.scores["a"] == '{"x": 2}'
    assert row.scores["a.x"] in (1.0, 2.0)


@pytest.mark.parametrize("told", [{"message": "m"}, 5, ["m"], True])
def test_an_error_that_is_not_understood_is_no_success(tmp_path: Path, told: Any) -> None:
    members = [body(1, error={"message": "m"}), ("summaries.json", [one(1, "u", error=told)])]
    path = write(tmp_path / "a.eval", [*members, ("header.json", header())])
    evalindex.build(tmp_path)
    with evalindex.open(tmp_path) as index:
        assert list(index.reusable(path)) == []


@pytest.mark.parametrize("told", ["m", 5, ["m"], True])
def test_an_error_of_a_body_that_is_not_understood_is_no_success(tmp_path: Path, told: Any) -> None:
    members = [body(1, error=told), ("summaries.json", []), ("header.json", header())]
    path = write(tmp_path / "a.eval", members)
    evalindex.build(tmp_path)
    with evalindex.open(tmp_path) as index:
        assert list(index.reusable(path)) == []


# --- journals, doubles, collisions ----------------------------------------------------------


def journal(number: int, *summaries: dict[str, Any]) -> tuple[str, Any]:
    return f"_journal/summaries/{number}.json", list(summaries)


def one(id: str | int, uuid: str, **fields: Any) -> dict[str, Any]:
    return {"id": id, "epoch": 1, "uuid": uuid, **fields}


START = ("_journal/start.json", {"version": 2, "eval": header()["eval"]})


def test_a_journal_is_read_by_its_numbers_whatever_is_missing(tmp_path: Path) -> None:
    """10 after 9; a gap; the last record of a key, in the place of its first."""
    members = [START, *(body(n) for n in (1, 2, 3)),
        journal(10, one(1, "last")), journal(2, one(1, "first"), one(2, "u2")),
        journal(9, one(3, "u3"), one(1, "middle"))]  # fmt: skip
    rows = rows_of(write(tmp_path / "a.eval", members))
    assert [(row.id, row.uuid) for row in rows] == [(1, "last"), (2, "u2"), (3, "u3")]
    assert {row.status for row in rows} == {"started"}


def test_summaries_of_a_finished_log_count_and_not_its_journal(tmp_path: Path) -> None:
    members = [START, body(1), journal(1, one(1, "journal")),
        ("summaries.json", [one(1, "a"), one(1, "b")]), ("header.json", header())]  # fmt: skip
    assert [row.uuid for row in rows_of(write(tmp_path / "a.eval", members))] == ["b"]


@pytest.mark.parametrize(("first", "last"), [(1, "1"), ("1", 1)])
def test_ids_of_one_text(tmp_path: Path, first: Any, last: Any) -> None:
    """There is one member, so one sample: the last; and it is told that there were two."""
    members = [START, body(last), ("summaries.json", [one(first, "a"), one(last, "b")]),
        ("header.json", header())]  # fmt: skip
    path = write(tmp_path / "a.eval", members)
    (row,) = rows_of(path)
    assert (row.id, type(row.id), row.uuid) == (last, type(last), "b")
    with evalindex.open(tmp_path) as index:
        assert [task.collisions for task in index.incomplete(path).tasks] == [1]
        assert index.find(id=1).total == index.find(id="1").total == 1


def test_a_member_without_a_summary_and_a_summary_without_a_member(tmp_path: Path) -> None:
    error = {"message": "CancelledError('x')", "traceback": ""}
    members = [START, body(1), body("x", 2, uuid="ux", error=error, total_time=1.5),
        ("summaries.json", [one(3, "u3"), one(1, "u1")]), ("header.json", header())]  # fmt: skip
    path = write(tmp_path / "a.eval", members)
    rows = rows_of(path)
    assert [(row.id, row.epoch, row.uuid, row.summarized) for row in rows] == [
        (1, 1, "u1", True), ("x", 2, "ux", False)]  # fmt: skip
    assert (rows[1].error, rows[1].cancelled, rows[1].total_time) == (error["message"], True, 1.5)
    with evalindex.open(tmp_path) as index:
        answer = index.incomplete(path)
        assert [(row.id, row.reason) for row in answer] == [(2, "missing"), (3, "missing")]
        assert (answer.tasks[0].unrecorded, answer.tasks[0].unsummarized) == (1, 1)


def test_logs_before_summaries_told_errors_are_read_by_their_samples(tmp_path: Path) -> None:
    old = header(eval={"packages": {"inspect_ai": "0.3.45"}})
    error = {"message": "it broke", "traceback": ""}
    summaries = [{"id": id, "epoch": 1, "input": "i", "target": "t"} for id in (1, 2, 3)]
    members = [START, body(1, error=error), body(2, limit={"type": "time", "limit": 1}), body(3),
        ("summaries.json", summaries), ("header.json", old)]  # fmt: skip
    path = write(tmp_path / "a.eval", members)
    assert [(row.error, row.limit) for row in rows_of(path)] == [
        ("it broke", None), (None, "time"), (None, None)]  # fmt: skip
    with evalindex.open(tmp_path) as index:
        assert [(row.id, row.reason) for row in index.incomplete(path)] == [(1, "error")]
        assert [row.id for row in index.reusable(path)] == [2, 3]


# --- the headline ----------------------------------------------------------------------------

_AB = st.sampled_from("ab")
_METRICS = st.dictionaries(_AB, st.floats(0, 1), min_size=1, max_size=2).map(
    lambda found: {name: EvalMetric(name=name, value=value) for name, value in found.items()}
)
_RESULTS = st.lists(
    st.builds(EvalScore, name=_AB, scorer=_AB, reducer=st.none() | _AB, metrics=_METRICS),
    max_size=3,
)
_PART = st.none() | _AB
_DECLARED = st.none() | st.builds(
    HeadlineMetric, scorer=_PART, score=_PART, metric=_PART, reducer=_PART
)


def test_the_headline_of_a_score_without_metrics() -> None:
    metric = EvalMetric(name="m", value=0.5)
    scores = [
        EvalScore(name="a", scorer="a", metrics={"m": metric}),
        EvalScore(name="b", scorer="b", metrics={}),
    ]
    check_headline(scores, None, HeadlineMetric(scorer="b"))


@settings(max_examples=300, deadline=None)
@given(scores=_RESULTS, resolved=_DECLARED, declared=_DECLARED)
def test_the_headline_is_that_of_inspect(
    scores: list[EvalScore], resolved: HeadlineMetric | None, declared: HeadlineMetric | None
) -> None:
    check_headline(scores, resolved, declared)


def check_headline(
    scores: list[EvalScore], resolved: HeadlineMetric | None, declared: HeadlineMetric | None
) -> None:
    log = EvalLog(
        eval=EvalSpec(created="2026-01-01T00:00:00+00:00", task="t", dataset=EvalDataset(),
            model="m", config=EvalConfig(), headline_metric=declared),
        results=EvalResults(scores=scores, headline=resolved),
    )  # fmt: skip
    theirs = headline_metric(log)
    row, _ = read_header(log.model_dump_json().encode())
    ours = (row.headline_scorer, row.headline_score, row.headline_metric, row.headline_value)
    if theirs is None:
        assert ours == (None, None, None, None)
    else:
        metric = theirs.metric.value
        assert ours == (theirs.score.scorer, theirs.score.name, theirs.name, metric)


# --- what is not parsed again ---------------------------------------------------------------


@pytest.fixture
def parsed(monkeypatch: pytest.MonkeyPatch) -> list[bytes]:
    """The lists of summaries that were parsed."""
    calls: list[bytes] = []

    def counting(data: bytes) -> list[documents.Summary]:
        calls.append(data)
        return read_summaries(data)

    monkeypatch.setattr(documents, "read_summaries", counting)
    return calls


def build(folder: Path) -> int:
    """The summaries_id of the one log, after a build in this process."""
    evalindex.build(folder, jobs=1)
    ((number,),) = query(folder / "evalindex.db", "SELECT summaries_id FROM header")
    return int(number)


def test_a_grown_journal_is_parsed_from_where_it_has_grown(
    tmp_path: Path, parsed: list[bytes]
) -> None:
    members = [START, body(1), journal(1, one(1, "u1")), body(2), journal(2, one(2, "u2"))]
    path = write(tmp_path / "a.eval", members)
    build(tmp_path)
    assert len(parsed) == 2
    parsed.clear()
    write(path, [*members, body(3), journal(3, one(3, "u3"), one(1, "again"))])
    build(tmp_path)
    assert [json.loads(data)[0]["uuid"] for data in parsed] == ["u3"]
    with evalindex.open(tmp_path) as index:
        assert [row.uuid for row in index.find()] == ["again", "u2", "u3"]
    # One of the first members is another: all are parsed.
    parsed.clear()
    members[2] = journal(1, one(1, "else"))
    write(path, members)
    build(tmp_path)
    assert len(parsed) == 2
    with evalindex.open(tmp_path) as index:
        assert [row.uuid for row in index.find()] == ["else", "u2"]


def test_an_edit_of_the_header_alone_keeps_the_samples(tmp_path: Path, parsed: list[bytes]) -> None:
    members = [START, body(1), ("summaries.json", [one(1, "u1")])]
    path = write(tmp_path / "a.eval", [*members, ("header.json", header())])
    before = build(tmp_path)
    parsed.clear()
    edited = header(status="error", error={"message": "edited"})
    write(path, [*members, ("header.json", edited)])
    assert build(tmp_path) == before
    assert parsed == []
    assert (log_row(path).status, log_row(path).error) == ("error", "edited")
    # An edit that makes the samples themselves tell more: they are read.
    write(path, [*members, ("header.json", header(invalidated=True))])
    assert build(tmp_path) != before
    # An edit of a sample that leaves its summary as it was, too.
    before = build(tmp_path)
    members[1] = body(1, invalidation={"timestamp": "2026-01-01T00:00:00Z", "author": "me"})
    write(path, [*members, ("header.json", header(invalidated=True))])
    assert build(tmp_path) != before
    with evalindex.open(tmp_path) as index:
        assert [row.invalidated for row in index.find()] == [True]


def test_what_bodies_said_does_not_outlive_them(tmp_path: Path) -> None:
    """Summaries tell no invalidation, so they are the same before, with it and after."""
    log = tmp_path / "a.eval"
    summaries = [one("q", "u1")]

    def written(invalidated: bool) -> None:
        note = {"author": "me", "timestamp": "2026-01-01T00:00:00+00:00"}
        bodies = [body("q", uuid="u1", invalidation=note if invalidated else None)]
        spec = {"eval": {"task": "t", "dataset": {"sample_ids": ["q"]}}}
        header = {**spec, "status": "success", "invalidated": invalidated}
        write(log, [*bodies, ("summaries.json", summaries), ("header.json", header)])

    for invalidated in (False, True, False, True, False):
        written(invalidated)
        evalindex.build(tmp_path)
        with evalindex.open(tmp_path) as index:
            reasons = [row.reason for row in index.incomplete()]
            assert reasons == (["invalidated"] if invalidated else [])
            assert index.verify().findings == ()


def test_a_sample_that_is_run_again_is_no_other_id(tmp_path: Path) -> None:
    log = tmp_path / "a.eval"
    members = [body(1), journal(1, one(1, "u1"))]
    for number in range(2, 5):
        write(log, members)
        evalindex.build(tmp_path)
        members += [journal(number, one(1, f"u{number}"))]
    write(log, members)
    evalindex.build(tmp_path)
    with evalindex.open(tmp_path) as index:
        assert [(row.id, row.uuid) for row in index.find()] == [(1, "u4")]
        assert [task.collisions for task in index.incomplete().tasks] == [0]
        assert index.verify().findings == ()


@pytest.mark.parametrize("tokens", [-(2**63), 2**63 - 1])
def test_sums_of_tokens_stay_within_64_bits(tmp_path: Path, tokens: int) -> None:
    usage = {"a": {"total_tokens": tokens}, "b": {"total_tokens": tokens}}
    log = write(tmp_path / "a.eval", [body(1), journal(1, one(1, "u", model_usage=usage))])
    assert evalindex.build(tmp_path).indexed == 1
    assert rows_of(log)[0].total_tokens == tokens


def test_a_plan_beyond_all_measure_says_nothing(tmp_path: Path) -> None:
    spec = {"dataset": {"sample_ids": [1, 2]}, "config": {"epochs": 10**9}}
    write(tmp_path / "a.eval", [body(1), ("header.json", {"eval": spec, "status": "success"})])
    evalindex.build(tmp_path)
    with evalindex.open(tmp_path) as index:
        answer = index.incomplete()
        assert list(answer) == []
        assert [task.planned for task in answer.unknown] == [None]


def test_without_summaries_logs_are_read_when_asked(tmp_path: Path, parsed: list[bytes]) -> None:
    members = [START, body(1), ("summaries.json", [one(1, "u1", error="bad")])]
    path = write(tmp_path / "a.eval", [*members, ("header.json", header())])
    evalindex.build(tmp_path, jobs=1, summaries=False)
    assert parsed == []
    with evalindex.open(tmp_path) as index:
        assert [(row.uuid, row.error) for row in index.find(error=True)] == [("u1", "bad")]
        assert len(parsed) == 1
        assert [row.reason for row in index.incomplete(path)] == ["error", "missing", "missing"]
    evalindex.build(tmp_path, jobs=1)
    parsed.clear()
    with evalindex.open(tmp_path) as index:
        assert [row.uuid for row in index.find()] == ["u1"]
    assert parsed == []
    assert sample_member(1) in members_by_zipfile(path)
