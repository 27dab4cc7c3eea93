from __future__ import annotations

import json
import math
import random
import sys
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from evalindex.decode import decode_sample, normalized_exclusions
from evalindex.errors import CorruptMember

NONE: frozenset[str] = frozenset()


def document(value: bytes) -> bytes:
    return b'{"id": "a", "value": ' + value + b', "epoch": 1}'


VALUES = {
    "NaN": b"NaN",
    "Infinity": b"[Infinity, -Infinity]",
    "an int beyond 64 bits": str(2**70).encode(),
    "the largest ints": f"[{2**63 - 1}, {2**63}, {-(2**63)}, {-(2**63) - 1}, {2**64}]".encode(),
    "an int of 4,000 digits": b"9" * 4000,
    "a float that is too large": b"[1e400, -1e400, 1e-400]",
    "numbers of all forms": b"[0, -0, 0.0, -0.0, 1.0, 1e5, 1E+2, 0.1e1, 1.7976931348623157e308]",
    "a long float": b"123456789012345678901234567890.123456789012345678901234567890",
    "a lone surrogate": b'"\\ud800"',
    "surrogates in the wrong order": b'"\\udc00\\ud83d"',
    "a surrogate pair": b'"\\ud83d\\ude00"',
    "a surrogate as bytes": b'"\xed\xa0\x80"',
    "duplicate keys": b'{"a": 1, "b": 2, "a": 3}',
    "escapes": b'"\\u0000\\n\\/\\"\\\\ \x7f"',
    "empty things": b'[{}, [], "", null, true, false, {"": ""}]',
    "spaces": b" \t\r\n[ 1 , 2 ] \n",
    "text": '"é日本🙂\u2028"'.encode(),
}


@pytest.mark.parametrize("value", VALUES.values(), ids=VALUES.keys())
def test_a_document_says_what_json_says(value: bytes) -> None:
    data = document(value)
    # Equal texts are equal types, orders, signs of zero, and NaNs too.
    assert repr(decode_sample(data, "a", 1)) == repr(json.loads(data))
    assert repr(decode_sample(data, "a", 1, {"other"})) == repr(json.loads(data))
    assert repr(decode_sample(data, "a", 1, {"value"})) == repr({"id": "a", "epoch": 1})


def test_a_byte_order_mark_or_another_unicode_encoding_is_read_as_json_reads_it() -> None:
    text = '{"id": "é", "epoch": 1}'
    for encoding in ("utf-8-sig", "utf-16", "utf-32-le"):
        data = text.encode(encoding)
        assert decode_sample(data, "é", 1) == json.loads(data)


def test_the_last_of_duplicate_fields_counts() -> None:
    data = b'{"id": "old", "epoch": 1, "id": "a", "events": 1, "events": NaN}'
    assert math.isnan(decode_sample(data, "a", 1)["events"])
    assert decode_sample(data, "a", 1, {"events"}) == {"id": "a", "epoch": 1}
    with pytest.raises(CorruptMember):
        decode_sample(data, "old", 1)


floats = st.floats() | st.sampled_from([1e308, 5e-324, -0.0, 1e16, 0.1])
texts = st.text(st.characters(codec=None, exclude_categories=()), max_size=8)
scalars = st.none() | st.booleans() | st.integers() | floats | texts
scalars |= st.integers(-(2**70), 2**70)
values = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(texts, inner, max_size=4)
)
fields = st.dictionaries(texts | st.sampled_from(["events", "store", "x"]), values, max_size=6)


@settings(deadline=None, max_examples=300)
@given(fields, st.booleans(), st.sampled_from([None, 2]), st.integers(-2, 3))
def test_any_document_says_what_json_says(
    fields: dict[str, Any], escaped: bool, indent: int | None, epoch: int
) -> None:
    text = json.dumps({**fields, "id": 7, "epoch": epoch}, ensure_ascii=escaped, indent=indent)
    data = text.encode("utf-8", "surrogatepass")
    expected = json.loads(data)
    assert repr(decode_sample(data, "7", epoch)) == repr(expected)
    excluded = {"events", "store"}
    rest = {name: value for name, value in expected.items() if name not in excluded}
    assert repr(decode_sample(data, "7", epoch, excluded)) == repr(rest)


