"""What the verbs that answer from rows have in common."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import click

from evalindex.cli.options import NotesCounted, default_root, is_quiet, log_argument
from evalindex.index import open as open_index

if TYPE_CHECKING:
    from collections.abc import Iterator

    from evalindex.index import Index
    from evalindex.results import Rows


@contextmanager
def answering(root: str | None, index: str | None) -> Iterator[tuple[Index, str | None]]:
    """An open Index, and what within it is meant; tells how many logs had to be read."""
    notes = NotesCounted()
    where = None if root is None else log_argument(root)
    with open_index(index or where or default_root()) as opened:
        yield opened, where
    if not is_quiet():
        notes.tell()


def code_of(answer: Rows[Any]) -> int:
    """The exit code of an answer; tells what is gone and what is hidden."""
    if not is_quiet():
        if answer.gone:
            click.echo(f"note: {len(answer.gone):,} indexed, but no longer there", err=True)
        if answer.hidden:
            click.echo(
                f"note: {answer.hidden:,} shard logs hidden, which their merged log covers",
                err=True,
            )
    return 3 if answer.failures else 0


def scores_text(scores: dict[str, float | str]) -> str:
    """Scores on one line, those that are parts of others left out."""
    return " ".join(
        f"{name}={value if isinstance(value, str) else number(value)}"
        for name, value in scores.items()
        if not any(name.startswith(f"{other}.") for other in scores)
    )


def number(value: float) -> str:
    """A score or metric for people: four digits."""
    return f"{value:.4g}"


def first_line(text: str) -> str:
    return text.strip().partition("\n")[0]
