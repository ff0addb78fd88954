"""``pccl check``: runs the files of runtimes, whoever wrote them, and says what is wrong with them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pccl.cli.console import print_error, print_facts, print_json
from pccl.cli.options import (
    command,
    file_argument,
    format_option,
    format_options,
    given_options,
    json_option,
    quiet_option,
)
from pccl.formats.registry import FORMATS, find_format
from pccl.formats.registry import check as check_file

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
    for line in result.problems:
        print_error(f"{file}: {line}")
    if as_json:
        about = {"file": str(file), "correct": bool(result)}
        print_json(about | {"problems": result.problems, "facts": result.facts})
    elif not quiet and result:
        print_facts({"file": f"{file}: correct", **result.facts})
    return 0 if result else 1
