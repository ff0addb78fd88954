"""Runs an MSCCL-IR file, ours or not, as the runtimes would, and says what is wrong with it.

It shares nothing with the exporter but the table of limits. A file passes in stages, and the problems of a stage keep
it from the next: how it is written; the rules and limits; connections whose ends fit; no deadlock; then, in place and
out of place as the file says, no race and exact results on real numbers.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pccl._arrays import Ints
from pccl.collective.groups import format_group
from pccl.errors import PcclError
from pccl.formats.msccl.execution import Execution, Node, connect
from pccl.formats.msccl.file import Algo, Gpu, parse, read
from pccl.formats.msccl.rules import broken_rules
from pccl.formats.msccl.targets import DEPTHS, find_target
from pccl.formats.msccl.task import Task

__all__ = ["check", "check_text"]

Values = NDArray[Any]
_WIDTH = 2  # numbers per chunk, of each sort


def check(
    path: str | Path,
    *,
    target: str = "executor",
    depth: int | None = None,
    group: Sequence[int] | None = None,
    shares: Sequence[Sequence[int]] | None = None,
) -> tuple[list[str], dict[str, str]]:
    """Check a file: its problems, each one line with gpu, threadblock and step; and what it is, for people.

    Parameters
    ----------
    path
        The file.
    target
        The runtime whose limits count: ``executor``, ``rccl`` or ``msccl``.
    depth
        Messages that a connection holds; by default those of the protocol of the file.
    group
        The ranks that the collective is for, where others only relay; by default those that our files name, or all.
    shares
        For an all-to-all that is padded: how many chunks of its share rank ``i`` sends to rank ``j``; by default what
        our files say, or all.
    """
    algo, problems = read(path)
    return _check(algo, problems, target, depth, group, shares)


def check_text(text: str, **options: Any) -> list[str]:
    """The problems of a file given as text, see :func:`check`."""
    algo, problems = parse(text)
    settings = {"target": "executor", "depth": None, "group": None, "shares": None} | options
    return _check(algo, problems, **settings)[0]


def _check(
    algo: Algo | None,
    problems: list[str],
    target: str,
    depth: int | None,
    group: Sequence[int] | None,
    shares: Sequence[Sequence[int]] | None,
) -> tuple[list[str], dict[str, str]]:
    runtime = find_target(target)
    if depth is not None and depth < 1:
        raise PcclError(f"a connection holds 1 message or more, not {depth}")
    if algo is None:
        return problems, {}
    facts = _facts(algo)
    problems = problems or broken_rules(algo, runtime)
    if problems:
        return problems, facts
    members = tuple(algo.promise.members or range(algo.ngpus)) if group is None else tuple(group)
    if not set(members) <= set(range(algo.ngpus)) or not members:
        raise PcclError(
            f"the group {list(members)} is not among the {algo.ngpus} ranks of the file"
        )
    if shares is None and algo.promise.shares:
        shares = [algo.promise.shares[rank] for rank in range(algo.ngpus)]
    facts |= _promised(algo, members, shares)
    execution, problems = connect(algo, DEPTHS[algo.proto] if depth is None else depth)
    if execution is None:
        return problems, facts
    problems = execution.blocked()
    if problems:
        return problems, facts
    for flag, in_place in ((algo.outofplace, False), (algo.inplace, True)):
        if flag:
            problems += _Machine(Task(algo, members, in_place, shares)).run(execution)
    return problems, facts | {
        "results": "exact, without races or deadlock"
    } if not problems else facts


def _facts(algo: Algo) -> dict[str, str]:
    blocks = [len(gpu.threadblocks) for gpu in algo.gpus]
    steps = [len(tb.steps) for gpu in algo.gpus for tb in gpu.threadblocks]
    places = [
        name
        for flag, name in ((algo.inplace, "in place"), (algo.outofplace, "out of place"))
        if flag
    ]
    return {
        "algorithm": algo.name,
        "collective": f"{algo.coll} among {algo.ngpus} ranks, {' and '.join(places) or 'nowhere'}",
        "sizes": f"{algo.minBytes} to {algo.maxBytes} bytes in {algo.nchunksperloop} chunks, protocol {algo.proto}",
        "threadblocks": f"at most {max(blocks, default=0)} on a rank, of at most {max(steps, default=0)} steps, "
        f"on {algo.nchannels} channel{'s' if algo.nchannels != 1 else ''}",
    }


def _promised(
    algo: Algo, members: Sequence[int], shares: Sequence[Sequence[int]] | None
) -> dict[str, str]:
    """What the file is for, if that is less than the whole collective."""
    facts = {}
    if len(members) < algo.ngpus:
        facts["group"] = f"ranks {format_group(list(members))}; the others only relay"
    if shares is not None:
        used, room = (
            sum(shares[i][j] for i in members for j in members),
            algo.nchunksperloop // algo.ngpus,
        )
        facts["padded"] = (
            f"{used} of {room * len(members) ** 2} chunks are used, the beginning of every share; what is behind it in "
            "outputs means nothing"
        )
    return facts


class _Memory:
    """The buffers of one rank as one stretch of memory, and who has touched what."""

    def __init__(self, task: Task, gpu: Gpu, rng: np.random.Generator) -> None:
        inputs, outputs = task.sizes
        self.first = task.buffers(gpu.id)
        self.size = {"i": inputs, "o": outputs, "s": gpu.s_chunks}
        total = self.first["s"] + gpu.s_chunks
        # Whole numbers, and binary fractions that add up without rounding.
        self.values = np.full((total, 2 * _WIDTH), np.nan)
        inside = slice(self.first["i"], self.first["i"] + inputs)
        self.values[inside, :_WIDTH] = rng.integers(-(2**40), 2**40, (inputs, _WIDTH))
        self.values[inside, _WIDTH:] = rng.integers(-(2**40), 2**40, (inputs, _WIDTH)) / 2**20
        self.input = self.values[inside].copy()
        self.writer: dict[int, tuple[int, int]] = {}
        self.readers: dict[int, list[tuple[int, int]]] = defaultdict(list)
        self.clocks = [np.full(len(gpu.threadblocks), -1, np.int64) for _ in gpu.threadblocks]
        self.history: list[list[Ints]] = [[] for _ in gpu.threadblocks]


class _Machine:
    """All ranks, executing step by step."""

    def __init__(self, task: Task) -> None:
        rng = np.random.default_rng(7)
        self.task, self.problems = task, list[str]()
        self.memory = {
            gpu.id: _Memory(task, gpu, rng)
            for gpu in sorted(task.algo.gpus, key=lambda gpu: gpu.id)
        }
        self.flying: dict[Any, Values] = {}

    def run(self, execution: Execution) -> list[str]:
        """Execute everything in an order that is possible, and compare the results."""
        for number in execution.order:
            node = execution.nodes[number]
            self._learn(node)
            self._execute(node)
        return self.problems or self._wrong_results()

    def _learn(self, node: Node) -> None:
        """What this step knows to have happened on its own rank: a time for each threadblock."""
        memory, step = self.memory[node.gpu], node.step
        clock = memory.clocks[node.tb]
        if step.depid >= 0:
            np.maximum(clock, memory.history[step.depid][step.deps], out=clock)
        clock[node.tb] = node.index
        memory.history[node.tb].append(clock.copy())

    def _execute(self, node: Node) -> None:
        step, kind = node.step, node.step.type
        if kind == "nop":
            return
        memory = self.memory[node.gpu]
        values = self.flying.pop(node.receives) if node.receives else None
        if kind in ("s", "rrs", "rrc", "rrcs", "cpy", "re"):
            source = self._read(node, step.srcbuf, step.srcoff)
            if kind == "cpy" and self._span(node, step.srcbuf, step.srcoff) == self._span(
                node, step.dstbuf, step.dstoff
            ):
                return
            values = source if values is None else values + source
        if kind == "re":
            values = values + self._read(node, step.dstbuf, step.dstoff)
        if kind not in ("s", "rrs"):
            low, high = self._span(node, step.dstbuf, step.dstoff)
            self._touch(node, low, high, writes=True)
            memory.values[low:high] = values
        if node.sends and values is not None:
            self.flying[node.sends] = np.array(values)

    def _span(self, node: Node, buffer: str, offset: int) -> tuple[int, int]:
        memory = self.memory[node.gpu]
        if offset + node.step.cnt > memory.size[buffer]:
            self._problem(
                f"{node}: {buffer}[{offset}:{offset + node.step.cnt}] is outside the buffer, which has "
                f"{memory.size[buffer]} of {self.task.algo.nchunksperloop} chunks"
            )
        low = min(memory.first[buffer] + offset, len(memory.values) - node.step.cnt)
        return low, low + node.step.cnt

    def _read(self, node: Node, buffer: str, offset: int) -> Values:
        low, high = self._span(node, buffer, offset)
        self._touch(node, low, high, writes=False)
        values = self.memory[node.gpu].values[low:high]
        if np.isnan(values[:, 0]).any():
            missing = offset + int(np.argmax(np.isnan(values[:, 0])))
            self._problem(
                f"{node}: it reads {buffer}[{missing}], where nothing has been written yet"
            )
        return values

    def _touch(self, node: Node, low: int, high: int, writes: bool) -> None:
        """Find accesses to the same places that nothing on this rank puts before this one."""
        memory = self.memory[node.gpu]
        clock, me = memory.clocks[node.tb], (node.tb, node.index)
        for place in range(low, high):
            writer = memory.writer.get(place)
            if writer is not None and clock[writer[0]] < writer[1]:
                self._race(node, place, writer, "writes")
            if writes:
                for reader in memory.readers.pop(place, ()):
                    if clock[reader[0]] < reader[1]:
                        self._race(node, place, reader, "reads")
                memory.writer[place] = me
            else:
                memory.readers[place].append(me)

    def _race(self, node: Node, place: int, other: tuple[int, int], does: str) -> None:
        memory = self.memory[node.gpu]
        names = [
            f"{buffer}[{place - first}]"
            for buffer, first in memory.first.items()
            if first <= place < first + memory.size[buffer]
        ]
        self._problem(
            f"{node}: race: tb {other[0]} step {other[1]} {does} {' = '.join(names)} ({self.task}), and no dependency "
            "puts one before the other"
        )

    def _wrong_results(self) -> list[str]:
        for gpu in self.task.group:
            memory = self.memory[gpu]
            places, values = self._expected(gpu)
            wrong = places[(memory.values[memory.first["o"] + places] != values).any(axis=1)]
            if len(wrong):
                more = f" and {len(wrong) - 1} more" if len(wrong) > 1 else ""
                self._problem(
                    f"gpu {gpu}: o[{wrong[0]}]{more} is not what {self.task.algo.coll} promises ({self.task})"
                )
            first = memory.first["i"]
            if not self.task.in_place and not np.array_equal(
                memory.values[first : first + len(memory.input)], memory.input
            ):
                self._problem(f"gpu {gpu}: its input has changed ({self.task})")
        return self.problems

    def _expected(self, gpu: int) -> tuple[Ints, Values]:
        """Places of the output of a rank, and what must be there."""
        task, whole = self.task, self.task.algo.nchunksperloop
        share = whole // task.algo.ngpus
        inputs = {rank: self.memory[rank].input for rank in task.group}
        if task.kind == "all-reduce":
            return np.arange(whole), np.sum(list(inputs.values()), axis=0)
        if task.kind == "reduce-scatter":
            mine = slice(gpu * share, (gpu + 1) * share)
            return np.arange(share), np.sum([values[mine] for values in inputs.values()], axis=0)
        start = 0 if task.kind == "all-gather" else gpu * share
        counts = {
            rank: share if task.shares is None else int(task.shares[rank][gpu]) for rank in inputs
        }
        places = [rank * share + np.arange(count) for rank, count in counts.items()]
        values = [inputs[rank][start : start + count] for rank, count in counts.items()]
        return np.concatenate(places), np.concatenate(values)

    def _problem(self, text: str) -> None:
        if text not in self.problems:
            self.problems.append(text)
