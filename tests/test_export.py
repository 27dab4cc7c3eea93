"""Exported files, against inspect's data frames and read back by other programs."""

from __future__ import annotations

import csv
import io
import json
import math
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner, Result
from inspect_ai.analysis import evals_df, samples_df
from inspect_ai.log import (
    EvalMetric,
    EvalScore,
    HeadlineMetric,
    read_eval_log,
    read_eval_log_sample_summaries,
    write_eval_log,
)
from inspect_ai.scorer import Score

import evalindex
from evalindex.cli import cli
from evalindex.export import export_samples
from evalindex.results import Rows
from evalindex.rows import SampleRow
from evalindex.sheets import Format, format_of
from tests.builders import DEFLATE, PEAK, SHARED_LOGS, Entry, archive, encoded, sample, write_log

_FORMATS: tuple[Format, ...] = ("parquet", "arrow", "csv", "jsonl")

# What inspect's columns of the same name say otherwise, and why; the rest must be equal.
_OTHERWISE = {
    "sample_id": "inspect makes an id of its own for samples without a uuid",
    "input": "inspect renders a conversation with its roles",
    "error": "inspect has an empty text where nothing failed",
    "error_message": "some logs say the same twice, inspect has null or an empty text",
    "task_version": "inspect has a number if it is one, and text elsewhere",
    "epochs": "inspect has null where the eval does not say",
}
# inspect: KeyError '_journal/summaries/1.json'
_NO_FRAME = {"journal_gap_score_stream_overwrite.eval"}


def _names() -> list[str]:
    return sorted(str(path.relative_to(SHARED_LOGS)) for path in SHARED_LOGS.rglob("*.eval"))


def _plain(value: Any) -> Any:
    """One spelling of nothing; NaN of a frame may be either."""
    if value is None or value is pd.NA or value is pd.NaT:
        return None
    return None if isinstance(value, float) and math.isnan(value) else value


def _records(frame: Any) -> list[dict[str, Any]]:
    return [
        {name: _plain(value) for name, value in record.items()}
        for record in frame.to_dict("records")
    ]


def _written(rows: Any, form: Format) -> bytes:
    file = io.BytesIO()
    rows.write(file, form)
    assert not file.closed
    return file.getvalue()


def _by_csv(data: bytes) -> list[dict[str, str]]:
    """Before Python 3.11 the reader refuses NUL, which stands in some logs."""
    text = data.decode().replace("\0", "\ue000")
    return [
        {name: cell.replace("\ue000", "\0") for name, cell in row.items()}
        for row in csv.DictReader(io.StringIO(text, newline=""))
    ]


def _table(data: bytes, form: Format) -> Any:
    source = pa.BufferReader(data)
    return pq.read_table(source) if form == "parquet" else pa.ipc.open_file(source).read_all()


def _run(*arguments: object) -> Result:
    return CliRunner().invoke(cli, list(map(str, arguments)), standalone_mode=False)


@pytest.fixture(scope="module")
def index(copied_logs: Path) -> Iterator[evalindex.Index]:
    evalindex.build(copied_logs)
    with evalindex.open(copied_logs) as opened:
        yield opened


