"""Random networks, as the Python that makes them: what is printed to reproduce a problem is what was run."""

from __future__ import annotations

import inspect
import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np

from benchmarks.stress.dice import Dice
from pccl import PcclError
from pccl.topology import Link, Switch, Topology, load, parse_topology
from pccl.topology.names import EACH_DIMENSION, SLICE, ZOO, ZooEntry

BANDWIDTHS = ("1GB/s", "3GB/s", "12.5GB/s", "25GB/s", "50GiB/s", "400GB/s", "999999937B/s")
LATENCIES = ("0ns", "1ps", "300ns", "500ns", "1.35us", "3us", "100us")
GAPS = ("0ns", "10ns", "200ns", "1us")
SLICES = ("v4-8", "v4-16", "v4-128", "v5e-1", "v5e-4", "v5e-8", "v5e-16", "v5p-8", "v5p-32", "v6e-4", "v6e-8",
          "v6e-64", "tpu7x-16", "tpu7x-32")  # fmt: skip
# Families beside those of the zoo, and how often each comes; the zoo has the rest.
OTHERS = {"digraph": 0.12, "product": 0.04, "file": 0.05}
_DRAWS = 40
_MANY = 16
# What the texts may name.
NAMES = {one.__name__: one for one in (Link, Switch, Topology, parse_topology, load)}


@dataclass(frozen=True)
class Network:
    """A network as text, what kind it is, and the network itself; None where it is refused."""

    text: str
    family: str
    topology: Topology | None

    @property
    def npus(self) -> list[int]:
        """The NPUs that are there."""
        return [] if self.topology is None else self.topology.npus.tolist()

    @property
    def switched(self) -> bool:
        """Whether it has switches."""
        return self.topology is not None and len(self.topology.switches) > 0


def quoted(text: str) -> str:
    """A text as Python has it, in double quotes, so that a shell takes all of it in single ones."""
    return json.dumps(text)


def random_network(
    dice: Dice, least: int, most: int, samples: Path | None, switched: bool
) -> Network:
    """A network with about so many NPUs; with switches if that is asked for."""
    # Few are refused on purpose; of others the last is taken, whatever it is.
    refused_too = dice.chance(0.02)
    for _ in range(_DRAWS):
        text, family = _draw(dice, least, most, samples)
        network = built(text, family)
        if network.topology is None:
            if refused_too:
                break
            continue
        count = len(network.npus)
        if least <= count <= most and (network.switched or not switched):
            break
    else:
        network = built('parse_topology("switch:4")', "switch")
    return _changed(dice, network)


def built(text: str, family: str) -> Network:
    """Build what a text says."""
    try:
        topology = eval(text, dict(NAMES))
    except PcclError:
        topology = None
    return Network(text, family, topology)


def _draw(dice: Dice, least: int, most: int, samples: Path | None) -> tuple[str, str]:
    zoo = 1 - sum(OTHERS.values())
    family = dice.weighted(OTHERS | {"shape": zoo / 2, "machine": zoo / 2})
    if family == "digraph":
        return _digraph(dice, least, min(most, 12)), family
    if family == "file":
        found = _files(samples)
        if found:
            return f"load({quoted(str(dice.pick(found)))})", family
    shapes = [entry for entry in ZOO.values() if entry.speeds]
    if family == "product":
        side = max(2, math.isqrt(most))
        parts = [_named(dice, dice.pick(shapes), side) for _ in range(2)]
        return f"parse_topology({quoted(' x '.join(parts))})", family
    machines = [entry for entry in ZOO.values() if not entry.speeds and _smallest(entry) <= most]
    # Racks are the only machines that need much room.
    large = [entry for entry in machines if _smallest(entry) > _MANY]
    if large and most >= 64 and dice.chance(0.4):
        machines = large
    entries = machines if family == "machine" and machines else shapes
    entry = dice.pick(entries)
    return f"parse_topology({quoted(_named(dice, entry, most))})", entry.name


@cache
def _smallest(entry: ZooEntry) -> int:
    """How many NPUs one box of a machine has."""
    is_boxes = entry.arguments.startswith("[")
    return parse_topology(entry.name).num_npus if is_boxes else 1


@cache
def _files(folder: Path | None) -> tuple[Path, ...]:
    """The files in a folder that are networks."""
    found = []
    for path in sorted(folder.rglob("*")) if folder is not None else ():
        if path.is_file() and path.stat().st_size < 2**20:
            try:
                load(path)
            except PcclError:
                continue
            found.append(path)
    return tuple(found)


# --- what has a name -------------------------------------------------------------------------------------------------


def _named(dice: Dice, entry: ZooEntry, most: int) -> str:
    """A text for an entry of the zoo, with random arguments, options and speeds."""
    numbers = _arguments(dice, entry, most)
    options = [_option(dice, entry, name, len(numbers)) for name in entry.options]
    text = entry.name
    if numbers:
        text += f":{'x'.join(map(str, numbers))}"
    text = ",".join([text, *(option for option in options if option)])
    if not entry.speeds or dice.chance(0.4):
        return text
    levels = len(numbers) if entry.speeds == EACH_DIMENSION else len(entry.speeds)
    parts = levels if dice.chance(0.5) else 1
    return "@".join([text, *(_speed(dice) for _ in range(parts))])


