"""Remote logs: what requests are sent, and what becomes of answers that are wrong, late or none."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import anyio
import pytest
from click.testing import CliRunner

import evalindex
from evalindex.cli import cli
from evalindex.stores.requests import Requests
from tests.builders import in_fork, sample, sample_member, write_log
from tests.servers import Server
from tests.servers.lying import Liar, Lie
from tests.servers.proxy import Proxy


def archive(tmp_path: Path, samples: list[dict[str, Any]], **options: Any) -> bytes:
    path = write_log(tmp_path / "made.eval", samples, **options)
    try:
        return path.read_bytes()
    finally:
        path.unlink()


def generation(tmp_path: Path, n: int, count: int = 30) -> bytes:
    """Logs of different generations differ in each sample, and in where it lies."""
    noise = random.Random(n)
    return archive(
        tmp_path,
        [sample(i, v=n, noise=noise.randbytes(50 + n % 7).hex()) for i in range(count)],
    )


@pytest.fixture
def index_file(tmp_path: Path) -> Path:
    return tmp_path / "index.db"


@pytest.fixture
def lied(liar: tuple[Liar, Server], tmp_path: Path, index_file: Path) -> tuple[Liar, str]:
    """A server that may begin to lie, and a log that was indexed before."""
    server = liar[1]
    log = f"{server.fresh_root()}/run.eval"
    server.put(log, generation(tmp_path, 0, count=400))
    evalindex.build(log, index_file)
    return liar[0], log


# --- what is asked ------------------------------------------------------------------------------


@pytest.fixture
def big(seaweed_store: Server, tmp_path: Path) -> tuple[str, dict[int, int]]:
    """A log of 8,000 samples of 4 KB, and how many bytes each has in it, with its header."""
    import zipfile

    noise = random.Random(1)
    bodies = [sample(i, text=noise.randbytes(2_000).hex()) for i in range(8_000)]
    path = write_log(tmp_path / "big.eval", bodies)
    log = f"{seaweed_store.fresh_root()}/big.eval"
    seaweed_store.put(log, path.read_bytes())
    with zipfile.ZipFile(path) as file:
        found = {i: file.getinfo(sample_member(i)) for i in range(8_000)}
        sizes = {i: 30 + len(one.filename) + one.compress_size for i, one in found.items()}
    path.unlink()
    return log, sizes


def test_samples_are_read_by_a_request_each_or_fewer(
    big: tuple[str, dict[int, int]], proxied: Proxy, index_file: Path
) -> None:
    log, sizes = big
    evalindex.build(log, index_file)
    scattered = random.Random(2).sample(sorted(sizes), 200)
    with evalindex.open(index_file) as index:
        proxied.forget()
        got = index.read_samples(log, scattered)
        assert [one["id"] for one in got] == scattered
        assert len(proxied.seen) <= 200
        assert all(seen.if_match for seen in proxied.seen)
        assert proxied.bytes <= 1.1 * sum(sizes[i] for i in scattered)
        assert index.stats.requests == len(proxied.seen)
        assert index.stats.bytes == proxied.bytes
        assert index.stats.directory_reads == 0
        proxied.forget()
        assert [one["id"] for one in index.read_samples(log, range(200))] == list(range(200))
        assert len(proxied.seen) <= 10
        assert proxied.bytes <= 1.1 * sum(sizes[i] for i in range(200))
        proxied.forget()
        with index.stream(log, 7) as file:
            assert json.loads(file.read())["id"] == 7
        assert len(proxied.seen) == 1
        assert proxied.bytes < 2 * sizes[7] + 70_000


def test_a_stream_asks_for_large_parts_and_for_none_twice(
    proxied: Proxy, seaweed_store: Server, tmp_path: Path, index_file: Path
) -> None:
    text = random.Random(3).randbytes(6 * 2**20).hex()
    path = write_log(tmp_path / "large.eval", [sample(1, text=text)])
    size = path.stat().st_size
    assert size > 6 * 2**20  # however well it is compressed
    log = f"{seaweed_store.fresh_root()}/large.eval"
    seaweed_store.put(log, path.read_bytes())
    evalindex.build(log, index_file)
    with evalindex.open(index_file) as index:
        proxied.forget()
        with index.stream(log, 1) as file:
            assert json.loads(file.read())["text"] == text
        assert len(proxied.seen) <= 1 + -(-size // (4 * 2**20))
        assert proxied.bytes <= size


def test_builds_ask_once_a_log_and_then_only_for_the_list(
    proxied: Proxy, seaweed_store: Server, tmp_path: Path, index_file: Path
) -> None:
    root = seaweed_store.fresh_root()
    data = [generation(tmp_path, n, count=3) for n in range(7)]
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda n: seaweed_store.put(f"{root}/{n:04}.eval", data[n % 7]), range(1000)))
    report = evalindex.build(root, index_file)
    assert (report.indexed, report.unreadable) == (1000, 0)
    listings = [seen for seen in proxied.seen if "list-type" in seen.path]
    assert len(proxied.seen) - len(listings) == 1000 == report.stats.requests
    proxied.forget()
    report = evalindex.build(root, index_file)
    assert (report.indexed, report.unchanged) == (0, 1000)
    assert len(proxied.seen) == len(listings) <= 2
    seaweed_store.put(f"{root}/0500.eval", generation(tmp_path, 99))
    seaweed_store.put(f"{root}/new.eval", generation(tmp_path, 98))
    seaweed_store.delete(f"{root}/0001.eval")
    report = evalindex.build(root, index_file)
    assert report[:4] == (2, 998, 1, 0)
    assert report.stats.requests == 2


def test_questions_ask_a_store_nothing_unless_they_must(
    proxied: Proxy, seaweed_store: Server, tmp_path: Path, index_file: Path
) -> None:
    root = seaweed_store.fresh_root()
    for name in "ab":
        seaweed_store.put(f"{root}/{name}.eval", generation(tmp_path, 1))
    before = time.time()
    evalindex.build(root, index_file)
    with evalindex.open(index_file) as index:
        seaweed_store.put(f"{root}/c.eval", generation(tmp_path, 2))
        proxied.forget()
        rows = list(index.find())
        assert len(rows) == 60
        assert {before - 1 < row.checked < time.time() for row in rows} == {True}
        assert proxied.seen == []
        assert index.find(fresh=True).total == 90
        assert len(proxied.seen) == 2  # the list, and what is new
        assert index.reusable().total == 90  # what is run again for it costs more than to ask
        for question in (index.reusable, index.incomplete):
            proxied.forget()
            question()
            assert [seen for seen in proxied.seen if "list-type" in seen.path]


def test_many_logs_are_read_side_by_side_within_the_limit(
    liar: tuple[Liar, Server], tmp_path: Path, index_file: Path
) -> None:
    server = liar[1]
    root = server.fresh_root()
    logs = [f"{root}/{n:03}.eval" for n in range(60)]
    for n, log in enumerate(logs):
        server.put(log, generation(tmp_path, n % 5))
    busy, most = 0, 0
    lock = threading.Lock()

    def slow(_: str) -> None:
        nonlocal busy, most
        with lock:
            busy += 1
            most = max(most, busy)
        time.sleep(0.02)
        with lock:
            busy -= 1

    evalindex.build(logs[0], index_file)  # the root is known, all but one log are not
    liar[0].before_get = slow
    for known in (False, True):
        with evalindex.open(index_file, concurrency=12) as index:
            most = 0
            keys = [(log, n % 30) for n, log in enumerate(logs)]
            assert [value["v"] for _, value in index.iter_samples(keys)] == [
                n % 5 for n in range(60)
            ]
            assert 3 <= most <= 12
            with ThreadPoolExecutor(4) as pool:
                most = 0
                list(pool.map(list, [index.iter_samples(keys) for _ in range(4)]))
                assert most <= 12 + 3  # each call may always use its own thread
        if not known:
            evalindex.build(root, index_file)


# --- what is answered ---------------------------------------------------------------------------

_REFUSED: list[Lie] = ["answers_200", "cut_body", "short_body", "wrong_range", "gzip"]


@pytest.mark.parametrize("lie", _REFUSED)
def test_a_wrong_answer_is_an_error_and_no_sample(
    lied: tuple[Liar, str], index_file: Path, lie: Lie
) -> None:
    liar, log = lied
    with evalindex.open(index_file) as index:
        assert index.read(log, 5)["v"] == 0
        liar.lies.add(lie)
        started = time.monotonic()
        for read in (
            lambda: index.read(log, 6),
            lambda: index.read_samples(log, [200, 7], as_="bytes"),
            lambda: index.stream(log, 8).read(),
        ):
            with pytest.raises(evalindex.EvalIndexError) as caught:
                read()
            assert not isinstance(caught.value, evalindex.SampleNotFound)
            assert caught.value.log == log
        assert time.monotonic() - started < 60
        liar.lies.clear()
        assert index.read(log, 6)["id"] == 6
    liar.lies.add(lie)
    report = evalindex.build(log, index_file, full=True)
    assert report.unreadable == (lie != "wrong_range")  # all of a log is given as it should be


def test_each_answer_is_held_to_what_was_asked(
    lied: tuple[Liar, str], index_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The client compares ranges too; should it not, other bytes are still no answer."""
    asked = Requests.range

    def beside(self: Requests, start: int, stop: int, etag: str | None) -> Any:
        return asked(self, start + 1, stop + 1, etag)

    monkeypatch.setattr(Requests, "range", beside)
    refused = pytest.raises(evalindex.LogUnreadable, match="was asked for")
    with evalindex.open(index_file) as index, refused:
        index.read(lied[1], 5)


