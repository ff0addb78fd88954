"""In which order the steps of an MSCCL-IR file can run: connections of finite depth, dependencies, deadlocks.

Every step is a node. It comes after the step before it, after the step that it waits for, after the message that it
receives has been sent and, where its connection is full, after an earlier message has been received.
"""

from __future__ import annotations

from collections import defaultdict, deque
from dataclasses import dataclass

from pccl.export.msccl.file import Algo, Step
from pccl.export.msccl.rules import RECEIVES, SENDS

__all__ = ["Execution", "Node", "connect"]

Connection = tuple[int, int, int]  # sender, receiver, channel


@dataclass(frozen=True, slots=True)
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
    waits: list[list[tuple[int, str]]]  # per node: the nodes before it, and why
    order: list[int]  # all nodes, unless some are blocked for ever

    def blocked(self) -> list[str]:
        """The first step of every threadblock that can never run, and what it waits for."""
        done, lines, seen = set(self.order), [], set()
        for number, node in enumerate(self.nodes):
            if number in done or (node.gpu, node.tb) in seen:
                continue
            seen.add((node.gpu, node.tb))
            reasons = [why.format(self.nodes[other]) for other, why in self.waits[number] if other not in done]
            lines.append(f"{node}: deadlock: type {node.step.type} waits for ever {' and '.join(reasons)}")
        return lines


def connect(algo: Algo, depth: int) -> tuple[Execution | None, list[str]]:
    """Join the two ends of every connection and order all steps; or say which ends do not fit."""
    nodes, first = _nodes(algo)
    sent, received = defaultdict[Connection, list[int]](list), defaultdict[Connection, list[int]](list)
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
    waits = _waits(nodes, first, sent, received, depth)
    return Execution(nodes, waits, _order(waits)), []


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


def _mismatches(nodes: list[Node], connection: Connection, sent: list[int], received: list[int]) -> list[str]:
    src, dst, chan = connection
    way = f"gpu {src} -> gpu {dst} on channel {chan}"
    if len(sent) != len(received):
        extra = nodes[sent[len(received)] if len(sent) > len(received) else received[len(sent)]]
        what = "sends a message that nobody receives" if len(sent) > len(received) else "receives what nobody sends"
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
) -> list[list[tuple[int, str]]]:
    waits: list[list[tuple[int, str]]] = []
    full = f"for {{}} to make room (the connection holds {depth} message{'s' if depth > 1 else ''})"
    for number, node in enumerate(nodes):
        mine: list[tuple[int, str]] = []
        if node.index:
            mine.append((number - 1, "for {}, before it"))
        if node.step.depid >= 0:
            mine.append((first[node.gpu, node.step.depid] + node.step.deps, "for {}, on which it depends"))
        if node.receives:
            mine.append((sent[node.receives[0]][node.receives[1]], "for {} to send to it"))
        if node.sends and node.sends[1] >= depth:
            mine.append((received[node.sends[0]][node.sends[1] - depth], full))
        waits.append(mine)
    return waits


def _order(waits: list[list[tuple[int, str]]]) -> list[int]:
    followers: list[list[int]] = [[] for _ in waits]
    missing = [len(mine) for mine in waits]
    for number, mine in enumerate(waits):
        for other, _ in mine:
            followers[other].append(number)
    ready, order = deque(number for number, count in enumerate(missing) if not count), []
    while ready:
        number = ready.popleft()
        order.append(number)
        for other in followers[number]:
            missing[other] -= 1
            if not missing[other]:
                ready.append(other)
    return order
