"""What the scripts of the page work with: a few texts and numbers, and columns."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from pccl._arrays import Indices, Ints
from pccl.algorithm import Algorithm
from pccl.collective import format_group
from pccl.reporting.layouts.drawing import Drawing
from pccl.reporting.page.traffic import Load, Sample
from pccl.topology.core import transmission_time
from pccl.units import Bytes, BytesPerSecond, Picoseconds

__all__ = ["busy_time", "columns", "document"]

Columns = dict[str, NDArray[Any]]
_TICKS = 2**32 - 1  # starts are counted in ticks that fit 32 bits
_MOST_TEXT = 60


def document(algorithm: Algorithm, drawing: Drawing, load: Load, shown: Sample) -> dict[str, Any]:
    """Texts and numbers; what there is one of per device, link, chunk or transfer is in the columns."""
    topology, sizes = algorithm.topology, _sizes(algorithm, shown)[0]
    rates, latencies = topology.rates[0], np.unique(topology.latency)
    groups = _groups(algorithm)
    return {
        "duration": int(algorithm.duration),
        "tick": _tick(algorithm),
        "intervals": load.share.shape[1],
        "apart": load.apart,
        "chunks": len(algorithm.conditions),
        "radius": drawing.radius,
        "extent": drawing.extent,
        "frames": [
            [f.label, f.left, f.top, f.right, f.bottom, f.label_below] for f in drawing.frames
        ],
        "devices": [topology.device_text(device) for device in range(topology.num_devices)],
        "bandwidths": [str(BytesPerSecond(rate)) for rate in rates.tolist()],
        "latencies": [str(Picoseconds(latency)) for latency in latencies.tolist()],
        "latency": latencies.tolist(),
        "sizes": [str(Bytes(size)) for size in sizes.tolist()],
        "transmission": transmission_time(sizes[:, None], rates[None, :]).ravel().tolist(),
        "collectives": [str(collective) for collective in algorithm.collectives],
        "groups": [_shortened(text) for text in groups],
        "group": [
            list(groups).index(_group_text(collective)) for collective in algorithm.collectives
        ],
    }


def columns(algorithm: Algorithm, drawing: Drawing, load: Load, shown: Sample) -> Columns:
    """One number per device, link, row of the load, chunk or transfer."""
    return _network(algorithm, drawing) | _load(load) | _chunks(algorithm, shown)


def busy_time(algorithm: Algorithm) -> Ints:
    """Per link: for how long it is held, in picoseconds."""
    topology, t = algorithm.topology, algorithm.transfers
    lag = np.where(topology.exclusive, topology.latency, 0)
    busy = np.bincount(t.link, t.transmission, topology.num_links)
    return (busy + lag * np.bincount(t.link, minlength=topology.num_links)).astype(np.int64)


def _network(algorithm: Algorithm, drawing: Drawing) -> Columns:
    topology, t = algorithm.topology, algorithm.transfers
    groups = _groups(algorithm)
    return {
        "kind": topology.kind,
        "x": drawing.x,
        "y": drawing.y,
        "src": topology.src,
        "dst": topology.dst,
        "curve": drawing.curves(gap=0.7 * drawing.radius),
        "rate": topology.rates[1],
        "latency": np.unique(topology.latency, return_inverse=True)[1],
        "busy": busy_time(algorithm) / max(int(algorithm.duration), 1),
        "carried": np.bincount(t.link, minlength=topology.num_links),
        "bytes": np.bincount(t.link, t.bytes, topology.num_links),
        "members": np.concatenate([np.arange(0), *groups.values()]),
        "group_size": np.array([len(members) for members in groups.values()], np.int64),
    }


def _load(load: Load) -> Columns:
    return {
        "row_collective": load.collective,
        "row_link": load.link,
        "share": load.share,
        "usage": load.curve,
    }


def _chunks(algorithm: Algorithm, shown: Sample) -> Columns:
    conditions, t, rows, chunks = (
        algorithm.conditions,
        algorithm.transfers,
        shown.transfers,
        shown.chunks,
    )
    first = np.searchsorted(t.chunk[rows], np.append(chunks, len(conditions)))
    return {
        "chunk": chunks,
        "collective": conditions.collective[chunks],
        "size": _sizes(algorithm, shown)[1],
        "hops": np.diff(first),
        **_ends("source", conditions.source_offsets, conditions.source_ids, chunks),
        **_ends("destination", conditions.destination_offsets, conditions.destination_ids, chunks),
        "link": t.link[rows],
        "start": t.start[rows] // _tick(algorithm),
        "reduce": t.reduce[rows].astype(np.uint8),
    }


def _ends(name: str, offsets: Ints, ids: Indices, chunks: Ints) -> Columns:
    """The first of the devices at one end of each chunk, and how many there are."""
    count = offsets[chunks + 1] - offsets[chunks]
    padded = np.append(ids, 0)
    return {name: np.where(count > 0, padded[offsets[chunks]], 0), f"{name}s": count}


def _sizes(algorithm: Algorithm, shown: Sample) -> tuple[Ints, Ints]:
    values, of_chunk = np.unique(algorithm.conditions.bytes[shown.chunks], return_inverse=True)
    return values, of_chunk.reshape(-1)


def _tick(algorithm: Algorithm) -> int:
    """Picoseconds that a tick takes: one, unless the algorithm takes longer than four milliseconds."""
    return int(algorithm.duration) // _TICKS + 1


def _groups(algorithm: Algorithm) -> dict[str, Ints]:
    """The different process groups, by text, in the order of the collectives."""
    npus = algorithm.topology.npus
    return {
        _group_text(c): npus if c.group is None else np.array(c.ranks, np.int64)
        for c in algorithm.collectives
    }


def _group_text(collective: Any) -> str:
    return "all NPUs" if collective.group is None else format_group(collective.ranks)


def _shortened(text: str) -> str:
    return text if len(text) <= _MOST_TEXT else f"{text[: _MOST_TEXT - 1]}…"
