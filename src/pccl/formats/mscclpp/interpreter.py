"""Runs an execution plan of MSCCL++ on numbers, ours or not, and says what is wrong with it.

Nothing is shared with the exporter but the schema. A threadblock is taken to keep its order only where kernels enforce
it: operations are carried out by many threads, so what one operation does is complete for the next one only after a
``nop`` or a barrier, and a signal carries only what such a ``nop`` has put before it. Port channels act on their own,
in order. What is not ordered by these rules is a race, whether or not this run came out right.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from pccl.formats.mscclpp.plan import Plan, facts, read
from pccl.formats.mscclpp.resolver import Program, Range, Step, resolve
from pccl.formats.mscclpp.results import expected_outputs
from pccl.formats.mscclpp.rules import SIGNALS, SUMS
from pccl.formats.mscclpp.state import Line, Memory, Semaphores, Signal, Values

__all__ = ["Outcome", "check", "execute"]

MOST_PROBLEMS = 20


def check(
    path: str | Path, *, group: Sequence[int] | None = None, root: int | None = None, seed: int = 0
) -> tuple[list[str], dict[str, str]]:
    """What is wrong with a plan, one line each, and facts about it.

    Parameters
    ----------
    path
        The JSON file.
    group
        The ranks that the collective is for, where others only relay; by default what our plans say, or all.
    root
        The rank that is special to the collective; by default what our plans say, or the first of the group.
    seed
        For the numbers that the plan is run on.

    Examples
    --------
    >>> import pccl, tempfile
    >>> algorithm = pccl.synthesize(pccl.topology.ring(4), pccl.AllReduce("4MiB"))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _ = pccl.export(algorithm, f"{folder}/ring.plan.json")
    ...     check(f"{folder}/ring.plan.json")[0]
    []
    """
    plan = read(path)
    if group is not None:
        plan.pccl.members = list(group)
    if root is not None:
        plan.pccl.root = root
    outcome = execute(plan, seed=seed)
    said = facts(plan)
    return outcome.problems, said if outcome.problems else said | {
        "results": "exact, without races or deadlock"
    }


@dataclass
class Outcome:
    """What came of running a plan: problems, and the outputs by rank (chunks x parts x numbers)."""

    problems: list[str]
    outputs: list[Values] = field(default_factory=list)


def execute(plan: Plan, *, seed: int = 0) -> Outcome:
    """Run a plan: every rank on numbers of its own, in exact arithmetic, compared with what the collective promises.

    Half of the numbers are whole, the others are fractions that binary floating point adds without error.
    """
    program = resolve(plan)
    if program.errors:
        return Outcome(_shortened(program.errors))
    machine = _Machine(program, seed)
    promised = expected_outputs(plan, machine.memory.inputs())
    machine.run()
    if not machine.deadlocked:
        machine.finish()
        machine.compare(promised)
    outputs = [machine.memory.content(rank, "o") for rank in range(len(plan.gpus))]
    return Outcome(_shortened(program.defects + machine.problems), outputs)


def _shortened(problems: list[str]) -> list[str]:
    more = len(problems) - MOST_PROBLEMS
    return problems if more <= 0 else [*problems[:MOST_PROBLEMS], f"and {more} more problems"]


class _Machine:
    """All ranks at once: threadblocks run until they must wait, and wake when what they wait for comes."""

    def __init__(self, program: Program, seed: int) -> None:
        self.program, self.problems, self.deadlocked = program, list[str](), False
        self.memory = Memory(program.plan, program.parts, seed)
        blocks = [tb for gpu in program.steps for tb in gpu]
        ports = sorted({c[:3] for tb in blocks for s in tb for c in s.channels if c[0] == "port"})
        self.lines = len(blocks) + len(ports)
        ranks = [rank for rank, gpu in enumerate(program.steps) for _ in gpu]
        self.threads = [Line(i, ranks[i], tb, self.lines) for i, tb in enumerate(blocks)]
        self.ports = {
            port: Line(len(blocks) + i, port[1], [], self.lines) for i, port in enumerate(ports)
        }
        self.port_steps: dict[int, list[Step]] = {port.index: [] for port in self.ports.values()}
        self.touched = np.full((len(program.plan.gpus), self.lines), -1, np.int32)
        self.signals: dict[Any, deque[Signal]] = defaultdict(deque)
        self.releases = Semaphores(program)
        self.barriers: dict[tuple[int, int], list[Line]] = defaultdict(list)
        self.waiting: dict[Any, list[Line]] = defaultdict(list)
        self.ready: deque[Line] = deque(self.threads)
        self.raced: set[tuple[Any, ...]] = set()

    # -- running ------------------------------------------------------------------------------------------------------

    def run(self) -> None:
        while self.ready:
            thread = self.ready.popleft()
            while thread.next < len(thread.steps) and self._try(thread, thread.steps[thread.next]):
                thread.next += 1
        stuck = [thread for thread in self.threads if thread.next < len(thread.steps)]
        self.deadlocked = bool(stuck)
        coming = {
            key for thread in stuck for step in thread.steps[thread.next :] for key in _gives(step)
        }
        why = [self._why(thread.steps[thread.next], coming) for thread in stuck]
        self.problems += sorted(
            (f"deadlock: {text}" for text in why), key=lambda text: "never" not in text
        )

    def _try(self, thread: Line, step: Step) -> bool:
        """Do the next operation of a threadblock, unless it must wait."""
        return self._DO[step.op.name](self, thread, step)

    def _skip(self, thread: Line, step: Step) -> bool:  # noqa: ARG002 - as kernels do
        return True

    def _nop(self, thread: Line, step: Step) -> bool:
        thread.synchronize(step.index)
        return True

    def _signal(self, thread: Line, step: Step) -> bool:
        for channel in step.channels:
            signal = Signal(thread.clock, thread.met, step.op.name == "rlxsignal")
            if channel[0] == "port":
                port = self.ports[channel[:3]]
                self._submit(thread, port, step)
                signal.clock = port.clock
            self._send(channel, signal)
        return True

    def _send(self, channel: tuple[str, int, int, int, int], signal: Signal) -> None:
        kind, _, _, peer, number = channel
        self.signals[kind, peer, number].append(signal)
        self._wake((kind, peer, number))

    def _wait(self, thread: Line, step: Step) -> bool:
        for kind, rank, number, _, _ in step.channels:
            if not self.signals[kind, rank, number]:
                self.waiting[kind, rank, number].append(thread)
                return False
        for kind, rank, number, _, _ in step.channels:
            signal = self.signals[kind, rank, number].popleft()
            signal.relaxed |= step.op.name == "rlxwait"
            thread.hear(signal)
        return True

    def _release(self, thread: Line, step: Step) -> bool:
        for number in step.op.semaphore_ids:
            self.releases.add(step.rank, number, Signal(thread.clock, thread.met))
            self._wake(("semaphore", step.rank, number))
        return True

    def _acquire(self, thread: Line, step: Step) -> bool:
        for number in step.op.semaphore_ids:
            if not self.releases.value(step.rank, number):
                self.waiting["semaphore", step.rank, number].append(thread)
                return False
        for number in step.op.semaphore_ids:
            for signal in self.releases.take(step.rank, number):
                thread.hear(signal)
        return True

    def _barrier(self, thread: Line, step: Step) -> bool:
        there = self.barriers[step.rank, step.op.barrier_id or 0]
        if thread in there:
            return False
        thread.synchronize(step.index)
        there.append(thread)
        if len(there) < (step.op.num_threadblocks or 1):
            return False
        together = Signal(np.maximum.reduce([other.clock for other in there]), 0)
        for other in there:
            together.met |= other.met
        for other in there:
            other.hear(together)
            other.synchronize(other.next)
            if other is not thread:
                other.next += 1
                self.ready.append(other)
        there.clear()
        return True

    def _wake(self, key: Any) -> None:
        self.ready.extend(self.waiting.pop(key, ()))

    # -- moving data --------------------------------------------------------------------------------------------------

    def _move(self, thread: Line, step: Step) -> bool:
        """Copies and sums by the threads of the threadblock itself."""
        read = [self._look(thread, step.index, step, place) for place in step.sources]
        results = [np.sum(read, axis=0)] * len(step.destinations) if step.op.name in SUMS else read
        for place, result in zip(step.destinations, results, strict=True):
            self._store(thread, step.index, step, place, result)
        return True

    def _put(self, thread: Line, step: Step) -> bool:
        if step.op.channel_type == "memory":
            return self._move(thread, step)
        for source, destination, channel in zip(
            step.sources, step.destinations, step.channels, strict=True
        ):
            port = self.ports[channel[:3]]
            event = self._submit(thread, port, step)
            self._store(port, event, step, destination, self._look(port, event, step, source))
            if step.op.name != "put":
                signal = Signal(port.clock.copy(), port.met)
                signal.clock[port.index] = event
                self._send(channel, signal)
        return True

    def _submit(self, thread: Line, port: Line, step: Step) -> int:
        """Hand an operation to a port channel, which does it some time later, after all that it was given before."""
        self.port_steps[port.index].append(step)
        event = len(self.port_steps[port.index]) - 1
        port.hear(Signal(thread.clock, thread.met))
        port.synchronize(event - 1)
        return event

    def _look(self, line: Line, event: int, step: Step, place: Range) -> Values:
        cells = self._cells(line, event, step, place)
        if not self.memory.known[cells.start : cells.stop].all():
            self._tell(step, f"reads {place} before anything is there")
        for cell in cells:
            self._order(line, step, place, self.memory.written[cell], "writes")
            self.memory.read[cell].append((line.index, event))
        return self.memory.values[cells.start : cells.stop].copy()

    def _store(self, line: Line, event: int, step: Step, place: Range, values: Values) -> None:
        cells = self._cells(line, event, step, place)
        for cell in cells:
            self._order(line, step, place, self.memory.written[cell], "writes")
            for before in self.memory.read[cell]:
                if before != (line.index, event):
                    self._order(line, step, place, before, "reads")
            self.memory.written[cell] = (line.index, event)
            self.memory.read[cell].clear()
        self.memory.values[cells.start : cells.stop] = values
        self.memory.known[cells.start : cells.stop] = True

    def _cells(self, line: Line, event: int, step: Step, place: Range) -> range:
        if not line.met >> place.rank & 1:
            self._tell(
                step, f"reaches {place} without a handshake that says that this rank has started"
            )
        self.touched[place.rank, line.index] = event
        share = step.op.tbg_info
        return self.memory.parts_of(place, (share.tb_id, share.tbg_size) if share else (0, 1))

    def _order(
        self, line: Line, step: Step, place: Range, before: tuple[int, int], what: str
    ) -> None:
        """Raise a race unless something done before is ordered before this operation."""
        other, event = before
        if event <= line.clock[other]:
            return
        if (other, event, id(step)) not in self.raced:
            self.raced.add((other, event, id(step)))
            self.problems.append(
                f"race on {place}: {self._name(other, event)} {what} it, not ordered with {step}"
            )

    def _name(self, line: int, event: int) -> str:
        return str(
            self.threads[line].steps[event]
            if line < len(self.threads)
            else self.port_steps[line][event]
        )

    def _tell(self, step: Step, text: str) -> None:
        self.problems.append(f"{step} {text}")

    # -- afterwards ---------------------------------------------------------------------------------------------------

    def finish(self) -> None:
        """Counters are as before, so that the plan runs again; and nobody reaches a rank that is done."""
        for (kind, rank, number), left in self.signals.items():
            if left:
                what = (
                    f"{kind} channel {number}"
                    if number >= 0
                    else f"a {kind} channel that it does not have"
                )
                self.problems.append(f"rank {rank} never waits for {len(left)} signals on {what}")
        self.problems += self.releases.left_over()
        ends = np.full((len(self.program.plan.gpus), self.lines), -1, np.int32)
        for thread in self.threads:
            thread.synchronize(len(thread.steps))
            np.maximum(ends[thread.rank], thread.clock, out=ends[thread.rank])
        for rank, line in np.argwhere(self.touched > ends).tolist():
            who = self._name(line, int(self.touched[rank, line]))
            self.problems.append(f"rank {rank} may end before {who} is done with its buffers")

    def compare(self, promised: list[Values | None] | str) -> None:
        """Compare outputs with what the collective promises; some have nothing promised."""
        if isinstance(promised, str):
            self.problems.append(promised)
            return
        for rank, wanted in enumerate(promised):
            if wanted is None:
                continue
            got = self.memory.content(rank, "o")
            wrong = np.flatnonzero(np.any((got != wanted) & ~np.isnan(wanted), axis=(1, 2)))
            if len(wrong):
                count = f" and {len(wrong) - 1} more" if len(wrong) > 1 else ""
                self.problems.append(
                    f"rank {rank} ends with a wrong output: chunk {wrong[0]}{count}"
                )

    def _why(self, step: Step, coming: set[Any]) -> str:
        """What a threadblock waits for, and whether somebody who waits as well would give it."""
        if step.op.name == "barrier":
            there = len(self.barriers[step.rank, step.op.barrier_id or 0])
            barrier, expected = step.op.barrier_id, step.op.num_threadblocks
            return f"{step} waits at barrier {barrier}, where {there} of {expected} have come"
        if step.op.name == "sem_acquire":
            number = next(n for n in step.op.semaphore_ids if not self.releases.value(step.rank, n))
            key, what = ("semaphore", step.rank, number), f"a release of semaphore {number}"
        else:
            kind, rank, own, peer, _ = next(
                c for c in step.channels if not self.signals[c[0], c[1], c[2]]
            )
            key, what = (kind, rank, own), f"a signal from rank {peer} on {kind} channel {own}"
        return f"{step} waits for {what}{'' if key in coming else ', which never comes'}"

    _DO: dict[str, Callable[[_Machine, Line, Step], bool]] = {  # noqa: RUF012
        "nop": _nop, "barrier": _barrier, "signal": _signal, "rlxsignal": _signal, "wait": _wait, "rlxwait": _wait,
        "sem_release": _release, "sem_acquire": _acquire, "flush": _skip,
        "put": _put, "pws": _put, "pwsf": _put, "get": _move, "copy": _move,
        "re": _move, "rre": _move, "res": _move, "rres": _move,
    }  # fmt: skip


def _gives(step: Step) -> list[tuple[str, int, int]]:
    """What others may wait for and this operation gives."""
    if step.op.name == "sem_release":
        return [("semaphore", step.rank, number) for number in step.op.semaphore_ids]
    signals = step.op.name in SIGNALS or step.op.name in ("pws", "pwsf")
    return [(kind, peer, number) for kind, _, _, peer, number in step.channels] if signals else []
