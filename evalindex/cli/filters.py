"""The options that say which logs and samples are meant."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

import click

from evalindex.find import find_filters

if TYPE_CHECKING:
    from collections.abc import Callable

_NAMES = ("task", "model", "status", "since", "newest", "newest_uuid", "id", "uuid", "error",
    "limit_hit", "score")  # fmt: skip
_LOG_OPTIONS = (
    click.option("--task", metavar="GLOB", multiple=True, help="The task's name."),
    click.option("--model", metavar="GLOB", multiple=True, help="The model's name."),
    click.option(
        "--status",
        metavar="STATUS",
        multiple=True,
        help="The log's status: success, error, cancelled, started.",
    ),
    click.option("--since", metavar="TIME", help="Created since: 2026-11-30, or an age: 12h, 7d."),
    click.option("--newest", is_flag=True, help="Only the newest log of each task, by task_id."),
)
_SAMPLE_OPTIONS = (
    click.option("--newest-uuid", is_flag=True, help="Of one uuid only the newest log's sample."),
    click.option("--id", metavar="ID", multiple=True, help="The sample's id."),
    click.option("--uuid", metavar="UUID", multiple=True, help="The sample's uuid."),
    click.option("--error", metavar="GLOB", multiple=True, help="What stopped the sample."),
    click.option("--limit-hit", is_flag=True, help="Ended by a limit."),
    click.option(
        "--score",
        metavar="TEST",
        multiple=True,
        help='NAME, "NAME<0.5", "NAME=C"; all of several.',
    ),
)


def filter_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add all of them; they come as one argument, `filters`, as `Index.find` takes it."""
    return _with_options(command, (*_LOG_OPTIONS, *_SAMPLE_OPTIONS))


def log_filter_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """The same for those that say which logs are meant."""
    return _with_options(command, _LOG_OPTIONS)


def _with_options(
    command: Callable[..., Any], options: tuple[Callable[..., Any], ...]
) -> Callable[..., Any]:
    @functools.wraps(command)
    def collecting(**given: Any) -> Any:
        filters = {name: given.pop(name) for name in _NAMES if name in given}
        if filters.pop("newest_uuid", False):
            filters["newest"] = "uuid"
        filters = {name: value for name, value in filters.items() if value}
        try:
            find_filters(**filters)
        except ValueError as error:
            raise click.UsageError(str(error)) from None
        return command(filters=filters, **given)

    for option in reversed(options):
        collecting = option(collecting)
    return collecting