@pytest.mark.parametrize("lie", ["ignores_if_match", "weak_etags", "no_etags", "no_suffix"])
def test_less_than_s3_promises_is_enough(
    lied: tuple[Liar, str], tmp_path: Path, index_file: Path, lie: Lie
) -> None:
    liar, log = lied
    liar.lies.add(lie)
    evalindex.build(log, index_file, full=True)
    with evalindex.open(index_file) as index:
        for n in (0, 3, 4):
            liar.put(log, generation(tmp_path, n, count=400))
            assert [one["v"] for one in index.read_samples(log, [0, 399, 200])] == [n] * 3
            assert index.read(log, 5)["v"] == n
        liar.put(log, generation(tmp_path, 5, count=3))
        with pytest.raises(evalindex.SampleNotFound):
            index.read(log, 399)


@pytest.mark.parametrize("on_stale", ["refresh", "error"])
def test_an_absence_that_was_not_proved_is_not_told_later_either(
    liar: tuple[Liar, Server], tmp_path: Path, index_file: Path, on_stale: Any
) -> None:
    """Where the look at the log that has to prove it failed, for the first of many keys."""
    server, root = liar[1], liar[1].fresh_root()
    changed, other = f"{root}/changed.eval", f"{root}/other.eval"
    for log in (changed, other):
        server.put(log, generation(tmp_path, 0))
    evalindex.build(root, index_file)
    keys = [(changed, 50), (other, 5), (changed, 51)]  # one after the other, by the limit
    with evalindex.open(index_file, on_stale=on_stale) as index:
        if on_stale == "refresh":
            server.put(changed, generation(tmp_path, 1))
            assert index.read(changed, 5)["v"] == 1
        server.put(changed, generation(tmp_path, 2, count=60))
        answers = index.iter_samples(keys, errors="return", max_bytes=1)
        if on_stale == "refresh":
            liar[0].refusal = (403, "AccessDenied")
        first = next(answers)[1]
        liar[0].refusal = None
        second, third = (answer for _, answer in answers)
    assert second["v"] == 0
    if on_stale == "refresh":
        assert isinstance(first, evalindex.StoreDenied)
        assert third["v"] == 2
    else:
        assert isinstance(first, evalindex.StaleLog)
        assert isinstance(third, evalindex.StaleLog)


