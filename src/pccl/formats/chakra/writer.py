"""The files of a Chakra export.

Every NPU is a rank with a file of its own, in which a node receives each message and a node sends it on; a send waits
for what it needs by naming those nodes. Beside them stand the files that make ASTRA-sim run the algorithm: a workload
of one collective, the settings of the system, a script, and where there is one the network.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from pccl._arrays import Column as Values
from pccl._arrays import Floats, Ints, distinct, take_rows
from pccl._files import replacing
from pccl._version import __version__
from pccl.algorithm import Algorithm
from pccl.errors import FormatError, PcclError
from pccl.formats.lowering import Deliveries, follow
from pccl.formats.runtime_files import promise
from pccl.formats.wire import (
    Column,
    concat,
    constant,
    delimited,
    digits,
    field,
    grouped,
    messages,
    numbers,
    varint,
)
from pccl.topology import Topology, fully_connected, ring, switch
from pccl.units import BytesPerSecond, Picoseconds

# What the files of the ranks begin with.
TRACE = "collective"
WORKLOAD = "workload"
_SCHEMA = "0.0.4"
_MOST_TAGS = 2**31

# Fields of the messages of Chakra (et_def.proto) that we use: of Node,
_ID = 1
_NAME = 2
_TYPE = 3
_CONTROL = 4
_DATA = 5
_ATTRIBUTE = 10
# and of AttributeProto, whose name is field 1.
_INT32 = 7
_INT64 = 9
_INT64_LIST = 10
_BOOL = 27
_STRING = 29
# Types of a Node.
_COMPUTE = 4
_SEND = 5
_RECEIVE = 6
_COLLECTIVE = 7
# Collectives that ASTRA-sim lets us implement; anything else goes under the name of the last.
_KINDS = {"all-reduce": 0, "all-gather": 2, "reduce-scatter": 7, "all-to-all": 6}
# Building blocks of networks, the preferred first: two NPUs are both of these, but a ring of two breaks ASTRA-sim.
_BLOCKS: dict[str, Any] = {"FullyConnected": fully_connected, "Ring": ring, "Switch": switch}
# What ASTRA-sim itself runs on them, where there is a choice.
_NATIVE = {"FullyConnected": "direct", "Ring": "ring", "Switch": "ring"}
_SCRIPT = """\
#!/bin/sh
# Runs the algorithm in ASTRA-sim; ASTRA_SIM is the program of its congestion-aware backend.
set -e
cd "$(dirname "$0")"
{choice}exec "${{ASTRA_SIM:-AstraSim_Analytical_Congestion_Aware}}" \\
    --workload-configuration=workload \\
    --system-configuration={system} \\
    --network-configuration="{network}" \\
    --remote-memory-configuration=memory.json
