"""The command line: what goes to which stream, exit codes, and files of keys."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import evalindex
from tests.builders import PEAK, Entry, archive, encoded, members_by_zipfile, sample, write_log


def run(*arguments: object, stdin: str | None = None, **options: Any) -> Any:
    command = [sys.executable, "-m", "evalindex", *map(str, arguments)]
    return subprocess.run(command, input=stdin, capture_output=True, text=True, **options)


@pytest.fixture
def log(tmp_path: Path) -> Path:
    samples = [sample(n, v=n) for n in range(1, 6)] + [sample(-5), sample("-x"), sample("ä", 2)]
    return write_log(tmp_path / "logs" / "run.eval", samples)


@pytest.fixture
def built(log: Path) -> Path:
    evalindex.build(log.parent)
    return log


def test_get_prints_one_json_document(built: Path) -> None:
    done = run("get", built, 3)
    assert (done.returncode, done.stderr) == (0, "")
    assert json.loads(done.stdout) == sample(3, v=3)
    assert done.stdout.count("\n") == 1
    assert json.loads(run("get", "--pretty", built, "ä", 2).stdout) == sample("ä", 2)
    assert "\n  " in run("get", "--pretty", built, "ä", 2).stdout


def test_get_raw_gives_the_members_bytes(built: Path, tmp_path: Path) -> None:
    expected = members_by_zipfile(built)["samples/3_epoch_1.json"]
    assert run("get", built, 3, "--raw").stdout.encode() == expected
    out = tmp_path / "out.json"
    assert run("get", built, 3, "--raw", "--out", out).returncode == 0
    assert out.read_bytes() == expected
    assert out.stat().st_mode & 0o777 == 0o666 & ~_umask()


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def test_negative_ids_are_taken_as_they_are(built: Path) -> None:
    assert json.loads(run("get", built, "-5").stdout)["id"] == -5
    assert json.loads(run("get", built, "--", "-x").stdout)["id"] == "-x"
    assert run("get", built, "-5", "-1").returncode == 1
    assert run("get", built, "--nonsense").returncode == 2


def test_get_excludes_fields(built: Path) -> None:
    assert json.loads(run("get", built, 3, "--exclude", "v", "--exclude", "id").stdout) == {
        "id": 3,
        "epoch": 1,
        "input": "question 3",
    }
    assert run("get", built, 3, "--raw", "--exclude", "v").returncode == 2


def test_get_says_what_is_wrong_and_what_to_do(built: Path) -> None:
    done = run("get", built, 9)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith(f"error: {built}: no sample with id '9' epoch 1")
    done = run("get", built.with_name("none.eval"), 1)
    assert (done.returncode, done.stdout) == (1, "")
    assert "no such log" in done.stderr
    assert "Traceback" not in done.stderr


def test_get_without_an_index_says_so_unless_quiet(log: Path) -> None:
    done = run("get", log, 3)
    assert json.loads(done.stdout)["id"] == 3
    assert "is not indexed" in done.stderr
    assert run("get", log, 3, "-q").stderr == ""


def test_get_tells_of_a_heal(built: Path) -> None:
    write_log(built, [sample(1, v="new")])
    done = run("get", built, 1)
    assert json.loads(done.stdout)["v"] == "new"
    assert "has changed since it was indexed" in done.stderr


def test_the_current_folder_comes_first(built: Path, tmp_path: Path) -> None:
    """The same relative name below the root and here: a command means the one that is here."""
    write_log(tmp_path / "run.eval", [sample(1, v="here")])
    done = run("get", "run.eval", 1, "--index", built.parent / "evalindex.db", cwd=tmp_path)
    assert json.loads(done.stdout)["v"] == "here"


def test_text_from_a_log_cannot_reach_the_terminal_as_it_is(tmp_path: Path) -> None:
    hostile = "\x1b[2J\x9b31m\u202egnp\u2028\r"
    log = write_log(tmp_path / "run.eval", [sample(hostile, text=hostile)])
    for arguments in (("get", log, hostile), ("get", log, "\x1b]0;x\x07")):
        done = run(*arguments)
        for text in (done.stdout, done.stderr):
            assert text.replace("\n", "").isprintable()
    assert json.loads(run("get", log, hostile).stdout)["text"] == hostile


def test_keys_from_csv(built: Path, tmp_path: Path) -> None:
    other = write_log(tmp_path / "more" / "other.eval", [sample('a,"b', 3)])
    evalindex.build(other.parent)
    keys = tmp_path / "keys.csv"
    keys.write_text(
        f'\ufefflog,id,epoch\n{built},3,\n{other},"a,""b",3\n\n{built},ä,2\n{built},3,1\n'
    )
    done = run("get", "--keys", keys)
    assert (done.returncode, done.stderr) == (0, "")
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    assert lines == [
        {"log": str(built), "id": 3, "epoch": 1, "sample": sample(3, v=3)},
        {"log": str(other), "id": 'a,"b', "epoch": 3, "sample": sample('a,"b', 3)},
        {"log": str(built), "id": "ä", "epoch": 2, "sample": sample("ä", 2)},
        {"log": str(built), "id": 3, "epoch": 1, "sample": sample(3, v=3)},
    ]


def test_keys_from_json_lines_on_stdin(built: Path) -> None:
    keys = [{"log": "run.eval", "id": 3}, ["run.eval", "ä", 2], {"log": str(built), "id": "1"}]
    done = run(
        "get", "--keys", "-", "--exclude", "input", "--index", built.parent / "evalindex.db",
        stdin="\n".join(map(json.dumps, keys)), cwd=built.parent.parent,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    assert [(line["log"], line["id"], line["epoch"]) for line in lines] == [
        (str(built), 3, 1),
        (str(built), "ä", 2),
        (str(built), 1, 1),
    ]


def test_a_failed_key_is_a_line_on_stderr_and_stops_nothing(built: Path, tmp_path: Path) -> None:
    bad = built.with_name("bad.eval")
    bad.write_bytes(archive([Entry(b"samples/1_epoch_1.json", encoded(sample(1)), crc32=1)]))
    gone = write_log(built.with_name("gone.eval"), [sample(1)])
    evalindex.build(built.parent)
    gone.unlink()
    keys = [(built, n % 5 + 1) for n in range(10_000)]
    keys[200], keys[7_000] = (bad, 1), (gone, 1)
    lines = "".join(json.dumps([str(log), id]) + "\n" for log, id in keys)
    out = tmp_path / "out.jsonl"
    done = run("get", "--keys", "-", "--out", out, stdin=lines)
    assert (done.returncode, done.stdout) == (3, "")
    assert [line["id"] for line in map(json.loads, out.read_text().splitlines())] == [
        id for n, (_, id) in enumerate(keys) if n not in (200, 7_000)
    ]
    failures = [json.loads(line) for line in done.stderr.splitlines()]
    assert [(f["log"], f["id"], f["error"]) for f in failures] == [
        (str(bad), 1, "CorruptMember"),
        (str(gone), 1, "LogNotFound"),
    ]
    out.unlink()
    done = run("get", "--keys", "-", "--out", out, "--strict", stdin=lines)
    assert done.returncode == 1
    assert "CRC-32" in done.stderr
    assert sorted(p.name for p in tmp_path.iterdir()) == ["logs"], "nothing half-written is left"


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ('{"log": "x"}', "it is not"),
        ('["x", 1.5]', "id is 1.5"),
        ("[1]", "it is not"),
        ('[1, "x"]', "log is 1"),
        ("nonsense", "no JSON"),
        ('["x", 1, 1.5]', "epoch is 1.5"),
        ('["x", 1, true]', "epoch is True"),
        ('["x", true]', "id is True"),
    ],
)
def test_a_bad_line_of_keys_is_told_by_its_number_and_stops_nothing(
    built: Path, line: str, reason: str
) -> None:
    keys = "\n".join([json.dumps([str(built), 3]), "", line, json.dumps([str(built), 4, "1"])])
    done = run("get", "--keys", "-", stdin=keys)
    assert done.returncode == 3
    assert [json.loads(found)["id"] for found in done.stdout.splitlines()] == [3, 4]
    failure = json.loads(done.stderr)
    assert failure["line"] == 3
    assert reason in failure["reason"]
    done = run("get", "--keys", "-", "--strict", stdin=keys)
    assert done.returncode == 1
    assert "line 3" in done.stderr


def test_bad_lines_of_csv_are_told_too(built: Path, tmp_path: Path) -> None:
    keys = tmp_path / "keys.csv"
    keys.write_text(f"Log, ID ,epoch\n{built},3,1.0\n{built},4,one\n{built},5\n{built},5,1,1\n")
    done = run("get", "--keys", keys)
    assert [json.loads(found)["id"] for found in done.stdout.splitlines()] == [3]
    assert [json.loads(line)["line"] for line in done.stderr.splitlines()] == [3, 4, 5]


@pytest.mark.parametrize("text", ["a,b\n1,2\n", "log;id\nx;1\n", "log\nx\n"])
def test_a_csv_file_without_its_header_is_a_usage_error(tmp_path: Path, text: str) -> None:
    keys = tmp_path / "keys.csv"
    keys.write_text(text)
    done = run("get", "--keys", keys)
    assert (done.returncode, done.stdout) == (2, "")
    assert "header" in done.stderr


@pytest.mark.parametrize("name", ["none.csv", "logs"])
def test_a_file_of_keys_that_cannot_be_read_is_a_usage_error(built: Path, name: str) -> None:
    done = run("get", "--keys", name, cwd=built.parent.parent)
    assert done.returncode == 2
    assert name in done.stderr
    assert "Traceback" not in done.stderr


def test_notes_do_not_break_the_lines_on_stderr(log: Path) -> None:
    done = run("get", "--keys", "-", stdin=json.dumps([str(log), 3]))
    assert done.returncode == 0
    assert list(json.loads(done.stderr)) == ["note"]
    assert run("get", "--keys", "-", "-q", stdin=json.dumps([str(log), 3])).stderr == ""


def test_out_never_overwrites_what_it_must_not(built: Path, tmp_path: Path) -> None:
    keys = tmp_path / "keys.csv"
    keys.write_text(f"log,id\n{built},3\n")
    (tmp_path / "link.json").symlink_to(built)
    before = {path: path.read_bytes() for path in (built, keys, built.parent / "evalindex.db")}
    for out in (built, built.parent / "evalindex.db", tmp_path / "link.json", tmp_path):
        assert run("get", built, 3, "--out", out).returncode == 2
    assert run("get", "--keys", keys, "--out", keys).returncode == 2
    assert before == {path: path.read_bytes() for path in before}


def test_out_goes_through_links_pipes_and_a_dash(built: Path, tmp_path: Path) -> None:
    target, link, pipe = tmp_path / "target.json", tmp_path / "link.json", tmp_path / "pipe"
    link.symlink_to(target)
    assert run("get", built, 3, "--out", link).returncode == 0
    assert link.is_symlink()
    assert json.loads(target.read_text())["id"] == 3
    os.mkfifo(pipe)
    with subprocess.Popen(["cat", str(pipe)], stdout=subprocess.PIPE) as reader:
        assert run("get", built, 3, "--out", pipe).returncode == 0
        assert json.loads(reader.communicate()[0])["id"] == 3
    assert json.loads(run("get", built, 3, "--out", "-", cwd=tmp_path).stdout)["id"] == 3
    assert not (tmp_path / "-").exists()


@pytest.mark.parametrize("target", ["> /dev/full", ">&-"])
@pytest.mark.parametrize("verb", ["get", "status", "build", "verify"])
def test_an_output_that_cannot_be_written_is_one_line(built: Path, target: str, verb: str) -> None:
    what = f"{built} 3" if verb == "get" else built.parent
    command = f"{sys.executable} -m evalindex {verb} {what} {target}"
    done = subprocess.run(["sh", "-c", command], capture_output=True, text=True)
    assert done.returncode == 1
    assert "Traceback" not in done.stderr
    assert "error: " in done.stderr


def test_build_is_quiet_when_asked(built: Path) -> None:
    (built.parent / "2024-01-01T00-00-00_x.json").write_text("{}")
    done = run("build", "-q", built.parent)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


@pytest.mark.parametrize("verb", ["build", "get"])
def test_a_log_in_the_json_format_is_told_what_to_do(built: Path, verb: str) -> None:
    other = built.with_name("log.json")
    other.write_text('{"version": 2, "eval": {}}')
    done = run(verb, other, *(["1"] if verb == "get" else []))
    assert done.returncode == 1
    assert "inspect log convert" in done.stderr


@pytest.mark.parametrize("name", ["run", "none", "-"])
def test_what_is_no_log_by_its_name_is_told_so(log: Path, name: str) -> None:
    done = run("get", name, 1, cwd=log.parent)
    assert done.returncode == 1
    assert "no such log" in done.stderr
    assert ("run.eval?" in done.stderr) == (name == "run")
    done = run("get", "--keys", "-", stdin=json.dumps([name, 1]), cwd=log.parent)
    assert json.loads(done.stderr)["error"] == "LogNotFound"


def test_exclude_takes_commas(built: Path) -> None:
    assert set(json.loads(run("get", built, 3, "--exclude", "v,input").stdout)) == {"id", "epoch"}


def test_an_empty_file_of_keys_is_no_error() -> None:
    done = run("get", "--keys", "-", stdin="\n\n")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_a_closed_pipe_ends_quietly(built: Path) -> None:
    line = json.dumps([str(built), 3]) + "\n"
    command = f"{sys.executable} -m evalindex get --keys - | head -n 1"
    done = subprocess.run(
        ["sh", "-c", command], input=line * 20_000, capture_output=True, text=True, check=True
    )
    assert done.stderr == ""
    assert done.stdout.count("\n") == 1


def test_limits_are_taken(built: Path) -> None:
    done = run("get", built, 3, "--concurrency", 1, "--max-bytes", "64KiB")
    assert json.loads(done.stdout)["id"] == 3
    assert run("get", built, 3, "--max-bytes", "many").returncode == 2


def test_a_huge_run_of_keys_takes_flat_memory(built: Path) -> None:
    """A keys file of 60,000 lines peaks where one of 20,000 does."""
    code = (
        PEAK + "import sys; from evalindex.cli import main\n"
        "try: main()\n"
        "finally: print(peak(), file=sys.stderr)"
    )
    peaks = []
    for count in (20_000, 60_000):
        done = subprocess.run(
            [sys.executable, "-c", code, "get", "--keys", "-"],
            input=(json.dumps([str(built), 3]) + "\n") * count,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            check=True,
        )
        peaks.append(int(done.stderr.split()[-1]))
    assert peaks[1] < peaks[0] + 8 * 1024


def test_status_shows_what_is_not_fresh(built: Path) -> None:
    write_log(built.with_name("new.eval"), [sample(1)])
    running = write_log(built.with_name("running.eval"), [sample(1)], finished=False)
    evalindex.build(running)
    gone = write_log(built.with_name("gone.eval"), [sample(1)])
    cut = built.with_name("cut.eval")
    cut.write_bytes(built.read_bytes()[:500])
    evalindex.build(cut)
    evalindex.build(gone)
    gone.unlink()
    write_log(built, [sample(1), sample(2)])
    found = json.loads(run("status", built.parent, "--json").stdout)
    states = {Path(log["log"]).name: log["state"] for log in found["logs"]}
    assert states == {
        "cut.eval": "unreadable",
        "gone.eval": "gone",
        "new.eval": "new",
        "run.eval": "stale",
        "running.eval": "unfinished",
    }
    text = run("status", built.parent).stdout
    for name, state in states.items():
        assert any(line.startswith(state) and name in line for line in text.splitlines())


def test_status_of_one_log_or_folder(built: Path) -> None:
    write_log(built.parent / "sub" / "a.eval", [sample(1)])
    evalindex.build(built.parent)
    for where, names in [(built, ["run.eval"]), (built.parent / "sub", ["a.eval"])]:
        found = json.loads(run("status", where, "--json").stdout)
        assert [Path(log["log"]).name for log in found["logs"]] == names


def test_verify_finds_damage_in_log_and_index(built: Path) -> None:
    assert run("verify", built.parent).returncode == 0
    other = write_log(built.with_name("other.eval"), [sample(n) for n in range(5)])
    evalindex.build(built.parent)
    data = bytearray(built.read_bytes())
    member = members_by_zipfile(built)["samples/3_epoch_1.json"]
    assert member
    at = data.index(b"samples/3_epoch_1.json") + 30
    data[at] ^= 0xFF
    built.write_bytes(data)
    import sqlite3

    with sqlite3.connect(built.parent / "evalindex.db") as connection:
        connection.execute(
            "UPDATE member SET crc32 = crc32 + 1 WHERE name = 'samples/2_epoch_1.json'"
            " AND log_id = (SELECT log_id FROM log WHERE path = 'other.eval')"
        )
    connection.close()
    done = run("verify", built.parent, "--json")
    assert done.returncode == 3
    found = {(Path(f["where"]).name, f["kind"]) for f in json.loads(done.stdout)["findings"]}
    assert found == {("run.eval", "member"), ("other.eval", "rows")}
    assert run("verify", other, "--sample", "2").returncode == 3


@pytest.mark.parametrize("verb", ["build", "get", "status", "verify"])
def test_every_command_has_help_with_an_example(verb: str) -> None:
    done = run(verb, "--help")
    assert done.returncode == 0
    assert "Example: evalindex " + verb in done.stdout
    for option in ("--index", "-q"):
        assert option in done.stdout


def test_the_program_says_its_version_and_refuses_what_it_does_not_know() -> None:
    assert evalindex.__version__ in run("--version").stdout
    assert run("fly").returncode == 2
    assert run().returncode in (0, 2)
