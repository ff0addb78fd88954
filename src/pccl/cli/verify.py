"""``pccl verify``: whether .pccl files are right."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import click

from pccl.cli.console import counted, print_error, print_json, print_line
from pccl.cli.options import FILE, command, json_option, quiet_option
from pccl.errors import PcclError, VerificationError


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
        result: dict[str, Any] = {"file": str(file), "correct": False}
        results.append(result)
        try:
            text = _check(file, result)
            if not (quiet or as_json):
                print_line(f"{file}: correct: {text}")
            continue
        except VerificationError as error:
            status = 1
            problem = f"{file}: {error}"
        except PcclError as error:
            status = 2
            problem = str(error)
        worst = max(worst, status)
        result["error"] = problem
        print_error(problem)
    if as_json:
        print_json({"files": results})
    return worst


def _check(file: Path, result: dict[str, Any]) -> str:
    """Add what is found in the file to its result, and return that in words if it is correct; otherwise raise."""
    from pccl.algorithm import load
    from pccl.algorithm import verify as check

    algorithm = load(file)
    kinds = [collective.kind for collective in algorithm.collectives]
    result["topology"] = algorithm.topology.name
    result["collectives"] = kinds
    result["chunks"] = len(algorithm.conditions)
    result["transfers"] = len(algorithm.transfers)
    check(algorithm)
    result["correct"] = True
    result["duration_ps"] = int(algorithm.duration)
    tasks = " and ".join(
        kind if number == 1 else f"{number} x {kind}" for kind, number in Counter(kinds).items()
    )
    transfers = counted(len(algorithm.transfers), "transfer")
    chunks = counted(len(algorithm.conditions), "chunk")
    work = f"{transfers} deliver {chunks} in {algorithm.duration_text}"
    return f"{tasks} on {algorithm.topology.name}; {work}"
