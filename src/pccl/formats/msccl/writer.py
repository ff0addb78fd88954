"""Writes MSCCL-IR XML, the way the runtimes want it, and has the interpreter run it before it is saved."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from pccl.algorithm import Algorithm
from pccl.collective import AllToAll, AllToAllV, Collective
from pccl.collective.groups import format_group
from pccl.errors import InternalError, PcclError
from pccl.formats.lowering import Program, lower
from pccl.formats.machine import BY_NAME, Kind
from pccl.formats.msccl.file import MOST_CHARACTERS
from pccl.formats.msccl.interpreter import find_problems
from pccl.formats.msccl.operations import TYPES
from pccl.formats.msccl.targets import CHOSEN, DEPTHS, MOST_OFFSET, Target, find_target
from pccl.formats.msccl.threadblocks import Threadblocks, arrange
from pccl.formats.msccl.units import Units
from pccl.units import Bytes, Size, parse, whole

__all__ = ["write"]

_LARGEST = Bytes(2**40)  # a finite maximum: zero means "any" to one runtime and "never" to another
_BUFFERS = "ios"


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
    all_ranks: bool = False,
    padded: bool = False,
    collective: int | None = None,
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
        Whether all NPUs are ranks; those outside the group contribute nothing and only relay.
    padded
        For an all-to-all of unequal shares: write an alltoall whose shares have the room of the largest.
    collective
        Which of several collectives to write.

    Returns
    -------
    dict
        What has been written, for people.
    """
    runtime = find_target(target)
    if protocol not in DEPTHS:
        raise PcclError(f"there is no protocol {protocol!r}; there are {', '.join(DEPTHS)}")
    for name, value in (
        ("instances", instances),
        ("channels", 1 if channels is None else channels),
    ):
        if whole(value) is None or value < 1:
            raise PcclError(f"{name} must be a positive whole number, not {value!r}")
    sizes = _sizes(min_bytes, max_bytes)
    task = _task(algorithm, collective, runtime, in_place, padded)
    place = False if in_place is None and isinstance(task, AllToAll | AllToAllV) else in_place
    program = lower(
        algorithm, collective=collective, in_place=place, all_ranks=all_ranks, padded=padded or None
    )
    units = Units.of(program, _share(task, program), instances, apart=padded)
    _check_offsets(units, instances)
    blocks = arrange(program, units, runtime, channels)
    head = _head(algorithm, task, program, units, runtime, protocol, place, sizes, blocks.channels)
    shares = _shares(program, units)
    text = _text(head, program, units, blocks, _promise(program, shares))
    _try(text, program, shares, runtime)
    Path(path).write_text(text, encoding="ascii")
    return _facts(head, blocks, program)


def _task(
    algorithm: Algorithm, which: int | None, target: Target, in_place: bool | None, padded: bool
) -> Collective:
    """The collective to write, unless the runtime could not use it."""
    if len(algorithm.collectives) != 1 and which is None:
        raise PcclError(
            f"a file is for one collective, and the algorithm runs {len(algorithm.collectives)} at once; say which, "
            "counted from 0 (collective=0, --collective 0)"
        )
    if not 0 <= (which or 0) < len(algorithm.collectives):
        raise PcclError(
            f"there is no collective {which}; there are {len(algorithm.collectives)}, counted from 0"
        )
    task = algorithm.collectives[which or 0]
    if isinstance(task, AllToAllV):
        if not any(map(any, task.matrix)):
            raise PcclError(
                f"{task.kind}: all shares are empty, so nothing is sent and no file is needed"
            )
        if not padded and not _are_equal(task):
            raise PcclError(
                f"{task.kind}: the runtimes never choose a file for alltoallv, and one for alltoall has equal shares; "
                "to write an alltoall whose shares have the room of the largest, of which only what the matrix says is "
                "sent, use padded=True (--padded)"
            )
    elif padded:
        raise PcclError(f"padded is for all-to-all-v, not for {task.kind}")
    elif task.nccl_name not in CHOSEN:
        reason = (
            "which it cannot tell apart by their roots"
            if hasattr(task, "root")
            else "which it does not know"
        )
        chosen = ", ".join(BY_NAME[name].kind for name in CHOSEN)
        raise PcclError(
            f"{target.runtime} runs files for {chosen}, but not for {task.kind}, {reason}"
        )
    if in_place and target.name == "msccl" and isinstance(task, AllToAll | AllToAllV):
        raise PcclError(
            "the original MSCCL has no alltoall in place; export it out of place, or for another target"
        )
    return task


