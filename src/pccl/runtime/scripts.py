"""From an algorithm to what every rank does: receives, sends, sums and copies, in an order that cannot deadlock.

All ranks make the same scripts from the same plan, in columns; each then takes its own rows. The order is one for all
of them: a rank does its own part of it, and what it waits for always comes earlier in it, wherever that happens.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from enum import IntEnum
from functools import cached_property
from typing import NamedTuple

import numpy as np

from pccl._arrays import (
    Bools,
    Column,
    Ints,
    count_within,
    distinct,
    offsets_by_owner,
    offsets_of,
    take_rows,
)
from pccl.algorithm import Algorithm
from pccl.collective import Collective, Conditions
from pccl.errors import InternalError
from pccl.formats.lowering import SCRATCH, Messages, Program, lower
from pccl.formats.lowering.lower import member_layout
from pccl.formats.lowering.ordering import sorted_events
from pccl.formats.msccl.joining_kernels import find_windows

# Later than everything.
_AT_LAST = np.iinfo(np.int64).max


class Action(IntEnum):
    """What a rank does next; of two at the same time, the smaller number comes first."""

    POST = 0  # begin to receive a message
    TAKE = 1  # wait for a message, and put it where it belongs
    SEND = 2  # begin to send a message
    COPY = 3  # copy what a rank keeps for itself


@dataclass(frozen=True, eq=False)
class Part:
    """One collective of a plan, as the ranks run it.

    Attributes
    ----------
    collective
        What was planned.
    conditions
        Its chunks.
    group, members
        The NPUs that take part, and their ranks, in the order of the group.
    helpers
        Other ranks that relay for them.
    slots
        What ranks keep in scratch, as ``rank * len(conditions) + chunk``, ascending.
    lone
        Likewise what ranks copy from their input to their output, as nobody else contributes to it.
    in_place
        Whether the script is right as well if input and output are one buffer.
    """

    collective: Collective
    conditions: Conditions
    group: Ints
    members: Ints
    helpers: Ints
    slots: Ints
    lone: Ints
    in_place: bool


@dataclass(frozen=True, eq=False)
class Runs:
    """One row per message; it carries one chunk, or several that lie side by side at both of its ends.

    Attributes
    ----------
    part
        Which collective it belongs to.
    chunk_offsets, chunks
        The chunks of message ``i`` are ``chunks[chunk_offsets[i]:chunk_offsets[i + 1]]``, the first in memory first.
    src, dst, tag
        Ranks, and which of the messages from one to the other it is.
    reduce
        Whether the receiver writes the sum of the message and what lies in `add_buffer`.
    direct
        Whether it is received where it belongs; otherwise beside it, as what is there is still needed when it comes.
    read_buffer, write_buffer, add_buffer
        Where its sender reads it, its receiver writes it, and what that adds to it.
    start, arrival
        When it was planned to leave and to have arrived (picoseconds).
    """

    part: Ints
    chunk_offsets: Ints
    chunks: Ints
    src: Ints
    dst: Ints
    tag: Ints
    reduce: Bools
    direct: Bools
    read_buffer: Ints
    write_buffer: Ints
    add_buffer: Ints
    start: Ints
    arrival: Ints

    def __len__(self) -> int:
        return len(self.part)

    @property
    def first(self) -> Ints:
        """Per message: its first chunk."""
        found: Ints = self.chunks[self.chunk_offsets[:-1]]
        return found


@dataclass(frozen=True, eq=False)
class Scripts:
    """What all ranks do.

    Attributes
    ----------
    npus
        Per rank: the NPU it stands for.
    parts
        The collectives.
    messages
        What the ranks send to one another.
    before, after
        Pairs of events of one rank, of which the first must be complete before the second begins: sending message ``m``
        is event ``2 * m``, taking it the next.
    rank, action, item
        One row per thing that a rank does: who, what, and with which message. All in one order: what a row waits for
        stands above it, also where another rank does it.
    wait_offsets, waits
        Messages that must have left before row ``i`` writes: ``waits[wait_offsets[i]:wait_offsets[i + 1]]``.
    """

    npus: Ints
    parts: tuple[Part, ...]
    messages: Runs
    before: Ints
    after: Ints
    rank: Ints
    action: Ints
    item: Ints
    wait_offsets: Ints
    waits: Ints

    @property
    def ranks(self) -> int:
        """How many ranks there are."""
        return len(self.npus)

    @cached_property
    def digest(self) -> str:
        """A short text that differs if anything does; ranks compare it before they run."""
        found = hashlib.sha256()
        for part in self.parts:
            found.update(repr(part.collective.to_dict()).encode())
        columns = [getattr(self.messages, field.name) for field in fields(self.messages)]
        for column in (self.npus, self.rank, self.action, self.item, self.waits, *columns):
            found.update(np.ascontiguousarray(column, np.int64).tobytes())
        return found.hexdigest()[:16]

    def rows_of(self, rank: int) -> Ints:
        """The rows of one rank, in their order."""
        return np.flatnonzero(self.rank == rank)


def scripts_of(algorithm: Algorithm, *, join: bool = True, only_busy: bool = False) -> Scripts:
    """Make the scripts of all ranks; rank ``r`` stands for the r-th NPU of the topology.

    Parameters
    ----------
    algorithm
        Any that the verifier accepts, with one collective or several.
    join
        Whether messages are joined that lie side by side at both ends, where that costs no time.
    only_busy
        Whether NPUs that have nothing to do have no rank.

    Examples
    --------
    >>> import pccl
    >>> ring = pccl.topology.ring(4, unidirectional=True)
    >>> scripts = scripts_of(pccl.synthesize(ring, pccl.AllGather("4kB", chunks=1)))
    >>> scripts.ranks, len(scripts.messages), [Action(a).name for a in scripts.action[scripts.rows_of(0)][:3]]
    (4, 12, ['POST', 'POST', 'SEND'])
    """
    both = [_has_both(algorithm, collective) for collective in algorithm.collectives]
    programs = [_lowered(algorithm, which, in_place) for which, in_place in enumerate(both)]
    first_chunk = np.searchsorted(
        algorithm.conditions.collective, np.arange(len(programs))
    ).tolist()
    parts = [_part(algorithm, *one) for one in zip(programs, first_chunk, both, strict=True)]
    joined = [
        _joined(program, join, _apart(program, part.conditions.share, first))
        for program, part, first in zip(programs, parts, first_chunk, strict=True)
    ]
    messages, before, after = _stacked(programs, joined, first_chunk)
    found = _ordered(programs[0].npus, tuple(parts), messages, before, after)
    return _without_idle(found) if only_busy else found


def _lowered(algorithm: Algorithm, which: int, in_place: bool) -> Program:
    """The program of one collective, right in place and out of place where it can be both."""
    return lower(
        algorithm,
        collective=which,
        in_place=None if in_place else False,
        all_ranks=True,
        padded=False,
        spare=False,
    )


def _has_both(algorithm: Algorithm, collective: Collective) -> bool:
    """Whether one program is right in place and out of place."""
    npus = algorithm.topology.npus
    conditions = collective.conditions(algorithm.topology)
    members = np.searchsorted(npus, collective.members(npus))
    layout = member_layout(collective, conditions, npus, members)
    return layout.shift is not None and not collective.in_place_differs


def _part(algorithm: Algorithm, program: Program, first: int, in_place: bool) -> Part:
    m = program.messages
    conditions = program.collective.conditions(algorithm.topology)
    count = max(len(conditions), 1)
    kept = m.write_buffer == SCRATCH
    busy = np.unique(np.concatenate([m.src, m.dst]))
    lone = program.copies.chunk >= 0
    return Part(
        collective=program.collective,
        conditions=conditions,
        group=program.npus[program.members],
        members=program.members,
        helpers=np.setdiff1d(busy, program.members),
        slots=distinct(m.dst[kept] * count + m.chunk[kept] - first),
        lone=np.sort(program.copies.rank[lone] * count + program.copies.chunk[lone]),
        in_place=in_place,
    )


# --- messages that travel as one --------------------------------------------------------------------------------------


class _Joined(NamedTuple):
    """Messages of a program, in an order in which those that travel as one follow each other, and where these begin."""

    rows: Ints
    offsets: Ints

    @property
    def run_of(self) -> Ints:
        """Per message of the program: what it travels in."""
        found = np.empty(len(self.rows), np.int64)
        found[self.rows] = np.repeat(np.arange(len(self.offsets) - 1), np.diff(self.offsets))
        return found


def _joined(program: Program, join: bool, apart: Ints) -> _Joined:
    """Join messages of which all are there when the first starts, and none is used before the last has arrived."""
    m = program.messages
    count = len(m)
    if not (join and count):
        return _Joined(np.arange(count), np.arange(count + 1))
    # On one way from one rank to another messages keep their order.
    order = np.lexsort((m.arrival, m.start, m.route, m.dst, m.src))
    way: Ints = np.cumsum(_changes(*(column[order] for column in (m.src, m.dst, m.route))))
    opens = np.ones(count, np.bool_)
    ready, used = _needed(program)
    find_windows(way, m.start[order], m.arrival[order], ready[order], used[order], opens)
    window = np.cumsum(opens)
    alike = [column[order] for column in (*_kinds(m), apart)]
    inside = np.lexsort((m.read_offset[order], *alike, window))
    rows = order[inside]
    begins = _changes(window[inside], *(column[inside] for column in alike))
    # A gap in memory ends what travels together.
    begins[1:] |= m.read_offset[rows][1:] != (m.read_offset + m.bytes)[rows][:-1]
    return _Joined(rows, np.append(np.flatnonzero(begins), count))


def _kinds(m: Messages) -> list[Ints]:
    """What messages must have in common to be one."""
    add = np.where(m.reduce, m.add_offset - m.read_offset, 0)
    return [
        m.reduce,
        m.read_buffer,
        m.write_buffer,
        m.add_buffer,
        m.write_offset - m.read_offset,
        add,
    ]


def _apart(program: Program, share: Ints, first: int) -> Ints:
    """Which messages stay apart however large shares are: where something may come between shares, those of two."""
    m = program.messages
    task = program.collective
    # Shares that are empty in the plan may not be when it runs, such as what a member keeps for itself.
    if task.has_one_size and int(task.size) >= len(program.members) * task.element:
        return np.zeros(len(m), np.int64)
    return share[m.chunk - first]


def _needed(program: Program) -> tuple[Ints, Ints]:
    """Per message: when its sender has it and may send it; and when its receiver first needs it, at the latest."""
    m = program.messages
    count = len(m)
    time = np.concatenate([m.start, m.arrival, program.copies.time])
    ready = np.zeros(len(time), np.int64)
    np.maximum.at(ready, program.after, time[program.before])
    is_receipt = (program.after >= count) & (program.after < 2 * count)
    used = np.full(len(time), _AT_LAST)
    # What is added to it comes later: at the same time, two could each have to come before the other.
    np.minimum.at(used, program.before, time[program.after] - is_receipt)
    return ready[:count], used[count : 2 * count]


def _changes(*columns: Column) -> Bools:
    """Where something differs from the row before; the first row does."""
    found = np.ones(len(columns[0]), np.bool_)
    found[1:] = np.any([column[1:] != column[:-1] for column in columns], axis=0)
    return found


# --- one order for all ------------------------------------------------------------------------------------------------


def _stacked(
    programs: Sequence[Program], joined: Sequence[_Joined], first_chunk: Sequence[int]
) -> tuple[Runs, Ints, Ints]:
    """The messages of all programs, and pairs of events: sending message ``m`` is ``2 * m``, taking it the next."""
    columns: list[list[Column]] = []
    pairs = [np.zeros((2, 0), np.int64)]
    widths = []
    chunks = []
    total = 0
    for part, (program, runs, first) in enumerate(zip(programs, joined, first_chunk, strict=True)):
        m = program.messages
        one = runs.rows[runs.offsets[:-1]]
        starts = np.minimum.reduceat(m.start[runs.rows], runs.offsets[:-1]) if len(one) else m.start
        lands = (
            np.maximum.reduceat(m.arrival[runs.rows], runs.offsets[:-1]) if len(one) else m.start
        )
        same = (m.src, m.dst, m.reduce, m.read_buffer, m.write_buffer, m.add_buffer)
        columns.append([np.full(len(one), part), *(column[one] for column in same), starts, lands])
        widths.append(np.diff(runs.offsets))
        chunks.append(m.chunk[runs.rows] - first)
        pairs.append(_events(program, runs.run_of) + 2 * total)
        total += len(one)
    part_of, src, dst, reduce, read, write, add, start, arrival = (
        np.concatenate(column) for column in zip(*columns, strict=True)
    )
    before, after = np.unique(np.concatenate(pairs, axis=1), axis=1)
    apart = before != after
    before, after = before[apart], after[apart]
    waiting = np.zeros(2 * total, np.bool_)
    waiting[after] = True
    # Received at once where it belongs, if nothing has to happen there before.
    direct = ~reduce & ~waiting[1::2]
    # Numbered as they are sent, from each rank to each.
    order = np.lexsort((start, dst, src))
    tag = np.empty(total, np.int64)
    pair = src * (int(dst.max(initial=0)) + 1) + dst
    tag[order] = count_within(np.unique(pair, return_counts=True)[1])
    offsets = offsets_of(np.concatenate(widths))
    found = Runs(
        part_of, offsets, np.concatenate(chunks), src, dst, tag, reduce, direct, read, write, add,
        start, arrival,
    )  # fmt: skip
    return found, before, after


def _events(program: Program, run_of: Ints) -> Ints:
    """Pairs of events of a program, numbered by what travels as one."""
    count = len(program.messages)
    pairs = np.stack([program.before, program.after])
    if np.any(pairs >= 2 * count):
        raise InternalError("a rank waits for a copy of what it keeps for itself")
    receives = pairs >= count
    found: Ints = 2 * run_of[pairs - count * receives] + receives
    return found


def _ordered(
    npus: Ints, parts: tuple[Part, ...], messages: Runs, before: Ints, after: Ints
) -> Scripts:
    """Put everything into one order: by the planned time, but what is received is waited for as late as can be."""
    m = messages
    count = len(m)
    send, take = np.arange(0, 2 * count, 2), np.arange(1, 2 * count, 2)
    post = 2 * count + np.arange(count)
    time = np.full(3 * count, _AT_LAST)
    time[send] = m.start
    # A message is taken when something needs it: follow what waits for it, step by step.
    waited = (before % 2).astype(np.bool_)
    first, then = before[waited], after[waited]
    while True:
        earlier = time.copy()
        np.minimum.at(earlier, first, time[then])
        if np.array_equal(earlier, time):
            break
        time = earlier
    # The next message of a sender is received while the last one still comes in.
    by_way = np.lexsort((m.tag, m.dst, m.src))
    same_way = ~_changes(m.src[by_way], m.dst[by_way]) if count else np.zeros(0, np.bool_)
    time[post] = 0
    time[post[by_way[same_way]]] = m.start[by_way[np.flatnonzero(same_way) - 1]]
    # A few numbers instead of picoseconds, so that there is room for the action.
    action = np.empty(3 * count, np.int64)
    action[send], action[take], action[post] = Action.SEND, Action.TAKE, Action.POST
    key = np.unique(time, return_inverse=True)[1] * len(Action) + action
    # Messages come in after they are expected and sent.
    pairs = [(before, after), (post, send), (send, take)]
    firsts, thens = (np.concatenate(column) for column in zip(*pairs, strict=True))
    order = sorted_events(key, firsts, thens)
    if len(order) < len(key):
        raise InternalError("messages of the plan wait for each other in a circle")
    item = np.concatenate([np.repeat(np.arange(count), 2), np.arange(count)])[order]
    act = action[order]
    rank = np.where(act == Action.SEND, m.src[item], m.dst[item])
    # What is written where something was read from waits until that has left.
    left = ~waited
    by_event = np.argsort(after[left], kind="stable")
    offsets = offsets_by_owner(after[left], 3 * count)
    wait_offsets, waits = take_rows(offsets, before[left][by_event] // 2, order)
    return Scripts(npus, parts, m, before, after, rank, act, item, wait_offsets, waits)


def _without_idle(scripts: Scripts) -> Scripts:
    """The same without ranks that have nothing to do."""
    who = [ranks for part in scripts.parts for ranks in (part.members, part.helpers)]
    busy = np.unique(np.concatenate(who))
    number = np.full(scripts.ranks, -1, np.int64)
    number[busy] = np.arange(len(busy))

    def renumbered(part: Part) -> Part:
        count = max(len(part.conditions), 1)
        return replace(
            part,
            members=number[part.members],
            helpers=number[part.helpers],
            slots=number[part.slots // count] * count + part.slots % count,
            lone=number[part.lone // count] * count + part.lone % count,
        )

    m = scripts.messages
    return replace(
        scripts,
        npus=scripts.npus[busy],
        parts=tuple(map(renumbered, scripts.parts)),
        messages=replace(m, src=number[m.src], dst=number[m.dst]),
        rank=number[scripts.rank],
    )
