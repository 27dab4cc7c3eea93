"""Answers from rows: iterators that say too what could not be answered."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from typing import TYPE_CHECKING, Any, BinaryIO, Generic, TypeVar, cast

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    import pyarrow as pa

    from evalindex.errors import EvalIndexError
    from evalindex.rows import LogRow
    from evalindex.sheets import Column, Format

R = TypeVar("R")


class Rows(Iterator[R], Generic[R]):
    """An answer from rows: an iterator, consumed once, of `total` rows.

    `failures` has an error for each log or folder that could not be looked at, and so is not
    answered for; `gone` are logs that are indexed but no longer there; `hidden` is the number of
    shards' logs that are left out because their merged log is there.
    """

    #: Of an answer of samples: the names of their scores, and whether all values are numbers.
    score_names: Callable[[], dict[str, bool]] | None = None
    _with_reason = False
    _closed = False

    def __init__(
        self,
        rows: Iterator[R],
        total: int,
        failures: Sequence[EvalIndexError] = (),
        gone: Sequence[str] = (),
        hidden: int = 0,
        close: Callable[[], object] | None = None,
    ) -> None:
        self._rows = rows
        self._close = close
        self.total = total
        self.failures = tuple(failures)
        self.gone = tuple(gone)
        self.hidden = hidden

    def __repr__(self) -> str:
        failed = f", {len(self.failures)} failures" if self.failures else ""
        return f"<evalindex.{type(self).__name__} of {self.total:,} rows{failed}>"

    def __iter__(self) -> Rows[R]:
        return self

    def __next__(self) -> R:
        if self._closed:
            raise StopIteration
        try:
            return next(self._rows)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Let go of what is behind the rows that were not taken."""
        self._closed = True
        close, self._close = self._close, None
        if close is not None:
            close()

    __del__ = close

    def to_arrow(self) -> pa.Table:
        """The rows that are left, as one table of what `evalindex export` writes: for pandas,
        polars or duckdb. Raises `MissingExtra` without pyarrow."""
        from evalindex.sheets import arrow_table

        with closing(self):
            return arrow_table(*self._sheet())

    def write(self, file: BinaryIO, form: Format) -> int:
        """Write the rows that are left to a binary file, in memory that does not grow with them;
        how many there were. Raises `MissingExtra` without pyarrow, if the format needs it."""
        from evalindex.sheets import write_sheet

        with closing(self):
            return write_sheet(*self._sheet(), file, form)

    def _sheet(self) -> tuple[list[Column], Iterable[Any]]:
        from evalindex.export import log_columns, sample_columns

        if self.score_names is not None:
            names = {} if self._closed else self.score_names()
            return sample_columns(names, reason=self._with_reason), self
        logs = cast("list[LogRow]", list(self))
        return log_columns(logs), logs
