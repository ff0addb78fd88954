"""``pccl report``: everything about an algorithm in one page."""

from __future__ import annotations

from pathlib import Path

import click

from pccl.cli.console import check_writable, examples, print_facts, progress

__all__ = ["report"]


@click.command(
    short_help="Write a page to look at an algorithm with.",
    epilog=examples(
        "pccl report a2a.pccl -o report.html",
        "pccl report a2a.pccl -o report.html --baseline direct --baseline confined",
        "pccl report large.pccl -o large.html --no-baselines --no-bound",
    ),
)
@click.argument("file", type=click.Path(path_type=Path))
@click.option("-o", "--output", "out", metavar="OUT", required=True, type=click.Path(path_type=Path),
              help="The page to write, which ends with .html.")  # fmt: skip
@click.option("--baseline", "names", metavar="NAME", multiple=True,
              help="A baseline to compare with. Repeatable. Default: all that take little time.")  # fmt: skip
@click.option("--no-baselines", is_flag=True, help="Compare with no baseline.")
@click.option("--no-bound", is_flag=True, help="Prove no lower bound.")
@click.option("--no-verify", is_flag=True, help="Do not check the algorithm first.")
@click.option("-q", "--quiet", is_flag=True, help="Print nothing but errors.")
def report(
    file: Path,
    out: Path,
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
    check_writable(out, (".html", ".htm"), "a report")
    from pccl.algorithm import load
    from pccl.reporting import report as write

    with progress(quiet) as line:
        facts = write(
            load(file), out, baselines=list(names) or not no_baselines, bound=not no_bound, verify=not no_verify,
            source=file.name, progress=line,
        )  # fmt: skip
    if not quiet:
        print_facts({"file": str(file), **facts, "written to": str(out)})
