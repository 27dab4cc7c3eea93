"""Member names and what they say: ids, epochs, sample shapes.

Inspect writes `samples/{id}_epoch_{epoch}.json` with no escaping at all
(`inspect_ai/log/_recorders/eval.py`, `_sample_filename`), so ids with slashes, newlines or
`_epoch_` in them are real, and `1` and `"1"` are one member. A chunked sample is a group of
members below `samples/{id}_epoch_{epoch}/`, of which `sample.json` is the first.
"""

from __future__ import annotations

import operator
import re
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable

HEADER = "header.json"

_PREFIX = "samples/"
CHUNKED_SUFFIX = "/sample.json"

# A canonical epoch only: a name that does not give itself back is no sample. 18 digits always
# fit the signed 64-bit integer that the index stores.
_EPOCH = "_epoch_"
_EPOCH_AND_SHAPE = re.compile(r"(0|-?[1-9][0-9]{0,17})(\.json|/sample\.json)", re.ASCII)
_PART = re.compile(
    r"(sample|metadata|skeleton|events/stats|events/uuids"
    r"|(messages|events|calls|attachments)/(0|[1-9][0-9]{0,17}))\.json",
    re.ASCII,
)
_SUGGESTIONS = 3
_LONGEST_INT = 13_000  # bits; Python turns no int of more than 4,300 digits into text
_EPOCH_LIMIT = 10**18
_IMPOSSIBLE = re.compile("[\0\ud800-\udfff]")


class SampleName(NamedTuple):
    """What a member name says: the id as text, the epoch, and whether the sample is chunked."""

    id: str
    epoch: int
    chunked: bool


def parse_sample_name(name: str) -> SampleName | None:
    """The sample that a member holds (or heads, if chunked); None if it is something else."""
    start, _, end = name.rpartition(_EPOCH)
    found = _epoch_and_shape(end) if start.startswith(_PREFIX) else None
    return None if found is None else SampleName(start[len(_PREFIX) :], *found)


def sample_epoch(name: str) -> int | None:
    """The epoch of the sample that a member holds or heads; None if it is something else."""
    start, _, end = name.rpartition(_EPOCH)
    found = _epoch_and_shape(end) if start.startswith(_PREFIX) else None
    return None if found is None else found[0]


@lru_cache(maxsize=1000)  # millions of names end in a few ways
def _epoch_and_shape(end: str) -> tuple[int, bool] | None:
    """What stands behind the last `_epoch_` of a sample's name: the epoch, and whether the sample
    is chunked."""
    match = _EPOCH_AND_SHAPE.fullmatch(end)
    return None if match is None else (int(match[1]), match[2] == CHUNKED_SUFFIX)


def sample_name(id: str, epoch: int) -> str:
    """The member that holds a sample in the usual, single-member shape."""
    return f"{_PREFIX}{id}_epoch_{epoch}.json"


def chunked_name(name: str) -> str:
    """The first member of the same sample in the chunked shape."""
    return name.removesuffix(".json") + CHUNKED_SUFFIX


def chunked_prefix(name: str) -> str:
    """Where all members of the same sample in the chunked shape are."""
    return name.removesuffix(".json") + "/"


def is_part(name: str) -> bool:
    """Whether a name below such a prefix is that of a member of the chunked sample."""
    return _PART.fullmatch(name) is not None


def can_exist(id: str, epoch: int) -> bool:
    """False if no member name can hold this key.

    zipfile cuts a name at NUL and a lone surrogate has no UTF-8, so such a sample is absent from
    every log; SQL must not see it either (`json_each` cuts at NUL too, and would match another).
    """
    return -_EPOCH_LIMIT < epoch < _EPOCH_LIMIT and _IMPOSSIBLE.search(id) is None


def checked_id(id: Any) -> str | int:
    """The id as `str` or `int`; anything with `__index__` will do, `bool` and `float` will not."""
    if isinstance(id, str):
        # A subclass such as an enum or numpy's str_ may print as something else.
        return id if type(id) is str else str.__str__(id)
    return _checked_int(id, "a sample id is a str or an int")


def checked_epoch(epoch: Any) -> int:
    """The epoch as `int`."""
    return _checked_int(epoch, "an epoch is an int, 1 or more as a rule")


def _checked_int(value: Any, rule: str) -> int:
    if type(value) is int and value.bit_length() <= _LONGEST_INT:
        return value
    # Older numpys let their bool pass for an index, with a warning.
    if not isinstance(value, (bool, float)) and type(value).__name__ not in ("bool", "bool_"):
        try:
            number = operator.index(value)
        except TypeError:
            pass
        else:
            if number.bit_length() > _LONGEST_INT:
                raise ValueError(f"{rule}, of 4,000 digits at most")
            return number
    hint = f"; did you mean {int(value)!r}?" if _is_whole(value) else ""
    raise TypeError(f"{rule}, not {type(value).__name__} {value!r}{hint}")


def _is_whole(value: Any) -> bool:
    return isinstance(value, bool) or (isinstance(value, float) and value.is_integer())


def near(id: str, epoch: int, members: Iterable[str]) -> list[str]:
    """Samples among some members that may have been meant, the likeliest first, ready to print."""
    found = _samples(members)
    same = [sample for sample in found if _folded(sample.id) == _folded(id)]
    if not same:
        from difflib import get_close_matches

        ids = dict.fromkeys(sample.id for sample in found)
        close = get_close_matches(id, ids, n=_SUGGESTIONS)
        same = [sample for sample in found if sample.id in close]
    same.sort(key=lambda sample: (sample.id != id, abs(sample.epoch - epoch)))
    return _printed(same)


def some(members: Iterable[str]) -> list[str]:
    """A few samples among some members, ready to print."""
    return _printed(_samples(members))


def _samples(members: Iterable[str]) -> list[SampleName]:
    return [sample for name in members if (sample := parse_sample_name(name)) is not None]


def _printed(samples: list[SampleName]) -> list[str]:
    return [f"id {sample.id!r} epoch {sample.epoch}" for sample in samples[:_SUGGESTIONS]]


def _folded(id: str) -> str:
    return id.strip().lstrip("0").casefold()
