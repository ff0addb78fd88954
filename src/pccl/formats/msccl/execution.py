"""In which order the steps of an MSCCL-IR file can run: connections of finite depth, dependencies, deadlocks.

Every step is a node. It comes after the step before it, after the step that it waits for, after the message that it
receives has been sent and, where its connection is full, after an earlier message has been received.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

import numpy as np

from pccl._arrays import Ints
from pccl.formats.msccl.file import Algo, Step
from pccl.formats.msccl.rules import RECEIVES, SENDS
from pccl.formats.ordering import sorted_events

__all__ = ["Execution", "Node", "connect"]

Connection = tuple[int, int, int]  # sender, receiver, channel

# Why a step waits for others, one column each.
_REASONS = (
    "for {}, before it",
    "for {}, on which it depends",
    "for {} to send to it",
    "for {} to make room (the connection holds {depth} message{s})",
)


@dataclass(slots=True)
class Node:
    """One step, and where it stands."""

    gpu: int
    tb: int
    index: int
    step: Step
    sends: tuple[Connection, int] | None  # the connection, and the number of the message on it
    receives: tuple[Connection, int] | None

    def __str__(self) -> str:
        return f"gpu {self.gpu} tb {self.tb} step {self.index}"


@dataclass(frozen=True, eq=False)
class Execution:
    """All steps, what each has to wait for, and an order that respects it."""

    nodes: list[Node]
    waits: Ints  # per node: the node that it waits for by each of the reasons, or -1
    depth: int
    order: list[int]  # all nodes, unless some are blocked for ever

    @classmethod
    def of(cls, nodes: list[Node], waits: Ints, depth: int) -> Execution:
        """Find an order: the first steps of threadblocks first, as if all ran at the same speed."""
        when = np.array([node.index for node in nodes], np.int64)
        after, reason = np.nonzero(waits >= 0)
        return cls(nodes, waits, depth, sorted_events(when, waits[after, reason], after).tolist())

    def blocked(self) -> list[str]:
        """The first step of every threadblock that can never run, and what it waits for."""
        done, lines, seen = set(self.order), [], set()
        for number, node in enumerate(self.nodes):
            if number in done or (node.gpu, node.tb) in seen:
                continue
            seen.add((node.gpu, node.tb))
            reasons = [
                why.format(self.nodes[other], depth=self.depth, s="s" if self.depth > 1 else "")
                for other, why in zip(self.waits[number].tolist(), _REASONS, strict=True)
                if other >= 0 and other not in done
            ]
            lines.append(
                f"{node}: deadlock: type {node.step.type} waits for ever {' and '.join(reasons)}"
            )
        return lines


def connect(algo: Algo, depth: int) -> tuple[Execution | None, list[str]]:
    """Join the two ends of every connection and order all steps; or say which ends do not fit."""
    nodes, first = _nodes(algo)
    sent, received = (
        defaultdict[Connection, list[int]](list),
        defaultdict[Connection, list[int]](list),
    )
    for number, node in enumerate(nodes):
        if node.sends:
            sent[node.sends[0]].append(number)
        if node.receives:
            received[node.receives[0]].append(number)
    problems = [
        line
        for connection in sorted({*sent, *received})
        for line in _mismatches(nodes, connection, sent[connection], received[connection])
    ]
    if problems:
        return None, problems
    return Execution.of(nodes, _waits(nodes, first, sent, received, depth), depth), []


def _nodes(algo: Algo) -> tuple[list[Node], dict[tuple[int, int], int]]:
    """Every step as a node, and the node of the first step of each threadblock."""
    nodes: list[Node] = []
    first: dict[tuple[int, int], int] = {}
    for gpu in algo.gpus:
        for tb in gpu.threadblocks:
            first[gpu.id, tb.id] = len(nodes)
            sends = receives = 0
            for index, step in enumerate(tb.steps):
                out = ((gpu.id, tb.send, tb.chan), sends) if step.type in SENDS else None
                into = ((tb.recv, gpu.id, tb.chan), receives) if step.type in RECEIVES else None
                sends, receives = sends + bool(out), receives + bool(into)
                nodes.append(Node(gpu.id, tb.id, index, step, out, into))
    return nodes, first


def _mismatches(
    nodes: list[Node], connection: Connection, sent: list[int], received: list[int]
) -> list[str]:
    src, dst, chan = connection
    way = f"gpu {src} -> gpu {dst} on channel {chan}"
    if len(sent) != len(received):
        extra = nodes[sent[len(received)] if len(sent) > len(received) else received[len(sent)]]
        what = (
            "sends a message that nobody receives"
            if len(sent) > len(received)
            else "receives what nobody sends"
        )
        return [f"{extra}: it {what} ({way}: {len(sent)} sends, {len(received)} receives)"]
    return [
        f"{nodes[b]}: it receives {nodes[b].step.cnt} chunks, but {nodes[a]} sends {nodes[a].step.cnt} ({way})"
        for a, b in zip(sent, received, strict=True)
        if nodes[a].step.cnt != nodes[b].step.cnt
    ]


def _waits(
    nodes: list[Node],
    first: dict[tuple[int, int], int],
    sent: dict[Connection, list[int]],
    received: dict[Connection, list[int]],
    depth: int,
) -> Ints:
    waits = np.full((len(nodes), len(_REASONS)), -1, np.int64)
    inner = [number for number, node in enumerate(nodes) if node.index]
    waits[inner, 0] = np.array(inner, np.int64) - 1
    for number, node in enumerate(nodes):
        if node.step.depid >= 0:
            waits[number, 1] = first[node.gpu, node.step.depid] + node.step.deps
    for connection, receipts in received.items():
        waits[receipts, 2] = sent[connection]
        waits[sent[connection][depth:], 3] = receipts[:-depth]
    return waits
