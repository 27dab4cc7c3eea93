"""Options and arguments that several verbs share."""

from __future__ import annotations

import json
import logging
import os
import re
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from evalindex.cli.text import plural, size
from evalindex.fetch import GAP, SPAN_LIMIT
from evalindex.home import INDEX_VARIABLE
from evalindex.stores import Stats

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    Decorator = Callable[[Callable[..., Any]], Callable[..., Any]]

_NUMBER = re.compile(r"-[0-9]+")
_SIZE = re.compile(r"([0-9]+(?:\.[0-9]+)?) ?([KMG]?)(?:i?B)?", re.IGNORECASE)
_QUIET = "evalindex.quiet"
_EXPLAIN = "evalindex.explain"
_ESCAPE = "\0"  # no argument of a process can hold it

index_option: Decorator = click.option(
    "--index",
    metavar="WHERE",
    envvar=INDEX_VARIABLE,
    help="The index file; without it, evalindex.db in or above the logs' folder.",
)


def _silence(ctx: click.Context, _param: click.Parameter, quiet: bool) -> None:
    ctx.meta[_QUIET] = quiet
    if quiet:
        log_from(logging.ERROR)


def log_from(level: int) -> None:
    """Say the library's records from `level` on, while the command runs."""
    logger = logging.getLogger("evalindex")
    click.get_current_context().call_on_close(partial(logger.setLevel, logger.level))
    logger.setLevel(level)


def is_quiet() -> bool:
    """Whether the command was called with -q."""
    return bool(click.get_current_context().meta[_QUIET])


def _ask_for_costs(ctx: click.Context, _param: click.Parameter, explain: bool) -> None:
    ctx.meta[_EXPLAIN] = explain


def tell_costs(found: Iterable[Stats]) -> None:
    """Say what reads took, if that was asked for."""
    if not click.get_current_context().meta[_EXPLAIN]:
        return
    total = Stats(*map(sum, zip(*found, strict=True)))
    click.echo(
        f"cost: {plural(total.requests, 'request')} for {size(total.bytes)}, "
        f"{plural(total.listings, 'listing')}; directories: {total.directory_reads:,} read, "
        f"{total.directories_saved:,} spared by the index ({size(total.bytes_saved)}); "
        f"gaps of up to {size(GAP)} are read over, spans end at {size(SPAN_LIMIT)}",
        err=True,
    )


class NotesCounted(logging.Handler):
    """Counts the library's notes instead of printing one a log; errors are printed."""

    def __init__(self) -> None:
        super().__init__()
        self._count = 0
        logger = logging.getLogger("evalindex")
        click.get_current_context().call_on_close(
            partial(setattr, logger, "handlers", logger.handlers)
        )
        logger.handlers = [self]

    def emit(self, record: logging.LogRecord) -> None:
        if record.levelno >= logging.ERROR:
            click.echo(f"error: {record.getMessage()}", err=True)
        else:
            self._count += 1

    def tell(self, *, as_json: bool = False) -> None:
        if self._count:
            count = f"{self._count:,} log{'' if self._count == 1 else 's'}"
            note = f"{count} new or changed, so read; `evalindex build` makes that lasting"
            click.echo(json.dumps({"note": note}) if as_json else f"note: {note}", err=True)


explain_option: Decorator = click.option(
    "--explain",
    is_flag=True,
    expose_value=False,
    callback=_ask_for_costs,
    help="Say what it took: requests, bytes, directories read and spared.",
)

quiet_option: Decorator = click.option(
    "-q",
    "--quiet",
    is_flag=True,
    expose_value=False,
    is_eager=True,
    callback=_silence,
    help="No notes: results and errors only.",
)


class NegativeNumbers(click.Command):
    """A command whose arguments may be negative numbers, which click takes for options."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        return super().parse_args(
            ctx, [_ESCAPE + arg if _NUMBER.fullmatch(arg) else arg for arg in args]
        )


class Plain(click.ParamType[str]):
    """Text as it is, negative numbers included."""

    name = "text"

    def convert(
        self,
        value: Any,
        param: click.Parameter | None,
        ctx: click.Context | None,
    ) -> Any:
        return value.removeprefix(_ESCAPE)


class Epoch(click.ParamType[int]):
    name = "integer"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if isinstance(value, str):
            try:
                return int(value.removeprefix(_ESCAPE))
            except ValueError:
                self.fail(f"{value!r} is no epoch number", param, ctx)
        return value


class Size(click.ParamType[int]):
    """A number of bytes, with a unit or without: 4096, 64K, 64KB, 64KiB, 1.5GiB."""

    name = "size"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        match = _SIZE.fullmatch(str(value))
        if match is None:
            self.fail(f"{value!r} is no size such as 64MiB", param, ctx)
        return int(float(match[1]) * 1024 ** " KMG".index(match[2].upper() or " "))


def default_root() -> str:
    """The folder that is meant where none is named: inspect's, else the current one."""
    return os.environ.get("INSPECT_LOG_DIR") or os.curdir


def log_argument(text: str) -> str:
    """A log as commands take it: what is in the current folder comes first."""
    return os.path.abspath(text) if os.path.lexists(text) else text
