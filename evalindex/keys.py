"""What callers pass as keys, and the requests that they mean.

Within one log a key is an id (epoch 1) or a pair (id, epoch); across logs it is a pair (log, id)
or a triple (log, id, epoch). A `SampleKey`, or anything else with `.log`, `.id` and `.epoch`, such
as a row of an answer, will do for both.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from evalindex.errors import EvalIndexError
from evalindex.names import can_exist, checked_epoch, checked_id, sample_name
from evalindex.place import Spot
from evalindex.request import Request

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from evalindex.place import LogLike, Places


def request(given: object, spot: Spot, id: Any, epoch: Any) -> Request:
    """Raises `TypeError` for what is no id or no epoch."""
    # The usual types need no check, and there may be millions.
    if type(id) is not str:
        id = checked_id(id)
    if epoch != 1 or type(epoch) is not int:
        epoch = checked_epoch(epoch)
    text = str(id)
    name = sample_name(text, epoch) if can_exist(text, epoch) else None
    return Request(given, spot, id, epoch, name)


def requests_in_log(log: LogLike, keys: Iterable[Any], places: Places) -> Iterator[Request]:
    """One request a key of this log, whose name may turn out to name none."""
    if isinstance(keys, (str, bytes)):
        raise TypeError(f"keys are a list of ids or (id, epoch) pairs, not the text {keys!r}")
    place = _locate(places, log)
    same: set[object] = set()
    for key in keys:
        if _is_row(key):
            if key.log not in same:
                if _locate(places, key.log) != place:
                    raise ValueError(f"{key!r} is a key of another log; use iter_samples")
                same.add(key.log)
            yield _request(key, place, key.id, key.epoch)
        elif isinstance(key, (tuple, list)):
            if len(key) != 2:
                raise TypeError(f"a key in a log is an id or (id, epoch), not {key!r}")
            yield _request(key, place, *key)
        else:
            yield _request(key, place, key, 1)


def requests_across_logs(keys: Iterable[Any], places: Places) -> Iterator[Request]:
    """One request a key; each name of a log is resolved once, and may turn out to name none."""
    spots: dict[str | None, Spot | EvalIndexError] = {}
    for key in keys:
        if type(key) is not tuple and _is_row(key):
            log, id, epoch = key.log, key.id, key.epoch
        elif isinstance(key, (tuple, list)) and 2 <= len(key) <= 3:
            log, id, epoch = (*key, 1)[:3]
        else:
            raise TypeError(f"a key is (log, id, epoch) or (log, id), not {key!r}")
        text = log if isinstance(log, str) else None
        place = spots.get(text)
        if place is None or text is None:
            place = spots[text] = _locate(places, log)
        yield _request(key, place, id, epoch)


def _locate(places: Places, log: LogLike) -> Spot | EvalIndexError:
    try:
        return places.locate(log)
    except EvalIndexError as error:
        return error


def _request(given: object, place: Spot | EvalIndexError, id: Any, epoch: Any) -> Request:
    if isinstance(place, Spot):
        return request(given, place, id, epoch)
    nowhere = Spot(str(place.log), None, str(place.log))
    return request(given, nowhere, id, epoch)._replace(error=place)


def _is_row(key: Any) -> bool:
    return hasattr(key, "log") and hasattr(key, "id") and hasattr(key, "epoch")
