"""The samples of one log that no index knows."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from evalindex.records import ScoreValue
from evalindex.rows import SampleRow, sample_row
from evalindex.survey import SurveyedLog, read_log

if TYPE_CHECKING:
    from collections.abc import Iterator

    from evalindex.heal import Healer, LogInCall
    from evalindex.known import Known
    from evalindex.place import Spot
    from evalindex.records import Summaries
    from evalindex.stores import LogFile


def list_samples(healer: Healer, spot: Spot) -> Iterator[SampleRow]:
    """The samples that a log has now, in the order of its summaries."""

    def read(_: LogInCall, file: LogFile, known: Known) -> tuple[SurveyedLog, Summaries]:
        members = {member.name: member for member in known.members()}
        return read_log(spot, members, file, time.time())

    log, summaries = healer.attempt(spot, None, read)
    scores: dict[int, list[ScoreValue]] = {}
    for position, name, number, text in sorted(summaries.scores, key=lambda score: score[:2]):
        scores.setdefault(position, []).append(ScoreValue(name, number, text))
    for columns in sorted(summaries.samples, key=lambda columns: columns[2]):
        row = sample_row(log, columns, scores.get(columns[2], ()))
        if row.recorded:
            yield row
