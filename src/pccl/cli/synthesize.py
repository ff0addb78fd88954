"""``pccl synthesize``: from flags or a spec file to a verified algorithm."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from pccl.cli.console import check_writable, print_facts, print_json, watching
from pccl.cli.options import command, json_option, output_option, quiet_option, settings_options
from pccl.cli.show import describe
from pccl.cli.task import read_task, task_options


@command(
    "pccl synthesize --topology mesh:8x8 --collective all-to-all --size 8MiB --output a2a.pccl",
    "pccl synthesize -t ring:8 -c all-gather -s 1MiB --group 0-3 --group 4-7 --chunks 2",
    "pccl synthesize -t torus:8x8 -c all-reduce -s 64MiB --mesh dp=8,tp=8 --along tp",
    "pccl synthesize -t h100:2 -c broadcast -s 1GiB --root 8 --chunks 16 --json",
    "pccl synthesize examples/mix.yaml --effort thorough --time-limit 60 --output mix.pccl",
    then="all-to-all-v, custom patterns and mixtures are for spec files, which docs/spec.md describes.",
)
@task_options
@settings_options
@output_option("Write the algorithm to a .pccl file.", required=False)
@json_option
@quiet_option
@click.option("-v", "--verbose", is_flag=True, help="Print what was found when, on stderr.")
@click.option("--schema", is_flag=True, help="Print the JSON Schema of spec files and exit.")
def synthesize(
    spec: Path | None, as_json: bool, quiet: bool, verbose: bool, schema: bool, **flags: Any
) -> None:
    """Find an algorithm for collectives on a network, given by flags or by a SPEC file.

    On Ctrl-C the best that was found by then is kept.
    """
    if schema:
        from pccl.spec import spec_schema

        print_json(spec_schema())
        return
    task = read_task(spec, flags)
    if task.output is not None:  # before the work begins
        check_writable(task.output, (".pccl",), "an algorithm")
    with watching(quiet, verbose) as watch:
        from pccl.synthesis import synthesize as find  # takes a moment: Numba

        algorithm = find(
            task.topology,
            *task.collectives,
            settings=task.settings,
            progress=watch.progress,
            log=watch.log,
        )
    if task.output is not None:
        algorithm.save(task.output)
    if quiet and not as_json:
        return
    if algorithm.bound is None:
        from pccl.bounds import lower_bound

        # For any number of chunks, if none is given.
        bound = lower_bound(task.topology, *task.collectives)
        algorithm = replace(algorithm, bound=bound)
    if as_json:
        search = {"verified": task.settings.verify, "interrupted": watch.interrupted}
        print_json(describe(algorithm, task.output) | search)
        return
    facts = algorithm.facts()
    facts["verified"] = "yes" if task.settings.verify else "no, as asked"
    if watch.interrupted:
        facts["interrupted"] = "this is the best that was found by then"
    if task.output is not None:
        facts["saved to"] = str(task.output)
    print_facts(facts)
