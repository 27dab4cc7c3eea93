from __future__ import annotations

import enum
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evalindex.names import (
    SampleName,
    can_exist,
    checked_epoch,
    checked_id,
    chunked_name,
    near,
    parse_sample_name,
    sample_name,
)

IDS = ["", "1", "001", "-1", "a/b", "../up", "/lead", "a\\b", "x_epoch_2", "_epoch_", "a\nb", "\n"]
IDS += [
    "a_epoch_1.json",
    "é",
    "日本",
    "🙂",
    "x/sample",
    "sample.json",
    "%2F",
    "?#",
    " ",
    '"',
    "\x1b",
]

EPOCHS = st.integers(-(10**18) + 1, 10**18 - 1)
anything = st.text(st.characters(codec=None, exclude_categories=()))


@pytest.mark.parametrize("id", IDS)
def test_the_member_of_an_id_is_named_as_inspect_names_it(id: str) -> None:
    assert sample_name(id, 3) == f"samples/{id}_epoch_3.json"
    assert parse_sample_name(f"samples/{id}_epoch_3.json") == (id, 3, False)
    assert parse_sample_name(f"samples/{id}_epoch_3/sample.json") == (id, 3, True)


@given(anything, EPOCHS)
def test_every_name_gives_its_key_back(id: str, epoch: int) -> None:
    name = sample_name(id, epoch)
    assert parse_sample_name(name) == SampleName(id, epoch, False)
    assert parse_sample_name(chunked_name(name)) == SampleName(id, epoch, True)


PIECES = ["samples/", "_epoch_", "_epoch_", "0", "1", "-", "12", "٣", "²", "+", " ", "\n", "x", "_"]
PIECES += [".json", "/sample.json", "/", "\0", "\ud800", "9" * 18]
shuffled = st.lists(st.sampled_from(PIECES), max_size=9).map("".join)


@given(shuffled, st.sampled_from(["", ".json", "/sample.json"]))
def test_a_name_is_a_sample_only_if_it_gives_itself_back(middle: str, suffix: str) -> None:
    name = f"samples/{middle}{suffix}"
    # The last separator is the right one: no epoch holds another.
    id, separator, epoch = middle.rpartition("_epoch_")
    number = int(epoch) if separator and epoch.lstrip("-").isdecimal() and epoch[1:2] != "-" else 0
    canonical = bool(separator) and str(number) == epoch and abs(number) < 10**18
    if suffix and canonical:
        assert parse_sample_name(name) == (id, number, suffix == "/sample.json")
    else:
        found = parse_sample_name(name)
        assert found is None or name in (
            sample_name(found.id, found.epoch),
            chunked_name(sample_name(found.id, found.epoch)),
        )


NO_SAMPLES = [
    "header.json",
    "summaries.json",
    "reductions.json",
    "_journal/start.json",
    "_journal/summaries/1.json",
    "samples/x.json",
    "samples/x_epoch_.json",
    "samples/x_epoch_1.JSON",
    "samples/x_epoch_1.json ",
    "samples/x_epoch_1.json\n",
    "samples/x_epoch_01.json",
    "samples/x_epoch_-0.json",
    "samples/x_epoch_+1.json",
    "samples/x_epoch_1 .json",
    "samples/x_epoch_1.0.json",
    "samples/x_epoch_1_0.json",
    "samples/x_epoch_٣.json",
    "samples/x_epoch_1000000000000000000.json",
    "Samples/x_epoch_1.json",
    " samples/x_epoch_1.json",
    "/samples/x_epoch_1.json",
    "old/samples/x_epoch_1.json",
    "samples/x_epoch_1/",
    "samples/x_epoch_1/metadata.json",
    "samples/x_epoch_1/skeleton.json",
    "samples/x_epoch_1/events/0.json",
    "samples/x_epoch_1/events/stats.json",
    "samples/x_epoch_1/messages/1000.json",
    "samples/x_epoch_1/attachments/0.json",
    "samples/x_epoch_1/deeper/sample.json",
]


@pytest.mark.parametrize("name", NO_SAMPLES)
def test_other_members_are_no_samples(name: str) -> None:
    assert parse_sample_name(name) is None


@pytest.mark.parametrize("id", IDS)
def test_an_id_that_inspect_can_write_can_exist(id: str) -> None:
    assert can_exist(id, 1)


@pytest.mark.parametrize("id", ["\0", "a\0b", "a\0", "\ud800", "x\udfff", "\udcff.json"])
def test_an_id_that_no_member_name_holds_cannot_exist(id: str) -> None:
    assert not can_exist(id, 1)


