"""`evalindex build`: index logs."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING

import click

from evalindex.builder import build
from evalindex.cli import complain, progress
from evalindex.cli.options import (
    default_root,
    explain_option,
    index_option,
    is_quiet,
    quiet_option,
    tell_costs,
)
from evalindex.cli.text import plural
from evalindex.errors import printable

if TYPE_CHECKING:
    from evalindex.builder import BuildReport


@click.command("build", short_help="Index logs.")
@click.argument("roots", metavar="ROOT...", nargs=-1)
@index_option
@quiet_option
@click.option("--full", is_flag=True, help="Read every log again; make a damaged index anew.")
@click.option("--strict", is_flag=True, help="Exit with 1 if any log is unreadable.")
@click.option("--forget", is_flag=True, help="Forget a root that is empty or gone.")
@click.option(
    "--jobs",
    type=click.IntRange(1),
    metavar="N",
    help="Read N logs at a time, as for cold or distant disks.",
)
@click.option("--no-summaries", is_flag=True, help="Keep the index small: no rows of samples.")
@explain_option
@click.option("--json", "as_json", is_flag=True, help="Report as one JSON document.")
def command(
    roots: tuple[str, ...],
    index: str | None,
    full: bool,
    strict: bool,
    forget: bool,
    jobs: int | None,
    no_summaries: bool,
    as_json: bool,
) -> int:
    """Index what is new or changed below each ROOT (a folder, a URL such as s3://bucket/logs, or
    one log), forget what is gone. Without ROOT it is inspect's INSPECT_LOG_DIR, if that is set.

    Each folder gets evalindex.db in it, unless --index names one file for all; that of a URL is a
    file in the user's cache folder.

    Example: evalindex build logs/
    """
    if not roots and default_root() == os.curdir:
        raise click.UsageError("name what to index: a folder, a URL or a log")
    report = build(
        list(roots) or default_root(),
        index,
        full=full,
        forget=forget,
        jobs=jobs,
        summaries=not no_summaries,
        progress=progress(),
    )
    if as_json:
        click.echo(json.dumps(_document(report)))
    elif is_quiet():
        for error in report.failures:
            complain(error)
    else:
        _print(report)
    tell_costs([report.stats])
    if not report.unreadable:
        return 0
    return 1 if strict else 3


def _document(report: BuildReport) -> dict[str, object]:
    failures = [
        {"log": error.log, "error": type(error).__name__, "reason": error.reason}
        for error in report.failures
    ]
    return {**report._asdict(), "failures": failures, "stats": report.stats._asdict()}


def _print(report: BuildReport) -> None:
    for error in report.failures:
        complain(error)
    if report.json_logs:
        click.echo(
            f"{plural(len(report.json_logs), 'log')} in the .json format not indexed; "
            "convert with: inspect log convert --to eval --output-dir DIR "
            + printable(report.json_logs[0])
            + (" ..." if len(report.json_logs) > 1 else ""),
            err=True,
        )
    click.echo(
        f"{report.indexed:,} indexed, {report.unchanged:,} unchanged, "
        f"{report.removed:,} removed, {report.unreadable:,} unreadable"
    )
    for index in report.indexes:
        click.echo(f"index: {printable(index)}")
