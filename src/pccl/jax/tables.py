"""What every device does in every round, in tables: where it reads, adds and writes, in one flat buffer.

Devices run one program, and differ only in what they look up. A device keeps the inputs and outputs of the collectives
that it is a member of, and behind them what it relays.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from pccl._arrays import Column, Ints
from pccl.errors import RunError
from pccl.jax.rounds import Rounds, in_rounds
from pccl.runtime import Action, Script, Scripts, script_of

# Columns of a table of exchanges, and of a table of copies.
READ, WRITE, ADD, COUNT, REDUCE = range(5)
COPY_READ, COPY_WRITE, COPY_COUNT = range(3)
# By collective: where its input, its output and its scratch begin on one device.
_Places: TypeAlias = list[tuple[int, int, int]]


@dataclass(frozen=True, eq=False)
class Tables:
    """The program for inputs of given lengths; offsets and lengths are in elements.

    Attributes
    ----------
    elements
        Of every collective of the plan.
    inputs, outputs
        Where each begins in the buffer, and its length; the same on all devices.
    size
        Of the buffer. Behind it there is room for a message, as all are read and written with the same length.
    message, copy
        The longest message, and the longest copy.
    exchanges
        By round, permutation, device and column: what a device sends, and what it does with what it receives.
    copies
        By number, device and column: what devices keep for themselves.
    members
        By output and device: how many contribute to it, if it is a sum; otherwise 1.
    """

    elements: list[int]
    inputs: list[tuple[int, int]]
    outputs: list[tuple[int, int]]
    size: int
    message: int
    copy: int
    exchanges: Column
    copies: Column
    members: Ints


def schedule(scripts: Scripts) -> Rounds:
    """Put the messages of scripts, each of one chunk, into rounds."""
    m = scripts.messages
    # Ways are pairs of ranks: what else lies between them is nothing that a permutation could choose.
    way = np.stack([m.src, m.dst, np.zeros(len(m), np.int64)], axis=1)
    # Scripts count sending a message and taking it one after the other.
    before, after = (event // 2 + len(m) * (event % 2) for event in (scripts.before, scripts.after))
    return in_rounds(way, m.start, before, after)


def tables_of(scripts: Scripts, rounds: Rounds, lengths: Sequence[int]) -> Tables:
    """Look up every step of every device, for inputs of these lengths.

    A device has an input and an output for each collective that it is a member of, in the order of the plan.
    """
    slot_of = slots_of(scripts)
    slots = 1 + max((slot for mine in slot_of for slot in mine.values()), default=-1)
    if len(lengths) != slots:
        raise RunError(f"the plan takes {_counted(slots, 'input')}, not {len(lengths)}")
    elements = [_elements(scripts, part, lengths, slot_of) for part in range(len(scripts.parts))]
    made = [script_of(scripts, rank, elements) for rank in range(scripts.ranks)]
    wanted = _wanted(scripts, made, slot_of, lengths)
    inputs = _one_after_another(lengths, 0)
    outputs = _one_after_another(wanted, sum(lengths))
    behind = sum(lengths) + sum(wanted)
    places = [
        _places(script, mine, inputs, outputs, behind)
        for script, mine in zip(made, slot_of, strict=True)
    ]
    scratch = [sum(room.scratch for room in script.rooms) for script in made]
    exchanges, message = _exchanges(made, places, rounds)
    copies = _copies(made, places)
    return Tables(
        elements=elements,
        inputs=inputs,
        outputs=outputs,
        size=behind + max(scratch),
        message=message,
        copy=int(copies[..., COPY_COUNT].max(initial=1)),
        exchanges=exchanges,
        copies=copies,
        members=_members(scripts, slot_of, slots),
    )


def _exchanges(
    made: Sequence[Script], places: Sequence[_Places], rounds: Rounds
) -> tuple[Column, int]:
    """The table of exchanges, and the longest message."""
    table = np.zeros((rounds.count, len(rounds.permutations), len(made), 5), np.int32)
    longest = 1
    for rank, script in enumerate(made):
        for step in script.steps:
            if step.action not in (Action.SEND, Action.TAKE):
                continue
            longest = max(longest, step.length)
            read = places[rank][step.part][step.read_buffer] + step.read_offset
            row = table[rounds.round[step.message], rounds.color[step.message], rank]
            if step.action == Action.SEND:
                row[READ] = read
                continue
            row[ADD] = read
            row[WRITE] = places[rank][step.part][step.write_buffer] + step.write_offset
            row[COUNT] = step.length
            row[REDUCE] = step.reduce
    return table, longest


def _copies(made: Sequence[Script], places: Sequence[_Places]) -> Column:
    """The table of copies."""
    found: list[list[tuple[int, int, int]]] = [[] for _ in made]
    for rank, script in enumerate(made):
        for step in script.steps:
            if step.action == Action.COPY:
                where = places[rank][step.part]
                read = where[step.read_buffer] + step.read_offset
                write = where[step.write_buffer] + step.write_offset
                found[rank].append((read, write, step.length))
    table = np.zeros((max(map(len, found)), len(made), 3), np.int32)
    for rank, mine in enumerate(found):
        table[: len(mine), rank] = np.array(mine, np.int32).reshape(-1, 3)
    return table


def slots_of(scripts: Scripts) -> list[dict[int, int]]:
    """By rank: which of its inputs and outputs belongs to which collective."""
    found: list[dict[int, int]] = [{} for _ in range(scripts.ranks)]
    for number, part in enumerate(scripts.parts):
        for rank in part.members.tolist():
            found[rank][number] = len(found[rank])
    return found


def _elements(
    scripts: Scripts, number: int, lengths: Sequence[int], slot_of: list[dict[int, int]]
) -> int:
    """How many elements a collective has, given the lengths of inputs."""
    part = scripts.parts[number]
    planned = int(part.collective.size)
    alone = [planned if other == number else 0 for other in range(len(scripts.parts))]
    share = 0
    length = 0
    for rank in part.members.tolist():
        room = script_of(scripts, rank, alone).rooms[number]
        if room.reads_input and room.input > share:
            share = room.input
            length = lengths[slot_of[rank][number]]
    # As many as give the largest share of the plan this length.
    return length * planned // share if share else 0


def _one_after_another(lengths: Sequence[int], first: int) -> list[tuple[int, int]]:
    ends = first + np.cumsum([0, *lengths])
    return [(int(begin), length) for begin, length in zip(ends, lengths, strict=False)]


def _wanted(
    scripts: Scripts, made: Sequence[Script], slot_of: list[dict[int, int]], lengths: Sequence[int]
) -> list[int]:
    """The lengths of the outputs: the longest that any device has."""
    found = [0] * len(lengths)
    for rank, script in enumerate(made):
        for part, slot in slot_of[rank].items():
            room = script.rooms[part]
            found[slot] = max(found[slot], room.output)
            if room.reads_input and room.input > lengths[slot]:
                raise RunError(
                    f"{scripts.parts[part].collective.kind}: {lengths[slot]} elements do not divide into the shares of "
                    f"the plan; rank {rank} would need {room.input}"
                )
    return found


def _places(
    script: Script,
    slot_of: dict[int, int],
    inputs: list[tuple[int, int]],
    outputs: list[tuple[int, int]],
    behind: int,
) -> _Places:
    """Where input, output and scratch of every collective begin on a device."""
    found = []
    for part, room in enumerate(script.rooms):
        slot = slot_of.get(part)
        begin = (0, 0) if slot is None else (inputs[slot][0], outputs[slot][0])
        found.append((*begin, behind))
        behind += room.scratch
    return found


def _members(scripts: Scripts, slot_of: list[dict[int, int]], slots: int) -> Ints:
    found = np.ones((slots, scripts.ranks), np.int64)
    for rank, mine in enumerate(slot_of):
        for part, slot in mine.items():
            if scripts.parts[part].collective.collects:
                found[slot, rank] = len(scripts.parts[part].members)
    return found


def _counted(number: int, word: str) -> str:
    return f"{number} {word}{'s' * (number != 1)}"
