"""`evalindex find`: which samples."""

from __future__ import annotations

import json
import sys
from io import BytesIO
from typing import TYPE_CHECKING, Any

import click

from evalindex.cli.answers import answering, code_of, first_line, scores_text
from evalindex.cli.filters import filter_options
from evalindex.cli.options import index_option, is_quiet, quiet_option
from evalindex.cli.text import table
from evalindex.errors import printable

if TYPE_CHECKING:
    from collections.abc import Iterator

    from evalindex.results import Rows
    from evalindex.rows import SampleRow


@click.command("find", short_help="List samples: by id, uuid, error, score and so on.")
@click.argument("root", metavar="[ROOT|LOG]", required=False)
@filter_options
@click.option("--count", is_flag=True, help="Print only how many there are.")
@click.option("--json", "form", flag_value="json", help="JSON lines, all columns.")
@click.option("--csv", "form", flag_value="csv", help="CSV, as export writes it.")
@click.option("--keys", "form", flag_value="keys", help="Keys, for get --keys -.")
@click.option("--fresh", is_flag=True, help="Look at remote logs too; local ones always are.")
@index_option
@quiet_option
def command(
    root: str | None,
    filters: dict[str, Any],
    count: bool,
    form: str | None,
    fresh: bool,
    index: str | None,
) -> int:
    """List the samples in ROOT or LOG (if none is named, in INSPECT_LOG_DIR or the current folder)
    that pass all filters, from the index alone. Alternatives are given by the same option several
    times.

    Patterns are as in the shell, and case counts. Logs that are new or have changed are read, so
    that the answer holds for the logs as they are now; remote ones as they were built, unless
    --fresh.

    \b
    Example: evalindex find logs/ --task gsm8k --error "*Timeout*"
             evalindex find logs/ --score "match=I" --keys | evalindex get --keys -
    """
    with answering(root, index) as (opened, where):
        answer = opened.find(where, fresh=fresh, **filters)
        if filters.get("score") and not answer.total and not is_quiet():
            _tell_scores(opened.find(where, **{**filters, "score": None}))
        if count:
            click.echo(answer.total)
            answer.close()
        else:
            _print(answer, form)
        return code_of(answer)


def _print(answer: Rows[SampleRow], form: str | None) -> None:
    if form == "json":
        for row in answer:
            click.echo(json.dumps(row.as_dict()))
    elif form == "keys":
        for row in answer:
            click.echo(json.dumps({"log": row.log, "id": row.id, "epoch": row.epoch}))
    elif form == "csv":
        if sys.stdout.isatty():
            text = BytesIO()
            answer.write(text, "csv")
            for line in text.getvalue().decode().splitlines():
                click.echo(printable(line))
        else:
            answer.write(sys.stdout.buffer, "csv")
    elif answer.total:
        header = ("log", "id", "epoch", "scores", "tokens", "outcome")
        for line in table(header, _cells(answer), right=(2, 4), paths=(0,)):
            click.echo(line)
    else:
        click.echo("no such sample", err=True)


def _tell_scores(others: Rows[SampleRow]) -> None:
    """Which scores there are, where a test of scores has found nothing."""
    assert others.score_names is not None
    names = [
        f"{name} ({'numbers' if numbers else 'text'})"
        for name, numbers in others.score_names().items()
    ]
    others.close()
    if names:
        more = f" and {len(names) - 10} more" if len(names) > 10 else ""
        click.echo(printable(f"note: the scores here are {', '.join(names[:10])}{more}"), err=True)


def _cells(rows: Iterator[SampleRow]) -> Iterator[tuple[str, ...]]:
    for row in rows:
        outcome = first_line(row.error or "") or ("" if row.limit is None else f"{row.limit} limit")
        if row.invalidated:
            outcome = f"invalidated; {outcome}".rstrip("; ")
        tokens = "" if row.total_tokens is None else f"{row.total_tokens:,}"
        scores = scores_text(row.scores)
        yield row.path, str(row.id), str(row.epoch), scores, tokens, outcome
