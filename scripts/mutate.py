"""Take each check of each law away in turn, in a copy, and show that a test fails without it."""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.prove.mutations import MUTATIONS, ROOT, Mutation

_PARTS = ("evalindex", "migrations", "tests", "scripts", "pyproject.toml", "README.md")


def killed_by(mutation: Mutation, copy: Path) -> str | None:
    """The first test that fails without the check; None if all pass."""
    file = copy / mutation.file
    text = file.read_text()
    file.write_text(text.replace(mutation.check, mutation.instead))
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-x",
        "-p",
        "no:cacheprovider",
        "--timeout=120",
    ]
    try:
        done = subprocess.run(
            [*command, *mutation.tests],
            cwd=copy,
            env={**os.environ, "PYTHONPATH": str(copy), "PYTHONDONTWRITEBYTECODE": "1"},
            capture_output=True,
            text=True,
        )
    finally:
        file.write_text(text)
    if done.returncode == 0:
        return None
    failed = [line for line in done.stdout.splitlines() if line.startswith(("FAILED", "ERROR"))]
    return failed[0].split(" - ")[0].split(" ", 1)[1] if failed else "the tests could not be run"


def main() -> int:
    parser = argparse.ArgumentParser(prog="scripts/mutate", description=__doc__)
    parser.add_argument("--law", type=int, help="only the checks of this law")
    options = parser.parse_args()
    survivors = 0
    with tempfile.TemporaryDirectory() as scratch:
        for part in _PARTS:
            source = ROOT / part
            copy = shutil.copytree if source.is_dir() else shutil.copy
            copy(source, Path(scratch) / part)
        for mutation in MUTATIONS:
            if options.law in (None, mutation.law):
                killer = killed_by(mutation, Path(scratch))
                survivors += killer is None
                print(f"| {mutation.name} | {killer or 'SURVIVED'} |", flush=True)
    return int(survivors > 0)


if __name__ == "__main__":
    sys.exit(main())