def _are_equal(task: AllToAllV) -> bool:
    return len({entry for row in task.matrix for entry in row}) == 1


def _sizes(low: Size | None, high: Size | None) -> tuple[int, int]:
    least = 0 if low is None else int(parse(Bytes, low, "min_bytes"))
    most = int(_LARGEST) if high is None else int(parse(Bytes, high, "max_bytes"))
    if most <= 0 or most < least:
        raise PcclError(
            f"sizes from {Bytes(least)} to {Bytes(most)} are none; the maximum must be above the minimum"
        )
    return least, most


def _share(task: Collective, program: Program) -> int:
    """Bytes of one share, of which buffers are multiples."""
    whole_buffer = int(max(program.input_bytes.max(), program.output_bytes.max()))
    return whole_buffer // (
        len(program.members) if task.kind == "all-reduce" else len(program.npus)
    )


def _check_offsets(units: Units, instances: int) -> None:
    largest = max(units.per_loop, int(units.scratch.max(initial=0))) * instances
    if largest > MOST_OFFSET:
        raise PcclError(
            f"a buffer would have {largest:,} chunks, more than the {MOST_OFFSET:,} that the runtimes can number; use "
            "fewer chunks or instances, or shares with a larger common divisor"
        )


def _head(
    algorithm: Algorithm, task: Collective, program: Program, units: Units, target: Target, protocol: str,
    in_place: bool | None, sizes: tuple[int, int], channels: int,
) -> dict[str, str | int]:  # fmt: skip
    coll = "alltoall" if isinstance(task, AllToAllV) else str(task.nccl_name)
    name = re.sub(r"[^A-Za-z0-9._:-]+", "-", f"{task.kind}-{algorithm.topology.name}")[:80]
    return {
        "name": name,
        "proto": protocol,
        "nchannels": channels,
        "nchunksperloop": units.per_loop * units.instances,
        "ngpus": len(program.npus),
        "coll": target.spell(coll),
        "inplace": int(in_place is not False),
        "outofplace": int(not in_place),
        "minBytes": sizes[0],
        "maxBytes": sizes[1],
    }


def _shares(program: Program, units: Units) -> list[list[int]] | None:
    """How many chunks of its share every rank sends to every other, if not all of them."""
    if not isinstance(program.collective, AllToAllV) or _are_equal(program.collective):
        return None
    matrix = np.zeros((len(program.npus),) * 2, np.int64)
    matrix[np.ix_(program.members, program.members)] = np.array(program.collective.matrix)
    shares: list[list[int]] = (matrix // units.unit * units.instances).tolist()
    return shares


def _promise(program: Program, shares: list[list[int]] | None) -> list[str]:
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
    promise: list[str],
) -> str:
    lines = [_tag("algo", head)]
    chunks = [sizes // units.unit * units.instances for sizes in
              (program.input_bytes, program.output_bytes, program.scratch_bytes)]  # fmt: skip
    steps = _steps(blocks)
    order = np.lexsort((blocks.number, blocks.rank))
    threadblocks = zip(
        *(column[order].tolist() for column in (blocks.rank, blocks.number, blocks.send, blocks.recv, blocks.chan)),
        order.tolist(), strict=True,
    )  # fmt: skip
    for rank, number, send, recv, chan, block in threadblocks:
        if number == 0:
            lines += ["  </gpu>"] if rank else []
            buffers = {
                f"{name}_chunks": int(count[rank])
                for name, count in zip(_BUFFERS, chunks, strict=True)
            }
            lines.append("  " + _tag("gpu", {"id": rank} | buffers))
        place = {"id": number, "send": send, "recv": recv, "chan": chan}
        lines += ["    " + _tag("tb", place), *steps[block], "    </tb>"]
    return "\n".join([*lines, "  </gpu>", *promise, "</algo>", ""])


