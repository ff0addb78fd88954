"""XML that comes from anywhere: no entities, no declarations, nothing deep, and every element knows its line."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from xml.parsers import expat

from pccl.topology.importers.model import Source

# A dump of a rack of 72 GPUs has some thousand elements, nested seven deep.
_MOST_ELEMENTS = 200_000
_MOST_LEVELS = 64


@dataclass
class Element:
    """One element of a document, with the line where it begins."""

    tag: str
    attributes: dict[str, str]
    line: int
    children: list[Element] = field(default_factory=list)

    def get(self, name: str, default: str = "") -> str:
        """The text of an attribute."""
        return self.attributes.get(name, default).strip()

    def all(self, tag: str) -> Iterator[Element]:
        """Every element of a kind at or below this one, in the order of the document."""
        if self.tag == tag:
            yield self
        for child in self.children:
            yield from child.all(tag)


def read_xml(source: Source) -> Element:
    """Return the root of the document."""
    parser = expat.ParserCreate()
    open_elements: list[Element] = []
    roots: list[Element] = []
    count = 0

    def start(tag: str, attributes: dict[str, str]) -> None:
        nonlocal count
        count += 1
        line = parser.CurrentLineNumber
        if count > _MOST_ELEMENTS or len(open_elements) > _MOST_LEVELS:
            raise source.error(
                f"more than {_MOST_ELEMENTS:,} elements, or nested deeper than {_MOST_LEVELS}", line
            )
        element = Element(tag, attributes, line)
        (open_elements[-1].children if open_elements else roots).append(element)
        open_elements.append(element)

    def end(_: str) -> None:
        open_elements.pop()

    def refuse(*_: object) -> None:
        # Entities can make a small file huge, and can name other files.
        raise source.error("a DOCTYPE; dumps of machines have none", parser.CurrentLineNumber)

    parser.StartElementHandler = start
    parser.EndElementHandler = end
    parser.StartDoctypeDeclHandler = refuse
    parser.EntityDeclHandler = refuse
    try:
        parser.Parse(source.text, True)
    except expat.ExpatError as error:
        raise source.error(f"broken XML: {expat.ErrorString(error.code)}", error.lineno) from None
    return roots[0]