@settings(deadline=None, max_examples=500)
@given(st.randoms(use_true_random=False), st.sampled_from(sorted(VALUES)))
def test_damaged_json_says_what_json_says_or_is_corrupt(random: random.Random, name: str) -> None:
    data = bytearray(document(VALUES[name]))
    for _ in range(random.randint(1, 3)):
        data[random.randrange(20, len(data) - 13)] = random.choice(
            b'"\\[]{},:0.eE-+ \0\xff\xc3\xa9\x80'
        )
    try:
        expected = json.loads(bytes(data))
        right = str(expected["id"]) == "a" and expected["epoch"] == 1
    except (ValueError, KeyError, TypeError):
        right = False
    if right:
        assert repr(decode_sample(bytes(data), "a", 1)) == repr(expected)
    else:
        with pytest.raises(CorruptMember):
            decode_sample(bytes(data), "a", 1)


BROKEN = [b"", b" ", b"{", b'{"id": "a", "epoch": 1', b'{"id": "a", "epoch": 1}x', b"{'id': 1}"]
BROKEN += [b'{"id": "a", "epoch": 1}{}', b'{"id": "a", "epoch": 1,}', b'{"id": "\xff", "epoch": 1}']
BROKEN += [b'{"id": "a\n", "epoch": 1}', b'{"id": "a", "epoch": 01}', b"\0" * 40, b"\xff\xfe" * 9]
BROKEN += [document(b"9" * 5000)]


@pytest.mark.parametrize("data", BROKEN, ids=lambda data: repr(data[:25]))
@pytest.mark.parametrize("excluded", [NONE, frozenset({"events"})])
def test_invalid_json_is_corrupt(data: bytes, excluded: frozenset[str]) -> None:
    with pytest.raises(CorruptMember) as caught:
        decode_sample(data, "a", 1, excluded)
    assert str(caught.value).isprintable()


@pytest.mark.parametrize("data", [b"[1, 2]", b'"a"', b"null", b"1", b"NaN", b"[]", b"true"])
@pytest.mark.parametrize("excluded", [NONE, frozenset({"events"})])
def test_what_is_no_object_is_corrupt(data: bytes, excluded: frozenset[str]) -> None:
    with pytest.raises(CorruptMember, match="no JSON object"):
        decode_sample(data, "a", 1, excluded)


@pytest.mark.parametrize("shape", [b"[%s]", b'{"a":%s}'])
@pytest.mark.parametrize("where", [b'{"id":"a","epoch":1,"x":%s}', b'{"id":%s,"epoch":1}', b"%s"])
@pytest.mark.parametrize("excluded", [NONE, frozenset({"other"}), frozenset({"x"})])
def test_a_deep_document_is_a_value_or_corrupt(
    shape: bytes, where: bytes, excluded: frozenset[str]
) -> None:
    limit = sys.getrecursionlimit()
    opening, closing = shape.split(b"%s")
    for depth in (10, *range(limit - 100, limit + 100, 3), 10_000, 100_000):
        data = where % (opening * depth + b"1" + closing * depth)
        try:
            sample = decode_sample(data, "a", 1, excluded)
        except CorruptMember:
            continue
        assert sample["id"] == "a"


@pytest.mark.parametrize(
    ("id", "asked"),
    [('"a"', "a"), ("5", "5"), ('"5"', "5"), ("-5", "-5"), ('""', ""), (f"{2**70}", f"{2**70}")],
)
def test_the_sample_that_was_asked_for_is_given(id: str, asked: str) -> None:
    data = f'{{"id": {id}, "epoch": 2}}'.encode()
    assert decode_sample(data, asked, 2) == json.loads(data)


