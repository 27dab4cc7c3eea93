from __future__ import annotations

import random
import struct
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evalindex.model import Member
from evalindex.spans import extent, plan
from tests.builders import ZSTD, Entry, archive

HUGE = 2**63 - 1


def member(offset: int, csize: int, name: str = "m") -> Member:
    return Member(name, 0, ZSTD, 0, csize, csize, offset)


#: The least that must be read: local header, name, data. The slack behind it is the planner's.
def needed(m: Member, size: int) -> tuple[int, int]:
    start = min(m.header_offset, size)
    return start, min(start + 30 + len(m.name.encode()) + m.compressed_size, size)


numbers = st.integers(0, 3000) | st.sampled_from([0, 2**31, 2**32, HUGE])
names = st.text(max_size=5)
some_members = st.lists(st.builds(member, numbers, numbers, names), max_size=25)
sizes = st.integers(0, 4000) | st.sampled_from([2**33, HUGE])
gaps = st.integers(0, 300)
limits = st.integers(1, 2000) | st.just(2**40)


@given(some_members, sizes, gaps, limits)
def test_every_member_is_in_exactly_one_span(
    members: list[Member], size: int, gap: int, limit: int
) -> None:
    spans = plan(members, size, gap=gap, limit=limit)
    assert sorted(m for span in spans for m in span.members) == sorted(members)
    assert all(span.members for span in spans)


@given(some_members, sizes, gaps, limits)
def test_every_member_lies_in_its_span(
    members: list[Member], size: int, gap: int, limit: int
) -> None:
    for start, stop, inside in plan(members, size, gap=gap, limit=limit):
        for m in inside:
            first, last = needed(m, size)
            assert start <= first <= last <= stop


@given(some_members, sizes, gaps, limits)
def test_a_span_is_not_wider_than_its_members_nor_than_the_log(
    members: list[Member], size: int, gap: int, limit: int
) -> None:
    for start, stop, inside in plan(members, size, gap=gap, limit=limit):
        extents = [extent(m, size) for m in inside]
        assert (start, stop) == (min(e[0] for e in extents), max(e[1] for e in extents))
        assert 0 <= start <= stop <= size


@given(some_members, sizes, gaps, limits)
def test_only_a_single_member_may_exceed_the_limit(
    members: list[Member], size: int, gap: int, limit: int
) -> None:
    for start, stop, inside in plan(members, size, gap=gap, limit=limit):
        assert stop - start <= limit or len(inside) == 1


@given(some_members, sizes, gaps, limits)
def test_no_more_than_the_gap_is_read_for_nobody(
    members: list[Member], size: int, gap: int, limit: int
) -> None:
    for start, _, inside in plan(members, size, gap=gap, limit=limit):
        reached = start
        for first, last in sorted(extent(m, size) for m in inside):
            assert first - reached <= gap
            reached = max(reached, last)


@given(some_members, sizes, gaps, limits)
def test_neighbours_are_apart_only_for_the_gap_or_the_limit(
    members: list[Member], size: int, gap: int, limit: int
) -> None:
    spans = plan(members, size, gap=gap, limit=limit)
    assert spans == sorted(spans, key=lambda span: span.start)
    for span, following in pairwise(spans):
        first = min(extent(m, size) for m in following.members)
        far = first[0] > span.stop + gap
        assert far or max(span.stop, first[1]) - span.start > limit


@given(some_members, sizes, gaps, limits, st.randoms(use_true_random=False))
def test_the_order_of_the_members_does_not_matter(
    members: list[Member], size: int, gap: int, limit: int, random: random.Random
) -> None:
    mixed = random.sample(members, len(members))
    assert plan(mixed, size, gap=gap, limit=limit) == plan(members, size, gap=gap, limit=limit)


def test_nothing_wanted_is_nothing_read() -> None:
    assert plan([], 100, gap=10, limit=10) == []


def test_neighbours_share_one_read() -> None:
    near = [member(0, 100), member(200, 100)]
    (span,) = plan(near, 10_000, gap=200, limit=10_000)
    assert (span.start, span.members) == (0, tuple(near))


def test_an_unwanted_gap_costs_a_read_of_its_own() -> None:
    first, second = member(0, 100), member(1000, 100)
    stop = extent(first, 10_000)[1]
    assert len(plan([first, second], 10_000, gap=1000 - stop, limit=10_000)) == 1
    assert len(plan([first, second], 10_000, gap=1000 - stop - 1, limit=10_000)) == 2


@pytest.mark.parametrize("offset", [100, 101, 2**40, HUGE])
def test_a_member_beyond_the_log_has_an_empty_range_at_its_end(offset: int) -> None:
    assert extent(member(offset, 10), 100) == (100, 100)


@settings(deadline=None)
@given(
    st.lists(st.tuples(names, st.binary(max_size=200)), min_size=1, max_size=10),
    st.integers(0, 64),
    gaps,
    limits,
)
def test_a_span_holds_the_header_and_data_of_real_members(
    contents: list[tuple[str, bytes]], extra: int, gap: int, limit: int
) -> None:
    entries = [Entry(name.encode(), data, local_extra=bytes(extra)) for name, data in contents]
    log = archive(entries)
    members = []
    at = 0
    for name, data in contents:
        members.append(member(at, len(data), name))
        at += 30 + len(name.encode()) + extra + len(data)
    for start, stop, inside in plan(members, len(log), gap=gap, limit=limit):
        read = log[start:stop]
        for m in inside:
            header = read[m.header_offset - start :]
            assert header[:4] == b"PK\3\4"
            data_at = 30 + sum(struct.unpack_from("<2H", header, 26))
            assert len(header) >= data_at + m.compressed_size
