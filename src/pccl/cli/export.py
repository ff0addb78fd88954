"""``pccl export``: algorithms for runtimes, simulators and people."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import click

from pccl.cli.console import check_writable, print_facts
from pccl.cli.options import (
    command,
    file_argument,
    format_option,
    format_options,
    given_options,
    output_option,
    quiet_option,
)
from pccl.errors import PcclError
from pccl.formats.registry import FORMATS, find_format

if TYPE_CHECKING:
    from pccl.algorithm import Algorithm


@command(
    "pccl export a2a.pccl --format msccl -o a2a.xml",
    "pccl export a2a.pccl -o a2a.xml --target rccl --instances 2",
    "pccl export group.pccl -o group.xml --all-ranks",
    "pccl export a2a.pccl --format csv -o -",
    then="Formats: " + "; ".join(f"{f.name}, {f.description}" for f in FORMATS.values()) + ".",
)
@file_argument
@format_option("the output")
@output_option("The file or folder to write; - for standard output.")
@quiet_option
@format_options((f, f.options) for f in FORMATS.values())
def export(file: Path, name: str | None, output: Path, quiet: bool, **flags: Any) -> None:
    """Write the algorithm of a .pccl FILE in the format of another program."""
    chosen = find_format(output, name)
    options = given_options(chosen, chosen.options, flags)
    from pccl.algorithm import load
    from pccl.formats import export as write

    if output == Path("-"):
        _print_file(load(file), chosen.name, chosen.suffixes, options)
        return
    if chosen.suffixes:  # a file, and not a folder
        check_writable(output, (output.suffix,), "it")
    facts = write(load(file), output, chosen.name, **options)
    if not quiet:
        about = {"format": f"{chosen.name}, {chosen.description}"}
        print_facts({**about, **facts, "written to": str(output)})


def _print_file(
    algorithm: Algorithm, name: str, suffixes: tuple[str, ...], options: dict[str, Any]
) -> None:
    """Write to standard output, and nothing else there; by way of a file, which all writers know how to write."""
    from pccl.formats import export as write

    if not suffixes:
        raise PcclError(f"{name} is a folder, which cannot go to standard output")
    with TemporaryDirectory() as folder:
        path = Path(folder) / f"algorithm{suffixes[0]}"
        write(algorithm, path, name, **options)
        click.echo(path.read_bytes(), nl=False)
