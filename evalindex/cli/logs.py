"""`evalindex logs`: a row a log."""

from __future__ import annotations

import json
import time
from datetime import datetime
from typing import TYPE_CHECKING, Any

import click

from evalindex.cli.answers import answering, code_of, number
from evalindex.cli.filters import filter_options
from evalindex.cli.options import index_option, quiet_option
from evalindex.cli.text import age, table

if TYPE_CHECKING:
    from evalindex.rows import LogRow


@click.command("logs", short_help="List logs: task, model, status, how far, metrics.")
@click.argument("root", metavar="[ROOT|LOG]", required=False)
@filter_options
@click.option("--json", "as_json", is_flag=True, help="JSON lines, all columns.")
@click.option("--fresh", is_flag=True, help="Look at remote logs too; local ones always are.")
@index_option
@quiet_option
def command(
    root: str | None, filters: dict[str, Any], as_json: bool, fresh: bool, index: str | None
) -> int:
    """List the logs in ROOT (if none is named, in INSPECT_LOG_DIR or the current folder) that pass
    all filters, the newest last; with filters about samples, those that hold such a sample. See
    find.

    \b
    Example: evalindex logs logs/ --task gsm8k --newest
    """
    with answering(root, index) as (opened, where):
        answer = opened.logs(where, fresh=fresh, **filters)
        if as_json:
            for row in answer:
                click.echo(json.dumps(row.as_dict()))
        elif answer.total:
            rows = sorted(answer, key=lambda row: row.created or "")
            header = ("created", "task", "model", "status", "done", "errors", "metric", "log")
            for line in table(header, map(_cells, rows), right=(0, 4, 5), paths=(7,)):
                click.echo(line)
        else:
            click.echo("no such log", err=True)
        return code_of(answer)


def _cells(row: LogRow) -> tuple[str, ...]:
    planned = "?" if row.planned is None else f"{row.planned:,}"
    value = "" if row.headline_value is None else number(row.headline_value)
    return (
        _age(row.created),
        row.task or "",
        row.model or "",
        row.status + (", invalidated" if row.invalidated else ""),
        f"{row.done or 0:,}/{planned}",
        f"{row.errors:,}" if row.errors else "",
        f"{row.headline_metric} {value}" if row.headline_metric else "",
        row.path,
    )


def _age(created: str | None) -> str:
    try:
        moment = datetime.fromisoformat(created or "")
    except ValueError:
        return ""
    return age(max(0.0, time.time() - moment.timestamp()))
