"""Rows of logs and samples, against inspect_ai's own readers: on real logs and on a made set."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from datetime import datetime, timedelta
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import pytest
from inspect_ai._util.error import is_cancellation_message
from inspect_ai.log import headline_metric

import evalindex
from tests.builders import members_by_zipfile
from tests.made_logs import (
    START,
    Key,
    Truth,
    a_set,
    alike,
    change,
    truths,
)

#: What inspect 0.3.285 cannot read whole: chunked samples, and a journal with a gap.
UNREAD = ("chunked_rich.eval", "journal_gap_score_stream_overwrite.eval")

#: Filters about samples; `logs` gives the logs that hold such a one.
OF_SAMPLES = {"id", "uuid", "error", "limit_hit", "score"}

Wanted = Callable[[Truth, Key], bool]


@pytest.fixture(scope="module")
def real(copied_logs: Path) -> Path:
    for name in UNREAD:
        (copied_logs / name).unlink()
    evalindex.build(copied_logs)
    return copied_logs


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder, _ = a_set(tmp_path_factory, 1_000)
    evalindex.build(folder)
    return folder


# --- what is expected ----------------------------------------------------------------------


def of_log(log: Truth) -> dict[str, Any]:
    header, spec, results, plan = log.header, log.header.eval, log.header.results, log.plan
    headline = headline_metric(header)
    good = [key for key, s in log.samples.items() if s.error is None and s.invalidation is None]
    unread = [log.summaries[key] for key in log.summaries.keys() - log.samples.keys()]
    errors = [s.error for s in unread] + [s.error for s in log.samples.values()]
    return {
        "log": str(log.path),
        "status": header.status,
        "task": spec.task,
        "model": spec.model,
        "eval_id": spec.eval_id,
        "run_id": spec.run_id or None,
        "task_id": spec.task_id or None,
        "eval_set_id": spec.eval_set_id,
        "task_version": str(spec.task_version),
        "task_file": spec.task_file,
        "task_display_name": spec.task_display_name,
        "solver": spec.solver,
        "created": spec.created,
        "started_at": header.stats.started_at or None,
        "completed_at": header.stats.completed_at or None,
        "tags": tuple(header.tags),
        "dataset_name": spec.dataset.name,
        "dataset_location": spec.dataset.location,
        "dataset_samples": spec.dataset.samples,
        "dataset_shuffled": spec.dataset.shuffled,
        "epochs": spec.config.epochs or 1,
        "total_samples": None if results is None else results.total_samples,
        "completed_samples": None if results is None else results.completed_samples,
        "logged_samples": None if results is None else results.logged_samples,
        "invalidated": header.invalidated,
        "error": None if header.error is None else header.error.message,
        "inspect_version": spec.packages.get("inspect_ai"),
        "git_commit": None if spec.revision is None else spec.revision.commit,
        "headline_score": None if headline is None else headline.score.name,
        "headline_metric": None if headline is None else headline.name,
        "headline_value": None if headline is None else float(headline.metric.value),
        "finished": "header.json" in members_by_zipfile(log.path),
        "size": log.path.stat().st_size,
        "planned": None if plan is None else len(plan),
        "done": sum(plan is None or key in plan for key in good),
        "errors": sum(error is not None for error in errors),
    }


def metrics_of(log: Truth) -> list[tuple[Any, ...]]:
    return [
        (score.name, score.scorer, score.reducer, name, float(metric.value))
        for score in (log.header.results.scores if log.header.results else ())
        for name, metric in score.metrics.items()
    ]


def of_sample(log: Truth, key: Key) -> dict[str, Any]:
    sample, summary = log.samples[key], log.summaries.get(key)
    error = None if sample.error is None else sample.error.message
    retries = None if sample.error_retries is None else len(sample.error_retries)
    return {
        "log": str(log.path),
        "id": sample.id,
        "epoch": sample.epoch,
        "uuid": sample.uuid if summary is None else summary.uuid,
        "error": error,
        "cancelled": is_cancellation_message(error),
        "invalidated": sample.invalidation is not None,
        "limit": None if sample.limit is None else sample.limit.type,
        "retries": retries if summary is None else summary.retries,
        "total_time": sample.total_time,
        "working_time": sample.working_time,
        "started_at": sample.started_at,
        "message_count": None if summary is None else summary.message_count,
        "turn_count": None if summary is None else summary.turn_count,
        # Summaries of old logs have no usage, their samples have.
        "total_tokens": sum(u.total_tokens for u in (summary or sample).model_usage.values()),
        "summarized": summary is not None,
        "recorded": True,
        "task": log.header.eval.task,
        "model": log.header.eval.model,
        "status": log.header.status,
        "eval_id": log.header.eval.eval_id,
    }


def different(row: Any, wanted: dict[str, Any]) -> list[str]:
    return [
        f"{row.path} {getattr(row, 'id', '')!r}: {name} is {getattr(row, name)!r}, not {value!r}"
        for name, value in wanted.items()
        if not alike(getattr(row, name), value)
    ]


def check_logs(index: evalindex.Index, logs: dict[Path, Truth]) -> None:
    rows = list(index.logs())
    assert [row.log for row in rows] == [str(path) for path in sorted(logs, key=str)]
    problems: list[str] = []
    for row in rows:
        log = logs[Path(row.log)]
        problems += different(row, of_log(log))
        metrics, wanted = [tuple(metric) for metric in row.metrics], metrics_of(log)
        if repr(metrics) != repr(wanted):  # by repr, since NaN is not equal to itself
            problems.append(f"{row.path}: metrics are {metrics}, not {wanted}")
    assert problems == []


def check_samples(index: evalindex.Index, logs: dict[Path, Truth]) -> None:
    rows = list(index.find())
    wanted = [(path, key) for path in sorted(logs, key=str) for key in logs[path].order]
    assert keys_of(rows) == wanted
    problems: list[str] = []
    for row, (path, key) in zip(rows, wanted, strict=True):
        problems += different(row, of_sample(logs[path], key))
        ours, theirs = row.scores, logs[path].scores(key)
        if repr(sorted(ours.items())) != repr(sorted(theirs.items())):
            problems.append(f"{row.path} {row.id!r}: scores are {ours}, not {theirs}")
    assert problems == []


def keys_of(rows: Iterable[evalindex.SampleRow]) -> list[tuple[Path, Key]]:
    return [(Path(row.log), (str(row.id), row.epoch)) for row in rows]


def check_filters(
    index: evalindex.Index, logs: dict[Path, Truth], filters: Iterable[tuple[Any, Wanted]]
) -> None:
    """Every filter gives what a loop in Python over inspect's objects gives."""
    ordered, met, problems = sorted(logs, key=str), 0, []
    for asked, test in filters:
        rows = index.find(**asked)
        total, found = rows.total, keys_of(rows)
        wanted = [(path, key) for path in ordered for key in logs[path].order
            if test(logs[path], key)]  # fmt: skip
        met += bool(wanted)
        if found != wanted or total != len(wanted):
            problems.append(f"{asked}: {len(found)} ({total}), not {len(wanted)}; "
                f"{set(found) ^ set(wanted)}"[:600])  # fmt: skip
        if asked.keys() & OF_SAMPLES and asked.get("newest") != "uuid" and met % 3 == 0:
            assert {row.log for row in index.logs(**asked)} == {str(path) for path, _ in wanted}
    assert problems == []
    assert met > 10


