"""`evalindex get`: read samples."""

from __future__ import annotations

import json
import logging
import os
import re
import shutil
import sys
from itertools import groupby
from typing import TYPE_CHECKING, Any, BinaryIO

import click

from evalindex.cli import progress
from evalindex.cli.keys_file import BadLine, Key, read_keys
from evalindex.cli.options import (
    Epoch,
    NegativeNumbers,
    NotesCounted,
    Plain,
    Size,
    default_root,
    explain_option,
    index_option,
    is_quiet,
    log_argument,
    log_from,
    quiet_option,
    tell_costs,
)
from evalindex.cli.output import output
from evalindex.errors import EvalIndexError, LogNotFound
from evalindex.home import find_index
from evalindex.index import open as open_index
from evalindex.locations import absolute, folder_of, real
from evalindex.progress import Silent

if TYPE_CHECKING:
    from collections.abc import Iterator

    from evalindex.index import Index
    from evalindex.progress import Progress

# JSON escapes control characters up to U+001F by itself; these move cursors or hide text too.
_UNPRINTABLE = re.compile("[\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2066-\u2069\ufeff\ud800-\udfff]")


@click.command("get", cls=NegativeNumbers, short_help="Read samples.")
@click.argument("log", type=Plain(), required=False)
@click.argument("id", type=Plain(), required=False)
@click.argument("epoch", type=Epoch(), default=1)
@click.option("--keys", metavar="FILE", help="Read many: CSV or JSON lines, - for stdin.")
@click.option("--uuid", metavar="UUID", help="By uuid, from the newest log that has it.")
@click.option("--raw", is_flag=True, help="The exact bytes of the sample's member.")
@click.option("--pretty", is_flag=True, help="Indent the JSON.")
@click.option(
    "--exclude",
    metavar="FIELD",
    multiple=True,
    help="Leave out top-level fields.",
)
@click.option("--out", metavar="FILE", help="Write there, once everything is proved.")
@click.option("--strict", is_flag=True, help="With --keys: stop at the first failure.")
@click.option("--concurrency", type=click.IntRange(1), metavar="N", help="Threads to read with.")
@click.option("--max-bytes", type=Size(), metavar="SIZE", help="Memory for samples, as 64MiB.")
@explain_option
@index_option
@quiet_option
def command(
    log: str | None,
    id: str | None,
    epoch: int,
    keys: str | None,
    uuid: str | None,
    index: str | None,
    raw: bool,
    pretty: bool,
    exclude: tuple[str, ...],
    out: str | None,
    strict: bool,
    concurrency: int | None,
    max_bytes: int | None,
) -> int:
    """Print the sample ID of LOG as JSON; EPOCH is 1 if not given. LOG need not be indexed: its
    directory is then read once.

    With --keys, the samples that FILE names in columns log, id and epoch, one JSON document
    a line; a key that fails is a JSON line on stderr, and the exit code is 3.

    An id that begins with -- goes behind a -- of its own.

    \b
    Example: evalindex get logs/run.eval 42 --exclude events
             evalindex get --uuid 6tUTa9qqkV5MqyTFerRV3J
             evalindex get --keys wanted.csv --out samples.jsonl
    """
    limits: dict[str, Any] = {"concurrency": concurrency}
    if max_bytes is not None:
        limits["max_bytes"] = max_bytes
    excluded = frozenset(name for names in exclude for name in names.split(","))
    if raw and (pretty or exclude or keys):
        raise click.UsageError("--raw gives exact bytes: no --pretty, --exclude or --keys")
    if keys is not None:
        if log is not None or pretty or uuid:
            raise click.UsageError("--keys goes with neither LOG and ID, --uuid nor --pretty")
        # On a terminal the samples themselves show how far it is.
        listener = Silent() if out is None and sys.stdout.isatty() else progress()
        with _Indexes(index, limits) as indexes, output(out, [keys]) as file, listener:
            listener.start("samples", None)
            return _get_many(indexes, keys, excluded, strict, file, listener)
    if uuid is not None:
        if id is not None or raw:
            raise click.UsageError("--uuid goes with neither ID nor --raw")
        return _get_by_uuid(log, uuid, index, excluded, out, indent=2 if pretty else None)
    if log is None or id is None:
        raise click.UsageError("give LOG and ID, or --uuid, or --keys FILE")
    log = log_argument(log)
    with open_index(index or _by_name(log), **limits) as opened, output(out, [log]) as file:
        if raw:
            with opened.stream(log, id, epoch) as stream:
                shutil.copyfileobj(stream, file, 2**20)
        else:
            sample = opened.read(log, id, epoch, exclude_fields=excluded)
            file.write(sample_text(sample, indent=2 if pretty else None).encode() + b"\n")
        tell_costs([opened.stats])
    return 0


