"""What to do with an algorithm next: commands that work for this very algorithm."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any, NamedTuple

from pccl._files import scratch_folder
from pccl.algorithm import Algorithm
from pccl.collective import AllToAllV
from pccl.errors import InternalError, PcclError
from pccl.formats import FORMATS, Format, export

# Files for runtimes are executed before they are saved, which beyond this takes longer than all else about a page.
MOST_TO_TRY = 20_000


class Commands(NamedTuple):
    """Commands, each with what it is for; and the formats that refuse the algorithm, each with the reason."""

    listed: list[tuple[str, str]]
    refused: list[tuple[str, str]]


def commands(algorithm: Algorithm, source: str | Path | None) -> Commands:
    """Return commands for an algorithm: verify, simulate, and export to all formats that take it.

    Parameters
    ----------
    source
        The file of the algorithm, if it has one.

    Examples
    --------
    >>> import pccl
    >>> group = pccl.AllGather("4MiB", group=range(2), chunks=1)
    >>> algorithm = pccl.synthesize(pccl.topology.ring(4), group)
    >>> [line for _, line in commands(algorithm, "a.pccl").listed][:2]
    ['pccl verify a.pccl', 'pccl simulate a.pccl --jitter 0.1']
    """
    file = str(source or "algorithm.pccl")
    quoted = shlex.quote(file)
    found = [] if source else [("Save the algorithm, in Python", f'algorithm.save("{file}")')]
    found.append(("Check it again", f"pccl verify {quoted}"))
    found.append(("Run it on slower or unsteady links", f"pccl simulate {quoted} --jitter 0.1"))
    refused = []
    for entry in FORMATS.values():
        # A page that shows a command which fails would be worse than one that shows none.
        try:
            options = _options_that_work(algorithm, entry)
        # A page is there to look at, also where a format is at fault: the page says so.
        except (PcclError, InternalError, MemoryError) as error:
            refused.append((entry.name, str(error) or "there is not enough memory for it"))
            continue
        if options is not None:
            ending = entry.suffixes[0] if entry.suffixes else f"-{entry.name}"
            out = shlex.quote(Path(file).stem + ending)
            words = [f"pccl export {quoted} --format {entry.name} -o {out}"]
            for option in entry.options:
                if option.name in options:
                    words.append(option.flag)
                    if option.kind != "flag":
                        words.append(str(options[option.name]))
            found.append((f"For {entry.name}: {entry.description}", " ".join(words)))
    return Commands(found, refused)


def _options_that_work(algorithm: Algorithm, entry: Format) -> dict[str, Any] | None:
    """Return options with which the format takes the algorithm, or raise as it does; None if a try takes too long."""
    known = [option.name for option in entry.options]
    # A file for a runtime holds one collective; the first stands as the example.
    several = len(algorithm.collectives) > 1 and "collective" in known
    needed: dict[str, Any] = {"collective": 0} if several else {}
    if len(algorithm.transfers) > MOST_TO_TRY:
        # What is only written refuses nothing; a runtime may.
        return None if entry.checker else needed
    # A flag without which some are refused; as few as possible are given.
    uneven = isinstance(algorithm.collectives[0], AllToAllV) and "padded" in known
    with scratch_folder() as folder:
        try:
            export(algorithm, folder / "plain", entry.name, **needed)
        except PcclError:
            if not uneven:
                raise
            needed["padded"] = True
            export(algorithm, folder / "padded", entry.name, **needed)
    return needed
