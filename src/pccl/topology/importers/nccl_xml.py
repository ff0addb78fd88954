"""Topology files of NCCL (``NCCL_TOPO_DUMP_FILE``) and RCCL: a host as a tree of PCI devices, with NVLink or xGMI.

Files for virtual machines often name no GPUs and no NVLinks, which NCCL finds out at run time; PCI classes say what a
device is, and ``gpu=h100`` which model.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field

from pccl.topology.importers.assembly import NVSWITCH, join_gpus
from pccl.topology.importers.hardware import GB, PCIE_4, Gpu, gpu_of, nic_of, smp_of
from pccl.topology.importers.markup import Element, read_xml
from pccl.topology.importers.model import Box, Hints, Part, Source, Wire
from pccl.topology.importers.pcie import BRIDGE, CPU, GPU, NIC, Spot, add_tree
from pccl.units import counted

# PCI classes begin so: display and processing accelerators, networks, and bridges such as an NVSwitch.
_GPU_CLASSES = ("0x03", "0x12")
_NIC_CLASSES = ("0x02",)
_NVSWITCH_CLASS = "0x0680"
# Of a lane, in 10**6 bytes per second, by GT/s; from 64 GT/s on PCIe has another code.
_LANES = {"2.5": 250, "5": 500, "8": 985, "16": 1969, "32": 3938, "64": 7563}
_SLOWEST = 250 * 10**6
_MOST_DEVICES = 1_024
# Networks that exist only within a host.
_VIRTUAL = ("veth", "docker", "br-", "virbr", "lo", "cni", "flannel", "cali", "tap", "tun")


def recognises(text: str) -> bool:
    """Whether it is such a file."""
    return re.search(r"<system\b", text) is not None and text.lstrip("\ufeff \t\r\n").startswith(
        "<"
    )


@dataclass
class _Host:
    """What is found of one host while its tree is walked."""

    name: str
    cpus: list[Spot] = field(default_factory=list)
    smp: int = 0
    bridges: int = 0
    gpus: dict[str, str] = field(default_factory=dict)
    nics: set[str] = field(default_factory=set)
    links: list[tuple[str, Element]] = field(default_factory=list)
    models: Counter[str] = field(default_factory=Counter)
    unknown: list[Element] = field(default_factory=list)
    model: Gpu | None = None


def read(source: Source, hints: Hints) -> Part:
    """Read one file, which is about one host, or about the hosts of one NVLink domain."""
    system = read_xml(source)
    if system.tag != "system":
        raise source.error(f"expected <system>, not <{system.tag}>", system.line)
    part = Part()
    hosts: dict[str, _Host] = {}
    for cpu in system.all("cpu"):
        # Dumps of several hosts tell them apart by a hash.
        key = cpu.get("host_hash")
        name = source.path.stem if len(hosts) == 0 or key in hosts else f"host{len(hosts)}"
        host = hosts.setdefault(key, _Host(name))
        _add_cpu(host, cpu, source, hints, part)
    several = len(hosts) > 1
    for i, host in enumerate(hosts.values()):
        if several:
            host.name = f"host{i}"
        part.boxes.append(_box(host, source, hints, part, domain="nvlink" if several else ""))
    if not part.boxes:
        raise source.error("no <cpu>, so neither GPUs nor NICs", system.line)
    return part


def _add_cpu(host: _Host, cpu: Element, source: Source, hints: Hints, part: Part) -> None:
    spot = Spot(CPU, f"cpu{cpu.get('numaid') or len(host.cpus)}", 0)
    if any(other.name == spot.name for other in host.cpus):
        spot.name = f"cpu{len(host.cpus)}.{len(host.cpus)}"
    host.smp = max(host.smp, smp_of(cpu.get("vendor"), cpu.get("modelid")))
    for child in cpu.children:
        _add(host, child, spot, source, hints, part)
    host.cpus.append(spot)


def _add(
    host: _Host, element: Element, above: Spot, source: Source, hints: Hints, part: Part
) -> None:
    """Add a device of the tree, and what is below it."""
    if element.tag == "nic":
        for net in element.all("net"):
            _add_net(host, net, None, above, source, hints, part)
    if element.tag != "pci":
        return
    kind = element.get("class").lower()
    bandwidth = _pcie(element, source) or 0
    gpus = [child for child in element.children if child.tag == "gpu"]
    nets = [net for child in element.children if child.tag == "nic" for net in child.all("net")]
    below = [child for child in element.children if child.tag == "pci"]
    if gpus or kind.startswith(_GPU_CLASSES):
        _add_gpu(host, element, gpus[0] if gpus else element, above, bandwidth, hints, source)
    elif nets:
        for net in nets:
            _add_net(host, net, element, above, source, hints, part)
    elif kind.startswith(_NIC_CLASSES):
        _add_net(host, None, element, above, source, hints, part)
    elif kind.startswith(_NVSWITCH_CLASS):
        return
    elif below:
        # Bridges of virtual machines pretend to be the slowest there are.
        is_real = bandwidth > _SLOWEST
        spot = Spot(BRIDGE, f"pcie{host.bridges}", bandwidth if is_real else PCIE_4)
        host.bridges += 1
        for child in below:
            _add(host, child, spot, source, hints, part)
        above.children.append(spot)
    elif not kind:
        host.unknown.append(element)


def _add_gpu(
    host: _Host,
    pci: Element,
    about: Element,
    above: Spot,
    bandwidth: int,
    hints: Hints,
    source: Source,
) -> None:
    number = str(len(host.gpus))
    given = about.get("dev") if about.tag == "gpu" else ""
    name = f"gpu{given if re.fullmatch('[0-9]{1,6}', given) else number}"
    # Without a number of its own, a GPU is nobody's target.
    key = pci.get("busid").lower() or f"#{number}"
    if key in host.gpus or name in host.gpus.values():
        raise source.error(f"{name} ({key}) is there twice", pci.line)
    host.gpus[key] = name
    model = hints.gpu or gpu_of(pci.get("device"), about.get("sm"), about.get("gcn"))
    host.models[model.name if model else ""] += 1
    host.model = host.model or model
    # Some virtual machines give no speed; then it is that of the model.
    speed = bandwidth or (model.pcie if model else PCIE_4)
    above.children.append(Spot(GPU, name, speed))
    for link in about.children:
        if link.tag in ("nvlink", "xgmi"):
            host.links.append((name, link))


def _add_net(
    host: _Host,
    net: Element | None,
    pci: Element | None,
    above: Spot,
    source: Source,
    hints: Hints,
    part: Part,
) -> None:
    name = (net.get("name") if net else "") or f"nic{len(host.nics)}"
    if name.startswith(_VIRTUAL):
        part.found.append(f"{name} left out: it is within the host")
        return
    speed = hints.nic
    if speed is None and net is not None:
        megabits = _number(net, "speed", source)
        speed = round(megabits * 10**6 / 8) if megabits > 0 else None
    if speed is None and pci is not None:
        speed = nic_of(pci.get("vendor"), pci.get("device"))
    # A NIC that belongs to no bus is listed below every CPU.
    if name in host.nics:
        return
    host.nics.add(name)
    if len(host.nics) > _MOST_DEVICES:
        raise source.error(f"more than {_MOST_DEVICES:,} NICs in one host")
    # Zero until the model of the GPUs is known, which tells the usual NIC.
    above.children.append(Spot(NIC, name, speed or 0))


def _box(host: _Host, source: Source, hints: Hints, part: Part, domain: str) -> Box:
    if not host.gpus:
        why = "no <gpu> and no device of class 0x0302"
        if host.unknown:
            devices = counted(len(host.unknown), "device")
            why += f"; {devices} without a class, and only the running machine knows of which"
        raise source.error(f"no GPU in it: {why}", host.unknown[0].line if host.unknown else None)
    if len(host.gpus) > _MOST_DEVICES:
        raise source.error(f"more than {_MOST_DEVICES:,} GPUs in one host")
    if host.model is None:
        raise source.error(
            "it names no model of GPU and no NVLinks, as files for virtual machines do; say which: --gpu a100"
        )
    gpu = host.model
    # As CUDA numbers them, which may differ from the order on the bus.
    names = sorted(host.gpus.values(), key=lambda name: int(name.removeprefix("gpu")))
    box = Box(host.name, names, domain=domain)
    count = len(box.npus)
    part.found.append(f"{count} GPU{'' if count == 1 else 's'}: {gpu.title}")
    if hints.gpu:
        part.assume(f"the GPUs are {gpu.title}, as gpu={gpu.name} says")
    if len(host.models) > 1:
        part.assume(f"all GPUs are {gpu.title}, though the file names several models")
    for cpu in host.cpus:
        _fill_speeds(cpu, gpu, part)
    _add_links(box, host, gpu, source, part)
    add_tree(box, host.cpus, host.smp, part)
    if box.nics:
        speeds = Counter(f"{nic.bandwidth / GB:g}GB/s" for nic in box.nics)
        part.found.append("NICs: " + ", ".join(f"{n} of {speed}" for speed, n in speeds.items()))
    return box


def _fill_speeds(cpu: Spot, gpu: Gpu, part: Part) -> None:
    for nic in cpu.leaves(NIC):
        if not nic.bandwidth:
            nic.bandwidth = gpu.nic
            part.assume(
                f"NICs of {gpu.nic / GB:g}GB/s, as usual with {gpu.title}; nic=... says otherwise"
            )


def _add_links(box: Box, host: _Host, gpu: Gpu, source: Source, part: Part) -> None:
    """NVLinks and xGMI links between GPUs, and those to NVSwitches."""
    direct: dict[tuple[str, str], int] = {}
    to_switch: dict[str, int] = {}
    for name, link in host.links:
        count = int(_number(link, "count", source, 1))
        target = link.get("target").lower()
        is_gpu = link.get("tclass").lower().startswith(_GPU_CLASSES)
        if host.gpus.get(target) == name:
            part.assume("NVLinks from a GPU to itself say nothing, and are left out")
        elif target in host.gpus:
            pair = (name, host.gpus[target])
            direct[pair] = direct.get(pair, 0) + count
        elif not is_gpu:
            to_switch[name] = to_switch.get(name, 0) + count
    if not host.links and gpu.links:
        join_gpus(box, gpu)
        if box.wires:
            part.assume(f"the file has no NVLinks: they are those of {gpu.title} ({gpu.source})")
        return
    if not (direct or to_switch):
        return
    for (a, b), count in direct.items():
        # Each end lists the link; one that only one of them lists counts as well.
        if a < b or (b, a) not in direct:
            box.wires.append(Wire(a, b, count * gpu.link, gpu.latency))
    if to_switch:
        box.switches.append(NVSWITCH)
        for name, count in to_switch.items():
            box.wires.append(Wire(name, NVSWITCH, count * gpu.link, gpu.latency))
    part.assume(f"a link has {gpu.link / GB:g}GB/s in each direction ({gpu.source})")


def _pcie(element: Element, source: Source) -> int | None:
    """Bytes per second by speed and width, if they are given."""
    text = element.get("link_speed")
    width = int(_number(element, "link_width", source))
    match = re.match(r"\s*([0-9]+(?:\.[0-9]+)?)", text)
    if match is None or not width:
        return None
    lane = _LANES.get(f"{float(match[1]):g}")
    if lane is None:
        raise source.error(f"link_speed={text!r} is none that PCIe has", element.line)
    return lane * 10**6 * min(width, 32)


def _number(element: Element, name: str, source: Source, default: float = 0) -> float:
    text = element.get(name)
    if not text:
        return default
    try:
        value = float(text)
    except ValueError:
        raise source.error(f"{name}={text!r} is not a number", element.line) from None
    if not abs(value) < 1e9:
        raise source.error(f"{name}={text!r} is out of range", element.line)
    return value
