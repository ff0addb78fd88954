"""``pccl synthesize``: from flags or a spec file to a verified algorithm."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from pccl.cli.console import check_writable, examples, print_facts, print_json, progress

if TYPE_CHECKING:
    from pccl.algorithm import Algorithm
    from pccl.spec import Spec

__all__ = ["synthesize"]

KINDS = ("all-gather", "reduce-scatter", "all-reduce", "all-to-all", "broadcast", "reduce", "scatter", "gather",
         "send-recv")  # fmt: skip
# What a spec file always says itself, and what it may leave to flags.
_TASK = ("topology", "collective", "size", "group", "mesh", "along", "chunks", "root", "cyclic")
_SHARED = ("seed", "order", "routes", "output")


@click.command(
    short_help="Find an algorithm, given flags or a spec file.",
    epilog=examples(
        "pccl synthesize --topology mesh:8x8 --collective all-to-all --size 8MiB --output a2a.pccl",
        "pccl synthesize -t ring:8 -c all-gather -s 1MiB --group 0-3 --group 4-7 --chunks 2",
        "pccl synthesize -t torus:8x8 -c all-reduce -s 64MiB --mesh dp=8,tp=8 --along tp",
        "pccl synthesize -t h100:2 -c broadcast -s 1GiB --root 8 --chunks 16 --json",
        "pccl synthesize examples/mix.yaml --seed 7 --output mix.pccl",
        then="all-to-all-v, custom patterns and mixtures are for spec files, which docs/spec.md describes.",
    ),
)
@click.argument("spec", required=False, type=click.Path(path_type=Path))
@click.option("-t", "--topology", metavar="TEXT", help="The network: mesh:8x8, or a file. See 'pccl topology'.")
@click.option("-c", "--collective", metavar="KIND", help=f"One of {', '.join(KINDS)}.")
@click.option("-s", "--size", metavar="SIZE", help="Buffer of one NPU with its unit: 8MiB, 1GB, 4KiB.")
@click.option(
    "-g",
    "--group",
    metavar="RANKS",
    multiple=True,
    help="NPUs that take part: 0-7, 0-3,8, 0-56:8. Repeat it for several groups at once. Default: all.",
)
@click.option("--mesh", metavar="DIMS", help="Arrange the ranks row by row: dp=8,tp=8. Goes with --along.")
@click.option("--along", metavar="DIM", help="One collective per process group along this dimension of the mesh.")
@click.option("--chunks", metavar="N", type=click.IntRange(1), help="Pieces that every share is cut into. Default: 1.")
@click.option(
    "--root",
    metavar="NPU",
    type=click.IntRange(0),
    help="Root of broadcast, reduce, scatter, gather. Default: the first.",
)
@click.option("--cyclic", is_flag=True, default=None, help="send-recv: the last member sends to the first.")
@click.option(
    "--seed", metavar="N", type=click.IntRange(0), help="Breaks ties; the same seed gives the same result. Default: 0."
)
@click.option("--order", metavar="NAME", help="Order of placement: farthest-first or rounds. Default: the better.")
@click.option("--routes", metavar="NAME", help="minimal (shortest routes) or any (detours). Default: as needed.")
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
def synthesize(spec: Path | None, no_verify: bool, as_json: bool, quiet: bool, schema: bool, **flags: Any) -> None:
    """Find an algorithm for collectives on a network, given by flags or by a SPEC file."""
    if schema:
        from pccl.spec import spec_schema

        print_json(spec_schema())
        return
    task = _from_flags(flags) if spec is None else _from_file(spec, flags)
    if task.output is not None:  # before the work begins
        check_writable(task.output, (".pccl",), "an algorithm")
    algorithm = _run(task, not no_verify, quiet)
    if task.output is not None:
        algorithm.save(task.output)
    if as_json:
        print_json(describe(algorithm, task.output) | {"verified": not no_verify})
    elif not quiet:
        print_facts(_facts(algorithm, not no_verify, task.output))


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


def _facts(algorithm: Algorithm, verified: bool, output: Path | None) -> dict[str, str]:
    facts = algorithm.facts()
    facts["verified"] = "yes" if verified else "no, as asked"
    if output is not None:
        facts["saved to"] = str(output)
    return facts


def _run(task: Spec, verify: bool, quiet: bool) -> Algorithm:
    with progress(quiet) as report:
        from pccl.synthesis import synthesize  # takes a moment: Numba

        return synthesize(
            task.topology, *task.collectives, seed=task.seed or 0, order=task.order, routes=task.routes,
            verify=verify, progress=report,
        )  # fmt: skip


def _from_flags(flags: dict[str, Any]) -> Spec:
    for name, example in (("topology", "mesh:8x8"), ("collective", "all-to-all")):
        if flags[name] is None:
            raise click.UsageError(f"give a spec file, or --topology and --collective; for example --{name} {example}")
    from pccl.spec import CollectiveEntry, Spec, check_mesh, collectives_of, normal_kind
    from pccl.topology import parse_topology

    kind = normal_kind(flags["collective"])
    if kind not in KINDS:
        raise click.UsageError(f"{kind} does not fit into flags; describe it in a spec file (docs/spec.md)")
    topology = parse_topology(flags["topology"])
    mesh = None if flags["mesh"] is None else _mesh(flags["mesh"])
    if mesh is not None:
        if flags["along"] is None:
            raise click.UsageError("--mesh needs --along, the dimension to group along")
        check_mesh(mesh, topology)
    elif flags["along"] is not None:
        raise click.UsageError("--along needs --mesh, for example --mesh dp=8,tp=8")
    collectives = []
    for group in flags["group"] or (None,):
        entry = CollectiveEntry(
            kind, group=group,
            **{name: flags[name] for name in ("size", "along", "chunks", "root", "cyclic")},
        )  # fmt: skip
        collectives += collectives_of(entry, mesh)
    return Spec(topology, tuple(collectives), *(flags[name] for name in _SHARED))


def _mesh(text: str) -> Any:
    from pccl.collective import device_mesh

    names, sizes = [], []
    for part in text.split(","):
        name, _, size = (word.strip() for word in part.partition("="))
        if not name or not (size.isascii() and size.isdecimal() and len(size) < 10):
            raise click.UsageError(f"--mesh {text!r}: {part.strip()!r} is not name=size; write for example dp=8,tp=8")
        names.append(name)
        sizes.append(int(size))
    return device_mesh(sizes, names)


def _from_file(path: Path, flags: dict[str, Any]) -> Spec:
    from dataclasses import replace

    for name in _TASK:
        if flags[name] not in (None, ()):
            raise click.UsageError(f"{path} says what to synthesize; leave out --{name}")
    from pccl.spec import load_spec

    spec = load_spec(path)
    added = {name: flags[name] for name in _SHARED if flags[name] is not None}
    for name in added:
        if getattr(spec, name) is not None:
            raise click.UsageError(f"{path} gives {name!r} already; leave out --{name}")
    return replace(spec, **added)
