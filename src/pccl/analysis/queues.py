"""First come, first served: what the links and switches of the simulator have queues for."""

from __future__ import annotations

import numpy as np

from pccl._arrays import Indices, Ints
from pccl.algorithm import Transfers
from pccl.algorithm.stays import Stays, find_stays
from pccl.algorithm.timing import Times, find_followers, find_inputs
from pccl.algorithm.timing_kernels import Inputs
from pccl.analysis.queue_kernels import SENT, Gates, Queues, Rooms, Service, serve_first_come
from pccl.errors import InfeasibleError
from pccl.topology import Topology

__all__ = ["first_come_starts", "serve"]

_NOWHERE = np.empty((0, 2), np.int32)
_NOTHING = np.empty(0, np.int64)


def first_come_starts(
    transfers: Transfers, world: Topology, times: Times, inputs: Inputs | None = None
) -> Ints:
    """When transfers start if everything serves first come, first served.

    They wait for what is planned to be at their senders, unless `inputs` says for what else.

    A chunk that goes to a switch with a finite buffer first gets a place there, which it keeps until its last byte has
    been sent on; from a switch without multicast it leaves over one link after another. Chunks may block each other,
    each holding a place and waiting for another one: that is an error.
    """
    order = np.lexsort((transfers.link, transfers.start))
    followers = find_followers(find_inputs(transfers, world) if inputs is None else inputs)
    port, gates = _ports(transfers, world)
    rooms = _rooms(len(transfers), find_stays(transfers, world), world.buffer.copy())
    start = serve(order, followers, times, transfers.link, gates, port, rooms)
    if np.any(start < 0):
        blocked = np.flatnonzero(rooms.wanted & ~rooms.granted)
        switch = int(rooms.switch[blocked[0]])
        raise InfeasibleError(
            f"first come, first served, the chunks block each other in {world.device_text(switch)}: all places "
            f"in its buffer of {world.buffer[switch]} wait for room elsewhere; serve in the planned order instead"
        )
    return start


def serve(
    order: Ints,
    followers: tuple[Ints, Ints, Ints],
    times: Times,
    link: Indices,
    gates: int,
    port: Indices = _NOWHERE,
    rooms: Rooms | None = None,
) -> Ints:
    """When transfers start, or -1 for those that never do.

    Parameters
    ----------
    order
        In which those are served that are ready at the same time.
    followers
        Who waits for whom, as `find_followers` has it.
    link, gates
        The link of each transfer, and how many links and ports there are.
    port, rooms
        As the kernel wants them; by default there is neither a port nor a finite buffer.
    """
    count = len(order)
    if rooms is None:
        nowhere = (_NOTHING, _NOTHING)
        rooms = _rooms(
            count, Stays(_NOTHING, _NOTHING, _NOTHING, nowhere, nowhere), places=_NOTHING
        )
    sends = sum(int(np.count_nonzero(table[:, SENT] >= 0)) for table in (port, rooms.stay))
    service = Service(
        *times,
        start=np.full(count, -1, np.int64),
        # At any time there is at most one event for each gate, and for each arrival and sending of interest.
        heap=np.empty((count + sends + gates + 2, 3), np.int64),
        events=np.zeros(2, np.int64),
    )
    passages = Gates(link, port, np.zeros(gates, np.bool_), _queues(gates, count))
    serve_first_come(order, *followers, service, passages, rooms)
    return service.start


def _ports(transfers: Transfers, world: Topology) -> tuple[Indices, int]:
    """The ports of switches without multicast, for each chunk that leaves or adds; and the number of all gates."""
    gates = world.num_links
    if not world.limited:
        return _NOWHERE, gates
    t = transfers
    one_way = ~world.multicast
    port = np.full((len(t), 2), -1, np.int32)
    for side, device, passes in (
        (0, t.src, one_way[t.src]),
        (1, t.dst, one_way[t.dst] & t.reduce),
    ):
        rows = np.flatnonzero(passes)
        keys = device[rows] * np.int64(len(t.conditions)) + t.chunk[rows]
        ports, number = np.unique(keys, return_inverse=True)
        port[rows, side] = gates + number.reshape(-1)
        gates += len(ports)
    return port, gates


def _rooms(transfers: int, stays: Stays, places: Ints) -> Rooms:
    into, in_stay = stays.into
    out, out_stay = stays.out
    stay = _NOWHERE
    if len(stays):
        stay = np.full((transfers, 2), -1, np.int32)
        stay[out, 0] = out_stay
        stay[into, 1] = in_stay
    return Rooms(
        stay,
        switch=stays.switch,
        left=np.bincount(np.concatenate([in_stay, out_stay]), minlength=len(stays)),
        previous=stays.previous,
        next=stays.next,
        wanted=np.zeros(len(stays), np.bool_),
        granted=np.zeros(len(stays), np.bool_),
        first_transfer=np.full(len(stays), -1, np.int64),
        places=places,
        queues=_queues(len(places), len(stays)),
    )


def _queues(places: int, members: int) -> Queues:
    first, last = np.full((2, places), -1, np.int64)
    return Queues(first, last, np.full(members, -1, np.int64))
