"""Whatever is changed in an index, `verify` finds it or no answer depends on it."""

from __future__ import annotations

import random
import sqlite3
from pathlib import Path
from typing import Any

import pytest

import evalindex
from tests.builders import change_index, query, sample, write_log
from tests.test_chunked import parts, write

#: What no answer depends on: a wrong one costs time at most, or is a date of the index's own.
_HARMLESS = {
    ("meta", "key"),
    ("meta", "value"),
    ("migration", "version_num"),
    ("root", "built_at"),
    ("log", "version"),
    ("log", "reason"),
    ("log", "indexed_at"),
    ("metric", "position"),
}
_OTHERS = {
    "INTEGER": ["{} + 1", "NULL", "7"],
    "REAL": ["{} + 1", "NULL"],
    "VARCHAR(32)": ["'7'"],
    "TEXT": ["{} || 'x'", "NULL", "'7'", "'[7]'", "'unfinished'"],
    "BLOB": ["x'00'", "NULL"],
}
_METRICS = {"accuracy": {"name": "accuracy", "value": 0.5}, "stderr": {"name": "stderr"}}


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr("evalindex.stores.local.SETTLED_NS", -(10**9))
    for number, name in enumerate("abc"):
        samples = [sample(id, uuid=f"{name}{id}") for id in (1, 2, 3)]
        write_log(
            tmp_path / "logs" / f"{name}.eval",
            [*samples, samples[0]],
            header={
                "eval": {
                    "task": f"t{number}",
                    "model": "m",
                    "config": {},
                    "tags": [name],
                    "dataset": {"sample_ids": [1, 2, 3, 4]},
                },
                "results": {"scores": [{"name": "s", "scorer": "s", "metrics": _METRICS}]},
            },
            summaries=[
                {**one, "completed": True, "scores": {"s": {"value": number}}} for one in samples
            ],
        )
    evalindex.build(tmp_path / "logs")
    with evalindex.open(tmp_path / "logs") as index:
        assert index.verify().findings == ()
    return tmp_path / "logs"


def _tables(index: Path) -> dict[str, dict[str, str]]:
    """The types of the columns of each table."""
    tables = query(index, "SELECT name FROM sqlite_master WHERE type = 'table'")
    return {
        table: dict(query(index, "SELECT name, type FROM pragma_table_info(?)", table))
        for (table,) in tables
        if not table.startswith("sqlite_")
    }


def _row(index: Path, table: str) -> str:
    """A condition that one row fulfils."""
    keys = query(index, "SELECT name FROM pragma_table_info(?) WHERE pk", table)
    names = ", ".join(name for (name,) in keys) or "rowid"
    return f"({names}) = (SELECT {names} FROM {table} ORDER BY {names} DESC LIMIT 1)"


def _finds(root: Path) -> bool:
    try:
        with evalindex.open(root) as index:
            return bool(index.verify().findings)
    except evalindex.EvalIndexError:
        return True


def _set(index: Path, data: bytes) -> None:
    for beside in index.parent.glob(f"{index.name}-*"):
        beside.unlink()
    index.write_bytes(data)


@pytest.mark.parametrize("summaries", [True, False])
def test_nothing_is_found_where_nothing_is_wrong(tmp_path: Path, summaries: bool) -> None:
    odd: list[str | int] = [
        "a/b",
        "x_epoch_2",
        "_epoch_1/sample",
        "*[?]",
        "new\nline",
        "é",
        "",
        "%_",
        7,
    ]
    whole = [sample(id, epoch) for id in odd for epoch in (1, 12)]
    write_log(tmp_path / "odd.eval", [*whole, whole[3]])
    write_log(tmp_path / "none.eval", [])
    write_log(tmp_path / "running.eval", whole[:3], finished=False)
    write(tmp_path / "chunked.eval", parts())
    report = evalindex.build(tmp_path, summaries=summaries)
    assert report.indexed == 4
    with evalindex.open(tmp_path) as index:
        assert index.verify().findings == ()


def test_each_value_that_is_changed_is_found(root: Path) -> None:
    index = root / "evalindex.db"
    whole, changes = index.read_bytes(), 0
    for table, columns in _tables(index).items():
        for column, kind in columns.items():
            for other in _OTHERS[kind]:
                _set(index, whole)
                value = other.format(column)
                damage = (
                    f"UPDATE {table} SET {column} = {value}"
                    f" WHERE {_row(index, table)} AND {column} IS NOT {value}"
                )
                try:
                    change_index(index, damage)
                except sqlite3.IntegrityError:
                    continue
                if index.read_bytes() != whole and (table, column) not in _HARMLESS:
                    assert _finds(root), damage
                    changes += 1
    assert changes > 100


def test_each_row_that_is_missing_is_found(root: Path) -> None:
    index = root / "evalindex.db"
    whole = index.read_bytes()
    for table in _tables(index):
        if table != "migration":
            _set(index, whole)
            change_index(index, f"DELETE FROM {table} WHERE {_row(index, table)}")
            assert _finds(root), table


def _said(index: Path) -> dict[str, list[tuple[Any, ...]]]:
    """All that answers depend on."""
    return {
        table: query(
            index,
            f"SELECT {names} FROM {table} ORDER BY {names}",
        )
        for table, columns in _tables(index).items()
        if (names := ", ".join(name for name in columns if (table, name) not in _HARMLESS))
    }


@pytest.mark.parametrize("seed", range(4))
def test_bytes_that_are_changed_are_found_or_change_no_answer(root: Path, seed: int) -> None:
    index, rng = root / "evalindex.db", random.Random(seed)
    whole, said, found = index.read_bytes(), _said(index), 0
    for _ in range(100):
        data = bytearray(whole)
        for _ in range(rng.choice([1, 1, 4])):
            # Most of a page is empty.
            at = rng.choice([n for n in range(len(data)) if data[n]])
            data[at] ^= 1 << rng.randrange(8)
        _set(index, bytes(data))
        if _finds(root):
            found += 1
        else:
            assert _said(index) == said
    assert found > 20


def test_what_was_found_is_mended_as_was_said(root: Path) -> None:
    change_index(root / "evalindex.db", "UPDATE member SET crc32 = crc32 + 1")
    with evalindex.open(root) as index:
        findings = index.verify().findings
        assert {(finding.kind, finding.hint) for finding in findings} == {
            ("rows", "run `evalindex build --full`")
        }
    evalindex.build(root, full=True)
    with evalindex.open(root) as index:
        assert index.verify().findings == ()
