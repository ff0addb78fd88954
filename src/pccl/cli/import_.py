"""``pccl import``: what people run today, as an algorithm to simulate and judge."""

from __future__ import annotations

from pathlib import Path

import click

from pccl.cli.console import check_writable, print_facts
from pccl.cli.options import command, file_argument, output_option, quiet_option


@command(
    "pccl import algo.xml --topology dgx1 --size 64MiB -o algo.pccl",
    "pccl import ring.xml --topology mesh:4x4 --group 0-3 --size 4MiB -o ring.pccl",
    "pccl import allreduce.xml --topology h100 --unroll --size 64MiB -o allreduce.pccl",
    name="import",
)
@file_argument
@click.option(
    "-t", "--topology", metavar="TEXT", required=True, help="The network: mesh:8x8, or a file."
)
@click.option(
    "-s", "--size", metavar="SIZE", required=True, help="Buffer of one rank with its unit: 8MiB."
)
@click.option(
    "-g", "--group", metavar="NPUS", help="The NPU of each rank: 0-7, 0-56:8. Default: all NPUs."
)
@click.option(
    "--members", metavar="RANKS", help="The ranks that the collective is for, if others only relay."
)
@click.option(
    "--unroll",
    is_flag=True,
    help="Replace switches by direct links between the NPUs that they join.",
)
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
        network.unroll_switches() if unroll else network,
        size=size,
        group=None if group is None else parse_group(group),
        members=None if members is None else parse_group(members),
    )
    algorithm.save(output)
    if not quiet:
        print_facts(algorithm.facts() | {"saved to": str(output)})