@pytest.mark.parametrize("epoch", [10**18, -(10**18), 2**63, 10**400])
def test_an_epoch_that_no_row_holds_cannot_exist(epoch: int) -> None:
    assert not can_exist("a", epoch)
    assert parse_sample_name(f"samples/a_epoch_{epoch}.json") is None


@given(anything, st.integers())
def test_what_can_exist_can_be_named_and_found_again(id: str, epoch: int) -> None:
    if can_exist(id, epoch):
        name = sample_name(id, epoch)
        assert b"\0" not in name.encode()
        assert parse_sample_name(name) == (id, epoch, False)


class Text(str):
    __slots__ = ()

    def __str__(self) -> str:
        return "printed otherwise"

    __repr__ = __str__

    def __format__(self, spec: str) -> str:
        return "formatted otherwise"


class Colour(str, enum.Enum):
    RED = "red"


class Number(enum.IntEnum):
    ONE = 1


class Index:
    def __index__(self) -> int:
        return 7


@pytest.mark.parametrize(("given_id", "text"), [(Text("a"), "a"), (Colour.RED, "red")])
def test_a_kind_of_str_is_the_text_it_holds(given_id: str, text: str) -> None:
    checked = checked_id(given_id)
    assert type(checked) is str
    assert checked == text
    assert f"{checked}" == text


def test_a_numpy_text_is_a_str() -> None:
    assert type(checked_id(np.str_("a"))) is str


@pytest.mark.parametrize(
    ("given_number", "number"),
    [(5, 5), (-5, -5), (2**70, 2**70), (Index(), 7), (Number.ONE, 1)]
    + [(kind(3), 3) for kind in (np.int8, np.int64, np.uint64)]
    + [(np.arange(3)[2], 2)],
)
def test_whatever_has_an_index_is_an_int(given_number: Any, number: int) -> None:
    for check in (checked_id, checked_epoch):
        checked = check(given_number)
        assert type(checked) is int
        assert checked == number


@pytest.mark.parametrize(
    ("wrong", "meant"),
    [(True, "1"), (False, "0"), (1.0, "1"), (-2.0, "-2"), (np.float64(3), "3")],
)
def test_a_bool_or_a_whole_float_is_refused_with_the_int_that_was_meant(
    wrong: Any, meant: str
) -> None:
    for check in (checked_id, checked_epoch):
        with pytest.raises(TypeError, match=rf"did you mean {meant}\?"):
            check(wrong)


@pytest.mark.parametrize("wrong", [1.5, float("nan"), float("inf"), None, b"a", (1, 2), np.True_])
def test_what_is_no_id_is_a_type_error(wrong: Any) -> None:
    for check in (checked_id, checked_epoch):
        with pytest.raises(TypeError, match=type(wrong).__name__):
            check(wrong)


def test_an_epoch_is_no_text() -> None:
    with pytest.raises(TypeError, match="an epoch is an int"):
        checked_epoch("1")


def members(*ids: str, epochs: tuple[int, ...] = (1,)) -> list[str]:
    return [sample_name(id, epoch) for id in ids for epoch in epochs]


def test_the_same_id_in_another_epoch_is_near() -> None:
    assert near("a", 4, members("a", "b", epochs=(-9, 1, 3, 9, 20))) == [
        "id 'a' epoch 3",
        "id 'a' epoch 1",
        "id 'a' epoch 9",
    ]


@pytest.mark.parametrize(
    ("asked", "there"), [("1", "001"), ("007", "7"), ("ABC", "abc"), (" a", "a"), ("abd", "abc")]
)
def test_an_id_that_is_spelt_alike_is_near(asked: str, there: str) -> None:
    assert near(asked, 1, members("something", there, "else")) == [f"id {there!r} epoch 1"]


def test_nothing_is_near_if_nothing_is_alike() -> None:
    assert near("a", 1, []) == []
    assert near("a", 1, ["header.json", *members("xyz")]) == []


def test_a_chunked_sample_is_near_too() -> None:
    assert near("a", 1, ["samples/a_epoch_2/sample.json"]) == ["id 'a' epoch 2"]


@given(anything, st.lists(anything, max_size=8))
def test_at_most_three_are_near_and_each_prints_as_one_line(id: str, others: list[str]) -> None:
    found = near(id, 1, members(*others))
    assert len(found) <= 3
    assert all(text.isprintable() for text in found)
