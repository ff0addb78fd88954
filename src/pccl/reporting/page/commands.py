"""What to do with an algorithm next: commands that work for this very algorithm."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

from pccl._files import scratch_folder
from pccl.algorithm import Algorithm
from pccl.errors import PcclError
from pccl.formats import FORMATS, Format, export

# Files for runtimes are executed before they are saved, which beyond this takes longer than all else about a page.
MOST_TO_TRY = 20_000
# Flags without which some algorithms are refused; as few as possible are given.
_TRIES = ((), ("padded",))


def commands(algorithm: Algorithm, source: str | Path | None) -> list[tuple[str, str]]:
    """Return commands, each with what it is for: verify, simulate, and export to all formats that take the algorithm.

    Parameters
    ----------
    source
        The file of the algorithm, if it has one.

    Examples
    --------
    >>> import pccl
    >>> group = pccl.AllGather("4MiB", group=range(2), chunks=1)
    >>> algorithm = pccl.synthesize(pccl.topology.ring(4), group)
    >>> [line for _, line in commands(algorithm, "a.pccl")][:2]
    ['pccl verify a.pccl', 'pccl simulate a.pccl --jitter 0.1']
    """
    file = str(source or "algorithm.pccl")
    quoted = shlex.quote(file)
    found = [] if source else [("Save the algorithm, in Python", f'algorithm.save("{file}")')]
    found.append(("Check it again", f"pccl verify {quoted}"))
    found.append(("Run it on slower or unsteady links", f"pccl simulate {quoted} --jitter 0.1"))
    for entry in FORMATS.values():
        # A page that shows a command which fails would be worse than one that shows none.
        options = _options_that_work(algorithm, entry)
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
    return found


def _options_that_work(algorithm: Algorithm, entry: Format) -> dict[str, Any] | None:
    """Return options with which the format takes the algorithm; None if it refuses it, or if a try takes too long."""
    known = [option.name for option in entry.options]
    # A file for a runtime holds one collective; the first stands as the example.
    several = len(algorithm.collectives) > 1 and "collective" in known
    needed: dict[str, Any] = {"collective": 0} if several else {}
    if len(algorithm.transfers) > MOST_TO_TRY:
        # What is only written refuses nothing; a runtime may.
        return None if entry.checker else needed
    tries = [flags for flags in _TRIES if set(flags) <= set(known)]
    with scratch_folder() as folder:
        for number, flags in enumerate(tries):
            options = needed | dict.fromkeys(flags, True)
            try:
                export(algorithm, folder / str(number), entry.name, **options)
            # A refusal, which other flags may help; anything else is a bug and must be seen.
            except PcclError:
                continue
            return options
    return None
