"""The facade: what its calls take, give and refuse."""

from __future__ import annotations

import json
import math
import pickle
import threading
from pathlib import Path
from typing import Any

import pytest

import evalindex
from evalindex import SampleKey
from tests.builders import Entry, archive, sample, write_log


class Numberlike:
    """What numpy's integers are, as far as it matters."""

    def __index__(self) -> int:
        return 2


@pytest.fixture
def log(tmp_path: Path) -> Path:
    samples = [sample(n, e, events=[n], store={"n": n}) for n in (1, 2, 3) for e in (1, 2)]
    samples += [sample("q-alpha"), sample("007"), sample(""), sample(0)]
    return write_log(tmp_path / "logs" / "run.eval", samples)


@pytest.fixture
def index(log: Path) -> Any:
    evalindex.build(log.parent)
    with evalindex.open(log.parent) as index:
        yield index


def test_keys_are_ids_pairs_and_rows(index: evalindex.Index, log: Path) -> None:
    keys = [2, (1, 2), [3, 1], "q-alpha", ("q-alpha", 1), SampleKey(str(log), 3, 2), Numberlike()]
    found = index.read_samples(log, keys)
    assert [(s["id"], s["epoch"]) for s in found] == [
        (2, 1),
        (1, 2),
        (3, 1),
        ("q-alpha", 1),
        ("q-alpha", 1),
        (3, 2),
        (2, 1),
    ]
    rows = list(index.samples(log))
    assert len(index.read_samples(log, rows)) == 10


def test_an_id_as_text_or_number_names_one_member(index: evalindex.Index, log: Path) -> None:
    assert index.read(log, "2") == index.read(log, 2) == index.read(log, "2", 1)
    assert index.read(log, "")["id"] == ""
    assert index.read(log, 0)["id"] == 0


def test_a_generator_is_consumed_once_and_repeated_keys_are_repeated(
    index: evalindex.Index, log: Path
) -> None:
    assert [s["id"] for s in index.read_samples(log, (n for n in (3, 1, 3)))] == [3, 1, 3]
    assert index.read_samples(log, []) == []
    assert list(index.iter_samples([])) == []


@pytest.mark.parametrize("key", [True, 1.0, None, b"1", (True, 1), (1, 1.0), (1, 2, 3), (1,), ()])
def test_a_key_of_another_type_is_refused(index: evalindex.Index, log: Path, key: Any) -> None:
    with pytest.raises(TypeError):
        index.read_samples(log, [key])


def test_a_text_is_no_list_of_keys(index: evalindex.Index, log: Path) -> None:
    with pytest.raises(TypeError, match="not the text"):
        index.read_samples(log, "12")


def test_bytes_are_the_members_own(index: evalindex.Index, log: Path) -> None:
    assert json.loads(index.read(log, 1, as_="bytes")) == index.read(log, 1)


def test_excluded_fields_are_left_out_of_dicts_only(index: evalindex.Index, log: Path) -> None:
    sample = index.read(log, 1, exclude_fields=["events", "id"])
    assert set(sample) == {"id", "epoch", "input", "store"}
    assert set(index.read(log, 1, exclude_fields="store")) == {"id", "epoch", "input", "events"}
    with pytest.raises(ValueError, match='as_="dict"'):
        index.read_samples(log, [1], as_="bytes", exclude_fields=["events"], errors="raise")


@pytest.mark.parametrize(
    ("option", "value"), [("as_", "json"), ("errors", "ignore"), ("exclude_fields", [1])]
)
def test_an_unknown_option_is_refused(
    index: evalindex.Index, log: Path, option: str, value: Any
) -> None:
    with pytest.raises((ValueError, TypeError)):
        index.read(log, 1, **{option: value})


def test_all_misses_are_named_and_near_ones_suggested(index: evalindex.Index, log: Path) -> None:
    with pytest.raises(evalindex.SampleNotFound) as caught:
        index.read_samples(log, [1, 7, (2, 3), "q-alpho", 99])
    assert [(key.id, key.epoch) for key in caught.value.missing] == [
        (7, 1),
        (2, 3),
        ("q-alpho", 1),
        (99, 1),
    ]
    assert "007" in str(caught.value)
    assert pickle.loads(pickle.dumps(caught.value)).missing == caught.value.missing


def test_misses_are_skipped_or_returned_in_place(index: evalindex.Index, log: Path) -> None:
    assert [s["id"] for s in index.read_samples(log, [1, 99, 2], errors="skip")] == [1, 2]
    assert index.read(log, 99, errors="skip") is None
    found = index.read_samples(log, [1, 99, 2], errors="return")
    assert isinstance(found[1], evalindex.SampleNotFound)
    assert [found[0]["id"], found[2]["id"]] == [1, 2]


def test_iteration_hands_back_the_caller_s_keys(index: evalindex.Index, log: Path) -> None:
    class Row:
        log = "run.eval"
        id = 2
        epoch = 2

    row = Row()
    keys: list[Any] = [(str(log), 1), ("run.eval", 3, 2), row, SampleKey(str(log), "007")]
    found = list(index.iter_samples(keys))
    assert [key is given for (key, _), given in zip(found, keys, strict=True)] == [True] * 4
    assert [value["id"] for _, value in found] == [1, 3, 2, "007"]


