"""The formats by name, and the verbs that use them. To add a format, add its module to the list below."""

from __future__ import annotations

import gc
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pccl._lazy import load_target
from pccl.errors import PcclError
from pccl.formats.format import Format

if TYPE_CHECKING:
    from pccl.algorithm import Algorithm

# Each of these declares its formats in a tuple `FORMATS`, without importing anything heavy.
_MODULES = ("msccl", "mscclpp", "chakra", "perfetto", "tables")

FORMATS: dict[str, Format] = {
    declared.name: declared
    for module in _MODULES
    for declared in import_module(f"pccl.formats.{module}").FORMATS
}


@dataclass(frozen=True)
class CheckResult:
    """What a check has found; true if there are no problems.

    Attributes
    ----------
    problems
        What is wrong, each one line of text.
    facts
        What the file is, by name, for people.
    """

    problems: tuple[str, ...]
    facts: Mapping[str, str]

    def __bool__(self) -> bool:
        return not self.problems


def export(
    algorithm: Algorithm, path: str | Path, format: str | None = None, **options: Any
) -> Mapping[str, str]:
    """Write an algorithm in the format of another program.

    Parameters
    ----------
    algorithm
        What to write.
    path
        The file, or for some formats the folder, to write.
    format
        One of :data:`FORMATS`; by default the one that the end of the path stands for.
    **options
        What the format offers; ``pccl export --help`` lists all of them.

    Returns
    -------
    Mapping
        What has been written, by name, for people.

    Examples
    --------
    >>> import pccl
    >>> pccl.export(None, "a.xls")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    ...
    pccl.errors.PcclError: a.xls does not end like any format; say which: msccl, mscclpp, ...
    """
    chosen = find_format(path, format)
    read = chosen.read(options, chosen.options)
    from pccl.algorithm.core import check_algorithm

    check_algorithm(algorithm, "export writes")
    return dict(_call(chosen.writer, read, algorithm, Path(path)))


def check(path: str | Path, format: str | None = None, **options: Any) -> CheckResult:
    """Run a file of a runtime, whoever wrote it, and say what is wrong with it.

    Parameters
    ----------
    path
        The file.
    format
        One of :data:`FORMATS` that can be checked; by default the one that the end of the path stands for.
    **options
        What the checker of the format takes; ``pccl check --help`` lists all of them.

    Examples
    --------
    >>> import pccl, tempfile
    >>> path = Path(tempfile.mkdtemp()) / "gather.xml"
    >>> algorithm = pccl.synthesize(pccl.topology.ring(4), pccl.AllGather("4MiB", chunks=1))
    >>> _ = pccl.export(algorithm, path)
    >>> result = pccl.check(path)
    >>> bool(result), result.problems
    (True, ())
    """
    chosen = find_format(path, format)
    if not chosen.checker:
        there = ", ".join(one.name for one in FORMATS.values() if one.checker)
        raise PcclError(
            f"{path}: files of the format {chosen.name} cannot be checked; those that can are {there}; if it is one of "
            "these, say which (--format)"
        )
    problems, facts = _call(chosen.checker, chosen.read(options, chosen.checks), path)
    return CheckResult(tuple(problems), dict(facts))


def find_format(path: str | Path, name: str | None = None) -> Format:
    """Return the format of this name, or the one that the end of the path stands for.

    Examples
    --------
    >>> find_format("algo.xml").name, find_format("a.plan.json").name, find_format("a.json").name
    ('msccl', 'mscclpp', 'json')
    """
    if name is not None:
        if name not in FORMATS:
            raise PcclError(f"there is no format {name!r}; there are {', '.join(FORMATS)}")
        return FORMATS[name]
    # A path may fit several: .plan.json ends with .json too.
    ends = {
        suffix: declared
        for declared in FORMATS.values()
        for suffix in declared.suffixes
        if Path(path).name.endswith(suffix)
    }
    if not ends:
        raise PcclError(f"{path} does not end like any format; say which: {', '.join(FORMATS)}")
    return ends[max(ends, key=len)]


def _call(function: str, options: Mapping[str, Any], *arguments: Any) -> Any:
    """Call a function of a format, which makes many small objects: nobody looks for cycles of references in them."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        return load_target(function)(*arguments, **options)
    finally:
        if was_on:
            gc.enable()
