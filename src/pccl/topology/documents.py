"""JSON and YAML documents: read, converted to structs, and wrong at a place inside, such as ``$.links[0].dst``."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from difflib import get_close_matches
from pathlib import Path
from typing import Any, TypeVar

import msgspec
from msgspec import inspect

from pccl._files import encoding_of
from pccl.errors import FormatError, PcclError

T = TypeVar("T")

# Larger files are no documents that people write: somebody gave us a disk image, or a device that never ends.
_MOST_BYTES = 2**30
_BLOCK = 2**16
# Lists and maps inside each other, far more than anybody writes.
_DEEPEST = 200
# How .pccl files begin, which are archives.
_ZIP = b"PK\x03\x04"


@contextmanager
def placed(place: str) -> Iterator[None]:
    """Add the place to errors that do not know theirs; without a place there is none to add."""
    try:
        yield
    except PcclError as error:
        # The innermost place is the most exact one, so it is never replaced.
        if not place or (isinstance(error, FormatError) and error.place):
            raise
        raise FormatError(str(error), place) from error


def read_document(path: Path, what: str) -> dict[str, Any]:
    """Read the keys and values of a JSON or YAML file, and say where it is malformed if it is."""
    return parse_document(read_text(path, what), path, what)


def parse_document(text: str, path: Path, what: str) -> dict[str, Any]:
    """Read the keys and values of a JSON or YAML text that comes from a file."""
    try:
        if path.suffix == ".json":
            document = json.loads(text, object_pairs_hook=_without_duplicates)
        else:
            document = parse_yaml(text)
    # Both parsers recurse, so thousands of brackets exhaust the stack; that is the fault of the
    # file.
    except (ValueError, RecursionError) as error:
        raise FormatError(f"{path}: {' '.join(str(error).split())}") from error
    if not isinstance(document, dict):
        kind = type(document).__name__
        raise FormatError(f"{path}: expected the keys and values of {what}, not {kind}")
    return document


def read_text(path: Path, what: str) -> str:
    """Read a text file of any sensible size."""
    try:
        with path.open("rb") as file:
            # What is no text shows in its first block, before a gigabyte of it is read.
            content = file.read(_BLOCK)
            if content.startswith(_ZIP):
                raise FormatError(f"{path} is an algorithm, not {what}; pccl show prints it")
            encoding = encoding_of(content)
            if encoding == "utf-8" and b"\0" in content:
                raise FormatError(f"{path} is not {what}: it is not a text file")
            # A little more than is allowed: so what is too long shows, even where it never ends.
            content += file.read(_MOST_BYTES)
    except FileNotFoundError:
        raise FormatError(f"{path}: there is no such file") from None
    except OSError as error:
        raise FormatError(f"cannot read {path}: {error.strerror or error}") from None
    if len(content) > _MOST_BYTES:
        raise FormatError(f"{path} is too large for {what}: more than {_MOST_BYTES >> 20} MiB")
    try:
        return content.decode(encoding)
    except UnicodeDecodeError as error:
        # Two bytes at the beginning may look like UTF-16 by chance.
        reason = str(error) if encoding == "utf-8" else "it is not a text file"
        raise FormatError(f"{path} is not {what}: {reason}") from None


def converted(document: Mapping[str, Any], struct: type[T]) -> T:
    """Return the document as a struct; what does not fit is a :class:`~pccl.errors.FormatError` with a place."""
    try:
        return msgspec.convert(dict(document), struct)
    except msgspec.ValidationError as error:
        # First, as a key that is misspelt is usually also one that is missing: what was meant says
        # more.
        _refuse_unknown_keys(document, inspect.type_info(struct), "$")
        # msgspec tells the place only as the end of its text, and leaves it out for the document itself.
        problem, _, place = str(error).partition(" - at ")
        raise FormatError(problem, place.strip("`") or "$") from error


def _refuse_unknown_keys(value: Any, kind: inspect.Type, place: str) -> None:
    """Say which key was meant, where msgspec only says that it is unknown."""
    if isinstance(kind, inspect.Metadata):
        kind = kind.type
    if isinstance(kind, inspect.UnionType):
        for one in kind.types:
            _refuse_unknown_keys(value, one, place)
    elif isinstance(kind, inspect.ListType) and isinstance(value, list | tuple):
        for i, item in enumerate(value):
            _refuse_unknown_keys(item, kind.item_type, f"{place}[{i}]")
    elif isinstance(kind, inspect.StructType) and isinstance(value, Mapping):
        known = {field.encode_name: field.type for field in kind.fields}
        for key, item in value.items():
            if key not in known:
                near = get_close_matches(str(key), known, n=1)
                hint = f"did you mean {near[0]!r}?" if near else f"there are {', '.join(known)}"
                raise FormatError(f"there is no key {key!r}; {hint}", place)
            _refuse_unknown_keys(item, known[key], f"{place}.{key}")


def _without_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    # JSON would silently take the last of several values, and whoever wrote them meant something
    # else.
    document: dict[str, Any] = {}
    for key, value in pairs:
        if key in document:
            raise ValueError(f"the key {key!r} appears twice")
        document[key] = value
    return document


def _refuse_nesting(text: str, loader: Any) -> None:
    """Raise where lists are in lists in lists: the parser in C calls itself for each, until its stack has no room."""
    brackets = text.count("[") + text.count("{")
    # Without brackets, what is inside begins further to the right, in the same line or below.
    margins = (len(line) - len(line.lstrip(" -?:")) for line in text.splitlines())
    if brackets <= _DEEPEST and max(margins, default=0) <= _DEEPEST:
        return
    import yaml

    depth = 0
    # This goes from one to the next without calling itself.
    for event in yaml.parse(text, Loader=loader):
        depth += isinstance(event, yaml.CollectionStartEvent)
        depth -= isinstance(event, yaml.CollectionEndEvent)
        if depth > _DEEPEST:
            raise ValueError(f"more than {_DEEPEST} lists or maps inside each other")


def parse_yaml(text: str) -> Any:
    """Read YAML in which no key appears twice; what is malformed is a ValueError with its line."""
    # Here, as most runs read no YAML. The parser in C is much faster, but not built everywhere.
    import yaml

    class Loader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]
        """Refuses duplicate keys, of which YAML would silently take the last."""

        def construct_mapping(self, node: Any, deep: bool = False) -> Any:
            seen = set()
            for key in (key for key, _ in node.value if isinstance(key, yaml.ScalarNode)):
                if key.value in seen:
                    problem = f"the key {key.value!r} appears twice"
                    raise yaml.constructor.ConstructorError(None, None, problem, key.start_mark)
                seen.add(key.value)
            return super().construct_mapping(node, deep)

    try:
        _refuse_nesting(text, Loader)
        return yaml.load(text, Loader=Loader)
    except yaml.MarkedYAMLError as error:
        line = f"line {error.problem_mark.line + 1}: " if error.problem_mark else ""
        raise ValueError(f"{line}{error.problem}") from error
    except yaml.YAMLError as error:
        raise ValueError(str(error)) from error