def test_iteration_over_more_logs_and_keys_than_a_window(tmp_path: Path) -> None:
    root = tmp_path / "many"
    logs = [write_log(root / f"{n:03}.eval", [sample(1, v=n), sample(2)]) for n in range(300)]
    evalindex.build(root)
    keys = [(log, id) for id in (1, 2) for log in logs] * 20
    with evalindex.open(root) as index:
        found = list(index.iter_samples(iter(keys)))
    assert [key for key, _ in found] == keys
    assert [value["v"] for _, value in found[:300]] == list(range(300))


def test_values_come_back_as_json_reads_them(tmp_path: Path) -> None:
    body = (
        '{"id": 1, "epoch": 1, "a": NaN, "b": Infinity, "c": 1180591620717411303424,'
        ' "d": "\\ud800", "e": -0.0, "f": 1e400}'
    )
    log = tmp_path / "logs" / "run.eval"
    log.parent.mkdir()
    log.write_bytes(archive([Entry(b"samples/1_epoch_1.json", body.encode())]))
    evalindex.build(log.parent)
    with evalindex.open(log.parent) as index:
        found = index.read(log, 1)
        assert repr(found) == repr(json.loads(body))
        assert math.isnan(found["a"])
        assert set(index.read(log, 1, exclude_fields=["a", "d"])) == {"id", "epoch", *"bcef"}


def test_one_log_needs_no_index(log: Path, caplog: pytest.LogCaptureFixture) -> None:
    with evalindex.open(log) as index:
        assert index.path is None
        assert index.read("run.eval", 1)["id"] == 1
        assert len(list(index.samples(log))) == 10
    assert [r.getMessage() for r in caplog.records if "is not indexed" in r.getMessage()]
    assert not list(log.parent.glob("evalindex.db*"))


def test_an_index_opened_on_one_log_is_asked_about_that_log(log: Path) -> None:
    write_log(log.parent / "other.eval", [sample(99, uuid="other")])
    evalindex.build(log.parent)
    with evalindex.open(log) as index:
        assert {row.path for row in index.find()} == {"run.eval"}
        assert [row.path for row in index.logs()] == ["run.eval"]
        assert index.verify().logs == 1
        with pytest.raises(evalindex.SampleNotFound):
            index.read(uuid="other")
        assert index.read("other.eval", 99)["uuid"] == "other"  # named, it is served as ever
        assert index.find(log.parent).total == index.find(log).total + 1


def test_what_needs_an_index_says_so(log: Path, tmp_path: Path) -> None:
    with pytest.raises(evalindex.IndexNotFound, match="evalindex build"):
        evalindex.open(log.parent)
    with pytest.raises(evalindex.IndexNotFound):
        evalindex.open(tmp_path / "none.db")
    with pytest.raises(evalindex.LogNotFound):
        evalindex.open(tmp_path / "none.eval")


def test_a_log_that_is_not_indexed_yet_is_served(index: evalindex.Index, log: Path) -> None:
    new = write_log(log.parent / "new.eval", [sample(5)])
    assert index.read("new.eval", 5) == sample(5)
    assert [row.id for row in index.samples(new)] == [5]


def test_samples_are_those_that_the_log_has_now(index: evalindex.Index, log: Path) -> None:
    rows = list(index.samples("run.eval"))
    assert (rows[0].log, rows[0].path) == (str(log), "run.eval")
    assert [(row.id, row.epoch) for row in rows[:3]] == [(1, 1), (1, 2), (2, 1)]
    write_log(log, [sample(77)])
    assert [row.id for row in index.samples("run.eval")] == [77]


def test_a_closed_index_says_so(log: Path) -> None:
    evalindex.build(log.parent)
    index = evalindex.open(log.parent)
    running = index.iter_samples([(log, 1)])
    index.close()
    index.close()
    for use in (
        lambda: index.read(log, 1),
        lambda: index.iter_samples([(log, 1)]),
        lambda: index.samples(log),
        lambda: index.status(),
        lambda: next(running),
    ):
        with pytest.raises(evalindex.IndexClosed):
            use()


def test_threads_share_one_index(index: evalindex.Index, log: Path) -> None:
    failures: list[BaseException] = []

    def read() -> None:
        try:
            for _ in range(50):
                assert [s["id"] for s in index.read_samples(log, [3, 1, 2])] == [3, 1, 2]
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=read) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures


def test_on_stale_takes_two_words(log: Path) -> None:
    with pytest.raises(ValueError, match="on_stale"):
        evalindex.open(log, on_stale="ignore")  # type: ignore[arg-type]


def test_a_number_too_long_for_text_is_refused_by_name(index: evalindex.Index, log: Path) -> None:
    for key in (10**5000, (1, 10**5000)):
        with pytest.raises(ValueError, match="digits"):
            index.read_samples(log, [key])
    assert index.read(log, 10**3000, errors="skip") is None


@pytest.mark.parametrize("name", ["none.eval", "../none.eval", "/none/none.eval"])
def test_a_log_that_is_not_there_is_an_answer_like_others(
    index: evalindex.Index, name: str
) -> None:
    assert index.read(name, 1, errors="skip") is None
    (answer,) = index.read_samples(name, [1], errors="return")
    assert isinstance(answer, evalindex.LogNotFound)
    with pytest.raises(FileNotFoundError):
        index.read(name, 1)


def test_a_row_of_another_log_is_refused(index: evalindex.Index, log: Path) -> None:
    other = write_log(log.with_name("other.eval"), [sample(1)])
    with pytest.raises(ValueError, match="another log"):
        index.read_samples(log, list(index.samples(other)))
