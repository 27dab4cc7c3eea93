"""Logs as bytes, what can happen to them, and what zipfile finds in them: never our own parser."""

from __future__ import annotations

import io
import json
import random
import warnings
import zipfile
from collections.abc import Callable
from itertools import count
from typing import Any, NamedTuple

from tests.builders import DEFLATE, STORED, ZSTD, encoded, sample, sample_member

IDS: list[str | int] = [1, 2, 3, 10, "a/b", "../up", "é", "", "x_epoch_1", "samples/1"]
EPOCHS = (1, 2)
_METHODS = (STORED, DEFLATE, ZSTD)
_HEADER, _SUMMARIES, _JOURNAL = "header.json", "summaries.json", "_journal/summaries/"
_numbers = count(1)


class Truth(NamedTuple):
    """What zipfile finds in a log: the bytes of each live member, None for those that it cannot
    read; `crcs` are those of the directory."""

    members: dict[str, bytes | None]
    crcs: dict[str, int]

    @property
    def whole(self) -> bool:
        return None not in self.members.values()

    def samples(self) -> dict[tuple[str, int], dict[str, Any]]:
        """The documents of the samples that can be read, by id as text and epoch."""
        found = {}
        for name, data in self.members.items():
            if name.startswith("samples/") and data is not None:
                document = json.loads(data)
                found[str(document["id"]), document["epoch"]] = document
        return found


def truth(data: bytes) -> Truth | None:
    """None if it is no archive."""
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            infos = list(archive.NameToInfo.values())
            return Truth(
                {info.filename: _read(archive, info) for info in infos},
                {info.filename: info.CRC for info in infos},
            )
    except Exception:  # zipfile raises what it likes
        return None


def _read(archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> bytes | None:
    try:
        return archive.read(info)
    except Exception:
        return None


def new_log(rng: random.Random) -> bytes:
    """A log that runs, or one that is finished."""
    keys = rng.sample([(id, epoch) for id in IDS for epoch in EPOCHS], rng.randint(0, 8))
    data = _add(b"", [("_journal/start.json", {"version": 2, "eval": _spec()})], STORED)
    data = _with_samples(data, [_sample(rng, *key) for key in keys], rng)
    return finish(data, rng) if rng.random() < 0.7 else data


def flush(data: bytes, rng: random.Random) -> bytes:
    """Samples are added, new ones or others that are run again."""
    keys = [(rng.choice(IDS), rng.choice(EPOCHS)) for _ in range(rng.randint(1, 3))]
    return _with_samples(data, [_sample(rng, *key) for key in dict.fromkeys(keys)], rng)


def finish(data: bytes, rng: random.Random) -> bytes:
    """Summaries and header are written, or written again: an edit in place of the header."""
    summaries = [_summary(document) for document in _documents(data)]
    header = {"version": 2, "status": "success", "eval": _spec(), "edit": next(_numbers)}
    return _add(data, [(_SUMMARIES, summaries), (_HEADER, header)], rng.choice(_METHODS))


def requeue(data: bytes, rng: random.Random) -> bytes:
    """The log runs again: what was finished is journal."""
    documents = _documents(data)
    data = _add(b"", [("_journal/start.json", {"version": 2, "eval": _spec()})], STORED)
    return _with_samples(data, documents, rng)


def score(data: bytes, rng: random.Random) -> bytes:
    """All of it is written anew, some samples with another score and as many bytes."""
    documents = [
        {**document, "v": rng.randrange(100, 999)} if rng.random() < 0.5 else document
        for document in _documents(data)
    ]
    return _rewritten(documents, rng, finished=_is_finished(data))


def compact(data: bytes, rng: random.Random) -> bytes:
    return _rewritten(_documents(data), rng, finished=_is_finished(data))


def prune(data: bytes, rng: random.Random) -> bytes:
    documents = [document for document in _documents(data) if rng.random() < 0.7]
    return _rewritten(documents, rng, finished=_is_finished(data))


def rename(data: bytes, rng: random.Random) -> bytes:
    """Two samples change places: names, sizes and places stay, the bytes are another's."""
    documents = _documents(data)
    rng.shuffle(documents)
    return _rewritten(documents, rng, finished=_is_finished(data))


def truncate(data: bytes, rng: random.Random) -> bytes:
    return data[: rng.randrange(len(data))] if data else data


def flip(data: bytes, rng: random.Random) -> bytes:
    """One bit changes."""
    if not data:
        return data
    at = rng.randrange(len(data))
    return data[:at] + bytes([data[at] ^ 1 << rng.randrange(8)]) + data[at + 1 :]


#: What happens to a log that can be read; whatever comes of a damaged one is another new one.
CHANGES: list[Callable[[bytes, random.Random], bytes]] = [
    flush,
    flush,
    finish,
    requeue,
    score,
    compact,
    prune,
    rename,
    truncate,
    flip,
]


def _spec() -> dict[str, Any]:
    return {"task": "t", "model": "m", "config": {}, "packages": {"inspect_ai": "0.3.285"}}


def _sample(rng: random.Random, id: str | int, epoch: int) -> dict[str, Any]:
    text = "x" * rng.choice([0, 10, 3000])
    return sample(id, epoch, uuid=f"u{next(_numbers)}", v=rng.randrange(100, 999), text=text)


def _summary(document: dict[str, Any]) -> dict[str, Any]:
    return {**{key: document[key] for key in ("id", "epoch", "input", "uuid")}, "completed": True}


def _documents(data: bytes) -> list[dict[str, Any]]:
    found = truth(data)
    return [] if found is None else list(found.samples().values())


def _is_finished(data: bytes) -> bool:
    found = truth(data)
    return found is not None and _HEADER in found.members


def _rewritten(documents: list[dict[str, Any]], rng: random.Random, *, finished: bool) -> bytes:
    data = _add(b"", [("_journal/start.json", {"version": 2, "eval": _spec()})], STORED)
    data = _with_samples(data, documents, rng)
    return finish(data, rng) if finished else data


def _with_samples(data: bytes, documents: list[dict[str, Any]], rng: random.Random) -> bytes:
    """Samples, and what the journal or the summaries say of them."""
    method = rng.choice(_METHODS)
    named = [(sample_member(one["id"], one["epoch"]), one) for one in documents]
    data = _add(data, named, method)
    if _is_finished(data):
        return _add(data, [(_SUMMARIES, [_summary(one) for one in _documents(data)])], method)
    journal = f"{_JOURNAL}{next(_numbers)}.json"
    return _add(data, [(journal, [_summary(one) for one in documents])], method)


def _add(data: bytes, members: list[tuple[str, Any]], method: int) -> bytes:
    file = io.BytesIO(data)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # a name again is what happens
        with zipfile.ZipFile(file, "a" if data else "w", compression=method) as archive:
            for name, document in members:
                archive.writestr(name, encoded(document))
    return file.getvalue()
