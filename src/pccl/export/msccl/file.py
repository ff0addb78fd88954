"""What is in an MSCCL-IR file, read as strictly as the runtimes read it.

They have no XML parser but hand-written readers, which reject much of XML and take other things for zero in silence.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from pccl.errors import FormatError

__all__ = ["Algo", "Gpu", "Step", "Threadblock", "read"]

_TAG = re.compile(r"<(?P<end>/?)(?P<name>[A-Za-z_][\w.-]*)(?P<rest>[^<>]*?)(?P<empty>/?)>")
_ATTRIBUTE = re.compile(r' *([A-Za-z_][\w.-]*) *= *"([^"]*)"')
_WHOLE = re.compile(r"-?[0-9]+")
_COMMENT = re.compile(r"<!--.*?-->", re.DOTALL)
_MOST_ATTRIBUTES, _MOST_CHARACTERS = 16, 255

_NUMBERS = {
    "algo": ("nchannels", "nchunksperloop", "ngpus", "inplace", "outofplace", "minBytes", "maxBytes"),
    "gpu": ("id", "i_chunks", "o_chunks", "s_chunks"),
    "tb": ("id", "send", "recv", "chan"),
    "step": ("s", "srcoff", "dstoff", "cnt", "depid", "deps", "hasdep"),
}
_WORDS = {"algo": ("name", "proto", "coll"), "gpu": (), "tb": (), "step": ("type", "srcbuf", "dstbuf")}


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


class _Reader:
    """Builds the elements as their tags come."""

    def __init__(self, text: str) -> None:
        self.text, self.problems = text, list[str]()
        self.algo: Algo | None = None
        self.open: list[str] = []
        self.line = 1

    def run(self) -> None:
        for name, attributes, ends, empty in self._tags():
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

    def _tags(self) -> Iterator[tuple[str, dict[str, str], bool, bool]]:
        text = _COMMENT.sub(lambda match: "\n" * match[0].count("\n"), self.text)
        position = 0
        while position < len(text):
            match = _TAG.search(text, position)
            between = text[position : match.start() if match else len(text)]
            self._between(between)
            if match is None:
                return
            if "\n" in match[0]:
                self._problem("there is a newline inside a tag, which the runtimes reject")
            yield match["name"], self._attributes(match["rest"]), bool(match["end"]), bool(match["empty"])
            self.line += match[0].count("\n")
            position = match.end()

    def _between(self, text: str) -> None:
        for line in text.split("\n"):
            if "\t" in line:
                self._problem("there is a tab, which the runtimes reject")
            if line.strip():
                what = "an <?xml?> line" if line.strip().startswith("<?") else f"the text {line.strip()[:20]!r}"
                self._problem(f"there is {what} between tags, which the runtimes reject")
            self.line += 1
        self.line -= 1

    def _attributes(self, text: str) -> dict[str, str]:
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
            self._problem(f"a tag has {len(found)} attributes; the runtimes keep {_MOST_ATTRIBUTES}")
        for name, value in found:
            if len(value) > _MOST_CHARACTERS:
                self._problem(
                    f"the value of {name!r} has {len(value)} characters; the runtimes keep {_MOST_CHARACTERS}"
                )
        return dict(found)

    def _element(self, name: str, attributes: dict[str, str]) -> None:
        if name == "algo" and self.algo is None and not self.open:
            self.algo = Algo(**self._values(name, attributes))  # type: ignore[arg-type]
        elif name == "gpu" and self.algo is not None and self.open == ["algo"]:
            self.algo.gpus.append(Gpu(**self._values(name, attributes)))  # type: ignore[arg-type]
        elif name == "tb" and self.algo is not None and self.algo.gpus and self.open == ["algo", "gpu"]:
            self.algo.gpus[-1].threadblocks.append(Threadblock(**self._values(name, attributes)))  # type: ignore[arg-type]
        elif name == "step" and self.algo is not None and self.open == ["algo", "gpu", "tb"]:
            values = self._values(name, attributes)
            self.algo.gpus[-1].threadblocks[-1].steps.append(Step(**values))  # type: ignore[arg-type]
        elif name in _NUMBERS:
            self._problem(
                f"<{name}> is out of place, inside {' '.join(f'<{outer}>' for outer in self.open) or 'nothing'}"
            )

    def _values(self, element: str, attributes: dict[str, str]) -> dict[str, int | str]:
        values: dict[str, int | str] = {name: attributes.get(name, "") for name in _WORDS[element]}
        for name in (name for name in _NUMBERS[element] + _WORDS[element] if name not in attributes):
            self._problem(f"<{element}> lacks {name!r}, for which the runtimes ignore or reject the file")
        for name in _NUMBERS[element]:
            text = attributes.get(name, "0")
            values[name] = int(text) if _WHOLE.fullmatch(text) else 0
            if not _WHOLE.fullmatch(text):
                self._problem(f"{name}={text!r} of <{element}> is not a whole number; the runtimes would take it for 0")
        return values

    def _problem(self, text: str) -> None:
        line = f"line {self.line}: {text}"
        if line not in self.problems:
            self.problems.append(line)
