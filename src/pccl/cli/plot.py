"""``pccl plot``: figures of algorithms and networks."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from pccl.cli.console import check_writable, print_facts
from pccl.cli.options import command, format_options, output_option, quiet_option
from pccl.reporting.figures import FIGURES, SUFFIXES, find_figure
from pccl.reporting.figures import plot as draw


@command(
    "pccl plot a2a.pccl --kind heatmap -o heat.svg",
    "pccl plot a2a.pccl --kind utilization --against direct,bruck -o busy.png",
    "pccl plot a2a.pccl --kind timeline --links 20 -o links.pdf",
    "pccl plot ring.pccl --kind ten -o ten.svg",
    "pccl plot h100:4 --kind topology -o h100.svg",
    then=f"Kinds: {'; '.join(f'{kind.name}, {kind.description}' for kind in FIGURES.values())}. "
    "They are shown in docs/figures.md.",
)
@click.argument("file")
@click.option("-k", "--kind", metavar="KIND", required=True, help=f"One of {', '.join(FIGURES)}.")
@output_option(f"The figure to write: {', '.join(SUFFIXES)}.")
@format_options((figure, figure.options) for figure in FIGURES.values())
@quiet_option
def plot(file: str, kind: str, output: Path, quiet: bool, **flags: Any) -> None:
    """Draw the algorithm of a .pccl FILE.

    For the kind topology, FILE may also be a network: a line of text such as mesh:8x8, or a file.
    """
    options = {name: value for name, value in flags.items() if value is not None}
    chosen = find_figure(kind, options)
    check_writable(output, SUFFIXES, "a figure")
    draw(_subject(file, chosen.of_topology), kind, output, **options)
    if not quiet:
        print_facts({"figure": f"{kind}, {chosen.description}", "written to": str(output)})


def _subject(file: str, of_topology: bool) -> Any:
    if of_topology and Path(file).suffix != ".pccl":
        from pccl.topology import parse_topology

        return parse_topology(file)
    from pccl.algorithm import load

    return load(Path(file))
