"""``pccl export``: algorithms for runtimes, simulators and people."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from pccl.cli.console import check_writable, print_facts
from pccl.cli.format_options import format_options, given_options
from pccl.cli.options import FILE, command, output_option, quiet_option
from pccl.formats.registry import FORMATS, find_format

__all__ = ["export"]


@command(
    "pccl export a2a.pccl --format msccl -o a2a.xml",
    "pccl export a2a.pccl -o a2a.xml --target rccl --instances 2",
    "pccl export group.pccl -o group.xml --all-ranks",
    then="Formats: " + "; ".join(f"{f.name}, {f.description}" for f in FORMATS.values()) + ".",
)
@click.argument("file", type=FILE)
@click.option(
    "-f",
    "--format",
    "name",
    metavar="NAME",
    help="One of those below. Default: what the output ends with.",
)
@output_option("The file or folder to write.")
@quiet_option
@format_options((f, f.options) for f in FORMATS.values())
def export(file: Path, name: str | None, output: Path, quiet: bool, **flags: Any) -> None:
    """Write the algorithm of a .pccl FILE in the format of another program."""
    chosen = find_format(output, name)
    options = given_options(chosen, chosen.options, flags)
    if chosen.suffixes:  # a file, and not a folder
        check_writable(output, (output.suffix,), "it")
    from pccl.algorithm import load
    from pccl.formats import export as write

    facts = write(load(file), output, chosen.name, **options)
    if not quiet:
        about = {"format": f"{chosen.name}, {chosen.description}"}
        print_facts({**about, **facts, "written to": str(output)})
