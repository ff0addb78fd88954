"""``pccl plot``: figures of algorithms and networks."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from pccl.cli.console import check_writable, examples, print_facts
from pccl.reporting.figures import FIGURES, SUFFIXES, find_figure
from pccl.reporting.figures import plot as draw

__all__ = ["plot"]


@click.command(
    short_help="Draw an algorithm or a network.",
    epilog=examples(
        "pccl plot a2a.pccl --kind heatmap -o heat.svg",
        "pccl plot a2a.pccl --kind utilization --against direct,bruck -o busy.png",
        "pccl plot a2a.pccl --kind timeline --links 20 -o links.pdf",
        "pccl plot ring.pccl --kind ten -o ten.svg",
        "pccl plot h100:4 --kind topology -o h100.svg",
        then="Kinds: heatmap, how busy each link is, on the network; utilization, the share of links that are busy, "
        "over time; timeline, when each link is held; ten, the time-expanded network of small algorithms; topology, "
        "the network and its process groups. They are shown in docs/figures.md.",
    ),
)
@click.argument("file")
@click.option("-k", "--kind", metavar="KIND", required=True, help=f"One of {', '.join(FIGURES)}.")
@click.option(
    "-o",
    "--output",
    "out",
    metavar="OUT",
    required=True,
    type=click.Path(path_type=Path),
    help="A .svg, .png or .pdf.",
)
@click.option(
    "--against", metavar="NAMES", help="[utilization] Baselines to set beside it: direct,ring."
)
@click.option(
    "--links",
    metavar="N",
    type=click.IntRange(1),
    help="[timeline] How many links, the busiest. Default: 40.",
)
@click.option("-q", "--quiet", is_flag=True, help="Print nothing but errors.")
def plot(
    file: str, kind: str, out: Path, against: str | None, links: int | None, quiet: bool
) -> None:
    """Draw the algorithm of a .pccl FILE.

    For the kind topology, FILE may also be a network: a line of text such as mesh:8x8, or a file.
    """
    given: dict[str, Any] = {"against": against, "links": links}
    options = {name: value for name, value in given.items() if value is not None}
    chosen = find_figure(kind, options)
    check_writable(out, SUFFIXES, "a figure")
    draw(_subject(file, chosen.of_topology), kind, out, **options)
    if not quiet:
        print_facts({"figure": f"{kind}, {chosen.description}", "written to": str(out)})


def _subject(file: str, of_topology: bool) -> Any:
    if of_topology and Path(file).suffix != ".pccl":
        from pccl.topology import parse_topology

        return parse_topology(file)
    from pccl.algorithm import load

    return load(Path(file))
