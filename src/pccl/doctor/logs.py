"""Logs of nccl-tests and rccl-tests: which collective ran, where, and how long it took at every size.

Both print one table. Its header names the columns; lines of ranks say which device of which host each of them is. What
other programs put around it (MPI, SLURM, colours) is passed over.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median

from pccl._files import encoding_of, refuse_endless
from pccl.errors import FormatError

# Programs, by what their names begin with, and the collectives that they run.
_PROGRAMS = {
    "all_reduce": "all-reduce",
    "all_gather": "all-gather",
    "reduce_scatter": "reduce-scatter",
    "alltoall": "all-to-all",
    "broadcast": "broadcast",
    "reduce": "reduce",
    "gather": "gather",
    "scatter": "scatter",
    "sendrecv": "send-recv",
}
# The column that counts wrong results, of which there are two: out of place and in place.
_WRONG = "#wrong"
_MOST_BYTES = 2**26
_ESCAPE = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
# What mpirun --tag-output and srun --label put before every line.
_TAG = re.compile(r"^\s*(?:\[\d+,\d+\]<std\w+>:|\d+:)\s?")
_RANK = re.compile(r"Rank\s+(\d+)\s.*?\bon\s+(\S+)\s+device\s+(\d+)")
_PROGRAM = re.compile(rf"\b({'|'.join(_PROGRAMS)})_perf\b")


@dataclass(frozen=True)
class Log:
    """What one run of nccl-tests measured.

    Attributes
    ----------
    name
        What to call it: mostly its file.
    kind
        The collective; empty if the log does not tell.
    sizes
        Bytes, ascending, as nccl-tests counts them.
    times
        Seconds, one for each size.
    devices
        Per rank: its host, and the number of the device there; empty if the log does not tell.
    wrong
        Sizes at which some results were wrong.
    """

    name: str
    kind: str
    sizes: tuple[int, ...]
    times: tuple[float, ...]
    devices: tuple[tuple[str, int], ...] = ()
    wrong: tuple[int, ...] = ()


def read_logs(path: str | Path) -> list[Log]:
    """Read what nccl-tests or rccl-tests printed, from a file: one log for each table in it."""
    file = Path(path)
    refuse_endless(file)
    try:
        with file.open("rb") as opened:
            content = opened.read(_MOST_BYTES + 1)
    except FileNotFoundError:
        raise FormatError(f"{path}: there is no such file") from None
    except OSError as error:
        raise FormatError(f"cannot read {path}: {error.strerror or error}") from None
    if len(content) > _MOST_BYTES:
        raise FormatError(f"{path} is too large for a log: more than {_MOST_BYTES >> 20} MiB")
    text = content.decode(encoding_of(content), errors="replace")
    return parse_logs(text, str(path))


def parse_logs(text: str, name: str = "log") -> list[Log]:
    """Read what nccl-tests or rccl-tests printed: one log for each table.

    Examples
    --------
    >>> (log,) = parse_logs('''# Collective test starting: all_reduce_perf
    ... #  Rank  0 Group  0 Pid 7 on node1 device  0 [0x07] NVIDIA H100
    ... #  Rank  1 Group  0 Pid 8 on node1 device  1 [0x08] NVIDIA H100
    ... #       size  count   type  redop  root   time  algbw  busbw #wrong   time  algbw  busbw #wrong
    ...      1048576 262144  float    sum    -1  25.00  41.94  41.94      0  25.10  41.78  41.78      0
    ... ''')
    >>> log.kind, log.sizes, log.times, log.devices
    ('all-reduce', (1048576,), (2.5e-05,), (('node1', 0), ('node1', 1)))
    """
    tables = [_Table()]
    for raw in text.splitlines():
        line = _TAG.sub("", _ESCAPE.sub("", raw))
        # What announces a run belongs to the next table, if this one has begun.
        about = _PROGRAM.search(line) or _RANK.search(line)
        words = line.replace("#", " # ").replace("# wrong", "#wrong").split()
        is_header = "size" in words and "busbw" in words
        if about and tables[-1].times:
            tables.append(_Table(program=tables[-1].program))
        elif is_header and tables[-1].times:
            # Nothing was announced: the same ranks once more.
            tables.append(_Table(program=tables[-1].program, devices=tables[-1].devices))
        if about:
            tables[-1].announce(line)
        elif is_header:
            tables[-1].columns = [word for word in words if word != "#"]
        elif words and words[0].isdigit():
            tables[-1].add(words)
    found = [table for table in tables if table.times]
    if not found:
        raise FormatError(
            f"{name} has no table of nccl-tests: no line with size, time, algbw and busbw"
        )
    if len(found) == 1:
        return [found[0].log(name)]
    return [table.log(f"{name} {number}") for number, table in enumerate(found, 1)]


@dataclass
class _Table:
    """One table, line by line, and what was said before it."""

    program: str = ""
    columns: list[str] = field(default_factory=list)
    devices: dict[int, tuple[str, int]] = field(default_factory=dict)
    # Per size: seconds, one for each line; a test may go through its sizes several times.
    times: dict[int, list[float]] = field(default_factory=dict)
    wrong: set[int] = field(default_factory=set)
    ratio: float = 0.0
    sums: bool = False

    def announce(self, line: str) -> None:
        """Take a line that says what runs, or where."""
        if program := _PROGRAM.search(line):
            self.program = program[1]
        if rank := _RANK.search(line):
            self.devices[int(rank[1])] = (rank[2], int(rank[3]))

    def add(self, words: Sequence[str]) -> None:
        """Take a line of the table, if it is one."""
        if "time" not in self.columns:
            return
        first = self.columns.index("time")
        # Where nothing was measured out of place those columns are blank, and what is in place follows at once.
        try:
            time, rate, bus = (float(word) for word in words[first : first + 3])
        except ValueError:
            return
        size = int(words[0])
        if not 0 < size < 2**62 or not 0 < time < 1e12:
            return
        self.times.setdefault(size, []).append(time / 1e6)
        if any(_is_count(word) for word in self._below(_WRONG, words)):
            self.wrong.add(size)
        self.sums = "redop" in self.columns and words[self.columns.index("redop")] != "none"
        # Rates are printed with two digits, so only large ones tell their ratio.
        if rate > 1:
            self.ratio = bus / rate

    def _below(self, column: str, words: Sequence[str]) -> list[str]:
        """What stands in the columns of that name."""
        return [word for name, word in zip(self.columns, words, strict=False) if name == column]

    def log(self, name: str) -> Log:
        """All of it."""
        ranks = len(self.devices)
        sizes = tuple(sorted(self.times))
        times = tuple(median(self.times[size]) for size in sizes)
        kind = _PROGRAMS.get(self.program) or _kind_by_ratio(self.ratio, self.sums, ranks)
        devices = tuple(self.devices[rank] for rank in sorted(self.devices))
        return Log(name, kind, sizes, times, devices, tuple(sorted(self.wrong)))


def _is_count(word: str) -> bool:
    """Whether it is a number of wrong results, rather than none, or N/A."""
    return word.isdigit() and int(word) > 0


def _kind_by_ratio(ratio: float, sums: bool, ranks: int) -> str:
    """The collective by the ratio of its rates, where that leaves one; else nothing."""
    if ranks < 3 or not ratio:
        return ""
    share = (ranks - 1) / ranks
    if sums:
        options = {"all-reduce": 2 * share, "reduce-scatter": share, "reduce": 1.0}
        return min(options, key=lambda kind: abs(options[kind] - ratio))
    # All-Gather and All-to-All have the same ratio, and so have all with a root.
    return ""
