"""What people read: tables on a terminal, plain text in a pipe."""

from __future__ import annotations

import json
import os
import re
import sys
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import click

from pccl.errors import FormatError

# A longer table is printed as plain text, block by block.
_MOST_ROWS_FOR_RICH = 2_000
_BLOCK = 10_000


def print_json(document: Any) -> None:
    """Print one JSON document, with lists of numbers on one line."""
    # Names of networks may be in any script, and are meant to be read.
    text = json.dumps(document, indent=2, ensure_ascii=False)
    click.echo(
        # A matrix or a list of ranks takes one line a row, and not one a number.
        re.sub(r"\[\n[-\d,\s]+\]", lambda match: f"[{' '.join(match[0][1:-1].split())}]", text)
    )


def print_error(text: str, prefix: str = "error: ") -> None:
    """Print one line to stderr, whatever the text is made of."""
    # Names in messages may hold line breaks or terminal codes, and scripts read one line.
    line = " ".join("".join(c if c.isprintable() else " " for c in text).split())
    click.echo(f"{prefix}{line}", err=True)


def print_line(text: str) -> None:
    """Print text without the control characters that a name in a file might hold."""
    click.echo(_clean(text))


def print_facts(facts: Mapping[str, str]) -> None:
    """Print names and texts in two columns; further lines of a text are indented already."""
    # As wide everywhere, so that texts of several commands line up below each other.
    width = max(12, *map(_width, facts))
    lines = [(f"{_padded(name, width)} ", _clean(text)) for name, text in facts.items()]
    if not sys.stdout.isatty():
        for line in lines:
            click.echo("".join(line))
        return
    from rich.text import Text

    console = _console()
    for name, text in lines:
        # Assembled and not marked up: brackets in a text are not styles. The terminal wraps it, so that
        # what is copied from there is one line.
        console.print(Text.assemble((name, "bold cyan"), text), soft_wrap=True)


def print_table(
    columns: Sequence[str],
    rows: Iterable[Iterable[object]],
    count: int,
    spare: Sequence[str] = (),
) -> None:
    """Print `count` rows; see :class:`Table`."""
    if not sys.stdout.isatty() or count > _MOST_ROWS_FOR_RICH:
        Table(columns, spare).add_plain(rows)
    else:
        Table(columns, spare).add(rows)


class Table:
    """Rows that are printed as they come; columns whose name begins with ``>`` are aligned to the right.

    On a narrow terminal, numbers and the first column of words keep their width; other words and headers wrap, and the
    columns that can be spared are left out, one after another, until the others have room.
    """

    def __init__(self, columns: Sequence[str], spare: Sequence[str] = ()) -> None:
        self.columns = list(columns)
        self.spare = spare
        self.kept: list[int] = []  # columns that there is room for
        self.widths: list[int] = []  # of all columns, so far

    def add(self, rows: Iterable[Iterable[object]], expected: Iterable[Sequence[str]] = ()) -> None:
        """Print some rows, below a header if they are the first; columns have room for what is expected later."""
        cells = [[_clean(str(cell)) for cell in row] for row in rows]
        is_first = not self.widths
        self._make_room(expected)
        if not sys.stdout.isatty():
            self._print(cells, is_first)
            return
        from rich import box
        from rich.table import Table as RichTable

        console = _console()
        # Lines only below the header: the columns of a table are to be seen, not the table.
        table = RichTable(
            box=box.SIMPLE_HEAD,
            show_header=is_first,
            show_edge=False,
            pad_edge=False,
            padding=(0, 1, 0, 0),
            header_style="bold cyan",
        )
        if is_first:
            self.kept = self._with_room(cells, console.width)
        self._make_room(cells)
        columns = [self.columns[i] for i in self.kept]
        widths = [self.widths[i] for i in self.kept]
        names = [name for name in columns if not name.startswith(">")]
        # Two signs between columns. If that is too wide, headers are broken before numbers are.
        is_narrow = sum(widths) + 2 * len(widths) > console.width
        for i, name in zip(self.kept, columns, strict=True):
            # A number that wraps is misread, and so is the name that a row begins with.
            keeps_width = name not in names[1:]
            header = name.removeprefix(">")
            words = [*header.split(), *(row[i] for row in cells)]
            least = max(map(_width, words), default=0) if keeps_width else None
            table.add_column(
                header.replace(" ", "\n") if is_narrow and keeps_width else header,
                justify="left" if name in names else "right",
                min_width=least if is_narrow else self.widths[i],
            )
        for row in cells:
            table.add_row(*(row[i] for i in self.kept))
        # What is too wide even so is left to the terminal, rather than cut off.
        console.print(table, crop=False)

    def add_plain(self, rows: Iterable[Iterable[object]]) -> None:
        """Print any number of rows as plain text, so that even a very long table starts at once."""
        remaining = iter(rows)
        is_first = not self.widths
        self._make_room(())
        # Blocks keep the memory small and the first lines quick; a later block may be wider.
        while block := [[_clean(str(cell)) for cell in row] for row in islice(remaining, _BLOCK)]:
            self._print(block, is_first)
            is_first = False

    def _print(self, cells: list[list[str]], is_first: bool) -> None:
        self._make_room(cells)
        signs = [">" if name.startswith(">") else "<" for name in self.columns]
        names = [name.removeprefix(">") for name in self.columns]
        for row in [names, *cells] if is_first else cells:
            layout = zip(row, signs, self.widths, strict=True)
            click.echo(
                "  ".join(_padded(cell, width, sign) for cell, sign, width in layout).rstrip()
            )

    def _make_room(self, cells: Iterable[Sequence[str]]) -> None:
        """Make columns as wide as these cells, of which a row may have only the first ones."""
        if not self.widths:
            self.widths = [_width(name.removeprefix(">")) for name in self.columns]
        for row in cells:
            for i, cell in enumerate(row):
                self.widths[i] = max(self.widths[i], _width(cell))

    def _with_room(self, cells: list[list[str]], room: int) -> list[int]:
        """The columns without some of those that can be spared, so that they fit if they can."""
        kept = list(range(len(self.columns)))
        for name in self.spare:
            # Words of a header stand below one another where that saves room.
            least = [
                max(
                    _width(text)
                    for text in (
                        *self.columns[i].removeprefix(">").split(),
                        *(row[i] for row in cells),
                        "",
                    )
                )
                for i in kept
            ]
            if sum(least) + 2 * len(kept) <= room:
                break
            kept.remove(self.columns.index(name))
        return kept