@pytest.mark.filterwarnings("ignore:The inplace keyword")  # inspect_ai's
@pytest.mark.parametrize("name", _names())
def test_rows_of_samples_are_those_of_samples_df(
    index: evalindex.Index, copied_logs: Path, name: str
) -> None:
    ours = _records(index.find(copied_logs / name).to_arrow().to_pandas())
    if name in _NO_FRAME:
        return
    frame = samples_df(str(copied_logs / name), quiet=True)
    # A sample whose id has a NUL was lost: there is a summary of it, but no member.
    theirs = [record for record in _records(frame) if "\0" not in record["id"]]
    keys = [(record["id"], record["epoch"]) for record in ours]
    if theirs or ours:
        assert keys == [(record["id"], record["epoch"]) for record in theirs]
    summaries = {
        (str(summary.id), summary.epoch): summary
        for summary in read_eval_log_sample_summaries(str(copied_logs / name))
    }
    for mine, other in zip(ours, theirs, strict=True):
        common = mine.keys() & other.keys() - _OTHERWISE.keys()
        assert {"eval_id", "log", "target", "total_tokens", "total_time", "working_time"} < common
        assert {"message_count", "turn_count", "limit", "retries"} < common
        assert {key: mine[key] for key in common} == {key: other[key] for key in common}
        scores = {key for key in other if key.startswith("score_") and other[key] is not None}
        assert scores <= mine.keys()
        summary = summaries[mine["id"], mine["epoch"]]
        assert mine["sample_id"] == summary.uuid
        assert (mine["error"] or "") == other["error"]
        if isinstance(summary.input, str):
            assert mine["input"] == summary.input[:200]


@pytest.mark.parametrize("name", _names())
def test_rows_of_logs_are_those_of_evals_df(
    index: evalindex.Index, copied_logs: Path, name: str
) -> None:
    (mine,) = _records(index.logs(copied_logs / name).to_arrow().to_pandas())
    _assert_same_log(mine, copied_logs / name)


def _assert_same_log(mine: dict[str, Any], log: Path) -> None:
    (other,) = _records(evals_df(str(log), quiet=True))
    assert {name for name in other if name.startswith("score_")} <= mine.keys()
    common = mine.keys() & other.keys() - _OTHERWISE.keys()
    assert len(common) >= 25
    assert {name: mine[name] for name in common} == {name: other[name] for name in common}
    assert mine["task_version"] == str(other["task_version"])
    assert mine["epochs"] == (other["epochs"] or 1)
    assert (mine["error_message"] or "") == (other["error_message"] or "")


def _eval_score(name: str, scorer: str, reducer: str | None, **values: float) -> EvalScore:
    metrics = {key: EvalMetric(name=key, value=value) for key, value in values.items()}
    return EvalScore(name=name, scorer=scorer, reducer=reducer, metrics=metrics)


_SCORES = [
    _eval_score("part", "outer", "mean", accuracy=math.nan, stderr=0.25),
    _eval_score("part", "other", "max", accuracy=math.inf, most=3),
    _eval_score("plain", "plain", "mean", accuracy=-1.5),
]


def _with_results(
    copied_logs: Path, folder: Path, scores: list[EvalScore], headline: HeadlineMetric | None = None
) -> Path:
    log = read_eval_log(str(copied_logs / "finished_int_2epochs.eval"))
    assert log.results is not None
    log.results.headline, log.results.scores = headline, scores
    log.eval.task = "package/sub/task"
    path = folder / "run.eval"
    folder.mkdir()
    write_eval_log(log, str(path))
    evalindex.build(folder)
    return path


def test_metrics_are_named_as_evals_df_names_them(copied_logs: Path, tmp_path: Path) -> None:
    path = _with_results(copied_logs, tmp_path / "logs", _SCORES)
    with evalindex.open(path.parent) as opened:
        table = opened.logs().to_arrow()
        text = _written(opened.logs(), "csv")
    (mine,) = _records(table.to_pandas())
    assert {name for name in mine if name.startswith("score_") and "headline" not in name} == {
        "score_part_mean_accuracy",
        "score_part_stderr",
        "score_part_max_accuracy",
        "score_part_most",
        "score_plain_accuracy",
    }
    _assert_same_log(mine, path)
    assert (mine["task_name"], mine["task"]) == ("sub/task", "package/sub/task")
    assert math.isnan(table["score_headline_value"].to_pylist()[0])
    (cells,) = _by_csv(text)
    assert cells["score_headline_value"] == cells["score_part_mean_accuracy"] == "NaN"
    assert cells["score_part_max_accuracy"] == "inf"
    assert cells["score_plain_accuracy"] == "-1.5"


