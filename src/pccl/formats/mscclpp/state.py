"""The state of a plan that runs: buffers of numbers, lines of execution and what is ordered before what, semaphores."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from pccl._arrays import Floats, Indices
from pccl.formats.mscclpp.plan import Plan
from pccl.formats.mscclpp.resolver import Program, Range, Step

__all__ = ["Clock", "Line", "Memory", "Semaphores", "Signal", "Values"]

Clock = Indices
Values = Floats


class Memory:
    """The buffers: numbers, and who has read and written each part of a chunk since when.

    A part is the smallest piece that operations tell apart: a chunk, or the share of a threadblock in one. In place,
    input and output are one array.
    """

    def __init__(self, plan: Plan, parts: int, seed: int) -> None:
        self.plan, self.parts = plan, parts
        self.first: dict[tuple[int, str], int] = {}
        total = 0
        for rank, gpu in enumerate(plan.gpus):
            own, other, shift = _shared_buffers(plan, rank)
            for buffer in (own, other, "s"):
                if buffer == other and shift is not None:
                    self.first[rank, other] = self.first[rank, own] + shift * parts
                else:
                    self.first[rank, buffer] = total
                    total += gpu.chunks(buffer) * parts
        self.values: Values = np.full((total, 2), np.nan)
        self.known = np.zeros(total, bool)
        self.written: list[tuple[int, int]] = [(-1, -1)] * total
        self.read: list[list[tuple[int, int]]] = [[] for _ in range(total)]
        random = np.random.default_rng(seed)
        for rank, gpu in enumerate(plan.gpus):
            where = self._slice(rank, "i", 0, gpu.input_chunks)
            count = where.stop - where.start
            self.values[where, 0] = random.integers(-(2**20), 2**20, count)
            self.values[where, 1] = random.integers(-(2**30), 2**30, count) / 2**20
            self.known[where] = True

    def parts_of(self, place: Range, share: tuple[int, int]) -> range:
        """The parts that one of several sharing threadblocks handles, as kernels cut them."""
        whole = self._slice(place.rank, place.buffer, place.begin, place.size)
        mine, of = share
        size = (whole.stop - whole.start) // of
        return range(whole.start + mine * size, whole.start + (mine + 1) * size)

    def inputs(self) -> list[Values]:
        """What all ranks have in their inputs now."""
        return [self.content(rank, "i") for rank in range(len(self.plan.gpus))]

    def content(self, rank: int, buffer: str) -> Values:
        """What is in a buffer now: chunks x parts x numbers."""
        chunks = self.plan.gpus[rank].chunks(buffer)
        return (
            self.values[self._slice(rank, buffer, 0, chunks)].reshape(chunks, self.parts, 2).copy()
        )

    def _slice(self, rank: int, buffer: str, begin: int, size: int) -> slice:
        first = self.first[rank, buffer] + begin * self.parts
        return slice(first, first + size * self.parts)


def _shared_buffers(plan: Plan, rank: int) -> tuple[str, str, int | None]:
    """The larger buffer, the other one, and at which chunk of the former the latter begins if it lies in it."""
    gpu = plan.gpus[rank]
    large, small = ("i", "o") if gpu.input_chunks >= gpu.output_chunks else ("o", "i")
    if not plan.inplace:
        return large, small, None
    return large, small, 0 if gpu.input_chunks == gpu.output_chunks else rank * gpu.chunks(small)


class Signal:
    """What a signal carries: what is ordered before it, whether data is, and the ranks known to run."""

    __slots__ = ("clock", "met", "relaxed")

    def __init__(self, clock: Clock, met: int, relaxed: bool = False) -> None:
        self.clock, self.met, self.relaxed = clock, met, relaxed


class Line:
    """One line of execution: a threadblock or a port channel.

    `clock` holds, for each line, up to which of its operations everything is ordered before what comes next here;
    `pending` what has been heard of since the last ``nop``. `met` has a bit for each rank known to run.
    """

    __slots__ = ("clock", "index", "met", "next", "pending", "pending_met", "rank", "steps")

    def __init__(self, index: int, rank: int, steps: Sequence[Step], lines: int) -> None:
        self.index, self.rank, self.steps, self.next = index, rank, steps, 0
        self.clock: Clock = np.full(lines, -1, np.int32)
        self.pending: Clock | None = None
        self.met = self.pending_met = 1 << rank

    def hear(self, signal: Signal) -> None:
        """Take in what a signal carries; it counts from the next ``nop`` on."""
        self.pending_met |= signal.met
        if not signal.relaxed:
            self.pending = (
                signal.clock if self.pending is None else np.maximum(self.pending, signal.clock)
            )

    def synchronize(self, until: int) -> None:
        """All threads have met: everything up to operation `until`, and all heard of, is before what comes next."""
        self.clock = (
            self.clock.copy() if self.pending is None else np.maximum(self.clock, self.pending)
        )
        self.clock[self.index] = until
        self.met |= self.pending_met
        self.pending = None


class Semaphores:
    """The counters between the threadblocks of a rank, and what is ordered before their releases.

    The k-th acquisition knows that k releases happened. It knows which if one threadblock releases, and if all have.
    """

    def __init__(self, program: Program) -> None:
        self.initial = {
            (rank, i): s.init_value
            for rank, gpu in enumerate(program.plan.gpus)
            for i, s in enumerate(gpu.semaphores)
        }
        self.given: dict[tuple[int, int], list[Signal]] = {key: [] for key in self.initial}
        self.taken = dict.fromkeys(self.initial, 0)
        self.releasers: dict[tuple[int, int], set[int]] = {key: set() for key in self.initial}
        self.total = dict.fromkeys(self.initial, 0)
        for step in (
            step
            for gpu in program.steps
            for tb in gpu
            for step in tb
            if step.op.name == "sem_release"
        ):
            for number in step.op.semaphore_ids:
                self.total[step.rank, number] += 1
                self.releasers[step.rank, number].add(step.threadblock)

    def value(self, rank: int, number: int) -> bool:
        """Whether an acquisition goes through."""
        key = rank, number
        return self.initial[key] + len(self.given[key]) > self.taken[key]

    def add(self, rank: int, number: int, signal: Signal) -> None:
        """Release."""
        self.given[rank, number].append(signal)

    def take(self, rank: int, number: int) -> list[Signal]:
        """Acquire, and learn what is certain to have happened."""
        key = rank, number
        self.taken[key] += 1
        nth = self.taken[key] - self.initial[key]
        if nth == self.total[key]:
            return self.given[key]
        return [self.given[key][nth - 1]] if nth > 0 and len(self.releasers[key]) == 1 else []

    def left_over(self) -> list[str]:
        """One line for each semaphore that is not what it was at the start."""
        return [
            f"rank {rank}: semaphore {number} ends {len(self.given[rank, number]) - self.taken[rank, number]:+d} "
            "from its initial value; the next run would go wrong"
            for rank, number in self.initial
            if len(self.given[rank, number]) != self.taken[rank, number]
        ]
