"""Scripts for a number of elements: where messages begin in buffers, and how long they are.

A plan is for ratios. Shares and their pieces are cut anew for every number of elements, and differ by one element where
they cannot be equal; some may be empty.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from pccl._arrays import Ints, take_rows
from pccl.collective import AllToAllV, BufferLayout, Collective
from pccl.errors import RunError
from pccl.formats.lowering import INPUT, OUTPUT, SCRATCH
from pccl.formats.lowering.lower import member_layout
from pccl.runtime.scripts import Action, Part, Scripts

# How many elements a collective has: of the buffer that its size counts, or what every member sends to every other.
Elements = int | Ints


class Step(NamedTuple):
    """One thing that a rank does.

    Attributes
    ----------
    action
        What it is: an :class:`~pccl.runtime.scripts.Action`.
    message, peer, tag
        Which message, from or to whom, and its number between the two.
    part
        Which collective, and so which buffers.
    length
        Elements.
    read_buffer, read_offset
        Where it is read, for sends and copies; what is added, where something is added.
    write_buffer, write_offset
        Where it is written.
    reduce, direct
        Whether it is added to what is read; whether it is received where it belongs.
    waits
        Messages of this rank that must have left before something is written.
    """

    action: int
    message: int
    peer: int
    tag: int
    part: int
    length: int
    read_buffer: int
    read_offset: int
    write_buffer: int
    write_offset: int
    reduce: bool
    direct: bool
    waits: tuple[int, ...]


@dataclass(frozen=True, eq=False)
class Room:
    """The buffers of one collective on one rank, in elements.

    Attributes
    ----------
    input, output, scratch
        Their sizes.
    reads_input, writes_output
        Whether the collective uses them; otherwise they need not be there.
    shift
        Where the input lies in the output if both are one buffer; ``None`` if that cannot be.
    """

    input: int
    output: int
    scratch: int
    reads_input: bool
    writes_output: bool
    shift: int | None


@dataclass(frozen=True, eq=False)
class Script:
    """What one rank does with so many elements: steps in their order, and the buffers of every collective."""

    rank: int
    steps: tuple[Step, ...]
    rooms: tuple[Room, ...]


@dataclass(frozen=True, eq=False)
class _Sized:
    """One collective with its elements: the sizes of its chunks, and where these lie."""

    chunk: Ints
    layout: BufferLayout
    slot: Ints
    scratch: Ints


def sized_collective(part: Part, elements: Elements) -> Collective | None:
    """The collective with so many elements, each of one byte; None if there are none at all."""
    if isinstance(elements, int):
        return part.collective.with_elements(elements) if elements else None
    collective = part.collective
    if not hasattr(collective, "with_matrix"):
        raise RunError(f"{collective.kind} has one number of elements, not a matrix")
    found: AllToAllV = collective.with_matrix(elements)
    return found if found.size else None


def script_of(scripts: Scripts, rank: int, elements: Sequence[Elements]) -> Script:
    """The script of one rank, for so many elements of every collective.

    Examples
    --------
    >>> import pccl
    >>> from pccl.runtime import scripts_of
    >>> ring = pccl.topology.ring(4, unidirectional=True)
    >>> scripts = scripts_of(pccl.synthesize(ring, pccl.AllGather("4kB", chunks=1)))
    >>> script = script_of(scripts, 1, [10])
    >>> script.rooms[0].input, script.rooms[0].output, [step.length for step in script.steps[:3]]
    (3, 10, [3, 2, 3])
    """
    sized = [
        _sized(part, scripts.npus, count)
        for part, count in zip(scripts.parts, elements, strict=True)
    ]
    steps = _steps(scripts, rank, sized)
    kept = [
        step
        for part, one in enumerate(sized)
        for step in _kept(scripts.parts[part], part, one, rank)
    ]
    # Copies are for the time while messages are on their way.
    begun = next((i for i, step in enumerate(steps) if step.action == Action.TAKE), len(steps))
    rooms = tuple(_room(part, one, rank) for part, one in zip(scripts.parts, sized, strict=True))
    return Script(rank, (*steps[:begun], *kept, *steps[begun:]), rooms)


def _sized(part: Part, npus: Ints, elements: Elements) -> _Sized:
    """Cut the chunks of a collective anew."""
    count = len(part.conditions)
    collective = sized_collective(part, elements)
    if collective is None:
        # Nothing moves, so that it does not matter where it would lie.
        nothing = np.zeros(count, np.int64)
        nowhere = np.zeros(len(npus), np.int64)
        none = np.zeros((0, 4), np.int64)
        layout = BufferLayout(nothing, nothing, nowhere, nowhere, nowhere, none)
        return _Sized(nothing, layout, np.zeros(len(part.slots), np.int64), nowhere)
    chunk = part.collective.sizes_in(part.conditions, part.group, collective)
    conditions = replace(part.conditions, bytes=chunk)
    layout = member_layout(collective, conditions, npus, part.members)
    # Slots of a rank follow each other in the order of chunks, as where the plan was lowered.
    owner, held = np.divmod(part.slots, max(count, 1))
    size = chunk[held]
    begin = np.cumsum(size) - size
    begin -= begin[np.searchsorted(owner, owner)]
    scratch = np.bincount(owner, size, len(npus)).astype(np.int64)
    return _Sized(chunk, layout, begin, scratch)


def _steps(scripts: Scripts, rank: int, sized: Sequence[_Sized]) -> list[Step]:
    """What a rank does with messages; those that are empty are left out, by both of their ends."""
    m = scripts.messages
    rows = scripts.rows_of(rank)
    item = scripts.item[rows]
    action = scripts.action[rows]
    count = np.zeros(len(m), np.int64)
    offset = np.zeros((3, len(rows)), np.int64)
    owner = np.repeat(m.part, np.diff(m.chunk_offsets))
    for part, one in enumerate(sized):
        # Messages of one collective have one chunk or more, side by side.
        inside = np.where(owner == part, np.append(one.chunk, 0)[m.chunks * (owner == part)], 0)
        total = np.append(0, np.cumsum(inside))
        count += total[m.chunk_offsets[1:]] - total[m.chunk_offsets[:-1]]
        mine = np.flatnonzero(m.part[item] == part)
        chunk = m.first[item[mine]]
        chunks = max(len(scripts.parts[part].conditions), 1)
        slot = np.searchsorted(scripts.parts[part].slots, rank * chunks + chunk)
        offset[INPUT, mine] = one.layout.input_offset[chunk]
        offset[OUTPUT, mine] = one.layout.output_offset[chunk]
        offset[SCRATCH, mine] = np.append(one.slot, 0)[slot]
    sends = action == Action.SEND
    read = np.where(sends, m.read_buffer[item], m.add_buffer[item])
    write = m.write_buffer[item]
    peer = np.where(sends, m.dst[item], m.src[item])
    place = np.arange(len(rows))
    offsets, waits = take_rows(scripts.wait_offsets, scripts.waits, rows)
    columns = (
        action, item, peer, m.tag[item], m.part[item], count[item], read, offset[read, place],
        write, offset[write, place], m.reduce[item], m.direct[item],
    )  # fmt: skip
    bounds = zip(offsets[:-1].tolist(), offsets[1:].tolist(), strict=True)
    waiting = waits.tolist()
    values: list[list[Any]] = [column.tolist() for column in columns]
    values.append([tuple(waiting[low:high]) for low, high in bounds])
    found = map(Step._make, zip(*values, strict=True))
    return [step for step in found if step.length]


def _kept(part: Part, number: int, one: _Sized, rank: int) -> list[Step]:
    """Copies from the input of a rank to its own output."""
    count = max(len(part.conditions), 1)
    chunk = part.lone[part.lone // count == rank] % count
    layout = one.layout
    lone = np.stack([one.chunk[chunk], layout.input_offset[chunk], layout.output_offset[chunk]], 1)
    own = layout.own[layout.own[:, 0] == rank, 1:]
    return [
        Step(Action.COPY, -1, rank, 0, number, size, INPUT, read, OUTPUT, write, False, True, ())
        for size, read, write in np.concatenate([own, lone]).tolist()
        if size
    ]


def _room(part: Part, one: _Sized, rank: int) -> Room:
    c = part.conditions
    npu = part.group[part.members == rank]
    own = one.layout.own
    keeps = bool(np.any(own[:, 0] == rank))
    shift = one.layout.shift if part.in_place else None
    return Room(
        int(one.layout.input_bytes[rank]),
        int(one.layout.output_bytes[rank]),
        int(one.scratch[rank]),
        keeps or bool(np.isin(npu, c.source_ids).any()),
        keeps or bool(np.isin(npu, c.destination_ids).any()),
        None if shift is None else int(shift[rank]),
    )
