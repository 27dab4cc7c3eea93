"""Logs as bytes, what can happen to them, and what zipfile finds in them: never our own parser."""

from __future__ import annotations

import io
import json
import random
import re
import warnings
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from itertools import count
from typing import Any

from tests.builders import DEFLATE, STORED, ZSTD, encoded, sample, sample_member

IDS: list[str | int] = [1, 2, 3, 10, "a/b", "../up", "é", "", "x_epoch_1", "samples/1"]
IDS += ["1_epoch_1/messages/0"]  # lies among the parts of another
EPOCHS = (1, 2)
_METHODS = (STORED, DEFLATE, ZSTD)
_HEADER, _SUMMARIES, _JOURNAL = "header.json", "summaries.json", "_journal/summaries/"
_SINGLE = re.compile(r"samples/.*_epoch_[0-9]+\.json", re.DOTALL)
_SHELL = re.compile(r"(samples/.*_epoch_[0-9]+)/sample\.json", re.DOTALL)
_SEQUENCES = ("messages", "events", "calls", "attachments")
_numbers = count(1)


@dataclass(frozen=True)
class Truth:
    """What zipfile finds in a log: the bytes of each live member, None for those that it cannot
    read."""

    members: dict[str, bytes | None]

    @property
    def whole(self) -> bool:
        return None not in self.members.values()

    @cached_property
    def samples(self) -> dict[tuple[str, int], dict[str, Any]]:
        """The documents of the samples that can be read, by id as text and epoch."""
        found = {}
        for name, data in self.members.items():
            document = None
            if _SINGLE.fullmatch(name) and data is not None:
                document = json.loads(data)
            elif (match := _SHELL.fullmatch(name)) and f"{match[1]}.json" not in self.members:
                document = self._put_together(f"{match[1]}/")
            if document is not None:
                found[str(document["id"]), document["epoch"]] = document
        return found

    def _put_together(self, prefix: str) -> dict[str, Any] | None:
        """A chunked sample; None if a part cannot be read."""
        sequences: dict[str, list[Any]] = {}
        for sequence in _SEQUENCES:
            chunk = re.compile(re.escape(f"{prefix}{sequence}/") + r"([0-9]+)\.json")
            starts = [int(match[1]) for name in self.members if (match := chunk.fullmatch(name))]
            sequences[sequence] = []
            for start in sorted(starts):
                data = self.members[f"{prefix}{sequence}/{start}.json"]
                if data is None or start != len(sequences[sequence]):
                    return None
                sequences[sequence] += json.loads(data)
        shell = self.members[f"{prefix}sample.json"]
        if shell is None:
            return None
        document = json.loads(shell)
        pool = sequences["messages"]
        refs = document.pop("message_refs")
        return {
            **document,
            "messages": [message for start, stop in refs for message in pool[start:stop]],
            "metadata": {},
            "events": sequences["events"],
            "events_data": {"messages": pool, "calls": sequences["calls"]},
            "attachments": {str(n): text for n, text in enumerate(sequences["attachments"])},
        }


def truth(data: bytes) -> Truth | None:
    """None if it is no archive."""
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            infos = list(archive.NameToInfo.values())
            return Truth({info.filename: _read(archive, info) for info in infos})
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


def convert(data: bytes, rng: random.Random) -> bytes:
    """Samples are cut into chunks."""
    return _rewritten(_documents(data), rng, finished=_is_finished(data), chunked=0.7)


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
    convert,
    prune,
    rename,
    truncate,
    flip,
]


def _spec() -> dict[str, Any]:
    return {"task": "t", "model": "m", "config": {}, "packages": {"inspect_ai": "0.3.285"}}


def _sample(rng: random.Random, id: str | int, epoch: int) -> dict[str, Any]:
    text = "x" * rng.choice([0, 10, 3000])
    messages, events = ([rng.randrange(9) for _ in range(rng.randrange(5))] for _ in range(2))
    fields = {"v": rng.randrange(100, 999), "text": text, "messages": messages, "events": events}
    return sample(id, epoch, uuid=f"u{next(_numbers)}", **fields)


def _summary(document: dict[str, Any]) -> dict[str, Any]:
    return {**{key: document[key] for key in ("id", "epoch", "input", "uuid")}, "completed": True}


def _documents(data: bytes) -> list[dict[str, Any]]:
    found = truth(data)
    return [] if found is None else list(found.samples.values())


def _is_finished(data: bytes) -> bool:
    found = truth(data)
    return found is not None and _HEADER in found.members


def _rewritten(
    documents: list[dict[str, Any]], rng: random.Random, *, finished: bool, chunked: float = 0
) -> bytes:
    """`chunked` is how likely a sample is cut into chunks."""
    data = _add(b"", [("_journal/start.json", {"version": 2, "eval": _spec()})], STORED)
    data = _with_samples(data, documents, rng, chunked)
    return finish(data, rng) if finished else data


def _with_samples(
    data: bytes, documents: list[dict[str, Any]], rng: random.Random, chunked: float = 0
) -> bytes:
    """Samples, and what the journal or the summaries say of them."""
    method = rng.choice(_METHODS)
    for one in documents:
        member = sample_member(one["id"], one["epoch"])
        cut = rng.random() < chunked
        data = _add(data, _parts(member, one, rng) if cut else [(member, one)], method)
    if _is_finished(data):
        return _add(data, [(_SUMMARIES, [_summary(one) for one in _documents(data)])], method)
    journal = f"{_JOURNAL}{next(_numbers)}.json"
    return _add(data, [(journal, [_summary(one) for one in documents])], method)


def _parts(member: str, document: dict[str, Any], rng: random.Random) -> list[tuple[str, Any]]:
    """The members of a chunked sample, which has some messages that only its events need."""
    prefix = member.removesuffix(".json")
    shell = {
        name: value
        for name, value in document.items()
        if name not in (*_SEQUENCES, "events_data", "metadata")
    }
    messages = document["messages"]
    middle = rng.randint(0, len(messages))
    refs = [[0, middle], [middle + 1, len(messages) + 1]]
    sequences = {
        "messages": [*messages[:middle], "of an event", *messages[middle:]],
        "events": document["events"],
        "calls": [next(_numbers)],
    }
    parts = [("sample", {**shell, "message_refs": refs}), ("skeleton", {"version": 1})]
    for sequence, items in sequences.items():
        size = rng.randint(1, 3)
        parts += [
            (f"{sequence}/{start}", items[start : start + size])
            for start in range(0, len(items), size)
        ]
    return [(f"{prefix}/{name}.json", part) for name, part in parts]


def _add(data: bytes, members: list[tuple[str, Any]], method: int) -> bytes:
    file = io.BytesIO(data)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # a name again is what happens
        with zipfile.ZipFile(file, "a" if data else "w", compression=method) as archive:
            for name, document in members:
                archive.writestr(name, encoded(document))
    return file.getvalue()
