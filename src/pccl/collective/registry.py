"""All kinds of collectives by name; collectives from plain data, and the conditions of several together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import Any

from pccl._lazy import load_target
from pccl.collective.base import Collective
from pccl.collective.conditions import Conditions
from pccl.collective.kinds import KINDS
from pccl.errors import CollectiveError, PcclError
from pccl.topology import Topology

COLLECTIVES: dict[str, type[Collective]] = {
    name: load_target(f"pccl.collective.{kind.target}") for name, kind in KINDS.items()
}


def compile_conditions(topology: Topology, collectives: Sequence[Collective]) -> Conditions:
    """Conditions of all collectives together, checked against the topology.

    Examples
    --------
    >>> import pccl
    >>> conditions = compile_conditions(pccl.topology.ring(4), [pccl.AllGather(size="4KiB")])
    >>> len(conditions), conditions.sources(1).tolist(), conditions.destinations(1).tolist()
    (4, [1], [0, 2, 3])
    """
    check_task(topology, collectives)
    return Conditions.join([collective.conditions(topology) for collective in collectives])


def check_task(topology: object, collectives: Sequence[object]) -> None:
    """Raise unless this is a network, and there are collectives to run on it."""
    if not isinstance(topology, Topology):
        raise PcclError(
            f"the topology is {topology!r}; make one with pccl.topology, "
            "for example parse_topology('mesh:8x8')"
        )
    if not collectives:
        raise CollectiveError("there is nothing to do: give at least one collective")
    for collective in collectives:
        if not isinstance(collective, Collective):
            raise CollectiveError(
                f"{collective!r} is not a collective; write for example pccl.AllGather('4MiB')"
            )


def collective_from_dict(data: Mapping[str, Any]) -> Collective:
    """Build a collective from plain data: its kind, and its parameters by name.

    Examples
    --------
    >>> collective_from_dict({"kind": "broadcast", "size": "1MiB", "root": 2})
    Broadcast(size=Bytes(1048576), group=None, chunks=None, dtype='uint8', root=2)
    """
    if not isinstance(data, Mapping):
        raise CollectiveError(
            f"a collective is given by its kind and its parameters, not by {data!r}"
        )
    arguments = dict(data)
    kind = arguments.pop("kind", None)
    if not isinstance(kind, str) or kind not in COLLECTIVES:
        raise CollectiveError(
            f"there is no collective {kind!r}; there are {', '.join(COLLECTIVES)}"
        )
    try:
        return COLLECTIVES[kind](**arguments)
    except TypeError as error:
        allowed = ", ".join(f.name for f in fields(COLLECTIVES[kind]))
        raise CollectiveError(f"{kind}: {error}; its parameters are {allowed}") from None
