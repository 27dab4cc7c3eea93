"""Full paths of the file system and URLs of stores, as text. Only `real` looks anything up."""

from __future__ import annotations

import os
import re

_SURROGATE = re.compile("[\ud800-\udfff]")
_URL = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://")


def is_url(text: str) -> bool:
    return "://" in text and _URL.match(text) is not None


def absolute(text: str) -> str:
    """The full path; a URL is one, but for slashes at its end and the case of its scheme."""
    if not is_url(text):
        return os.path.abspath(text)
    scheme, _, rest = text.partition("://")
    return f"{scheme.lower()}://{rest.rstrip('/')}"


def real(location: str) -> str:
    """Where links lead; there are none in stores."""
    return location if is_url(location) else os.path.realpath(location)


def folder_of(location: str) -> str:
    """The folder or prefix that a log lies in; of the root of everything, itself."""
    if not is_url(location):
        return os.path.dirname(location)
    folder, _, name = location.rpartition("/")
    return location if folder.endswith("/") or not name else folder


def name_of(location: str) -> str:
    return location.rpartition("/")[2] if is_url(location) else os.path.basename(location)


def full_path(root: str, path: str) -> str:
    """The location of a path (`/` between folders) below a root; "" is the root itself."""
    if is_url(root):
        return f"{root}/{path}" if path else root
    return os.path.join(root, *path.split("/")) if path else root


def path_below(location: str, root: str) -> str | None:
    """The part of a location below a root, None if it is not there; "" for the root itself."""
    if location == root:
        return ""
    separator = "/" if is_url(root) else os.sep
    prefix = root if root.endswith(separator) else root + separator
    if not location.startswith(prefix):
        return None
    path = location[len(prefix) :]
    return path if separator == "/" else path.replace(separator, "/")


def is_at_or_below(path: str, folder: str) -> bool:
    """Whether a path in a root is that of the folder or inside it; "" is the root itself."""
    return not folder or path == folder or path.startswith(folder + "/")


def is_text(path: str) -> bool:
    """Whether a path is UTF-8; Python spells other bytes as lone surrogates, which SQL refuses."""
    return path.isascii() or _SURROGATE.search(path) is None
