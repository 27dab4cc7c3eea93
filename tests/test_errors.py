from __future__ import annotations

import copy
import errno
import pickle
from collections.abc import Callable
from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evalindex import errors
from evalindex.errors import EvalIndexError, SampleNotFound, printable
from evalindex.model import SampleKey

#: What each error also is: users may catch it so.
ALSO: dict[str, tuple[type[BaseException], ...]] = {
    "SampleNotFound": (KeyError, IndexError, LookupError),
    "LogNotFound": (FileNotFoundError, OSError),
    "LogUnreadable": (OSError,),
    "NotAnEvalLog": (ValueError,),
    "StaleLog": (),
    "LogChanged": (errors.StaleLog,),
    "CorruptMember": (),
    "UnsupportedMember": (),
    "MemberNotFound": (KeyError, LookupError),
    "SampleInvalid": (ValueError,),
    "UnsupportedInspect": (ImportError,),
    "AmbiguousLog": (),
    "RootUnreadable": (OSError,),
    "StoreDenied": (),
    "IndexNotFound": (),
    "NotAnIndex": (),
    "IndexTooNew": (),
    "IndexOutdated": (),
    "IndexBusy": (),
    "IndexEmpty": (errors.IndexBusy,),
    "IndexNotWritable": (OSError,),
    "IndexClosed": (ValueError,),
    "MissingExtra": (ImportError,),
}

KEY = SampleKey("/logs/a.eval", "q-1", 2)


def make(name: str) -> EvalIndexError:
    if name == "SampleNotFound":
        return SampleNotFound([KEY, SampleKey("/logs/b.eval", 5)], near=["id 'q-2' epoch 2"])
    if name == "AmbiguousLog":
        return errors.AmbiguousLog("a.eval", ["/x/a.eval", "/y/a.eval"])
    kind: type[EvalIndexError] = getattr(errors, name)
    return kind("it is so", log="/logs/a.eval", hint="do that")


def classes(kind: type[EvalIndexError]) -> set[str]:
    found = {name for sub in kind.__subclasses__() for name in classes(sub)}
    return found if kind.__name__.startswith("_") else found | {kind.__name__}


def test_the_tree_holds_exactly_these() -> None:
    assert classes(EvalIndexError) == {"EvalIndexError", *ALSO}


@pytest.mark.parametrize("name", ALSO)
def test_each_error_is_caught_under_every_promised_name(name: str) -> None:
    error = make(name)
    kinds: list[type[BaseException]] = [EvalIndexError, *ALSO[name]]
    for kind in kinds:
        with pytest.raises(kind) as caught:
            raise error
        assert caught.value is error


@pytest.mark.parametrize("name", ALSO)
def test_an_error_is_nothing_that_was_not_promised(name: str) -> None:
    builtin = (LookupError, OSError, ValueError, ImportError, TypeError, RuntimeError)
    promised = tuple(kind for kind in builtin if kind in ALSO[name])
    assert [k for k in builtin if isinstance(make(name), k)] == list(promised)


@pytest.mark.parametrize("name", ALSO)
def test_each_error_names_its_log_and_its_hint(name: str) -> None:
    error = make(name)
    if error.log is not None:
        assert str(error).startswith(f"{error.log}: ")
    assert error.hint is not None
    assert error.hint in str(error)
    assert error.reason in str(error)


def assert_same(copied: EvalIndexError, error: EvalIndexError) -> None:
    assert type(copied) is type(error)
    assert vars(copied) == vars(error)
    assert (str(copied), repr(copied), copied.args) == (str(error), repr(error), error.args)
    for name in ("errno", "strerror", "filename", "filename2", "msg", "name", "path"):
        assert getattr(copied, name, "-") == getattr(error, name, "-")


def pickled(error: EvalIndexError, protocol: int) -> EvalIndexError:
    copied: EvalIndexError = pickle.loads(pickle.dumps(error, protocol))
    return copied


COPIES: dict[str, Callable[[EvalIndexError], EvalIndexError]] = {
    "copy": copy.copy,
    "deepcopy": copy.deepcopy,
    "pickle 0": partial(pickled, protocol=0),
    "pickle 2": partial(pickled, protocol=2),
    "pickle 5": partial(pickled, protocol=5),
}


