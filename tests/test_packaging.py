"""The wheel, alone in a new environment, builds and reads."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from tests.builders import members_by_zipfile, sample, sample_member, write_log

REPOSITORY = Path(__file__).resolve().parents[1]


# The system's certificates are to be trusted, as pip does.
_UV = (sys.executable, "-m", "uv")
_ENVIRONMENT = {**os.environ, "UV_SYSTEM_CERTS": "1", "UV_NATIVE_TLS": "1"}


def run(*command: str | Path, cwd: Path) -> str:
    done = subprocess.run(
        list(map(str, command)), cwd=cwd, capture_output=True, text=True, env=_ENVIRONMENT
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("dist")
    run(*_UV, "build", "--wheel", "--out-dir", out, cwd=REPOSITORY)
    (path,) = out.glob("*.whl")
    return path


@pytest.fixture(scope="module")
def bin(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The programs of an environment with the wheel and what it depends on, and nothing else."""
    environment = tmp_path_factory.mktemp("environment")
    run(*_UV, "venv", "--quiet", "--clear", "--python", sys.executable, ".", cwd=environment)
    run(*_UV, "pip", "install", "--python", "bin/python", wheel, cwd=environment)
    return environment / "bin"


def test_the_wheel_holds_the_package_and_its_migrations_and_nothing_else(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
    package = {name for name in names if not name.split("/")[0].endswith(".dist-info")}
    sources = {
        str(path.relative_to(REPOSITORY))
        for path in (REPOSITORY / "evalindex").rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    migrations = {
        f"evalindex/{path.relative_to(REPOSITORY)}"
        for path in (REPOSITORY / "migrations").rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    assert package == sources | migrations
    assert "evalindex/migrations/versions/0001_logs_and_members.py" in package
    assert "evalindex/py.typed" in package
    assert any(name.endswith(".dist-info/licenses/LICENSE") for name in names)


def test_the_environment_of_the_wheel_has_neither_inspect_nor_the_checkout(
    bin: Path, tmp_path: Path
) -> None:
    code = "import evalindex, importlib.util; print(evalindex.__file__)"
    assert run(bin / "python", "-c", code, cwd=tmp_path).startswith(str(bin.parent))
    code = "import importlib.util; print(importlib.util.find_spec('inspect_ai'))"
    assert run(bin / "python", "-c", code, cwd=tmp_path) == "None\n"


@pytest.mark.parametrize("program", ["evalindex", "python -m evalindex"])
def test_the_installed_program_builds_and_reads_from_another_folder(
    bin: Path, tmp_path: Path, program: str
) -> None:
    log = write_log(tmp_path / "logs" / "run.eval", [sample("a"), sample("b", 2)])
    (tmp_path / "elsewhere").mkdir()
    first, *rest = program.split()
    command: list[str | Path] = [bin / first, *rest]
    report = run(*command, "build", "../logs", "--json", cwd=tmp_path / "elsewhere")
    assert json.loads(report)["indexed"] == 1
    assert (tmp_path / "logs" / "evalindex.db").is_file()
    member = members_by_zipfile(log)[sample_member("b", 2)]
    assert json.loads(run(*command, "get", log, "b", "2", cwd=Path("/"))) == json.loads(member)


def test_the_installed_library_builds_and_reads_without_a_warning(
    bin: Path, tmp_path: Path
) -> None:
    write_log(tmp_path / "logs" / "run.eval", [sample("a")])
    code = (
        "import evalindex; evalindex.build('logs')\n"
        "with evalindex.open('logs') as index: print(index.read('run.eval', 'a')['input'])"
    )
    answer = run(bin / "python", "-W", "error", "-c", code, cwd=tmp_path)
    assert answer == "question a\n"
