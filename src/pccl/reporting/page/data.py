"""What the scripts of the page work with: a few texts and numbers, and columns, packed as text."""

from __future__ import annotations

import base64
import zlib
from collections.abc import Mapping
from typing import Any

import numpy as np

from pccl._arrays import Column, Indices, Ints
from pccl.algorithm import Algorithm
from pccl.reporting.groups import process_groups, shortened
from pccl.reporting.layouts import Drawing
from pccl.reporting.page.traffic import Load, Sample
from pccl.topology.core import transmission_time
from pccl.units import Bytes, BytesPerSecond, Picoseconds

# Starts are counted in ticks that fit 32 bits.
_TICKS = 2**32 - 1
_LONGEST_GROUP = 60


def page_data(
    algorithm: Algorithm, drawing: Drawing, load: Load, shown: Sample
) -> tuple[dict[str, Any], dict[str, Column]]:
    """Return texts and numbers for all of the page, and columns: one number per device, link, chunk or transfer."""
    topology = algorithm.topology
    t = algorithm.transfers
    conditions = algorithm.conditions
    chunks = shown.chunks
    duration = int(algorithm.duration)
    # One picosecond, unless the algorithm takes longer than four milliseconds.
    tick = duration // _TICKS + 1
    rates, rate_of_link = topology.rates
    latencies, latency_of_link = np.unique(topology.latency, return_inverse=True)
    sizes, size_of_chunk = np.unique(conditions.bytes[chunks], return_inverse=True)
    groups, group_of_collective = process_groups(topology, algorithm.collectives)
    document = {
        "duration": duration,
        "tick": tick,
        "intervals": load.share.shape[1],
        "apart": load.apart,
        "chunks": len(conditions),
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
        "chunk": chunks,
        "collective": conditions.collective[chunks],
        "hops": np.bincount(t.chunk[shown.transfers], minlength=len(conditions))[chunks],
        **_ends("source", conditions.source_offsets, conditions.source_ids, chunks),
        **_ends("destination", conditions.destination_offsets, conditions.destination_ids, chunks),
        "link": t.link[shown.transfers],
        "reduce": t.reduce[shown.transfers].astype(np.uint8),
        "start": t.start[shown.transfers] // tick,
    }
    return document, columns


def pack(columns: Mapping[str, Column]) -> tuple[list[list[object]], str]:
    """Return a directory of the columns (name, type, length), and all of them deflated, as base64.

    Whole numbers take as few bytes as the largest needs; all first bytes of a column come before all second ones, since
    that deflates better.

    Examples
    --------
    >>> directory, text = pack({"link": np.array([1, 700]), "share": np.array([0.5])})
    >>> directory
    [['link', 'u2', 2], ['share', 'f4', 1]]
    """
    directory: list[list[object]] = []
    parts = []
    for name, column in columns.items():
        values = np.ravel(column)
        if values.dtype.kind == "f":
            short = "f4"
        else:
            largest = values.max(initial=0)
            short = "u1" if largest < 2**8 else "u2" if largest < 2**16 else "u4"
        values = np.ascontiguousarray(values, f"<{short}")
        directory.append([name, short, len(values)])
        parts.append(values.view(np.uint8).reshape(len(values), values.itemsize).T.tobytes())
    return directory, base64.b64encode(zlib.compress(b"".join(parts), 6)).decode("ascii")


def _ends(name: str, offsets: Ints, ids: Indices, chunks: Ints) -> dict[str, Column]:
    """Return the first of the devices at one end of each chunk, and how many there are."""
    count = offsets[chunks + 1] - offsets[chunks]
    padded = np.append(ids, 0)
    return {name: np.where(count > 0, padded[offsets[chunks]], 0), f"{name}s": count}
