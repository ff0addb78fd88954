"""What a format is: its name, its options, and where its functions are.

Formats are declared in modules that import nothing heavy, so that listing them takes no time. The functions are
named as ``module:function`` and imported on first use.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from pccl.errors import PcclError
from pccl.units import truth, whole


@dataclass(frozen=True)
class Option:
    """One keyword of a writer or a checker, which is also a flag of the command.

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
        For a choice: the possible values, the default first.
    opposite
        For a flag that may also be turned off: the other name.
    """

    name: str
    kind: str
    help: str
    choices: tuple[str, ...] = ()
    opposite: str = ""

    def read(self, value: object) -> Any:
        """Return a value from Python as writers and checkers take it; raises if it is none of this kind.

        Examples
        --------
        >>> Option("lowered", "flag", "").read("no")
        Traceback (most recent call last):
        ...
        pccl.errors.PcclError: lowered is True or False, not 'no'
        """
        if self.kind == "number" and whole(value) is None:
            raise PcclError(f"{self.name} is a whole number from 0 on, not {value!r}")
        # What else there is, is read where its limits are known.
        if self.kind != "flag":
            return value
        found = truth(value)
        if found is None:
            raise PcclError(f"{self.name} is True or False, not {value!r}")
        return found

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
    writer
        The function that writes it, as ``module:function``: it takes an algorithm, a path, and the options as keywords,
        and returns what it has written, by name, for people.
    suffixes
        How paths of this format end; the longest end that fits decides. A format without any writes a folder.
    options
        The keywords of the writer.
    checker
        The function that checks a file of this format, as ``module:function``: it takes a path, and returns a list of
        problems (lines of text) and a mapping with facts. Empty if files cannot be checked.
    checks
        The keywords of the checker.
    """

    name: str
    description: str
    writer: str
    suffixes: tuple[str, ...] = ()
    options: tuple[Option, ...] = ()
    checker: str = ""
    checks: tuple[Option, ...] = ()

    def read(self, given: Mapping[str, Any], own: Iterable[Option]) -> dict[str, Any]:
        """Return options from Python as its functions take them; None is what was not given."""
        known = {option.name: option for option in own}
        self.refuse_others(given, known.values())
        return {name: known[name].read(value) for name, value in given.items() if value is not None}

    def refuse_others(
        self, names: Iterable[str], known: Iterable[Option], spell: Callable[[str], str] = repr
    ) -> None:
        """Raise unless all names are those of known options; `spell` writes a name in the message."""
        there = [option.name for option in known]
        for name in names:
            if name not in there:
                text = f"its options are {', '.join(map(spell, there))}" if there else "it has none"
                raise PcclError(f"the format {self.name} has no option {spell(name)}; {text}")


# Options that several formats have.
ALL_RANKS = Option(
    "all_ranks",
    "flag",
    "All NPUs take part; those outside the group contribute nothing and only relay. Default: if some do relay.",
    opposite="group_ranks",
)
COLLECTIVE = Option(
    "collective", "number", "Which of several collectives to write, counted from 0."
)
GROUP = Option("group", "ranks", "The ranks that the collective is for, if others only relay.")
IN_PLACE = Option(
    "in_place", "flag", "Whether input and output are one buffer.", opposite="out_of_place"
)
INSTANCES = Option(
    "instances", "count", "Run everything this many times side by side, each on its part."
)
LOWERED = Option(
    "lowered",
    "flag",
    "Write it even if its messages take much longer than planned, with switches that multiply or add.",
)
SIZES = (
    Option("min_bytes", "size", "The smallest buffer that the runtime uses the algorithm for."),
    Option("max_bytes", "size", "The largest buffer that the runtime uses the algorithm for."),
)
