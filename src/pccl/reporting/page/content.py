"""The parts of the page that can be read without any script: texts and tables."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from html import escape
from typing import Any

import numpy as np

from pccl._arrays import Column, Indices, largest
from pccl.algorithm import Algorithm
from pccl.algorithm.core import needs_in_brief
from pccl.analysis import Comparison, ComparisonRow, each_collective
from pccl.reporting.groups import shortened
from pccl.reporting.page.data import LONGEST_NAME, Load, Sample, chunk_finish
from pccl.topology import Topology
from pccl.units import BytesPerSecond, Picoseconds, time_text

# Collectives that are listed.
_SHOWN = 12
# Collectives that have a bar.
_MOST_BARS = 48
# Colours of the style sheet, after which they repeat.
_COLOURS = 8
# Worst links and latest chunks.
_LISTED = 20
_TENTHS = 10
_BAR = '<td class="bar" aria-hidden="true">{}</td>'


def title(algorithm: Algorithm) -> str:
    """What the page is about."""
    *kinds, last = dict.fromkeys(collective.kind for collective in algorithm.collectives)
    text = " and ".join(filter(None, [", ".join(kinds), last]))
    return f"{text} on {shortened(algorithm.topology.name, LONGEST_NAME)}"


def asked(algorithm: Algorithm) -> str:
    """The network and the collectives."""
    facts = {name: escape(text) for name, text in algorithm.facts().items()}
    listed = [str(collective) for collective in algorithm.collectives[:_SHOWN]]
    more = len(algorithm.collectives) - _SHOWN
    if more > 0:
        listed.append(f"and {more:,} more")
    seconds = f"{algorithm.provenance.seconds:.3g} s"
    rows = {
        "Network": facts["topology"],
        "Collectives": f'<ul class="plain">{_items(listed)}</ul>',
        "Chunks": facts["chunks"],
        "Transfers": facts["transfers"],
        **({"Needs": facts["needs"]} if "needs" in facts else {}),
        # How the search came to it is of interest to few.
        "Found in": f"<details><summary>{seconds}</summary>by {facts['found by']}</details>",
    }
    return f"<dl>{_each('<dt>{}</dt><dd>{}</dd>', rows.items())}</dl>"


def found(comparison: Comparison) -> str:
    """The figures that matter most."""
    card = '<div class="card"><h3>{}</h3><p class="figure">{}</p><p>{}</p></div>'
    return _each(card, (map(escape, texts) for texts in _cards(comparison)))


def left_out(comparison: Comparison) -> str:
    """The baselines that did not run, by reason."""
    # Many baselines are left out for the same reason.
    names: dict[str, list[str]] = {}
    for row in comparison.left_out:
        names.setdefault(row.reason, []).append(row.name)
    lines = [f"{', '.join(who)} ({reason})" for reason, who in names.items()]
    if not comparison.baselines:
        lines = ["all of them, as asked"]
    text = escape("; ".join(lines))
    return f"<p class=note>Baselines left out: {text}.</p>" if lines else ""


def command_list(commands: Sequence[tuple[str, str]]) -> str:
    """Commands, each with what it is for."""
    return _each("<dt>{}</dt><dd><code>{}</code></dd>", (map(escape, pair) for pair in commands))


def refusals(refused: Sequence[tuple[str, str]]) -> str:
    """The formats that refuse the algorithm, each with the reason."""
    return _each("<dt>Not for {}</dt><dd>{}</dd>", (map(escape, pair) for pair in refused))


def notes(algorithm: Algorithm, load: Load, shown: Sample, verified: bool) -> str:
    """What is exact on this page and what is a sample."""
    lines = [
        "All times, bounds, tables, curves and heat maps count every transfer. Curves and heat maps divide the time "
        f"into {load.share.shape[1]:,} intervals."
    ]
    if shown.complete:
        lines.append("Moving chunks are all chunks with all their transfers.")
    else:
        lines.append(
            f"Moving chunks are a sample: {len(shown.chunks):,} of {len(algorithm.conditions):,} chunks, with "
            f"{len(shown.transfers):,} of {len(algorithm.transfers):,} transfers. The latest chunks are among them; "
            "the others are drawn at random from every collective, in proportion."
        )
    if verified:
        lines.append(
            "The algorithm was verified: every chunk gets where it must, and no link carries two at a time."
        )
    else:
        lines.append("The algorithm was not verified for this page.")
    if not load.apart:
        lines.append(
            "There are too many collectives to tell apart how busy they keep links: filters choose moving chunks only."
        )
    return _items(lines)


def rivals(comparison: Comparison) -> str:
    """Ours, the baselines that ran and the bound, the quickest first, with bars."""
    # The bound is the first, unless something reaches it.
    rows = sorted(comparison.rows, key=lambda row: int(row.duration or 0))
    longest = int(rows[-1].duration or 0) or 1
    lines = [_rival(comparison, row, longest) for row in rows]
    names = ("Algorithm", "Time", "Ours is faster by")
    return _table("Time, beside baselines and the bound", names, lines, end=_BAR.format(""))


def gantt(algorithm: Algorithm) -> str:
    """From when to when each of several collectives is under way, beside what it would take alone; nothing for one."""
    if len(algorithm.collectives) < 2:
        return ""
    rows = each_collective(algorithm, _MOST_BARS)
    whole = max(int(algorithm.duration), 1)
    lines = []
    for number, row in enumerate(rows):
        begin = 100 * int(row.begin) / whole
        width = 100 * (int(row.finish) - int(row.begin)) / whole
        bound = 100 * min(int(row.bound), whole) / whole
        # In the colour of its chunks.
        colour = f"var(--colour-{number % _COLOURS})"
        bar = f'<span class="under-way" style="left:{begin:.2f}%;width:{width:.2f}%;background:{colour}"></span>'
        mark = f'<span class="mark" style="left:{bound:.2f}%"></span>'
        times = [time_text(int(time)) for time in (row.begin, row.finish, row.bound)]
        head = escape(f"{number}: {row.collective}")
        cell = f'<td class="bar gantt" aria-hidden="true"><div>{bar}{mark}</div></td>'
        lines.append(_row(head, times) + cell)
    names = ("Collective", "Begins", "Done", "Bound, alone")
    table = _table("When collectives are under way", names, lines, end=_BAR.format(""))
    more = len(algorithm.collectives) - len(rows)
    note = f"<p class=note>The first {len(rows)}; {more:,} more are not shown.</p>" if more else ""
    return (
        '<section id="gantt" aria-labelledby="gantt-title"><h2 id="gantt-title">Collectives over time</h2>'
        f'<div class="scroll">{table}</div>{note}'
        '<p class="note">A line in a bar is where its bound is, if it had the network for itself.</p></section>'
    )


def busiest_links(algorithm: Algorithm) -> str:
    """The links that are held longest."""
    topology = algorithm.topology
    shares = algorithm.utilization
    rows = {
        link: (
            _device(topology, topology.src[link]),
            _device(topology, topology.dst[link]),
            f"{shares[link]:.1%}",
            str(BytesPerSecond(topology.bandwidth[link])),
            str(Picoseconds(topology.latency[link])),
        )
        for link in largest(shares, _LISTED).tolist()
    }
    names = ("Link", "From", "To", "Busy", "Bandwidth", "Latency")
    return _numbered_table("The busiest links", names, rows, numbers_from=3)


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
            time_text(finish[chunk]),
        )
        for chunk in largest(finish, _LISTED).tolist()
    }
    names = ("Chunk", "Collective", "From", "To", "Transfers", "Done")
    return _numbered_table("The chunks that are done last", names, rows, numbers_from=4)


def usage(algorithm: Algorithm, curve: Column) -> str:
    """The share of links that are busy in tenths of the time, for those who cannot see the curve."""
    # A screen reader reads ten rows; the curve has hundreds of points.
    step = int(algorithm.duration) / _TENTHS
    rows = []
    for k, part in enumerate(np.array_split(curve.sum(axis=0), _TENTHS)):
        share = part.mean() if len(part) else 0.0
        when = f"{time_text(round(k * step))} to {time_text(round((k + 1) * step))}"
        rows.append(_row(when, [f"{share:.1%}"]))
    return _table("Share of links that are busy", ("Time", "Links busy"), rows)


def _cards(comparison: Comparison) -> Iterator[tuple[str, str, str]]:
    """Name, figure and explanation of what matters most."""
    ours = comparison.ours
    duration = int(comparison.algorithm.duration)
    yield "Time", time_text(duration), "until the last chunk has arrived"
    if comparison.bound is not None:
        why = f"no algorithm is faster: {comparison.bound.reason}"
        yield "Lower bound", time_text(int(comparison.bound.value)), why
    if comparison.gap is not None:
        yield "Gap", f"{comparison.gap:.1%}", "above the bound"
    # What people have today if any of that ran, as in `pccl compare`; otherwise the best of what did.
    rival = comparison.today or comparison.best_baseline
    # Nothing can be faster than an algorithm that takes no time.
    if rival is not None and duration:
        what = "what you have today" if rival is comparison.today else "the best baseline"
        yield "Speed-up", f"{rival.speedup:.2f}×", f"over {rival.name}, {what}"
    yield "Links busy", f"{ours.links_busy:.1%}", "on average over links and time"
    # With several, a bandwidth of the first alone would mislead.
    if len(comparison.algorithm.collectives) == 1 and duration:
        rate = (ours.algorithm_bandwidth or 0) / 1e9
        text = f"algorithm bandwidth {rate:,.2f} GB/s, as nccl-tests counts"
        yield "Bus bandwidth", f"{(ours.bus_bandwidth or 0) / 1e9:,.2f} GB/s", text


def _rival(comparison: Comparison, row: ComparisonRow, longest: int) -> str:
    name = row.name
    what = row.description
    speedup = f"{row.speedup:.2f}×"
    kind = ""
    if row is comparison.ours:
        name, what, speedup, kind = "this algorithm", "", "", "own"
    elif row is comparison.bound_row:
        name, what, speedup = "lower bound", "no algorithm is faster", ""
    if row.needs:
        what += f"{'; ' if what else ''}needs {needs_in_brief(row.needs)}"
    time = int(row.duration or 0)
    bar = f'<span style="width:{100 * time / longest:.1f}%"></span>'
    head = f'{escape(name)}<span class="what">{escape(what)}</span>'
    return _row(head, [time_text(time), speedup], about=f' class="{kind}"') + _BAR.format(bar)


def _ends(algorithm: Algorithm, devices: Indices) -> str:
    if len(devices) == 1:
        return _device(algorithm.topology, devices[0])
    return f"{len(devices)} NPUs" if len(devices) else "nobody else"


def _device(topology: Topology, device: Any) -> str:
    return shortened(topology.device_text(int(device)), LONGEST_NAME)


def _numbered_table(
    caption: str, names: Sequence[str], rows: Mapping[int, Sequence[str]], numbers_from: int
) -> str:
    """A table of links or chunks by number; the numbers become buttons once the script runs."""
    if not rows:
        return f"<p>{escape(caption)}: there are none.</p>"
    # Which the script looks for.
    what = names[0].lower()
    lines = [
        _row(str(number), cells, numbers_from, f' data-{what}="{number}"')
        for number, cells in rows.items()
    ]
    return f'<div class="scroll">{_table(caption, names, lines, numbers_from)}</div>'


def _table(
    caption: str, names: Sequence[str], rows: Sequence[str], numbers_from: int = 1, end: str = ""
) -> str:
    """A table, of which the last columns are numbers; `end` is what follows the names of columns."""
    head = _cells('th scope="col"', names, 0, numbers_from)
    return (
        f"<table><caption>{escape(caption)}</caption><thead><tr>{head}{end}</tr></thead>"
        f"<tbody>{_each('<tr>{}</tr>', zip(rows))}</tbody></table>"
    )


def _row(head: str, texts: Sequence[str], numbers_from: int = 1, about: str = "") -> str:
    """A row: its head, which is HTML, with attributes that say more `about` it, and its other cells."""
    return f'<th scope="row"{about}>{head}</th>{_cells("td", texts, 1, numbers_from)}'


def _cells(tag: str, texts: Sequence[str], first: int, numbers_from: int) -> str:
    """Cells from this column on."""
    return "".join(
        f'<{tag} class="{"number" if i >= numbers_from else ""}">{escape(text)}</{tag[:2]}>'
        for i, text in enumerate(texts, first)
    )


def _items(texts: Sequence[str]) -> str:
    return _each("<li>{}</li>", (map(escape, [text]) for text in texts))


def _each(template: str, rows: Iterable[Iterable[str]]) -> str:
    """The template once for every row, filled with its texts, which are HTML."""
    return "".join(template.format(*row) for row in rows)
