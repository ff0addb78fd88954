"""``pccl synthesize``: from flags or a spec file to a verified algorithm."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from pccl.cli.console import check_writable, examples, print_facts, print_json, print_log, progress
from pccl.cli.task import read_task, solver_options, task_options

if TYPE_CHECKING:
    from pccl.algorithm import Algorithm
    from pccl.spec import Spec

__all__ = ["synthesize"]


@click.command(
    short_help="Find an algorithm, given flags or a spec file.",
    epilog=examples(
        "pccl synthesize --topology mesh:8x8 --collective all-to-all --size 8MiB --output a2a.pccl",
        "pccl synthesize -t ring:8 -c all-gather -s 1MiB --group 0-3 --group 4-7 --chunks 2",
        "pccl synthesize -t torus:8x8 -c all-reduce -s 64MiB --mesh dp=8,tp=8 --along tp",
        "pccl synthesize -t h100:2 -c broadcast -s 1GiB --root 8 --chunks 16 --json",
        "pccl synthesize examples/mix.yaml --effort thorough --time-limit 60 --output mix.pccl",
        then="all-to-all-v, custom patterns and mixtures are for spec files, which docs/spec.md describes.",
    ),
)
@task_options
@solver_options
@click.option(
    "--seed",
    metavar="N",
    type=click.IntRange(0),
    help="Breaks ties; the same seed gives the same result. Default: 0.",
)
@click.option(
    "--method",
    metavar="NAME",
    help="earliest-arrival, price-guided or flooding. Default: the best.",
)
@click.option(
    "--order",
    metavar="NAME",
    help="Order of placement: farthest-first, rounds, random. Default: the best.",
)
@click.option(
    "--routes",
    metavar="NAME",
    help="minimal (shortest routes) or any (detours). Default: as needed.",
)
@click.option("--no-verify", is_flag=True, help="Do not check the result.")
@click.option(
    "-o",
    "--output",
    metavar="FILE",
    type=click.Path(readable=False, path_type=Path),
    help="Write the algorithm to a .pccl file.",
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document instead of text.")
@click.option("-q", "--quiet", is_flag=True, help="Print nothing but errors (and --json).")
@click.option("--schema", is_flag=True, help="Print the JSON Schema of spec files and exit.")
def synthesize(
    spec: Path | None, no_verify: bool, as_json: bool, quiet: bool, schema: bool, **flags: Any
) -> None:
    """Find an algorithm for collectives on a network, given by flags or by a SPEC file."""
    if schema:
        from pccl.spec import spec_schema

        print_json(spec_schema())
        return
    task = read_task(spec, flags)
    if task.output is not None:  # before the work begins
        check_writable(task.output, (".pccl",), "an algorithm")
    algorithm = _run(task, not no_verify, quiet)
    if task.output is not None:
        algorithm.save(task.output)
    if as_json or not quiet:
        from pccl.bounds import lower_bound

        bound = lower_bound(
            task.topology, *task.collectives
        )  # for any number of chunks, if none is given
        gap = int(algorithm.duration) / int(bound.value) - 1 if bound.value else 0.0
    if as_json:
        proof = {
            "verified": not no_verify,
            "bound_ps": int(bound.value),
            "bound_kind": bound.kind,
            "gap": gap,
        }
        print_json(describe(algorithm, task.output) | proof)
    elif not quiet:
        lines = {
            "bound": f"{bound}; no algorithm is faster",
            "gap": f"{gap:.1%} above the bound",
            "verified": "no, as asked" if no_verify else "yes",
        }
        saved = {"saved to": str(task.output)} if task.output is not None else {}
        print_facts(algorithm.facts() | lines | saved)


def describe(algorithm: Algorithm, file: Path | None) -> dict[str, Any]:
    """What ``--json`` says about an algorithm; times in picoseconds are exact."""
    topology, provenance = algorithm.topology, algorithm.provenance
    return {
        "file": None if file is None else str(file),
        "topology": {
            "name": topology.name,
            "npus": topology.num_npus,
            "switches": len(topology.switches),
            "links": topology.num_links,
        },
        "collectives": [collective.to_dict() for collective in algorithm.collectives],
        "chunks": len(algorithm.conditions),
        "transfers": len(algorithm.transfers),
        "bytes_moved": int(algorithm.transfers.bytes.sum()),
        "duration_ps": int(algorithm.duration),
        "duration_us": int(algorithm.duration) / 1e6,
        "method": provenance.method,
        "seed": provenance.seed,
        "seconds": round(provenance.seconds, 6),
        "version": provenance.version,
    }


def _run(task: Spec, verify: bool, quiet: bool) -> Algorithm:
    with progress(quiet) as report:
        from pccl.synthesis import synthesize  # takes a moment: Numba

        log = None if report is None else print_log()
        return synthesize(
            task.topology,
            *task.collectives,
            **task.settings,
            verify=verify,
            progress=report,
            log=log,
        )
