"""From an algorithm to a program of the ranks: messages between them, and where their data lies.

Times are the planned ones: they say in which order a rank touches a place of its buffers, and so what has to wait for
what.
"""

from __future__ import annotations

import numpy as np

from pccl._arrays import Ints
from pccl.algorithm import Algorithm
from pccl.collective import Collective
from pccl.collective.groups import format_group
from pccl.errors import PcclError
from pccl.formats.lowering.deliveries import Deliveries, follow
from pccl.formats.lowering.ordering import order_of
from pccl.formats.lowering.places import Places
from pccl.formats.lowering.program import Messages, Program

__all__ = ["lower"]


def lower(
    algorithm: Algorithm,
    *,
    collective: int | None = None,
    in_place: bool | None = False,
    all_ranks: bool = False,
    padded: bool | None = None,
) -> Program:
    """Turn one collective of an algorithm into a program for its ranks.

    Parameters
    ----------
    algorithm
        Any algorithm that the verifier accepts.
    collective
        Which of its collectives; may be left out if there is one.
    in_place
        Whether input and output share one buffer; ``None`` for a program that is right in both cases (which an
        all-to-all has not).
    all_ranks
        Whether all NPUs of the topology are ranks; otherwise only the members of the group, in its order.
    padded
        Whether everything is as large as the largest of its kind: chunks that differ because the size does not divide,
        and the room of the shares of an all-to-all-v. ``None`` for the first alone, which runtimes need that count in
        chunks; ``False`` for neither.

    Examples
    --------
    >>> import pccl
    >>> ring = pccl.topology.ring(4, unidirectional=True)
    >>> program = lower(pccl.synthesize(ring, pccl.AllGather("4kB", chunks=1)))
    >>> len(program.messages), len(program.copies), program.output_bytes.tolist()
    (12, 4, [4000, 4000, 4000, 4000])
    """
    which = _which(algorithm, collective)
    task = algorithm.collectives[which]
    npus, members, rank_of = _ranks(algorithm, task, all_ranks)
    # The same chunks, perhaps larger: the ranks send what pads them as well.
    laid_out = task if padded is False else task.with_equal_chunks(len(members))
    conditions = laid_out.conditions(algorithm.topology)
    layout = laid_out.layout(conditions, rank_of, len(npus), bool(padded))
    if in_place is not False and layout.shift is None:
        raise PcclError(f"{task.kind} has no form in place; export it out of place")
    if in_place is None and task.in_place_differs:
        raise PcclError(
            f"{task.kind}: no program is right both in place and out of place; say which"
        )
    # The chunks of a collective follow one another in the conditions of the algorithm.
    first, end = np.searchsorted(algorithm.conditions.collective, [which, which + 1]).tolist()
    delivered = follow(algorithm, first, end)
    _refuse_outsiders(algorithm, task, delivered, rank_of)
    places = Places(conditions, layout, delivered, delivered.chunk - first, rank_of, len(npus))
    if in_place and layout.shift is not None:
        places.make_room(layout.shift)
    messages = _messages(delivered, places)
    copies = places.copies(bool(in_place))
    # A program for both cases keeps the order that either of them needs.
    shifts = [None, layout.shift] if in_place is None else [layout.shift if in_place else None]
    edges = [order_of(messages, copies, delivered.sequence, shift) for shift in shifts]
    before, after = _unique(np.concatenate(edges), 2 * len(messages) + len(copies))
    return Program(
        collective=task,
        npus=npus,
        members=members,
        messages=messages,
        copies=copies,
        before=before,
        after=after,
        input_bytes=layout.input_bytes,
        output_bytes=layout.output_bytes,
        scratch_bytes=places.scratch_bytes,
        padding=int(laid_out.size) - int(task.size),
    )


def _messages(delivered: Deliveries, places: Places) -> Messages:
    nowhere = np.zeros(len(delivered), np.bool_)
    return Messages(
        delivered.chunk,
        places.bytes[places.chunk],
        places.src,
        places.dst,
        delivered.routes(),
        delivered.start,
        delivered.arrival,
        delivered.reduce,
        *places.find(places.src, delivered.from_input),
        *places.find(places.dst, nowhere),
        *places.find(places.dst, delivered.adds_input),
    )


def _unique(pairs: Ints, events: int) -> tuple[Ints, Ints]:
    before, after = np.divmod(np.unique(pairs[:, 0] * events + pairs[:, 1]), max(events, 1))
    return before, after


def _which(algorithm: Algorithm, collective: int | None) -> int:
    count = len(algorithm.collectives)
    if collective is None:
        if count != 1:
            raise PcclError(
                f"the algorithm runs {count} collectives, but a program is for one; say which, from 0 on"
            )
        return 0
    if not 0 <= collective < count:
        raise PcclError(
            f"there is no collective {collective}; the algorithm has {count}, counted from 0"
        )
    return collective


def _ranks(algorithm: Algorithm, task: Collective, all_ranks: bool) -> tuple[Ints, Ints, Ints]:
    """Return the NPU of each rank, the ranks of the group's members, and the rank of each device (or -1)."""
    everyone = algorithm.topology.npus
    group = everyone if task.group is None else np.array(task.ranks, np.int64)
    npus = everyone if all_ranks else group
    rank_of = np.full(algorithm.topology.num_devices, -1, np.int64)
    rank_of[npus] = np.arange(len(npus))
    return npus, rank_of[group], rank_of


def _refuse_outsiders(
    algorithm: Algorithm, task: Collective, delivered: Deliveries, rank_of: Ints
) -> None:
    """Raise if something is relayed by an NPU that is no rank."""
    ends = np.unique(np.concatenate([delivered.src, delivered.dst]))
    outside = ends[rank_of[ends] < 0]
    if len(outside):
        who = ", ".join(algorithm.topology.device_text(int(device)) for device in outside[:3])
        more = f" and {len(outside) - 3} more" if len(outside) > 3 else ""
        raise PcclError(
            f"{task.kind}: the schedule relays through {who}{more} outside the group of {len(task.ranks)} NPUs "
            f"({format_group(task.ranks)}); export it over all ranks (all_ranks=True, --all-ranks) or synthesize it on "
            "a topology restricted to the group"
        )