@pytest.mark.parametrize(
    ("declared", "scorer", "stderr"), [("mean", "outer", 0.25), ("max", "other", None)]
)
def test_the_scorer_and_stderr_are_those_of_the_headline(
    copied_logs: Path, tmp_path: Path, declared: str, scorer: str, stderr: float | None
) -> None:
    headline = HeadlineMetric(score="part", metric="accuracy", reducer=declared)
    path = _with_results(copied_logs, tmp_path / "logs", _SCORES, headline)
    with evalindex.open(path.parent) as opened:
        (mine,) = _records(opened.logs().to_arrow().to_pandas())
    _assert_same_log(mine, path)
    assert (mine["score_headline_name"], mine["score_headline_stderr"]) == (scorer, stderr)


def test_a_score_called_headline_does_not_hide_the_headline(
    copied_logs: Path, tmp_path: Path
) -> None:
    scores = [*_SCORES[2:], _eval_score("headline", "headline", None, value=9)]
    path = _with_results(copied_logs, tmp_path / "logs", scores)
    with evalindex.open(path.parent) as opened:
        table = opened.logs().to_arrow()
    assert table.column_names.count("score_headline_value") == 1
    assert table["score_headline_value"].to_pylist() == [-1.5]


def _score(value: Any) -> dict[str, Any]:
    return Score(value=value).model_dump(mode="json") | {"value": value}


@pytest.fixture(scope="module")
def odd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[evalindex.Index]:
    """Samples with odd ids and scores."""
    folder = tmp_path_factory.mktemp("odd")
    samples = [
        sample('a,"b"\nc\rd', scores={"number": _score(math.nan), "mixed": _score("C")}),
        sample("=1+1", target="x\ry", scores={"number": _score(math.inf), "mixed": _score(0.5)}),
        sample("", scores={"number": _score(-math.inf), "mixed": _score(math.nan)}),
        sample(7, scores={"number": _score(True), "mixed": _score({"ü": 1, "v": "x"})}),
        sample("ü", target=["x", "y"]),
    ]
    write_log(folder / "run.eval", samples)
    evalindex.build(folder)
    with evalindex.open(folder) as opened:
        yield opened


_ODD_IDS = ['a,"b"\nc\rd', "=1+1", "", 7, "ü"]
_MIXED = ["C", "0.5", "NaN", '{"ü": 1, "v": "x"}', None]


def _by_id(records: list[dict[str, Any]], name: str) -> list[Any]:
    found = {record["id"]: record[name] for record in records}
    assert len(found) == len(records) == len(_ODD_IDS)
    return [found[id] if id in found else found[str(id)] for id in _ODD_IDS]


@pytest.mark.parametrize("form", ["parquet", "arrow"])
def test_scores_and_ids_in_tables(odd: evalindex.Index, form: Format) -> None:
    table = _table(_written(odd.find(), form), form)
    assert table.schema.field("id").type == pa.string()
    assert table.schema.field("score_number").type == pa.float64()
    assert table.schema.field("score_mixed").type == pa.string()
    records = table.to_pylist()
    first, *others = _by_id(records, "score_number")
    assert math.isnan(first)
    assert others == [math.inf, -math.inf, 1.0, None]
    assert _by_id(records, "score_mixed") == _MIXED
    assert _by_id(records, "score_mixed.v") == [None, None, None, "x", None]
    assert _by_id(records, "score_mixed.ü") == [None, None, None, 1.0, None]
    assert _by_id(records, "target")[-1] == "x,y"


def test_scores_and_ids_in_csv(odd: evalindex.Index) -> None:
    data = _written(odd.find(), "csv")
    records: list[dict[str, Any]] = [*_by_csv(data)]
    assert _by_id(records, "score_number") == ["NaN", "inf", "-inf", "1.0", ""]
    assert _by_id(records, "score_mixed") == [text or "" for text in _MIXED]
    assert _by_id(records, "target")[1] == "x\ry"
    assert _by_id(records, "recorded") == ["true"] * 5
    assert _by_id(records, "chunked") == ["false"] * 5
    assert _by_id(records, "error") == [""] * 5
    frame = pd.read_csv(io.BytesIO(data), dtype={"id": "str"})
    assert frame["score_number"].dtype == "float64"
    assert sorted(frame["id"].fillna("")) == sorted(map(str, _ODD_IDS))