def compared(value: float | str, operator: str, other: str) -> bool:
    try:
        number = float(other)
    except ValueError:
        number = None
    if operator in "=!=":
        same = value == other or (number is not None and alike(value, number))
        return same is (operator == "=")
    assert number is not None
    if isinstance(value, str) or value != value:
        return False
    return {"<": value < number, "<=": value <= number, ">": value > number,
        ">=": value >= number}[operator]  # fmt: skip


def score_filters(logs: dict[Path, Truth]) -> Iterator[tuple[Any, Wanted]]:
    """Filters for every score that is there, and for values of it."""
    seen: dict[str, dict[str, None]] = {}
    for log in logs.values():
        for key in log.samples:
            for name, value in log.scores(key).items():
                seen.setdefault(name, {})[value if isinstance(value, str) else repr(value)] = None
    for name, values in seen.items():
        yield {"score": name}, lambda log, key, name=name: name in log.scores(key)  # type: ignore[misc]
        for text in [text for text in list(values)[:2] if text.strip() == text and text]:
            numeric = _is_number(text) and text != "nan"
            for operator in ("=", "!=", "<", ">=") if numeric else ("=", "!="):
                yield {"score": f"{name} {operator} {text}"}, _score_test(name, operator, text)


def _score_test(name: str, operator: str, text: str) -> Wanted:
    def test(log: Truth, key: Key) -> bool:
        scores = log.scores(key)
        return name in scores and compared(scores[name], operator, text)

    return test


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def plain_filters(logs: dict[Path, Truth]) -> Iterator[tuple[Any, Wanted]]:
    def error(log: Truth, key: Key) -> str | None:
        found = log.samples[key].error
        return None if found is None else found.message

    def uuid(log: Truth, key: Key) -> str | None:
        return of_sample(log, key)["uuid"]  # type: ignore[no-any-return]

    yield {"error": True}, lambda log, key: error(log, key) is not None
    for globs in (["*Timeout*"], ["Rate*", "Canc*"], ["*[!x]"], ["?a*"], ["timeout*"]):
        yield (
            {"error": globs},
            lambda log, key, globs=globs: any(  # type: ignore[misc]
                fnmatchcase(error(log, key) or "", glob) and error(log, key) is not None
                for glob in globs
            ),
        )
    yield {"limit_hit": True}, lambda log, key: log.samples[key].limit is not None
    yield {"limit_hit": False}, lambda log, key: log.samples[key].limit is None
    for ids in ([1], ["1"], [-1], ["007"], [7], ["a/b", "q-1"], ["", "1_epoch_2"]):
        texts = {str(id) for id in ids}
        yield {"id": ids}, lambda _, key, texts=texts: key[0] in texts  # type: ignore[misc]
    for status in ("started", "success", "error", "cancelled"):
        yield {"status": status}, lambda log, _, s=status: log.header.status == s  # type: ignore[misc]
    yield {"task": "task-1*"}, lambda log, _: fnmatchcase(log.header.eval.task, "task-1*")
    yield {"model": "*[24]"}, lambda log, _: log.header.eval.model[-1] in "24"
    since = START + timedelta(hours=20)
    yield {"since": since}, lambda log, _: datetime.fromisoformat(log.header.eval.created) >= since
    both = {"error": "*", "limit_hit": True, "status": ["success", "error"], "score": "match"}
    yield (
        both,
        lambda log, key: (
            error(log, key) is not None
            and log.samples[key].limit is not None
            and log.header.status in ("success", "error")
            and "match" in log.scores(key)
        ),
    )
    two = ["match=C", "grade < 0.7"]
    yield (
        {"score": two, "model": "org/*"},
        lambda log, key: (
            log.scores(key).get("match") == "C"
            and compared(log.scores(key).get("grade", "none"), "<", "0.7")
            and log.header.eval.model.startswith("org/")
        ),
    )
    newest: dict[str, Truth] = {}
    holder: dict[str, Truth] = {}
    uuids: dict[str, int] = {}
    for log in sorted(logs.values(), key=lambda log: log.newness):
        newest[log.header.eval.task_id or str(log.path)] = log
        for key in log.samples:
            if one := uuid(log, key):
                uuids[one] = uuids.get(one, 0) + 1
                holder[one] = log
    yield {"newest": "task"}, lambda log, _: log is newest[log.header.eval.task_id or str(log.path)]
    yield (
        {"newest": "uuid", "limit_hit": False},
        lambda log, key: (
            log.samples[key].limit is None
            and (uuid(log, key) is None or holder[uuid(log, key) or ""] is log)
        ),
    )
    for one in sorted(uuids, key=lambda one: (-uuids[one], one))[:8]:
        yield {"uuid": one}, lambda log, key, one=one: uuid(log, key) == one  # type: ignore[misc]
    yield {"uuid": "none has it"}, lambda *_: False


