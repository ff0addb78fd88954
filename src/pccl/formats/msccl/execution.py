"""In which order the steps of an MSCCL-IR file can run: connections of finite depth, dependencies, deadlocks.

A step comes after the step before it, after the step that it waits for, after the message that it
receives has been sent and, where its connection is full, after an earlier message has been received.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from pccl._arrays import Ints
from pccl.formats.lowering.ordering import sorted_events
from pccl.formats.machine import Kind, Place, Problem
from pccl.formats.msccl.file import Connection, Step, XmlAlgorithm
from pccl.formats.msccl.rules import RECEIVES, SENDS
from pccl.units import counted

# Why a step waits for others, one column of `Execution.waits` each.
_REASONS = (
    "for {}, before it",
    "for {}, on which it depends",
    "for {} to send to it",
    "for {} to make room (the connection holds {depth} message{s})",
)
BEFORE, DEPENDENCY, SENDER, ROOM = range(len(_REASONS))


@dataclass(frozen=True, eq=False)
class Execution:
    """All steps, what each has to wait for, and an order that respects it."""

    steps: list[Step]
    waits: Ints  # per step: the one that it waits for by each of the reasons, or -1
    depth: int
    order: list[int]  # all steps, unless some are blocked for ever

    def blocked(self) -> Iterator[Problem]:
        """The first step of every threadblock that can never run, and what it waits for."""
        done = {*self.order}
        seen = set()
        for number, step in enumerate(self.steps):
            if number in done or step.around in seen:
                continue
            # What comes after it in its threadblock is stuck for the same reason.
            seen.add(step.around)
            reasons = [
                why.format(self.steps[other], depth=self.depth, s="s" if self.depth > 1 else "")
                for other, why in zip(self.waits[number].tolist(), _REASONS, strict=True)
                if other >= 0 and other not in done
            ]
            text = f"deadlock: type {step.type} waits for ever {' and '.join(reasons)}"
            yield step.problem(Kind.DEADLOCK, text)


def connect(algorithm: XmlAlgorithm, depth: int) -> tuple[Execution, list[Problem]]:
    """Join the two ends of every connection and order all steps; also returns what keeps them from running."""
    steps = algorithm.steps
    # Messages of a connection arrive in the order in which they are sent: the ends are joined by counting.
    sent: dict[Connection, list[int]] = defaultdict(list)
    received: dict[Connection, list[int]] = defaultdict(list)
    first: dict[Place, int] = {}
    for number, step in enumerate(steps):
        tb = step.around
        if step.index == 0:
            first[tb.place] = number
        if step.type in SENDS:
            sent[tb.sends_on].append(number)
        if step.type in RECEIVES:
            received[tb.receives_on].append(number)
    waits = np.full((len(steps), len(_REASONS)), -1, np.int64)
    problems = [
        problem
        for way in sorted({*sent, *received})
        for problem in _mismatches(steps, way, sent[way], received[way])
    ]
    if problems:
        # Without counterparts there is nothing to order.
        return Execution(steps, waits, depth, []), problems
    # The first steps of threadblocks come first, as if all ran at the same speed.
    time = np.array([step.index for step in steps], np.int64)
    waits[:, BEFORE] = np.where(time > 0, np.arange(len(steps)) - 1, -1)
    for number, step in enumerate(steps):
        if step.depid >= 0:
            other = Place(step.around.around.id, step.depid)
            waits[number, DEPENDENCY] = first[other] + step.deps
    for way, receipts in received.items():
        waits[receipts, SENDER] = sent[way]
        # What fits into the connection need not wait for anything to be taken out of it.
        waits[sent[way][depth:], ROOM] = receipts[:-depth]
    after, reason = np.nonzero(waits >= 0)
    order = sorted_events(time, waits[after, reason], after).tolist()
    execution = Execution(steps, waits, depth, order)
    return execution, list(execution.blocked())


def _mismatches(
    steps: list[Step], connection: Connection, sent: list[int], received: list[int]
) -> Iterator[Problem]:
    src, dst, chan = connection
    way = f"gpu {src} -> gpu {dst} on channel {chan}"
    # If there are too many of one kind, the first that has no counterpart is to blame, and no others are compared.
    if len(sent) != len(received):
        counts = f"({way}: {len(sent)} sends, {len(received)} receives)"
        if len(sent) > len(received):
            step = steps[sent[len(received)]]
            text = f"it sends a message that nobody receives {counts}"
        else:
            step = steps[received[len(sent)]]
            text = f"it receives what nobody sends {counts}"
        yield step.problem(Kind.CONNECTION, text)
        return
    for a, b in zip(sent, received, strict=True):
        here = steps[a].cnt
        there = steps[b].cnt
        if here != there:
            text = f"it receives {counted(there, 'chunk')}, but {steps[a]} sends {here} ({way})"
            yield steps[b].problem(Kind.CONNECTION, text)
