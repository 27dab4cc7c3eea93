"""The checks of each law, and what each becomes without it: `scripts/mutate` shows that a test
fails then. A test here holds the list to the code.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[2]
_LAWS = ("tests/test_laws.py",)
_REMOTE = ("tests/stores/test_remote.py", "tests/stores/test_conformance.py")


class Mutation(NamedTuple):
    """The text of a check, which is in its file once, what stands there instead, and the tests of
    which one has to fail."""

    law: int
    file: str
    check: str
    instead: str
    tests: tuple[str, ...] = _LAWS

    @property
    def name(self) -> str:
        return f"law {self.law}, {self.file}: {' '.join(self.check.split())[:60]}"


MUTATIONS = [
    # 1. Pinned reads.
    Mutation(
        1,
        "evalindex/directory.py",
        "if proof.version is not None and proof.version == file.version:",
        "if proof.version is not None:",
    ),
    Mutation(
        1,
        "evalindex/outcome.py",
        "read.proof.version if file.unchanged() else None",
        "read.proof.version",
    ),
    Mutation(
        1,
        "evalindex/place.py",
        "        if os.path.islink(location):",
        "        if False:",
        ("tests/test_place.py", "tests/test_survey.py"),
    ),
    Mutation(
        1,
        "evalindex/stores/requests.py",
        """options["if_match"] = f'"{etag}"'""",
        "pass",
        _REMOTE,
    ),
    Mutation(
        1,
        "evalindex/stores/remote.py",
        "(answer.etag, answer.size) != (self._etag, self.size)",
        "False",
        _REMOTE,
    ),
    Mutation(
        1,
        "evalindex/stores/remote.py",
        "        self._check_range(answer, start, stop)\n        return answer.data",
        "        return answer.data",
        _REMOTE,
    ),
    Mutation(
        1,
        "evalindex/stores/remote.py",
        ' or bucket.kind == "http"',
        "",
        _REMOTE,
    ),
    # 2. Checked bytes.
    Mutation(2, "evalindex/codec.py", "if name != member.name.encode():", "if False:"),
    Mutation(2, "evalindex/codec.py", "if crc32 != member.crc32:", "if False:"),
    Mutation(
        2,
        "evalindex/codec.py",
        "if len(result) != member.uncompressed_size:",
        "if False:",
        ("tests/test_codec.py", *_LAWS),
    ),
    Mutation(
        2,
        "evalindex/decode.py",
        'check_identity(sample.get("id"), sample.get("epoch"), id, epoch)',
        "pass",
    ),
    Mutation(
        2,
        "evalindex/decode.py",
        "if found != uuid:",
        "if False:",
        ("tests/test_survey.py",),
    ),
    # 3. Three proofs.
    Mutation(
        3,
        "evalindex/directory.py",
        "        or _digest(file.read(proof.directory_offset, file.size)) != proof.digest\n",
        "",
    ),
    Mutation(
        3,
        "evalindex/directory.py",
        "    version = file.version if file.settled else None\n",
        "    version = file.version\n",
    ),
    Mutation(
        3,
        "evalindex/directory.py",
        "_replace(version=file.version if file.settled else None)",
        "_replace(version=file.version)",
    ),
    Mutation(
        3,
        "evalindex/stores/local.py",
        "self._seen - max(self.modified, self._changed)",
        "self._seen - self.modified",
        ("tests/stores/test_local.py", *_LAWS),
    ),
    # 4. Heal, then fail loudly.
    Mutation(
        4,
        "evalindex/heal.py",
        "            log.doubted = True\n        else:",
        "            pass\n        else:",
    ),
    Mutation(4, "evalindex/heal.py", "            file.confirm()\n", "            pass\n", _REMOTE),
    Mutation(
        4,
        "evalindex/heal.py",
        "    if log.tries >= len(PAUSES):\n        return False",
        "    return False",
    ),
    Mutation(
        4,
        "evalindex/heal.py",
        "        return not log.final\n",
        "        return False\n",
    ),
    Mutation(
        4,
        "evalindex/heal.py",
        'if self._on_stale == "error":',
        "if False:",
    ),
    Mutation(
        4,
        "evalindex/known.py",
        "while self._healed_size > _HEALED_LIMIT:",
        "while False:",
    ),
    Mutation(
        4,
        "evalindex/heal.py",
        "    if isinstance(error, LogChanged):\n        return True\n",
        "",
        _REMOTE,
    ),
    Mutation(
        4,
        "evalindex/read.py",
        "            log.judged = None  # the misses may not be proved\n",
        "",
        _REMOTE,
    ),
    Mutation(
        4,
        "evalindex/reads.py",
        "fresh=attempt > 0",
        "fresh=False",
        _REMOTE,
    ),
    # 5. Readers never write.
    Mutation(
        5,
        "evalindex/database/engine.py",
        '_connect(path, "ro", _READ_TIMEOUT)\n        try:\n            schema',
        '_connect(path, "rw", _READ_TIMEOUT)\n        try:\n            schema',
        (*_LAWS, "tests/database"),
    ),
    # 6. One bad log or sample never stops the rest.
    Mutation(
        6,
        "evalindex/fetch.py",
        "except (CorruptMember, UnsupportedMember) as error:\n            yield member, error",
        "except ZeroDivisionError as error:\n            raise error",
    ),
    Mutation(
        6,
        "evalindex/outcome.py",
        "            except EvalIndexError as error:\n                return self._failed",
        "            except LogNotFound as error:\n                return self._failed",
        ("tests/test_builder.py",),
    ),
    Mutation(
        6,
        "evalindex/outcome.py",
        "row.reason is None and (row.path in self._known)",
        "(row.path in self._known)",
        ("tests/test_builder.py",),
    ),
    # 7. No event loop in the core, and no fork with a store's threads.
    Mutation(
        7,
        "evalindex/stores/buckets.py",
        "_forked = _forked or bool(_buckets)",
        "_forked = False",
        _REMOTE,
    ),
    # 8. Bounded.
    Mutation(
        8,
        "evalindex/budget.py",
        "always or self._held + size <= self._most",
        "True",
        ("tests/test_budget.py", *_LAWS),
    ),
    Mutation(
        8,
        "evalindex/budget.py",
        "free if limit is None else min(limit, free)",
        "wanted",
        ("tests/test_budget.py", *_REMOTE),
    ),
    # 9. Inspect turns bytes into EvalSample, by what it has for that.
    Mutation(
        9,
        "evalindex/inspect_ai/guard.py",
        'if "reader" not in inspect.signature(function).parameters:',
        "if False:",
        ("tests/test_inspect_ai.py",),
    ),
    # 10. Every text from a log is foreign.
    Mutation(
        10,
        "evalindex/names.py",
        " and _IMPOSSIBLE.search(id) is None",
        "",
        (*_LAWS, "tests/test_names.py"),
    ),
    Mutation(
        10,
        "evalindex/errors.py",
        "    if text.isprintable():\n        return text\n",
        "    return text\n",
        ("tests/test_errors.py", "tests/test_cli.py", "tests/test_cli_rows.py"),
    ),
    # 11. An index can always be rebuilt, and what is none is left alone.
    Mutation(
        11,
        "evalindex/database/engine.py",
        "    if application or schema or changes:",
        "    if False:",
        ("tests/database",),
    ),
    Mutation(
        11,
        "evalindex/database/writes.py",
        "if not (replace_damaged and is_ours(path)):",
        "if not replace_damaged:",
        ("tests/database",),
    ),
    Mutation(
        11,
        "evalindex/database/queries.py",
        "    if set(map(type, row[1:])) != {int} or min(row[1:]) < 0:",
        "    if False:",
        ("tests/database",),
    ),
]
