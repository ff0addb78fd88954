"""``.topo`` files of htsim: a fat tree of two or three tiers, each with its speed, latency and radix."""

from __future__ import annotations

import re

from pccl.topology.core import Topology
from pccl.topology.importers.hardware import NS
from pccl.topology.importers.model import Hints, Part, Source
from pccl.topology.parts import Link, Switch
from pccl.units import BytesPerSecond, Picoseconds, counted

_MOST_NODES = 100_000
_MOST_LINKS = 1_000_000


def recognises(text: str) -> bool:
    """Whether it is such a file."""
    return all(
        re.search(rf"^\s*{key}\b", text, re.M | re.I) for key in ("Tiers", "Downlink_speed_Gbps")
    )


def read(source: Source, hints: Hints) -> Part:  # noqa: ARG001
    """Read the tree: hosts are NPUs, the rest switches."""
    head, tiers = _sections(source)
    if len(tiers) not in (2, 3) or head.get("tiers", len(tiers)) != len(tiers):
        raise source.error(f"{counted(len(tiers), 'tier')}; trees have two or three")
    nodes = _get(head, "nodes", source)
    down = [_get(tier, "radix_down", source) for tier in tiers]
    up = [_get(tier, "radix_up", source) for tier in tiers[:-1]]
    bundle = [tier.get("bundle", 1) or 1 for tier in tiers]
    pod = head.get("podsize", nodes) if len(tiers) == 3 else nodes
    fits = nodes <= _MOST_NODES and pod and not nodes % pod and not pod % down[0]
    if not fits or up[0] % bundle[1] or up[-1] % bundle[-1]:
        raise source.error(
            f"{nodes} nodes, pods of {pod}, radix {down} down and {up} up do not fit together"
        )
    tors = nodes // down[0]
    tors_per_pod = pod // down[0]
    aggs_per_pod = up[0] // bundle[1]
    aggs = nodes // pod * aggs_per_pod
    cores_per_agg = up[1] // bundle[2] if len(tiers) == 3 else 0
    if nodes + tors * up[0] + aggs * (up[1] if len(tiers) == 3 else 0) > _MOST_LINKS:
        raise source.error(f"more than {_MOST_LINKS:,} links")
    names = [f"tor{i}" for i in range(tors)] + [f"agg{i}" for i in range(aggs)]
    names += [f"core{i}" for i in range(aggs_per_pod * cores_per_agg)]
    links = [
        link for i in range(nodes) for link in _cable(i, nodes + i // down[0], tiers[0], source)
    ]
    for tor in range(tors):
        first = nodes + tors + tor // tors_per_pod * aggs_per_pod
        for i in range(aggs_per_pod):
            links += _cable(nodes + tor, first + i, tiers[1], source) * bundle[1]
    for agg in range(aggs):
        for i in range(cores_per_agg):
            # The a-th of every pod shares its cores with the a-th of the others.
            core = nodes + tors + aggs + agg % aggs_per_pod + aggs_per_pod * i
            links += _cable(nodes + tors + agg, core, tiers[2], source) * bundle[2]
    switches = [Switch(name) for name in names]
    topology = Topology.from_links(nodes, links, switches, name=source.path.stem)
    found = f"{counted(nodes, 'host')}, {counted(len(names), 'switch')} in {counted(len(tiers), 'tier')}"
    return Part(topology=topology, found=[found])


def _sections(source: Source) -> tuple[dict[str, int], list[dict[str, int]]]:
    """The keys before the first tier, and those of each tier."""
    head: dict[str, int] = {}
    tiers: list[dict[str, int]] = []
    for number, raw in enumerate(source.lines, start=1):
        words = raw.partition("#")[0].split()
        if not words:
            continue
        if len(words) != 2 or not re.fullmatch("[0-9]{1,9}", words[1]):
            raise source.error(f"expected a word and a number, not {raw.strip()[:40]!r}", number)
        key = words[0].lower()
        value = int(words[1])
        if key == "tier":
            if value != len(tiers):
                raise source.error(f"tier {value} where tier {len(tiers)} is expected", number)
            tiers.append({})
        else:
            (tiers[-1] if tiers else head)[key] = value
    return head, tiers


def _get(keys: dict[str, int], name: str, source: Source) -> int:
    if not keys.get(name):
        raise source.error(f"{name} is missing, or zero")
    return keys[name]


def _cable(a: int, b: int, tier: dict[str, int], source: Source) -> list[Link]:
    speed = BytesPerSecond(_get(tier, "downlink_speed_gbps", source) * 10**9 // 8)
    # A switch takes its time, too, on the way up as on the way down.
    wait = tier.get("downlink_latency_ns", 0) + tier.get("switch_latency_ns", 0)
    delay = Picoseconds(wait * NS)
    return [Link(a, b, speed, delay), Link(b, a, speed, delay)]