"""
_CHOICE = """\
# With "native", what ASTRA-sim itself would do.
system=system.json
if [ "$1" = native ]; then system=native.json; fi
"""
_UNKNOWN = "${NETWORK:?there is no network.yml: say which file describes the network}"


def write(
    algorithm: Algorithm, path: str | Path, *, chain: bool = True, lowered: bool = False
) -> dict[str, str]:
    """Write a folder that ASTRA-sim runs.

    Parameters
    ----------
    algorithm, path
        What to write, and the folder. Files of an earlier export are replaced.
    chain
        Whether sends leave over a link in the planned order: each waits until the one before it has begun.
    lowered
        Whether to write it even if its messages take much longer than planned, with switches that multiply or add.
    """
    sent = follow(algorithm)
    if len(sent) > _MOST_TAGS:
        raise PcclError(f"{len(sent):,} messages are more than there are tags ({_MOST_TAGS:,})")
    promised = promise(algorithm, None, "chakra", lowered=lowered, delivered=sent)
    kind = algorithm.collectives[0].kind
    carrier = kind if kind in _KINDS else "all-to-all"
    workload = _workload(algorithm, carrier)
    network = _network(algorithm.topology)
    common = {"scheduling-policy": "FIFO", "preferred-dataset-splits": 1, "local-mem-bw": 50}
    system = common | {f"{carrier}-implementation-custom": [TRACE]}
    # Others than those of all NPUs, and several at once, are beyond its own algorithms.
    alone = len(algorithm.collectives) == 1 and kind == carrier and network.is_same
    everyone = len(algorithm.collectives[0].members(algorithm.topology.npus))
    native = alone and everyone == algorithm.topology.num_npus
    script = _SCRIPT.format(
        choice=_CHOICE if native else "",
        system="$system" if native else "system.json",
        network="network.yml" if network.text else _UNKNOWN,
    )
    files = {
        "system.json": _json(system),
        "memory.json": _json({"memory-type": "NO_MEMORY_EXPANSION"}),
        "run.sh": script.encode(),
    }
    if native:
        files["native.json"] = _json(common | {f"{carrier}-implementation": [network.native]})
    if network.text:
        files["network.yml"] = network.text.encode()
    for rank, trace in enumerate(_traces(algorithm, sent, network, chain)):
        files[f"{TRACE}.{rank}.et"] = trace
        files[f"{WORKLOAD}.{rank}.et"] = workload
    _write_folder(Path(path), files)
    order = ", in the planned order on every link" if chain else ""
    return promised.facts | {
        "ranks": f"{algorithm.topology.num_npus:,}",
        "messages": f"{len(sent):,}{order}",
        "collective": f"{carrier}-implementation-custom in system.json",
        "network": network.about,
        "run": "run.sh"
        + (", and with the word native what ASTRA-sim itself does" if native else ""),
    }


def fit(algorithm: Algorithm, quick: bool = False) -> Picoseconds:  # noqa: ARG001
    """How long it takes as messages, for which ASTRA-sim always has room."""
    return promise(algorithm, None, "chakra").lowered


def _write_folder(path: Path, files: dict[str, bytes]) -> None:
    """Write files into a folder that may have those of an earlier export."""
    if path.exists() and not path.is_dir():
        raise FormatError(f"cannot write {path}: it is a file, and this format is a folder")
    try:
        path.mkdir(exist_ok=True)
        earlier = (*path.glob(f"{TRACE}.*.et"), *path.glob(f"{WORKLOAD}.*.et"))
        # Ranks that this algorithm does not have would be run as well.
        for old in (*earlier, path / "network.yml", path / "native.json"):
            if old.name not in files:
                old.unlink(missing_ok=True)
    except OSError as error:
        raise FormatError(f"cannot write {path}: {error.strerror or error}") from None
    for name, content in files.items():
        with replacing(path / name) as file:
            file.write(content)
    (path / "run.sh").chmod(0o755)


def _json(content: dict[str, Any]) -> bytes:
    return (json.dumps(content, indent=2) + "\n").encode()


# --- traces -----------------------------------------------------------------------------------------------------------


def _traces(
    algorithm: Algorithm, sent: Deliveries, network: _Network, chain: bool
) -> Iterator[bytes]:
    """Yield the files of all ranks, one after another."""
    nodes = _Nodes(algorithm, sent, network, chain)
    count = algorithm.topology.num_npus
    head = _delimited(_metadata(algorithm))
    idle = _delimited(field(_ID, 1) + field(_NAME, "idle") + field(_TYPE, _COMPUTE))
    every = np.arange(len(sent))
    blocks = (
        _by_rank(nodes.receives, nodes.dst, every, count),
        _by_rank(nodes.gates, nodes.src, nodes.followed, count),
        _by_rank(nodes.sends, nodes.src, every, count),
    )
    for parts in zip(*blocks, strict=True):
        # ASTRA-sim wants every rank to do something.
        yield head + (b"".join(parts) or idle)


def _by_rank(make: Any, rank: Ints, rows: Ints, count: int) -> Iterator[bytes]:
    """Yield the nodes of every rank that `make` writes for the messages in these rows."""
    rows = rows[np.argsort(rank[rows], kind="stable")]
    first = np.searchsorted(rank[rows], np.arange(count + 1))
    for low, high in zip(first[:-1].tolist(), first[1:].tolist(), strict=True):
        yield delimited(make(rows[low:high])).render().tobytes() if high > low else b""


class _Nodes:
    """The nodes of all ranks. A message has its row as its tag, and three nodes at most: a send, a reception, a gate.

    In ASTRA-sim a send ends when it has arrived, which is too late for the next one on its link. So that waits for a
    gate instead: a computation of no time that waits for the same as the send before it.
    """

    def __init__(
        self, algorithm: Algorithm, sent: Deliveries, network: _Network, chain: bool
    ) -> None:
        topology = algorithm.topology
        rank_of = np.zeros(topology.num_devices, np.int64)
        rank_of[topology.npus] = np.arange(topology.num_npus)
        self.sent = sent
        self.src = rank_of[sent.src]
        self.dst = rank_of[sent.dst]
        self.real = algorithm.conditions.bytes[sent.chunk]
        self.bytes = network.sizes_of(self.real, sent)
        self.input_offsets, self.inputs = sent.inputs()
        # The message before each one on the same link, or -1; and the messages that others wait for.
        self.before = np.full(len(sent), -1)
        if chain:
            link = sent.links[sent.link_offsets[:-1]]
            order = np.argsort(link, kind="stable")
            # Messages are ordered by start, and so are those of a link.
            same = link[order][1:] == link[order][:-1]
            self.before[order[1:][same]] = order[:-1][same]
        self.followed = distinct(self.before[self.before >= 0])

    def receives(self, rows: Ints) -> Column:
        """Nodes that receive the messages in these rows."""
        return concat(*self._head(_RECEIVE, rows), *self._envelope("comm_src", self.src, rows))

    def sends(self, rows: Ints) -> Column:
        """Nodes that send them."""
        sent = self.sent
        offsets, links = take_rows(sent.link_offsets, sent.links, rows)
        route = grouped(numbers(1, links), np.diff(offsets))
        about = [
            _attribute("pccl_chunk", numbers(_INT64, sent.chunk[rows])),
            _attribute("pccl_reduce", numbers(_BOOL, sent.reduce[rows])),
            _attribute("pccl_route", messages(_INT64_LIST, route)),
        ]
        # What is really sent, where the network is a stand-in with faster links.
        if self.real is not self.bytes:
            about.append(_attribute("pccl_bytes", numbers(_INT64, self.real[rows])))
        envelope = self._envelope("comm_dst", self.dst, rows)
        return concat(*self._head(_SEND, rows), *self._waits(rows), *envelope, *about)

    def gates(self, rows: Ints) -> Column:
        """Nodes that wait for the same as the sends of these messages."""
        return concat(*self._head(_COMPUTE, rows), *self._waits(rows))

    def _head(self, kind: int, rows: Ints) -> Iterator[Column]:
        yield numbers(_ID, _node_id(kind, rows))
        yield messages(_NAME, concat(constant(b"chunk ", len(rows)), digits(self.sent.chunk[rows])))
        yield constant(field(_TYPE, kind), len(rows))

    def _waits(self, rows: Ints) -> Iterator[Column]:
        """For what a send waits: the gate of the one before it on its link, and what it sends on."""
        chained = self.before[rows] >= 0
        gate = _node_id(_COMPUTE, self.before[rows][chained])
        yield grouped(numbers(_CONTROL, gate), chained.astype(np.int64))
        offsets, inputs = take_rows(self.input_offsets, self.inputs, rows)
        yield grouped(numbers(_DATA, _node_id(_RECEIVE, inputs)), np.diff(offsets))

    def _envelope(self, end: str, peer: Ints, rows: Ints) -> Iterator[Column]:
        """What both ends of a message must agree on."""
        yield _attribute("comm_size", numbers(_INT64, self.bytes[rows]))
        yield _attribute(end, numbers(_INT32, peer[rows]))
        yield _attribute("comm_tag", numbers(_INT32, rows))


def _node_id(kind: int, message: Ints) -> Ints:
    """Nodes are numbered from one: the gate, the send and the reception of each message."""
    return 3 * message + 1 + (kind - _COMPUTE)


def _attribute(name: str, value: Column) -> Column:
    return messages(_ATTRIBUTE, concat(constant(field(1, name), len(value.lengths)), value))


def _metadata(algorithm: Algorithm) -> bytes:
    about = {
        "version": __version__,
        "topology": algorithm.topology.name,
        "npus": algorithm.topology.npus.tolist(),
        "collectives": [collective.to_dict() for collective in algorithm.collectives],
    }
    return field(1, _SCHEMA) + field(2, field(1, "pccl") + field(_STRING, json.dumps(about)))


def _delimited(content: bytes) -> bytes:
    return varint(len(content)) + content


# --- what stands beside them ------------------------------------------------------------------------------------------


def _workload(algorithm: Algorithm, carrier: str) -> bytes:
    """Return one collective; how large it is matters only to what ASTRA-sim itself would do."""
    size = max(int(collective.size) for collective in algorithm.collectives)
    # Ours is what everybody has in the end, ASTRA-sim's what everybody begins with.
    if carrier == "all-gather":
        size //= len(algorithm.collectives[0].members(algorithm.topology.npus))
    values = {
        "is_cpu_op": field(_BOOL, 0),
        "comm_type": field(_INT64, _KINDS[carrier]),
        "comm_size": field(_INT64, size),
    }
    node = field(_ID, 1) + field(_NAME, carrier) + field(_TYPE, _COLLECTIVE)
    for name, value in values.items():
        node += field(_ATTRIBUTE, field(1, name) + value)
    return _delimited(field(1, _SCHEMA)) + _delimited(node)


@dataclass(frozen=True)
class _Network:
    """A network for ASTRA-sim's backend that knows congestion.

    Attributes
    ----------
    text
        The content of its file; empty if there is none.
    about
        A line about it for people.
    native
        What ASTRA-sim itself runs there.
    is_same
        Whether it is the very network.
    slowness
        Per link, how many times as long as in the file it takes: larger messages make up for that.
    """

    text: str
    about: str
    native: str = ""
    is_same: bool = False
    slowness: Floats | None = None

    def sizes_of(self, sizes: Ints, sent: Deliveries) -> Ints:
        """How large messages of these sizes are there."""
        if self.slowness is None:
            return sizes
        link = sent.links[sent.link_offsets[:-1]]
        larger: Ints = np.ceil(sizes * self.slowness[link]).astype(np.int64)
        return larger


def _network(topology: Topology) -> _Network:
    """Return what ASTRA-sim's backend has for a network: one dimension, with links that are all alike.

    Where every message takes one link, a network in which everybody is joined to everybody keeps the same times: those
    of its links that are not there in truth are not used. So do messages that are larger where links are slower.
    """
    parallel = _ends(topology).shape[1] < topology.num_links
    one_latency = len(np.unique(topology.latency)) == 1
    if topology.num_npus < 2 or not one_latency or np.any(topology.exclusive) or parallel:
        return _Network("", "none: ASTRA-sim's has no parallel or exclusive links, and one latency")
    count = topology.num_npus
    links = {"FullyConnected": count * (count - 1), "Switch": 2 * count}
    fastest = int(topology.bandwidth.max())
    alike = bool(np.all(topology.bandwidth == fastest))
    for name, make in _BLOCKS.items():
        # Not built in vain: it may be very large.
        fits = alike and topology.num_links == links.get(name, topology.num_links)
        if fits and np.array_equal(_ends(topology), _ends(make(count))):
            text = _text(name, count, fastest, int(topology.latency[0]))
            return _Network(text, "network.yml, the same network", _NATIVE[name], is_same=True)
    if len(topology.switches):
        return _Network("", "none: ASTRA-sim's has one switch at most, which joins all NPUs")
    text = _text("FullyConnected", count, fastest, int(topology.latency[0]))
    about = "network.yml, a stand-in that has all links of this network, and more that are not used"
    if alike:
        return _Network(text, about)
    # In double precision, since both are far below 2**53.
    slowness = fastest / topology.bandwidth
    return _Network(
        text, f"{about}; messages over slower links are larger instead", slowness=slowness
    )


def _text(name: str, count: int, bandwidth: int, latency: int) -> str:
    """The content of the file."""
    lines = {
        "topology": name,
        "npus_count": count,
        "bandwidth": BytesPerSecond(bandwidth) / 2**30,
        "latency": Picoseconds(latency) / 1000,
    }
    return "".join(f"{key}: [ {value} ]\n" for key, value in lines.items())


def _ends(topology: Topology) -> Values:
    return np.unique(np.stack([topology.src, topology.dst]), axis=1)
