"""What importers make of a file: boxes of NPUs, the fabric between them, and what was found and assumed.

Files speak of hosts, GPUs and NICs by name, and one file rarely says all; so names are kept until the parts of several
files are joined, in :mod:`pccl.topology.importers.assembly`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from pccl.errors import FormatError
from pccl.topology.core import Topology
from pccl.topology.importers.hardware import Gpu

# Larger files are no dumps of a machine.
MOST_CHARACTERS = 64 * 2**20


@dataclass(frozen=True)
class Hints:
    """What the user says besides the files.

    Attributes
    ----------
    gpu
        The model of the GPUs, where files do not tell.
    nic
        Bytes per second of a NIC, where files do not tell.
    boxes
        How many boxes there are like the one in the file.
    """

    gpu: Gpu | None = None
    nic: int | None = None
    boxes: int = 1


@dataclass(frozen=True)
class Wire:
    """A connection in both directions between two devices, by their names."""

    a: str
    b: str
    bandwidth: int
    latency: int = 0
    gap: int = 0


@dataclass(frozen=True)
class Nic:
    """A network adapter, and the device of its box that it hangs on."""

    name: str
    at: str
    bandwidth: int


@dataclass
class Box:
    """One host: NPUs, what joins them, and NICs; names are unique within the box.

    Hosts of one NVLink ``domain`` share the switch that each of them calls ``nvswitch``. A host about whose inside
    nothing is known is one NPU without a name of its own.
    """

    host: str
    npus: list[str]
    switches: list[str] = field(default_factory=list)
    wires: list[Wire] = field(default_factory=list)
    nics: list[Nic] = field(default_factory=list)
    domain: str = ""


@dataclass(frozen=True)
class Port:
    """Where a NIC of a host is plugged in; without a speed it is that of the NIC."""

    host: str
    nic: str
    switch: str
    bandwidth: int | None


@dataclass
class Fabric:
    """Switches between hosts. A wire without a bandwidth carries all that is below it: nothing blocks."""

    switches: list[str] = field(default_factory=list)
    wires: list[Wire] = field(default_factory=list)
    ports: list[Port] = field(default_factory=list)
    domains: dict[str, str] = field(default_factory=dict)


@dataclass
class Part:
    """What one file says: boxes, a fabric, or a whole topology."""

    boxes: list[Box] = field(default_factory=list)
    fabric: Fabric | None = None
    topology: Topology | None = None
    found: list[str] = field(default_factory=list)
    assumed: list[str] = field(default_factory=list)

    def assume(self, text: str) -> None:
        """Note an assumption, once."""
        if text not in self.assumed:
            self.assumed.append(text)


@dataclass(frozen=True)
class Source:
    """A file that is being read."""

    path: Path
    text: str

    @property
    def lines(self) -> list[str]:
        """Its lines, whatever they end with."""
        return self.text.splitlines()

    def error(self, problem: str, line: int | None = None) -> FormatError:
        """The one error that a malformed file gets: the file, the line, and what is wrong there."""
        place = f"{self.path}:{line}" if line else str(self.path)
        return FormatError(f"{place}: {problem}")