# --- real logs -----------------------------------------------------------------------------


def test_rows_of_real_logs(real: Path) -> None:
    with evalindex.open(real) as index:
        check_logs(index, truths(real))


def test_samples_of_real_logs(real: Path) -> None:
    with evalindex.open(real) as index:
        check_samples(index, truths(real))
        for path, log in truths(real).items():
            assert keys_of(index.samples(path)) == [(path, key) for key in log.order]


def test_filters_on_real_logs(real: Path) -> None:
    logs = truths(real)
    with evalindex.open(real) as index:
        check_filters(index, logs, plain_filters(logs))
        check_filters(index, logs, score_filters(logs))


# --- a made set ----------------------------------------------------------------------------


def test_rows_of_a_made_set(made: Path) -> None:
    logs = truths(made)
    statuses = {log.header.status for log in logs.values()}
    assert statuses == {"started", "success", "error", "cancelled"}
    assert len(logs) == 1_000
    with evalindex.open(made) as index:
        check_logs(index, logs)
        check_samples(index, logs)


def test_filters_on_a_made_set(made: Path) -> None:
    logs = truths(made)
    with evalindex.open(made) as index:
        check_filters(index, logs, plain_filters(logs))
        check_filters(index, logs, score_filters(logs))


def test_a_uuid_is_read_from_the_newest_log_that_has_it(made: Path) -> None:
    holders: dict[str, list[Truth]] = {}
    for log in truths(made).values():
        for sample in log.samples.values():
            holders.setdefault(sample.uuid or "", []).append(log)
    shared = [uuid for uuid, logs in holders.items() if len(logs) > 1][:20]
    assert len(shared) == 20
    with evalindex.open(made) as index:
        for uuid in [*shared, *list(holders)[:20]]:
            newest = max(holders[uuid], key=lambda log: log.newness)
            (sample,) = [s for s in newest.samples.values() if s.uuid == uuid]
            name = f"samples/{sample.id}_epoch_{sample.epoch}.json"
            wanted = json.loads(members_by_zipfile(newest.path)[name])
            assert repr(index.read(uuid=uuid)) == repr(wanted)
        with pytest.raises(evalindex.SampleNotFound):
            index.read(uuid="none has it")


def test_logs_and_find_agree_on_the_newest_records(made: Path) -> None:
    with evalindex.open(made) as index:
        held = {row.log for row in index.find(newest="uuid", score="match=C")}
        assert {row.log for row in index.logs(newest="uuid", score="match=C")} == held


def test_changes_behind_the_index(tmp_path_factory: pytest.TempPathFactory) -> None:
    folder, made = a_set(tmp_path_factory, 1_000)
    evalindex.build(folder)
    with evalindex.open(folder) as index:
        before = truths(folder)
        change(folder, made)
        logs = truths(folder)
        assert len(before.keys() - logs.keys()) == 2
        assert len(logs.keys() - before.keys()) == 6
        check_logs(index, logs)
        check_samples(index, logs)
        check_filters(index, logs, list(plain_filters(logs))[::2])
        assert sorted(index.find().gone) == sorted(map(str, before.keys() - logs.keys()))
        evalindex.build(folder)
        check_logs(index, logs)  # by the index that was open all the time
        check_samples(index, logs)
    with evalindex.open(folder) as index:
        check_logs(index, logs)
        check_samples(index, logs)
        check_filters(index, logs, list(plain_filters(logs))[1::2])
        assert index.find().gone == ()
