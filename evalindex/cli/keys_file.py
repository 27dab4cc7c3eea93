"""Files of keys: CSV with a header, or JSON lines, with `log`, `id` and perhaps `epoch`."""

from __future__ import annotations

import csv
import json
from itertools import chain
from typing import TYPE_CHECKING, Any, NamedTuple

import click

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator


class Key(NamedTuple):
    """A line's key, as it was written; an id from CSV is text."""

    log: str
    id: str | int
    epoch: int


class BadLine(NamedTuple):
    """A line that holds no key: its number, from 1, and why."""

    line: int
    reason: str


def read_keys(lines: Iterable[str], name: str) -> Iterator[Key | BadLine]:
    """The keys of a file, as they come. Raises `click.UsageError` for a bad CSV header."""
    numbered = enumerate(lines, 1)
    for number, line in numbered:
        if line.strip():
            rest = chain([(number, line)], numbered)
            if line.lstrip("\ufeff \t").startswith(("{", "[")):
                yield from _from_json_lines(rest)
            else:
                yield from _from_csv(rest, name)
            return


def _from_json_lines(numbered: Iterable[tuple[int, str]]) -> Iterator[Key | BadLine]:
    for number, line in numbered:
        if not line.strip():
            continue
        try:
            document = json.loads(line.lstrip("\ufeff"))
        except (ValueError, RecursionError) as error:
            yield BadLine(number, f"it is no JSON: {error}")
            continue
        if isinstance(document, list) and 2 <= len(document) <= 3:
            document = dict(zip(("log", "id", "epoch"), document, strict=False))
        if not (isinstance(document, dict) and {"log", "id"} <= document.keys()):
            yield BadLine(number, 'it is not {"log": ..., "id": ..., "epoch": ...}')
        else:
            yield _key(number, document["log"], document["id"], document.get("epoch"))


def _from_csv(numbered: Iterable[tuple[int, str]], name: str) -> Iterator[Key | BadLine]:
    csv.field_size_limit(2**31 - 1)
    reader = csv.DictReader(line for _, line in numbered)
    found = reader.fieldnames or ()
    fields = [field.lstrip("\ufeff").strip().lower() for field in found]
    reader.fieldnames = fields
    if not {"log", "id"} <= set(fields):
        raise click.UsageError(
            f"{name}, line 1: CSV begins with a header that has log and id; "
            f"found {', '.join(map(repr, found))}"
        )
    for row in reader:
        if None in row or None in row.values():
            yield BadLine(reader.line_num, f"it has not {len(fields)} cells, as the header has")
        else:
            yield _key(reader.line_num, row["log"], row["id"], row.get("epoch"))


def _key(line: int, log: Any, id: Any, epoch: Any) -> Key | BadLine:
    if not isinstance(log, str) or not log:
        return BadLine(line, f"log is {log!r}, not the name of a log")
    if type(id) not in (str, int):
        return BadLine(line, f"id is {id!r}, neither text nor a whole number")
    try:
        number = 1 if epoch in (None, "") else float(epoch)
        if isinstance(epoch, bool) or number != int(number):
            raise ValueError
    except (TypeError, ValueError, OverflowError):
        return BadLine(line, f"epoch is {epoch!r}, not a whole number")
    return Key(log, id, int(number))
