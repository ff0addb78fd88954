"""What is done inside the box: ranks as processes in the namespaces of their NPUs, joined by TCP over its wires."""

from __future__ import annotations

import contextlib
import os
import pickle
import socket
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from pccl.lab.namespaces import enter
from pccl.lab.wiring import Wiring
from pccl.runtime import Rank, Scripts
from pccl.runtime.checking import member_buffers, trials
from pccl.runtime.pool import Pool
from pccl.runtime.sockets import SocketTransport, connect

# Known only inside, where this folder is ours.
WIRING = Path("/run/wiring")
# Seconds from the moment when all are ready to the one at which all begin.
_SOON = 0.02
# By how much ranks come before others.
_HASTE = 10


class Task(NamedTuple):
    """Something to run in the box.

    Attributes
    ----------
    scripts
        What the ranks do.
    hop_by_hop
        Whether neighbours send to one another over the wire between them; otherwise all send to each other's homes, and
        leave the way there to the routers.
    """

    scripts: Scripts
    hop_by_hop: bool


class Times(NamedTuple):
    """What came of a task: seconds of every run, and how many elements were wrong."""

    seconds: list[float]
    wrong: int


def run_tasks(wiring: Wiring, tasks: Sequence[Task], runs: int, timeout: float) -> list[Times]:
    """Run tasks one after another, in the box."""
    WIRING.write_bytes(pickle.dumps(wiring))
    found = []
    for task in tasks:
        way = "connect_neighbours" if task.hop_by_hop else "connect_homes"
        with Pool(task.scripts.ranks, f"{__name__}:{way}", timeout) as pool:
            ranks = pool.run(f"{__name__}:run_rank", task.scripts, runs)
        # A run is over when the last rank is done.
        seconds = [max(each) for each in zip(*(rank.seconds for rank in ranks), strict=True)]
        found.append(Times(seconds, sum(rank.wrong for rank in ranks)))
    return found


def run_rank(transport: SocketTransport, scripts: Scripts, runs: int) -> Times:
    """Run one rank's part, check it, and then run it again and again, each time together with all others."""
    rank = Rank(scripts, transport)
    sizes = [int(part.collective.size) for part in scripts.parts]
    found = trials(scripts, sizes, dtype="uint8")
    mine = [(found[part], found[part].members.index(rank.rank)) for part in rank.mine]
    buffers = [member_buffers(trial, member) for trial, member in mine]
    elements = [sizes[part] for part in rank.mine]
    # Not measured: connections are slow at first.
    rank.run(buffers, elements=elements)
    pairs = zip(mine, buffers, strict=True)
    wrong = sum(trial.wrong(member, pair.output) for (trial, member), pair in pairs)
    seconds = []
    for _ in range(runs):
        begin = _agreed_start(transport)
        rank.run(buffers, elements=elements)
        seconds.append(time.monotonic() - begin)
    return Times(seconds, wrong)


def connect_neighbours(
    rank: int, size: int, meet: Callable[[Any], list[Any]], timeout: float
) -> SocketTransport:
    """Connect ranks over the wires between them, and at home where there is none."""
    wiring = _wiring()
    return _connect(wiring, rank, size, meet, timeout, wiring.near_address)


def connect_homes(
    rank: int, size: int, meet: Callable[[Any], list[Any]], timeout: float
) -> SocketTransport:
    """Connect ranks from home to home, wherever the routes lead."""
    wiring = _wiring()
    return _connect(wiring, rank, size, meet, timeout, lambda _, other: wiring.home(other))


def _connect(
    wiring: Wiring,
    rank: int,
    size: int,
    meet: Callable[[Any], list[Any]],
    timeout: float,
    address: Callable[[int, int], str],
) -> SocketTransport:
    npus = wiring.topology.npus.tolist()
    enter(npus[rank])
    _hurry()
    listener = socket.create_server(("0.0.0.0", 0), backlog=size)
    ports = meet(listener.getsockname()[1])
    others = {
        peer: (address(npus[rank], npus[peer]), port)
        for peer, port in enumerate(ports)
        if peer != rank
    }
    return connect(rank, listener, others, timeout)


def _agreed_start(transport: SocketTransport) -> float:
    """Wait until a moment at which all begin; all have the same clock, as they are on one machine."""
    now = np.array([time.monotonic()])
    said = [np.frombuffer(one)[0] for one in transport.exchange(now.tobytes())]
    begin = float(max(said)) + _SOON
    time.sleep(max(begin - time.monotonic(), 0))
    return begin


def _hurry() -> None:
    """Come before whatever else the machine does, where that is allowed: what waits for a core is no network."""
    with contextlib.suppress(OSError):
        os.nice(-_HASTE)
        # Linux shares cores among sessions first, and this is the priority of ours.
        Path("/proc/self/autogroup").write_text(f"-{_HASTE}")


def _wiring() -> Wiring:
    found: Wiring = pickle.loads(WIRING.read_bytes())
    return found
