"""``pccl tune``: a folder of plans for a machine, over sizes and collectives."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from pccl.cli.console import print_facts, print_json, print_table
from pccl.cli.networks import network_options, note_assumptions, read_network
from pccl.cli.options import command, completing, json_option, option, quiet_option
from pccl.cli.progress import Watch, watching
from pccl.cli.stopping import ending
from pccl.collective.kinds import KINDS
from pccl.errors import PcclError, StoppedError
from pccl.settings import Settings
from pccl.units import counted

if TYPE_CHECKING:
    from pccl.collective import Collective
    from pccl.tuning import Library

# Those that have one size, which can be varied.
_BY_FLAGS = [name for name in KINDS if name not in ("all-to-all-v", "custom")]
_RUNTIMES = ("torch", "mscclpp", "msccl")
_EFFORTS = ("fast", "balanced", "thorough")


@command(
    "pccl tune -t h100:4 --collectives all-reduce,all-to-all --for mscclpp -o plans",
    "pccl tune -t h100:4 --collectives all-reduce --sizes 1MiB:1GiB --jobs 2 -o plans",
    "pccl tune -t h100:2 --collectives all-gather --mesh dp=2,tp=8 --along tp -o plans",
    "pccl tune -t h100:4 --without '24-27:rail*' --collectives all-reduce -o plans",
    then="What is finished is kept: after Ctrl-C, SIGTERM or a crash, the same command goes on from there. "
    "docs/tune.md says how to use clusters.",
)
@option("-t --topology TEXT", "The machine: h100:4, or a file.", required=True)
@network_options
@option(
    "--collectives KINDS",
    f"Of {', '.join(_BY_FLAGS)}, with commas.",
    required=True,
    shell_complete=completing(lambda: _BY_FLAGS),
)
@option("--sizes FROM:TO", "From which size to which. Default: 1KiB:1GiB.", default="1KiB:1GiB")
@option("--step N", "How many times as large the next size is.", type=click.IntRange(2), default=4)
@click.option(
    "--for",
    "target",
    type=click.Choice(_RUNTIMES),
    default="torch",
    show_default=True,
    help="The runtime that is to run the plans.",
)
@option("--mesh DIMS", "Arrange the ranks row by row: dp=4,tp=8. Goes with --along.")
@option("--along DIM", "Plan for the process groups along this dimension of the mesh.")
@option("--loss SHARE", "What fewer plans may lose: 2% or 0.02.", default=0.02)
@option("--jobs N", "Processes on this machine.", type=click.IntRange(1), default=1)
@click.option(
    "--effort",
    type=click.Choice(_EFFORTS),
    default="balanced",
    help="How much to try for each plan.",
)
@option(
    "--time-limit SECONDS",
    "For each plan, after its first pass. Default: 4.",
    type=float,
    default=4.0,
)
@option("-o --output FILE", "The folder to write.", required=True)
@json_option
@quiet_option
def tune(
    topology: str,
    collectives: str,
    sizes: str,
    step: int,
    target: str,
    mesh: str | None,
    along: str | None,
    loss: float,
    jobs: int,
    effort: str,
    time_limit: float,
    output: Path,
    as_json: bool,
    quiet: bool,
    **flags: Any,
) -> None:
    """Find plans for collectives over sizes, and write the fewest that lose little to a folder.

    The folder gets a .pccl file for each plan (and a file for the runtime), index.json, which says which plan serves
    which sizes, and index.html, with curves against NCCL and the bound.
    """
    settings = Settings(effort=effort, time_limit=time_limit)
    if output.exists() and not output.is_dir():
        raise PcclError(f"cannot write {output}: it is not a folder")
    network, reading = read_network(topology, flags)
    if not quiet:
        note_assumptions(network, reading)
    asked = [
        _collectives(name.strip(), network, mesh, along, sizes) for name in collectives.split(",")
    ]
    from pccl.tuning import tune as make
    from pccl.tuning.library import document
    from pccl.tuning.work import stopped_text

    watch = Watch()

    def end() -> None:
        raise StoppedError(stopped_text(watch.done, watch.total))

    with ending(end), watching(quiet, watch=watch):
        library = make(
            network,
            asked,
            output,
            sizes=sizes,
            target=target,
            step=step,
            loss=loss,
            settings=settings,
            jobs=jobs,
            progress=watch.progress,
        )
    if as_json:
        print_json(document(library) | {"done_before": library.done_before})
    elif not quiet:
        _print(library)


def _collectives(
    name: str, network: Any, mesh: str | None, along: str | None, sizes: str
) -> list[Collective]:
    """The collectives of one kind: one, or one in each process group."""
    from pccl.cli.task import _mesh
    from pccl.spec import CollectiveEntry, check_mesh, collectives_of, normal_kind

    if not name:
        raise PcclError("--collectives has nothing before or after a comma")
    kind = normal_kind(name)
    size = sizes.partition(":")[0]
    dimensions = _mesh(mesh, along)
    if dimensions is not None:
        check_mesh(dimensions, network)
    return collectives_of(CollectiveEntry(kind, size=size, along=along), dimensions)


def _print(library: Library) -> None:
    from pccl.tuning.library import INDEX, gain
    from pccl.units import Bytes

    rows = [
        (
            plan.file,
            str(Bytes(plan.first)),
            "" if plan.end is None else str(Bytes(plan.end)),
            str(Bytes(plan.made_for)),
            plan.chunks,
            plan.runtime_file or plan.refusal,
        )
        for plan in library.plans
    ]
    names = ("plan", ">from", ">up to", ">made for", ">chunks", f"for {library.target}")
    print_table(names, rows, len(rows), (">made for",))
    click.echo()
    facts = {"topology": library.topology}
    for kind in dict.fromkeys(point.collective for point in library.curves):
        points = [point for point in library.curves if point.collective == kind]
        kept = len({point.plan for point in points})
        ratio = f"{gain(points):.2f}x as fast as NCCL on average"
        facts[kind] = f"{kept} of {len(points)} plans kept; {ratio}"
    if library.done_before:
        facts["done before"] = f"{counted(library.done_before, 'plan')}, not made again"
    facts["written to"] = str(library.folder / INDEX)
    print_facts(facts)
