"""What people read: tables and a progress line on a terminal, plain text in a pipe."""

from __future__ import annotations

import json
import os
import re
import signal
import sys
import threading
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import click

from pccl.errors import FormatError

# A longer table is printed as plain text, block by block.
_MOST_ROWS_FOR_RICH = 2_000
_BLOCK = 10_000
# On the live line: signs of what is going on, and the width from which on there is room for a bar and for words.
_MOST_OF_A_DESCRIPTION = 24
_WIDE = 100


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
    """Print `count` rows; columns whose name begins with ``>`` are aligned to the right.

    On a narrow terminal, numbers and the first column of words keep their width; other words and headers wrap, and the
    columns that can be spared are left out, one after another, until the others have room.
    """
    if not sys.stdout.isatty() or count > _MOST_ROWS_FOR_RICH:
        _print_plain(columns, rows)
        return
    from rich import box
    from rich.table import Table

    # Lines only below the header: the columns of a table are to be seen, not the table.
    table = Table(
        box=box.SIMPLE_HEAD,
        show_edge=False,
        pad_edge=False,
        padding=(0, 1, 0, 0),
        header_style="bold cyan",
    )
    console = _console()
    cells = [[_clean(str(cell)) for cell in row] for row in rows]
    columns, cells = _without_spare(columns, cells, spare, console.width)
    names = [name for name in columns if not name.startswith(">")]
    widths = [
        max(map(_width, (name, *column))) for name, *column in zip(columns, *cells, strict=True)
    ]
    # Two signs between columns. If that is too wide, headers are broken before numbers are.
    is_narrow = sum(widths) + 2 * len(widths) > console.width
    for i, name in enumerate(columns):
        # A number that wraps is misread, and so is the name that a row begins with.
        keeps_width = name not in names[1:]
        header = name.removeprefix(">")
        words = [*header.split(), *(row[i] for row in cells)]
        table.add_column(
            header.replace(" ", "\n") if is_narrow and keeps_width else header,
            justify="left" if name in names else "right",
            min_width=max(map(_width, words), default=0) if keeps_width else None,
        )
    for row in cells:
        table.add_row(*row)
    # What is too wide even so is left to the terminal, rather than cut off.
    console.print(table, crop=False)


def _without_spare(
    columns: Sequence[str], cells: list[list[str]], spare: Sequence[str], room: int
) -> tuple[list[str], list[list[str]]]:
    """The table without some of the columns that can be spared, so that it fits if it can."""
    kept = list(range(len(columns)))
    for name in spare:
        # Words of a header stand below one another where that saves room.
        least = [
            max(
                _width(text)
                for text in (*columns[i].lstrip(">").split(), *(row[i] for row in cells), "")
            )
            for i in kept
        ]
        if sum(least) + 2 * len(kept) <= room:
            break
        kept.remove(columns.index(name))
    return [columns[i] for i in kept], [[row[i] for i in kept] for row in cells]


@dataclass
class Watch:
    """What a long search tells while it lasts, as arguments of :func:`pccl.synthesize`, and whether it was stopped."""

    progress: Callable[[int, int, str], None] | None = None
    log: Callable[[Any], None] | None = None
    interrupted: bool = False


@contextmanager
def watching(quiet: bool, verbose: bool = False) -> Iterator[Watch]:
    """Show one line on stderr while it lasts, if that is a terminal; the whole log if `verbose`.

    Ctrl-C raises as always, and is remembered: a search ends with the best that it has found by then.
    """
    watch = Watch()

    # The search catches KeyboardInterrupt and returns its best; only we know that it was stopped.
    def interrupt(*_: Any) -> None:
        watch.interrupted = True
        raise KeyboardInterrupt

    with ExitStack() as stack:
        if threading.current_thread() is threading.main_thread():  # elsewhere, signals are not ours
            before = signal.signal(signal.SIGINT, interrupt)
            stack.callback(signal.signal, signal.SIGINT, before)
        # A pipe or a log file gets no line that draws over itself.
        if not quiet and sys.stderr.isatty():
            stack.enter_context(_live_line(watch, verbose))
        elif verbose:
            watch.log = _logging(lambda line: click.echo(line, err=True))
        yield watch


