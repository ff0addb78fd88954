"""Schedules written by hand, on networks where 1 kB takes 1 us and latency is nothing unless a test says otherwise."""

from __future__ import annotations

from collections.abc import Sequence

from pccl import Algorithm, Collective, Link, Switch, Topology

US = 10**6  # picoseconds
Row = tuple[int, int, int, float] | tuple[int, int, int, float, str]


def network(
    npus: int,
    *pairs: tuple[int, int],
    switches: Sequence[Switch] = (),
    latency: str = "0us",
    exclusive: bool = False,
    gap: str = "0us",
) -> Topology:
    """A link of 1 kB/us from each first to each second device."""
    return Topology.from_links(
        npus, [Link(a, b, "1GB/s", latency, exclusive, gap) for a, b in pairs], switches
    )


def schedule(
    topology: Topology,
    collectives: Collective | list[Collective],
    *rows: Row,
    follows: list[int] | None = None,
) -> Algorithm:
    """Rows are (chunk, from, to, start in us), with "add" behind them where the receiver adds."""
    pairs = list(zip(topology.src.tolist(), topology.dst.tolist(), strict=True))
    return Algorithm.build(
        topology,
        collectives if isinstance(collectives, list) else [collectives],
        [row[0] for row in rows],
        [pairs.index((row[1], row[2])) for row in rows],
        [round(row[3] * US) for row in rows],
        [row[4:] == ("add",) for row in rows],
        follows=follows,
    )


RING = [(0, 1), (1, 2), (2, 3), (3, 0)]
PAIR = network(2, (0, 1), (1, 0))
LINE = network(3, (0, 1), (1, 2), (1, 0), (2, 1))


def star(npus: int, **limits: object) -> Topology:
    """NPUs around one switch, whose number is theirs."""
    pairs = [pair for i in range(npus) for pair in ((i, npus), (npus, i))]
    return network(npus, *pairs, switches=[Switch("hub", **limits)])  # type: ignore[arg-type]
