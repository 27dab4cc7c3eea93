"""What an Index can answer from rows, with the types that callers see."""

from __future__ import annotations

import errno
from typing import TYPE_CHECKING, TypedDict

from evalindex.errors import IndexOutdated, RootUnreadable, SampleNotFound, printable
from evalindex.stores.access import is_folder

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence
    from datetime import date, datetime, timedelta
    from typing import Any

    from typing_extensions import Unpack

    from evalindex.database.queries import IndexReader
    from evalindex.errors import EvalIndexError
    from evalindex.find import Asker, Newest
    from evalindex.heal import Healer
    from evalindex.incomplete import Incomplete
    from evalindex.place import LogLike, Places
    from evalindex.results import Rows
    from evalindex.rows import LogRow, SampleRow


class LogFilters(TypedDict, total=False):
    """Which logs are meant. Alternatives within one filter, but all of the filters must hold.

    `task` and `model` are patterns as of the shell (`gpt*`; case counts), `status` is inspect's
    status of the log. `since`: of evals created then or later; a datetime or date (of UTC, if it
    does not say), ISO text, or an age such as `7d`. `newest`: of the attempts of each task, by its
    `task_id`, only the newest log (`"task"` or `True`), or, for `find` and `logs`, of samples with
    one uuid only that of the newest log (`"uuid"`).
    """

    task: str | Collection[str] | None
    model: str | Collection[str] | None
    status: str | Collection[str] | None
    since: str | date | datetime | timedelta | None
    newest: Newest | bool | None


class Filters(LogFilters, total=False):
    """Which samples are meant too.

    `error` are patterns for the message of what stopped the sample, `True` is any. `limit_hit`:
    ended by a limit, or not. `score` is `NAME`, `NAME<0.5`, `NAME=C` and so on, and all of several
    must hold.
    """

    id: Any
    uuid: str | Collection[str] | None
    error: str | Collection[str] | bool | None
    limit_hit: bool | None
    score: str | Collection[str] | None


class Asks:
    """Answers from rows alone, about logs as they are now.

    Every local log is looked at in any case. Remote ones are listed if `fresh`, and always for
    `incomplete` and `reusable`, or finished samples would be run again; otherwise they are taken as
    they were built, which `.checked` of the rows tells. Logs that are new or have changed are read,
    and told; what could not be is in an answer's `failures`. Without `where` a question is about
    all that was opened.
    """

    _healer: Healer

    def _places(self) -> Places:
        raise NotImplementedError

    def _indexed(self) -> IndexReader:
        raise NotImplementedError

    def samples(self, log: LogLike, *, fresh: bool = False) -> Iterator[SampleRow]:
        """The samples that a log has now, in the order of its summaries, without reading any."""
        from evalindex.listing import list_samples

        spot = self._places().locate(log)
        if spot.root_id is not None:
            try:
                return self.find(spot.location, fresh=fresh)
            except IndexOutdated:
                pass  # the log itself will do
        return list_samples(self._healer, spot)

    def find(
        self, where: LogLike | None = None, *, fresh: bool = False, **filters: Unpack[Filters]
    ) -> Rows[SampleRow]:
        """The samples of a folder or log that pass all filters."""
        from evalindex.find import find_filters

        return self._asker(where, fresh).find(find_filters(**filters))

    def logs(
        self, where: LogLike | None = None, *, fresh: bool = False, **filters: Unpack[Filters]
    ) -> Rows[LogRow]:
        """The logs of a folder that pass all filters; those that hold such a sample, if a filter
        is about samples."""
        from evalindex.find import find_filters

        return self._asker(where, fresh).logs(find_filters(**filters))

    def incomplete(
        self, where: LogLike | None = None, *, fresh: bool = False, **filters: Unpack[LogFilters]
    ) -> Incomplete:
        """The planned samples of a log that have no record in it to be used again; of a folder,
        over all attempts of each task. Those of the rows that are `recorded` can be read."""
        from evalindex.find import find_filters
        from evalindex.incomplete import incomplete

        return incomplete(self._asker(where, True), find_filters(**filters))

    def reusable(
        self, where: LogLike | None = None, *, fresh: bool = False, **filters: Unpack[LogFilters]
    ) -> Rows[SampleRow]:
        """The samples that need not be run again, to carry over: of each the newest record."""
        from evalindex.find import find_filters
        from evalindex.incomplete import reusable

        return reusable(self._asker(where, True), find_filters(**filters))

    def _with_uuid(self, log: LogLike | None, uuid: str, *, fresh: bool) -> SampleRow:
        """The sample with a uuid, from the newest log that has it and can be read. Raises
        `SampleNotFound`, or what stands in the way of saying so. Rows of remote logs are asked
        for anew if `fresh`, or if none has the uuid."""
        one_log = self._places().scope(log).one_log
        failures: Sequence[EvalIndexError] = ()
        try:
            if one_log is not None and self._places().locate(one_log).root_id is None:
                raise IndexOutdated("no index knows this log")
            found = self.find(log, fresh=fresh, uuid=uuid, newest="uuid")
            rows = list(found)
            if not (rows or fresh):
                found = self.find(log, fresh=True, uuid=uuid, newest="uuid")
                rows = list(found)
            failures = found.failures
        except IndexOutdated:
            if one_log is None:
                raise
            rows = [row for row in self.samples(one_log, fresh=fresh) if row.uuid == uuid]
        if rows:
            import logging  # not at the top: a cold read does without

            text = "uuid %s is read from %s"
            logging.getLogger("evalindex").info(text, printable(uuid), printable(rows[0].log))
            return rows[0]
        if failures:
            raise failures[0]
        raise SampleNotFound([], uuid=uuid, log=one_log)

    def _asker(self, where: LogLike | None, fresh: bool) -> Asker:
        from evalindex.find import Asker

        scope = self._places().scope(where)
        if where is not None and scope.one_log is None and not is_folder(str(scope.location)):
            raise RootUnreadable("there is no such folder", log=scope.location, code=errno.ENOENT)
        return Asker(self._healer, self._indexed(), scope, fresh=fresh)
