"""What people read: tables and a progress line on a terminal, plain text in a pipe."""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import Any

import click

from pccl.errors import FormatError

__all__ = [
    "check_writable", "examples", "print_error", "print_facts", "print_json", "print_log", "print_table", "progress",
]  # fmt: skip

Report = Callable[[int, int, str], None]
_FOR_RICH = 2_000  # rows; a longer table is printed as plain text, block by block
_BLOCK = 10_000


def examples(*lines: str, then: str = "") -> str:
    """Write the end of a help text: the examples, line by line."""
    return "\n".join(["\b", "Examples:", *(f"  {line}" for line in lines)]) + (
        f"\n\n{then}" if then else ""
    )


def print_json(document: Any) -> None:
    """Print one JSON document, with lists of numbers on one line."""
    text = json.dumps(document, indent=2, ensure_ascii=False)
    click.echo(
        re.sub(r"\[\n[-\d,\s]+\]", lambda match: f"[{' '.join(match[0][1:-1].split())}]", text)
    )


def print_error(text: str, prefix: str = "error: ") -> None:
    """Print one line to stderr, whatever the text is made of."""
    line = " ".join("".join(c if c.isprintable() else " " for c in text).split())
    click.echo(f"{prefix}{line}", err=True)


def print_facts(facts: Mapping[str, str]) -> None:
    """Print names and texts in two columns; further lines of a text are indented already."""
    width = max(12, *map(len, facts))
    if not sys.stdout.isatty():
        for name, text in facts.items():
            click.echo(f"{name:<{width}} {_clean(text)}")
        return
    from rich.text import Text

    console = _console()
    for name, text in facts.items():
        console.print(
            Text.assemble((f"{name:<{width}} ", "bold cyan"), _clean(text)), soft_wrap=True
        )


def print_table(columns: Sequence[str], rows: Iterable[Sequence[object]], count: int) -> None:
    """Print `count` rows; columns whose name begins with ``>`` are aligned to the right."""
    if not sys.stdout.isatty() or count > _FOR_RICH:
        _print_plain(columns, rows)
        return
    from rich import box
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, header_style="bold cyan")
    for name in columns:
        right = name.startswith(">")
        table.add_column(
            name.removeprefix(">"),
            justify="right" if right else "left",
            no_wrap=right,
            overflow="fold",
        )
    for row in rows:
        table.add_row(*(_clean(str(cell)) for cell in row))
    _console().print(table)


def print_log() -> Callable[[Any], None]:
    """A solver's log on stderr, line by line."""
    lines = 0

    def log(entry: Any) -> None:
        nonlocal lines
        if not lines:
            click.echo(f"{'time':>8}  {'best':>12}  {'bound':>12}  {'gap':>7}  found by", err=True)
        lines += 1
        best, bound = (f"{int(time) / 1e6:,.2f} us" for time in (entry.best, entry.bound))
        click.echo(
            f"{entry.elapsed:>6.2f} s  {best:>12}  {bound:>12}  {entry.gap:>7.1%}  {entry.method}",
            err=True,
        )

    return log


@contextmanager
def progress(quiet: bool) -> Iterator[Report | None]:
    """Show a progress line on stderr while it lasts, if that is a terminal."""
    if quiet or not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        SpinnerColumn,
        TextColumn,
        TimeElapsedColumn,
    )

    columns = (SpinnerColumn(), TextColumn("{task.description}", markup=False), BarColumn(20), MofNCompleteColumn(),
               TimeElapsedColumn())  # fmt: skip
    with Progress(*columns, console=Console(stderr=True), transient=True) as line:
        task = line.add_task("preparing", total=None)
        shown = ""

        def report(done: int, total: int, text: str) -> None:
            nonlocal shown
            line.update(task, completed=done, total=total, description=text)
            if text != shown:  # at once: what follows may keep the interpreter busy
                line.refresh()
                shown = text

        yield report


def check_writable(path: Path, suffixes: Sequence[str], what: str) -> None:
    """Raise, before any work is done, if a file could not be written there in the end."""
    if path.suffix not in suffixes:
        raise FormatError(f"cannot write {path}: {what} is saved as {' or '.join(suffixes)}")
    if path.is_dir():
        raise FormatError(f"cannot write {path}: it is a folder")
    if not path.parent.is_dir():
        raise FormatError(f"cannot write {path}: there is no folder {path.parent}")
    if not os.access(path if path.exists() else path.parent, os.W_OK):
        raise FormatError(f"cannot write {path}: permission denied")


def _console() -> Any:
    from rich.console import Console

    return Console(markup=False, highlight=False, emoji=False)


def _print_plain(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Columns as wide as their widest cell so far, so that even a very long table starts at once."""
    names = [name.removeprefix(">") for name in columns]
    widths = [len(name) for name in names]
    remaining, first = iter(rows), True
    while block := [[_clean(str(cell)) for cell in row] for row in islice(remaining, _BLOCK)]:
        widths = [
            max(width, *map(len, cells))
            for width, cells in zip(widths, zip(*block, strict=True), strict=True)
        ]
        for row in [names, *block] if first else block:
            cells = (f"{cell:{'>' if column[:1] == '>' else '<'}{width}}"
                     for cell, column, width in zip(row, columns, widths, strict=True))  # fmt: skip
            click.echo("  ".join(cells).rstrip())
        first = False


def _clean(text: str) -> str:
    """Without control characters, which a name in a file might hold; line breaks stay."""
    return (
        text
        if text.isprintable()
        else "".join(c if c.isprintable() or c == "\n" else "?" for c in text)
    )
