"""``pccl compare``: ours, what people have today, and what nobody can beat, in one table."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from pccl.cli.console import examples, print_json, print_table, progress
from pccl.cli.task import read_task, solver_options, task_options
from pccl.errors import PcclError

if TYPE_CHECKING:
    from pccl.algorithm import Algorithm
    from pccl.collective import Collective
    from pccl.topology import Topology

__all__ = ["compare"]

_COLUMNS = (
    ">size",
    "algorithm",
    ">time us",
    ">algbw GB/s",
    ">busbw GB/s",
    ">links busy",
    ">of bound",
    ">ours is",
)


@click.command(
    short_help="Set an algorithm beside baselines and the bound.",
    epilog=examples(
        "pccl compare --topology mesh:8x8 --collective all-to-all --size 64MiB",
        "pccl compare -t mesh:8x8 -c all-gather -s 8MiB --group 0-7 --chunks 4 --sizes 1M:64M",
        "pccl compare examples/parallelism.yaml --json",
    ),
)
@task_options
@solver_options
@click.option(
    "--sizes", metavar="FROM:TO", help="Compare at each power of two times FROM, up to TO: 1M:1G."
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document instead of a table.")
def compare(spec: Path | None, sizes: str | None, as_json: bool, **flags: Any) -> None:
    """Set our algorithm beside baselines and the lower bound, given flags or a SPEC file.

    Bandwidths are those of nccl-tests, for the first collective of the task; "links busy" is the share of the time for
    which links transmit, on average; "of bound" is how near a time is to the proven bound, and "ours is" how many times
    faster ours is.
    """
    if sizes is not None and flags["size"] is None and spec is None:
        flags["size"] = sizes.partition(":")[0]
    task = read_task(spec, flags)
    rows: list[dict[str, Any]] = []
    left_out: dict[str, str] = {}
    for collectives in _sweep(task.collectives, sizes):
        rows += _measured(task.topology, collectives, task.settings, left_out)
    if as_json:
        print_json({"topology": task.topology.name, "rows": rows, "left_out": left_out})
        return
    print_table(_COLUMNS, map(_shown, rows), len(rows))
    for reason in dict.fromkeys(left_out.values()):
        names = ", ".join(name for name, why in left_out.items() if why == reason)
        click.echo(f"left out: {names} ({reason})")


def _sweep(
    collectives: tuple[Collective, ...], sizes: str | None
) -> Iterator[tuple[Collective, ...]]:
    if sizes is None:
        yield collectives
        return
    from pccl.units import Bytes, parse

    first, _, last = sizes.partition(":")
    size, end = (
        int(parse(Bytes, first, "first of --sizes")),
        int(parse(Bytes, last or first, "last of --sizes")),
    )
    if not 0 < size <= end:
        raise click.UsageError(f"--sizes {sizes!r} is an empty range; write for example 1M:1G")
    for collective in collectives:
        if collective.kind in ("all-to-all-v", "custom"):
            raise click.UsageError(
                f"--sizes cannot change {collective.kind}, whose parts have sizes of their own"
            )
    while size <= end:
        yield tuple(replace(collective, size=Bytes(size)) for collective in collectives)
        size *= 2


def _measured(
    topology: Topology,
    collectives: tuple[Collective, ...],
    settings: dict[str, Any],
    left_out: dict[str, str],
) -> Iterator[dict[str, Any]]:
    """What to show of each algorithm; baselines that do not apply are entered in `left_out`, with the reason."""
    from pccl.analysis import baseline, baselines
    from pccl.analysis.metrics import bandwidths
    from pccl.bounds import lower_bound
    from pccl.synthesis import synthesize

    with progress(quiet=False) as report:
        ours = synthesize(topology, *collectives, **settings, progress=report)
        times, busy = {"pccl": int(ours.duration)}, {"pccl": _busy(ours)}
        # Others may cut their data as we do, or not at all.
        cuts = list(dict.fromkeys([ours.collectives, collectives]))
        for done, entry in enumerate(baselines()):
            if report is not None:
                report(done, len(baselines()), f"baseline {entry.name}")
            try:
                tried = cuts[:1] if entry.name == "confined" else cuts
                best = min(
                    (baseline(entry.name, topology, *cut) for cut in tried),
                    key=lambda found: found.duration,
                )
                times[entry.name], busy[entry.name] = int(best.duration), _busy(best)
            except PcclError as reason:
                left_out[entry.name] = str(reason).removeprefix(f"the baseline {entry.name!r} ")
    bound = int(lower_bound(topology, *collectives).value)
    members = len(collectives[0].ranks) or topology.num_npus
    for name, time in {**times, "bound": bound}.items():
        algorithm, bus = bandwidths(collectives[0], members, time)
        yield {
            "size": int(collectives[0].size),
            "algorithm": name,
            "time_ps": time,
            "algbw": algorithm,
            "busbw": bus,
            "links_busy": busy.get(name),
            "of_bound": bound / time if time else 1.0,
            "speedup": time / times["pccl"] if times["pccl"] else 1.0,
        }


def _busy(algorithm: Algorithm) -> float:
    """The share of the time for which a link transmits, on average."""
    return float(algorithm.utilization.mean()) if algorithm.topology.num_links else 0.0


def _shown(row: dict[str, Any]) -> tuple[str, ...]:
    from pccl.units import Bytes

    return (
        str(Bytes(row["size"])), row["algorithm"], f"{row['time_ps'] / 1e6:,.2f}", f"{row['algbw'] / 1e9:,.2f}",
        f"{row['busbw'] / 1e9:,.2f}", "" if row["links_busy"] is None else f"{row['links_busy']:.1%}",
        f"{row['of_bound']:.1%}",
        f"{row['speedup']:.2f}x" if row["algorithm"] not in ("pccl", "bound") else "",
    )  # fmt: skip
