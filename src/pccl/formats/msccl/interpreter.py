"""Runs an MSCCL-IR file, ours or not, as the runtimes would, and says what is wrong with it.

It shares nothing with the exporter but the table of limits. A file passes in stages, and the problems of a stage keep
it from the next: how it is written; the rules and limits; connections whose ends fit; no deadlock; then, in place and
out of place as the file says, no race and exact results on numbers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from pccl._arrays import Column
from pccl.collective import Promise
from pccl.collective.groups import format_group
from pccl.errors import PcclError
from pccl.formats.machine import (
    Clock,
    Conflict,
    Kind,
    Line,
    Memory,
    Place,
    Problem,
    Problems,
    promise_of,
    wrong_outputs,
)
from pccl.formats.msccl.execution import DEPENDENCY, SENDER, Execution, connect
from pccl.formats.msccl.file import Step, Threadblock, XmlAlgorithm, parse, read
from pccl.formats.msccl.rules import READS, SENDS, WRITES, beyond_buffers, broken_rules
from pccl.formats.msccl.targets import DEPTHS, find_target, plain_name
from pccl.units import counted


def check(path: str | Path, **options: Any) -> tuple[list[str], dict[str, str]]:
    """Check a file: its problems, each one line with gpu, threadblock and step; and what it is, for people.

    Parameters
    ----------
    path
        The file.
    **options
        Those of :func:`find_problems`.
    """
    algorithm, problems = read(path)
    found, facts = _examine(algorithm, problems, **options)
    return [str(problem) for problem in found], facts


def find_problems(text: str, **options: Any) -> list[Problem]:
    """Find the problems of a file given as text.

    Parameters
    ----------
    text
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
    return _examine(*parse(text), **options)[0]


def _examine(
    algorithm: XmlAlgorithm | None,
    problems: list[Problem],
    *,
    target: str = "executor",
    depth: int | None = None,
    group: Sequence[int] | None = None,
    shares: Sequence[Sequence[int]] | None = None,
) -> tuple[list[Problem], dict[str, str]]:
    """Take a file through the stages, up to the first that finds problems."""
    runtime = find_target(target)
    if depth is not None and depth < 1:
        raise PcclError(f"a connection holds 1 message or more, not {depth}")
    if algorithm is None:
        return problems, {}
    facts = _facts(algorithm)
    # Each stage takes for granted what those before it have found in order.
    problems = problems or broken_rules(algorithm, runtime)
    if problems:
        return problems, facts
    ranks = range(algorithm.ngpus)
    members = list((algorithm.purpose.members or ranks) if group is None else group)
    if not members or not {*members} <= {*ranks}:
        raise PcclError(
            f"the group {members} is not among the {counted(len(ranks), 'rank')} of the file"
        )
    if shares is None and algorithm.purpose.shares:
        shares = [algorithm.purpose.shares[rank] for rank in ranks]
    facts |= _purpose_facts(algorithm, members, shares)
    promise = _promise(algorithm, members, shares)
    sizes = buffer_sizes(algorithm, promise)
    problems = beyond_buffers(algorithm, sizes)
    if not problems:
        execution, problems = connect(algorithm, depth or DEPTHS[algorithm.proto])
    if problems:
        return problems, facts
    # A file for both is run for both: only in place do input and output share memory, and race.
    for flag, in_place in ((algorithm.outofplace, False), (algorithm.inplace, True)):
        if flag:
            memory = Memory(sizes, in_place)
            problems += _run(execution, memory, promise, algorithm.coll, in_place)
    return problems, facts if problems else facts | {"results": "exact, without races or deadlock"}


def _promise(
    algorithm: XmlAlgorithm, members: Sequence[int], shares: Sequence[Sequence[int]] | None
) -> Promise:
    name = plain_name(algorithm.coll)
    promise = promise_of(name, algorithm.ngpus, members, largest=algorithm.nchunksperloop)
    if shares is None:
        return promise
    # Only the beginning of every share counts; each row of the promise is one share.
    sender = promise.contributor_ranks[promise.contributor_offsets[promise.chunk]]
    return replace(promise, bytes=np.array(shares, np.int64)[sender, promise.rank])


def buffer_sizes(algorithm: XmlAlgorithm, promise: Promise, unit: int = 1) -> list[dict[str, int]]:
    """Per rank: the chunks of its buffers, if a chunk has `unit` bytes in the promise.

    Runtimes know the sizes of input and output, whatever a file says.
    """
    scratch = {gpu.id: gpu.s_chunks for gpu in algorithm.gpus}
    chunks = np.stack([promise.input_bytes, promise.output_bytes], axis=1) // unit
    return [
        {"i": inputs, "o": outputs, "s": scratch[rank]}
        for rank, (inputs, outputs) in enumerate(chunks.tolist())
    ]


def _run(
    execution: Execution, memory: Memory, promise: Promise, coll: str, in_place: bool
) -> list[Problem]:
    """Run a file on numbers, and compare the results with what its collective promises."""
    inputs = memory.fill(seed=7)
    how = "in place" if in_place else "out of place"
    machine = Machine(execution, memory, how)
    machine.run()
    problems = machine.problems
    if not problems:
        for gpu, wrong in wrong_outputs(promise, inputs, memory):
            more = f" and {len(wrong) - 1} more" if len(wrong) > 1 else ""
            text = f"gpu {gpu}: o[{wrong[0]}]{more} is not what {coll} promises ({how})"
            problems.add(Kind.RESULT, text, Place(gpu))
        # Out of place, inputs belong to the caller, whatever the results are.
        for gpu in np.unique(promise.contributor_ranks).tolist() if not in_place else ():
            if not np.array_equal(memory.content(gpu, "i"), inputs[gpu]):
                problems.add(Kind.RESULT, f"gpu {gpu}: its input has changed ({how})", Place(gpu))
    return list(problems)


