"""``pccl verify``: whether .pccl files are right."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from pccl.cli.console import counted, print_error, print_json, print_line
from pccl.cli.options import FILE, command, json_option, quiet_option
from pccl.errors import PcclError, VerificationError

if TYPE_CHECKING:
    from pccl.algorithm import Algorithm

__all__ = ["verify"]


@command("pccl verify a2a.pccl", "pccl verify *.pccl --json")
@click.argument("files", metavar="FILE...", nargs=-1, required=True, type=FILE)
@json_option
@quiet_option
def verify(files: tuple[Path, ...], as_json: bool, quiet: bool) -> int:
    """Check .pccl files from scratch: every rule of the network, every promise of the collectives.

    Checked are: every transfer uses an existing link while it is free; the sender has what it sends when it sends it;
    sums count every contribution once; switches keep to their limits; every destination ends with what it was promised.

    The exit code is 1 if a file breaks a rule, 2 if one cannot be read.
    """
    worst = 0
    results = []
    for file in files:
        status, text, facts = _check(file)
        worst = max(worst, status)
        result = {"file": str(file), "correct": not status, **facts}
        if status:
            result["error"] = text
            print_error(text)
        elif not (quiet or as_json):
            print_line(text)
        results.append(result)
    if as_json:
        print_json({"files": results})
    return worst


def _check(file: Path) -> tuple[int, str, dict[str, Any]]:
    """The exit code for one file, the line to print, and what it holds."""
    from pccl.algorithm import load
    from pccl.algorithm import verify as check

    facts: dict[str, Any] = {}
    try:
        algorithm = load(file)
        facts = {
            "topology": algorithm.topology.name,
            "collectives": [collective.kind for collective in algorithm.collectives],
            "chunks": len(algorithm.conditions),
            "transfers": len(algorithm.transfers),
        }
        check(algorithm)
    except VerificationError as error:
        return 1, f"{file}: {error}", facts
    except PcclError as error:
        return 2, str(error), facts
    facts["duration_ps"] = int(algorithm.duration)
    return 0, f"{file}: correct: {_what(algorithm)}", facts


def _what(algorithm: Algorithm) -> str:
    kinds = Counter(collective.kind for collective in algorithm.collectives)
    tasks = " and ".join(
        kind if number == 1 else f"{number} x {kind}" for kind, number in kinds.items()
    )
    transfers = counted(len(algorithm.transfers), "transfer")
    chunks = counted(len(algorithm.conditions), "chunk")
    work = f"{transfers} deliver {chunks} in {algorithm.duration_text}"
    return f"{tasks} on {algorithm.topology.name}; {work}"