def _get_by_uuid(
    log: str | None,
    uuid: str,
    index: str | None,
    excluded: frozenset[str],
    out: str | None,
    *,
    indent: int | None,
) -> int:
    if not is_quiet():
        log_from(logging.INFO)  # it says which log has it
    where = None if log is None else log_argument(log)
    with open_index(index or where or default_root()) as opened, output(out) as file:
        sample = opened.read(where, uuid=uuid, exclude_fields=excluded)
        file.write(sample_text(sample, indent=indent).encode() + b"\n")
        tell_costs([opened.stats])
    return 0


class _Indexes:
    """The index of each log: the one that was named, or the nearest to each."""

    def __init__(self, named: str | None, limits: dict[str, Any]) -> None:
        self._named = named
        self._limits = limits
        self._open: dict[str, Index] = {}
        self._where: dict[str, str] = {}

    def where(self, key: Key | BadLine) -> str | None:
        """What to open for a key's log: an index file, or the log itself; None for no key."""
        if isinstance(key, BadLine):
            return None
        if self._named is not None:
            return self._named
        log = log_argument(key.log)
        folder = folder_of(absolute(log))
        if folder not in self._where:
            self._where[folder] = find_index(real(folder)) or ""
        return self._where[folder] or log or os.curdir

    def answers(
        self, where: str, keys: Iterator[Key], exclude: frozenset[str]
    ) -> Iterator[tuple[Key, Any]]:
        """The answers to keys of logs that one index is for, the keys with full paths."""
        try:
            if where not in self._open:
                found_or_named = where in self._where.values() or where == self._named
                what = where if found_or_named else _by_name(where)
                self._open[where] = open_index(what, **self._limits)
        except EvalIndexError as error:
            yield from ((key, error) for key in keys)
            return
        index = self._open[where]
        found = (key._replace(log=_full_path(index, log_argument(key.log))) for key in keys)
        yield from index.iter_samples(found, exclude_fields=exclude, errors="return")

    def __enter__(self) -> _Indexes:
        return self

    def __exit__(self, *_: object) -> None:
        tell_costs(index.stats for index in self._open.values())
        for index in self._open.values():
            index.close()


def _get_many(
    indexes: _Indexes,
    name: str,
    exclude: frozenset[str],
    strict: bool,
    file: BinaryIO,
    listener: Progress,
) -> int:
    failed = False
    notes = NotesCounted()
    for key, answer in _answers(indexes, name, exclude):
        listener.step()
        if isinstance(key, Key) and isinstance(answer, dict):
            line = {"log": key.log, "id": answer["id"], "epoch": answer["epoch"], "sample": answer}
            file.write(sample_text(line, indent=None).encode() + b"\n")
            continue
        failed = True
        failure = key._asdict()
        if isinstance(key, BadLine):
            error: Exception = click.ClickException(f"{name}, line {key.line}: {key.reason}")
        else:
            error = answer
            failure |= {"error": type(answer).__name__, "reason": answer.reason}
            failure |= {"hint": answer.hint}
        if strict:
            raise error
        click.echo(json.dumps(failure), err=True)
    notes.tell(as_json=True)
    return 3 if failed else 0


def _answers(
    indexes: _Indexes, name: str, exclude: frozenset[str]
) -> Iterator[tuple[Key | BadLine, Any]]:
    try:
        opened = click.open_file(name, encoding="utf-8", errors="surrogateescape")
    except OSError as error:
        raise click.UsageError(f"--keys {name}: {error.strerror}") from None
    with opened as lines:
        shown = "stdin" if name == "-" else name
        for where, group in groupby(read_keys(lines, shown), key=indexes.where):
            if where is None:
                yield from ((bad, None) for bad in group if isinstance(bad, BadLine))
            else:
                yield from indexes.answers(
                    where, (key for key in group if isinstance(key, Key)), exclude
                )


def _by_name(log: str) -> str:
    """The same log, if it can be one by its name; `open` would take it for an index."""
    if log.endswith((".eval", ".json")) or os.path.isdir(log):
        return log
    hint = f"did you mean {log}.eval?" if os.path.lexists(f"{log}.eval") else None
    raise LogNotFound("no such log, by its name: they end in .eval", log=log, hint=hint)


def _full_path(index: Index, log: str) -> str:
    try:
        return index.locate(log)
    except EvalIndexError:
        return log  # reading it will say what is wrong with it


def sample_text(sample: dict[str, Any], *, indent: int | None) -> str:
    """A sample as JSON that is safe to print: the same document, whatever is in it."""
    separators = (",", ":") if indent is None else None
    text = json.dumps(sample, ensure_ascii=False, indent=indent, separators=separators)
    return _UNPRINTABLE.sub(lambda match: f"\\u{ord(match[0]):04x}", text)