class Machine:
    """All ranks, executing step by step.

    Attributes
    ----------
    messages
        What has been sent, by the number of the step that did.
    problems
        What was wrong on the way.
    """

    def __init__(self, execution: Execution, memory: Memory, how: str) -> None:
        self.execution = execution
        self.memory = memory
        self.how = how
        self.problems = Problems()
        self.messages: dict[int, Column] = {}

    def run(self) -> None:
        """Execute everything in an order that is possible."""
        execution = self.execution
        lines: dict[Threadblock, Line] = {}
        clocks: dict[int, Clock] = {}
        dependencies = execution.waits[:, DEPENDENCY].tolist()
        senders = execution.waits[:, SENDER].tolist()
        for number in execution.order:
            step = execution.steps[number]
            tb = step.around
            line = lines.get(tb)
            if line is None:
                # Accesses to one rank are ordered by what happens there, never by way of another: clocks are kept per
                # rank.
                line = lines[tb] = Line(tb.index, len(tb.around.threadblocks))
            dependency = dependencies[number]
            if dependency >= 0:
                line.hear(clocks[dependency])
            line.synchronize(step.index)
            clocks[number] = line.clock
            received = self.messages.get(senders[number])
            sent = self._execute(step, line, received)
            if step.type in SENDS:
                self.messages[number] = sent

    def _execute(self, step: Step, line: Line, values: Any) -> Any:
        """Do what a step does with what it has received, if anything; returns what it would send."""
        kind = step.type
        if kind in READS:
            own = self._read(step, line, step.srcbuf, step.srcoff)
            values = own if values is None else values + own
        if kind in WRITES:
            cells = self._cells(step, step.dstbuf, step.dstoff)
            if kind == "re":
                # It adds to what is in its target, which it reads as well.
                values = values + self._read(step, line, step.dstbuf, step.dstoff)
            # In place, some copies are of something onto itself, which runtimes leave out.
            if kind == "cpy" and cells == self._cells(step, step.srcbuf, step.srcoff):
                return values
            self._race(step, self.memory.write(line, step.index, cells, values))
        return values

    def _cells(self, step: Step, buffer: str, offset: int) -> slice:
        return self.memory.cells(step.around.around.id, buffer, offset, step.cnt)

    def _read(self, step: Step, line: Line, buffer: str, offset: int) -> Column:
        cells = self._cells(step, buffer, offset)
        self._race(step, self.memory.read(line, step.index, cells))
        unknown = self.memory.first_unknown(cells)
        if unknown >= 0:
            text = f"it reads {buffer}[{offset + unknown}], where nothing has been written yet"
            self.report(step.problem(Kind.UNWRITTEN, text))
        # A message must not change when its source does.
        return self.memory.values[cells].copy()

    def _race(self, step: Step, conflicts: list[Conflict]) -> None:
        for cell, block, index, does in conflicts:
            name = self.memory.name(step.around.around.id, cell)
            text = (
                f"race: tb {block} step {index} {does} {name} ({self.how}), and no dependency puts one before the "
                "other"
            )
            self.report(step.problem(Kind.RACE, text))

    def report(self, problem: Problem) -> None:
        """Keep a problem."""
        self.problems.keep(problem)


# --- facts for people -------------------------------------------------------------------------------------------------


def _facts(algorithm: XmlAlgorithm) -> dict[str, str]:
    blocks = [len(gpu.threadblocks) for gpu in algorithm.gpus]
    steps = [len(tb.steps) for tb in algorithm.blocks]
    places = [
        name
        for flag, name in ((algorithm.inplace, "in place"), (algorithm.outofplace, "out of place"))
        if flag
    ]
    return {
        "algorithm": algorithm.name,
        "collective": f"{algorithm.coll} among {counted(algorithm.ngpus, 'rank')}, {' and '.join(places) or 'nowhere'}",
        "sizes": f"{algorithm.minBytes} to {algorithm.maxBytes} bytes in "
        f"{counted(algorithm.nchunksperloop, 'chunk')}, protocol {algorithm.proto}",
        "threadblocks": f"at most {max(blocks, default=0)} on a rank, of at most {max(steps, default=0)} steps, "
        f"on {algorithm.nchannels} channel{'s' if algorithm.nchannels != 1 else ''}",
    }


def _purpose_facts(
    algorithm: XmlAlgorithm, members: Sequence[int], shares: Sequence[Sequence[int]] | None
) -> dict[str, str]:
    """What the file is for, if that is less than the whole collective."""
    facts = {}
    if len(members) < algorithm.ngpus:
        facts["group"] = f"ranks {format_group(members)}; the others only relay"
    if shares is not None:
        used = sum(shares[i][j] for i in members for j in members)
        room = algorithm.nchunksperloop // algorithm.ngpus * len(members) ** 2
        facts["padded"] = (
            f"{used} of {room} chunks are used, the beginning of every share; what is behind it in "
            "outputs means nothing"
        )
    return facts
