"""``pccl simulate``: what an algorithm does when it runs, also in a world that differs from the model."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from pccl.cli.console import examples, print_facts, print_json

if TYPE_CHECKING:
    from pccl.analysis import Simulation

__all__ = ["simulate"]


@click.command(
    short_help="Run an algorithm, also on slower or unsteady links.",
    epilog=examples(
        "pccl simulate a2a.pccl",
        "pccl simulate a2a.pccl --discipline fifo",
        "pccl simulate a2a.pccl --slow 3=2.0 --slow 7=1.5",
        "pccl simulate a2a.pccl --jitter 0.1 --seed 4 --json",
        "pccl simulate a2a.pccl --topology mesh:8x8@25GB/s,1us",
    ),
)
@click.argument("file", type=click.Path(path_type=Path))
@click.option(
    "--discipline",
    type=click.Choice(["planned", "fifo"]),
    default="planned",
    show_default=True,
    help="How links serve: in the planned order, or as chunks become ready.",
)
@click.option(
    "--slow", metavar="LINK=FACTOR", multiple=True, help="A link that takes so many times longer. Repeatable."
)
@click.option("--jitter", metavar="SHARE", type=float, default=0.0, help="Transmissions take up to this share longer.")
@click.option("--seed", metavar="N", type=click.IntRange(0), default=0, help="For the jitter. Default: 0.")
@click.option("-t", "--topology", metavar="TEXT", help="A network with the same links whose figures count instead.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document instead of text.")
def simulate(
    file: Path, discipline: str, slow: tuple[str, ...], jitter: float, seed: int, topology: str | None, as_json: bool
) -> None:
    """Run an algorithm from what depends on what alone, and compare with its plan."""
    factors = dict(_factor(text) for text in slow)
    from pccl.algorithm import load
    from pccl.analysis import simulate as run
    from pccl.topology import parse_topology

    world = None if topology is None else parse_topology(topology)
    algorithm = load(file)
    result = run(algorithm, discipline, slowdown=factors, jitter=jitter, seed=seed, topology=world)
    if as_json:
        print_json(_document(file, result))
    else:
        print_facts(_facts(file, result))


def _factor(text: str) -> tuple[int, float]:
    link, _, factor = text.partition("=")
    try:
        return int(link), float(factor)
    except ValueError:
        raise click.UsageError(f"--slow {text!r} is not a link and a factor, such as 3=2.0") from None


def _document(file: Path, result: Simulation) -> dict[str, object]:
    return {
        "file": str(file),
        "discipline": result.discipline,
        "planned_ps": int(result.algorithm.duration),
        "finish_ps": int(result.finish),
        "utilization": float(result.utilization.mean()) if len(result.utilization) else 0.0,
    }


def _facts(file: Path, result: Simulation) -> dict[str, str]:
    from pccl.algorithm.core import time_text

    planned, finish = int(result.algorithm.duration), int(result.finish)
    facts = {
        "file": str(file),
        "served": "in the planned order" if result.discipline == "planned" else "first come, first served",
        "planned": time_text(planned),
        "finish": time_text(finish)
        + (f", {finish / planned - 1:+.1%}" if planned and finish != planned else ", as planned"),
    }
    if len(result.utilization):
        facts["links"] = f"{result.utilization.mean():.1%} busy on average, the busiest {result.utilization.max():.1%}"
        late = int(result.chunk_finish.argmax()) if len(result.chunk_finish) else 0
        facts["last chunk"] = f"{late}"
    return facts
