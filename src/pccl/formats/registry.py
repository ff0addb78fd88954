"""The formats by name. Their modules are imported when they are used, so that listing them costs nothing."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

from pccl.errors import PcclError

__all__ = ["FORMATS", "Format", "Option", "check_file", "collector_paused", "find_format"]


@dataclass(frozen=True)
class Option:
    """One keyword of a writer, which is also a flag of the program.

    Parameters
    ----------
    name
        The keyword; the flag is ``--name`` with hyphens.
    kind
        ``"flag"``, ``"choice"``, ``"count"`` (a whole number from 1 on), ``"number"`` (from 0 on), ``"ranks"`` (a list,
        or on the command line ``0-3,8``), ``"size"`` (text such as ``"64KiB"``) or ``"text"``.
    help
        One line for people.
    choices
        For a choice: what there is, the default first.
    opposite
        For a flag that may also be turned off: the other name.
    """

    name: str
    kind: str
    help: str
    choices: tuple[str, ...] = ()
    opposite: str = ""

    @property
    def flag(self) -> str:
        """What the option is called on the command line."""
        return f"--{self.name.replace('_', '-')}"


@dataclass(frozen=True)
class Format:
    """Something to export to.

    Parameters
    ----------
    name, description
        What to call it, and one line on what it is.
    target
        The function that writes it, as ``module:function``: it takes an algorithm, a path, and the options as keywords,
        and returns what it has written, by name, for people (or nothing).
    suffixes
        How paths of this format end; the longest end that fits decides.
    options
        The keywords that it takes.
    checker
        The function that checks a file of this format, as ``module:function``: it takes a path, and returns a list of
        problems (lines of text) and a mapping with facts.
    checks
        The keywords that the checker takes.
    """

    name: str
    description: str
    target: str
    suffixes: tuple[str, ...] = ()
    options: tuple[Option, ...] = ()
    checker: str = ""
    checks: tuple[Option, ...] = ()

    @property
    def writer(self) -> Callable[..., Any]:
        """The function that writes this format."""
        return _load(self.target)

    def refuse_others(
        self, names: Iterable[str], known: Iterable[Option], spell: Callable[[str], str] = repr
    ) -> None:
        """Raise unless all names are those of known options; `spell` writes a name in the message."""
        there = [option.name for option in known]
        for name in names:
            if name not in there:
                text = f"its options are {', '.join(map(spell, there))}" if there else "it has none"
                raise PcclError(f"the format {self.name} has no option {spell(name)}; {text}")


_TARGET = Option("target", "choice", "Whose limits count.", choices=("executor", "rccl", "msccl"))
_GROUPS = Option(
    "all_ranks",
    "flag",
    "All NPUs take part; those outside the group contribute nothing and only relay.",
)
_MEMBERS = Option("group", "ranks", "The ranks that the collective is for, if others only relay.")
_COLLECTIVE = Option(
    "collective", "number", "Which of several collectives to write, counted from 0."
)
_PLACE = Option(
    "in_place", "flag", "Whether input and output are one buffer.", opposite="out_of_place"
)
_SIZES = (
    Option("min_bytes", "size", "The smallest buffer that the runtime uses the algorithm for."),
    Option("max_bytes", "size", "The largest buffer that the runtime uses the algorithm for."),
)
_TRACE = (
    Option(
        "merge", "flag", "Join transfers that follow one another on a link, if there are very many."
    ),
    Option("intervals", "count", "For how many intervals of time to count how busy links are."),
    Option("unit", "choice", "What a nanosecond of the viewer stands for.", choices=("ns", "ps")),
)
_PROTOCOL = Option(
    "protocol", "choice", "How messages are sent.", choices=("Simple", "LL", "LL128")
)

FORMATS: dict[str, Format] = {
    f.name: f
    for f in (
        Format(
            "msccl",
            "MSCCL-IR XML, which MSCCL, its executor for NCCL, and RCCL run",
            "pccl.formats.msccl:write",
            (".xml",),
            (
                _TARGET,
                Option("instances", "count", "Run everything this many times side by side, each on its part."),
                Option("channels", "count", "At most this many channels between two ranks. Default: as routes need."),
                _PLACE, *_SIZES, _PROTOCOL, _GROUPS,
                Option("padded", "flag", "all-to-all-v: write an alltoall with shares as large as the largest."),
                _COLLECTIVE,
            ),
            checker="pccl.formats.msccl:check",
            checks=(
                _TARGET,
                Option("depth", "count", "Messages that a connection holds. Default: as the protocol has it."),
                _MEMBERS,
            ),
        ),
        Format(
            "mscclpp",
            "an execution plan of MSCCL++",
            "pccl.formats.mscclpp:write",
            (".plan.json",),
            (
                Option("instances", "count", "Run everything this many times side by side, each on its part."),
                Option("ranks_per_box", "count", "How many ranks reach each other's memory; ports lead to others."),
                Option("max_threadblocks", "count", "How many threadblocks the GPU runs at once. Default: 80."),
                _PLACE, *_SIZES, _GROUPS, _COLLECTIVE,
            ),
            checker="pccl.formats.mscclpp:check",
            checks=(
                _MEMBERS,
                Option("root", "number", "The rank that is special to the collective. Default: the first."),
            ),
        ),
        Format(
            "chakra",
            "Chakra execution traces for ASTRA-sim, a folder",
            "pccl.formats.chakra:write",
            options=(Option("chain", "flag", "Make sends over a link wait for one another, in the planned order."),),
        ),
        Format("perfetto", "a trace for ui.perfetto.dev", "pccl.formats.perfetto:write", (".pftrace",), _TRACE),
        Format("chrome", "a trace for chrome://tracing", "pccl.formats.chrome:write", (".trace.json",), _TRACE),
        Format("json", "everything, as one JSON document", "pccl.formats.tables:write_json", (".json",)),
        Format("csv", "one row per transfer, as text", "pccl.formats.tables:write_csv", (".csv",)),
        Format("parquet", "one row per transfer, in columns", "pccl.formats.tables:write_parquet", (".parquet",)),
    )
}  # fmt: skip


def find_format(path: str | Path, name: str | None = None) -> Format:
    """The format of this name, or the one that the end of the path stands for.

    Examples
    --------
    >>> find_format("algo.xml").name, find_format("a.trace.json").name, find_format("a.json").name
    ('msccl', 'chrome', 'json')
    """
    if name is not None:
        if name not in FORMATS:
            raise PcclError(f"there is no format {name!r}; there are {', '.join(FORMATS)}")
        return FORMATS[name]
    ends = {
        suffix: f
        for f in FORMATS.values()
        for suffix in f.suffixes
        if Path(path).name.endswith(suffix)
    }
    if not ends:
        raise PcclError(f"{path} does not end like any format; say which: {', '.join(FORMATS)}")
    return ends[max(ends, key=len)]


def check_file(
    path: str | Path, name: str | None = None, **options: Any
) -> tuple[list[str], dict[str, str]]:
    """Check a file of a runtime: the problems found, each one line, and facts for people."""
    chosen = find_format(path, name)
    if not chosen.checker:
        there = ", ".join(f.name for f in FORMATS.values() if f.checker)
        raise PcclError(
            f"{path}: files of the format {chosen.name} cannot be checked; those that can are {there}; if it is one of "
            "these, say which (--format)"
        )
    chosen.refuse_others(options, chosen.checks)
    with collector_paused():
        problems, facts = _load(chosen.checker)(path, **options)
    return list(problems), dict(facts)


@contextmanager
def collector_paused() -> Iterator[None]:
    """Look for no cycles of references meanwhile: files are many small objects without any, which are all in use."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


def _load(target: str) -> Callable[..., Any]:
    module, _, function = target.partition(":")
    found: Callable[..., Any] = getattr(import_module(module), function)
    return found
