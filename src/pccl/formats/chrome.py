"""The same traces as JSON, for chrome://tracing and whatever else reads its Trace Event Format.

Larger and slower than what :mod:`pccl.formats.perfetto` writes, but text.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pccl._files import replacing
from pccl.algorithm import Algorithm
from pccl.formats.perfetto import PICOSECONDS, check_settings
from pccl.formats.timeline import Timeline, timeline
from pccl.topology.core import ABSENT

__all__ = ["write"]

MOST_SLICES = 2_000_000  # a gigabyte of text
_BLOCK = 50_000


def write(
    algorithm: Algorithm,
    path: str | Path,
    *,
    merge: bool = False,
    intervals: int = 100,
    unit: str = "ns",
) -> dict[str, str]:
    """Write a ``.trace.json`` file; the parameters are those of :func:`pccl.formats.perfetto.write`."""
    check_settings(intervals, unit)
    shown = timeline(algorithm, merge=merge, intervals=intervals, most=MOST_SLICES)
    scale = 1000 // PICOSECONDS[unit]
    with replacing(path) as file:
        file.write(b'{"displayTimeUnit": "ns", "traceEvents": [\n')
        first = True
        for lines in (
            _names(algorithm),
            _slices(shown, scale),
            _arrows(shown, scale),
            _loads(shown, scale),
        ):
            while block := [line for _, line in zip(range(_BLOCK), lines, strict=False)]:
                file.write((("" if first else ",\n") + ",\n".join(block)).encode())
                first = False
        file.write(b"\n]}\n")
    return {"slices": f"{len(shown.slices):,}", "arrows": f"{len(shown.before):,}"}


def _us(picoseconds: int) -> str:
    """Exact, as floats are not."""
    return f"{picoseconds // 10**6}.{picoseconds % 10**6:06d}"


def _names(algorithm: Algorithm) -> Iterator[str]:
    topology = algorithm.topology
    for device in np.flatnonzero(topology.kind != ABSENT).tolist():
        yield _meta("process_name", device, 0, {"name": topology.labels[device]})
        yield _meta("process_sort_index", device, 0, {"sort_index": device})
    for link, (src, dst) in enumerate(
        zip(topology.src.tolist(), topology.dst.tolist(), strict=True)
    ):
        yield _meta("thread_name", src, link, {"name": f"link {link} to {topology.labels[dst]}"})
        yield _meta("thread_sort_index", src, link, {"sort_index": link})


def _meta(name: str, device: int, link: int, arguments: dict[str, object]) -> str:
    return json.dumps({"ph": "M", "name": name, "pid": device, "tid": link, "args": arguments})


def _slices(shown: Timeline, scale: int) -> Iterator[str]:
    s, t, conditions = shown.slices, shown.algorithm.transfers, shown.algorithm.conditions
    chunk = t.chunk[s.first]
    arrival = s.end + np.where(t.topology.exclusive, 0, t.topology.latency)[s.link]
    columns = (
        s.link, t.topology.src[s.link], s.begin * scale, (s.end - s.begin) * scale, s.bytes, s.count, chunk,
        conditions.piece[chunk], arrival, t.reduce[s.first], conditions.collective[chunk],
    )  # fmt: skip
    kinds = [
        json.dumps(f"{i} {collective.kind}")
        for i, collective in enumerate(shown.algorithm.collectives)
    ]
    merged = bool(np.any(s.count > 1))
    for link, src, begin, hold, size, count, chunk_, piece, lands, reduce, collective in _rows(
        *columns
    ):
        if merged:
            name, more = f"{count} transfers", f'"transfers":{count}'
        else:
            name, more = (
                f"chunk {chunk_}",
                (
                    f'"piece":{piece},"arrival_ps":{lands},"reduce":{"true" if reduce else "false"},'
                    f'"collective":{kinds[collective]}'
                ),
            )
        yield (
            f'{{"ph":"X","name":"{name}","pid":{src},"tid":{link},"ts":{_us(begin)},"dur":{_us(hold)},'
            f'"args":{{"bytes":{size},{more}}}}}'
        )


def _arrows(shown: Timeline, scale: int) -> Iterator[str]:
    """From where a slice begins to where one that it feeds begins."""
    s, src = shown.slices, shown.algorithm.topology.src
    ends = [
        (s.link[rows], src[s.link[rows]], s.begin[rows] * scale)
        for rows in (shown.before, shown.after)
    ]
    for i, (link, device, time, to_link, to_device, to_time) in enumerate(
        _rows(*ends[0], *ends[1])
    ):
        for kind, place, pid, moment in (
            ("s", link, device, time),
            ("f", to_link, to_device, to_time),
        ):
            bound = ',"bp":"e"' if kind == "f" else ""
            yield (
                f'{{"ph":"{kind}","name":"chunk","cat":"chunk","id":{i},"pid":{pid},"tid":{place},'
                f'"ts":{_us(moment)}{bound}}}'
            )


def _loads(shown: Timeline, scale: int) -> Iterator[str]:
    moments = (shown.moments * scale).tolist()
    for device in np.flatnonzero(shown.load[:-1].any(axis=1)).tolist():
        for time, share in zip(
            moments, np.round(shown.load[device] * 100, 3).tolist(), strict=True
        ):
            yield f'{{"ph":"C","name":"links held, %","pid":{device},"ts":{_us(time)},"args":{{"held":{share}}}}}'


def _rows(*columns: NDArray[Any]) -> Iterator[tuple[int, ...]]:
    for begin in range(0, len(columns[0]), _BLOCK):
        yield from zip(
            *(column[begin : begin + _BLOCK].tolist() for column in columns), strict=True
        )
