"""The files of a Chakra export.

Every NPU is a rank with a file of its own, in which a node receives each message and a node sends it on; a send waits
for what it needs by naming those nodes. Beside them stand the files that make ASTRA-sim run the algorithm: a workload
of one collective, the settings of the system, and where there is one the network.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from pccl._arrays import Column as Values
from pccl._arrays import Ints, take_rows
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
# Building blocks of networks in the order of preference: a ring of two is both of the first.
_BLOCKS: dict[str, Any] = {"FullyConnected": fully_connected, "Ring": ring, "Switch": switch}


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
    network, about = _network(algorithm.topology)
    system = {
        "scheduling-policy": "FIFO",
        "preferred-dataset-splits": 1,
        f"{carrier}-implementation-custom": [TRACE],
        "local-mem-bw": 50,
    }
    files = {
        "system.json": (json.dumps(system, indent=2) + "\n").encode(),
        "memory.json": b'{"memory-type": "NO_MEMORY_EXPANSION"}\n',
    }
    if network:
        files["network.yml"] = network.encode()
    for rank, trace in enumerate(_traces(algorithm, sent, chain)):
        files[f"{TRACE}.{rank}.et"] = trace
        files[f"{WORKLOAD}.{rank}.et"] = workload
    _write_folder(Path(path), files)
    return promised.facts | {
        "ranks": f"{algorithm.topology.num_npus:,}",
        "messages": f"{len(sent):,}" + (", in the planned order on every link" if chain else ""),
        "collective": f"{carrier}-implementation-custom in system.json",
        "network": about,
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
        for old in (*earlier, path / "network.yml"):
            if old.name not in files:
                old.unlink(missing_ok=True)
    except OSError as error:
        raise FormatError(f"cannot write {path}: {error.strerror or error}") from None
    for name, content in files.items():
        with replacing(path / name) as file:
            file.write(content)


# --- traces -----------------------------------------------------------------------------------------------------------


def _traces(algorithm: Algorithm, sent: Deliveries, chain: bool) -> Iterator[bytes]:
    """Yield the files of all ranks, one after another."""
    nodes = _Nodes(algorithm, sent, chain)
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

    def __init__(self, algorithm: Algorithm, sent: Deliveries, chain: bool) -> None:
        topology = algorithm.topology
        rank_of = np.zeros(topology.num_devices, np.int64)
        rank_of[topology.npus] = np.arange(topology.num_npus)
        self.sent = sent
        self.src = rank_of[sent.src]
        self.dst = rank_of[sent.dst]
        self.bytes = algorithm.conditions.bytes[sent.chunk]
        self.input_offsets, self.inputs = sent.inputs()
        # The message before each one on the same link, or -1; and the messages that others wait for.
        self.before = np.full(len(sent), -1)
        if chain:
            link = sent.links[sent.link_offsets[:-1]]
            order = np.argsort(link, kind="stable")
            # Messages are ordered by start, and so are those of a link.
            same = link[order][1:] == link[order][:-1]
            self.before[order[1:][same]] = order[:-1][same]
        self.followed = np.unique(self.before[self.before >= 0])

    def receives(self, rows: Ints) -> Column:
        """Nodes that receive the messages in these rows."""
        return concat(*self._head(_RECEIVE, rows), *self._envelope("comm_src", self.src, rows))

    def sends(self, rows: Ints) -> Column:
        """Nodes that send them."""
        sent = self.sent
        offsets, links = take_rows(sent.link_offsets, sent.links, rows)
        route = grouped(numbers(1, links), np.diff(offsets))
        return concat(
            *self._head(_SEND, rows),
            *self._waits(rows),
            *self._envelope("comm_dst", self.dst, rows),
            _attribute("pccl_chunk", numbers(_INT64, sent.chunk[rows])),
            _attribute("pccl_reduce", numbers(_BOOL, sent.reduce[rows])),
            _attribute("pccl_route", messages(_INT64_LIST, route)),
        )

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
    """Return one collective; how large it is matters only to the statistics of ASTRA-sim."""
    size = max(int(collective.size) for collective in algorithm.collectives)
    values = {
        "is_cpu_op": field(_BOOL, 0),
        "comm_type": field(_INT64, _KINDS[carrier]),
        "comm_size": field(_INT64, size),
    }
    node = field(_ID, 1) + field(_NAME, carrier) + field(_TYPE, _COLLECTIVE)
    for name, value in values.items():
        node += field(_ATTRIBUTE, field(1, name) + value)
    return _delimited(field(1, _SCHEMA)) + _delimited(node)


def _network(topology: Topology) -> tuple[str, str]:
    """Return the text of the network file, empty if there is none, and a line about it for people.

    ASTRA-sim's backend that knows congestion has one dimension, with links that are all alike.

    Where every message takes one link, a network in which everybody is joined to everybody keeps the same times: those
    of its links that are not there in truth are not used.
    """
    alike = len(np.unique(topology.latency)) == 1 and len(np.unique(topology.bandwidth)) == 1
    parallel = _ends(topology).shape[1] < topology.num_links
    if topology.num_npus < 2 or not alike or np.any(topology.exclusive) or parallel:
        return "", "none: ASTRA-sim's has no parallel, exclusive or different links"
    count = topology.num_npus
    links = {"FullyConnected": count * (count - 1), "Switch": 2 * count}
    for name, make in _BLOCKS.items():
        # Not built in vain: it may be very large.
        fits = topology.num_links == links.get(name, topology.num_links)
        if fits and np.array_equal(_ends(topology), _ends(make(count))):
            about = "the same network"
            break
    else:
        if len(topology.switches):
            return "", "none: ASTRA-sim's has one switch at most, which joins all NPUs"
        name = "FullyConnected"
        about = "a stand-in that has all links of this network, and more that are not used"
    lines = {
        "topology": name,
        "npus_count": count,
        "bandwidth": BytesPerSecond(topology.bandwidth[0]) / 2**30,
        "latency": Picoseconds(topology.latency[0]) / 1000,
    }
    text = "".join(f"{key}: [ {value} ]\n" for key, value in lines.items())
    return text, f"network.yml, {about}"


def _ends(topology: Topology) -> Values:
    return np.unique(np.stack([topology.src, topology.dst]), axis=1)
