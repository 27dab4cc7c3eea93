"""How far a long job is: what the library tells, and two listeners."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from types import TracebackType


class Progress(Protocol):
    """Told by a job how far it is; a context manager around it."""

    def __enter__(self) -> Progress: ...

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None: ...

    def start(self, task: str, total: int | None) -> None:
        """A part of the job begins: what it is about, and its number of steps if that is known."""
        ...

    def step(self) -> None: ...


class Silent:
    """Listens to nothing."""

    def __enter__(self) -> Silent:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def start(self, task: str, total: int | None) -> None:
        pass

    def step(self) -> None:
        pass


class Bar:
    """A bar on standard error."""

    def __init__(self) -> None:
        from rich.console import Console
        from rich.progress import (
            BarColumn,
            MofNCompleteColumn,
            Progress,
            TextColumn,
            TimeRemainingColumn,
        )

        self._bar = Progress(
            TextColumn("{task.description}", markup=False),
            BarColumn(),
            MofNCompleteColumn(),
            TimeRemainingColumn(),
            console=Console(stderr=True),
            transient=True,
        )

    def __enter__(self) -> Bar:
        self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.stop()

    def start(self, task: str, total: int | None) -> None:
        self._task = self._bar.add_task(task, total=total)

    def step(self) -> None:
        self._bar.advance(self._task)
