"""From parts to a topology: boxes get names and numbers, and NICs are plugged into the fabric."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from itertools import combinations

from pccl.errors import FormatError
from pccl.topology.core import Topology
from pccl.topology.importers.hardware import HOP_LATENCY, PCIE_LATENCY, Gpu, nic_wire
from pccl.topology.importers.model import Box, Fabric, Hints, Nic, Part, Port, Wire
from pccl.topology.machines.nvidia import CUBE_MESH
from pccl.topology.parts import Link, Switch
from pccl.units import BytesPerSecond, Picoseconds, counted

# Boxes are put together link by link, which takes about 10 kB of memory for an NPU.
_MOST_NPUS = 20_000
# The name that hosts of one NVLink domain have for the switch that they share.
NVSWITCH = "nvswitch"


def usual_box(host: str, gpu: Gpu, domain: str = "") -> Box:
    """The box that GPUs of a model usually come in: a NIC for each."""
    npus = [f"gpu{i}" for i in range(gpu.per_box)]
    box = Box(host, npus, domain=domain)
    join_gpus(box, gpu)
    box.nics = [Nic(f"nic{i}", npu, gpu.nic) for i, npu in enumerate(npus)]
    return box


def join_gpus(box: Box, gpu: Gpu) -> None:
    """Add the NVLinks or xGMI links that a box of this model has."""
    npus = box.npus
    if gpu.joined == "switch":
        box.switches.append(NVSWITCH)
        box.wires += [Wire(npu, NVSWITCH, gpu.total, gpu.latency) for npu in npus]
    elif gpu.joined == "cube" and len(npus) == 8:
        for links, pairs in CUBE_MESH.items():
            speed = links * gpu.link
            box.wires += [Wire(npus[a], npus[b], speed, gpu.latency) for a, b in pairs]
    elif gpu.joined == "mesh":
        box.wires += [Wire(a, b, gpu.link, gpu.latency) for a, b in combinations(npus, 2)]


def assemble(parts: Sequence[Part], name: str, hints: Hints) -> Part:
    """Join what several files say into one topology."""
    whole = Part()
    for part in parts:
        whole.boxes += part.boxes
        whole.found += part.found
        for text in part.assumed:
            whole.assume(text)
    fabrics = [part.fabric for part in parts if part.fabric is not None]
    if len(fabrics) > 1:
        raise FormatError(
            f"{name}: {len(fabrics)} of the files are fabrics; give one, and the boxes on it"
        )
    if hints.boxes > 1:
        whole.boxes = _copies(whole.boxes, hints.boxes, name)
    if fabrics:
        whole.fabric = fabrics[0]
        _meet(whole, hints, name)
    elif len(whole.boxes) > 1:
        whole.fabric = _rails(whole, hints)
    whole.topology = _topology(whole, name)
    return whole


def _copies(boxes: list[Box], count: int, name: str) -> list[Box]:
    if len(boxes) != 1:
        raise FormatError(f"{name}: boxes={count} repeats one box, but there are {len(boxes)}")
    _check_size(len(boxes[0].npus) * count, name)
    return [replace(boxes[0], host=f"box{i}") for i in range(count)]


def _check_size(npus: int, name: str) -> None:
    if npus > _MOST_NPUS:
        raise FormatError(f"{name}: {npus:,} NPUs are beyond {_MOST_NPUS:,}")


def _rails(whole: Part, hints: Hints) -> Fabric:
    """A switch for every place of a NIC, where nothing is said of the network."""
    if not any(box.nics for box in whole.boxes):
        _add_nics(whole, hints)
    most = max(len(box.nics) for box in whole.boxes)
    fabric = Fabric([f"rail{i}" for i in range(most)])
    for box in whole.boxes:
        for i, nic in enumerate(box.nics):
            fabric.ports.append(Port(box.host, nic.name, f"rail{i}", None))
    whole.assume(
        "boxes are joined by one switch for each place of a NIC (rails), as no file says how"
    )
    return fabric


def _add_nics(whole: Part, hints: Hints) -> None:
    """Give every GPU a NIC, if it is said how fast one is."""
    if hints.nic is None:
        raise FormatError(
            "several boxes, but no NIC that could join them; give the fabric, or nic=50GB/s for one NIC a GPU"
        )
    for box in whole.boxes:
        box.nics = [Nic(f"nic{i}", npu, hints.nic) for i, npu in enumerate(box.npus)]
    whole.assume("every GPU has a NIC, as its speed is given and no file has any")


def _meet(whole: Part, hints: Hints, name: str) -> None:
    """Bring hosts of the fabric and boxes together, by name; hosts without a box of their own get one."""
    fabric = whole.fabric
    assert fabric is not None
    hosts = list(dict.fromkeys(port.host for port in fabric.ports))
    known = {}
    for box in whole.boxes:
        host = _host(box.host, hosts)
        if host is None:
            some = ", ".join(hosts[:3]) + (", …" if len(hosts) > 3 else "")
            raise FormatError(f"{name}: the fabric has no host {box.host!r}; it has {some}")
        if host in known:
            raise FormatError(f"{name}: two files are about the host {host!r}")
        known[host] = replace(box, host=host)
    if known:
        others = [host for host in hosts if host not in known]
        if others:
            whole.found.append(
                f"{counted(len(others), 'host')} of the fabric left out: no file is about them"
            )
        fabric.ports = [port for port in fabric.ports if port.host in known]
        whole.boxes = [known[host] for host in hosts if host in known]
        return
    gpu = hints.gpu
    _check_size(len(hosts), name)
    if gpu is None:
        whole.boxes = [Box(host, [""]) for host in hosts]
        whole.assume("a host is one NPU with all its NICs; gpu=h100 makes it a box of such GPUs")
        return
    _check_size(len(hosts) * gpu.per_box, name)
    whole.boxes = [usual_box(host, gpu, fabric.domains.get(host, "")) for host in hosts]
    whole.assume(
        f"every host is a box of {gpu.per_box} {gpu.title} with a NIC each, as gpu={gpu.name} says"
    )
    whole.assume(f"{gpu.source}")


def _host(stem: str, hosts: list[str]) -> str | None:
    """The host that a file is about, by the name of the file: the longest that occurs in it."""
    found = [
        host
        for host in hosts
        if re.search(rf"(?<![A-Za-z0-9]){re.escape(host)}(?![A-Za-z0-9])", stem, re.IGNORECASE)
    ]
    return max(found, key=len, default=None)


class _Devices:
    """Names and links on their way into a topology."""

    def __init__(self, several: bool) -> None:
        self.several = several
        self.npus: list[str] = []
        self.switches: dict[str, None] = {}
        self.wires: list[Wire] = []

    def name(self, box: Box, local: str) -> str:
        if local == NVSWITCH and box.domain:
            return f"{box.domain}.{NVSWITCH}"
        if not local:
            return box.host
        return f"{box.host}.{local}" if self.several else local

    def add_box(self, box: Box) -> None:
        self.npus += [self.name(box, npu) for npu in box.npus]
        self.switches |= dict.fromkeys(self.name(box, switch) for switch in box.switches)
        for wire in box.wires:
            self.wires.append(replace(wire, a=self.name(box, wire.a), b=self.name(box, wire.b)))


def _topology(whole: Part, name: str) -> Topology:
    if not whole.boxes:
        raise FormatError(f"{name}: there is no GPU and no host in it")
    devices = _Devices(len(whole.boxes) > 1)
    for box in whole.boxes:
        devices.add_box(box)
    if whole.fabric is not None:
        _plug(whole, whole.fabric, devices)
    else:
        for nic in whole.boxes[0].nics:
            devices.switches[nic.name] = None
            latency, gap = _nic_times(whole.boxes[0], nic, nic.bandwidth)
            devices.wires.append(Wire(nic.at, nic.name, nic.bandwidth, latency, gap))
        if whole.boxes[0].nics:
            whole.assume("the NICs of one box lead nowhere; boxes=4 joins several like it")
    numbers = {label: i for i, label in enumerate([*devices.npus, *devices.switches])}
    links = []
    for wire in devices.wires:
        speed = BytesPerSecond(wire.bandwidth)
        delay = Picoseconds(wire.latency)
        gap = Picoseconds(wire.gap)
        for a, b in ((wire.a, wire.b), (wire.b, wire.a)):
            links.append(Link(numbers[a], numbers[b], speed, delay, gap=gap))
    sizes = {len(box.npus) for box in whole.boxes}
    shape = (
        (len(whole.boxes), *sizes)
        if len(sizes) == 1 and len(whole.boxes) > 1 and sizes != {1}
        else ()
    )
    switches = [Switch(label) for label in devices.switches]
    return Topology.from_links(devices.npus, links, switches, name=name, shape=shape)


def _plug(whole: Part, fabric: Fabric, devices: _Devices) -> None:
    """Add the fabric, and the way of every NIC into it."""
    boxes = {box.host: box for box in whole.boxes}
    rank = _ranks(fabric.ports)
    below: dict[str, int] = dict.fromkeys(fabric.switches, 0)
    idle = 0
    for port in fabric.ports:
        box = boxes[port.host]
        if box.npus == [""]:
            assert port.bandwidth is not None
            below[port.switch] += port.bandwidth
            latency, gap = nic_wire(port.bandwidth)
            devices.wires.append(Wire(box.host, port.switch, port.bandwidth, latency, gap))
            continue
        nics = _nics_at(port, box, rank)
        idle += not nics
        for nic in nics:
            speed = nic.bandwidth if port.bandwidth is None else port.bandwidth
            below[port.switch] += speed
            device = devices.name(box, nic.name)
            devices.switches[device] = None
            latency, gap = _nic_times(box, nic, speed)
            devices.wires.append(Wire(devices.name(box, nic.at), device, speed))
            devices.wires.append(Wire(device, port.switch, speed, latency, gap))
    if idle:
        whole.found.append(f"{idle} ports of the fabric left out: their boxes have no such NIC")
    used = _reached(fabric, {port.switch for port in fabric.ports})
    devices.switches |= dict.fromkeys(switch for switch in fabric.switches if switch in used)
    carried = _carried(fabric, below)
    for wire in fabric.wires:
        if wire.a in used and wire.b in used:
            # Never nothing: a switch without hosts has a cable all the same.
            speed = wire.bandwidth or carried[wire.a] or 1
            devices.wires.append(replace(wire, bandwidth=speed, latency=HOP_LATENCY))


def _nic_times(box: Box, nic: Nic, speed: int) -> tuple[int, int]:
    """Latency and gap of a NIC, less what PCIe counts already on the way to it."""
    latency, gap = nic_wire(speed)
    return latency - (0 if nic.at in box.npus else PCIE_LATENCY), gap


def _carried(fabric: Fabric, below: dict[str, int]) -> dict[str, int]:
    """Per switch of a tree: what all NICs below it need together."""
    above: dict[str, list[str]] = {}
    for wire in fabric.wires:
        # A wire of a tree leads upwards, from `a` to `b`.
        if not wire.bandwidth:
            above.setdefault(wire.a, []).append(wire.b)
    total = dict.fromkeys(fabric.switches, 0)
    for switch, needed in below.items():
        ways = [switch]
        while ways and needed:
            one = ways.pop()
            total[one] += needed
            ways += above.get(one, ())
    return total


def _reached(fabric: Fabric, start: set[str]) -> set[str]:
    """The switches that something passes: those at NICs, and those between them."""
    near: dict[str, set[str]] = {switch: set() for switch in fabric.switches}
    for wire in fabric.wires:
        near[wire.a].add(wire.b)
        near[wire.b].add(wire.a)
    used = {switch for switch in fabric.switches if near[switch] or switch in start}
    # What has one neighbour and no NIC is a dead end.
    ends = [switch for switch in used if len(near[switch]) == 1 and switch not in start]
    while ends:
        end = ends.pop()
        used.discard(end)
        for other in near.pop(end):
            near[other].discard(end)
            if len(near[other]) == 1 and other not in start and other in used:
                ends.append(other)
    return used


def _ranks(ports: Sequence[Port]) -> dict[str, int]:
    """For every name of a NIC its place among those that differ by a number: HCA-1 is the first of HCA-1 to 8."""
    families: dict[str, set[tuple[int, str]]] = {}
    for port in ports:
        match = re.fullmatch(r"(.*?)([0-9]{1,9})", port.nic)
        if match:
            families.setdefault(match[1], set()).add((int(match[2]), port.nic))
    return {
        nic: place for family in families.values() for place, (_, nic) in enumerate(sorted(family))
    }


def _nics_at(port: Port, box: Box, rank: dict[str, int]) -> list[Nic]:
    """The NIC of a box that is meant: by its name, or by its place."""
    for nic in box.nics:
        if nic.name == port.nic:
            return [nic]
    if not port.nic:
        return box.nics
    place = rank.get(port.nic, len(box.nics))
    # Names such as mlx5_0 are the host's own: if others of them match, this one is not there.
    same = port.nic.rstrip("0123456789")
    if any(nic.name.rstrip("0123456789") == same for nic in box.nics):
        return []
    return box.nics[place : place + 1]
