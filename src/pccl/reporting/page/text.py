"""The parts of the page that are plain text: they can be read without any script."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape

from pccl.algorithm import Algorithm
from pccl.analysis import Comparison
from pccl.reporting.page.traffic import Load, Sample
from pccl.units import time_text

__all__ = ["asked", "command_list", "found", "left_out", "notes", "title"]

# Collectives that are listed.
_SHOWN = 12


def title(algorithm: Algorithm) -> str:
    """What the page is about."""
    kinds = list(dict.fromkeys(collective.kind for collective in algorithm.collectives))
    first = ", ".join(kinds[:-1])
    text = " and ".join(filter(None, [first, *kinds[-1:]]))
    return f"{text or 'nothing'} on {algorithm.topology.name}"


def asked(algorithm: Algorithm) -> str:
    """The network and the collectives."""
    facts = algorithm.facts()
    listed = [str(collective) for collective in algorithm.collectives[:_SHOWN]]
    if len(algorithm.collectives) > _SHOWN:
        listed.append(f"and {len(algorithm.collectives) - _SHOWN:,} more")
    seconds = f"{algorithm.provenance.seconds:.3g} s"
    rows = {
        "Network": escape(facts["topology"]),
        "Collectives": f'<ul class="plain">{_items(listed)}</ul>',
        "Chunks": escape(facts["chunks"]),
        "Transfers": escape(facts["transfers"]),
        # How the search came to it is of interest to few.
        "Found in": f"<details><summary>{seconds}</summary>by {escape(facts['found by'])}</details>",
    }
    return f"<dl>{''.join(f'<dt>{name}</dt><dd>{text}</dd>' for name, text in rows.items())}</dl>"


def found(comparison: Comparison) -> str:
    """The figures that matter most."""
    return "".join(
        f'<div class="card"><h3>{escape(name)}</h3><p class="figure">{escape(figure)}</p>'
        f"<p>{escape(text)}</p></div>"
        for name, figure, text in _cards(comparison)
    )


def left_out(comparison: Comparison) -> str:
    """The baselines that did not run, by reason."""
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
    return "".join(
        f"<dt>{escape(what)}</dt><dd><code>{escape(line)}</code></dd>" for what, line in commands
    )


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
    best = comparison.best_baseline
    if best is not None and duration:
        yield "Speed-up", f"{best.speedup:.2f}×", f"over {best.name}, the best baseline"
    yield "Links busy", f"{ours.links_busy:.1%}", "on average over links and time"
    if len(comparison.algorithm.collectives) == 1 and duration:
        rate = (ours.algorithm_bandwidth or 0) / 1e9
        text = f"algorithm bandwidth {rate:,.2f} GB/s, as nccl-tests counts"
        yield "Bus bandwidth", f"{(ours.bus_bandwidth or 0) / 1e9:,.2f} GB/s", text


def _items(texts: Sequence[str]) -> str:
    return "".join(f"<li>{escape(text)}</li>" for text in texts)