def test_a_uuid_whose_rows_are_old_is_looked_for_anew(
    liar: tuple[Liar, Server], tmp_path: Path, index_file: Path
) -> None:
    server, root = liar[1], liar[1].fresh_root()
    one, two = (archive(tmp_path, [sample(id, uuid=f"u{id}")]) for id in (1, 2))
    server.put(f"{root}/a.eval", one)
    server.put(f"{root}/b.eval", two)
    evalindex.build(root, index_file)
    server.put(f"{root}/a.eval", two)
    server.put(f"{root}/b.eval", one)
    with evalindex.open(index_file) as index:
        assert [index.read(uuid=f"u{id}")["id"] for id in (1, 2)] == [1, 2]
        server.put(f"{root}/c.eval", two)
        evalindex.build(root, index_file)
        for gone in "ac":
            server.delete(f"{root}/{gone}.eval")
            server.put(f"{root}/b.eval", two)
            assert index.read(uuid="u2")["id"] == 2
            evalindex.build(root, index_file)


def test_without_an_etag_a_digest_proves_once_a_window(
    lied: tuple[Liar, str], index_file: Path
) -> None:
    liar, log = lied
    liar.lies.add("weak_etags")
    evalindex.build(log, index_file, full=True)
    with evalindex.open(index_file) as index:
        liar.seen.clear()
        index.read_samples(log, [3, 4, 5])
        assert len(liar.seen) == 2  # the end of the log, and the samples
        assert index.stats.directory_reads == 1