@contextmanager
def _live_line(watch: Watch, verbose: bool) -> Iterator[None]:
    from rich import progress
    from rich.console import Console

    console = Console(stderr=True)
    is_wide = console.width >= _WIDE
    columns = [
        progress.SpinnerColumn(),
        progress.TextColumn("{task.description}", markup=False),
        progress.MofNCompleteColumn(),
        progress.TextColumn("{task.fields[best]}", markup=False),
        progress.TimeElapsedColumn(),
    ]
    if is_wide:
        columns.insert(2, progress.BarColumn(20))
    with progress.Progress(*columns, console=console, transient=True) as line:
        # No total yet: the bar moves to and fro until the search says how much there is to do.
        task = line.add_task("preparing", total=None, best="")
        # Through the console of the line, which moves down to make room; echo would tear it.
        print_entry = _logging(lambda text: line.console.print(text, markup=False, soft_wrap=True))
        shown = ""

        def report(done: int, total: int, text: str) -> None:
            nonlocal shown
            text = _brief(text)
            line.update(task, completed=done, total=total, description=text)
            if text != shown:  # at once: what follows may keep the interpreter busy
                line.refresh()
                shown = text

        def log(entry: Any) -> None:
            best = f"{microseconds(entry.best, 2)} us"
            gap = f"{entry.gap:.1%}"
            text = f"best {best}, {gap} above the bound" if is_wide else f"{best}, +{gap}"
            line.update(task, best=text)
            if verbose:
                print_entry(entry)

        watch.progress = report
        watch.log = log
        yield


def _brief(text: str) -> str:
    """What is going on, as long as the live line has room for it: the name of a method without its knobs.

    Examples
    --------
    >>> _brief("earliest arrival, rounds, any routes, in steps")
    'earliest arrival'
    >>> _brief("compiling kernels, first run only")
    'compiling kernels, first run only'
    """
    # Said once, and worth more than the room for counts that there are not yet.
    if text.startswith("compiling"):
        return text
    text = text.partition(",")[0]
    most = _MOST_OF_A_DESCRIPTION
    return text if len(text) <= most else text[: most - 1] + "…"


def _logging(write: Callable[[str], None]) -> Callable[[Any], None]:
    """A solver's log, line by line, below a header."""
    # Printed with the first entry: a search that finds nothing prints no empty table.
    header = [f"{'time':>8}  {'best':>12}  {'bound':>12}  {'gap':>7}  found by"]

    def log(entry: Any) -> None:
        while header:
            write(header.pop())
        best, bound = (f"{microseconds(time, 2)} us" for time in (entry.best, entry.bound))
        write(
            f"{entry.elapsed:>6.2f} s  {best:>12}  {bound:>12}  {entry.gap:>7.1%}  {entry.method}"
        )

    return log


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


def _print_plain(columns: Sequence[str], rows: Iterable[Iterable[object]]) -> None:
    """Columns as wide as their widest cell so far, so that even a very long table starts at once."""
    names = [name.removeprefix(">") for name in columns]
    widths = [_width(name) for name in names]
    signs = [">" if name.startswith(">") else "<" for name in columns]
    remaining = iter(rows)
    header = [names]
    # Blocks keep the memory small and the first lines quick; a later block may be wider.
    while block := [[_clean(str(cell)) for cell in row] for row in islice(remaining, _BLOCK)]:
        for i, cells in enumerate(zip(*block, strict=True)):
            widths[i] = max(widths[i], *map(_width, cells))
        for row in header + block:
            layout = zip(row, signs, widths, strict=True)
            click.echo(
                "  ".join(_padded(cell, width, sign) for cell, sign, width in layout).rstrip()
            )
        header = []


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
