"""What a long command tells while it lasts, on stderr: a live line on a terminal, now and then a line elsewhere."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import click

from pccl.cli.console import microseconds, print_error
from pccl.cli.stopping import undoing
from pccl.errors import StoppedError

if TYPE_CHECKING:
    from pccl.algorithm import Algorithm
    from pccl.synthesis import Entry

# On the live line: signs of what is going on, and the width from which on there is room for a bar and for words.
_MOST_OF_A_DESCRIPTION = 24
_WIDE = 100
# Seconds from one line to the next where there is no terminal.
_PAUSE = 10.0


@dataclass
class Watch:
    """What is going on, as arguments of :func:`pccl.synthesize` hear of it."""

    begin: float = field(default_factory=time.monotonic)
    done: int = 0
    total: int = 0  # 0 while it is not known
    text: str = "preparing"
    found: Entry | None = None  # the best so far
    listeners: list[Callable[[], None]] = field(default_factory=list)  # told of every change
    write_entry: Callable[[Entry], None] | None = None

    def progress(self, done: int, total: int, text: str) -> None:
        """Take note of what is going on."""
        self.done = done
        self.total = total
        self.text = text
        for tell in self.listeners:
            tell()

    def log(self, entry: Entry) -> None:
        """Take note of something better."""
        # The last line of an interrupted search says nothing new.
        if entry.algorithm is not None:
            self.found = entry
        for tell in self.listeners:
            tell()
        if self.write_entry is not None:
            self.write_entry(entry)

    @property
    def elapsed(self) -> str:
        """How long it has been, as hours, minutes and seconds."""
        seconds = int(time.monotonic() - self.begin)
        return f"{seconds // 3600}:{seconds // 60 % 60:02}:{seconds % 60:02}"

    def best(self, in_words: bool) -> str:
        """The best so far; nothing where there is none."""
        if self.found is None:
            return ""
        best = f"{microseconds(self.found.best, 2)} us"
        gap = f"{self.found.gap:.1%}"
        return f"best {best}, {gap} above the bound" if in_words else f"{best}, +{gap}"


def best_so_far(watch: Watch) -> Algorithm:
    """The best that a search has told of before it was stopped."""
    if watch.found is None or watch.found.algorithm is None:
        raise StoppedError("interrupted before a first plan was found")
    return watch.found.algorithm()


@contextmanager
def watching(quiet: bool, verbose: bool = False, watch: Watch | None = None) -> Iterator[Watch]:
    """Tell what is going on while it lasts: on one live line if stderr is a terminal; the whole log if `verbose`."""
    watch = watch or Watch()
    with ExitStack() as stack:
        if not quiet and sys.stderr.isatty():
            stack.enter_context(_live_line(watch, verbose))
        else:
            if verbose:
                watch.write_entry = _logging(lambda line: click.echo(line, err=True))
            if not quiet:
                stack.enter_context(_lines(watch))
        yield watch


@contextmanager
def _live_line(watch: Watch, verbose: bool) -> Iterator[None]:
    from rich import progress
    from rich.console import Console
    from rich.text import Text

    class Elapsed(progress.ProgressColumn):
        """The clock: rich's own stands still where all that is known of is done."""

        max_refresh = None

        def render(self, task: Any) -> Text:  # noqa: ARG002
            return Text(watch.elapsed, style="progress.elapsed")

    console = Console(stderr=True)
    is_wide = console.width >= _WIDE
    columns = [
        progress.SpinnerColumn(),
        progress.TextColumn("{task.description}", markup=False),
        progress.MofNCompleteColumn(),
        progress.TextColumn("{task.fields[best]}", markup=False),
        Elapsed(),
    ]
    if is_wide:
        columns.insert(2, progress.BarColumn(20))
    # A thread of its own draws it, ten times a second.
    with progress.Progress(*columns, console=console, transient=True) as line, undoing(line.stop):
        # No total yet: the bar moves to and fro until the search says how much there is to do.
        task = line.add_task(watch.text, total=None, best="")
        shown = watch.text

        def show() -> None:
            nonlocal shown
            text = _brief(watch.text)
            total = watch.total or None
            best = watch.best(is_wide)
            line.update(task, completed=watch.done, total=total, description=text, best=best)
            if text != shown:  # at once: what follows may keep the interpreter busy
                line.refresh()
                shown = text

        watch.listeners.append(show)
        if verbose:
            # Through the console of the line, which moves down to make room; echo would tear it.
            watch.write_entry = _logging(
                lambda text: line.console.print(text, markup=False, soft_wrap=True)
            )
        yield


@contextmanager
def _lines(watch: Watch) -> Iterator[None]:
    """A plain line from time to time, as no line can be drawn over; none for what is soon done."""
    over = threading.Event()
    compiling: list[str] = []

    def tell_of_compiling() -> None:
        if watch.text.startswith("compiling") and not compiling:
            compiling.append(watch.text)
            print_error(watch.text, "")

    def tell() -> None:
        while not over.wait(_PAUSE):
            count = f"{watch.done:,} of {watch.total:,}" if watch.total else ""
            known = filter(None, (watch.best(in_words=True) or count, watch.text))
            print_error(f"{watch.elapsed} {'; '.join(known)}", "")

    watch.listeners.append(tell_of_compiling)
    thread = threading.Thread(target=tell, name="progress", daemon=True)
    thread.start()
    with undoing(over.set):
        try:
            yield
        finally:
            over.set()


def _brief(text: str) -> str:
    """What is going on, as long as the live line has room for it: the name of a method without its knobs.

    What is left is kept.

    Examples
    --------
    >>> _brief("earliest arrival, rounds, any routes, in steps")
    'earliest arrival'
    >>> _brief("earliest arrival, rounds, at most 12 s left")
    'earliest arrival, at most 12 s left'
    >>> _brief("compiling kernels, first run only")
    'compiling kernels, first run only'
    """
    # Said once, and worth more than the room for counts that there are not yet.
    if text.startswith("compiling"):
        return text
    name, *more = text.split(", ")
    left = f", {more[-1]}" if more and more[-1].endswith(" left") else ""
    most = _MOST_OF_A_DESCRIPTION
    return (name if len(name) <= most else f"{name[: most - 1]}…") + left


def _logging(write: Callable[[str], None]) -> Callable[[Entry], None]:
    """A solver's log, line by line, below a header."""
    # Printed with the first entry: a search that finds nothing prints no empty table.
    header = [f"{'time':>8}  {'best':>12}  {'bound':>12}  {'gap':>7}  found by"]

    def log(entry: Entry) -> None:
        while header:
            write(header.pop())
        best, bound = (f"{microseconds(time, 2)} us" for time in (entry.best, entry.bound))
        write(
            f"{entry.elapsed:>6.2f} s  {best:>12}  {bound:>12}  {entry.gap:>7.1%}  {entry.method}"
        )

    return log