@pytest.mark.parametrize(
    ("status", "code"),
    [
        (403, "AccessDenied"),
        (403, "InvalidAccessKeyId"),
        (404, "NoSuchBucket"),
        (401, ""),
        (301, "PermanentRedirect"),
        (400, "AuthorizationHeaderMalformed"),
    ],
)
def test_refusals_are_named_at_once(
    lied: tuple[Liar, str], index_file: Path, status: int, code: str
) -> None:
    liar, log = lied
    root = log.removesuffix("/run.eval")
    evalindex.build(root, index_file)
    liar.refusal = (status, code)
    started = time.monotonic()
    with evalindex.open(index_file) as index:
        with pytest.raises(evalindex.StoreDenied) as caught:
            index.read(log, 1)
        assert caught.value.hint
        (failure,) = index.find(fresh=True).failures
        assert failure.reason == caught.value.reason
        (answer,) = index.read_samples(log, [1], errors="return")
        assert isinstance(answer, evalindex.StoreDenied)
    with pytest.raises(evalindex.StoreDenied):
        evalindex.build(root, index_file)
    assert time.monotonic() - started < 30  # no minutes of tries
    liar.refusal = None
    assert evalindex.build(root, index_file).unchanged == 1


def test_thousands_of_reads_of_a_log_that_is_replaced_meanwhile(
    lied: tuple[Liar, str], tmp_path: Path, index_file: Path
) -> None:
    """Between requests and between a request's looks; the server may even ignore If-Match."""
    liar, log = lied
    generations = [generation(tmp_path, n, count=40) for n in range(12)]
    now = threading.local()
    counter = iter(range(10**9))

    def replace(_: str) -> None:
        n = next(counter)
        if n % 9 == 0:
            liar.put(log, generations[n // 9 % 12])
            if n % 27 == 0:
                liar.lies ^= {"ignores_if_match"}

    liar.put(log, generations[0])
    evalindex.build(log, index_file)
    liar.before_get = replace
    read = changed = 0
    with evalindex.open(index_file) as index, ThreadPoolExecutor(32) as pool:

        def work(n: int) -> tuple[int, int]:
            now.random = random.Random(n)
            good = bad = 0
            for _ in range(20):
                wanted = now.random.sample(range(40), 4)
                for id, value in zip(
                    wanted, index.read_samples(log, wanted, errors="return"), strict=True
                ):
                    if isinstance(value, evalindex.LogChanged):
                        bad += 1
                        continue
                    assert value["id"] == id
                    noise = random.Random(value["v"])
                    rows = [noise.randbytes(50 + value["v"] % 7).hex() for _ in range(40)]
                    assert value["noise"] == rows[id]
                    good += 1
            return good, bad

        for good, bad in pool.map(work, range(64)):
            read, changed = read + good, changed + bad
    assert read + changed == 64 * 20 * 4
    assert read > 1000


def test_faults_on_the_way_are_tried_again(
    proxied: Proxy, seaweed_store: Server, tmp_path: Path, index_file: Path
) -> None:
    log = f"{seaweed_store.fresh_root()}/run.eval"
    seaweed_store.put(log, generation(tmp_path, 3, count=400))
    evalindex.build(log, index_file)
    with evalindex.open(index_file) as index:
        index.read(log, 0)
        proxied.resets = 3
        assert index.read(log, 1)["v"] == 3
        proxied.failures += [500, 503]
        assert index.read(log, 2)["v"] == 3
        proxied.cuts += [20, 20]
        assert index.read(log, 3)["v"] == 3
        assert [proxied.resets, proxied.failures, proxied.cuts] == [0, [], []]
        proxied.failures += [503] * 50
        started = time.monotonic()
        with pytest.raises(evalindex.LogUnreadable, match="503"):
            index.read(log, 4)
        assert time.monotonic() - started < 30
        proxied.failures.clear()
        assert index.read(log, 4)["v"] == 3


def test_a_log_that_vanishes_or_fails_during_a_build_stops_nothing(
    liar: tuple[Liar, Server], tmp_path: Path, index_file: Path
) -> None:
    server = liar[1]
    root = server.fresh_root()
    for n in range(6):
        server.put(f"{root}/{n}.eval", generation(tmp_path, n))
    server.put(f"{root}/bad.eval", b"no archive")

    def vanish(name: str) -> None:
        if name.endswith("/3.eval"):
            liar[0].objects.pop(name, None)

    liar[0].before_get = vanish
    report = evalindex.build(root, index_file)
    assert (report.indexed, report.unreadable) == (5, 1)
    (failure,) = report.failures
    assert isinstance(failure, evalindex.NotAnEvalLog)
    assert failure.log == f"{root}/bad.eval"
    with evalindex.open(index_file) as index:
        assert {row.path for row in index.find()} == {f"{n}.eval" for n in (0, 1, 2, 4, 5)}


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_remote_logs_are_read_under_any_loop(
    lied: tuple[Liar, str], index_file: Path, backend: str
) -> None:
    async def read() -> list[Any]:
        async with evalindex.open(index_file) as index:
            return await index.aread_samples(lied[1], range(50))

    assert [one["id"] for one in anyio.run(read, backend=backend)] == list(range(50))


def test_a_forked_child_is_told_and_a_new_process_reads(
    lied: tuple[Liar, str], index_file: Path
) -> None:
    _, log = lied
    with evalindex.open(index_file) as index:
        assert index.read(log, 1)["id"] == 1

        def child() -> str:
            try:
                index.read(log, 2)
            except evalindex.LogUnreadable as error:
                return str(error)
            return "read"

        assert "spawn" in in_fork(child)
        assert index.read(log, 3)["id"] == 3
    code = f"import evalindex; print(evalindex.open({str(index_file)!r}).read({log!r}, 4)['id'])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "4\n"


# --- how it is found ----------------------------------------------------------------------------


def test_a_root_copied_to_a_bucket_with_its_index_is_read_there(
    proxied: Proxy, seaweed_store: Server, tmp_path: Path
) -> None:
    folder, root = tmp_path / "logs", seaweed_store.fresh_root()
    for n in range(5):
        write_log(folder / "sub" / f"{n}.eval", [sample(i, v=n, uuid=f"{n}-{i}") for i in range(9)])
    evalindex.build(folder)
    for path in folder.rglob("*.*"):
        seaweed_store.put(f"{root}/{path.relative_to(folder)}", path.read_bytes())
    log = f"{root}/sub/3.eval"
    with evalindex.open(root) as index:
        assert index.path is not None
        assert index.path.startswith(os.environ["XDG_CACHE_HOME"])
        proxied.forget()
        assert [one["v"] for one in index.read_samples(log, range(9))] == [3] * 9
        assert len(proxied.seen) == 2  # the end of the log, which proves it, and the samples
        proxied.forget()
        assert index.read(log, 2)["v"] == 3
        assert len(proxied.seen) == 1  # what was proved is known
        assert index.read("sub/2.eval", 2)["v"] == 2
        assert {row.log for row in index.find(uuid="4-4")} == {f"{root}/sub/4.eval"}
        assert index.read(uuid="1-1")["v"] == 1
    with evalindex.open(log) as index:
        assert index.read(log, 5)["v"] == 3
    changed = write_log(folder / "sub" / "3.eval", [sample(1, v="new")])
    seaweed_store.put(log, changed.read_bytes())
    evalindex.build(folder)
    with evalindex.open(root) as index:  # the index in the bucket is the old one
        assert index.read(log, 1)["v"] == "new"
        assert index.stats.directory_reads == 2
    seaweed_store.put(f"{root}/evalindex.db", (folder / "evalindex.db").read_bytes())
    with evalindex.open(root) as index:
        assert index.read(log, 1)["v"] == "new"
        assert index.stats.directory_reads == 1


def test_the_commands_take_urls(lied: tuple[Liar, str], tmp_path: Path) -> None:
    log = lied[1]
    root = log.removesuffix("/run.eval")
    run = CliRunner()

    def ok(*arguments: str) -> Any:
        result = run.invoke(cli, list(arguments))
        assert result.exit_code == 0, result.output + repr(result.exception)
        return result

    assert "1 indexed" in ok("build", root, "--explain").output
    assert "cost: 1 request for" in ok("build", root, "--full", "--explain").stderr
    assert ok("status", root).output.count("1 fresh") or "unfinished" in ok("status", root).output
    assert json.loads(ok("get", log, "7").stdout)["id"] == 7
    assert ok("find", root, "--count").stdout == "400\n"
    keys = tmp_path / "keys"
    keys.write_text(ok("find", root, "--id", "3", "--keys").stdout)
    got = ok("get", "--keys", str(keys), "--explain")
    assert json.loads(got.stdout)["log"] == log
    assert "cost: 1 request for" in got.stderr
    assert "1 spared by the index" in got.stderr
    assert log in ok("verify", root).output or "1 log" in ok("verify", root).output


def test_the_folder_of_inspect_is_the_root_that_is_meant(
    lied: tuple[Liar, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    root = lied[1].removesuffix("/run.eval")
    monkeypatch.setenv("INSPECT_LOG_DIR", root)
    run = CliRunner()
    assert run.invoke(cli, ["build"]).exit_code == 0
    assert run.invoke(cli, ["find", "--count"]).stdout == "400\n"
    assert json.loads(run.invoke(cli, ["status", "--json"]).stdout)["samples"] == 400


def test_what_is_missing_is_named(tmp_path: Path) -> None:
    code = """
import sys
sys.modules[{module!r}] = None
import evalindex
try:
    evalindex.build("s3://bucket/logs", {index!r})
except evalindex.EvalIndexError as error:
    print(type(error).__name__, error.hint)
"""

    def said(module: str, **environment: str) -> str:
        done = subprocess.run(
            [sys.executable, "-c", code.format(module=module, index=str(tmp_path / "i.db"))],
            capture_output=True,
            text=True,
            check=True,
            env={
                "PATH": os.environ["PATH"],
                "HOME": str(tmp_path),
                "AWS_EC2_METADATA_DISABLED": "true",
                **environment,
            },
        )
        return done.stdout

    assert said("obstore") == 'MissingExtra pip install "evalindex[remote]"\n'
    assert said("boto3", AWS_PROFILE="any") == 'MissingExtra pip install "evalindex[aws]"\n'
    assert said("none").startswith("StoreDenied set AWS_PROFILE")
    assert said("none", AWS_PROFILE="nobody").startswith("StoreDenied")


def test_a_profile_tells_keys_region_and_endpoint(
    liar: tuple[Liar, Server], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, index_file: Path
) -> None:
    server = liar[1]
    root = server.fresh_root()
    server.put(f"{root}/run.eval", generation(tmp_path, 1))
    config = tmp_path / "config"
    config.write_text(
        "[profile mine]\n"
        "aws_access_key_id = any\naws_secret_access_key = any\nregion = eu-west-1\n"
        f"endpoint_url = {server.environment['AWS_ENDPOINT_URL']}\n"
    )
    for name in server.environment:
        monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_CONFIG_FILE", str(config))
    monkeypatch.setenv("AWS_PROFILE", "mine")
    assert evalindex.build(root, index_file).indexed == 1


def test_the_bridge_gives_what_inspect_gives(
    seaweed_store: Server, copied_logs: Path, index_file: Path
) -> None:
    from inspect_ai.log import read_eval_log_samples_by_id as by_inspect

    from evalindex.inspect_ai import read_eval_log_samples_by_id as by_us

    name = "success_2x2.eval"
    local = copied_logs / name
    if not local.exists():
        local = next(path for path in sorted(copied_logs.rglob("*.eval")))
    log = f"{seaweed_store.fresh_root()}/{local.name}"
    seaweed_store.put(log, local.read_bytes())
    evalindex.build(log, index_file)
    with evalindex.open(index_file) as index:
        keys = [(row.id, row.epoch) for row in index.samples(log)]
        assert by_us(log, keys, index=index) == by_inspect(log, keys)
