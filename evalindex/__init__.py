"""A persistent index of Inspect `.eval` logs.

import evalindex

evalindex.build("logs/")
with evalindex.open("logs/") as index:
    sample = index.read("run.eval", 42)
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from evalindex.builder import BuildReport, build
    from evalindex.errors import (
        AmbiguousLog,
        CorruptMember,
        EvalIndexError,
        IndexBusy,
        IndexClosed,
        IndexEmpty,
        IndexNotFound,
        IndexNotWritable,
        IndexOutdated,
        IndexTooNew,
        LogChanged,
        LogNotFound,
        LogUnreadable,
        MemberNotFound,
        MissingExtra,
        NotAnEvalLog,
        NotAnIndex,
        RootUnreadable,
        SampleInvalid,
        SampleNotFound,
        StaleLog,
        StoreDenied,
        UnsupportedInspect,
        UnsupportedMember,
    )
    from evalindex.incomplete import Incomplete, TaskProgress
    from evalindex.index import Index, open
    from evalindex.model import SampleKey
    from evalindex.results import Rows
    from evalindex.rows import LogRow, SampleRow
    from evalindex.status import IndexStatus, LogStatus
    from evalindex.stores import Stats
    from evalindex.verify import Finding, VerifyReport

__version__ = "0.1.0"

__all__ = [
    "AmbiguousLog",
    "BuildReport",
    "CorruptMember",
    "EvalIndexError",
    "Finding",
    "Incomplete",
    "Index",
    "IndexBusy",
    "IndexClosed",
    "IndexEmpty",
    "IndexNotFound",
    "IndexNotWritable",
    "IndexOutdated",
    "IndexStatus",
    "IndexTooNew",
    "LogChanged",
    "LogNotFound",
    "LogRow",
    "LogStatus",
    "LogUnreadable",
    "MemberNotFound",
    "MissingExtra",
    "NotAnEvalLog",
    "NotAnIndex",
    "RootUnreadable",
    "Rows",
    "SampleInvalid",
    "SampleKey",
    "SampleNotFound",
    "SampleRow",
    "StaleLog",
    "Stats",
    "StoreDenied",
    "TaskProgress",
    "UnsupportedInspect",
    "UnsupportedMember",
    "VerifyReport",
    "__version__",
    "build",
    "open",
]


# Whatever is public and not named here is an error.
_ROOM_OF = {
    "BuildReport": "builder",
    "Finding": "verify",
    "Index": "index",
    "Incomplete": "incomplete",
    "IndexStatus": "status",
    "LogRow": "rows",
    "LogStatus": "status",
    "Rows": "results",
    "SampleKey": "model",
    "SampleRow": "rows",
    "Stats": "stores",
    "TaskProgress": "incomplete",
    "VerifyReport": "verify",
    "build": "builder",
    "open": "index",
}


def __getattr__(name: str) -> Any:
    # Lazy, so that a read does not pay for what a build needs, and `import evalindex` for neither.
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    room = import_module(f"{__name__}.{_ROOM_OF.get(name, 'errors')}")
    value = globals()[name] = getattr(room, name)
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
