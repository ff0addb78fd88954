"""The tables of the page; they can be read without any script."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from html import escape

import numpy as np
from numpy.typing import NDArray

from pccl._arrays import Indices
from pccl.algorithm import Algorithm
from pccl.analysis import Comparison, ComparisonRow
from pccl.reporting.page.traffic import chunk_finish, latest_chunks
from pccl.units import BytesPerSecond, Picoseconds, time_text

__all__ = ["busiest_links", "last_chunks", "rivals", "usage"]

# Worst links and latest chunks.
_LISTED = 20
_TENTHS = 10


def rivals(comparison: Comparison) -> str:
    """Ours, the baselines that ran and the bound, the quickest first, with bars."""
    longest = max(int(row.duration or 0) for row in comparison.rows) or 1
    rows = [
        _rival(comparison, row, int(row.duration or 0), longest)
        for row in sorted(comparison.rows, key=lambda row: int(row.duration or 0))
    ]
    return _table(
        "Time, beside baselines and the bound",
        ("Algorithm", "Time", "Ours is faster by"),
        rows,
        numeric=(1, 2),
        end='<td class="bar" aria-hidden="true"></td>',
    )


def busiest_links(algorithm: Algorithm) -> str:
    """The links that are held longest."""
    topology = algorithm.topology
    shares = algorithm.utilization
    order = np.argsort(-shares, kind="stable")[:_LISTED]
    rows = {
        link: (
            topology.device_text(topology.src[link]),
            topology.device_text(topology.dst[link]),
            f"{shares[link]:.1%}",
            str(BytesPerSecond(topology.bandwidth[link])),
            str(Picoseconds(topology.latency[link])),
        )
        for link in order[shares[order] > 0].tolist()
    }
    names = ("From", "To", "Busy", "Bandwidth", "Latency")
    return _numbered_table("The busiest links", "link", names, rows, numeric=(3, 4, 5))


def last_chunks(algorithm: Algorithm) -> str:
    """The chunks that are done last."""
    conditions = algorithm.conditions
    finish = chunk_finish(algorithm)
    transfers = np.bincount(algorithm.transfers.chunk, minlength=len(conditions))
    rows = {
        chunk: (
            algorithm.collectives[conditions.collective[chunk]].kind,
            _ends(algorithm, conditions.sources(chunk)),
            _ends(algorithm, conditions.destinations(chunk)),
            str(transfers[chunk]),
            time_text(int(finish[chunk])),
        )
        for chunk in latest_chunks(algorithm, _LISTED).tolist()
    }
    names = ("Collective", "From", "To", "Transfers", "Done")
    return _numbered_table("The chunks that are done last", "chunk", names, rows, numeric=(4, 5))


def usage(algorithm: Algorithm, curve: NDArray[np.float32]) -> str:
    """The share of links that are busy in tenths of the time, for those who cannot see the curve."""
    tenths = np.array_split(curve.sum(axis=0), _TENTHS)
    step = int(algorithm.duration) / _TENTHS
    rows = []
    for k, part in enumerate(tenths):
        share = float(part.mean()) if len(part) else 0.0
        when = f"{time_text(round(k * step))} to {time_text(round((k + 1) * step))}"
        rows.append(f'<th scope="row">{when}</th>{_cell(f"{share:.1%}", numeric=True)}')
    return _table("Share of links that are busy", ("Time", "Links busy"), rows, numeric=(1,))


def _rival(comparison: Comparison, row: ComparisonRow, time: int, longest: int) -> str:
    name = row.name
    what = row.description
    speedup = f"{row.speedup:.2f}×"
    kind = ""
    if row is comparison.ours:
        name, what, speedup, kind = "this algorithm", "", "", "own"
    elif row is comparison.bound_row:
        name, what, speedup = "lower bound", "no algorithm is faster", ""
    return (
        f'<th scope="row" class="{kind}">{escape(name)}<span class="what">{escape(what)}</span></th>'
        f"{_cell(time_text(time), numeric=True)}{_cell(speedup, numeric=True)}"
        f'<td class="bar" aria-hidden="true"><span style="width:{100 * time / longest:.1f}%"></span></td>'
    )


def _ends(algorithm: Algorithm, devices: Indices) -> str:
    if len(devices) == 1:
        return algorithm.topology.device_text(int(devices[0]))
    return f"{len(devices)} NPUs" if len(devices) else "nobody else"


def _numbered_table(
    caption: str,
    what: str,
    names: Sequence[str],
    rows: Mapping[int, Sequence[str]],
    numeric: Collection[int],
) -> str:
    """A table of links or chunks by number; the numbers become buttons once the script runs."""
    if not rows:
        return f"<p>{escape(caption)}: there are none.</p>"
    lines = []
    for number, cells in rows.items():
        head = f'<th scope="row" data-{what}="{number}">{number}</th>'
        lines.append(head + "".join(_cell(cell, i in numeric) for i, cell in enumerate(cells, 1)))
    table = _table(caption, (what.capitalize(), *names), lines, numeric)
    return f'<div class="scroll">{table}</div>'


def _table(
    caption: str, names: Sequence[str], rows: Iterable[str], numeric: Collection[int], end: str = ""
) -> str:
    """A table; `numeric` are the columns of numbers, and `end` is what follows the names of columns."""
    head = "".join(
        f'<th scope="col" class="{_kind(i in numeric)}">{escape(name)}</th>'
        for i, name in enumerate(names)
    )
    body = "".join(f"<tr>{row}</tr>" for row in rows)
    return (
        f"<table><caption>{escape(caption)}</caption><thead><tr>{head}{end}</tr></thead>"
        f"<tbody>{body}</tbody></table>"
    )


def _cell(text: str, numeric: bool) -> str:
    return f'<td class="{_kind(numeric)}">{escape(text)}</td>'


def _kind(numeric: bool) -> str:
    return "number" if numeric else ""
