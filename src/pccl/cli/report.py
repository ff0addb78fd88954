"""``pccl report``: everything about an algorithm in one page."""

from __future__ import annotations

from pathlib import Path

import click

from pccl.cli.console import check_writable, print_facts, watching
from pccl.cli.options import command, file_argument, output_option, quiet_option


@command(
    "pccl report a2a.pccl -o report.html",
    "pccl report a2a.pccl -o report.html --baseline direct --baseline confined",
    "pccl report large.pccl -o large.html --no-baselines --no-bound",
)
@file_argument
@output_option("The page to write, which ends with .html.")
@click.option(
    "--baseline",
    "names",
    metavar="NAME",
    multiple=True,
    help="A baseline to compare with. Repeatable. Default: all that take little time.",
)
@click.option("--no-baselines", is_flag=True, help="Compare with no baseline.")
@click.option("--no-bound", is_flag=True, help="Prove no lower bound.")
@click.option("--no-verify", is_flag=True, help="Do not check the algorithm first.")
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
    if names and no_baselines:
        raise click.UsageError("--baseline and --no-baselines exclude each other")
    check_writable(output, (".html", ".htm"), "a report")
    from pccl.algorithm import load
    from pccl.reporting import report as write

    with watching(quiet) as watch:
        facts = write(
            load(file),
            output,
            baselines=list(names) or not no_baselines,
            bound=not no_bound,
            verify=not no_verify,
            source=file.name,
            progress=watch.progress,
        )
    if not quiet:
        print_facts({"file": str(file), **facts, "written to": str(output)})