def test_scores_and_ids_in_json_lines(odd: evalindex.Index) -> None:
    records = [json.loads(line) for line in _written(odd.find(), "jsonl").splitlines()]
    assert _by_id(records, "id") == _ODD_IDS, "with their own types"
    assert repr(_by_id(records, "score_number")) == "[nan, inf, -inf, 1.0, None]"
    assert _by_id(records, "score_mixed") == _MIXED


def test_all_formats_have_the_same_columns_in_the_same_order(index: evalindex.Index) -> None:
    questions: list[Callable[[], Any]] = [index.find, index.logs, index.incomplete, index.reusable]
    for ask in questions:
        table = ask().to_arrow()
        for form in ("parquet", "arrow"):
            assert (
                _table(_written(ask(), form), form)
                .drop(["checked"])
                .equals(table.drop(["checked"]))
            )
        lines = [json.loads(line) for line in _written(ask(), "jsonl").splitlines()]
        assert list(lines[0]) == table.column_names
        cells = _by_csv(_written(ask(), "csv"))
        assert list(cells[0]) == table.column_names
        assert len(cells) == len(lines) == table.num_rows > 10
        assert [line["path"] for line in lines] == table["path"].to_pylist()


def test_the_order_of_the_columns_is_fixed(odd: evalindex.Index) -> None:
    assert " ".join(odd.find().to_arrow().column_names) == (
        "sample_id eval_id log id epoch input target score_mixed score_mixed.v score_mixed.ü"
        " score_number total_tokens total_time working_time message_count turn_count error"
        " limit retries task_name task model status cancelled invalidated started_at completed_at"
        " bytes compressed_bytes chunked summarized recorded path checked"
    )


def test_an_answer_without_rows_has_its_columns(odd: evalindex.Index) -> None:
    for form in _FORMATS:
        assert odd.find(id="none").write(io.BytesIO(), form) == 0
    table = _table(_written(odd.find(id="none"), "parquet"), "parquet")
    assert table.num_rows == 0
    assert {"sample_id", "id", "checked"} <= set(table.column_names)
    assert "score_mixed" not in table.column_names
    assert _written(odd.logs(task="none"), "csv").startswith(b"eval_id,eval_set_id,run_id,")
    assert odd.logs(task="none").to_arrow().num_rows == 0


def test_only_what_is_incomplete_has_a_reason(index: evalindex.Index, copied_logs: Path) -> None:
    log = copied_logs / "crashed_no_header.eval"
    table = index.incomplete(log).to_arrow()
    assert table.column_names[-1] == "reason"
    assert table["reason"].to_pylist() == ["missing"] * 2, "six of eight were written"
    assert table["recorded"].to_pylist() == [False] * 2
    assert "reason" not in index.reusable(log).to_arrow().column_names


def test_times_are_timestamps_in_tables_alone(index: evalindex.Index, copied_logs: Path) -> None:
    log = copied_logs / "finished_int_2epochs.eval"
    expected = read_eval_log(str(log)).samples or []
    table = index.find(log).to_arrow()
    assert table.schema.field("started_at").type == pa.timestamp("us", "UTC")
    started = [str(value) for value in table["started_at"].to_pylist()]
    assert started == [str(one.started_at).replace("T", " ") for one in expected]
    lines = _written(index.find(log), "jsonl").splitlines()
    assert [json.loads(line)["started_at"] for line in lines] == [
        str(one.started_at) for one in expected
    ]


