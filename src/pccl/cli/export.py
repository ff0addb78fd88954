"""``pccl export``: algorithms for runtimes, simulators and people."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from pccl.cli.console import check_writable, examples, print_facts
from pccl.cli.options import format_options, given_options
from pccl.formats.registry import FORMATS, find_format

__all__ = ["export"]


@click.command(
    short_help="Write an algorithm for a runtime, a simulator, or people.",
    epilog=examples(
        "pccl export a2a.pccl --format msccl -o a2a.xml",
        "pccl export a2a.pccl -o a2a.xml --target rccl --instances 2",
        "pccl export group.pccl -o group.xml --all-ranks",
        then="Formats: " + "; ".join(f"{f.name}, {f.description}" for f in FORMATS.values()) + ".",
    ),
)
@click.argument("file", type=click.Path(path_type=Path))
@click.option(
    "-f",
    "--format",
    "name",
    metavar="NAME",
    help="One of those below. Default: what OUT ends with.",
)
@click.option(
    "-o",
    "--output",
    "out",
    metavar="OUT",
    required=True,
    type=click.Path(path_type=Path),
    help="To write.",
)
@click.option("-q", "--quiet", is_flag=True, help="Print nothing but errors.")
@format_options({name: (f, f.options) for name, f in FORMATS.items()})
def export(file: Path, name: str | None, out: Path, quiet: bool, **flags: Any) -> None:
    """Write the algorithm of a .pccl FILE in the format of another program."""
    chosen = find_format(out, name)
    options = given_options(chosen, chosen.options, flags)
    if chosen.suffixes:  # a file, and not a folder
        check_writable(out, (out.suffix,), "it")
    from pccl.algorithm import load
    from pccl.formats import export as write

    facts = write(load(file), out, chosen.name, **options)
    if not quiet:
        print_facts(
            {"format": f"{chosen.name}, {chosen.description}", **facts, "written to": str(out)}
        )
