"""What is in an MSCCL-IR file, read as strictly as the runtimes read it.

They have no XML parser but hand-written readers, which reject much of XML and take other things for zero in silence.
"""

from __future__ import annotations

import re
from dataclasses import MISSING, dataclass, field, fields
from pathlib import Path
from typing import Any

from pccl._files import refuse_endless
from pccl.errors import FormatError
from pccl.formats.machine import Kind, Place, Problem, Problems

_TAG = re.compile(r"<(/?)([A-Za-z_][\w.-]*)([^<>]*)>")
_ATTRIBUTE = re.compile(r' *([A-Za-z_][\w.-]*) *= *"([^"]*)"')
# What is inside a tag, but for values, when nothing is wrong with it.
_USUAL = re.compile(r'(?: *[A-Za-z_][\w.-]* *= *"")* *')
# What fits 64 bits, about.
_WHOLE = re.compile(r"-?[0-9]{1,19}")
_COMMENT = re.compile(r"<!--.*?-->", re.DOTALL)
_MOST_ATTRIBUTES = 16
MOST_CHARACTERS = 255

# Sender, receiver, channel.
Connection = tuple[int, int, int]


@dataclass(slots=True, eq=False)
class Element:
    """Something in a file: what it is in, and how many of its kind are before it there."""

    around: Any
    index: int

    @property
    def place(self) -> Place:
        """Where it is."""
        return Place()

    def __str__(self) -> str:
        named = zip(("gpu", "tb", "step"), self.place, strict=True)
        return " ".join(f"{name} {number}" for name, number in named if number >= 0) or "algo"

    def problem(self, kind: Kind, text: str) -> Problem:
        """Return a problem of this element."""
        return Problem(kind, f"{self}: {text}", self.place)


@dataclass(slots=True, eq=False)
class Step(Element):
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

    @property
    def place(self) -> Place:
        """Where it is, whatever it says itself."""
        gpu, tb, _ = self.around.place
        return Place(gpu, tb, self.index)


@dataclass(slots=True, eq=False)
class Threadblock(Element):
    """Steps that follow each other; `send` and `recv` are -1 without such a peer."""

    id: int
    send: int
    recv: int
    chan: int
    steps: list[Step] = field(default_factory=list)

    @property
    def place(self) -> Place:
        """Where it is."""
        return Place(self.around.id, self.id)

    @property
    def sends_on(self) -> Connection:
        """The connection that it sends on."""
        return self.around.id, self.send, self.chan

    @property
    def receives_on(self) -> Connection:
        """The connection that it receives on."""
        return self.recv, self.around.id, self.chan


@dataclass(slots=True, eq=False)
class Gpu(Element):
    """One rank: how many chunks its buffers hold, and its threadblocks."""

    id: int
    i_chunks: int
    o_chunks: int
    s_chunks: int
    threadblocks: list[Threadblock] = field(default_factory=list)

    @property
    def place(self) -> Place:
        """Where it is."""
        return Place(self.id)


@dataclass(slots=True)
class Purpose:
    """What a file of ours says, in elements that runtimes ignore, if it does less than its collective.

    `members` are the ranks that it is for, and `shares` the chunks that a rank sends to each; none stand for all.
    """

    members: list[int] = field(default_factory=list)
    shares: dict[int, list[int]] = field(default_factory=dict)


@dataclass(slots=True, eq=False)
class XmlAlgorithm(Element):
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

    @property
    def blocks(self) -> list[Threadblock]:
        """All threadblocks."""
        return [tb for gpu in self.gpus for tb in gpu.threadblocks]

    @property
    def steps(self) -> list[Step]:
        """All steps."""
        return [step for tb in self.blocks for step in tb.steps]


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
    refuse_endless(path)
    try:
        text = Path(path).read_text(encoding="utf-8")
    except FileNotFoundError:
        raise FormatError(f"{path}: there is no such file") from None
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
    return next(iter(reader.algorithms), None), list(reader.problems)


# Per element: the element that it must be in, what it becomes, and where that is kept in the one around it. The reader
# itself is around the first.
_ELEMENTS: dict[str, tuple[str, Any, str]] = {
    "algo": ("", XmlAlgorithm, "algorithms"),
    "gpu": ("algo", Gpu, "gpus"),
    "tb": ("gpu", Threadblock, "threadblocks"),
    "step": ("tb", Step, "steps"),
    "pccl": ("algo", None, ""),
}
# Per element: its attributes in their order, and what they are taken for where they are missing; words are empty.
_DEFAULTS = {
    name: {
        column.name: "" if column.type == "str" else "0"
        for column in fields(made)[2:]
        if column.default_factory is MISSING
    }
    for name, (_, made, _) in _ELEMENTS.items()
    if made
}
_WANTED = {name: [*defaults] for name, defaults in _DEFAULTS.items()}


class _Wholes(dict[str, int | None]):
    """Texts as whole numbers, those seen before at once; or None for what is no whole number."""

    def __missing__(self, text: str) -> int | None:
        self[text] = int(text) if _WHOLE.fullmatch(text) else None
        return self[text]


class _Names(dict[tuple[str, ...], list[str] | None]):
    """The names of attributes by what is around their values, which is the same in most tags of an element."""

    def __missing__(self, around: tuple[str, ...]) -> list[str] | None:
        text = '""'.join(around)
        usual = _USUAL.fullmatch(text)
        self[around] = [name for name, _ in _ATTRIBUTE.findall(text)] if usual else None
        return self[around]