def test_a_time_that_is_none_is_null(tmp_path: Path) -> None:
    times = ["yesterday", "0001-01-01T00:00:00+10:00", "2026-11-30T12:00:00Z", "2026-11-30"]
    log = write_log(tmp_path / "run.eval", [sample(n, started_at=t) for n, t in enumerate(times)])
    evalindex.build(tmp_path)
    with evalindex.open(tmp_path) as opened:
        table = opened.find(log).to_arrow()
    assert [str(value) for value in table["started_at"].to_pylist()] == [
        "None",
        "None",
        "2026-11-30 12:00:00+00:00",
        "2026-11-30 00:00:00+00:00",
    ]


# The samples themselves


def _samples_by(form: Format, data: bytes) -> list[dict[str, Any]]:
    if form == "csv":
        csv.field_size_limit(2**24)
        return [*_by_csv(data)]
    records: list[dict[str, Any]] = _table(data, form).to_pylist()
    return records


@pytest.mark.parametrize("form", ["parquet", "arrow", "csv"])
def test_samples_are_their_json_as_text(copied_logs: Path, tmp_path: Path, form: Format) -> None:
    evalindex.build(copied_logs)
    log = copied_logs / "finished_rich_attachments.eval"
    out = tmp_path / f"out.{form}"
    result = _run("export", out, log, "--samples", "--exclude", "events,store")
    assert (result.return_value, result.stderr) == (0, f"6 samples: {out}\n")
    records = _samples_by(form, out.read_bytes())
    assert list(records[0]) == ["log", "id", "epoch", "sample_id", "sample"]
    expected = read_eval_log(str(log)).samples or []
    found = [(r["log"], r["id"], str(r["epoch"]), r["sample_id"]) for r in records]
    assert found == [(str(log), str(one.id), str(one.epoch), one.uuid) for one in expected]
    for record, one in zip(records, expected, strict=True):
        document = json.loads(record["sample"])
        assert document["uuid"] == one.uuid
        assert "messages" in document
        assert not {"events", "store"} & document.keys()


def test_json_lines_of_samples_are_those_of_get(copied_logs: Path, tmp_path: Path) -> None:
    evalindex.build(copied_logs)
    out, same = tmp_path / "out.jsonl", tmp_path / "same.jsonl"
    assert _run("export", out, copied_logs, "--samples", "-q").return_value == 0
    keys = tmp_path / "keys"
    keys.write_text(_run("find", copied_logs, "--keys", "-q").stdout)
    assert _run("get", "--keys", keys, "--out", same).return_value == 0
    assert out.read_bytes() == same.read_bytes()
    assert out.read_bytes().count(b"\n") > 300


@pytest.mark.parametrize("form", _FORMATS)
def test_what_no_text_can_hold_survives(tmp_path: Path, form: Format) -> None:
    odd = {"nan": math.nan, "big": 2**70, "half": "\ud83d", "line": "\u2028"}
    log = write_log(tmp_path / "run.eval", [sample("ü", metadata=odd)])
    evalindex.build(tmp_path)
    file = io.BytesIO()
    with evalindex.open(tmp_path) as opened:
        answers = opened.iter_samples(opened.find(log), errors="return")
        assert export_samples(answers, file, form, failed=_never) == 1
    if form == "jsonl":
        line = json.loads(file.getvalue())
        assert (line["id"], line["epoch"]) == ("ü", 1)
        document = line["sample"]
    else:
        document = json.loads(_samples_by(form, file.getvalue())[0]["sample"])
    assert repr(document) == repr(sample("ü", metadata=odd))


def _never(*failure: object) -> None:
    raise AssertionError(failure)


