"""Networks as people name them on the command line: a text or files, what files do not tell, damage and changes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from pccl.cli.console import print_error
from pccl.cli.options import all_of, option
from pccl.units import counted

if TYPE_CHECKING:
    from pccl.topology import Topology
    from pccl.topology.importers import Reading

NETWORK_FLAGS = {
    "without": option(
        "--without NAMES",
        "Take out what has failed: npu5, 'rail*', or a cable '24-27:infiniband*'. Repeatable.",
        multiple=True,
    ),
    "set": option(
        "--set changes NAMES.FIGURE=VALUE",
        "Change figures: 'rail*.bandwidth=25GB/s', '0-7:nvswitch0.bandwidth=50%'. Repeatable.",
        multiple=True,
    ),
    "gpu": option("--gpu MODEL", "What the GPUs are, for a file that does not tell: h100."),
    "nic": option("--nic BANDWIDTH", "How fast NICs are, for a file that does not tell: 50GB/s."),
    "boxes": option(
        "--boxes N", "How many boxes there are like the one in the file.", type=click.IntRange(1)
    ),
}
# What says more about files.
_OF_FILES = ("gpu", "nic", "boxes")
# As parameters of a function, where --set would hide a builtin.
FLAG_NAMES = ("without", "changes", *_OF_FILES)

network_options = all_of(NETWORK_FLAGS.values())
"""Give a command the options that change a network, or complete one from a file."""


def read_network(text: str, flags: dict[str, Any]) -> tuple[Topology, Reading | None]:
    """Return the network that a text and flags stand for; if it comes from files, also what was found in them."""
    from pccl.topology.edits import damaged
    from pccl.topology.language import files_in, parse_topology

    given = {name: flags[name] for name in _OF_FILES if flags.get(name) is not None}
    files = files_in(text)
    reading = None
    if files:
        from pccl.topology.importers import read

        paths, options = files
        reading = read(*paths, **options | given)
        network = reading.topology
    else:
        for name in given:
            raise click.UsageError(f"--{name} says more about a file, and {text!r} is none")
        network = parse_topology(text)
    network = damaged(network, flags.get("without") or ())
    return network.edited(flags.get("changes") or ()), reading


def note_assumptions(topology: Topology, reading: Reading | None) -> None:
    """Tell people on stderr how much of a network from files was assumed."""
    if reading and reading.assumed:
        count = counted(len(reading.assumed), "assumption")
        print_error(f"{count} about {topology.name}; 'pccl topology' lists them", prefix="note: ")
