"""Files that are either written whole or not at all, what is no file to read, and how texts are written."""

from __future__ import annotations

import codecs
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from pccl.errors import FormatError

__all__ = [
    "encoding_of",
    "refuse_endless",
    "remove_unfinished",
    "removed_if_stopped",
    "replacing",
    "scratch_folder",
]

# What is to be removed if the process is ended from outside.
_UNFINISHED: set[Path] = set()


@contextmanager
def replacing(path: str | Path) -> Iterator[BinaryIO]:
    """Open a file for writing that takes the place of `path` when all is written, so that nobody sees half of it.

    Examples
    --------
    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "greeting"
    >>> with replacing(path) as file:
    ...     _ = file.write(b"hello")
    >>> path.read_bytes()
    b'hello'
    """
    path = Path(path)
    if path.is_dir():
        raise FormatError(f"cannot write {path}: it is a folder")
    try:
        if path.exists() and not path.is_file():  # a device or a pipe: written to, not replaced
            with path.open("wb") as file:
                yield file
            return
        # In the same folder, as only within one file system is a replacement a single step; by the
        # number of the process, so that two of them do not write into one file.
        unfinished = path.with_name(f".{path.name}.{os.getpid()}")
        _UNFINISHED.add(unfinished)
        try:
            with unfinished.open("wb") as file:
                yield file
            unfinished.replace(path)
        finally:
            unfinished.unlink(missing_ok=True)
            _UNFINISHED.discard(unfinished)
    except OSError as error:
        raise FormatError(f"cannot write {path}: {error.strerror or error}") from None


@contextmanager
def scratch_folder() -> Iterator[Path]:
    """A folder that is gone afterwards."""
    from tempfile import TemporaryDirectory

    with TemporaryDirectory() as name:
        folder = Path(name)
        _UNFINISHED.add(folder)
        try:
            yield folder
        finally:
            _UNFINISHED.discard(folder)


def removed_if_stopped(path: str | Path) -> None:
    """Remove this too, which others will remove, if the process is ended from outside before they do."""
    _UNFINISHED.add(Path(path))


def remove_unfinished() -> None:
    """Remove files and folders that nobody will finish, as the process ends at once."""
    from shutil import rmtree

    for path in list(_UNFINISHED):
        if path.is_dir():
            rmtree(path, ignore_errors=True)
        else:
            path.unlink(missing_ok=True)


def refuse_endless(path: str | Path) -> None:
    """Raise for a device or a pipe, such as ``/dev/zero``: to read all of it might never end.

    Examples
    --------
    >>> refuse_endless("/dev/zero")
    Traceback (most recent call last):
        ...
    pccl.errors.FormatError: cannot read /dev/zero: it is not a file, and might never end
    """
    path = Path(path)
    if path.is_char_device() or path.is_fifo():
        raise FormatError(f"cannot read {path}: it is not a file, and might never end")


def encoding_of(content: bytes) -> str:
    """How a text is encoded: UTF-16 if it says so, as what Windows PowerShell sends to a file does, else UTF-8.

    Examples
    --------
    >>> encoding_of("GPU0".encode("utf-16")), encoding_of(b"GPU0")
    ('utf-16', 'utf-8')
    """
    is_wide = content.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
    return "utf-16" if is_wide else "utf-8"
