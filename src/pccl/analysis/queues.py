"""First come, first served: what the links and switches of the simulator have queues for."""

from __future__ import annotations

import numpy as np

from pccl._arrays import Ints
from pccl.algorithm import Transfers
from pccl.algorithm.stays import Stays, find_stays
from pccl.algorithm.timing import Times, find_followers, find_inputs
from pccl.algorithm.timing_kernels import Inputs
from pccl.analysis import kernels
from pccl.analysis.kernels import Gates, Rooms, Service
from pccl.errors import InfeasibleError
from pccl.topology import Topology

__all__ = ["first_come_starts"]


def first_come_starts(
    transfers: Transfers, world: Topology, times: Times, inputs: Inputs | None = None
) -> Ints:
    """When transfers start if everything serves first come, first served.

    They wait for what is planned to be at their senders, unless `inputs` says for what else.

    A chunk that goes to a switch with a finite buffer first gets a place there, which it keeps until its last byte has
    been sent on; from a switch without multicast it leaves over one link after another. Chunks may block each other,
    each holding a place and waiting for another one: that is an error.
    """
    count, order = len(transfers), np.lexsort((transfers.link, transfers.start))
    first, followers, missing = find_followers(
        find_inputs(transfers, world) if inputs is None else inputs
    )
    gates = _gates(transfers, world)
    rooms = _rooms(count, world, find_stays(transfers, world))
    room = (2 if world.limited else 1) * count + world.num_links + 2
    service = Service(
        *times,
        start=np.zeros(count, np.int64),
        heap=np.empty((room, 3), np.int64),
        events=np.zeros(2, np.int64),
    )
    arrived = kernels.serve_first_come(order, first, followers, missing, service, gates, rooms)
    if arrived < count:
        blocked = np.flatnonzero(rooms.wanted & ~rooms.granted)
        switch = int(rooms.switch[blocked[0]])
        raise InfeasibleError(
            f"first come, first served, the chunks block each other in {world.device_text(switch)}: all places "
            f"in its buffer of {world.buffer[switch]} wait for room elsewhere; serve in the planned order instead"
        )
    return service.start


def _gates(transfers: Transfers, world: Topology) -> Gates:
    """Links are gates for all; a switch without multicast is one for each chunk, where it leaves and where it adds."""
    t, count = transfers, world.num_links
    of = t.link[:, None].copy()
    if world.limited:
        of = np.full((len(t), 3), -1, np.int32)
        of[:, 2] = t.link
        one_way = ~world.multicast
        for place, device, which in (
            (0, t.src, one_way[t.src]),
            (1, t.dst, one_way[t.dst] & t.reduce),
        ):
            rows = np.flatnonzero(which)
            keys = device[rows] * np.int64(len(t.conditions)) + t.chunk[rows]
            ports, port = np.unique(keys, return_inverse=True)
            of[rows, place] = count + port.reshape(-1)
            count += len(ports)
    return Gates(
        of=of,
        busy=np.zeros(count, np.bool_),
        first=np.full(count, -1, np.int64),
        last=np.full(count, -1, np.int64),
        following=np.full(len(t), -1, np.int64),
    )


def _rooms(transfers: int, world: Topology, stays: Stays) -> Rooms:
    (into, in_stay), (out, out_stay) = stays.into, stays.out
    begins, leaves = np.full((2, transfers if len(stays) else 0), -1, np.int32)
    if len(stays):
        begins[into], leaves[out] = in_stay, out_stay
    return Rooms(
        begins=begins,
        leaves=leaves,
        switch=stays.switch,
        left=np.bincount(np.concatenate([in_stay, out_stay]), minlength=len(stays)),
        previous=stays.previous,
        next=stays.next,
        wanted=np.zeros(len(stays), np.bool_),
        granted=np.zeros(len(stays), np.bool_),
        first_transfer=np.full(len(stays), -1, np.int64),
        first=np.full(world.num_devices, -1, np.int64),
        last=np.full(world.num_devices, -1, np.int64),
        following=np.full(len(stays), -1, np.int64),
        places=world.buffer.copy(),
    )
