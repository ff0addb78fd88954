"""The parts of the page that are plain text and tables: they can be read without any script."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator, Sequence
from html import escape
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from pccl.algorithm import Algorithm
from pccl.algorithm.core import time_text
from pccl.reporting.page.findings import Findings, Rival, Row
from pccl.reporting.page.traffic import Load, Sample

__all__ = [
    "asked",
    "commands",
    "found",
    "left_out",
    "notes",
    "numbered_table",
    "rivals",
    "title",
    "usage_table",
]

_SHOWN = 12  # collectives that are listed
_TENTHS = 10
_OWN = "this algorithm"


def title(algorithm: Algorithm) -> str:
    """What the page is about."""
    kinds = list(dict.fromkeys(collective.kind for collective in algorithm.collectives))
    text = ", ".join(kinds[:-1]) + (" and " if len(kinds) > 1 else "") + "".join(kinds[-1:])
    return f"{text or 'nothing'} on {algorithm.topology.name}"


def asked(algorithm: Algorithm) -> str:
    """The network and the collectives."""
    facts = algorithm.facts()
    listed = [escape(str(collective)) for collective in algorithm.collectives[:_SHOWN]]
    if len(algorithm.collectives) > _SHOWN:
        listed.append(f"and {len(algorithm.collectives) - _SHOWN:,} more")
    items = "".join(f"<li>{text}</li>" for text in listed)
    rows = [
        ("Network", escape(facts["topology"])),
        ("Collectives", f'<ul class="plain">{items}</ul>'),
    ]
    rows += [
        (name.capitalize(), escape(facts[name])) for name in ("chunks", "transfers", "found by")
    ]
    return f"<dl>{''.join(f'<dt>{name}</dt><dd>{text}</dd>' for name, text in rows)}</dl>"


def found(findings: Findings, load: Load) -> str:
    """The figures that matter most."""
    busy = float(load.curve.sum(axis=0).mean())
    cards = [
        ("Time", time_text(int(findings.algorithm.duration)), "until the last chunk has arrived"),
        *_bound_cards(findings),
        ("Links busy", f"{busy:.1%}", "on average over links and time"),
        *_rate_cards(findings),
    ]
    return "".join(
        f'<div class="card"><h3>{escape(name)}</h3><p class="figure">{escape(figure)}</p><p>{escape(text)}</p></div>'
        for name, figure, text in cards
    )


def _bound_cards(findings: Findings) -> Iterator[tuple[str, str, str]]:
    """How far from what is possible, and how far ahead of the others."""
    own = int(findings.algorithm.duration)
    if findings.bound is not None:
        why = f"no algorithm is faster: {findings.bound.reason}"
        yield "Lower bound", time_text(int(findings.bound.value)), why
    if findings.gap is not None:
        yield "Gap", f"{findings.gap:.1%}", "above the bound"
    best = min((rival for rival in findings.rivals if rival.time), key=_time, default=None)
    if best is not None and own:
        yield "Speed-up", f"{_time(best) / own:.2f}×", f"over {best.name}, the best baseline"


def _rate_cards(findings: Findings) -> Iterator[tuple[str, str, str]]:
    if findings.rates is not None:
        algorithm, bus = findings.rates
        text = f"algorithm bandwidth {algorithm / 1e9:,.2f} GB/s, as nccl-tests counts"
        yield "Bus bandwidth", f"{bus / 1e9:,.2f} GB/s", text


def rivals(findings: Findings) -> str:
    """Ours, the baselines that ran and the bound, the quickest first, with bars."""
    own = int(findings.algorithm.duration)
    rows = [(_OWN, findings.algorithm.provenance.method, own, "")]
    rows += [
        (r.name, r.description, _time(r), f"{_time(r) / max(own, 1):.2f}×")
        for r in findings.rivals
        if r.time
    ]
    if findings.bound is not None:
        rows.append(("lower bound", "no algorithm is faster", int(findings.bound.value), ""))
    longest = max(max(row[2] for row in rows), 1)
    body = "".join(
        f"<tr{' class=own' * (name == _OWN)}>"
        f'<th scope="row">{escape(name)}<span class="what">{escape(what)}</span></th>'
        f'<td class="number">{escape(time_text(time))}</td><td class="number">{speed}</td>'
        f'<td class="bar" aria-hidden="true"><span style="width:{100 * time / longest:.1f}%"></span></td></tr>'
        for name, what, time, speed in sorted(rows, key=lambda row: row[2])
    )
    head = _head(("", "Algorithm"), ("number", "Time"), ("number", "Ours is faster by"))
    head = head.replace("</tr>", '<td class="bar" aria-hidden="true"></td></tr>')
    return f"<table><caption>Time, beside baselines and the bound</caption>{head}<tbody>{body}</tbody></table>"


def left_out(findings: Findings) -> str:
    """The baselines that did not run, by reason."""
    names: dict[str, list[str]] = {}
    for rival in findings.rivals:
        if rival.time is None:
            names.setdefault(rival.reason, []).append(rival.name)
    lines = [f"{escape(', '.join(who))} ({escape(reason)})" for reason, who in names.items()]
    if not findings.rivals:
        lines = ["all of them, as asked"]
    return f"<p class=note>Baselines left out: {'; '.join(lines)}.</p>" if lines else ""


def numbered_table(
    caption: str, what: str, names: Sequence[str], rows: Iterable[Row], numeric: Sequence[int]
) -> str:
    """A table of links or chunks; their numbers become buttons once the script runs."""
    kinds = ["number" if column in numeric else "" for column in range(len(names))]
    body = "".join(
        f'<tr><th scope="row" data-{what}="{row.number}">{row.number}</th>'
        + "".join(
            f'<td class="{kind}">{escape(cell)}</td>'
            for kind, cell in zip(kinds, row.cells, strict=True)
        )
        + "</tr>"
        for row in rows
    )
    head = _head(("", what.capitalize()), *zip(kinds, names, strict=True))
    if not body:
        return f"<p>{escape(caption)}: there are none.</p>"
    return f'<div class="scroll"><table><caption>{escape(caption)}</caption>{head}<tbody>{body}</tbody></table></div>'


def usage_table(algorithm: Algorithm, curve: NDArray[np.float32]) -> str:
    """The curve in tenths of the time, for those who cannot see it."""
    tenths = [
        float(part.mean()) if len(part) else 0.0
        for part in np.array_split(curve.sum(axis=0), _TENTHS)
    ]
    step = int(algorithm.duration) / _TENTHS
    body = "".join(
        f'<tr><th scope="row">{time_text(round(k * step))} to {time_text(round((k + 1) * step))}</th>'
        f'<td class="number">{share:.1%}</td></tr>'
        for k, share in enumerate(tenths)
    )
    head = _head(("", "Time"), ("number", "Links busy"))
    return (
        f"<table><caption>Share of links that are busy</caption>{head}<tbody>{body}</tbody></table>"
    )


def commands(source: str | None) -> str:
    """How to go on from here: verify, simulate, and export to every format that there is."""
    from pccl.formats.registry import FORMATS

    file = source or "algorithm.pccl"
    stem = Path(file).stem
    lines = [] if source else [("Save the algorithm, in Python", f'algorithm.save("{file}")')]
    lines.append(("Check it again", f"pccl verify {shlex.quote(file)}"))
    lines.append(
        ("Run it on slower or unsteady links", f"pccl simulate {shlex.quote(file)} --jitter 0.1")
    )
    for entry in FORMATS.values():
        out = stem + (entry.suffixes[0] if entry.suffixes else f"-{entry.name}")
        line = f"pccl export {shlex.quote(file)} --format {entry.name} -o {shlex.quote(out)}"
        lines.append((f"For {entry.name}: {entry.description}", line))
    return "".join(
        f"<dt>{escape(what)}</dt><dd><code>{escape(line)}</code></dd>" for what, line in lines
    )


def notes(algorithm: Algorithm, load: Load, shown: Sample, verified: bool) -> str:
    """What is exact on this page and what is a sample."""
    everything = len(shown.transfers) == len(algorithm.transfers)
    lines = [
        "All times, bounds, tables, curves and heat maps count every transfer. Curves and heat maps divide the time "
        f"into {load.share.shape[1]:,} intervals.",
        "Moving chunks are all chunks with all their transfers."
        if everything
        else f"Moving chunks are a sample: {len(shown.chunks):,} of {len(algorithm.conditions):,} chunks, with "
        f"{len(shown.transfers):,} of {len(algorithm.transfers):,} transfers. The latest chunks are among them; the "
        "others are drawn at random from every collective, in proportion.",
        "The algorithm was verified: every chunk gets where it must, and no link carries two at a time."
        if verified
        else "The algorithm was not verified for this page.",
    ]
    if not load.apart:
        lines.append(
            "There are too many collectives to tell apart how busy they keep links: filters choose moving chunks only."
        )
    return "".join(f"<li>{escape(line)}</li>" for line in lines)


def _head(*columns: tuple[str, str]) -> str:
    cells = "".join(f'<th scope="col" class="{kind}">{escape(name)}</th>' for kind, name in columns)
    return f"<thead><tr>{cells}</tr></thead>"


def _time(rival: Rival) -> int:
    return rival.time or 0
