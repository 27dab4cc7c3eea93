"""`evalindex incomplete`: which planned samples have to be run (again)."""

from __future__ import annotations

import json
from collections import Counter
from typing import TYPE_CHECKING, Any

import click

from evalindex.cli.answers import answering, code_of, first_line
from evalindex.cli.filters import log_filter_options
from evalindex.cli.options import index_option, is_quiet, quiet_option
from evalindex.cli.text import plural, table
from evalindex.errors import EvalIndexError, printable

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
@click.option("--recorded", is_flag=True, help="Only those that a log holds: get can read them.")
@click.option("--fresh", is_flag=True, help="Look at remote logs too; local ones always are.")
@index_option
@quiet_option
def command(
    root: str | None,
    filters: dict[str, Any],
    form: str,
    recorded: bool,
    fresh: bool,
    index: str | None,
) -> int:
    """List the samples that were planned and have no record that could be used again, with the
    reason: missing, error, cancelled or invalidated. Of a LOG: in that log; of a ROOT (if none is
    named, INSPECT_LOG_DIR or the current folder): over all attempts of each task.

    The rule is that of inspect's own retry; a sample that a limit ended counts as done. Exits with
    3 if of some task it is not known what was planned, and with 1 if args would hold nothing, since
    inspect then runs everything.

    \b
    Example: evalindex incomplete logs/
             args=$(evalindex incomplete logs/run.eval --format args) &&
             inspect eval task.py $args
    """
    with answering(root, index) as (opened, where):
        answer = opened.incomplete(where, fresh=fresh, **filters)
        found = (row for row in answer if row.recorded or not recorded)
        if form == "args":
            rows = list(found)
            if not rows:
                # An empty argument would make inspect run everything.
                raise EvalIndexError("nothing is to be run", log=where)
            click.echo(answer.sample_id_argument(rows))
            _tell_epochs(rows, answer.tasks)
        elif form == "keys":
            for row in found:
                click.echo(json.dumps({"log": row.log, "id": row.id, "epoch": row.epoch}))
        elif form == "json":
            samples = [row.as_dict() for row in found]
            tasks = [task._asdict() for task in answer.tasks]
            click.echo(json.dumps({"tasks": tasks, "samples": samples}))
        else:
            _print(found)
        _tell(answer)
        return code_of(answer) or (3 if answer.unknown else 0)


def _print(found: Iterable[SampleRow]) -> None:
    reasons: Counter[str] = Counter()

    def cells(rows: Iterable[SampleRow]) -> Iterable[tuple[str, ...]]:
        for row in rows:
            reasons[str(row.reason)] += 1
            error = first_line(row.error or "")
            yield str(row.reason), str(row.id), str(row.epoch), row.task or "", row.path, error

    header = ("reason", "id", "epoch", "task", "log", "error")
    lines = table(header, cells(found), right=(2,), paths=(4,))
    title = next(lines)
    for number, line in enumerate(lines):
        if not number:
            click.echo(title)
        click.echo(line)
    if not reasons:
        return
    click.echo()
    click.echo(
        f"{plural(sum(reasons.values()), 'sample')} to run: "
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
    logs = plural(sum(task.attempts for task in known), "log")
    click.echo(
        f"{plural(len(known), 'task')} in {logs}: {done:,} of {planned:,} samples done", err=True
    )
    for name, what in (
        ("limits", "ended by a limit, which counts as done"),
        ("unrecorded", "listed in the summaries of a log that does not hold the sample itself"),
        ("unsummarized", "in a log whose summaries do not list it"),
        ("collisions", "whose id has the text of another id: of two, a log holds one"),
    ):
        counts = {task.log: getattr(task, name) for task in answer.tasks if getattr(task, name)}
        if counts:
            first = printable(next(iter(counts)))
            more = f" and {len(counts) - 1:,} more" if len(counts) > 1 else ""
            what = f"{plural(sum(counts.values()), 'sample')} {what} ({first}{more})"
            click.echo(f"note: {what}", err=True)


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