@pytest.mark.parametrize(
    ("id", "asked"),
    [
        ('"b"', "a"),
        ('"001"', "1"),
        ("1", "001"),
        ('"1 "', "1"),
        ('"A"', "a"),
        ("true", "1"),
        ("true", "True"),
        ("false", "False"),
        ("null", "None"),
        ("1.0", "1"),
        ("1.0", "1.0"),
        ("NaN", "nan"),
        ("[1]", "[1]"),
        ("{}", "{}"),
        ('"\\ud800"', "a"),
    ],
)
def test_another_id_is_corrupt(id: str, asked: str) -> None:
    data = f'{{"id": {id}, "epoch": 1}}'.encode()
    for excluded in (NONE, frozenset({"events"})):
        with pytest.raises(CorruptMember, match=r"holds id .* epoch 1"):
            decode_sample(data, asked, 1, excluded)


@pytest.mark.parametrize("epoch", ["2", '"1"', "null", "-1", "[1]", "1.5", "true", "1.0"])
def test_another_epoch_is_corrupt(epoch: str) -> None:
    with pytest.raises(CorruptMember, match=r"holds id 'a' epoch"):
        decode_sample(f'{{"id": "a", "epoch": {epoch}}}'.encode(), "a", 1)


@pytest.mark.parametrize("data", [b"{}", b'{"id": "a"}', b'{"epoch": 1}'])
@pytest.mark.parametrize("asked", ["a", "None"])
def test_a_missing_id_or_epoch_is_corrupt(data: bytes, asked: str) -> None:
    with pytest.raises(CorruptMember, match="holds id"):
        decode_sample(data, asked, 1)


@pytest.mark.parametrize(
    ("given_fields", "dropped"),
    [
        (None, set()),
        ([], set()),
        (["store"], {"store"}),
        (("store", "store"), {"store"}),
        ({"events"}, {"events", "events_data"}),
        (["events", "events_data"], {"events", "events_data"}),
        (["events_data"], set()),
        (["events_data", "store"], {"store"}),
        (["id", "epoch", "store"], {"store"}),
        ("events", {"events", "events_data"}),
        ("events_data", set()),
        ("id", set()),
        ("store", {"store"}),
        (iter(["store"]), {"store"}),
    ],
)
def test_exclusions_follow_inspect(given_fields: Any, dropped: set[str]) -> None:
    assert normalized_exclusions(given_fields) == dropped


@pytest.mark.parametrize("wrong", [[1], [None], b"events", [b"events"], 5])
def test_an_exclusion_that_is_no_name_is_a_type_error(wrong: Any) -> None:
    with pytest.raises(TypeError):
        normalized_exclusions(wrong)


@example(excluded={"a"})
@given(excluded=st.sets(st.sampled_from("abcdefgh")))
def test_excluded_fields_are_gone_and_the_others_keep_their_order(excluded: set[str]) -> None:
    whole = {"h": [1], "id": "x", "a": {"b": 2}, "b": float("inf"), "epoch": 1, "c": None}
    data = json.dumps(whole).encode()
    rest = [(name, value) for name, value in whole.items() if name not in excluded]
    assert list(decode_sample(data, "x", 1, excluded).items()) == rest


def test_top_level_fields_only_are_excluded() -> None:
    data = b'{"id": "a", "epoch": 1, "inner": {"events": 1}, "events": 2}'
    assert decode_sample(data, "a", 1, {"events"})["inner"] == {"events": 1}


@pytest.mark.parametrize("value", ["1", "NaN", str(2**70)])
def test_only_some_fields_whichever_parser_reads_them(value: str) -> None:
    data = f'{{"id": "a", "epoch": 1, "x": {value}, "y": 2}}'.encode()
    found = decode_sample(data, "a", 1, only=("id", "epoch", "y"))
    assert found == {"id": "a", "epoch": 1, "y": 2}
