"""What the scripts of the page work with: a few texts and numbers, and columns."""

from __future__ import annotations

from typing import Any

import numpy as np

from pccl._arrays import Column, Indices, Ints
from pccl.algorithm import Algorithm
from pccl.reporting.groups import process_groups, shortened
from pccl.reporting.layouts import Drawing
from pccl.reporting.page.traffic import Load, Sample
from pccl.topology.core import transmission_time
from pccl.units import Bytes, BytesPerSecond, Picoseconds

__all__ = ["page_data"]

# Starts are counted in ticks that fit 32 bits.
_TICKS = 2**32 - 1
_LONGEST_GROUP = 60


def page_data(
    algorithm: Algorithm, drawing: Drawing, load: Load, shown: Sample
) -> tuple[dict[str, Any], dict[str, Column]]:
    """Return texts and numbers for all of the page, and columns: one number per device, link, chunk or transfer."""
    topology = algorithm.topology
    t = algorithm.transfers
    duration = int(algorithm.duration)
    # One picosecond, unless the algorithm takes longer than four milliseconds.
    tick = duration // _TICKS + 1
    rates, rate_of_link = topology.rates
    latencies, latency_of_link = np.unique(topology.latency, return_inverse=True)
    sizes, size_of_chunk = np.unique(algorithm.conditions.bytes[shown.chunks], return_inverse=True)
    groups, group_of_collective = process_groups(topology, algorithm.collectives)
    document = {
        "duration": duration,
        "tick": tick,
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
        "groups": [shortened(group.name, _LONGEST_GROUP) for group in groups],
        "group": group_of_collective,
    }
    columns: dict[str, Column] = {
        "kind": topology.kind,
        "x": drawing.x,
        "y": drawing.y,
        "src": topology.src,
        "dst": topology.dst,
        "curve": drawing.curves(gap=0.7 * drawing.radius),
        "rate": rate_of_link,
        "latency": latency_of_link,
        "busy": algorithm.utilization,
        "carried": np.bincount(t.link, minlength=topology.num_links),
        "bytes": np.bincount(t.link, t.bytes, topology.num_links),
        "members": np.array([npu for group in groups for npu in group.npus], np.int64),
        "group_size": np.array([len(group.npus) for group in groups], np.int64),
        "row_collective": load.collective,
        "row_link": load.link,
        "share": load.share,
        "usage": load.curve,
        "size": size_of_chunk,
        **_chunks(algorithm, shown),
        "start": t.start[shown.transfers] // tick,
    }
    return document, columns


def _chunks(algorithm: Algorithm, shown: Sample) -> dict[str, Column]:
    """Return what there is of each chunk that is shown, and of its transfers."""
    conditions = algorithm.conditions
    t = algorithm.transfers
    chunks = shown.chunks
    first = np.searchsorted(t.chunk[shown.transfers], np.append(chunks, len(conditions)))
    return {
        "chunk": chunks,
        "collective": conditions.collective[chunks],
        "hops": np.diff(first),
        **_ends("source", conditions.source_offsets, conditions.source_ids, chunks),
        **_ends("destination", conditions.destination_offsets, conditions.destination_ids, chunks),
        "link": t.link[shown.transfers],
        "reduce": t.reduce[shown.transfers].astype(np.uint8),
    }


def _ends(name: str, offsets: Ints, ids: Indices, chunks: Ints) -> dict[str, Column]:
    """Return the first of the devices at one end of each chunk, and how many there are."""
    count = offsets[chunks + 1] - offsets[chunks]
    padded = np.append(ids, 0)
    return {name: np.where(count > 0, padded[offsets[chunks]], 0), f"{name}s": count}