def _arguments(dice: Dice, entry: ZooEntry, most: int) -> Sequence[int | str]:
    words = entry.arguments.strip("[]")
    if words == SLICE:
        return [dice.pick(SLICES)]
    if entry.arguments.startswith("["):
        boxes = [count for count in (1, 1, 2, 2, 4, 8) if count * _smallest(entry) <= most]
        count = dice.pick(boxes or [1])
        return [count] if count > 1 or dice.chance(0.5) else []
    if words == "D":
        return [dice.whole(1, max(1, int(math.log2(most))))]
    if words == "K":
        return [dice.pick([2, 4, 4, 6, 8])]
    count = dice.pick([1, 2, 2, 3, 4]) if words.endswith("...") else words.count("x") + 1
    numbers = []
    room = most
    for _ in range(count):
        numbers.append(dice.whole(1 if count > 1 else 2, max(2, min(room, 16))))
        room //= numbers[-1]
    return dice.some(numbers, count)


def _option(dice: Dice, entry: ZooEntry, name: str, dimensions: int) -> str:
    """One option with a value, mostly none."""
    parameter = inspect.signature(entry.build).parameters[name]
    annotation = str(parameter.annotation)
    if name == "wrap" and "Sequence" in annotation:
        words = [dice.pick(["yes", "no"]) for _ in range(dimensions)]
        return f"wrap={'/'.join(words)}" if dice.chance(0.7) else ""
    if isinstance(parameter.default, bool) or "bool" in annotation:
        return f"{name}={dice.pick(['yes', 'yes', 'no'])}" if dice.chance(0.25) else ""
    if name == "buffer":
        return f"buffer={dice.whole(1, 5)}" if dice.chance(0.2) else ""
    # Speeds of shapes stand after an @.
    if entry.speeds or not dice.chance(0.15):
        return ""
    if name.endswith("gap"):
        return f"{name}={dice.pick(GAPS)}"
    return f"{name}={dice.pick(LATENCIES if name.endswith('latency') else BANDWIDTHS)}"


def _speed(dice: Dice) -> str:
    words = [dice.pick(BANDWIDTHS)]
    if dice.chance(0.7):
        words.append(dice.pick(LATENCIES))
        if dice.chance(0.2):
            words.append(dice.pick(GAPS))
    return ",".join(words)


# --- what has none ---------------------------------------------------------------------------------------------------


def _digraph(dice: Dice, least: int, most: int) -> str:
    """A directed ring through all devices, so that everything can be reached, and more links, some parallel."""
    npus = dice.whole(max(2, least), max(2, least, most))
    hubs = dice.whole(0, 3)
    count = npus + hubs
    limited = dice.chance(0.4)
    gaps = dice.chance(0.3)
    exclusive = dice.chance(0.3)
    switches = []
    for _ in range(hubs):
        buffer = dice.whole(1, 3) if limited and dice.chance(0.5) else None
        switches.append(f'Switch("", {buffer}, {dice.chance(0.5)}, {dice.chance(0.5)})')
    ring = dice.some(range(count), count)
    pairs = list(zip(ring, ring[1:] + ring[:1], strict=True))
    for _ in range(dice.whole(0, 2 * count)):
        a, b = dice.some(range(count), 2)
        pairs.append((a, b))
    links = []
    for a, b in pairs:
        words = [str(a), str(b), quoted(dice.pick(BANDWIDTHS)), quoted(dice.pick(LATENCIES))]
        if exclusive or gaps:
            words.append(str(exclusive and dice.chance(0.5)))
        if gaps:
            words.append(quoted(dice.pick(GAPS)))
        links.append(f"Link({', '.join(words)})")
    return f"Topology.from_links({npus}, [{', '.join(links)}], [{', '.join(switches)}])"


def _changed(dice: Dice, network: Network) -> Network:
    """Now and then: damaged, with other speeds, or without switches."""
    topology = network.topology
    if topology is None or not topology.num_links:
        return network
    how = dice.weighted({"": 0.75, "links": 0.07, "devices": 0.05, "edited": 0.1, "unrolled": 0.03})
    text = network.text
    if how == "links":
        gone = dice.some(range(topology.num_links), dice.whole(1, 2))
        text += f".without(links={sorted(gone)})"
    elif how == "devices":
        present = np.flatnonzero(
            np.isin(np.arange(topology.num_devices), [*topology.npus, *topology.switches])
        )
        gone = dice.some(present.tolist(), 1)
        text += f".without(devices={gone})"
    elif how == "edited":
        key, value = _edit(dice, topology)
        text += f".edited({{{quoted(key)}: {quoted(value)}}})"
    elif how == "unrolled" and network.switched:
        text += ".unroll_switches()"
    changed = built(text, network.family)
    # What is left may be no network; that is refused when it is built, and seldom of interest.
    return network if changed.topology is None else changed


def _edit(dice: Dice, topology: Topology) -> tuple[str, str]:
    figure = dice.pick(
        ["bandwidth", "bandwidth", "latency", "gap", "buffer", "multicast", "reduce"]
    )
    if figure in ("buffer", "multicast", "reduce"):
        if not len(topology.switches):
            return "*.bandwidth", "50%"
        name = topology.labels[int(dice.pick(topology.switches.tolist()))]
        value = str(dice.whole(1, 4)) if figure == "buffer" else dice.pick(["yes", "no"])
        return f"{name}.{figure}", value
    name = dice.pick(["*", topology.labels[int(dice.pick(topology.npus.tolist()))]])
    values = {"bandwidth": ("50%", "10%", "7GB/s"), "latency": LATENCIES, "gap": GAPS}
    return f"{name}.{figure}", dice.pick(values[figure])