@pytest.mark.parametrize("copied", COPIES.values(), ids=COPIES.keys())
@pytest.mark.parametrize("name", ["EvalIndexError", *ALSO])
def test_a_copy_is_the_same_error(
    name: str, copied: Callable[[EvalIndexError], EvalIndexError]
) -> None:
    error = make(name)
    assert_same(copied(error), error)
    # What was learned after it was made, and notes.
    error.log, error.hint = "/elsewhere.eval", None
    error.__dict__["extra"] = 5
    assert_same(copied(error), error)
    assert_same(copied(copied(error)), error)


@pytest.mark.parametrize("name", ["EvalIndexError", *ALSO])
def test_an_error_without_a_log_or_hint_can_be_made_printed_and_pickled(name: str) -> None:
    if name in ("SampleNotFound", "AmbiguousLog"):
        return
    error = getattr(errors, name)("it is so")
    assert str(error) == "it is so"
    assert_same(pickle.loads(pickle.dumps(error)), error)


@pytest.mark.parametrize(
    ("name", "code"),
    [
        ("LogNotFound", errno.ENOENT),
        ("LogUnreadable", errno.EIO),
        ("RootUnreadable", errno.EIO),
        ("IndexNotWritable", errno.EACCES),
    ],
)
def test_a_system_error_has_errno_and_filename(name: str, code: int) -> None:
    error = make(name)
    assert isinstance(error, OSError)
    assert (error.errno, error.filename, error.strerror) == (code, "/logs/a.eval", "it is so")
    assert getattr(errors, name)("x", code=errno.EACCES).errno == errno.EACCES


def test_the_missing_keys_are_named_and_held() -> None:
    error = SampleNotFound([KEY], near=["id 'q-2' epoch 2"])
    assert error.missing == (KEY,)
    assert error.log == KEY.log
    assert str(error) == ("/logs/a.eval: no sample with id 'q-1' epoch 2 (near: id 'q-2' epoch 2)")


def test_an_int_and_a_text_id_are_told_apart() -> None:
    text = str(SampleNotFound([SampleKey("l", 1), SampleKey("l", "1")]))
    assert "id 1 epoch 1, id '1' epoch 1" in text


def test_keys_of_several_logs_say_which() -> None:
    error = SampleNotFound([KEY, SampleKey("/logs/b.eval", 5)])
    assert error.log is None
    assert "id 'q-1' epoch 2 of /logs/a.eval, id 5 epoch 1 of /logs/b.eval" in str(error)


@pytest.mark.parametrize(
    ("count", "named", "rest"), [(10, 10, None), (11, 10, 1), (5000, 10, 4990)]
)
def test_at_most_ten_missing_keys_are_named(count: int, named: int, rest: int | None) -> None:
    error = SampleNotFound(SampleKey("l", number) for number in range(count))
    assert len(error.missing) == count
    assert str(error).count("epoch") == named
    assert ("more" in str(error)) == (rest is not None)
    assert rest is None or f"and {rest} more" in str(error)


HOSTILE = [
    "a\nb",
    "\r",
    "\x1b[2J",
    "\x9b31m",
    "\ud800",
    "\u202eabc",
    "\u2066",
    "\0",
    "\u2028",
    "\x7f",
]
HOSTILE += ["\u200b", "\ufeff", "\U000e0001", "\b\b", "\x85", "\u061c", "\udcff"]


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_text_is_escaped_when_printed_and_kept_in_the_attributes(text: str) -> None:
    every = [
        SampleNotFound([SampleKey(text, text)], near=[text], hint=None),
        SampleNotFound([SampleKey(text, 1), SampleKey("other", text)]),
        errors.AmbiguousLog(text, [text, text]),
        errors.CorruptMember(text, log=text, hint=text),
        errors.LogNotFound(text, log=text),
        errors.MissingExtra(text, hint=text),
    ]
    for error in every:
        assert text not in str(error)
        assert str(error).isprintable()
        assert str(error).isascii()
        assert_same(pickle.loads(pickle.dumps(error)), error)
    assert every[3].log == text
    assert every[3].reason == text


@given(st.text(st.characters(codec=None, exclude_categories=())))
def test_what_is_printed_is_one_line_that_encodes(text: str) -> None:
    shown = printable(text)
    assert shown.isprintable()
    assert len(shown.splitlines()) <= 1
    assert shown.encode("utf-8").decode("utf-8") == shown
    assert (shown == text) == text.isprintable()


def test_readable_text_stays_as_it_is() -> None:
    assert printable("é 日本 🙂 'a' \\n") == "é 日本 🙂 'a' \\n"
    assert printable("a\nb\ud800") == "a\\nb\\ud800"
