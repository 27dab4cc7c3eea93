"""What a log's directory, header and samples say, as rows of the index."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

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


class Metric(NamedTuple):
    """One metric of a log's results. `value` is None for NaN, which SQL has not."""

    score: str
    scorer: str | None
    reducer: str | None
    metric: str
    value: float | None


class Header(NamedTuple):
    """The columns of `header` behind its ids; see the schema. Counts are filled in later."""

    status: str = "started"
    invalidated: bool = False
    error: str | None = None
    eval_id: str | None = None
    run_id: str | None = None
    eval_set_id: str | None = None
    task: str | None = None
    task_id: str | None = None
    task_version: str | None = None
    task_file: str | None = None
    task_display_name: str | None = None
    model: str | None = None
    solver: str | None = None
    created: str | None = None
    started_at: str | None = None
    completed_at: str | None = None
    tags: str | None = None
    inspect_version: str | None = None
    git_commit: str | None = None
    dataset_name: str | None = None
    dataset_location: str | None = None
    dataset_samples: int | None = None
    dataset_shuffled: bool | None = None
    epochs: int = 1
    planned: int | None = None
    total_samples: int | None = None
    completed_samples: int | None = None
    logged_samples: int | None = None
    headline_scorer: str | None = None
    headline_score: str | None = None
    headline_metric: str | None = None
    headline_value: float | None = None
    done: int | None = None
    errors: int | None = None
    limits: int | None = None
    unrecorded: int | None = None
    unsummarized: int | None = None
    collisions: int | None = None
    sample_ids: str | None = None


class ScoreValue(NamedTuple):
    """A score of one sample: a number, else a text; NaN if neither."""

    name: str
    number: float | None
    text: str | None


class SampleFacts(NamedTuple):
    """What is known of one sample beside its id, epoch and place in the log."""

    integer: bool
    uuid: str | None
    error: str | None
    cancelled: bool
    invalidated: bool
    limit: str | None
    retries: int | None
    started_at: str | None
    completed_at: str | None
    total_time: float | None
    working_time: float | None
    message_count: int | None
    turn_count: int | None
    total_tokens: int
    input: str | None
    target: str | None
    scores: Sequence[ScoreValue]

    @property
    def reusable(self) -> bool:
        return self.error is None and not self.invalidated


#: Samples by id (as text) and epoch, in the order in which each first came.
Facts = dict[tuple[str, int], SampleFacts]


#: Columns of `sample` and `score` behind `summaries_id`.
SampleColumns = tuple[Any, ...]
ScoreColumns = tuple[int, str, "float | None", "str | None"]


class Counts(NamedTuple):
    """Numbers of samples of one log, as in its header's row."""

    done: int
    errors: int
    limits: int
    unrecorded: int
    unsummarized: int
    collisions: int


class Source(NamedTuple):
    """A member that lists samples, as far as it says whether it is the same one."""

    name: str
    crc32: int
    size: int


class KnownSummaries(NamedTuple):
    """What an index has of a log's samples.

    `load` gives those that have a summary, and how many sources they are from, if these are the
    first of the sources that it is given.
    """

    summaries_id: int
    basis: bytes
    counts: Counts
    load: Callable[[int, Sequence[Source]], tuple[Facts, int] | None]


class Summaries(NamedTuple):
    """The samples of a log as rows, samples by id and epoch; see `summaries` in the schema.

    `kept` are the rows that an index has already and that hold still: there are none here then.
    """

    basis: bytes
    sources: Sequence[Source]
    kept: int | None
    samples: list[SampleColumns]
    scores: list[ScoreColumns]


class Contents(NamedTuple):
    """`summaries` is None if they were not asked for."""

    header: Header
    metrics: list[Metric]
    summaries: Summaries | None
