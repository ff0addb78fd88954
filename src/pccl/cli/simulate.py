"""``pccl simulate``: what an algorithm does when it runs, also in a world that differs from the model."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from pccl.cli.console import microseconds, print_facts, print_json, print_table, rows_of
from pccl.cli.options import command, file_argument, json_option, option

if TYPE_CHECKING:
    from pccl.analysis import Simulation

# Busiest links and latest chunks that are named.
_FEW = 3
_INTERVALS = 10
# What JSON calls the columns of simulated transfers, and what the table shows of them.
_MOMENT = ("transfer", "chunk", "link", "start_ps", "free_ps", "arrival_ps")
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
@option("--slow LINK=FACTOR", "A link that takes so many times longer. Repeatable.", multiple=True)
@option("--jitter SHARE", "Transmissions take up to this share longer: 10% or 0.1.", default=0.0)
@option("--seed N", "For the jitter. Default: 0.", type=click.IntRange(0), default=0)
@option("-t --topology TEXT", "A network with the same links whose figures count instead.")
@option("--chunk N", "Print the transfers of this chunk, in the order of time.", type=int)
@option("--link N", "Print the transfers over this link, in the order of time.", type=int)
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
    # A dictionary keeps the last; which one was meant cannot be known.
    if len(factors) < len(slow):
        raise click.UsageError("--slow is given twice for one link")
    from pccl.algorithm import load
    from pccl.analysis import simulate as run
    from pccl.topology import parse_topology

    # None is the network of the algorithm itself, with its figures.
    world = None if topology is None else parse_topology(topology)
    result = run(load(file), **options, slowdown=factors, topology=world)
    timelines = {}
    # Not 'if chunk', as there is a chunk 0.
    if chunk is not None:
        timelines["chunk_timeline"] = list(rows_of(_MOMENT, result.chunk_timeline(chunk)))
    if link is not None:
        timelines["link_timeline"] = list(rows_of(_MOMENT, result.link_timeline(link)))
    # The text says the same as the document, from the same figures.
    said = _document(file, result)
    if as_json:
        print_json(said | {"slowdown": factors} | options | timelines)
        return
    print_facts(_facts(said, result))
    for timeline in timelines.values():
        click.echo()
        print_table(_COLUMNS, (_row(result, moment) for moment in timeline), len(timeline))


def _factor(text: str) -> tuple[int, float]:
    link, _, factor = text.partition("=")
    try:
        # Whether there is such a link is for the simulator to say, which knows the network.
        return int(link), float(factor)
    except ValueError:
        raise click.UsageError(
            f"--slow {text!r} is not a link and a factor, such as 3=2.0"
        ) from None


def _document(file: Path, result: Simulation) -> dict[str, Any]:
    from pccl._arrays import largest

    topology = result.algorithm.topology
    planned = int(result.algorithm.duration)
    finish = int(result.finish)
    shares = result.utilization
    over_time = result.utilization_over_time(_INTERVALS).tolist()
    return {
        "file": str(file),
        "discipline": result.discipline,
        "planned_ps": planned,
        "finish_ps": finish,
        # An algorithm that moves nothing is as fast as planned.
        "finish_over_planned": finish / planned if planned else 1.0,
        "utilization": float(shares.mean()) if len(shares) else 0.0,
        # Shares come out of sums of floats, whose last digits mean nothing.
        "utilization_over_time": [round(share, 6) for share in over_time],
        "busiest_links": [
            {
                "link": link,
                "src": int(topology.src[link]),
                "dst": int(topology.dst[link]),
                "busy_ps": int(result.link_busy[link]),
                "utilization": float(shares[link]),
            }
            for link in largest(result.link_busy, _FEW).tolist()
        ],
        "needs": list(result.algorithm.needs),
        "latest_chunks": [
            {"chunk": chunk, "finish_ps": int(result.chunk_finish[chunk])}
            for chunk in largest(result.chunk_finish, _FEW).tolist()
        ],
    }


def _facts(said: dict[str, Any], result: Simulation) -> dict[str, str]:
    """The same in words."""
    from pccl.algorithm.core import needs_text
    from pccl.units import time_text

    planned = said["planned_ps"]
    finish = said["finish_ps"]
    # A share that rounds to nothing would hide whether it is exact, which is what a simulation of the plan shows.
    change = f"{finish / planned - 1:+.1%}" if planned and finish != planned else "as planned"
    # Neither sign says anything of nothing.
    change = "0.0%" if change in ("+0.0%", "-0.0%") else change
    facts = {
        "file": said["file"],
        "served": _SERVED[said["discipline"]],
        "planned": time_text(planned),
        "finish": f"{time_text(finish)}, {change}",
    }
    if said["needs"]:
        facts["needs"] = needs_text(result.algorithm.needs)
    # Nothing was held, and nothing was late.
    if not len(result.algorithm.transfers):
        return facts
    link_text = result.algorithm.topology.link_text
    over_time = " ".join(f"{share:.0%}" for share in said["utilization_over_time"])
    busiest = [
        f"{one['utilization']:.1%} {link_text(one['link'])}" for one in said["busiest_links"]
    ]
    latest = [f"{one['chunk']} at {time_text(one['finish_ps'])}" for one in said["latest_chunks"]]
    facts["links"] = f"{said['utilization']:.1%} busy on average; over time {over_time}"
    facts["busiest"] = f"\n{'':<13}".join(busiest)
    facts["last chunks"] = ", ".join(latest)
    return facts


def _row(result: Simulation, moment: dict[str, int]) -> Iterable[object]:
    # Beside the real start, so that a delay can be followed from transfer to transfer.
    planned = int(result.algorithm.transfers.start[moment["transfer"]])
    times = (planned, moment["start_ps"], moment["free_ps"], moment["arrival_ps"])
    link = result.algorithm.topology.link_text(moment["link"])
    return *map(microseconds, times), moment["chunk"], link
