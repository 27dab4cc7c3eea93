"""`evalindex export`: rows, or the samples themselves, as a file for other programs."""

from __future__ import annotations

import json
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from evalindex.cli import progress
from evalindex.cli.answers import answering, code_of
from evalindex.cli.filters import filter_options
from evalindex.cli.get import sample_text
from evalindex.cli.options import index_option, is_quiet, quiet_option
from evalindex.cli.output import output
from evalindex.cli.text import plural
from evalindex.export import export_samples
from evalindex.sheets import Format, format_of

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import BinaryIO

    from evalindex.errors import EvalIndexError
    from evalindex.index import Index
    from evalindex.results import Rows
    from evalindex.rows import SampleRow


@click.command("export", short_help="Write rows or samples to a file: .parquet, .csv and others.")
@click.argument("out")
@click.argument("root", metavar="[ROOT|LOG]", required=False)
@filter_options
@click.option("--logs", "of_logs", is_flag=True, help="A row a log instead of a row a sample.")
@click.option("--samples", "whole", is_flag=True, help="The samples themselves.")
@click.option(
    "--exclude",
    metavar="FIELD",
    multiple=True,
    help="With --samples: leave out top-level fields.",
)
@click.option("--fresh", is_flag=True, help="Look at remote logs too; local ones always are.")
@index_option
@quiet_option
def command(
    out: str,
    root: str | None,
    filters: dict[str, Any],
    of_logs: bool,
    whole: bool,
    exclude: tuple[str, ...],
    fresh: bool,
    index: str | None,
) -> int:
    """Write a row for each sample in ROOT or LOG (if none is named, in INSPECT_LOG_DIR or the
    current folder) that passes all filters, see find, to OUT: a .parquet, .arrow, .csv or .jsonl
    file, by its ending. Columns have the names that inspect's data frames have. Parquet and Arrow
    need evalindex[export].

    With --samples, the samples themselves: JSON lines as get --keys prints them, in the other
    formats their JSON as text. A sample that fails is a JSON line on stderr, and the exit code
    is 3.

    \b
    Example: evalindex export rows.parquet logs/ --task gsm8k
             evalindex export logs.csv logs/ --logs --newest
             evalindex export failed.jsonl logs/ --samples --error "*" --exclude events
    """
    if of_logs and whole:
        raise click.UsageError("--logs and --samples exclude each other")
    if exclude and not whole:
        raise click.UsageError("--exclude goes with --samples")
    try:
        form = format_of(out)
    except ValueError as error:
        raise click.UsageError(str(error)) from None
    excluded = frozenset(name for names in exclude for name in names.split(","))
    failed = False
    with answering(root, index) as (opened, where):
        answer: Rows[Any] = (opened.logs if of_logs else opened.find)(where, fresh=fresh, **filters)
        with output(out, name="OUT") as file:
            if whole:
                count, failed = _export_samples(opened, answer, excluded, file, form)
            else:
                count = answer.write(file, form)
        if not is_quiet():
            click.echo(f"{plural(count, 'sample' if whole else 'row')}: {out}", err=True)
        return code_of(answer) or (3 if failed else 0)


def _export_samples(
    index: Index,
    rows: Rows[SampleRow],
    excluded: frozenset[str],
    file: BinaryIO,
    form: Format,
) -> tuple[int, bool]:
    """How many samples were written, and whether others failed."""
    failures = 0

    def failed(row: SampleRow, error: EvalIndexError) -> None:
        nonlocal failures
        failures += 1
        failure: dict[str, Any] = {"log": row.log, "id": row.id, "epoch": row.epoch}
        failure |= {"error": type(error).__name__, "reason": error.reason, "hint": error.hint}
        click.echo(json.dumps(failure), err=True)

    with progress() as listener:
        listener.start("samples", rows.total)

        def answers() -> Iterator[tuple[SampleRow, Any]]:
            for answer in index.iter_samples(rows, exclude_fields=excluded, errors="return"):
                listener.step()
                yield answer

        encode = partial(sample_text, indent=None)
        count = export_samples(answers(), file, form, failed=failed, encode=encode)
    return count, failures > 0
