"""``ibnetdiscover``: the switches of an InfiniBand fabric, their cables, and the NICs of hosts by name."""

from __future__ import annotations

import re

from pccl.topology.importers.model import Fabric, Hints, Part, Port, Source, Wire
from pccl.units import counted

_NODE = re.compile(r'^(Switch|Ca|Rt)\s+[0-9]+\s+"([SHR]-[0-9a-fA-F]+)"\s*#\s*"([^"]*)"')
# With grouping, ports of a chassis have an outer number as well.
_CABLE = re.compile(r'^\[([0-9]+)\](?:\[ext [0-9]+\])?\S*\s+"([SHR]-[0-9a-fA-F]+)"\[([0-9]+)\]')
_SPEED = re.compile(r"\b([0-9]{1,2})x([A-Z]+[0-9]*)\s*$")
# Gigabits per second of a lane, as InfiniBand is sold by: 4xNDR is 400 Gb/s. The first three lose 2 of 10 bits.
_LANES = {
    "SDR": 2,
    "DDR": 4,
    "QDR": 8,
    "FDR10": 10,
    "FDR": 13.64,
    "EDR": 25,
    "HDR": 50,
    "NDR": 100,
    "XDR": 200,
}
# What NICs are called before their host has given them a name.
_UNNAMED = re.compile(r"^(?:MT[0-9]+|localhost\b|Mellanox Technologies|ConnectX)", re.IGNORECASE)
_SHARP = "Aggregation Node"


def recognises(text: str) -> bool:
    """Whether it is the output of that command."""
    return re.search(r'^(?:Switch|Ca)\s+[0-9]+\s+"[SH]-[0-9a-fA-F]+"', text, re.M) is not None


def read(source: Source, hints: Hints) -> Part:  # noqa: ARG001
    """Read the whole fabric."""
    names: dict[str, str] = {}
    cables: dict[tuple[str, str], tuple[str, str, int]] = {}
    # What is plugged into each port, as either end lists it.
    plugged: dict[str, str] = {}
    current = ""
    for number, line in enumerate(source.lines, start=1):
        node = _NODE.match(line)
        if node:
            current = node[2]
            names[current] = node[3]
            continue
        if not line.startswith("["):
            continue
        cable = _CABLE.match(line)
        if cable is None or not current:
            raise source.error("a port that is not '[1] \"S-…\"[2] # … 4xNDR'", number)
        ends = (f"{current}[{cable[1]}]", f"{cable[2]}[{cable[3]}]")
        for port, other in (ends, ends[::-1]):
            if plugged.setdefault(port, other) != other:
                raise source.error(
                    f"two cables in port {port}: to {plugged[port]}, and to {other}", number
                )
        # Each end lists it.
        key = (min(ends), max(ends))
        if key not in cables:
            cables[key] = (current, cable[2], _speed(line, source, number))
        if cable[2] not in names:
            comment = re.search(r'#.*?"([^"]*)"', line)
            names[cable[2]] = comment[1] if comment else ""
    return _part(names, list(cables.values()), source)


def _speed(line: str, source: Source, number: int) -> int:
    match = _SPEED.search(line.rstrip())
    if match is None or match[2] not in _LANES:
        raise source.error("a port without its speed, such as 4xNDR at the end of the line", number)
    return round(int(match[1]) * _LANES[match[2]] * 10**9 / 8)


def _part(names: dict[str, str], cables: list[tuple[str, str, int]], source: Source) -> Part:
    part = Part(fabric=Fabric())
    fabric = part.fabric
    assert fabric is not None
    labels: dict[str, str] = {}
    taken: set[str] = set()
    for guid, name in names.items():
        if guid.startswith("S-"):
            label = _switch_name(name) or guid
            labels[guid] = label if label not in taken else guid
            taken.add(label)
    fabric.switches = list(labels.values())
    unnamed = 0
    sharp = 0
    for a, b, speed in cables:
        if a in labels and b in labels:
            fabric.wires.append(Wire(labels[a], labels[b], speed))
            continue
        if a not in labels and b not in labels:
            continue
        switch, adapter = (a, b) if a in labels else (b, a)
        about = names.get(adapter, "")
        words = about.split()
        if _SHARP in about:
            sharp += 1
        elif not words or _UNNAMED.match(about) or adapter.startswith("R-"):
            unnamed += 1
        else:
            nic = words[1] if len(words) > 1 else ""
            # Without its domain: dumps of boxes know hosts by their short names.
            fabric.ports.append(Port(words[0].split(".")[0], nic, labels[switch], speed))
    if not fabric.ports:
        raise source.error("no NIC that tells its host")
    # Hosts in the order of their names, so that numbers of NPUs follow them.
    fabric.ports.sort(key=lambda port: (_natural(port.host), _natural(port.nic)))
    hosts = len({port.host for port in fabric.ports})
    part.found.append(
        f"{counted(len(fabric.switches), 'switch')}, {counted(hosts, 'host')} with {counted(len(fabric.ports), 'NIC')}"
    )
    if unnamed:
        part.found.append(f"{counted(unnamed, 'NIC')} left out, without the name of a host")
    if sharp:
        part.found.append(
            f"{counted(sharp, 'switch')} with SHARP: --set '*.multicast=yes' and '*.reduce=yes' let SHARP be used"
        )
    return part


def _switch_name(text: str) -> str:
    """The name within a description such as ``MF0;leaf-1:MQM9701/U1``."""
    return text.split(";")[-1].split(":")[0].strip().replace(" ", "-")


def _natural(text: str) -> list[tuple[int, int | str]]:
    return [
        (0, int(word)) if word.isdecimal() else (1, word)
        for word in re.split(r"([0-9]+)", text)
        if word
    ]
