"""``pccl plot`` and ``pccl report``: figures of algorithms and networks, and everything about one in one page."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from pccl.cli.console import check_writable, print_facts
from pccl.cli.networks import FLAG_NAMES, network_options, read_network
from pccl.cli.options import (
    command,
    complete_topology,
    completing,
    file_argument,
    format_options,
    option,
    output_option,
    quiet_option,
)
from pccl.cli.progress import watching
from pccl.reporting.figures import FIGURES, SUFFIXES, find_figure
from pccl.reporting.figures import plot as draw


@command(
    "pccl plot a2a.pccl --kind heatmap -o heat.svg",
    "pccl plot a2a.pccl --kind utilization --against direct,bruck -o busy.png",
    "pccl plot a2a.pccl --kind timeline --links 20 -o links.pdf",
    "pccl plot ring.pccl --kind ten -o ten.svg",
    "pccl plot ar.pccl --kind sizes --sizes 1K:64M -o sizes.png",
    "pccl plot h100:4 --kind topology -o h100.svg",
    "pccl plot h100:4 --without '24-27:rail*' --kind topology -o damaged.svg",
    then=f"Kinds: {'; '.join(f'{kind.name}, {kind.description}' for kind in FIGURES.values())}. "
    "They are shown in docs/figures.md.",
)
# Plain text, since it may be a network such as mesh:8x8.
@click.argument("file", shell_complete=complete_topology)
@option(
    "-k --kind KIND",
    f"One of {', '.join(FIGURES)}.",
    required=True,
    shell_complete=completing(lambda: FIGURES),
)
@output_option(f"The figure to write: {', '.join(SUFFIXES)}.")
@format_options((figure, figure.options) for figure in FIGURES.values())
@network_options
@quiet_option
def plot(file: str, kind: str, output: Path, quiet: bool, **flags: Any) -> None:
    """Draw the algorithm of a .pccl FILE.

    For the kind topology, FILE may also be a network: a line of text such as mesh:8x8, or a file.
    """
    about = {name: flags.pop(name) for name in FLAG_NAMES}
    options = {name: value for name, value in flags.items() if value is not None}
    # Both are checked before the file is loaded and matplotlib imported, which takes seconds.
    chosen = find_figure(kind, options)
    check_writable(output, SUFFIXES, "a figure")
    # A name such as mesh:8x8 is no file; a topology in a file has another end than .pccl.
    subject: Any
    if chosen.of_topology and Path(file).suffix != ".pccl":
        subject, _ = read_network(file, about)
    elif any(about.values()):
        raise click.UsageError(f"{file} has its network; leave out what changes one")
    else:
        from pccl.algorithm import load

        subject = load(file)
    with watching(quiet) as watch:
        draw(subject, kind, output, progress=watch.progress, **options)
    if not quiet:
        print_facts({"figure": f"{kind}, {chosen.description}", "written to": str(output)})


@command(
    "pccl report a2a.pccl -o report.html",
    "pccl report a2a.pccl -o report.html --baseline direct --baseline confined",
    "pccl report large.pccl -o large.html --no-baselines --no-bound",
)
@file_argument
@output_option("The page to write, which ends with .html.")
@option(
    "--baseline names BASELINE",
    "A baseline to compare with. Repeatable. Default: all that take little time.",
    multiple=True,
)
@option("--no-baselines", "Compare with no baseline.")
@option("--no-bound", "Prove no lower bound.")
@option("--no-verify", "Do not check the algorithm first.")
@quiet_option
def report(
    file: Path,
    output: Path,
    names: tuple[str, ...],
    no_baselines: bool,
    no_bound: bool,
    no_verify: bool,
    quiet: bool,
) -> None:
    """Write a page about the algorithm of a .pccl FILE: what was asked and found, and what happens over time.

    The page is one file. Any browser opens it, also without a network.
    """
    # Asking for one baseline and for none at all is a slip, and not a wish.
    if names and no_baselines:
        raise click.UsageError("--baseline and --no-baselines exclude each other")
    check_writable(output, (".html", ".htm"), "a report")
    from pccl.algorithm import load
    from pccl.reporting import report as write

    with watching(quiet) as watch:
        facts = write(
            load(file),
            output,
            # Those that are named, or else all that are quick (True), or none (False).
            baselines=list(names) or not no_baselines,
            bound=not no_bound,
            verify=not no_verify,
            # Commands on the page name the file as it is called beside the page, not where it was.
            source=file.name,
            progress=watch.progress,
        )
    if not quiet:
        print_facts({"file": str(file), **facts, "written to": str(output)})
