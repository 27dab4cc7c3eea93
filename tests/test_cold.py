"""What a cold process imports, and what `import evalindex` promises."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import evalindex
from tests.builders import sample, write_log

_READ = """
import sys
before = set(sys.modules)
import evalindex
with evalindex.open({root!r}) as index:
    assert index.read_samples({log!r}, [1, 2], as_={as_!r})
print("\\n".join(sorted({{name.split(".")[0] for name in set(sys.modules) - before}})))
"""

# Everything outside the standard library and all that is slow inside it would be listed here.
_ALLOWED = {"evalindex", "zstandard", "sqlite3", "json", "hashlib", "urllib", "typing"}
_DICT_ALLOWED = _ALLOWED | {"msgspec", "typing_extensions"}
_SLOW = {
    "alembic",
    "anyio",
    "asyncio",
    "click",
    "concurrent",
    "dataclasses",
    "difflib",
    "importlib_metadata",
    "inspect",
    "inspect_ai",
    "logging",
    "pathlib",
    "rich",
    "sqlalchemy",
    "tempfile",
}


@pytest.mark.parametrize("as_", ["bytes", "dict"])
def test_a_cold_read_imports_little(tmp_path: Path, as_: str) -> None:
    root = tmp_path / "logs"
    log = write_log(root / "run.eval", [sample(1), sample(2)])
    evalindex.build(root)
    where = str(root / "evalindex.db")
    code = _READ.format(root=where, log=str(log), as_=as_)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    imported = set(done.stdout.split())
    assert "evalindex" in imported
    foreign = {name for name in imported if name not in sys.stdlib_module_names}
    foreign = {name for name in foreign if not name.startswith("_")}
    assert foreign <= (_DICT_ALLOWED if as_ == "dict" else _ALLOWED)
    slow = imported & _SLOW
    if as_ == "dict":
        slow -= {"inspect"}  # by msgspec
    assert not slow


def test_importing_the_package_imports_no_room_of_it() -> None:
    code = "import sys, evalindex; print([m for m in sys.modules if m.startswith('evalindex.')])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_all_names_what_is_public_and_nothing_else() -> None:
    """What type checkers see, what `__all__` says and what can be had are the same."""
    tree = ast.parse(Path(str(evalindex.__file__)).read_text())
    seen = {
        alias.asname or alias.name
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("evalindex.")
        for alias in node.names
    }
    assert seen | {"__version__"} == set(evalindex.__all__)
    assert dir(evalindex) == sorted(evalindex.__all__) == list(evalindex.__all__)
    for name in evalindex.__all__:
        assert getattr(evalindex, name) is not None
    with pytest.raises(AttributeError):
        evalindex.nothing  # noqa: B018


def test_every_error_is_public() -> None:
    from evalindex import errors

    kinds = {
        name
        for name, value in vars(errors).items()
        if isinstance(value, type) and issubclass(value, errors.EvalIndexError)
    }
    assert {kind for kind in kinds if not kind.startswith("_")} <= set(evalindex.__all__)