def check_writable(path: Path, suffixes: Sequence[str], what: str) -> None:
    """Raise, before any work is done, if a file could not be written there in the end."""
    # Asked one after another, since each question makes sense only if the ones before are answered.
    problem = ""
    if path.suffix not in suffixes:
        problem = f"{what} is saved as {' or '.join(suffixes)}"
    elif path.is_dir():
        problem = "it is a folder"
    elif not path.parent.is_dir():
        problem = f"there is no folder {path.parent}"
    # A new file needs a folder that can be written, an old one must be writable itself.
    elif not os.access(path if path.exists() else path.parent, os.W_OK):
        problem = "permission denied"
    if problem:
        raise FormatError(f"cannot write {path}: {problem}")


def rows_of(names: Iterable[str], columns: Iterable[Any]) -> Iterator[dict[str, Any]]:
    """Return what arrays of equal length hold, row by row, by the names of the columns."""
    keys = list(names)
    for values in zip(*(column.tolist() for column in columns), strict=True):
        yield dict(zip(keys, values, strict=True))


def microseconds(time: int, digits: int = 3) -> str:
    """Return a time in picoseconds as people compare it: in microseconds, without the unit."""
    return f"{int(time) / 1e6:,.{digits}f}"


def _console() -> Any:
    from rich.console import Console

    # Names of networks such as [a] or :rocket: are text, and numbers have no colour.
    return Console(markup=False, highlight=False, emoji=False)


def _width(text: str) -> int:
    """How many columns of a terminal a text takes: signs of Chinese, Japanese and Korean take two.

    Examples
    --------
    >>> _width("ring"), _width("机架"), _width("e\N{COMBINING ACUTE ACCENT}")
    (4, 4, 1)
    """
    # Nearly always, and much quicker.
    if text.isascii():
        return len(text)
    return sum(
        0 if unicodedata.combining(sign) else 2 if unicodedata.east_asian_width(sign) in "WF" else 1
        for sign in text
    )


def _padded(text: str, width: int, sign: str = "<") -> str:
    """The text with blanks on its right, or with ``>`` on its left, up to a width on the terminal."""
    blanks = " " * (width - _width(text))
    return blanks + text if sign == ">" else text + blanks


def _clean(text: str) -> str:
    """Without control characters, which a name in a file might hold; line breaks stay."""
    # Nearly always, and much quicker than to look at every character of a long table.
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() or c == "\n" else "?" for c in text)
