"""The command line: one file a verb. Parse, call the library, render."""

from __future__ import annotations

import errno
import logging
import os
import signal
import sys
from importlib import import_module
from typing import NoReturn

import click

from evalindex import __version__
from evalindex.errors import EvalIndexError, printable
from evalindex.progress import Bar, Progress, Silent

_VERBS = ("build", "get", "logs", "find", "incomplete", "export", "status", "verify")


class _Verbs(click.Group):
    """Imports a verb when it is called, so that `get` does not pay for `build`."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(_VERBS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in _VERBS:
            return None
        command: click.Command = import_module(f"{__name__}.{cmd_name}").command
        return command


@click.group(cls=_Verbs, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="evalindex")
def cli() -> None:
    """Read samples of Inspect .eval logs by id, through an index of the logs' directories.

    Exit codes: 0 all good; 1 failed; 2 usage; 3 done, but some logs unreadable or keys failed.
    """


def main() -> NoReturn:
    """The program `evalindex`."""
    handler = logging.StreamHandler()
    handler.setFormatter(logging.Formatter("%(message)s"))
    logging.getLogger("evalindex").addHandler(handler)
    try:
        if sys.stdout is None:  # closed by whoever started us
            raise OSError(errno.EBADF, os.strerror(errno.EBADF))
        # Not click's own main, for which a closed pipe is a failure.
        with cli.make_context("evalindex", sys.argv[1:]) as context:
            code = cli.invoke(context)
        sys.stdout.flush()
    except click.exceptions.Exit as done:
        sys.exit(done.exit_code)
    except click.ClickException as error:
        error.show()
        sys.exit(error.exit_code)
    except (click.Abort, KeyboardInterrupt):
        click.echo("interrupted", err=True)
        sys.exit(128 + signal.SIGINT)
    except EvalIndexError as error:
        complain(error)
        sys.exit(1)
    except BrokenPipeError:
        # The reader of our output has gone; Python would complain again while it shuts down.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(0)
    except OSError as error:
        # Standard output is full or closed; Python would complain again while it shuts down.
        click.echo(f"error: the output cannot be written: {error.strerror or error}", err=True)
        sys.stdout = None
        sys.exit(1)
    sys.exit(code if isinstance(code, int) else 0)


def progress() -> Progress:
    """A bar on a terminal, nothing elsewhere."""
    return Bar() if sys.stderr.isatty() and not os.environ.get("NO_COLOR") else Silent()


def complain(error: EvalIndexError) -> None:
    """One line that says what went wrong, and one that says what to do."""
    what = error.reason if error.log is None else f"{error.log}: {error.reason}"
    click.echo(f"error: {printable(what)}", err=True)
    if error.hint is not None:
        click.echo(f"hint: {printable(error.hint)}", err=True)