@pytest.mark.parametrize("form", _FORMATS)
def test_a_sample_that_fails_is_told_and_does_not_stop_the_rest(
    tmp_path: Path, form: Format
) -> None:
    members = [
        Entry(
            f"samples/{n}_epoch_1.json".encode(),
            encoded(sample(n)),
            DEFLATE,
            crc32=1 if n == 1 else None,
        )
        for n in range(3)
    ]
    log = tmp_path / "logs" / "run.eval"
    log.parent.mkdir()
    log.write_bytes(archive(members))
    evalindex.build(log.parent)
    failures: list[tuple[Any, type]] = []
    with evalindex.open(log.parent) as opened:
        answers = opened.iter_samples(opened.find(), errors="return")

        def failed(row: SampleRow, error: evalindex.EvalIndexError) -> None:
            failures.append((row.id, type(error)))

        assert export_samples(answers, io.BytesIO(), form, failed=failed) == 2
    assert failures in ([(1, evalindex.CorruptMember)], [("1", evalindex.CorruptMember)])
    out = tmp_path / f"out.{form}"
    result = _run("export", out, log.parent, "--samples")
    assert result.return_value == 3
    failure, said = result.stderr.splitlines()
    assert json.loads(failure)["error"] == "CorruptMember"
    assert json.loads(failure)["log"] == str(log)
    assert said == f"2 samples: {out}"


# The command


@pytest.mark.parametrize("form", _FORMATS)
def test_the_command_writes_rows(
    index: evalindex.Index, copied_logs: Path, tmp_path: Path, form: Format
) -> None:
    out = tmp_path / f"out.{form.upper()}"
    result = _run("export", out, copied_logs, "--status", "cancelled")
    rows = list(index.find(status="cancelled"))
    assert (result.return_value, result.stdout) == (0, "")
    assert result.stderr.endswith(f"{len(rows)} rows: {out}\n")
    result = _run("export", out, copied_logs, "--logs", "-q")
    assert (result.return_value, result.output) == (0, "")
    if form in ("parquet", "arrow"):
        assert _table(out.read_bytes(), form).num_rows == 52
    assert [path.name for path in tmp_path.glob("*out*")] == [out.name]


def test_the_command_exits_with_3_for_a_log_that_cannot_be_looked_at(tmp_path: Path) -> None:
    write_log(tmp_path / "run.eval", [sample(1)])
    (tmp_path / "bad.eval").write_bytes(b"no archive")
    evalindex.build(tmp_path)
    assert _run("export", tmp_path / "out.csv", tmp_path).return_value == 3
    assert len(_by_csv((tmp_path / "out.csv").read_bytes())) == 1


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["out.xlsx"], "'out.xlsx' ends in none of .parquet, .arrow, .csv, .jsonl"),
        (["parquet.d/out"], "ends in none of"),
        (["out.csv", "--logs", "--samples"], "--logs and --samples"),
        (["out.csv", "--exclude", "events"], "--exclude goes with --samples"),
    ],
)
def test_wrong_use_is_named(arguments: list[str], said: str) -> None:
    result = CliRunner().invoke(cli, ["export", *arguments])
    assert result.exit_code == 2
    assert said in result.output


def test_formats_are_chosen_by_ending() -> None:
    assert format_of("a.b/c.Parquet") == "parquet"
    assert format_of(Path("x.jsonl")) == "jsonl"
    for wrong in ("csv", "x.json", "x.csv/", "x"):
        with pytest.raises(ValueError, match=r"\.parquet, \.arrow, \.csv, \.jsonl"):
            format_of(wrong)


_WITHOUT_PYARROW = """
import io, sys
class Blocker:
    def find_spec(self, name, *_):
        if name.partition(".")[0] == "pyarrow":
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
sys.meta_path.insert(0, Blocker())
import evalindex
with evalindex.open(sys.argv[1]) as index:
    for form in ("csv", "jsonl"):
        assert index.find().write(io.BytesIO(), form) == 1
        assert index.logs().write(io.BytesIO(), form) == 1
    tries = [index.find().to_arrow, index.logs().to_arrow]
    for form in ("parquet", "arrow"):
        tries.append(lambda: index.find().write(io.BytesIO(), form))
    for one in tries:
        try:
            one()
        except evalindex.MissingExtra as error:
            assert isinstance(error, ImportError)
            assert error.hint == "pip install 'evalindex[export]'", error.hint
        else:
            raise AssertionError("pyarrow was there")
from evalindex.cli import main
sys.argv[1:] = ["export", sys.argv[2], sys.argv[1]]
main()
"""


