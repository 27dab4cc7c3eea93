"""`evalindex incomplete`: which planned samples have to be run (again)."""

from __future__ import annotations

import json
from collections import Counter
from typing import TYPE_CHECKING, Any

import click

from evalindex.cli.answers import asked, code_of, first_line
from evalindex.cli.filters import log_filter_options
from evalindex.cli.options import index_option, is_quiet, quiet_option
from evalindex.cli.text import plural, table
from evalindex.errors import printable

if TYPE_CHECKING:
    from collections.abc import Iterable

    from evalindex.incomplete import Incomplete, TaskProgress
    from evalindex.rows import SampleRow


@click.command("incomplete", short_help="List planned samples that have to be run (again).")
@click.argument("root", metavar="[ROOT|LOG]", required=False)
@log_filter_options
@click.option(
    "--format",
    "form",
    type=click.Choice(["table", "json", "args", "keys"]),
    default="table",
    help="args: --sample-id for inspect eval; keys: for get --keys.",
)
@click.option("--json", "form", flag_value="json", help="The same as --format json.")
@click.option("--fresh", is_flag=True, help="Look at remote logs too; local ones always are.")
@index_option
@quiet_option
def command(
    root: str | None, filters: dict[str, Any], form: str, fresh: bool, index: str | None
) -> int:
    """List the samples that were planned and have no record that could be used again, with the
    reason: missing, error, cancelled or invalidated. Of a LOG: in that log; of a ROOT (without
    it, the current folder): over all attempts of each task.

    The rule is that of inspect's own retry; a sample that a limit ended counts as done. Exits with
    3 if of some task it is not known what was planned.

    \b
    Example: evalindex incomplete logs/
             inspect eval task.py $(evalindex incomplete logs/run.eval --format args)
    """
    with asked(root, index) as (opened, where):
        answer = opened.incomplete(where, fresh=fresh, **filters)
        if form == "args":
            rows = list(answer)
            if rows:
                click.echo(answer.sample_id_argument(rows))
            _tell_epochs(rows, answer.tasks)
        elif form == "keys":
            for row in answer:
                click.echo(json.dumps({"log": row.log, "id": row.id, "epoch": row.epoch}))
        elif form == "json":
            samples = [row.as_dict() for row in answer]
            tasks = [task._asdict() for task in answer.tasks]
            click.echo(json.dumps({"tasks": tasks, "samples": samples}))
        else:
            _print(answer)
        _tell(answer)
        return code_of(answer) or (3 if answer.unknown else 0)


def _print(answer: Incomplete) -> None:
    if not answer.total:
        return
    reasons: Counter[str] = Counter()

    def cells(rows: Iterable[SampleRow]) -> Iterable[tuple[str, ...]]:
        for row in rows:
            reasons[str(row.reason)] += 1
            error = first_line(row.error or "")
            yield str(row.reason), str(row.id), str(row.epoch), row.task or "", row.path, error

    header = ("reason", "id", "epoch", "task", "log", "error")
    for line in table(header, cells(answer), right=(2,)):
        click.echo(line)
    click.echo()
    click.echo(
        f"{plural(answer.total, 'sample')} to run: "
        + ", ".join(f"{count:,} {reason}" for reason, count in reasons.most_common())
    )


def _tell(answer: Incomplete) -> None:
    """What the rows do not say."""
    for task in answer.unknown:
        click.echo(
            printable(
                f"unknown: {task.task or task.log}: not all of its logs say which samples were "
                f"planned; {task.done:,} are done"
            ),
            err=True,
        )
    if is_quiet():
        return
    known = [task for task in answer.tasks if task.planned is not None]
    done = sum(task.done for task in known)
    planned = sum(task.planned or 0 for task in known)
    click.echo(f"{plural(len(known), 'task')}: {done:,} of {planned:,} samples done", err=True)
    for count, what in (
        (sum(task.limits for task in answer.tasks), "ended by a limit, which counts as done"),
        (sum(task.unrecorded for task in answer.tasks), "listed by a log that does not hold them"),
        (sum(task.unsummarized for task in answer.tasks), "held, but not listed by their log"),
        (sum(task.collisions for task in answer.tasks), "hidden by another id of the same text"),
    ):
        if count:
            click.echo(f"note: {plural(count, 'sample')} {what}", err=True)


def _tell_epochs(rows: Iterable[SampleRow], tasks: Iterable[TaskProgress]) -> None:
    """Inspect runs an id in all epochs."""
    epochs = max((task.epochs for task in tasks), default=1)
    missing: dict[str | int, list[int]] = {}
    for row in rows:
        missing.setdefault(row.id, []).append(row.epoch)
    some = [
        f"{id} ({', '.join(map(str, found))})"
        for id, found in missing.items()
        if len(found) < epochs
    ]
    if some and not is_quiet():
        shown = ", ".join(some[:10]) + (" ..." if len(some) > 10 else "")
        click.echo(
            printable(f"note: inspect runs each id in all {epochs} epochs; missing are {shown}"),
            err=True,
        )
