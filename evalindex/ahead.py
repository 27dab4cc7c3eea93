"""Work on many things, a few ahead of the one whose result is wanted next."""

from __future__ import annotations

from collections import deque
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

T = TypeVar("T")
R = TypeVar("R")


def work_ahead(jobs: int, work: Callable[[T], R], items: Sequence[T]) -> Iterator[R]:
    """The result for each item, in order, by `jobs` threads; at most twice as many results wait."""
    if jobs < 2 or len(items) < 2:
        yield from map(work, items)
        return
    with ThreadPoolExecutor(jobs, thread_name_prefix="evalindex-ahead") as pool:
        waiting: deque[Future[R]] = deque()
        for item in items:
            waiting.append(pool.submit(work, item))
            if len(waiting) >= 2 * jobs:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
