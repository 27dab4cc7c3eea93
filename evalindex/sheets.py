"""Tables as files: Parquet, Arrow, CSV or JSON lines, in bounded memory.

In Parquet and Arrow times are timestamps, null for a text that is none, and elsewhere ISO text. Ids
are text in all but JSON lines, where they have their own type. CSV has nothing for null (`""` is an
empty text), and `NaN`, `inf` and `-inf`; JSON lines have Python's `NaN` and `Infinity`.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any, BinaryIO, Literal, NamedTuple, Protocol, get_args

from evalindex.errors import MissingExtra

if TYPE_CHECKING:
    import pyarrow as pa

Format = Literal["parquet", "arrow", "csv", "jsonl"]
Kind = Literal["text", "long text", "id", "integer", "number", "flag", "time"]

_BATCH_ROWS = 2_000
_BATCH_TEXT = 4 * 2**20  # characters
_GROUP_ROWS = 100_000
_GROUP_BYTES = 16 * 2**20
_QUOTE = '"'
_QUOTED = re.compile(r'[",\r\n]')

#: The values of a row, in the order of its columns.
Values = list[Any]


class Column(NamedTuple):
    """`value` takes it from a row."""

    name: str
    kind: Kind
    value: Callable[[Any], Any]


def format_of(path: str | os.PathLike[str]) -> Format:
    """The format that the ending of a file's name asks for."""
    ending = os.path.splitext(path)[1].lower()
    for form in get_args(Format):
        if ending == f".{form}":
            return form  # type: ignore[no-any-return]
    raise ValueError(f"{str(path)!r} ends in none of .parquet, .arrow, .csv, .jsonl")


def write_sheet(columns: list[Column], rows: Iterable[Any], file: BinaryIO, form: Format) -> int:
    """Write rows to a file, which stays open; how many there were.

    Raises `MissingExtra` before a row is taken, without pyarrow for the formats that need it.
    """
    kinds: dict[Format, Callable[[BinaryIO, list[Column]], _Sink]]
    kinds = {"parquet": _Parquet, "arrow": _Arrow, "csv": _Csv, "jsonl": _JsonLines}
    count = 0
    with closing(kinds[form](file, columns)) as sink:
        for batch in _batches(columns, rows):
            sink.write(batch)
            count += len(batch)
    return count


def arrow_table(columns: list[Column], rows: Iterable[Any]) -> pa.Table:
    """Rows as one table. Raises `MissingExtra`."""
    pyarrow = _pyarrow()
    schema = _schema(pyarrow, columns)
    tables = (_table(pyarrow, schema, columns, batch) for batch in _batches(columns, rows))
    return pyarrow.concat_tables([schema.empty_table(), *tables])


def _batches(columns: list[Column], rows: Iterable[Any]) -> Iterator[list[Values]]:
    batch: list[Values] = []
    size = 0
    for row in rows:
        values = [column.value(row) for column in columns]
        batch.append(values)
        size += sum([len(value) for value in values if type(value) is str])
        if len(batch) >= _BATCH_ROWS or size >= _BATCH_TEXT:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch


class _Sink(Protocol):
    """Writes rows of values, in the order of its columns, to a file that it does not close."""

    def write(self, batch: list[Values]) -> None: ...

    def close(self) -> None: ...


class _JsonLines:
    def __init__(self, file: BinaryIO, columns: list[Column]) -> None:
        self._file = file
        self._names = [column.name for column in columns]

    def write(self, batch: list[Values]) -> None:
        for row in batch:
            line = json.dumps(dict(zip(self._names, row, strict=True)))
            self._file.write(line.encode() + b"\n")

    def close(self) -> None:
        pass


class _Csv:
    def __init__(self, file: BinaryIO, columns: list[Column]) -> None:
        self._file = file
        self.write([[column.name for column in columns]])

    def write(self, batch: list[Values]) -> None:
        lines = (",".join(map(_cell, row)) + "\n" for row in batch)
        self._file.write("".join(lines).encode())

    def close(self) -> None:
        pass


def _cell(value: Any) -> str:
    """The module csv leaves a lone CR unquoted, unless lines end in one."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return repr(value) if value == value else "NaN"
    text = str(value)
    return f'"{text.replace(_QUOTE, _QUOTE * 2)}"' if _QUOTED.search(text) or not text else text


class _Arrow:
    """An Arrow IPC file."""

    def __init__(self, file: BinaryIO, columns: list[Column]) -> None:
        self._pyarrow = _pyarrow()
        self._columns = columns
        self._schema = _schema(self._pyarrow, columns)
        self._writer = self._open(file)

    def _open(self, file: BinaryIO) -> Any:
        return self._pyarrow.ipc.new_file(file, self._schema)

    def write(self, batch: list[Values]) -> None:
        self._writer.write_table(_table(self._pyarrow, self._schema, self._columns, batch))

    def close(self) -> None:
        self._writer.close()


class _Parquet(_Arrow):
    """A Parquet file, in row groups that are worth reading at once: of many batches."""

    def _open(self, file: BinaryIO) -> Any:
        from pyarrow.parquet import ParquetWriter

        self._group: list[pa.Table] = []
        return ParquetWriter(file, self._schema, compression="zstd")

    def write(self, batch: list[Values]) -> None:
        self._group.append(_table(self._pyarrow, self._schema, self._columns, batch))
        size = sum(table.nbytes for table in self._group)
        if size >= _GROUP_BYTES or sum(map(len, self._group)) >= _GROUP_ROWS:
            self._flush()

    def _flush(self) -> None:
        group, self._group = self._group, []
        if group:
            self._writer.write_table(self._pyarrow.concat_tables(group))

    def close(self) -> None:
        try:
            self._flush()
        finally:
            super().close()


def _pyarrow() -> Any:
    try:
        import pyarrow
    except ModuleNotFoundError as error:
        if error.name != "pyarrow":
            raise
        raise MissingExtra(
            "Parquet and Arrow need pyarrow", hint="pip install 'evalindex[export]'"
        ) from None
    return pyarrow


def _schema(pyarrow: Any, columns: Iterable[Column]) -> pa.Schema:
    types: dict[Kind, pa.DataType] = {
        "text": pyarrow.string(),
        "long text": pyarrow.large_string(),
        "id": pyarrow.string(),
        "integer": pyarrow.int64(),
        "number": pyarrow.float64(),
        "flag": pyarrow.bool_(),
        "time": pyarrow.timestamp("us", "UTC"),
    }
    return pyarrow.schema([(column.name, types[column.kind]) for column in columns])


def _table(
    pyarrow: Any, schema: pa.Schema, columns: Iterable[Column], batch: list[Values]
) -> pa.Table:
    arrays = []
    for number, column in enumerate(columns):
        values = [row[number] for row in batch]
        if column.kind == "id":
            values = [str(value) for value in values]
        elif column.kind == "time":
            values = [_moment(value) for value in values]
        arrays.append(pyarrow.array(values, schema.field(number).type))
    return pyarrow.Table.from_arrays(arrays, schema=schema)


def _moment(text: str | None) -> datetime | None:
    try:
        moment = datetime.fromisoformat((text or "").replace("Z", "+00:00"))
        return (moment if moment.tzinfo else moment.replace(tzinfo=timezone.utc)).astimezone(
            timezone.utc
        )
    except (ValueError, OverflowError):
        return None
