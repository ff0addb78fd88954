"""In which order the steps of an MSCCL-IR file can run: connections of finite depth, dependencies, deadlocks.

Every step is a node. It comes after the step before it, after the step that it waits for, after the message that it
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
from pccl.formats.msccl.file import Step, XmlAlgorithm
from pccl.formats.msccl.rules import RECEIVES, SENDS, where

# Sender, receiver, channel.
Connection = tuple[int, int, int]

# Why a step waits for others, one column of `Execution.waits` each.
_REASONS = (
    "for {}, before it",
    "for {}, on which it depends",
    "for {} to send to it",
    "for {} to make room (the connection holds {depth} message{s})",
)
BEFORE, DEPENDENCY, SENDER, ROOM = range(len(_REASONS))


@dataclass(slots=True)
class Node:
    """One step, and where it stands."""

    gpu: int
    tb: int
    index: int
    step: Step
    block: int  # its threadblock, counted through all ranks
    sends: tuple[Connection, int] | None  # the connection, and the number of the message on it
    receives: tuple[Connection, int] | None

    @property
    def place(self) -> Place:
        """Where it is."""
        return Place(self.gpu, self.tb, self.index)

    def __str__(self) -> str:
        return where(self.place)

    def problem(self, kind: Kind, text: str) -> Problem:
        """Return a problem of this step."""
        return Problem(kind, f"{self}: {text}", self.place)


@dataclass(frozen=True, eq=False)
class Execution:
    """All steps, what each has to wait for, and an order that respects it."""

    nodes: list[Node]
    waits: Ints  # per node: the node that it waits for by each of the reasons, or -1
    depth: int
    order: list[int]  # all nodes, unless some are blocked for ever

    def blocked(self) -> Iterator[Problem]:
        """The first step of every threadblock that can never run, and what it waits for."""
        done = set(self.order)
        seen = set()
        for number, node in enumerate(self.nodes):
            if number in done or (node.gpu, node.tb) in seen:
                continue
            seen.add((node.gpu, node.tb))
            reasons = [
                why.format(self.nodes[other], depth=self.depth, s="s" if self.depth > 1 else "")
                for other, why in zip(self.waits[number].tolist(), _REASONS, strict=True)
                if other >= 0 and other not in done
            ]
            text = f"deadlock: type {node.step.type} waits for ever {' and '.join(reasons)}"
            yield node.problem(Kind.DEADLOCK, text)


def connect(algorithm: XmlAlgorithm, depth: int) -> tuple[Execution, list[Problem]]:
    """Join the two ends of every connection and order all steps; also returns what keeps them from running."""
    nodes, first = _nodes(algorithm)
    sent: dict[Connection, list[int]] = defaultdict(list)
    received: dict[Connection, list[int]] = defaultdict(list)
    for number, node in enumerate(nodes):
        if node.sends:
            sent[node.sends[0]].append(number)
        if node.receives:
            received[node.receives[0]].append(number)
    problems = [
        problem
        for connection in sorted({*sent, *received})
        for problem in _mismatches(nodes, connection, sent[connection], received[connection])
    ]
    if problems:
        return Execution(nodes, np.zeros((0, len(_REASONS)), np.int64), depth, []), problems
    # The first steps of threadblocks come first, as if all ran at the same speed.
    time = np.array([node.index for node in nodes], np.int64)
    waits = np.full((len(nodes), len(_REASONS)), -1, np.int64)
    waits[:, BEFORE] = np.where(time > 0, np.arange(len(nodes)) - 1, -1)
    for number, node in enumerate(nodes):
        if node.step.depid >= 0:
            waits[number, DEPENDENCY] = first[node.gpu, node.step.depid] + node.step.deps
    for connection, receipts in received.items():
        waits[receipts, SENDER] = sent[connection]
        waits[sent[connection][depth:], ROOM] = receipts[:-depth]
    after, reason = np.nonzero(waits >= 0)
    order = sorted_events(time, waits[after, reason], after).tolist()
    execution = Execution(nodes, waits, depth, order)
    return execution, list(execution.blocked())


def _nodes(algorithm: XmlAlgorithm) -> tuple[list[Node], dict[tuple[int, int], int]]:
    """Every step as a node, and the node of the first step of each threadblock."""
    nodes: list[Node] = []
    first: dict[tuple[int, int], int] = {}
    blocks = [(gpu.id, tb) for gpu in algorithm.gpus for tb in gpu.threadblocks]
    for block, (gpu, tb) in enumerate(blocks):
        first[gpu, tb.id] = len(nodes)
        sends = receives = 0
        for index, step in enumerate(tb.steps):
            node = Node(gpu, tb.id, index, step, block, None, None)
            if step.type in SENDS:
                node.sends = ((gpu, tb.send, tb.chan), sends)
                sends += 1
            if step.type in RECEIVES:
                node.receives = ((tb.recv, gpu, tb.chan), receives)
                receives += 1
            nodes.append(node)
    return nodes, first


def _mismatches(
    nodes: list[Node], connection: Connection, sent: list[int], received: list[int]
) -> Iterator[Problem]:
    src, dst, chan = connection
    way = f"gpu {src} -> gpu {dst} on channel {chan}"
    if len(sent) != len(received):
        counts = f"({way}: {len(sent)} sends, {len(received)} receives)"
        if len(sent) > len(received):
            node = nodes[sent[len(received)]]
            text = f"it sends a message that nobody receives {counts}"
        else:
            node = nodes[received[len(sent)]]
            text = f"it receives what nobody sends {counts}"
        yield node.problem(Kind.CONNECTION, text)
        return
    for a, b in zip(sent, received, strict=True):
        here = nodes[a].step.cnt
        there = nodes[b].step.cnt
        if here != there:
            text = f"it receives {there} chunks, but {nodes[a]} sends {here} ({way})"
            yield nodes[b].problem(Kind.CONNECTION, text)
