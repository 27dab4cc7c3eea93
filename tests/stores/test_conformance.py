"""What any store must do, shown on real servers and on the file system."""

from __future__ import annotations

import io
import json
import os
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import evalindex
from evalindex.directory import Proof
from evalindex.locations import full_path
from evalindex.model import Version
from evalindex.stores import LogFile, Meter
from evalindex.stores.access import list_logs, listed_log, open_log
from tests.builders import sample, sample_member, settle, write_log
from tests.servers import Server
from tests.servers.fixtures import START, reach

#: More than what is fetched of a log's end.
DATA = bytes(range(256)) * 2_000
DIRECTORY = len(DATA) - 6_000
#: Names that are awkward in URLs, in XML, on the command line.
NAMES = ["plain", "with space", "ü-ñ-日本", "100%41", "a+b", "a&b<c>", "q?x#y", "dir/in/dir"]


@pytest.fixture(params=["local", *START])
def place(
    request: pytest.FixtureRequest,
    servers: Callable[[str], Server],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> Server:
    if request.param != "local":
        return reach(servers(request.param), monkeypatch)
    folder = tmp_path / "store"

    def put(location: str, data: bytes) -> None:
        path = Path(location)
        path.parent.mkdir(parents=True, exist_ok=True)
        part = path.with_name("part")
        part.write_bytes(data)
        settle(part)
        part.replace(path)

    return Server("local", str(folder), {}, put, os.unlink, 0)


def spelled(server: Server, name: str) -> str:
    """A name in a URL: those of web servers are quoted, those of stores are literal."""
    from urllib.parse import quote

    return quote(name) if server.name == "nginx" else name


def pin(file: LogFile) -> Proof:
    return Proof(file.version, file.size, DIRECTORY, b"")


@pytest.fixture
def log(place: Server) -> str:
    location = full_path(place.fresh_root(), "logs/run.eval")
    place.put(location, DATA)
    return location


def test_ranges_are_the_bytes_and_end_with_the_log(log: str) -> None:
    with open_log(log) as file:
        assert file.size == len(DATA)
        for start, stop in [(0, 1), (5, 1000), (511_000, 600_000), (70_000, 70_001), (0, 10**9)]:
            assert file.read(start, stop) == DATA[start:stop]
        assert file.read(10, 10) == file.read(len(DATA), len(DATA) + 5) == b""
        assert file.unchanged()


@pytest.mark.parametrize("size", [0, 1, 40_000])
def test_logs_of_any_size_can_be_opened(place: Server, size: int) -> None:
    location = full_path(place.fresh_root(), "run.eval")
    place.put(location, DATA[:size])
    with open_log(location) as file:
        assert file.size == size
        assert file.read(0, size) == DATA[:size]


def test_a_log_that_is_not_there_is_an_error_by_name(log: str, place: Server) -> None:
    missing = full_path(place.fresh_root(), "none.eval")
    with pytest.raises(evalindex.LogNotFound) as caught, open_log(missing) as file:
        file.read(0, 1)
    assert caught.value.log == missing
    assert list(listed_log(missing, "none.eval")) == []
    with open_log(log) as file:
        assert file.read(0, 3) == DATA[:3]


def test_a_pinned_log_costs_its_reads_alone(log: str, place: Server) -> None:
    with open_log(log) as file:
        found = pin(file)
    meter = Meter()
    with open_log(log, found, meter=meter) as file:
        assert file.version == found.version
        assert meter.read().requests == (0 if place.strong_etags else 1)
        assert file.read(5, 300) == DATA[5:300]
        assert file.read(200, 70_000) == DATA[200:70_000]
        assert file.read(DIRECTORY + 9, len(DATA)) == DATA[DIRECTORY + 9 :]
        assert file.read(DIRECTORY, len(DATA) - 5) == DATA[DIRECTORY:-5]
    if place.name != "local":
        # The end of the log from where its directory begins is fetched once.
        assert meter.read().requests == 3
        assert meter.read().bytes == 295 + 69_800 + len(DATA) - DIRECTORY


@pytest.mark.parametrize("change", [DATA[::-1], DATA + b"more", DATA[:-1]])
def test_a_replaced_log_is_not_read_as_the_old_one(log: str, place: Server, change: bytes) -> None:
    with open_log(log) as file:
        found = pin(file)
        place.put(log, change)
        if place.name == "local":  # the descriptor is the old log's
            assert file.read(0, 100) == DATA[:100]
        elif place.strong_etags or len(change) != len(DATA):
            with pytest.raises(evalindex.LogChanged) as caught:
                file.read(0, 100)
            assert caught.value.log == log
    with open_log(log, found) as file:
        if place.name == "local" or not place.strong_etags:
            assert found.version is None or file.version != found.version
        else:
            with pytest.raises(evalindex.LogChanged):
                file.read(0, 100)
    with open_log(log) as file:
        assert file.read(0, 10**6) == change


def test_a_version_is_another_one_after_each_change(log: str, place: Server) -> None:
    seen: set[Version | None] = set()
    for n in range(3):
        place.put(log, DATA + bytes([n]))
        with open_log(log) as file:
            seen.add(file.version)
            (listed,) = listed_log(log, "run.eval")
            assert (listed.version, listed.size) == (file.version, file.size)
    assert seen == {None} if not place.strong_etags else len(seen) == 3


def test_all_logs_are_listed_and_nothing_else(place: Server) -> None:
    root = place.fresh_root()
    for name in NAMES:
        place.put(full_path(root, f"logs/{spelled(place, name)}.eval"), DATA[:100])
    for name in ("logs/other.json", "logs/notes.txt", "logs2/other.eval", "logs.eval"):
        place.put(full_path(root, name), b"{}")
    listing = list_logs(full_path(root, "logs"))
    if not place.can_list:
        with pytest.raises(evalindex.RootUnreadable, match="cannot be listed"):
            list(listing)
        return
    found = {item.path: item for item in listing}
    assert sorted(found) == sorted(f"{name}.eval" for name in NAMES)
    assert listing.json_files == ["other.json"]
    for name, item in found.items():
        location = full_path(full_path(root, "logs"), name)
        with open_log(location, size=item.size) as file:
            assert file.read(0, 10**6) == DATA[:100]
            assert (item.version, item.size) == (file.version, 100)
    below = list_logs(root, "logs/dir")
    assert [item.path for item in below] == ["logs/dir/in/dir.eval"]


def archive_of(tmp_path: Path, samples: list[dict[str, Any]], **options: Any) -> bytes:
    path = write_log(tmp_path / "made.eval", samples, **options)
    try:
        return path.read_bytes()
    finally:
        path.unlink()


def members(data: bytes) -> dict[str, Any]:
    with zipfile.ZipFile(io.BytesIO(data)) as file:
        return {name: json.loads(file.read(name)) for name in file.namelist()}


@pytest.fixture
def built(place: Server, tmp_path: Path) -> tuple[Server, str, dict[str, bytes]]:
    """A built root of three logs, a web server's logs being named one by one."""
    root = full_path(place.fresh_root(), "logs")
    logs = {
        f"{name}.eval": archive_of(
            tmp_path, [sample(n, v=name, uuid=f"{name}{n}") for n in range(20)]
        )
        for name in ("a", "b", "sub/c")
    }
    for path, data in logs.items():
        place.put(full_path(root, path), data)
    what = root if place.can_list else [full_path(root, path) for path in logs]
    report = evalindex.build(what, tmp_path / "index.db")
    assert (report.indexed, report.unreadable) == (3, 0)
    if place.name != "local":
        assert report.stats.requests == 3
    return place, root, logs


def test_what_is_read_is_what_the_logs_hold(
    built: tuple[Server, str, dict[str, bytes]], tmp_path: Path
) -> None:
    _, root, logs = built
    with evalindex.open(tmp_path / "index.db") as index:
        keys = [(full_path(root, path), n) for path in logs for n in (3, 19, 0)]
        expected = [members(logs[path])[sample_member(n)] for path in logs for n in (3, 19, 0)]
        assert [value for _, value in index.iter_samples(keys)] == expected
        rows = list(index.find(id=7))
        assert sorted(row.log for row in rows) == sorted(full_path(root, path) for path in logs)
        assert [value["id"] for _, value in index.iter_samples(rows)] == [7, 7, 7]
        assert index.read(uuid="b4") == members(logs["b.eval"])[sample_member(4)]
        with pytest.raises(evalindex.SampleNotFound):
            index.read(full_path(root, "a.eval"), 99)
        with index.stream(full_path(root, "a.eval"), 5) as file:
            assert json.loads(file.read()) == members(logs["a.eval"])[sample_member(5)]
        assert index.verify().findings == ()


def test_a_change_is_healed_and_a_lost_log_is_named(
    built: tuple[Server, str, dict[str, bytes]], tmp_path: Path
) -> None:
    place, root, _ = built
    changed, lost = full_path(root, "a.eval"), full_path(root, "b.eval")
    with evalindex.open(tmp_path / "index.db") as index:
        assert index.read(changed, 1)["v"] == "a"
        for generation in range(3):
            bodies = [sample(n, v=generation) for n in range(5)]
            place.put(changed, archive_of(tmp_path, bodies, method=0))
            assert index.read(changed, 1)["v"] == generation
            assert len(list(index.samples(changed, fresh=True))) == 5
            with pytest.raises(evalindex.SampleNotFound):
                index.read(changed, 19)
        # What was absent a moment ago is there now.
        place.put(changed, archive_of(tmp_path, [sample(n, v="all") for n in range(20)]))
        assert index.read(changed, 19)["v"] == "all"
        place.delete(lost)
        with pytest.raises(evalindex.LogNotFound):
            index.read(lost, 1)
        found = index.logs(fresh=True)
        assert lost in found.gone
        assert sorted(row.log for row in found) == [changed, full_path(root, "sub/c.eval")]
    refusing = evalindex.open(tmp_path / "index.db", on_stale="error")
    with refusing as index, pytest.raises(evalindex.StaleLog):
        index.read(changed, 1)
