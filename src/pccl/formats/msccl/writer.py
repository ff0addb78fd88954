"""Writes MSCCL-IR XML, the way the runtimes want it, and has the interpreter run it before it is saved."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np

from pccl._arrays import Ints, offsets_of
from pccl._files import replacing
from pccl.algorithm import Algorithm
from pccl.collective import AllToAllV, Collective
from pccl.errors import PcclError
from pccl.formats.lowering import Program, chosen_collective, lower
from pccl.formats.machine import BY_NAME, Kind
from pccl.formats.msccl.file import MOST_CHARACTERS
from pccl.formats.msccl.interpreter import find_problems
from pccl.formats.msccl.operations import RECEIVING, SENDING, TYPES
from pccl.formats.msccl.targets import CHOSEN, DEPTHS, Target, find_target
from pccl.formats.msccl.threadblocks import Threadblocks, arrange
from pccl.formats.msccl.units import Units
from pccl.formats.runtime_files import (
    CHECKED,
    matrix_of,
    positive,
    promise,
    refuse_wrong,
    size_of,
)
from pccl.units import Bytes, Picoseconds, Size, counted

# A finite maximum: zero means "any" to one runtime and "never" to another.
_LARGEST = Bytes(2**40)
_BUFFERS = "ios"
_STEP = (
    '      <step s="%s" type="%s" srcbuf="%s" srcoff="%s" dstbuf="%s" dstoff="%s" cnt="%s" depid="%s" deps="%s" '
    'hasdep="%s"/>'
)
# What an all-to-all of unequal shares is written as.
_PADDED = "alltoall"


def write(
    algorithm: Algorithm,
    path: str | Path,
    *,
    target: str = "executor",
    instances: int = 1,
    channels: int | None = None,
    in_place: bool | None = None,
    min_bytes: Size | None = None,
    max_bytes: Size | None = None,
    protocol: str = "Simple",
    all_ranks: bool | None = None,
    padded: bool = False,
    collective: int | None = None,
    lowered: bool = False,
) -> dict[str, str]:
    """Write one collective of an algorithm as MSCCL-IR XML.

    Parameters
    ----------
    algorithm, path
        What to write, and where.
    target
        The runtime that will read it, whose limits are kept: ``executor``, ``rccl`` or ``msccl``.
    instances
        How many times everything runs side by side, each time with its part of every chunk and channels of its own.
    channels
        At most how many channels join two ranks; by default one for each independent route while there are few.
    in_place
        Whether it is for calls in place or out of place; by default for both, where one file serves both.
    min_bytes, max_bytes
        The sizes for which the runtime uses it; by default all up to 1 TiB.
    protocol
        ``Simple``, ``LL`` or ``LL128``.
    all_ranks
        Whether all NPUs are ranks; those outside the group contribute nothing and only relay. By default only if some
        of them do.
    padded
        For an all-to-all of unequal shares: write an alltoall whose shares have the room of the largest.
    collective
        Which of several collectives to write.
    lowered
        Whether to write it even if its messages take much longer than planned, with switches that multiply or add.

    Returns
    -------
    dict
        What has been written, for people.
    """
    if protocol not in DEPTHS:
        raise PcclError(f"there is no protocol {protocol!r}; there are {', '.join(DEPTHS)}")
    least, most = _sizes(min_bytes, max_bytes)
    lay = partial(
        _laid_out,
        algorithm,
        find_target(target),
        instances=positive(instances, "instances"),
        channels=channels if channels is None else positive(channels, "channels"),
        in_place=in_place,
        all_ranks=all_ranks,
        padded=padded,
        collective=collective,
    )
    # Nothing that is wrong reaches a disk.
    layout, head, text = _that_runs(lay, (algorithm.topology.name, protocol, least, most))
    promised = promise(
        algorithm,
        collective,
        "msccl",
        lowered=lowered,
        delivered=layout.program.delivered,
        queue=layout.queue,
    )
    with replacing(path) as file:
        file.write(text.encode("ascii"))
    facts = promised.facts | _facts(head, layout.blocks, layout.program)
    return facts | layout.program.padding_facts


def fit(algorithm: Algorithm, quick: bool = False) -> Picoseconds:
    """How long it takes as messages; raises with the reason if the runtimes have no room for it.

    Unless that has to be `quick`, files are run, which may show that connections hold too few messages.
    """
    times = [algorithm.duration if quick else Picoseconds(0)]
    for which in range(len(algorithm.collectives)):
        lay = partial(_laid_out, algorithm, find_target("executor"), collective=which)
        layout = lay() if quick else _that_runs(lay, ("trial",))[0]
        # Otherwise messages take as long as planned: nothing overtakes anything in a lane.
        if not quick or algorithm.needs:
            times.append(promise(algorithm, which, "msccl", queue=layout.queue).lowered)
    return max(times)


@dataclass(frozen=True, eq=False)
class _Layout:
    """What goes into a file: who does what, and for which calls."""

    target: Target
    collective: Collective
    in_place: bool | None
    program: Program
    units: Units
    blocks: Threadblocks

    @property
    def queue(self) -> Ints:
        """Per message: a number that those of one lane share, which are received in the order of their sends."""
        m = self.program.messages
        lanes = self.blocks.lanes
        pair = m.src * len(self.program.npus) + m.dst
        found: Ints = pair * (int(lanes.max(initial=0)) + 1) + lanes
        return found

    @cached_property
    def shares(self) -> list[list[int]] | None:
        """Of an all-to-all that is padded: how many chunks every rank sends to every other."""
        chosen = self.collective
        if not isinstance(chosen, AllToAllV) or _are_equal(chosen):
            return None
        matrix = matrix_of(self.program, self.units.unit)
        return [[n * self.units.instances for n in row] for row in matrix]

    def head(
        self, where: str, protocol: str = "Simple", least: int = 0, most: int = int(_LARGEST)
    ) -> dict[str, str | int]:
        """What the runtime reads first."""
        chosen = self.collective
        return {
            "name": re.sub(r"[^A-Za-z0-9._:-]+", "-", f"{chosen.kind}-{where}")[:80],
            "proto": protocol,
            "nchannels": self.blocks.channels,
            "nchunksperloop": self.units.per_loop * self.units.instances,
            "ngpus": len(self.program.npus),
            "coll": self.target.spell(str(chosen.nccl_name) if chosen.has_one_size else _PADDED),
            "inplace": int(self.in_place is not False),
            "outofplace": int(not self.in_place),
            "minBytes": least,
            "maxBytes": most,
        }

    def text(self, head: dict[str, str | int]) -> str:
        """The file."""
        purpose = _purpose(self.program, self.shares)
        return _text(head, self.program, self.units, self.blocks, purpose)


def _laid_out(
    algorithm: Algorithm,
    target: Target,
    *,
    instances: int = 1,
    channels: int | None = None,
    in_place: bool | None = None,
    all_ranks: bool | None = None,
    padded: bool = False,
    collective: int | None = None,
    joined: bool = True,
) -> _Layout:
    """Find room for everything; raises if the runtime has none."""
    chosen = chosen_collective(algorithm, collective)
    _refuse(chosen, target, in_place, padded)
    # One file cannot do both if places differ.
    if in_place is None and chosen.in_place_differs:
        in_place = False
    # With equal shares it is an alltoall, in which ranks that are no members have room as well.
    is_alltoall = isinstance(chosen, AllToAllV) and _are_equal(chosen)
    program = lower(
        algorithm,
        collective=collective,
        in_place=in_place,
        all_ranks=all_ranks,
        padded=padded or is_alltoall or None,
    )
    units = Units.of(program, instances, apart=padded)
    blocks = arrange(program, units, target, channels, joined)
    return _Layout(target, chosen, in_place, program, units, blocks)


def _refuse(chosen: Collective, target: Target, in_place: bool | None, padded: bool) -> None:
    """Raise if the runtime could not use a file for this collective."""
    kind = chosen.kind
    if isinstance(chosen, AllToAllV):
        if not chosen.shares.any():
            raise PcclError(
                f"{kind}: all shares are empty, so nothing is sent and no file is needed"
            )
        if not padded and not _are_equal(chosen):
            raise PcclError(
                f"{kind}: the runtimes never choose a file for alltoallv, and one for alltoall has equal shares; a "
                "plan that is made for no runtime can be written with 'pccl export --padded', in Python export(..., "
                "padded=True), as an alltoall whose shares have the room of the largest, of which only what the matrix "
                "says is sent"
            )
    elif padded:
        raise PcclError(f"padded is for all-to-all-v, not for {kind}")
    elif chosen.nccl_name not in CHOSEN:
        reason = "cannot tell apart by their roots" if chosen.rooted else "does not know"
        known = ", ".join(BY_NAME[name].kind for name in CHOSEN)
        raise PcclError(
            f"{target.runtime} runs files for {known}, but not for {kind}, which it {reason}"
        )
    if in_place and chosen.in_place_differs and not target.exchanges_in_place:
        raise PcclError(
            f"{target.runtime} has no alltoall in place; export it out of place, or for another target"
        )


def _are_equal(chosen: AllToAllV) -> bool:
    return bool(np.ptp(chosen.shares) == 0)


def _sizes(low: Size | None, high: Size | None) -> tuple[int, int]:
    least = 0 if low is None else size_of(low, "min_bytes")
    most = int(_LARGEST) if high is None else size_of(high, "max_bytes")
    if most <= 0 or most < least:
        raise PcclError(
            f"sizes from {Bytes(least)} to {Bytes(most)} are none; the maximum must be above the minimum"
        )
    return least, most


def _purpose(program: Program, shares: list[list[int]] | None) -> list[str]:
    """What the file does, for whoever checks it, if that is less than its collective; runtimes ignore the element."""
    lists: list[tuple[dict[str, object], str, list[int]]] = []
    if len(program.members) < len(program.npus):
        lists.append(({}, "members", program.members.tolist()))
    lists += [({"sender": sender}, "shares", row) for sender, row in enumerate(shares or [])]
    return [
        "  " + _tag("pccl", whose | {name: part}).replace(">", "/>")
        for whose, name, numbers in lists
        for part in textwrap.wrap(" ".join(map(str, numbers)), MOST_CHARACTERS)
    ]


def _text(
    head: dict[str, str | int],
    program: Program,
    units: Units,
    blocks: Threadblocks,
    purpose: list[str],
) -> str:
    lines = [_tag("algo", head)]
    buffers = (program.input_bytes, program.output_bytes, program.scratch_bytes)
    chunks = np.stack(buffers, axis=1) // units.unit * units.instances
    steps = _steps(blocks)
    own = blocks.own
    send = np.where(own.way == SENDING, own.peer, -1)
    recv = np.where(own.way == RECEIVING, own.peer, -1)
    table = np.stack([blocks.number, send, recv, blocks.chan, np.arange(len(blocks))], 1)
    order = np.lexsort((blocks.number, own.rank))
    offsets = offsets_of(blocks.per_rank).tolist()
    for rank, sizes in enumerate(chunks.tolist()):
        held = {f"{buffer}_chunks": count for buffer, count in zip(_BUFFERS, sizes, strict=True)}
        lines.append("  " + _tag("gpu", {"id": rank} | held))
        mine = table[order[offsets[rank] : offsets[rank + 1]]].tolist()
        # Every rank has a threadblock, if only to do nothing.
        for *place, block in mine or [[0, -1, -1, 0, -1]]:
            names = zip(("id", "send", "recv", "chan"), place, strict=True)
            inside = steps[block] if block >= 0 else []
            lines += ["    " + _tag("tb", dict(names)), *inside, "    </tb>"]
        lines.append("  </gpu>")
    return "\n".join([*lines, *purpose, "</algo>", ""])


def _steps(blocks: Threadblocks) -> list[list[str]]:
    """Per threadblock: a line for each step; what waits for several others has steps before it that only wait."""
    work = blocks.work
    found: list[list[str]] = [[] for _ in range(len(blocks))]
    # The number of every operation's own step in its threadblock, after those that only wait.
    first = np.cumsum(blocks.steps) - blocks.steps
    step = np.cumsum(blocks.steps_of) - 1 - first[blocks.block]
    threadblock = blocks.number[blocks.block]
    awaited = np.stack([threadblock[blocks.waits], step[blocks.waits]], 1).tolist()
    columns: tuple[Ints, ...] = (
        blocks.block,
        work.type,
        work.src_buffer,
        work.src_offset,
        work.dst_buffer,
        work.dst_offset,
        work.cnt,
        blocks.awaited.astype(np.int64),
        blocks.wait_offsets[:-1],
        blocks.wait_offsets[1:],
    )
    for block, kind, src, src_offset, dst, dst_offset, cnt, tells, low, high in np.stack(
        columns, 1
    ).tolist():
        lines = found[block]
        # A step has room for one dependency; the others need steps that do nothing else.
        *before, last = awaited[low:high] or [(-1, -1)]
        for wait in before:
            lines.append(_STEP % (len(lines), "nop", "i", -1, "o", -1, 0, *wait, 0))
        places = (_BUFFERS[src], src_offset, _BUFFERS[dst], dst_offset)
        lines.append(_STEP % (len(lines), TYPES[kind], *places, cnt, *last, tells))
    return found


def _tag(name: str, attributes: Mapping[str, object]) -> str:
    inside = " ".join(f'{key}="{value}"' for key, value in attributes.items())
    return f"<{name} {inside}>"


class _HangsError(PcclError):
    """Connections hold too few messages."""


def _that_runs(
    lay: Callable[..., _Layout], about: Sequence[Any]
) -> tuple[_Layout, dict[str, str | int], str]:
    """A layout whose file has been run, the head of the file, and all of it.

    Its messages go one by one if joined ones hang.
    """
    try:
        layout = lay()
        head = layout.head(*about)
        text = layout.text(head)
        _try(text, layout)
    except _HangsError as hangs:
        layout = lay(joined=False)
        head = layout.head(*about)
        text = layout.text(head)
        try:
            _try(text, layout)
        except PcclError:
            raise hangs from None
    return layout, head, text


def _try(text: str, layout: _Layout) -> None:
    """Run the file before anybody else does."""
    group = layout.program.members.tolist()
    problems = find_problems(text, target=layout.target.name, group=group, shares=layout.shares)
    for problem in problems:
        if problem.kind is Kind.DEADLOCK:
            raise _HangsError(
                f"the schedule keeps more messages on their way than a connection holds, and would hang ({problem}); "
                "use fewer chunks, or the protocol LL (protocol='LL', --protocol LL), whose connections hold more"
            )
    refuse_wrong("file", problems)


def _facts(head: dict[str, str | int], blocks: Threadblocks, program: Program) -> dict[str, str]:
    named = (("inplace", "in place"), ("outofplace", "out of place"))
    places = " and ".join(name for key, name in named if head[key])
    facts = {
        "collective": f"{head['coll']} among {counted(int(head['ngpus']), 'rank')}, {places}",
        "sizes": f"{Bytes(int(head['minBytes']))} to {Bytes(int(head['maxBytes']))}, for counts of elements that are "
        f"multiples of {head['nchunksperloop']}",
        "threadblocks": f"at most {max(blocks.per_rank.max(), 1)} on a rank, of at most {blocks.most_steps} steps, on "
        f"{counted(blocks.channels, 'channel')}",
        "checked": CHECKED,
    }
    facts |= program.group_facts
    if program.group_facts or not program.collective.has_one_size:
        facts["beware"] = (
            f"the runtime uses it for every {head['coll']} of these ranks and sizes; give it sizes of its own"
        )
    return facts
