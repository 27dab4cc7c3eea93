"""`evalindex get`: read samples."""

from __future__ import annotations

import json
import re
import sys
from typing import TYPE_CHECKING

import click

from evalindex.cli.options import (
    Epoch,
    NegativeNumbers,
    Plain,
    index_option,
    log_argument,
    quiet_option,
)
from evalindex.index import open as open_index

if TYPE_CHECKING:
    from typing import Any

# JSON escapes control characters up to U+001F by itself; these move cursors or hide text too.
_UNPRINTABLE = re.compile("[\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2066-\u2069\ufeff\ud800-\udfff]")


@click.command("get", cls=NegativeNumbers, short_help="Read samples.")
@click.argument("log", type=Plain())
@click.argument("id", type=Plain())
@click.argument("epoch", type=Epoch(), default=1)
@index_option
@quiet_option
@click.option("--raw", is_flag=True, help="The exact bytes of the sample's member.")
@click.option("--pretty", is_flag=True, help="Indent the JSON.")
@click.option("--exclude", metavar="FIELD", multiple=True, help="Leave out a top-level field.")
def command(
    log: str,
    id: str,
    epoch: int,
    index: str | None,
    raw: bool,
    pretty: bool,
    exclude: tuple[str, ...],
) -> None:
    """Print the sample ID of LOG as JSON; EPOCH is 1 if not given.

    LOG need not be indexed: its directory is then read once.

    Example: evalindex get logs/run.eval 42 --exclude events
    """
    if raw and (pretty or exclude):
        raise click.UsageError(
            "--raw gives exact bytes; it goes with neither --pretty nor --exclude"
        )
    log = log_argument(log)
    with open_index(index or log) as opened:
        if raw:
            sys.stdout.buffer.write(opened.read(log, id, epoch, as_="bytes"))
        else:
            sample = opened.read(log, id, epoch, exclude_fields=exclude)
            click.echo(sample_text(sample, indent=2 if pretty else None))


def sample_text(sample: dict[str, Any], *, indent: int | None) -> str:
    """A sample as JSON that is safe to print: the same document, whatever is in it."""
    separators = (",", ":") if indent is None else None
    text = json.dumps(sample, ensure_ascii=False, indent=indent, separators=separators)
    return _UNPRINTABLE.sub(lambda match: f"\\u{ord(match[0]):04x}", text)
