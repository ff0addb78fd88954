"""The network: devices (NPUs and switches) and the directed links between them, in immutable NumPy columns.

NPUs are numbered from zero, switches follow. A link is held by a transfer for its transmission time and a ``gap``, and
delivers a ``latency`` after the transmission; an ``exclusive`` link is held for the latency too, as in the paper's
time-expanded network.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import cached_property
from math import prod
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pccl._arrays import Bools, Column, Indices, Ints, offsets_by_owner
from pccl.errors import TopologyError
from pccl.topology.parts import (
    ABSENT,
    COLUMNS,
    DEVICE_COLUMNS,
    MOST_NPUS,
    NPU,
    SWITCH,
    UNLIMITED,
    Link,
    Switch,
    check_switch,
    read_flag,
)
from pccl.units import BytesPerSecond, Picoseconds, counted, parse, whole

if TYPE_CHECKING:
    import networkx

# Transmission times are computed in int64 four decimal digits at a time, which this keeps exact.
_BANDWIDTH_LIMIT = 9 * 10**14


@dataclass(frozen=True, eq=False, repr=False)
class Topology:
    """An immutable network.

    Build one with the generators of :mod:`pccl.topology`, from a file, or with :meth:`from_links`.

    Attributes
    ----------
    name
        What to call it.
    kind
        Per device: NPU, switch, or absent (a device taken out by :meth:`without` keeps its number).
    buffer, multicast, reduce
        Per device: what switches can do, see :class:`Switch`; a ``buffer`` of 0 is unlimited. NPUs can do all of it.
    labels
        Per device: its name.
    src, dst, latency, bandwidth, exclusive, gap
        Per link: see :class:`Link`; in picoseconds and bytes per second.
    shape
        The NPUs as a row-major grid, for topologies that are products; otherwise ``(number of NPUs,)``. Absent NPUs
        keep their place in it, so its product is always the number of the first switch.
    lost
        The ends of links that :meth:`without` took out; pictures show them, nothing else asks for them.

    Examples
    --------
    >>> Topology.from_links(2, [Link(0, 1, "50GB/s", "500ns"), Link(1, 0, "50GB/s", "500ns")], name="pair")
    Topology('pair': 2 NPUs, 2 links, 50GB/s, 500ns)
    """

    name: str
    kind: NDArray[np.int8]
    buffer: Ints
    multicast: Bools
    reduce: Bools
    labels: tuple[str, ...]
    src: Indices
    dst: Indices
    latency: Ints
    bandwidth: Ints
    exclusive: Bools
    gap: Ints
    shape: tuple[int, ...] = ()
    lost: tuple[tuple[int, int], ...] = field(default=(), compare=False)

    def __post_init__(self) -> None:
        # Read-only copies of its own: what is cached, and the hash, stay true only if nobody can change a topology.
        for name, dtype in COLUMNS.items():
            given = np.asarray(getattr(self, name))
            # A text is true, and so is 0.5.
            if dtype is np.bool_ and given.dtype != dtype:
                for value in given.ravel().tolist():
                    read_flag(bool(value) if value in (0, 1) else value, f"column {name!r}")
            column: Column = np.array(given, dtype=dtype)
            column.setflags(write=False)
            object.__setattr__(self, name, column)
        object.__setattr__(self, "labels", tuple(self.labels))
        object.__setattr__(self, "shape", tuple(self.shape) or (self.num_npus,))
        object.__setattr__(self, "lost", tuple((int(a), int(b)) for a, b in self.lost))
        _check(self)

    def derived(self, **changes: Any) -> Topology:
        """Return a topology with changes that cannot make it wrong, so that they are not checked."""
        made = object.__new__(Topology)
        for column in fields(self):
            value = changes.get(column.name, getattr(self, column.name))
            if isinstance(value, np.ndarray):
                value.setflags(write=False)
            object.__setattr__(made, column.name, value)
        return made

    @classmethod
    def from_links(
        cls,
        npus: int | Sequence[str],
        links: Iterable[Link],
        switches: Iterable[Switch] = (),
        *,
        name: str = "custom",
        shape: Sequence[int] = (),
    ) -> Topology:
        """Build a topology link by link; ``npus`` is their number, or their names."""
        number = whole(npus)
        if number is None:
            names = list(cast(Sequence[str], npus))
        elif number > MOST_NPUS:
            raise TopologyError(f"{name}: {number:,} NPUs are beyond {MOST_NPUS:,}")
        else:
            names = [f"npu{i}" for i in range(number)]
        hubs = list(switches)
        wires = list(links)
        places = len(names)
        for i, hub in enumerate(hubs):
            names.append(check_switch(hub, i))
        # Here and not only in the columns, where a device 1.5 would silently have become device 1.
        for i, wire in enumerate(wires):
            if not isinstance(wire, Link):
                how = "write Link(src, dst, bandwidth, latency)"
                raise TopologyError(f"link {i} is {wire!r}; {how}")
            for end in (wire.src, wire.dst):
                if whole(end) is None or not 0 <= end < len(names):
                    raise TopologyError(
                        f"link {i} ({wire.src} -> {wire.dst}): there is no device {end!r}"
                    )
            if not isinstance(wire.exclusive, bool):
                read_flag(wire.exclusive, f"exclusive of link {i} ({wire.src} -> {wire.dst})")
        columns: dict[str, Any] = {
            "kind": [NPU] * places + [SWITCH] * len(hubs),
            "buffer": [UNLIMITED] * places + [hub.buffer or UNLIMITED for hub in hubs],
            "multicast": [True] * places + [hub.multicast for hub in hubs],
            "reduce": [True] * places + [hub.reduce for hub in hubs],
            "latency": _quantities(Picoseconds, wires, "latency"),
            "gap": _quantities(Picoseconds, wires, "gap"),
            "bandwidth": _quantities(BytesPerSecond, wires, "bandwidth"),
        }
        for column in ("src", "dst", "exclusive"):
            columns[column] = [getattr(wire, column) for wire in wires]
        return cls(name, labels=tuple(names), shape=tuple(shape), **columns)

    @classmethod
    def from_networkx(
        cls, graph: networkx.Graph[Any], *, bandwidth: str = "bandwidth", latency: str = "latency"
    ) -> Topology:
        """Read a networkx graph, see :func:`pccl.topology.from_networkx`."""
        from pccl.topology.interchange import from_networkx

        return from_networkx(graph, bandwidth=bandwidth, latency=latency)

    def to_networkx(self) -> networkx.MultiDiGraph[int]:
        """Return the network as a networkx graph, see :func:`pccl.topology.to_networkx`."""
        from pccl.topology.interchange import to_networkx

        return to_networkx(self)

    # --- what is in it -------------------------------------------------------------------------------------------

    @property
    def num_devices(self) -> int:
        """Number of devices, absent ones included."""
        return len(self.kind)

    @property
    def num_links(self) -> int:
        """Number of directed links."""
        return len(self.src)

    @cached_property
    def npus(self) -> Ints:
        """Device numbers of the NPUs, ascending."""
        return np.flatnonzero(self.kind == NPU)

    @cached_property
    def switches(self) -> Ints:
        """Device numbers of the switches, ascending."""
        return np.flatnonzero(self.kind == SWITCH)

    @property
    def num_npus(self) -> int:
        """Number of NPUs."""
        return len(self.npus)

    @cached_property
    def limited(self) -> bool:
        """Whether any switch has a finite buffer."""
        # An absent switch keeps its limits, but nothing passes through it.
        return bool(np.any(self.kind[self.buffer != UNLIMITED] == SWITCH))

    @cached_property
    def plain(self) -> bool:
        """Whether some switch passes messages on one by one, as it cannot multiply them or cannot add them up."""
        return bool(np.any(self.kind[~(self.multicast & self.reduce)] == SWITCH))

    def is_switch(self, device: int) -> bool:
        """Whether the device is a switch."""
        return bool(self.kind[device] == SWITCH)

    def device(self, given: int | str) -> int:
        """Return the number of a device that is given by number or name."""
        number = self._number_of.get(given) if isinstance(given, str) else whole(given)
        if number is None or not 0 <= number < self.num_devices or self.kind[number] == ABSENT:
            raise TopologyError(f"{self.name} has no device {given!r}")
        return number

    @cached_property
    def _number_of(self) -> dict[str, int]:
        return {label: device for device, label in enumerate(self.labels)}

    def kind_text(self, device: int) -> str:
        """How messages name the kind of a device."""
        return ("NPU", "switch", "absent device")[self.kind[device]]

    def device_text(self, device: int) -> str:
        """How messages name a device: ``NPU 3`` or ``switch 8 (nvswitch0)``."""
        text = f"{self.kind_text(device)} {device}"
        if self.kind[device] == NPU and self.labels[device] == f"npu{device}":
            return text
        return f"{text} ({self.labels[device]})"

    def link_text(self, link: int) -> str:
        """How messages name a link: ``link 5 (NPU 0 -> NPU 1)``."""
        return f"link {link} ({self.device_text(self.src[link])} -> {self.device_text(self.dst[link])})"

    @cached_property
    def out_links(self) -> tuple[Ints, Ints]:
        """Links by source: those of device ``d`` are ``links[offsets[d]:offsets[d + 1]]``."""
        return _grouped(self.src, self.num_devices)

    @cached_property
    def in_links(self) -> tuple[Ints, Ints]:
        """Links by destination: those of device ``d`` are ``links[offsets[d]:offsets[d + 1]]``."""
        return _grouped(self.dst, self.num_devices)

    @cached_property
    def rates(self) -> tuple[Ints, Ints]:
        """The different bandwidths, ascending, and for each link which of them it has."""
        values, of_link = np.unique(self.bandwidth, return_inverse=True)
        return values, of_link.reshape(-1).astype(np.int64)

    @cached_property
    def overhead(self) -> Ints:
        """Per link: for how much longer than the transmission a transfer holds it."""
        return self.gap + np.where(self.exclusive, self.latency, 0)

    @cached_property
    def link_kinds(self) -> tuple[Ints, Ints]:
        """Bandwidth, latency and overhead of each kind of link, a column a kind; and the kind of every link."""
        features = np.stack([self.bandwidth, self.latency, self.overhead])
        kinds, of_link = np.unique(features, axis=1, return_inverse=True)
        return kinds, of_link.reshape(-1).astype(np.int64)

    # --- verbs ---------------------------------------------------------------------------------------------------

    def transpose(self) -> Topology:
        """Return the same network as it looks when time runs backwards.

        Every link is turned round, and keeps its number; a switch that multiplies is one that adds, and vice versa.
        """
        return self._transposed

    @cached_property
    def _transposed(self) -> Topology:
        return self.derived(
            name=f"{self.name} transposed",
            src=self.dst,
            dst=self.src,
            multicast=self.reduce,
            reduce=self.multicast,
            lost=tuple((b, a) for a, b in self.lost),
        )

    def without(
        self,
        *,
        links: Iterable[int | str | Sequence[int | str]] = (),
        devices: Iterable[int | str] = (),
        name: str | None = None,
    ) -> Topology:
        """Return what is left when links or devices fail.

        Devices are given by number, by name, or several at once by ``"rail*"`` or ``"24-27"``; those that are left keep
        their numbers, so that process groups keep their meaning. A pair ``(src, dst)`` takes out every link from
        ``src`` to ``dst``, the text ``"A:B"`` those of both directions; a number takes out one link.

        Examples
        --------
        >>> pair = [Link(0, 1, "50GB/s", "500ns"), Link(1, 0, "50GB/s", "500ns")]
        >>> Topology.from_links(2, pair, name="pair").without(links=[(0, 1)])
        Topology('pair, damaged': 2 NPUs, 1 link, 50GB/s, 500ns)
        """
        from pccl.topology.edits import without

        return without(self, links, devices, name)

    def edited(self, changes: Mapping[str, object] | Iterable[str]) -> Topology:
        """Return a topology with other figures, and the same devices and links.

        A change is ``"NAMES.FIGURE"`` and its value, or both in one text. Names are those of devices, for all their
        links, or ``A:B`` for those between; figures are ``bandwidth``, ``latency`` and ``gap`` of links (or a share of
        what they are, such as ``"50%"``), ``multicast``, ``reduce`` and ``buffer`` of switches.

        Examples
        --------
        >>> from pccl.topology import hgx_h100
        >>> hgx_h100(4).edited({"rail*.bandwidth": "25GB/s"})
        Topology('h100:4, edited': 32 NPUs, 12 switches, 128 links, 25GB/s to 400GiB/s, 936.25ns to 1us)
        >>> hgx_h100(4).edited(["nvswitch*.reduce=yes", "0-7:nvswitch0.bandwidth=50%"]).plain
        True
        """
        from pccl.topology.edits import edited

        return edited(self, changes)

    def restrict(self, devices: Iterable[int | str]) -> Topology:
        """Return only these devices and the links among them; numbers stay as they are."""
        from pccl.topology.edits import find_devices

        outside = np.flatnonzero(self.kind != ABSENT)
        outside = np.setdiff1d(outside, find_devices(self, devices))
        left = self.without(devices=outside, name=f"{self.name}, restricted")
        # Nothing is broken that is only not looked at.
        return left.derived(lost=self.lost)

    def diameter(self) -> int:
        """Return the number of links on the longest of the shortest paths between NPUs.

        If some NPU cannot reach another, there is none, and that is an error.

        Examples
        --------
        >>> from pccl.topology import mesh
        >>> mesh(8, 8).diameter()
        14
        """
        from pccl.topology.paths import diameter

        return diameter(self)

    def unroll_switches(self) -> Topology:
        """Replace switches by direct links between the NPUs that they join; NPUs keep their numbers.

        Where switches are joined to switches, a direct link stands for the way of the least latency through them. Links
        to and from switches share their bandwidth among the ways that lead over them: a direct link has the smallest
        share along its way, and all its latencies.
        """
        from pccl.topology.paths import unroll_switches

        return unroll_switches(self)

    # --- as a value ----------------------------------------------------------------------------------------------

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Topology):
            return NotImplemented
        return all(
            np.array_equal(getattr(self, f.name), getattr(other, f.name))
            for f in fields(self)
            if f.compare
        )

    def __hash__(self) -> int:
        return hash((self.name, self.num_devices, self.src.tobytes(), self.dst.tobytes()))

    def __repr__(self) -> str:
        counts = [counted(self.num_npus, "NPU")]
        if len(self.switches):
            counts.append(counted(len(self.switches), "switch"))
        counts.append(counted(self.num_links, "link"))
        if self.num_links:
            counts += [_span(self.bandwidth, BytesPerSecond), _span(self.latency, Picoseconds)]
        return f"Topology({self.name!r}: {', '.join(counts)})"


def transmission_time(sizes: ArrayLike, bandwidths: ArrayLike) -> Ints:
    """Picoseconds that each size (bytes) takes at each bandwidth (bytes per second), rounded up.

    Examples
    --------
    >>> transmission_time(2**20, 50 * 2**30).item()
    19531250
    """
    bandwidth = np.asarray(bandwidths, dtype=np.int64)
    # A rest is less than the bandwidth, so that 10**4 times as much is below 9 * 10**18 and fits. Rounding is
    # upwards, as a plan may count on too much time, never on too little.
    whole, rest = np.divmod(np.asarray(sizes, dtype=np.int64), bandwidth)
    for _ in range(3):  # long division, as size * 10**12 does not fit an int64
        digits, rest = np.divmod(rest * 10_000, bandwidth)
        whole = whole * 10_000 + digits
    return np.asarray(whole + (rest > 0), dtype=np.int64)


def _check(topology: Topology) -> None:
    devices = topology.num_devices
    for column in COLUMNS:
        count = devices if column in DEVICE_COLUMNS else topology.num_links
        if getattr(topology, column).shape != (count,):
            raise TopologyError(f"{topology.name}: column {column!r} must have {count} entries")
    if len(topology.labels) != devices:
        names = len(topology.labels)
        raise TopologyError(
            f"{topology.name}: {counted(names, 'name')} for {counted(devices, 'device')}"
        )
    if len(set(topology.labels)) != devices:
        [(twice, _)] = Counter(topology.labels).most_common(1)
        raise TopologyError(f"{topology.name}: two devices are called {twice!r}")
    if topology.num_npus == 0:
        raise TopologyError(f"{topology.name} has no NPU")
    if any(not 0 <= end < devices for ends in topology.lost for end in ends):
        raise TopologyError(f"{topology.name}: a lost link ends at a device that does not exist")
    _check_shape(topology)
    _check_links(topology)


def _check_shape(topology: Topology) -> None:
    places = prod(topology.shape)
    # The place of an NPU in the grid follows from its number: so NPUs come first.
    fits = (
        min(topology.shape) > 0
        and places <= topology.num_devices
        and not np.any(topology.kind[:places] == SWITCH)
        and not np.any(topology.kind[places:] == NPU)
    )
    if not fits:
        npus = counted(topology.num_npus, "NPU")
        switches = counted(len(topology.switches), "switch")
        raise TopologyError(
            f"{topology.name}: shape {topology.shape} does not fit {npus} followed by {switches}"
        )


def _check_links(topology: Topology) -> None:
    src = topology.src
    dst = topology.dst
    outside = (np.minimum(src, dst) < 0) | (np.maximum(src, dst) >= topology.num_devices)
    checks: tuple[tuple[Any, str], ...] = (
        (outside, "ends at a device that does not exist"),
        (src == dst, "leads from a device to itself"),
        (topology.bandwidth <= 0, "has no bandwidth; it must be positive"),
        (topology.bandwidth > _BANDWIDTH_LIMIT, "has a bandwidth beyond 900 TB/s"),
        (topology.latency < 0, "has a negative latency"),
        (topology.gap < 0, "has a negative gap"),
    )
    for wrong, text in checks:
        if np.any(wrong):
            link = int(np.argmax(wrong))
            raise TopologyError(f"{topology.name}: link {link} ({src[link]} -> {dst[link]}) {text}")
    # Last: only ends that exist can be looked up.
    absent = topology.kind == ABSENT
    if np.any(absent[src] | absent[dst]):
        raise TopologyError(f"{topology.name}: a link ends at an absent device")


def _grouped(keys: Indices, count: int) -> tuple[Ints, Ints]:
    # Stable: ties in searches are broken by the order of links, which must not depend on how NumPy sorts.
    return offsets_by_owner(keys, count), np.argsort(keys, kind="stable").astype(np.int64)


def _quantities(
    kind: type[Picoseconds] | type[BytesPerSecond], wires: Sequence[Link], column: str
) -> list[int]:
    known: dict[str, int] = {}  # networks repeat a few texts on very many links
    values = []
    for i, wire in enumerate(wires):
        given = getattr(wire, column)
        key = repr(given)
        if key not in known:
            known[key] = parse(kind, given, f"{column} of link {i} ({wire.src} -> {wire.dst})")
        values.append(known[key])
    return values


def _span(column: Ints, kind: type[BytesPerSecond] | type[Picoseconds]) -> str:
    low = kind(column.min())
    high = kind(column.max())
    return str(low) if low == high else f"{low} to {high}"
