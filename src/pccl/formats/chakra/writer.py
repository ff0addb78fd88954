"""Chakra execution traces: an algorithm as a custom collective of ASTRA-sim.

Every NPU is a rank with a file of its own, in which a node receives each message and a node sends it on; a send waits
for what it needs by naming those nodes. Beside them stand the files that make ASTRA-sim run the algorithm: a workload
of one collective, the settings of the system, and where there is one the network.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from pccl._arrays import Indices, Ints
from pccl._version import __version__
from pccl.algorithm import Algorithm
from pccl.errors import FormatError, PcclError
from pccl.formats.chakra_messages import Messages, messages_of
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
)  # fmt: skip
from pccl.topology import Topology, fully_connected, ring, switch
from pccl.units import BytesPerSecond, Picoseconds

__all__ = ["write"]

TRACE, WORKLOAD = "collective", "workload"  # what the files of the ranks begin with
_SCHEMA = "0.0.4"
_MOST_TAGS = 2**31

# Fields of the messages of Chakra (et_def.proto) that we use.
ID, NAME, TYPE, CONTROL, DATA, DURATION, ATTRIBUTE = 1, 2, 3, 4, 5, 7, 10  # of Node
COMPUTE, SEND, RECEIVE, COLLECTIVE = 4, 5, 6, 7  # types of a Node
INT32, INT64, INT64_LIST, BOOL, STRING = (
    7,
    9,
    10,
    27,
    29,
)  # of AttributeProto, whose name is field 1
# Collectives that ASTRA-sim lets us implement; anything else goes under the name of the last.
_KINDS = {"all-reduce": 0, "all-gather": 2, "reduce-scatter": 7, "all-to-all": 6}


def write(algorithm: Algorithm, path: str | Path, *, chain: bool = False) -> dict[str, str]:
    """Write a folder that ASTRA-sim runs.

    Parameters
    ----------
    algorithm, path
        What to write, and the folder. Files of an earlier export are replaced.
    chain
        Make each send over a link wait for the one before it, so that the planned order is kept. In ASTRA-sim a send
        ends with its arrival, so that every link of a chain costs its latency.
    """
    sent = messages_of(algorithm)
    if len(sent) > _MOST_TAGS:
        raise PcclError(f"{len(sent):,} messages are more than there are tags ({_MOST_TAGS:,})")
    network, about = _network(algorithm.topology)
    kind = algorithm.collectives[0].kind
    carrier = kind if kind in _KINDS else "all-to-all"
    with _folder(Path(path)) as folder:
        for rank, content in enumerate(_traces(algorithm, sent, chain)):
            (folder / f"{TRACE}.{rank}.et").write_bytes(content)
            (folder / f"{WORKLOAD}.{rank}.et").write_bytes(_workload(algorithm, carrier))
        (folder / "system.json").write_text(json.dumps(_system(carrier), indent=2) + "\n")
        (folder / "memory.json").write_text('{"memory-type": "NO_MEMORY_EXPANSION"}\n')
        if network:
            (folder / "network.yml").write_text(network)
    return {
        "ranks": f"{algorithm.topology.num_npus:,}",
        "messages": f"{len(sent):,}" + (", in the planned order on every link" if chain else ""),
        "collective": f"{carrier}-implementation-custom in system.json",
        "network": about,
    }


@contextmanager
def _folder(path: Path) -> Iterator[Path]:
    """A folder to write into, whose files move to their place when all are written."""
    if path.exists() and not path.is_dir():
        raise FormatError(f"cannot write {path}: it is a file, and this format is a folder")
    place = path.resolve()
    unfinished = place.with_name(f".{place.name}.{os.getpid()}")
    try:
        unfinished.mkdir()
        yield unfinished
        path.mkdir(exist_ok=True)
        for old in (
            *path.glob(f"{TRACE}.*.et"),
            *path.glob(f"{WORKLOAD}.*.et"),
            path / "network.yml",
        ):
            old.unlink(missing_ok=True)
        for new in unfinished.iterdir():
            new.replace(path / new.name)
    except OSError as error:
        raise FormatError(f"cannot write {path}: {error.strerror or error}") from None
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)


# --- traces ----------------------------------------------------------------------------------------------------------


def _traces(algorithm: Algorithm, sent: Messages, chain: bool) -> Iterator[bytes]:
    """The files of all ranks. A message has its row as its tag; its nodes are numbered from one."""
    topology, t = algorithm.topology, algorithm.transfers
    rank_of = np.zeros(topology.num_devices, np.int64)
    rank_of[topology.npus] = np.arange(topology.num_npus)
    src, dst = rank_of[t.src[sent.first]], rank_of[t.dst[sent.last]]
    before = _chain(t.link[sent.first]) if chain else np.full(len(sent), -1)
    head = _delimited(_metadata(algorithm))
    by_src, by_dst = np.argsort(src, kind="stable"), np.argsort(dst, kind="stable")
    first_src, first_dst = (
        np.searchsorted(np.sort(end), np.arange(topology.num_npus + 1)) for end in (src, dst)
    )
    for rank in range(topology.num_npus):
        receives = by_dst[first_dst[rank] : first_dst[rank + 1]]
        sends = by_src[first_src[rank] : first_src[rank + 1]]
        content = [head]
        if len(receives):
            content.append(_receives(algorithm, sent, receives, src).render().tobytes())
        if len(sends):
            content.append(_sends(algorithm, sent, sends, dst, before).render().tobytes())
        if len(content) == 1:  # ASTRA-sim wants something to do
            content.append(_delimited(field(ID, 1) + field(NAME, "idle") + field(TYPE, COMPUTE)))
        yield b"".join(content)


def _chain(link: Indices) -> Ints:
    """The message before each one on the same first link, or -1."""
    order = np.argsort(link, kind="stable")
    before = np.full(len(link), -1)
    same = link[order][1:] == link[order][:-1]
    before[order[1:][same]] = order[:-1][same]
    return before


def _receives(algorithm: Algorithm, sent: Messages, rows: Ints, src: Ints) -> Column:
    return delimited(
        concat(
            *_node(algorithm, sent, rows, RECEIVE),
            *_message(algorithm, sent, rows, "comm_src", src),
        )
    )


def _sends(algorithm: Algorithm, sent: Messages, rows: Ints, dst: Ints, before: Ints) -> Column:
    t, begin = algorithm.transfers, sent.input_offsets[rows]
    counts = sent.input_offsets[rows + 1] - begin
    place = np.arange(int(counts.sum())) - np.repeat(np.cumsum(counts) - counts, counts)
    inputs = sent.inputs[np.repeat(begin, counts) + place]
    chained = before[rows] >= 0
    hops = sent.route_offsets[rows + 1] - sent.route_offsets[rows]
    step = np.arange(int(hops.sum())) - np.repeat(np.cumsum(hops) - hops, hops)
    route = grouped(numbers(1, sent.route[np.repeat(sent.route_offsets[rows], hops) + step]), hops)
    return delimited(concat(
        *_node(algorithm, sent, rows, SEND),
        grouped(numbers(CONTROL, _send_id(before[rows][chained])), chained.astype(np.int64)),
        grouped(numbers(DATA, _receive_id(inputs)), counts),
        *_message(algorithm, sent, rows, "comm_dst", dst),
        _attribute("pccl_chunk", numbers(INT64, t.chunk[sent.first[rows]])),
        _attribute("pccl_reduce", numbers(BOOL, t.reduce[sent.last[rows]])),
        _attribute("pccl_route", messages(INT64_LIST, route)),
    ))  # fmt: skip


def _send_id(message: Ints) -> Ints:
    return 2 * message + 1


def _receive_id(message: Ints) -> Ints:
    return 2 * message + 2


def _node(algorithm: Algorithm, sent: Messages, rows: Ints, kind: int) -> Iterator[Column]:
    yield numbers(ID, _send_id(rows) if kind == SEND else _receive_id(rows))
    chunk = algorithm.transfers.chunk[sent.first[rows]]
    yield messages(NAME, concat(constant(b"chunk ", len(rows)), digits(chunk)))
    yield constant(field(TYPE, kind), len(rows))


def _message(
    algorithm: Algorithm, sent: Messages, rows: Ints, end: str, peer: Ints
) -> Iterator[Column]:
    """What both ends of a message must agree on."""
    t = algorithm.transfers
    yield _attribute(
        "comm_size", numbers(INT64, algorithm.conditions.bytes[t.chunk[sent.first[rows]]])
    )
    yield _attribute(end, numbers(INT32, peer[rows]))
    yield _attribute("comm_tag", numbers(INT32, rows))


def _attribute(name: str, value: Column) -> Column:
    return messages(ATTRIBUTE, concat(constant(field(1, name), len(value.lengths)), value))


def _metadata(algorithm: Algorithm) -> bytes:
    about = {
        "version": __version__,
        "topology": algorithm.topology.name,
        "npus": algorithm.topology.npus.tolist(),
        "collectives": [collective.to_dict() for collective in algorithm.collectives],
    }
    return field(1, _SCHEMA) + field(2, field(1, "pccl") + field(STRING, json.dumps(about)))


def _delimited(content: bytes) -> bytes:
    return varint(len(content)) + content


# --- what stands beside them -----------------------------------------------------------------------------------------


def _workload(algorithm: Algorithm, carrier: str) -> bytes:
    """One collective; how large it is matters only to the statistics of ASTRA-sim."""
    size = max(int(collective.size) for collective in algorithm.collectives)
    values = (
        ("is_cpu_op", field(BOOL, 0)),
        ("comm_type", field(INT64, _KINDS[carrier])),
        ("comm_size", field(INT64, size)),
    )
    attributes = [field(ATTRIBUTE, field(1, name) + value) for name, value in values]
    node = field(ID, 1) + field(NAME, carrier) + field(TYPE, COLLECTIVE) + b"".join(attributes)
    return _delimited(field(1, _SCHEMA)) + _delimited(node)


def _system(carrier: str) -> dict[str, Any]:
    return {
        "scheduling-policy": "FIFO",
        "preferred-dataset-splits": 1,
        f"{carrier}-implementation-custom": [TRACE],
        "local-mem-bw": 50,
    }


def _network(topology: Topology) -> tuple[str, str]:
    """The network file, if any, for the backend that knows congestion; and a line about it.

    That backend has one dimension and links that are all alike. Where every message takes one link, a network in which
    everybody is joined to everybody keeps the same times, as those links that are not there are not used.
    """
    links = np.unique(np.stack([topology.src, topology.dst]), axis=1)
    alike = all(len(np.unique(column)) == 1 for column in (topology.latency, topology.bandwidth))
    if (
        topology.num_npus < 2
        or not alike
        or np.any(topology.exclusive)
        or links.shape[1] < topology.num_links
    ):
        return "", "none: ASTRA-sim's has no parallel, exclusive or different links"
    bandwidth, latency = BytesPerSecond(topology.bandwidth[0]), Picoseconds(topology.latency[0])
    name, text = "", "the same network"
    blocks: dict[str, Any] = {"Ring": ring, "Switch": switch}
    if topology.num_links == topology.num_npus * (
        topology.num_npus - 1
    ):  # not built in vain: it may be very large
        blocks["FullyConnected"] = fully_connected
    for block, make in blocks.items():
        other = make(topology.num_npus, bandwidth=bandwidth, latency=latency)
        same = topology.num_devices == other.num_devices and topology.num_links == other.num_links
        if same and np.array_equal(links, np.unique(np.stack([other.src, other.dst]), axis=1)):
            name = name or block
    if not name and len(topology.switches):
        return "", "none: ASTRA-sim's has one switch at most, which joins all NPUs"
    if not name:
        name, text = (
            "FullyConnected",
            "a stand-in that has all links of this network, and more that are not used",
        )
    lines = {
        "topology": name,
        "npus_count": topology.num_npus,
        "bandwidth": bandwidth / 2**30,
        "latency": latency / 1000,
    }
    return "".join(f"{key}: [ {value} ]\n" for key, value in lines.items()), f"network.yml, {text}"
