"""Files of keys: CSV with a header, or JSON lines, with `log`, `id` and perhaps `epoch`."""

from __future__ import annotations

import csv
import json
from itertools import chain
from typing import TYPE_CHECKING, NamedTuple

import click

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator


class Key(NamedTuple):
    """A line's key, as it was written; an id from CSV is text."""

    log: str
    id: str | int
    epoch: int


def read_keys(lines: Iterable[str], name: str) -> Iterator[Key]:
    """The keys of a file, as they come. Raises `click.UsageError`, naming file and line."""
    numbered = enumerate(lines, 1)
    for number, line in numbered:
        if line.strip():
            rest = chain([(number, line)], numbered)
            if line.lstrip("\ufeff \t").startswith(("{", "[")):
                yield from _from_json_lines(rest, name)
            else:
                yield from _from_csv(rest, name)
            return


def _from_json_lines(numbered: Iterable[tuple[int, str]], name: str) -> Iterator[Key]:
    for number, line in numbered:
        if not line.strip():
            continue
        try:
            document = json.loads(line.lstrip("\ufeff"))
            if isinstance(document, list):
                log, id, epoch = (*document, 1)[:3]
            else:
                log, id, epoch = document["log"], document["id"], document.get("epoch", 1)
        except (ValueError, KeyError, TypeError, AttributeError):
            raise _bad(name, number, 'wanted {"log": ..., "id": ..., "epoch": ...}') from None
        if not isinstance(log, str) or type(id) not in (str, int) or type(epoch) is not int:
            raise _bad(name, number, "log is text, id text or a whole number, epoch a whole number")
        yield Key(log, id, epoch)


def _from_csv(numbered: Iterable[tuple[int, str]], name: str) -> Iterator[Key]:
    reader = csv.DictReader(line for _, line in numbered)
    fields = [field.lstrip("\ufeff") for field in reader.fieldnames or ()]
    reader.fieldnames = fields
    if not {"log", "id"} <= set(fields):
        raise _bad(name, 1, "a CSV file of keys begins with a header that has log and id")
    for row in reader:
        try:
            log, id, epoch = row["log"], row["id"], int(row.get("epoch") or 1)
            if log is None or id is None:
                raise ValueError
        except ValueError:
            raise _bad(name, reader.line_num, "wanted a log, an id and a whole number") from None
        yield Key(log, id, epoch)


def _bad(name: str, number: int, why: str) -> click.UsageError:
    return click.UsageError(f"{name}, line {number}: {why}")
