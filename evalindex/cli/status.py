"""`evalindex status`: what the index knows and how true it still is."""

from __future__ import annotations

import json
from collections import Counter
from datetime import datetime, timezone
from typing import TYPE_CHECKING

import click

from evalindex.cli.options import default_root, index_option, is_quiet, quiet_option
from evalindex.cli.text import age, plural, size, table
from evalindex.errors import printable
from evalindex.index import open as open_index

if TYPE_CHECKING:
    from evalindex.status import IndexStatus, LogStatus


@click.command("status", short_help="Show an index, and which logs changed since it was built.")
@click.argument("root", required=False)
@index_option
@quiet_option
@click.option("--all", "show_all", is_flag=True, help="List fresh logs too.")
@click.option("--json", "as_json", is_flag=True, help="Report as one JSON document.")
def command(root: str | None, index: str | None, show_all: bool, as_json: bool) -> None:
    """Show the index of ROOT (a folder or a log; if none is named, of INSPECT_LOG_DIR or the
    current folder), and each log that is not fresh: stale, gone, unreadable, new, or unfinished
    (running or crashed).

    Example: evalindex status logs/
    """
    where = index or root or default_root()
    with open_index(where) as opened:
        found = opened.status(root)
    if as_json:
        logs = [log._asdict() for log in found.logs]
        click.echo(json.dumps({**found._asdict(), "logs": logs}))
    else:
        _print(found, show_all)


def _print(found: IndexStatus, show_all: bool) -> None:
    click.echo(f"index    {printable(found.index_file)}")
    click.echo(f"schema   {found.schema}, parser {found.parser}")
    click.echo(
        f"holds    {plural(found.samples, 'sample')}, {plural(found.members, 'member')}, "
        f"in {size(found.bytes)}"
    )
    for root, built_at in found.roots.items():
        click.echo(f"root     {printable(root)}, {_when(built_at)}")
    counts = Counter(log.state for log in found.logs)
    summary = ", ".join(f"{count:,} {state}" for state, count in counts.most_common())
    click.echo(f"logs     {summary or 'none'}")
    shown = [log for log in found.logs if show_all or log.state != "fresh"]
    if shown:
        click.echo()
        header = ("state", "samples", "size", "age", "log")
        rows = [_row(log, full=len(found.roots) > 1) for log in shown]
        for line in table(header, rows, right=(1, 2, 3)):
            click.echo(line)
    for folder, reason in found.unlisted.items():
        click.echo(f"warning: {printable(f'{folder}: it cannot be listed: {reason}')}", err=True)
    if (counts["stale"] or counts["gone"] or counts["new"]) and not is_quiet():
        click.echo("hint: `evalindex build` brings the index up to date", err=True)


def _row(log: LogStatus, *, full: bool) -> tuple[str, ...]:
    name = log.log if full else log.path
    return (
        log.state,
        "" if log.samples is None or log.state == "unreadable" else f"{log.samples:,}",
        "" if log.bytes is None else size(log.bytes),
        "" if log.age is None else age(log.age),
        name if log.reason is None else f"{name}: {log.reason}",
    )


def _when(built_at: float | None) -> str:
    if built_at is None:
        return "never built as a whole"
    moment = datetime.fromtimestamp(built_at, timezone.utc)
    return f"built {moment:%Y-%m-%d %H:%M:%S} UTC"