def _steps(blocks: Threadblocks) -> list[list[str]]:
    """Per threadblock: a line for each step; what waits for several others has steps before it that only wait."""
    work, found = blocks.work, list[list[str]]([] for _ in range(len(blocks)))
    total = np.cumsum(blocks.steps_of)
    step = total - 1 - (np.cumsum(blocks.steps) - blocks.steps)[blocks.block]
    awaited = list(
        zip(
            blocks.number[blocks.block[blocks.waits]].tolist(),
            step[blocks.waits].tolist(),
            strict=True,
        )
    )
    columns = (blocks.block, work.type, work.src_buffer, work.src_offset, work.dst_buffer, work.dst_offset, work.cnt,
               blocks.awaited, blocks.wait_offsets[:-1], blocks.wait_offsets[1:])  # fmt: skip
    for block, kind, src, src_offset, dst, dst_offset, cnt, tells, low, high in zip(
        *(column.tolist() for column in columns), strict=True
    ):
        lines = found[block]
        *before, (depid, deps) = awaited[low:high] or [(-1, -1)]
        lines += [
            f'      <step s="{len(lines) + k}" type="nop" srcbuf="i" srcoff="-1" dstbuf="o" dstoff="-1" cnt="0" '
            f'depid="{other}" deps="{at}" hasdep="0"/>'
            for k, (other, at) in enumerate(before)
        ]
        lines.append(
            f'      <step s="{len(lines)}" type="{TYPES[kind]}" srcbuf="{_BUFFERS[src]}" srcoff="{src_offset}" '
            f'dstbuf="{_BUFFERS[dst]}" dstoff="{dst_offset}" cnt="{cnt}" depid="{depid}" deps="{deps}" '
            f'hasdep="{int(tells)}"/>'
        )
    return found


def _tag(name: str, attributes: Mapping[str, object]) -> str:
    inside = " ".join(f'{key}="{value}"' for key, value in attributes.items())
    return f"<{name} {inside}>"


def _try(text: str, program: Program, shares: list[list[int]] | None, target: Target) -> None:
    """Run the file before anybody else does."""
    problems = find_problems(
        text, target=target.name, group=program.members.tolist(), shares=shares
    )
    if any(problem.kind is Kind.DEADLOCK for problem in problems):
        raise PcclError(
            f"the schedule keeps more messages on their way than a connection holds, and would hang ({problems[0]}); "
            "use fewer chunks, or the protocol LL (protocol='LL', --protocol LL), whose connections hold more"
        )
    if problems:
        raise InternalError(f"the file that was to be written is wrong: {problems[0]}")


def _facts(head: dict[str, str | int], blocks: Threadblocks, program: Program) -> dict[str, str]:
    places = [
        name for key, name in (("inplace", "in place"), ("outofplace", "out of place")) if head[key]
    ]
    facts = {
        "collective": f"{head['coll']} among {head['ngpus']} ranks, {' and '.join(places)}",
        "sizes": f"{Bytes(int(head['minBytes']))} to {Bytes(int(head['maxBytes']))}, for counts of elements that are "
        f"multiples of {head['nchunksperloop']}",
        "threadblocks": f"at most {blocks.per_rank.max()} on a rank, of at most {blocks.steps.max()} steps, on "
        f"{blocks.channels} channel{'s' if blocks.channels != 1 else ''}",
        "checked": "run by the interpreter: exact, without races or deadlock",
    }
    if program.padding:
        facts["padded"] = program.padding_text
    if len(program.members) < len(program.npus):
        facts["group"] = f"ranks {format_group(program.members.tolist())}; the others only relay"
    if len(program.members) < len(program.npus) or isinstance(program.collective, AllToAllV):
        facts["beware"] = (
            f"the runtime uses it for every {head['coll']} of these ranks and sizes; give it sizes of its own"
        )
    return facts
