"""What is in an MSCCL-IR file, read as strictly as the runtimes read it.

They have no XML parser but hand-written readers, which reject much of XML and take other things for zero in silence.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import MISSING, dataclass, field, fields
from pathlib import Path
from typing import Any

from pccl.errors import FormatError
from pccl.formats.machine import Kind, Problem, Problems

__all__ = [
    "MOST_CHARACTERS",
    "Gpu",
    "Purpose",
    "Step",
    "Threadblock",
    "XmlAlgorithm",
    "parse",
    "read",
]

_TAG = re.compile(r"<(/?)([A-Za-z_][\w.-]*)([^<>]*)>")
_ATTRIBUTE = re.compile(r' *([A-Za-z_][\w.-]*) *= *"([^"]*)"')
# What is inside a tag when nothing is wrong with it.
_USUAL = re.compile(r'(?: *[A-Za-z_][\w.-]* *= *"[^"\n\t]*")* *')
# What fits 64 bits, about.
_WHOLE = re.compile(r"-?[0-9]{1,19}")
_COMMENT = re.compile(r"<!--.*?-->", re.DOTALL)
_MOST_ATTRIBUTES = 16
MOST_CHARACTERS = 255


@dataclass(slots=True)
class Step:
    """One step of a threadblock; `depid` and `deps` are -1 if it waits for nothing."""

    s: int
    type: str
    srcbuf: str
    srcoff: int
    dstbuf: str
    dstoff: int
    cnt: int
    depid: int
    deps: int
    hasdep: int


@dataclass(slots=True)
class Threadblock:
    """Steps that follow each other; `send` and `recv` are -1 without such a peer."""

    id: int
    send: int
    recv: int
    chan: int
    steps: list[Step] = field(default_factory=list)


@dataclass(slots=True)
class Gpu:
    """One rank: how many chunks its buffers hold, and its threadblocks."""

    id: int
    i_chunks: int
    o_chunks: int
    s_chunks: int
    threadblocks: list[Threadblock] = field(default_factory=list)


@dataclass(slots=True)
class Purpose:
    """What a file of ours says, in elements that runtimes ignore, if it does less than its collective.

    `members` are the ranks that it is for, and `shares` the chunks that a rank sends to each; none stand for all.
    """

    members: list[int] = field(default_factory=list)
    shares: dict[int, list[int]] = field(default_factory=dict)


@dataclass(slots=True)
class XmlAlgorithm:
    """A whole file."""

    name: str
    proto: str
    nchannels: int
    nchunksperloop: int
    ngpus: int
    coll: str
    inplace: int
    outofplace: int
    minBytes: int  # noqa: N815 -- as in the file
    maxBytes: int  # noqa: N815
    gpus: list[Gpu] = field(default_factory=list)
    purpose: Purpose = field(default_factory=Purpose)


def read(
    path: str | Path, may_lack: tuple[str, ...] = ()
) -> tuple[XmlAlgorithm | None, list[Problem]]:
    """Read a file: what is in it, unless it is beyond reading, and every lexical problem.

    Parameters
    ----------
    path
        The file.
    may_lack
        Attributes without which it is no problem to be.

    Raises
    ------
    FormatError
        If the file cannot be opened, or is not text.
    """
    try:
        text = Path(path).read_text(encoding="utf-8")
    except FileNotFoundError:
        raise FormatError(f"{path}: no such file") from None
    except (OSError, UnicodeDecodeError) as error:
        raise FormatError(f"cannot read {path}: {error}") from None
    return parse(text, may_lack)


def parse(text: str, may_lack: tuple[str, ...] = ()) -> tuple[XmlAlgorithm | None, list[Problem]]:
    """Read the text of a file, see :func:`read`.

    Examples
    --------
    >>> _, problems = parse("<gpu></gpu>")
    >>> print(problems[0])
    line 1: the first element is 'gpu'; the runtimes want 'algo'
    """
    reader = _Reader(text, may_lack)
    reader.run()
    return reader.algorithm, list(reader.problems)


# Per element: the element that it must be in, what it becomes, and where that is kept in the one around it.
_ELEMENTS: dict[str, tuple[str | None, Any, str]] = {
    "algo": (None, XmlAlgorithm, ""),
    "gpu": ("algo", Gpu, "gpus"),
    "tb": ("gpu", Threadblock, "threadblocks"),
    "step": ("tb", Step, "steps"),
    "pccl": ("algo", None, "purpose"),
}
# Per element: its attributes in their order.
_NAMES = {
    name: tuple(column.name for column in fields(made) if column.default_factory is MISSING)
    for name, (_, made, _) in _ELEMENTS.items()
    if made
}
_WORDS = frozenset({"name", "proto", "coll", "type", "srcbuf", "dstbuf"})


class _Wholes(dict[str, int | None]):
    """Texts as whole numbers, those seen before at once; or None for what is no whole number."""

    def __missing__(self, text: str) -> int | None:
        self[text] = int(text) if _WHOLE.fullmatch(text) else None
        return self[text]


class _Reader:
    """Builds the elements as their tags come."""

    def __init__(self, text: str, may_lack: tuple[str, ...]) -> None:
        self.text = text
        self.may_lack = may_lack
        self.problems = Problems()
        self.algorithm: XmlAlgorithm | None = None
        # The elements that are open, with what they have become if they are known and where they should be.
        self.open: list[tuple[str, Any]] = []
        self.line = 1
        self.wholes = _Wholes()

    def run(self) -> None:
        for ends, name, inside, empty in self._tags():
            attributes = self._attributes(inside)
            if ends:
                if not self.open or self.open.pop()[0] != name:
                    self._problem(f"</{name}> closes nothing that is open")
                    return
                continue
            if not self.open and self.algorithm is None and name != "algo":
                self._problem(f"the first element is {name!r}; the runtimes want 'algo'")
                return
            made = self._element(name, attributes)
            if not empty:
                self.open.append((name, made))
        if self.algorithm is None:
            self._problem("there is no element 'algo'")
        elif self.open:
            self._problem(f"<{self.open[-1][0]}> is not closed")

    def _tags(self) -> Iterator[tuple[str, str, str, bool]]:
        text = _COMMENT.sub(lambda match: "\n" * match[0].count("\n"), self.text)
        position = 0
        for match in _TAG.finditer(text):
            self._between(text[position : match.start()])
            ends, name, inside = match.groups()
            lines = inside.count("\n")
            if lines:
                self._problem("there is a newline inside a tag, which the runtimes reject")
            yield ends, name, inside.removesuffix("/"), inside.endswith("/")
            self.line += lines
            position = match.end()
        self._between(text[position:])

    def _between(self, text: str) -> None:
        # Mostly, there is nothing but the end of a line, and spaces.
        if not text.strip(" \n"):
            self.line += text.count("\n")
            return
        for i, line in enumerate(text.split("\n")):
            self.line += i > 0
            if "\t" in line:
                self._problem("there is a tab, which the runtimes reject")
            words = line.strip()
            if words:
                what = "an <?xml?> line" if words.startswith("<?") else f"the text {words[:20]!r}"
                self._problem(f"there is {what} between tags, which the runtimes reject")

    def _attributes(self, text: str) -> dict[str, str]:
        if not _USUAL.fullmatch(text):
            text = self._mended(text)
        found = _ATTRIBUTE.findall(text)
        if len(found) > _MOST_ATTRIBUTES:
            self._problem(
                f"a tag has {len(found)} attributes; the runtimes keep {_MOST_ATTRIBUTES}"
            )
        if len(text) > MOST_CHARACTERS:
            for name, value in found:
                if len(value) > MOST_CHARACTERS:
                    self._problem(
                        f"the value of {name!r} has {len(value)} characters; the runtimes keep {MOST_CHARACTERS}"
                    )
        return dict(found)

    def _mended(self, text: str) -> str:
        """Say what is wrong inside a tag, and return what can be made of it."""
        if "\t" in text:
            self._problem("there is a tab inside a tag, which the runtimes reject")
        if "'" in re.sub(r'"[^"]*"', "", text):
            self._problem("there is a single quote, which the runtimes reject")
            text = text.replace("'", '"')
        flat = text.replace("\t", " ").replace("\n", " ")
        rest = _ATTRIBUTE.sub("", flat).strip()
        if rest:
            self._problem(f'what is inside a tag is not name="value": {rest[:20]!r}')
        return flat

    def _element(self, name: str, attributes: dict[str, str]) -> Any:
        """What an element becomes; nothing if runtimes ignore it, or if it is not where it should be."""
        if name not in _ELEMENTS:
            return None
        parent, made, kept = _ELEMENTS[name]
        outer, around = self.open[-1] if self.open else (None, None)
        if outer != parent or (parent and around is None) or (not parent and self.algorithm):
            inside = " ".join(f"<{outer}>" for outer, _ in self.open) or "nothing"
            self._problem(f"<{name}> is out of place, inside {inside}")
            return None
        if made is None:
            self._read_purpose(getattr(around, kept), attributes)
            return None
        element = made(*self._values(name, attributes))
        if parent:
            getattr(around, kept).append(element)
        else:
            self.algorithm = element
        return element

    def _read_purpose(self, purpose: Purpose, attributes: dict[str, str]) -> None:
        """A list may be in several elements, since values cannot be long."""
        purpose.members += self._listed(attributes.get("members", ""))
        if "sender" in attributes:
            sender = self.wholes[attributes["sender"]]
            shares = self._listed(attributes.get("shares", ""))
            purpose.shares.setdefault(-1 if sender is None else sender, []).extend(shares)

    def _listed(self, text: str) -> list[int]:
        found = [self.wholes[item] for item in text.split()]
        if None in found:
            self._problem(f"{text[:20]!r} of <pccl> is not a list of whole numbers")
        return [number for number in found if number is not None]

    def _values(self, element: str, attributes: dict[str, str]) -> list[Any]:
        """The attributes of an element in their order; what is wrong or missing is taken as the runtimes would."""
        names = _NAMES[element]
        if not attributes.keys() >= {*names}:
            for name in names:
                if name not in attributes and name not in self.may_lack:
                    self._problem(
                        f"<{element}> lacks {name!r}, for which the runtimes ignore or reject the file"
                    )
            attributes = {name: "" if name in _WORDS else "0" for name in names} | attributes
        wholes = self.wholes
        values = [
            attributes[name] if name in _WORDS else wholes[attributes[name]] for name in names
        ]
        if None in values:
            for name, value in zip(names, values, strict=True):
                if value is None:
                    text = attributes[name][:20]
                    self._problem(
                        f"{name}={text!r} of <{element}> is not a whole number; the runtimes would take it for 0"
                    )
            values = [0 if value is None else value for value in values]
        return values

    def _problem(self, text: str) -> None:
        self.problems.add(Kind.TEXT, f"line {self.line}: {text}")
