"""``pccl export``, ``pccl check`` and ``pccl import``: files of runtimes, simulators and other programs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from pccl._files import scratch_folder
from pccl.cli.console import check_writable, print_error, print_facts, print_json
from pccl.cli.options import (
    command,
    file_argument,
    format_option,
    format_options,
    given_options,
    json_option,
    option,
    output_option,
    quiet_option,
)
from pccl.errors import PcclError
from pccl.formats.registry import FORMATS, find_format
from pccl.formats.registry import check as check_file


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
    # Before the file is loaded, which may take long: a flag that does not fit is known at once.
    chosen = find_format(output, name)
    options = given_options(chosen, chosen.options, flags)
    from pccl.algorithm import load
    from pccl.formats import export as write

    if output == Path("-"):
        # By way of a file, which all writers know how to write; and nothing else goes to standard output.
        algorithm = load(file)
        if not chosen.suffixes:
            raise PcclError(f"{chosen.name} is a folder, which cannot go to standard output")
        with scratch_folder() as folder:
            path = folder / f"algorithm{chosen.suffixes[0]}"
            write(algorithm, path, chosen.name, **options)
            # Bytes, because some formats are binary, and no line break that would not be in the file.
            click.echo(path.read_bytes(), nl=False)
        return
    if chosen.suffixes:  # a file, and not a folder
        check_writable(output, (output.suffix,), "it")
    facts = write(load(file), output, chosen.name, **options)
    if not quiet:
        # What was chosen by the end of a name should be seen.
        about = {"format": f"{chosen.name}, {chosen.description}"}
        print_facts({**about, **facts, "written to": str(output)})


# Problems beyond which nobody reads on.
_MOST_PROBLEMS = 100
_CHECKED = [f for f in FORMATS.values() if f.checker]


@command(
    "pccl check algo.xml",
    "pccl check algo.xml --target rccl --depth 1",
    "pccl check group.xml --group 0,3,5",
    then=f"Formats: {', '.join(f.name for f in _CHECKED)}. "
    "The exit code is 1 if there are problems, 2 if the file cannot be read.",
)
@file_argument
@format_option("FILE")
@json_option
@quiet_option
@format_options((f, f.checks) for f in _CHECKED)
def check(file: Path, name: str | None, as_json: bool, quiet: bool, **flags: Any) -> int:
    """Run a file that a runtime would execute, written by pccl or not, and list its problems, one on each line.

    Checked are: how it is written, the limits of the runtime, connections and their depth, deadlocks, races, and the
    results of the collective on real numbers.
    """
    chosen = find_format(file, name)
    result = check_file(file, chosen.name, **given_options(chosen, chosen.checks, flags))
    # Problems go to stderr in every case: with --json, standard output is one document.
    for line in result.problems[:_MOST_PROBLEMS]:
        print_error(f"{file}: {line}")
    more = len(result.problems) - _MOST_PROBLEMS
    if more > 0:
        print_error(f"{file}: and {more:,} more, which --json lists")
    if as_json:
        about = {"file": str(file), "correct": bool(result)}
        print_json(about | {"problems": result.problems, "facts": result.facts})
    elif not quiet and result:
        print_facts({"file": f"{file}: correct", **result.facts})
    # The exit code is for scripts, which would otherwise have to read the text.
    return 0 if result else 1


@command(
    "pccl import algo.xml --topology dgx1 --size 64MiB -o algo.pccl",
    "pccl import ring.xml --topology mesh:4x4 --group 0-3 --size 4MiB -o ring.pccl",
    "pccl import allreduce.xml --topology h100 --unroll --size 64MiB -o allreduce.pccl",
    name="import",
)
@file_argument
@option("-t --topology TEXT", "The network: mesh:8x8, or a file.", required=True)
@option("-s --size SIZE", "Buffer of one rank with its unit: 8MiB.", required=True)
@option("-g --group NPUS", "The NPU of each rank: 0-7, 0-56:8. Default: all NPUs.")
@option("--members RANKS", "The ranks that the collective is for, if others only relay.")
@option("--unroll", "Replace switches by direct links between the NPUs that they join.")
@output_option("The .pccl file to write.")
@quiet_option
def import_(
    file: Path,
    topology: str,
    size: str,
    group: str | None,
    members: str | None,
    unroll: bool,
    output: Path,
    quiet: bool,
) -> None:
    """Read an MSCCL-IR XML FILE as an algorithm on a network, and save it as a .pccl file.

    Messages between NPUs that are not adjacent take the shortest way. The result has passed the verifier.
    """
    check_writable(output, (".pccl",), "an algorithm")
    from pccl.collective import parse_group
    from pccl.formats import import_msccl
    from pccl.topology import parse_topology

    network = parse_topology(topology)
    algorithm = import_msccl(
        file,
        # Files for runtimes know no switches: their messages fit a network without any.
        network.unroll_switches() if unroll else network,
        size=size,
        # Left to the importer where it is not given: all NPUs, in their order.
        group=None if group is None else parse_group(group),
        members=None if members is None else parse_group(members),
    )
    algorithm.save(output)
    if not quiet:
        print_facts(algorithm.facts() | {"saved to": str(output)})
