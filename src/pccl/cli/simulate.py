"""``pccl simulate``: what an algorithm does when it runs, also in a world that differs from the model."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from pccl.cli.console import print_facts, print_json, print_table
from pccl.cli.options import SHARE, command, file_argument, json_option

if TYPE_CHECKING:
    from pccl._arrays import Ints
    from pccl.analysis import SimulatedTransfers, Simulation

# Busiest links and latest chunks that are named.
_FEW = 3
_INTERVALS = 10
_COLUMNS = (">planned us", ">start us", ">free us", ">arrival us", ">chunk", "link")
_SERVED = {"planned": "in the planned order", "fifo": "first come, first served"}


@command(
    "pccl simulate a2a.pccl",
    "pccl simulate a2a.pccl --discipline fifo",
    "pccl simulate a2a.pccl --slow 3=2.0 --slow 7=1.5",
    "pccl simulate a2a.pccl --jitter 10% --seed 4 --json",
    "pccl simulate a2a.pccl --topology mesh:8x8@25GB/s,1us",
    "pccl simulate a2a.pccl --chunk 5",
)
@file_argument
@click.option(
    "--discipline",
    type=click.Choice(list(_SERVED)),
    default="planned",
    show_default=True,
    help="How links serve: in the planned order, or as chunks become ready.",
)
@click.option(
    "--slow",
    metavar="LINK=FACTOR",
    multiple=True,
    help="A link that takes so many times longer. Repeatable.",
)
@click.option(
    "--jitter",
    metavar="SHARE",
    type=SHARE,
    default=0.0,
    help="Transmissions take up to this share longer: 10% or 0.1.",
)
@click.option(
    "--seed", metavar="N", type=click.IntRange(0), default=0, help="For the jitter. Default: 0."
)
@click.option(
    "-t",
    "--topology",
    metavar="TEXT",
    help="A network with the same links whose figures count instead.",
)
@click.option(
    "--chunk",
    metavar="N",
    type=int,
    help="Print the transfers of this chunk, in the order of time.",
)
@click.option(
    "--link",
    metavar="N",
    type=int,
    help="Print the transfers over this link, in the order of time.",
)
@json_option
def simulate(
    file: Path,
    slow: tuple[str, ...],
    topology: str | None,
    chunk: int | None,
    link: int | None,
    as_json: bool,
    **options: Any,
) -> None:
    """Run an algorithm from what depends on what alone, and compare with its plan."""
    factors = dict(_factor(text) for text in slow)
    if len(factors) < len(slow):
        raise click.UsageError("--slow is given twice for one link")
    from pccl.algorithm import load
    from pccl.analysis import simulate as run
    from pccl.topology import parse_topology

    world = None if topology is None else parse_topology(topology)
    result = run(load(file), **options, slowdown=factors, topology=world)
    timelines = {}
    if chunk is not None:
        timelines["chunk_timeline"] = list(_moments(result.chunk_timeline(chunk)))
    if link is not None:
        timelines["link_timeline"] = list(_moments(result.link_timeline(link)))
    if as_json:
        print_json(_document(file, result) | {"slowdown": factors} | options | timelines)
        return
    print_facts(_facts(file, result))
    for timeline in timelines.values():
        click.echo()
        print_table(_COLUMNS, (_row(result, moment) for moment in timeline), len(timeline))


def _factor(text: str) -> tuple[int, float]:
    link, _, factor = text.partition("=")
    try:
        return int(link), float(factor)
    except ValueError:
        raise click.UsageError(
            f"--slow {text!r} is not a link and a factor, such as 3=2.0"
        ) from None


def _document(file: Path, result: Simulation) -> dict[str, Any]:
    topology = result.algorithm.topology
    planned = int(result.algorithm.duration)
    finish = int(result.finish)
    over_time = result.utilization_over_time(_INTERVALS).tolist()
    return {
        "file": str(file),
        "discipline": result.discipline,
        "planned_ps": planned,
        "finish_ps": finish,
        "finish_over_planned": finish / planned if planned else 1.0,
        "utilization": float(result.utilization.mean()) if len(result.utilization) else 0.0,
        "utilization_over_time": [round(share, 6) for share in over_time],
        "busiest_links": [
            {
                "link": link,
                "src": int(topology.src[link]),
                "dst": int(topology.dst[link]),
                "busy_ps": int(result.link_busy[link]),
                "utilization": float(result.utilization[link]),
            }
            for link in _largest(result.link_busy)
        ],
        "latest_chunks": [
            {"chunk": chunk, "finish_ps": int(result.chunk_finish[chunk])}
            for chunk in _largest(result.chunk_finish)
        ],
    }


def _facts(file: Path, result: Simulation) -> dict[str, str]:
    from pccl.units import time_text

    planned = int(result.algorithm.duration)
    finish = int(result.finish)
    change = f"{finish / planned - 1:+.1%}" if planned and finish != planned else "as planned"
    facts = {
        "file": str(file),
        "served": _SERVED[result.discipline],
        "planned": time_text(planned),
        "finish": f"{time_text(finish)}, {change}",
    }
    if not len(result.algorithm.transfers):
        return facts
    shares = result.utilization
    over_time = " ".join(f"{share:.0%}" for share in result.utilization_over_time(_INTERVALS))
    busiest = [
        f"{shares[link]:.1%} {result.algorithm.topology.link_text(link)}"
        for link in _largest(result.link_busy)
    ]
    latest = [
        f"{chunk} at {time_text(int(result.chunk_finish[chunk]))}"
        for chunk in _largest(result.chunk_finish)
    ]
    facts["links"] = f"{shares.mean():.1%} busy on average; over time {over_time}"
    facts["busiest"] = f"\n{'':<13}".join(busiest)
    facts["last chunks"] = ", ".join(latest)
    return facts


def _largest(values: Ints) -> list[int]:
    """Numbers of the few largest values, the largest first; of equal ones, the first."""
    import numpy as np

    few = np.argsort(-values, kind="stable")[:_FEW]
    return [int(i) for i in few if values[i]]


def _moments(timeline: SimulatedTransfers) -> Iterator[dict[str, int]]:
    names = ("transfer", "chunk", "link", "start_ps", "free_ps", "arrival_ps")
    for row in zip(*(column.tolist() for column in timeline), strict=True):
        yield dict(zip(names, row, strict=True))


def _row(result: Simulation, moment: dict[str, int]) -> tuple[object, ...]:
    planned = int(result.algorithm.transfers.start[moment["transfer"]])
    times = (planned, moment["start_ps"], moment["free_ps"], moment["arrival_ps"])
    link = result.algorithm.topology.link_text(moment["link"])
    return *(f"{time / 1e6:,.3f}" for time in times), moment["chunk"], link
