"""Runs an execution plan of MSCCL++ on numbers, ours or not, and says what is wrong with it.

Nothing is shared with the exporter but the schema. A threadblock is taken to keep its order only where kernels enforce
it: operations are carried out by many threads, so what one operation does is complete for the next one only after a
``nop`` or a barrier, and a signal carries only what such a ``nop`` has put before it. Port channels act on their own,
in order. What is not ordered by these rules is a race, whether or not this run came out right.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import islice
from math import lcm
from operator import itemgetter
from pathlib import Path

import numpy as np

from pccl._arrays import Column
from pccl.collective import Promise
from pccl.errors import FormatError
from pccl.formats.machine import (
    BY_NAME,
    Clock,
    Conflict,
    Kind,
    Line,
    Memory,
    Place,
    Problem,
    Problems,
    promise_of,
    unfit_buffers,
    wrong_outputs,
)
from pccl.formats.mscclpp.plan import ExecutionPlan, facts, read
from pccl.formats.mscclpp.resolver import Key, Range, ResolvedPlan, Step, resolve
from pccl.formats.mscclpp.rules import MOVES, PUTS, PUTS_WITH_SIGNAL, RELAXED, SIGNALS, SUMS, WAITS

MOST_PROBLEMS = 20
SEVERAL = -1


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
    lines = [str(problem) for problem in execute(plan, seed=seed)]
    more = len(lines) - MOST_PROBLEMS
    if more > 0:
        lines[MOST_PROBLEMS:] = [f"and {more} more problems"]
    said = facts(plan)
    return lines, said if lines else said | {"results": "exact, without races or deadlock"}


def execute(plan: ExecutionPlan, *, seed: int = 0) -> list[Problem]:
    """Run a plan on numbers of its own for every rank, and find all problems; none if it does what it promises."""
    resolved = resolve(plan)
    if resolved.errors:
        return list(resolved.errors)
    # A plan whose promise is unknown is run all the same: it may race or hang.
    machine = _Machine(resolved)
    try:
        promise = _promise(plan, resolved.sizes)
    except FormatError as error:
        machine.problems.add(Kind.RESULT, str(error))
        promise = None
    machine.run(promise, seed)
    return [*resolved.defects, *machine.problems]


def _promise(plan: ExecutionPlan, sizes: list[dict[str, int]]) -> Promise:
    """What the collective promises; ranks that are not members contribute nothing and are promised nothing."""
    name = plan.collective
    said = plan.pccl
    ranks = range(len(plan.gpus))
    if name not in BY_NAME:
        raise FormatError(
            f"what {name!r} promises is not known here; known are {', '.join(BY_NAME)}"
        )
    members = list(ranks) if said.members is None else said.members
    # These come from a file or a user, and anything may stand there.
    if not members or len({*members}) < len(members) or not {*members} <= {*ranks}:
        raise FormatError(f"the members {members} are not ranks of the plan")
    if said.root is not None and said.root not in members:
        raise FormatError(f"the root {said.root} is not a member")
    matrix = said.matrix and [[said.matrix[i][j] for j in members] for i in members]
    promise = promise_of(
        name,
        len(ranks),
        members,
        inputs=[size["i"] for size in sizes],
        root=said.root,
        cyclic=said.cyclic,
        matrix=matrix or [],
    )
    for text in unfit_buffers(promise, sizes):
        raise FormatError(f"the buffers do not fit {name}: {text}")
    return promise


class Thread(Line):
    """A threadblock, or a port channel.

    Behind the entries for all lines, its clock has one for each rank: zero if that rank is known to run, otherwise -1.
    """

    __slots__ = ("next", "rank", "steps", "touched")

    def __init__(
        self, index: int, lines: int, ranks: int, events: int, rank: int, steps: list[Step]
    ) -> None:
        super().__init__(index, lines + ranks, events)
        self.clock[lines + rank] = 0
        self.rank = rank
        self.steps = steps
        self.next = 0
        # Per rank: its last operation that touched the buffers of the rank.
        self.touched: dict[int, int] = {}


class Counter:
    """A counter that goes up with every signal and down with every wait: that of a channel, or a semaphore."""

    __slots__ = ("_given", "_giver", "_taken", "_total", "initial", "value", "waiting")

    def __init__(self, initial: int = 0) -> None:
        self.initial = initial
        self.value = initial
        # Who waits for it to go up.
        self.waiting: list[Thread] = []
        self._taken = 0
        self._total = 0
        self._giver: int | None = None
        # Those that no wait has taken; the clocks of others need no more memory.
        self._given: list[Clock] = []

    def expect(self, giver: int) -> None:
        """Note that a threadblock will give a signal."""
        alone = not self._total or self._giver == giver
        self._giver = giver if alone else SEVERAL
        self._total += 1

    def give(self, clock: Clock) -> None:
        """Go up with a signal, which carries what is ordered before it."""
        self.value += 1
        self._given.append(clock)

    def take(self) -> Iterable[Clock]:
        """Wait, and learn what is certain to have happened.

        The k-th wait knows that k signals came. It knows which if one threadblock gives them all, or if it is the last.
        """
        self.value -= 1
        self._taken += 1
        # The first waits are served by the initial value, which carries nothing.
        nth = self._taken - self.initial
        # One giver gives in order. Of several, any may have come first, so that nothing is certain.
        if nth > 0 and self._giver != SEVERAL:
            return (self._given.pop(0),)
        return self._given if nth == self._total else ()


class _Machine:
    """All ranks at once: threadblocks run until they must wait, and wake when what they wait for comes."""

    def __init__(self, resolved: ResolvedPlan) -> None:
        self.problems = Problems()
        gpus = resolved.plan.gpus
        steps = list(resolved.steps)
        # Every share of an operation is a number of parts.
        parts = lcm(*{step.op.tbg_info.tbg_size for step in steps if step.op.tbg_info})
        self.memory = Memory(resolved.sizes, resolved.plan.inplace, parts)
        # Each port channel is a line of execution: it acts after, and not together with, who uses it.
        over_ports = [step for step in steps if step.op.channel_type == "port"]
        ports = sorted({channel.own for step in over_ports for channel in step.channels})
        work = [(rank, block) for rank, gpu in enumerate(resolved.blocks) for block in gpu]
        # Ports get what they do while others run.
        work += [(rank, []) for _, rank, _ in ports]
        self.count = len(work)
        longest = max((len(block) for _, block in work), default=0)
        if ports:
            # Each of them gets no more than its rank has for all channels.
            given = np.bincount([step.rank for step in steps for _ in step.channels])
            longest = max(longest, int(given.max()))
        size = (len(work), len(gpus), longest)
        self.lines = [Thread(i, *size, *one) for i, one in enumerate(work)]
        self.threads = self.lines[: len(work) - len(ports)]
        self.ports = dict(zip(ports, self.lines[len(self.threads) :], strict=True))
        self.counters: dict[Key, Counter] = defaultdict(Counter)
        for rank, gpu in enumerate(gpus):
            for i, semaphore in enumerate(gpu.semaphores):
                self.counters[Key("semaphore", rank, i)] = Counter(semaphore.init_value)
        # To know which signal a wait has got, it must be known who will give any.
        for step in steps:
            if step.op.name in SIGNALS:
                for channel in step.channels:
                    self.counters[channel.other].expect(step.threadblock)
        # Who is at which barrier.
        self.barriers: dict[tuple[int, int], list[Thread]] = defaultdict(list)
        self.ready: deque[Thread] = deque(self.threads)
        self.raced: set[tuple[int, int, Place]] = set()

    # -- running ------------------------------------------------------------------------------------------------------

    def run(self, promise: Promise | None, seed: int) -> None:
        """Run everything, and compare what comes of it with a promise."""
        inputs = self.memory.fill(seed)
        while self.ready:
            thread = self.ready.popleft()
            for step in islice(thread.steps, thread.next, None):
                if not DOES[step.op.name](self, thread, step):
                    thread.next = step.position
                    break
            else:
                thread.next = len(thread.steps)
        # Whoever is not at its end can never go on: everybody else has stopped as well.
        stuck = [thread for thread in self.threads if thread.next < len(thread.steps)]
        if stuck:
            self._explain(stuck)
            return
        self._finish()
        for rank, wrong in wrong_outputs(promise, inputs, self.memory) if promise else ():
            more = f" and {len(wrong) - 1} more" if len(wrong) > 1 else ""
            text = f"rank {rank} ends with a wrong output: chunk {wrong[0]}{more}"
            self.problems.add(Kind.RESULT, text, Place(rank))

    def _nop(self, thread: Thread, step: Step) -> bool:
        thread.synchronize(step.position)
        return True

    def _flush(self, _: Thread, __: Step) -> bool:
        # Kernels skip it.
        return True

    def _signal(self, thread: Thread, step: Step) -> bool:
        relaxed = step.op.name in RELAXED
        for own, other in step.channels:
            clock = thread.clock
            # The signal goes through the port, behind all that was given to it before.
            if own.kind == "port":
                self._submit(thread, self.ports[own], step)
                clock = self.ports[own].clock
            self._give(other, self._relaxed(clock) if relaxed else clock)
        return True

    def _relaxed(self, clock: Clock) -> Clock:
        """What a signal carries from one line to another if it is relaxed at either end: only who is running."""
        running = clock.copy()
        running[: self.count] = -1
        return running

    def _give(self, key: Key, clock: Clock) -> None:
        counter = self.counters[key]
        counter.give(clock)
        if counter.waiting:
            self.ready.extend(counter.waiting)
            counter.waiting.clear()

    def _wait(self, thread: Thread, step: Step) -> bool:
        counters = [self.counters[key] for key, _ in step.channels]
        # All or nothing: what is there is taken when the last is there.
        for counter in counters:
            if counter.value <= 0:
                counter.waiting.append(thread)
                return False
        relaxed = step.op.name in RELAXED
        for counter in counters:
            for clock in counter.take():
                thread.hear(self._relaxed(clock) if relaxed else clock)
        return True

    def _barrier(self, thread: Thread, step: Step) -> bool:
        there = self.barriers[step.rank, step.op.barrier_id or 0]
        # It has come before, and was woken by something else.
        if thread in there:
            return False
        thread.next = step.position
        thread.synchronize(thread.next)
        there.append(thread)
        if len(there) < (step.op.num_threadblocks or 1):
            return False
        together = np.maximum.reduce([other.clock for other in there])
        for other in there:
            other.hear(together)
            other.synchronize(other.next)
            # The last one is running, and goes on by itself.
            if other is not thread:
                other.next += 1
                self.ready.append(other)
        there.clear()
        return True

    # -- moving data --------------------------------------------------------------------------------------------------

    def _move(self, thread: Thread, step: Step) -> bool:
        """Copies and sums by the threads of the threadblock itself."""
        # Nearly all are of one place to one other.
        if len(step.sources) == len(step.destinations) == 1:
            values = self._load(thread, step.position, step, step.sources[0])
            self._store(thread, step.position, step, step.destinations[0], values)
            return True
        read = [self._load(thread, step.position, step, place) for place in step.sources]
        # All destinations get the sum of all sources.
        if step.op.name in SUMS:
            read = [np.sum(read, axis=0)] * len(step.destinations)
        for place, values in zip(step.destinations, read, strict=True):
            self._store(thread, step.position, step, place, values)
        return True

    def _put(self, thread: Thread, step: Step) -> bool:
        if step.op.channel_type == "memory":
            return self._move(thread, step)
        for source, destination, channel in zip(
            step.sources, step.destinations, step.channels, strict=True
        ):
            port = self.ports[channel.own]
            event = self._submit(thread, port, step)
            values = self._load(port, event, step, source)
            self._store(port, event, step, destination, values)
            if step.op.name in PUTS_WITH_SIGNAL:
                # The put itself is complete when its signal comes, which is more than the port knew
                # before it.
                clock = port.clock.copy()
                clock[port.index] = event
                self._give(channel.other, clock)
        return True

    def _submit(self, thread: Thread, port: Thread, step: Step) -> int:
        """Hand an operation to a port channel, which does it some time later, after all that it was given before."""
        event = len(port.steps)
        port.steps.append(step)
        port.hear(thread.clock)
        port.synchronize(event - 1)
        return event

    def _load(self, line: Thread, event: int, step: Step, place: Range) -> Column:
        cells = self._cells(line, event, step, place)
        # Whatever is there is a number, so that the run can go on.
        if self.memory.first_unknown(cells) >= 0:
            self._tell(Kind.UNWRITTEN, step, f"reads {place} before anything is there")
        conflicts = self.memory.read(line, event, cells)
        if conflicts:
            self._race(step, place, conflicts)
        return self.memory.values[cells].copy()

    def _store(self, line: Thread, event: int, step: Step, place: Range, values: Column) -> None:
        cells = self._cells(line, event, step, place)
        conflicts = self.memory.write(line, event, cells, values)
        if conflicts:
            self._race(step, place, conflicts)

    def _cells(self, line: Thread, event: int, step: Step, place: Range) -> slice:
        """The part of a place that is this threadblock's, if several share the operation."""
        rank = place.rank
        # A rank knows itself to be running.
        if rank != line.rank and line.clock[self.count + rank] < 0:
            text = f"reaches {place} without a handshake that says that this rank has started"
            self._tell(Kind.HANDSHAKE, step, text)
        line.touched[rank] = event
        cells = self.memory.cells(rank, place.buffer, place.begin, place.size)
        # Kernels divide the bytes of a place evenly; `parts` is such that cells divide as well.
        share = step.op.tbg_info
        if share is None:
            return cells
        size = (cells.stop - cells.start) // share.tbg_size
        first = cells.start + share.tb_id * size
        return slice(first, first + size)

    def _race(self, step: Step, place: Range, conflicts: Sequence[Conflict]) -> None:
        for _, line, event, does in conflicts:
            # Two operations race once, in however many cells.
            if (line, event, step.place) not in self.raced:
                self.raced.add((line, event, step.place))
                other = self.lines[line].steps[event]
                text = f"race on {place}: {other} {does} it, not ordered with {step}"
                self.problems.add(Kind.RACE, text, step.place)

    def _tell(self, kind: Kind, step: Step, text: str) -> None:
        self.problems.add(kind, f"{step} {text}", step.place)

    # -- afterwards ---------------------------------------------------------------------------------------------------

    def _finish(self) -> None:
        """Check that counters are as before, for the next run, and that nobody reaches a rank that is done."""
        for key, counter in self.counters.items():
            left = counter.value - counter.initial
            if not left:
                continue
            text = f"rank {key.rank} never waits for {left} signals on {key}"
            if key.kind == "semaphore":
                change = f"{left:+d} from its initial value; the next run would go wrong"
                text = f"rank {key.rank}: {key} ends {change}"
            elif key.number < 0:
                text = f"rank {key.rank} has no {key.kind} channel for {left} signals to it"
            self.problems.add(Kind.COUNTER, text, Place(key.rank))
        # A rank may end, and free its buffers, when all its threadblocks have: what they know then has to
        # cover all that others have done to its buffers.
        ranks = len(self.memory.sizes)
        ends = np.full((ranks, self.count + ranks), -1, np.int32)
        for thread in self.threads:
            thread.synchronize(len(thread.steps))
            np.maximum(ends[thread.rank], thread.clock, out=ends[thread.rank])
        touched = np.full_like(ends, -1)
        for line in self.lines:
            for rank, event in line.touched.items():
                touched[rank, line.index] = event
        for rank, index in np.argwhere(touched > ends).tolist():
            who = self.lines[index].steps[touched[rank, index]]
            text = f"rank {rank} may end before {who} is done with its buffers"
            self.problems.add(Kind.HANDSHAKE, text, Place(rank))

    def _explain(self, stuck: list[Thread]) -> None:
        """Say what threadblocks wait for: first those for which it never comes, as nobody has it still to give."""
        left = [step for thread in stuck for step in thread.steps[thread.next :]]
        # What somebody has still to give may come once that one goes on: the cause is elsewhere.
        coming = {key for step in left for key in step.gives}
        found = []
        for thread in stuck:
            step = thread.steps[thread.next]
            missing = [key for key in step.waits if self.counters[key].value <= 0]
            text = f"deadlock: {step} waits {self._awaited(step, missing)}"
            hopeless = bool(missing) and missing[0] not in coming
            if hopeless:
                text += ", which never comes"
            found.append((not hopeless, text, step.place))
        for _, text, place in sorted(found, key=itemgetter(0)):
            self.problems.add(Kind.DEADLOCK, text, place)

    def _awaited(self, step: Step, missing: list[Key]) -> str:
        if not missing:
            there = len(self.barriers[step.rank, step.op.barrier_id or 0])
            expected = step.op.num_threadblocks
            return f"at barrier {step.op.barrier_id}, where {there} of {expected} have come"
        key = missing[0]
        if key.kind == "semaphore":
            return f"for a release of {key}"
        peer = next(other.rank for own, other in step.channels if own == key)
        return f"for a signal from rank {peer} on {key}"


# What does an operation, unless it must wait, and says whether it did.
DOES: Mapping[str, Callable[[_Machine, Thread, Step], bool]] = {
    "nop": _Machine._nop,
    "barrier": _Machine._barrier,
    "flush": _Machine._flush,
    **dict.fromkeys(WAITS, _Machine._wait),
    **dict.fromkeys(SIGNALS, _Machine._signal),
    **dict.fromkeys(MOVES, _Machine._move),
    **dict.fromkeys(PUTS, _Machine._put),
}