class _Reader:
    """Builds the elements as their tags come."""

    def __init__(self, text: str, may_lack: tuple[str, ...]) -> None:
        # Line ends of comments stay, so that lines are counted as in the file.
        self.text = _COMMENT.sub(lambda match: "\n" * match[0].count("\n"), text)
        self.may_lack = may_lack
        self.problems = Problems()
        self.algorithms: list[XmlAlgorithm] = []
        # The elements that are open, with what they have become if they are known and where they should be.
        self.open: list[tuple[str, Any]] = [("", self)]
        # Where it is reading, and up to where it has counted lines, which only problems need.
        self.position = 0
        self.counted = 0
        self.line = 1
        self.names = _Names()
        self.wholes = _Wholes()

    def run(self) -> None:
        text = self.text
        end = 0
        for match in _TAG.finditer(text):
            begin = match.start()
            # Mostly nothing but the end of a line, and spaces.
            if text[end:begin].strip(" \n"):
                self._pass(end, begin)
            self.position = begin
            end = match.end()
            ends, name, inside = match.groups()
            if "\n" in inside:
                self._problem("there is a newline inside a tag, which the runtimes reject")
            names, values = self._attributes(inside.removesuffix("/"))
            if ends:
                if self.open[-1][0] != name:
                    self._problem(f"</{name}> closes nothing that is open")
                    return
                self.open.pop()
                continue
            if not self.algorithms and len(self.open) == 1 and name != "algo":
                self._problem(f"the first element is {name!r}; the runtimes want 'algo'")
                return
            made = self._element(name, names, values)
            # What closes itself is never open.
            if not inside.endswith("/"):
                self.open.append((name, made))
        self._pass(end, len(text))
        self.position = len(text)
        if not self.algorithms:
            self._problem("there is no element 'algo'")
        elif len(self.open) > 1:
            self._problem(f"<{self.open[-1][0]}> is not closed")

    def _pass(self, begin: int, end: int) -> None:
        """Say what is wrong with what is between tags."""
        for line in self.text[begin:end].split("\n"):
            self.position = begin
            begin += len(line) + 1
            if "\t" in line:
                self._problem("there is a tab, which the runtimes reject")
            words = line.strip()
            if words:
                what = "an <?xml?> line" if words.startswith("<?") else f"the text {words[:20]!r}"
                self._problem(f"there is {what} between tags, which the runtimes reject")

    def _attributes(self, text: str) -> tuple[list[str], list[str]]:
        """Names and values of what is inside a tag."""
        # Every second piece is a value; what is between them is the same in tag after tag, and looked up as a whole.
        pieces = text.split('"')
        values = pieces[1::2]
        names = self.names[tuple(pieces[::2])]
        if names is None or len(names) != len(values) or "\t" in text or "\n" in text:
            text = self._mended(text)
            found = _ATTRIBUTE.findall(text)
            names = [name for name, _ in found]
            values = [value for _, value in found]
        if len(names) > _MOST_ATTRIBUTES:
            self._problem(
                f"a tag has {len(names)} attributes; the runtimes keep {_MOST_ATTRIBUTES}"
            )
        # Only a long tag can have a long value.
        if len(text) > MOST_CHARACTERS:
            for name, value in zip(names, values, strict=True):
                if len(value) > MOST_CHARACTERS:
                    self._problem(
                        f"the value of {name!r} has {len(value)} characters; the runtimes keep {MOST_CHARACTERS}"
                    )
        return names, values

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

    def _element(self, name: str, names: list[str], values: list[str]) -> Any:
        """What an element becomes; nothing if runtimes ignore it, or if it is not where it should be."""
        if name not in _ELEMENTS:
            return None
        parent, made, kept = _ELEMENTS[name]
        outer, around = self.open[-1]
        # An element inside one that is out of place is out of place as well.
        if outer != parent or around is None or (around is self and self.algorithms):
            inside = " ".join(f"<{outer}>" for outer, _ in self.open[1:]) or "nothing"
            self._problem(f"<{name}> is out of place, inside {inside}")
            return None
        if made is None:
            self._read_purpose(around.purpose, dict(zip(names, values, strict=True)))
            return None
        siblings = getattr(around, kept)
        element = made(around, len(siblings), *self._values(name, names, values))
        siblings.append(element)
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

    def _values(self, element: str, names: list[str], values: list[str]) -> list[Any]:
        """The attributes of an element in their order; what is wrong or missing is taken as the runtimes would."""
        defaults = _DEFAULTS[element]
        wanted = _WANTED[element]
        # Most files have all attributes in this order, and need no dictionary for each of their steps.
        if names != wanted:
            given = dict(zip(names, values, strict=True))
            for name in wanted:
                if name not in given and name not in self.may_lack:
                    self._problem(
                        f"<{element}> lacks {name!r}, for which the runtimes ignore or reject the file"
                    )
            values = [given.get(name, default) for name, default in defaults.items()]
        wholes = self.wholes
        found = [
            wholes[value] if default else value
            for value, default in zip(values, defaults.values(), strict=True)
        ]
        # There may be several, and each is reported.
        while None in found:
            wrong = found.index(None)
            found[wrong] = 0
            self._problem(
                f"{wanted[wrong]}={values[wrong][:20]!r} of <{element}> is not a whole number; the runtimes would take "
                "it for 0"
            )
        return found

    def _problem(self, text: str) -> None:
        # Lines are counted from where the last problem was, not from the beginning each time.
        self.line += self.text.count("\n", self.counted, self.position)
        self.counted = self.position
        self.problems.add(Kind.TEXT, f"line {self.line}: {text}")
