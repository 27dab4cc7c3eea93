"""What goes wrong with requests to stores, named for people. obstore has tried again before."""

from __future__ import annotations

import errno
import re

from evalindex.errors import LogChanged, LogNotFound, LogUnreadable, StoreDenied

_STATUS = re.compile(r"status code: (\d{3})")
_OTHER_RANGE = re.compile(r"Requested (\d+\.\.\d+), got (\d+\.\.\d+)")
_NO_RANGES = re.compile("non-partial response|CONTENT_RANGE")
_OTHER_REGION = ("AuthorizationHeaderMalformed", "PermanentRedirect")
_CODE = re.compile(r"<Code>(\w+)</Code>")


class NotSatisfiable(Exception):
    """An answer 416: the object is empty, or ends before the range."""


def bad_answer(location: str, asked: str, got: str) -> LogUnreadable:
    """Its errno is EPROTO."""
    return LogUnreadable(
        f"the server was asked for {asked} and gave {got}",
        log=location,
        hint="it does not serve ranges as it should; copy the log to a folder",
        code=errno.EPROTO,
    )


def changed(location: str) -> LogChanged:
    return LogChanged(
        "it kept changing while it was read", log=location, hint="try again when it is at rest"
    )


def named(error: Exception, location: str) -> Exception:
    """What an error of obstore means to a person."""
    from obstore import exceptions

    text = str(error)
    status, code = _STATUS.search(text), _CODE.search(text)
    number = int(status[1]) if status else 0
    name = code[1] if code else ""
    if name in ("NoSuchBucket", "ContainerNotFound") or "bucket does not exist" in text.lower():
        return StoreDenied("there is no such bucket", log=location, hint="look at its name")
    if name in _OTHER_REGION or number == 301 or "without LOCATION" in text:
        return StoreDenied(
            "the bucket is in another region", log=location, hint="set AWS_REGION to it"
        )
    if isinstance(error, FileNotFoundError):
        return LogNotFound("no such log", log=location)
    if isinstance(error, exceptions.PreconditionError):
        return changed(location)
    unsupported = isinstance(error, exceptions.NotSupportedError) or _NO_RANGES.search(text)
    if unsupported or number in (400, 405, 501):
        what = f"an error {number} {name}".rstrip() if number else "something else"
        return bad_answer(location, "a part of the log", what)
    got = _OTHER_RANGE.search(text)
    if got is not None:
        return bad_answer(location, f"bytes {got[1]}", got[2])
    if number == 416:
        return NotSatisfiable()
    denied = (exceptions.PermissionDeniedError, exceptions.UnauthenticatedError)
    if isinstance(error, denied) or number in (401, 403):
        what = f"the store refused the credentials ({name or number or 'not valid'})"
        return StoreDenied(what, log=location, hint="look at the keys, the profile and the policy")
    if "must be specified" in text:
        return StoreDenied(
            "no account is named", log=location, hint="set AZURE_STORAGE_ACCOUNT_NAME and its key"
        )
    if "redential" in text or "169.254.169.254" in text or "metadata" in text:
        return StoreDenied(
            "no credentials were found",
            log=location,
            hint="set those of your store, or AWS_PROFILE",
        )
    # Not EIO, which would be tried again: obstore has done so.
    first = text.partition("\n")[0]
    return LogUnreadable(f"the store failed: {first}", log=location, code=errno.ECONNABORTED)