def test_what_needs_pyarrow_says_so(tmp_path: Path) -> None:
    write_log(tmp_path / "logs" / "run.eval", [sample(1)])
    evalindex.build(tmp_path / "logs")
    out = tmp_path / "out.parquet"
    out.write_text("older")
    command = [sys.executable, "-c", _WITHOUT_PYARROW, str(tmp_path / "logs"), str(out)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr == (
        "error: Parquet and Arrow need pyarrow\nhint: pip install 'evalindex[export]'\n"
    )
    assert out.read_text() == "older"
    assert [path.name for path in tmp_path.iterdir() if path.is_file()] == [out.name]


class _Full(io.BytesIO):
    """A disk that is full after so many bytes."""

    def __init__(self, left: int) -> None:
        super().__init__()
        self._left = left

    def write(self, data: Any) -> int:
        self._left -= len(data)
        if self._left < 0:
            raise OSError(28, "No space left on device")
        return super().write(data)


@pytest.mark.parametrize("form", _FORMATS)
@pytest.mark.parametrize("left", [0, 50, 1_000])
def test_a_full_disk_is_said(odd: evalindex.Index, form: Format, left: int) -> None:
    with pytest.raises(OSError, match="No space left"):
        odd.find().write(_Full(left), form)


_MANY_ROWS = f"""{PEAK}
import sys
from evalindex.export import export_samples
from evalindex.results import Rows
from evalindex.rows import SampleRow

def row(n):
    return SampleRow(
        log="/logs/run.eval", path="run.eval", id=n, epoch=1, uuid=f"uuid{{n}}", error=None,
        limit=None, scores={{"match": n / 7, "grade": "C"}}, task="t", model="m", status="success",
        eval_id="e", cancelled=False, invalidated=False, retries=None, started_at=None,
        completed_at=None, total_time=n / 3, working_time=None, message_count=n, turn_count=None,
        total_tokens=n, input=str(n) * 30, target="", bytes=1, compressed_bytes=1, chunked=False,
        summarized=True, checked=0.0,
    )

def rows(count):
    answer = Rows(map(row, range(count)), count)
    answer.score_names = lambda: {{"match": True, "grade": False}}
    return answer

def samples(count):
    for n in range(count):
        yield row(n), {{"id": n, "epoch": 1, "text": str(n) * 200_000}}

form, what, out = sys.argv[1:]
with open(out, "wb") as file:
    def export(count):
        if what == "rows":
            return rows(count * 1_000).write(file, form)
        return export_samples(samples(count), file, form, failed=None)
    export(10)
    before = peak()
    done = export(300)
    print(done, (peak() - before) // 1024)
"""


@pytest.mark.parametrize("form", _FORMATS)
@pytest.mark.parametrize("what", ["rows", "samples"])
def test_a_large_answer_takes_little_memory(tmp_path: Path, form: Format, what: str) -> None:
    """300,000 rows (over 200 MB as Python objects), or 300 samples of 400 to 600 KB."""
    command = [sys.executable, "-c", _MANY_ROWS, form, what, str(tmp_path / "out")]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    count, grown_mib = map(int, done.stdout.split())
    assert count == (300_000 if what == "rows" else 300)
    assert grown_mib < 64


def test_row_groups_are_larger_than_batches() -> None:
    def rows(count: int) -> Rows[SampleRow]:
        empty: Any = [None] * len(SampleRow._fields)
        row = SampleRow(*empty)._replace(id=1, scores={})
        answer = Rows((row._replace(epoch=n) for n in range(count)), count)
        answer.score_names = dict
        return answer

    file = pq.ParquetFile(pa.BufferReader(_written(rows(150_000), "parquet")))
    assert file.metadata.num_row_groups == 2
    assert file.read(["epoch"])["epoch"].to_pylist() == list(range(150_000))
