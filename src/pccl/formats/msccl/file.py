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

__all__ = ["MOST_CHARACTERS", "Algo", "Gpu", "Promise", "Step", "Threadblock", "read"]

_TAG = re.compile(r"<(/?)([A-Za-z_][\w.-]*)([^<>]*)>")
_NAME = re.compile(r" *([A-Za-z_][\w.-]*) *= *")
_ATTRIBUTE = re.compile(_NAME.pattern + r'"([^"]*)"')
_WHOLE = re.compile(r"-?[0-9]{1,19}")  # what fits 64 bits, about
_COMMENT = re.compile(r"<!--.*?-->", re.DOTALL)
_MOST_ATTRIBUTES, MOST_CHARACTERS = 16, 255


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
class Promise:
    """What a file of ours says, in elements that runtimes ignore, if it does less than its collective."""

    members: list[int] = field(
        default_factory=list
    )  # the ranks that it is for; none stands for all
    shares: dict[int, list[int]] = field(
        default_factory=dict
    )  # chunks that a rank sends to each; none stands for all


@dataclass(slots=True)
class Algo:
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
    promise: Promise = field(default_factory=Promise)


def read(path: str | Path) -> tuple[Algo | None, list[str]]:
    """Read a file: what is in it, unless it is beyond reading, and every lexical problem, each one line.

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
    return parse(text)


def parse(text: str) -> tuple[Algo | None, list[str]]:
    """Read the text of a file, see :func:`read`.

    Examples
    --------
    >>> algo, problems = parse("<gpu></gpu>")
    >>> problems
    ["line 1: the first element is 'gpu'; the runtimes want 'algo'"]
    """
    reader = _Reader(text)
    reader.run()
    return reader.algo, reader.problems


# Per element: its attributes in their order, and which of them are words.
_ELEMENTS = {
    name: tuple(column.name for column in fields(element) if column.default_factory is MISSING)
    for name, element in (("algo", Algo), ("gpu", Gpu), ("tb", Threadblock), ("step", Step))
}
_WORDS = frozenset({"name", "proto", "coll", "type", "srcbuf", "dstbuf"})


class _Wholes(dict[str, int | None]):
    """Texts as whole numbers, those seen before at once; or None for what is no whole number."""

    def __missing__(self, text: str) -> int | None:
        self[text] = int(text) if _WHOLE.fullmatch(text) else None
        return self[text]


class _Reader:
    """Builds the elements as their tags come."""

    def __init__(self, text: str) -> None:
        self.text, self.problems = text, list[str]()
        self.algo: Algo | None = None
        self.open: list[str] = []
        self.line = 1
        self.wholes = _Wholes()
        self.names: dict[tuple[str, ...], list[str] | None] = {}

    def run(self) -> None:
        for ends, name, inside, empty in self._tags():
            attributes = self._attributes(inside)
            if ends:
                if not self.open or self.open.pop() != name:
                    self._problem(f"</{name}> closes nothing that is open")
                    return
                continue
            if not self.open and self.algo is None and name != "algo":
                self._problem(f"the first element is {name!r}; the runtimes want 'algo'")
                return
            self._element(name, attributes)
            if not empty:
                self.open.append(name)
        if self.algo is None:
            self._problem("there is no element 'algo'")
        elif self.open:
            self._problem(f"<{self.open[-1]}> is not closed")

    def _tags(self) -> Iterator[tuple[str, str, str, bool]]:
        text = _COMMENT.sub(lambda match: "\n" * match[0].count("\n"), self.text)
        position = 0
        for match in _TAG.finditer(text):
            self._between(text[position : match.start()])
            ends, name, inside = match.groups()
            lines = inside.count("\n")
            if lines:
                self._problem("there is a newline inside a tag, which the runtimes reject")
            empty = inside.endswith("/")
            yield ends, name, inside[:-1] if empty else inside, empty
            self.line += lines
            position = match.end()
        self._between(text[position:])

    def _between(self, text: str) -> None:
        for line in text.split("\n"):
            if "\t" in line:
                self._problem("there is a tab, which the runtimes reject")
            if line and not line.isspace():
                what = (
                    "an <?xml?> line"
                    if line.strip().startswith("<?")
                    else f"the text {line.strip()[:20]!r}"
                )
                self._problem(f"there is {what} between tags, which the runtimes reject")
            self.line += 1
        self.line -= 1

    def _attributes(self, text: str) -> dict[str, str]:
        """What is inside a tag; most tags have the same names as one before, and need not be looked at closely."""
        pieces = text.split('"')
        before = tuple(pieces[::2])
        if before not in self.names:
            self.names[before] = self._usual_names(before)
        names = self.names[before]
        if (
            names is None
            or len(text) > MOST_CHARACTERS
            or len(pieces) % 2 == 0
            or "\n" in text
            or "\t" in text
        ):
            return self._unusual_attributes(text)
        return dict(zip(names, pieces[1::2], strict=True))

    def _usual_names(self, before: tuple[str, ...]) -> list[str] | None:
        """The names in what stands before each value and after the last, unless something is not as it should be."""
        found = [match[1] for text in before[:-1] if (match := _NAME.fullmatch(text))]
        usual = len(found) == len(before) - 1 <= _MOST_ATTRIBUTES and not before[-1].strip(" ")
        return found if usual else None

    def _unusual_attributes(self, text: str) -> dict[str, str]:
        if "\t" in text:
            self._problem("there is a tab inside a tag, which the runtimes reject")
        if "'" in text and "'" in re.sub(r'"[^"]*"', "", text):
            self._problem("there is a single quote, which the runtimes reject")
            text = text.replace("'", '"')
        flat = text.replace("\t", " ").replace("\n", " ")
        found = _ATTRIBUTE.findall(flat)
        rest = _ATTRIBUTE.sub("", flat).strip()
        if rest:
            self._problem(f'what is inside a tag is not name="value": {rest[:20]!r}')
        if len(found) > _MOST_ATTRIBUTES:
            self._problem(
                f"a tag has {len(found)} attributes; the runtimes keep {_MOST_ATTRIBUTES}"
            )
        for name, value in found:
            if len(value) > MOST_CHARACTERS:
                self._problem(
                    f"the value of {name!r} has {len(value)} characters; the runtimes keep {MOST_CHARACTERS}"
                )
        return dict(found)

    def _element(self, name: str, attributes: dict[str, str]) -> None:
        if name == "algo" and self.algo is None and not self.open:
            self.algo = Algo(*self._values(name, attributes))
        elif name == "gpu" and self.algo is not None and self.open == ["algo"]:
            self.algo.gpus.append(Gpu(*self._values(name, attributes)))
        elif (
            name == "tb"
            and self.algo is not None
            and self.algo.gpus
            and self.open == ["algo", "gpu"]
        ):
            self.algo.gpus[-1].threadblocks.append(Threadblock(*self._values(name, attributes)))
        elif name == "step" and self.algo is not None and self.open == ["algo", "gpu", "tb"]:
            self.algo.gpus[-1].threadblocks[-1].steps.append(Step(*self._values(name, attributes)))
        elif name == "pccl" and self.algo is not None and self.open == ["algo"]:
            self._promise(self.algo.promise, attributes)
        elif name in _ELEMENTS:
            self._problem(
                f"<{name}> is out of place, inside {' '.join(f'<{outer}>' for outer in self.open) or 'nothing'}"
            )

    def _promise(self, promise: Promise, attributes: dict[str, str]) -> None:
        """A list may be in several elements, since values cannot be long."""
        promise.members += self._listed(attributes.get("members", ""))
        if "sender" in attributes:
            sender = self.wholes[attributes["sender"]]
            promise.shares.setdefault(-1 if sender is None else sender, []).extend(
                self._listed(attributes.get("shares", ""))
            )

    def _listed(self, text: str) -> list[int]:
        found = [self.wholes[item] for item in text.split()]
        if None in found:
            self._problem(f"{text[:20]!r} of <pccl> is not a list of whole numbers")
        return [number for number in found if number is not None]

    def _values(self, element: str, attributes: dict[str, str]) -> list[Any]:
        """The attributes of an element in their order; what is wrong or missing is taken as the runtimes would."""
        names, wholes = _ELEMENTS[element], self.wholes
        try:
            values = [
                attributes[name] if name in _WORDS else wholes[attributes[name]] for name in names
            ]
        except KeyError:
            for name in (name for name in names if name not in attributes):
                self._problem(
                    f"<{element}> lacks {name!r}, for which the runtimes ignore or reject the file"
                )
            return self._values(
                element, {name: "" if name in _WORDS else "0" for name in names} | attributes
            )
        for name in names if None in values else ():
            if name not in _WORDS and wholes[attributes[name]] is None:
                text = attributes[name][:20]
                self._problem(
                    f"{name}={text!r} of <{element}> is not a whole number; the runtimes would take it for 0"
                )
        return [0 if value is None else value for value in values]

    def _problem(self, text: str) -> None:
        line = f"line {self.line}: {text}"
        if line not in self.problems:
            self.problems.append(line)
