"""Inspect's own calls, objects and exceptions, served from an index.

from evalindex.inspect_ai import read_eval_log_samples_by_id

samples = read_eval_log_samples_by_id("logs/run.eval", [(3, 1), (17, 1)])
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from evalindex.inspect_ai.calls import (
        read_eval_log_sample,
        read_eval_log_sample_async,
        read_eval_log_samples_by_id,
        read_eval_log_samples_by_id_async,
        reader,
    )

__all__ = [
    "read_eval_log_sample",
    "read_eval_log_sample_async",
    "read_eval_log_samples_by_id",
    "read_eval_log_samples_by_id_async",
    "reader",
]


def __getattr__(name: str) -> Any:
    # Lazy, for the rooms below read use this package too.
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from evalindex.inspect_ai import calls

    return getattr(calls, name)


def __dir__() -> list[str]:
    return sorted(__all__)
