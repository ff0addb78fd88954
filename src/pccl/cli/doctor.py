"""``pccl doctor``: logs of nccl-tests beside what the network allows, and what looks wrong."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from pccl.cli.console import (
    check_writable,
    microseconds,
    print_facts,
    print_json,
    print_table,
)
from pccl.cli.networks import network_options, read_network
from pccl.cli.options import FILE, command, json_option, option, quiet_option
from pccl.cli.progress import watching
from pccl.reporting.figures import SUFFIXES

if TYPE_CHECKING:
    from pccl.doctor import Diagnosis, Row

_COLUMNS = (
    "run", ">size", ">measured us", ">busbw GB/s", ">NCCL us", ">of NCCL", ">bound us", ">of bound", "because of",
)  # fmt: skip
# Left out on a narrow terminal, in this order.
_SPARE = ("because of", ">busbw GB/s", ">of NCCL", "run")


@command(
    "pccl doctor all_reduce.log --topology h100:4",
    "pccl doctor allreduce.log alltoall.log -t h100:4 --figure doctor.svg",
    "pccl doctor box*.log -t a100:8 --hosts node1,node2,node3 --json",
    "pccl doctor all_reduce.log -t h100:4 --without npu5:rail5 --set 'rail0.bandwidth=25GB/s'",
    then="A file may hold several tables. The more runs, in the more groups, the better a fault is found: "
    "see docs/doctor.md.",
)
@click.argument("files", metavar="LOG...", nargs=-1, required=True, type=FILE)
@option("-t --topology TEXT", "The network as it should be: h100:4, or a file.", required=True)
@option("-c --collective KIND", "What ran, where a log does not tell.")
@option(
    "-g --group RANKS",
    "NPUs that took part, once for each table: 0-7. Default: by hosts and devices, or all.",
    multiple=True,
)
@option("--hosts NAMES", "Hosts in the order of the boxes: node1,node2. Default: by name.")
@network_options
@option("--figure FILE", f"Draw time over sizes: {', '.join(SUFFIXES)}.")
@json_option
@quiet_option
def doctor(
    files: tuple[Path, ...],
    topology: str,
    collective: str | None,
    group: tuple[str, ...],
    hosts: str | None,
    figure: Path | None,
    as_json: bool,
    quiet: bool,
    **flags: Any,
) -> None:
    """Say how good the times in a LOG of nccl-tests or rccl-tests are, and what looks wrong.

    Beside what was measured stands what the best of NCCL's algorithms takes in our model, and what no algorithm can
    beat. Then one fault after another is tried: a slow or missing NIC, NVLinks, a link, or a box. What is known to be
    wrong goes into the network, with --without and --set.
    """
    if figure is not None:
        check_writable(figure, SUFFIXES, "a figure")
    from pccl.collective import parse_group
    from pccl.doctor import diagnose, read_logs
    from pccl.spec import normal_kind

    network, _ = read_network(topology, flags)
    logs = [log for file in files for log in read_logs(file)]
    with watching(quiet) as watch:
        found = diagnose(
            network,
            *logs,
            kind=None if collective is None else normal_kind(collective),
            groups=[parse_group(text) for text in group],
            hosts=[] if hosts is None else [name.strip() for name in hosts.split(",")],
            progress=watch.progress,
        )
    if figure is not None:
        from pccl.reporting.figures.doctor import plot_diagnosis

        plot_diagnosis(found, figure)
    if as_json:
        print_json(_document(found))
        return
    if quiet:
        return
    print_table(_COLUMNS, [_shown(row) for row in found.rows], len(found.rows), _SPARE)
    click.echo()
    facts = found.facts()
    if figure is not None:
        facts["written to"] = str(figure)
    print_facts(facts)


def _shown(row: Row) -> tuple[str, ...]:
    return (
        f"{Path(row.log).name} {row.kind}",
        str(row.size),
        microseconds(row.measured, 2),
        f"{row.bandwidth / 1e9:,.2f}",
        microseconds(row.nccl, 2),
        f"{row.of_nccl:.0%}",
        microseconds(row.bound, 2),
        f"{row.of_bound:.0%}",
        row.cut,
    )


def _document(found: Diagnosis) -> dict[str, Any]:
    causes = [
        {
            "what": cause.faults[0].what,
            # JSON has no infinity: what is gone has no speed left.
            "speed": 0.0 if cause.factor == float("inf") else 1 / cause.factor,
            "score": round(cause.score, 3),
            "places": [
                {"where": fault.where, "links": list(fault.links)} for fault in cause.faults
            ],
        }
        for cause in found.causes
    ]
    rows = [
        {
            "log": row.log,
            "collective": row.kind,
            "npus": row.npus,
            "size": int(row.size),
            "measured_ps": int(row.measured),
            "busbw": row.bandwidth,
            "nccl_ps": int(row.nccl),
            "bound_ps": int(row.bound),
            "because": row.cut,
            "of_nccl": row.of_nccl,
            "of_bound": row.of_bound,
            "wrong": row.wrong,
        }
        for row in found.rows
    ]
    further = found.advice.runs if found.advice else ()
    return {
        "topology": found.topology.name,
        "healthy": found.healthy,
        "verdict": found.verdict,
        "advice": str(found.advice or ""),
        "further_runs": [{"collective": run.kind, "group": list(run.group)} for run in further],
        "causes": causes,
        "healthy_score": round(found.healthy_score, 3),
        "rows": rows,
    }
