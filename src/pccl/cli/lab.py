"""``pccl lab`` and ``pccl probe``: a network in a box to measure on, and what links are really like."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from pccl.cli.console import check_writable, print_facts, print_json, print_line, print_table
from pccl.cli.options import (
    RUNS,
    SECONDS,
    Command,
    command,
    epilog,
    file_argument,
    json_option,
    option,
    output_option,
)

if TYPE_CHECKING:
    from pccl.lab import Row
    from pccl.topology import Topology

_COLUMNS = (">planned ms", ">measured ms", ">measured / planned", ">speed-up planned", ">measured")

_rate = option("--rate RATE", "How fast the fastest link is: 40mbit, 5MB/s. Others in proportion.")
_scale = option("--scale FACTOR", "Or by what all bandwidths are multiplied.", type=float)


@click.group(
    epilog=epilog(
        "pccl lab run row.pccl --rate 40mbit --against direct,ring",
        "pccl lab exec -t mesh:2x2 --rate 100mbit -- python train.py",
        then="Needs Linux, with root or user namespaces. Nothing is left behind, however it ends.",
    )
)
def lab() -> None:
    """Build a network of this machine alone, out of network namespaces, and measure on real TCP."""


@lab.command(
    "run",
    cls=Command,
    epilog=epilog(
        "pccl lab run row.pccl --rate 40mbit --against direct",
        "pccl lab run a2a.pccl --rate 20mbit --against direct,bruck --runs 10 --json",
    ),
)
@file_argument
@_rate
@_scale
@option("--against NAMES", "Baselines to measure on the same network: direct,ring.", default="")
@option("--runs N", "Runs of each; the best counts. Default: 5.", type=RUNS, default=5)
@json_option
def run(file: Path, against: str, as_json: bool, **options: Any) -> None:
    """Run a plan in a box, and baselines beside it; every element is checked first.

    The plan goes from neighbour to neighbour; baselines that know no ways go from end to end, routed by the kernel.
    """
    from pccl.algorithm import load
    from pccl.lab import measure

    plan = load(file)
    names = [name.strip() for name in against.split(",") if name.strip()]
    rows = measure(plan, against=names, **options)
    if as_json:
        print_json({"file": str(file), "rows": [_document(row) for row in rows]})
        return
    table = [(row.name, *_cells(row, rows[0])) for row in rows]
    print_table(("run", *_COLUMNS), table, len(table))


@lab.command(
    "exec",
    cls=Command,
    epilog=epilog(
        "pccl lab exec -t mesh:2x2 --rate 100mbit -- python train.py",
        "pccl lab exec -t ring:4 --rate 40mbit --mpi -- python -m pccl.cli run ring.pccl --on mpi",
    ),
    context_settings={"ignore_unknown_options": True},
)
@option("-t --topology TEXT", "The network, such as mesh:4x4, or a file.", required=True)
@_rate
@_scale
@option("--timeout SECONDS", "Default: 600.", type=SECONDS, default=600)
@option("--mpi", "Start it with mpiexec (of MPICH), every NPU being a host.")
@click.argument("words", nargs=-1, required=True, metavar="COMMAND...")
def execute(
    topology: str, words: tuple[str, ...], timeout: float, mpi: bool, **options: Any
) -> int:
    """Run a command once for every NPU, each in its own namespace, as torchrun would start it.

    It finds RANK, WORLD_SIZE, LOCAL_RANK, MASTER_ADDR and MASTER_PORT, and GLOO_SOCKET_IFNAME names the interface.
    """
    from pccl.lab import Wiring, in_box
    from pccl.lab.commands import run_commands, run_under_mpi
    from pccl.topology import parse_topology

    wiring = Wiring.of(parse_topology(topology), **options)
    start = run_under_mpi if mpi else run_commands
    status: int = in_box(wiring, start, list(words), timeout=timeout)
    return status


@command(
    "pccl probe -t mesh:4x4 --on lab --rate 40mbit -o measured.yaml",
    "mpiexec -n 8 python -m pccl.cli probe -t ring:8 --on mpi -o measured.yaml",
)
@option("-t --topology TEXT", "The shape of the network: what is joined to what.", required=True)
@click.option(
    "--on",
    type=click.Choice(["lab", "mpi", "processes"]),
    default="processes",
    show_default=True,
    help="Between whom: in a box; between the ranks of mpirun; between processes of this machine.",
)
@_rate
@_scale
@output_option("Where to write the network: .yaml or .json.")
@json_option
def probe(topology: str, on: str, output: Path, as_json: bool, **options: Any) -> None:
    """Measure latency, bandwidth and gap of every link, and write the network with them."""
    # Before anything is measured, which takes seconds for each link.
    check_writable(output, (".yaml", ".yml", ".json"), "a topology")
    from pccl.topology import parse_topology, save_topology

    shape = parse_topology(topology)
    if on != "lab" and any(value is not None for value in options.values()):
        raise click.UsageError("--rate and --scale are for --on lab")
    found = _PROBES[on](shape, **options)
    # Ranks that mpirun has started all come here; one of them speaks.
    if found is None:
        return
    save_topology(found, output)
    said = _measured(found)
    if as_json:
        print_json({"file": str(output)} | said)
        return
    print_facts({"links": f"{found.num_links}, measured"} | {k: str(v) for k, v in said.items()})
    print_line(f"{'written':<12} {output}")


def _probe_lab(shape: Topology, **options: Any) -> Topology | None:
    from pccl.lab import Wiring
    from pccl.lab.probe import probe_box

    return probe_box(Wiring.of(shape, **options))


def _probe_mpi(shape: Topology, **_: Any) -> Topology | None:
    from pccl.errors import RunError
    from pccl.lab.probe import probe_joined
    from pccl.mpi import launched, world_transport

    if not launched():
        raise RunError(f"start it with mpiexec -n {shape.num_npus} python -m pccl.cli probe …")
    return probe_joined(world_transport(), shape)


def _probe_processes(shape: Topology, **_: Any) -> Topology | None:
    from pccl.lab.probe import probe_processes

    return probe_processes(shape)


_PROBES = {"lab": _probe_lab, "mpi": _probe_mpi, "processes": _probe_processes}


def _measured(found: Topology) -> dict[str, str]:
    """The span of each figure, for people."""
    from pccl.units import BytesPerSecond, time_text

    rates = [f"{int(rate) / 1e6:,.2f} MB/s" for rate in _span(found.bandwidth)]
    if len(rates) == 1:
        rates = [str(BytesPerSecond(int(found.bandwidth[0])))]
    return {
        "bandwidth": " to ".join(rates),
        "latency": " to ".join(time_text(time) for time in _span(found.latency)),
        "gap": " to ".join(time_text(time) for time in _span(found.gap)),
    }


def _span(column: Any) -> list[int]:
    return sorted({int(column.min()), int(column.max())})


def _document(row: Row) -> dict[str, Any]:
    return {
        "name": row.name,
        "planned_s": row.planned,
        "measured_s": row.best,
        "seconds": list(row.seconds),
    }


def _cells(row: Row, plan: Row) -> Sequence[str]:
    """Times, and how many times as long as the plan a baseline takes."""
    times = (f"{row.planned * 1e3:,.1f}", f"{row.best * 1e3:,.1f}", f"{row.ratio:.2f}")
    if row is plan:
        return (*times, "", "")
    return (*times, f"{row.planned / plan.planned:.2f}", f"{row.best / plan.best:.2f}")
