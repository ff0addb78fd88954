"""``pccl bound``: what no algorithm can beat, and why."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pccl.cli.console import print_facts, print_json
from pccl.cli.options import command, json_option
from pccl.cli.task import read_task, task_options


@command(
    "pccl bound --topology mesh:8x8 --collective all-to-all --size 64MiB",
    "pccl bound examples/mix.yaml --json",
)
@task_options
@json_option
def bound(spec: Path | None, as_json: bool, **flags: Any) -> None:
    """Prove how long any algorithm must take, given flags or a SPEC file.

    It comes with a certificate: a chunk and its way, a set of devices and what must leave it, or prices of links.
    """
    task = read_task(spec, flags)
    from pccl.bounds import lower_bound
    from pccl.units import time_text

    found = lower_bound(task.topology, *task.collectives)
    if as_json:
        print_json(
            {
                "bound_ps": int(found.value),
                "kind": found.kind,
                "devices": list(found.certificate.get("devices", ())),
                "chunk": next(iter(found.certificate.get("chunk", ())), None),
                "prices": list(found.prices),
            }
        )
        return
    print_facts({"bound": time_text(found.value), "kind": found.kind, "because": str(found)})
