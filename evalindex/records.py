"""What a log's directory says about it, as rows of the index.

Header and summary columns belong here too: both members lie in the tail that is read anyway.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from evalindex.names import HEADER, sample_epoch

if TYPE_CHECKING:
    from evalindex.zip import Directory

#: `finished`: the log has its header, which inspect writes last. `unfinished`: it has none, so the
#: eval runs or has crashed. `unreadable`: no directory could be had.
State = Literal["finished", "unfinished", "unreadable"]

#: name, epoch (None: not a sample), then the fields of `Member` behind the name.
MemberRow = tuple[str, int | None, int, int, int, int, int, int]


def log_state(directory: Directory) -> State:
    return "finished" if HEADER in directory.rows else "unfinished"


def member_rows(directory: Directory) -> list[MemberRow]:
    """All live members in name order, the order in which the index stores them."""
    return [(name, sample_epoch(name), *row[:6]) for name, row in sorted(directory.rows.items())]
