"""Runs lowered programs on real numbers, in any order that their dependencies allow: a slow and obvious twin."""

from __future__ import annotations

import random
from collections import defaultdict

import numpy as np

import pccl
from pccl.algorithm import Algorithm
from pccl.formats.lowering import INPUT, OUTPUT, Program


def quick(topology: pccl.Topology, *collectives: pccl.Collective) -> Algorithm:
    """Some algorithm, found without much effort."""
    return pccl.synthesize(topology, *collectives, effort="fast")


def run(
    program: Program, in_place: bool, seed: int, shift: np.ndarray | None = None
) -> tuple[list, list]:
    """Inputs and outputs of all ranks as mappings from bytes to numbers, after a random legal execution.

    Only the first byte of every chunk is followed, which stands for all of it.
    """
    rng = random.Random(seed)
    inputs = [defaultdict(lambda rank=rank: None) for rank in range(len(program.npus))]
    memory: list[dict] = [{} for _ in program.npus]

    def place(rank: int, buffer: int, offset: int) -> tuple[int, int]:
        if in_place and buffer == INPUT:
            return (OUTPUT, offset + int(shift[rank]))
        return (int(buffer), int(offset))

    for rank, size in enumerate(program.input_bytes.tolist()):
        for offset in range(size):
            inputs[rank][offset] = memory[rank][place(rank, INPUT, offset)] = rng.randrange(10**9)
    m, c, count = program.messages, program.copies, len(program.messages)
    flying: dict[int, list[int]] = {}

    def load(rank: int, buffer: int, offset: int, size: int) -> list[int]:
        return [memory[rank][place(rank, buffer, offset + k)] for k in range(size)]

    def store(rank: int, buffer: int, offset: int, values: list[int]) -> None:
        for k, value in enumerate(values):
            memory[rank][place(rank, buffer, offset + k)] = value

    for event in _any_order(program, rng):
        if event < count:
            flying[event] = load(
                m.src[event], m.read_buffer[event], m.read_offset[event], m.bytes[event]
            )
        elif event < 2 * count:
            i = event - count
            values = flying.pop(i)
            if m.reduce[i]:
                mine = load(m.dst[i], m.add_buffer[i], m.add_offset[i], m.bytes[i])
                values = [a + b for a, b in zip(values, mine, strict=True)]
            store(m.dst[i], m.write_buffer[i], m.write_offset[i], values)
        else:
            k = event - 2 * count
            store(c.rank[k], c.write_buffer[k], c.write_offset[k],
                  load(c.rank[k], c.read_buffer[k], c.read_offset[k], c.bytes[k]))  # fmt: skip
    outputs = [
        {offset: memory[rank].get((OUTPUT, offset)) for offset in range(int(size))}
        for rank, size in enumerate(program.output_bytes)
    ]
    return inputs, outputs


def _any_order(program: Program, rng: random.Random) -> list[int]:
    count = len(program.messages)
    total = 2 * count + len(program.copies)
    edges = [
        *zip(program.before.tolist(), program.after.tolist(), strict=True),
        *((i, count + i) for i in range(count)),
    ]
    followers, missing = defaultdict(list), [0] * total
    for before, after in edges:
        followers[before].append(after)
        missing[after] += 1
    ready, order = [event for event in range(total) if not missing[event]], []
    while ready:
        event = ready.pop(rng.randrange(len(ready)))
        order.append(event)
        for after in followers[event]:
            missing[after] -= 1
            if not missing[after]:
                ready.append(after)
    assert len(order) == total, "events wait for each other in a circle"
    return order


def expected(
    algorithm: Algorithm, program: Program, layout, inputs: list
) -> list[tuple[int, int, int]]:
    """What the conditions promise: rank, byte of its output, number."""
    rank_of = {int(npu): rank for rank, npu in enumerate(program.npus)}
    conditions = program.collective.conditions(algorithm.topology)
    promised = []
    for chunk in range(len(conditions)):
        sources = [rank_of[npu] for npu in conditions.sources(chunk).tolist()]
        for npu in conditions.destinations(chunk).tolist():
            for k in range(int(conditions.bytes[chunk])):
                value = sum(inputs[rank][int(layout.input_offset[chunk]) + k] for rank in sources)
                promised.append((rank_of[npu], int(layout.output_offset[chunk]) + k, value))
    for rank, size, read, write in layout.own.tolist():
        promised += [(rank, write + k, inputs[rank][read + k]) for k in range(size)]
    return promised
