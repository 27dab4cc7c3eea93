"""`evalindex verify`: read everything, compare everything."""

from __future__ import annotations

import json

import click

from evalindex.cli import progress
from evalindex.cli.options import default_root, index_option, quiet_option
from evalindex.cli.text import plural
from evalindex.errors import printable
from evalindex.index import open as open_index


@click.command("verify", short_help="Check logs and index for damage.")
@click.argument("root", required=False)
@index_option
@quiet_option
@click.option("--sample", type=click.IntRange(1), metavar="N", help="N random members a log.")
@click.option("--json", "as_json", is_flag=True, help="Report as one JSON document.")
def command(root: str | None, index: str | None, sample: int | None, as_json: bool) -> int:
    """Read every member of the logs in ROOT (a folder or a log; if none is named, INSPECT_LOG_DIR
    or the current folder) and check lengths, CRCs, names and ids; check the index against the logs,
    and itself.

    Exits with 3 if anything is wrong, and says what to do about it.

    Example: evalindex verify logs/ --sample 20
    """
    with open_index(index or root or default_root()) as opened:
        report = opened.verify(root, sample=sample, progress=progress())
    if as_json:
        findings = [finding._asdict() for finding in report.findings]
        click.echo(json.dumps({**report._asdict(), "findings": findings}))
    else:
        for finding in report.findings:
            click.echo(printable(f"{finding.kind}: {finding.where}: {finding.what}"))
            click.echo(printable(f"  {finding.hint}"))
        if report.unindexed:
            count = plural(len(report.unindexed), "log")
            click.echo(f"{count} not indexed and not read: {printable(report.unindexed[0])} ...")
        click.echo(
            f"{plural(report.logs, 'log')}, {plural(report.members, 'member')} read, "
            f"{plural(len(report.findings), 'finding')}"
        )
    return 3 if report.findings else 0
