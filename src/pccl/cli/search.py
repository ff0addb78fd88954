"""``pccl synthesize``, ``compare`` and ``bound``: a task done, set beside others, and what nobody can beat."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from pccl.cli.console import (
    check_writable,
    microseconds,
    print_error,
    print_facts,
    print_json,
    print_table,
    watching,
)
from pccl.cli.options import (
    command,
    json_option,
    option,
    output_option,
    quiet_option,
    settings_options,
)
from pccl.cli.show import describe, print_each_collective
from pccl.cli.task import read_task, task_options

if TYPE_CHECKING:
    from pccl.analysis import Baseline, Comparison, ComparisonRow
    from pccl.spec import Spec


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
@option("-v --verbose", "Print what was found when, on stderr.")
@option("--schema", "Print the JSON Schema of spec files and exit.")
def synthesize(
    spec: Path | None, as_json: bool, quiet: bool, verbose: bool, schema: bool, **flags: Any
) -> None:
    """Find an algorithm for collectives on a network, given by flags or by a SPEC file.

    On Ctrl-C the best that was found by then is kept.
    """
    # Needs no task: editors ask for it before there is any.
    if schema:
        from pccl.spec import spec_schema

        print_json(spec_schema())
        return
    task = read_task(spec, flags)
    if task.output:  # before the work begins
        check_writable(task.output, (".pccl",), "an algorithm")
    if not quiet:
        _announce_first_pass(task)
    with watching(quiet, verbose) as watch:
        from pccl.synthesis import synthesize as find  # takes a moment: Numba

        algorithm = find(
            task.topology,
            *task.collectives,
            settings=task.settings,
            progress=watch.progress,
            log=watch.log,
        )
    if task.output:
        algorithm.save(task.output)
    # The bound below may take longer than the search, so not unless somebody reads it.
    if quiet and not as_json:
        return
    if algorithm.bound is None:
        from pccl.bounds import lower_bound

        # For any number of chunks, if none is given; without it, if the user has had enough.
        with suppress(KeyboardInterrupt):
            bound = lower_bound(task.topology, *task.collectives)
            algorithm = replace(algorithm, bound=bound)
    if as_json:
        # Not properties of the algorithm, so that 'pccl show --json' cannot know them.
        search = {"verified": task.settings.verify, "interrupted": watch.interrupted}
        print_json(describe(algorithm, task.output) | search)
        return
    facts = algorithm.facts()
    # What was not checked must not look as if it had been.
    facts["verified"] = "yes" if task.settings.verify else "no, as asked"
    if watch.interrupted:
        facts["interrupted"] = "this is the best that was found by then"
    if task.output:
        facts["saved to"] = str(task.output)
    print_facts(facts)
    # It takes bounds to be proven; who has had enough has what was asked for.
    with suppress(KeyboardInterrupt):
        print_each_collective(algorithm)


def _announce_first_pass(task: Spec) -> None:
    """Say beforehand that a time limit does not cut the first pass short, where that may be felt."""
    if task.settings.time_limit is None:
        return
    npus = task.topology.npus
    chunks = sum(one.deliveries(len(one.members(npus))) for one in task.collectives)
    if chunks >= _MANY_CHUNKS:
        limit = f"the time limit of {task.settings.time_limit:g} s"
        print_error(
            f"the first pass is always completed, with about {chunks:,} chunks to deliver; {limit} is for what follows",
            "note: ",
        )


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
# Left out on a narrow terminal, in this order; JSON has them all.
_SPARE = (">links busy", ">algbw GB/s", ">of bound")
# Chunks to deliver from which on the first pass may take longer than the limit that people set.
_MANY_CHUNKS = 200_000


@command(
    "pccl compare --topology mesh:8x8 --collective all-to-all --size 64MiB",
    "pccl compare -t mesh:8x8 -c all-gather -s 8MiB --group 0-7 --chunks 4",
    "pccl compare -t mesh:8x8 -c all-gather --sizes 1M:64M",
    "pccl compare -t h100:4 -c all-reduce -s 64MiB --nccl-graph graph.xml",
    "pccl compare examples/parallelism.yaml --json",
)
@task_options
@settings_options
@option("--sizes FROM:TO", "Compare at each power of two times FROM, up to TO: 1M:1G.")
@option(
    "--nccl-graph FILE", "What NCCL chose on this machine (NCCL_GRAPH_DUMP_FILE), to compare with."
)
@json_option
def compare(
    spec: Path | None, sizes: str | None, nccl_graph: Path | None, as_json: bool, **flags: Any
) -> None:
    """Set our algorithm beside baselines and the lower bound, given flags or a SPEC file.

    Bandwidths are those of nccl-tests, for the first collective of the task; "links busy" is the share of the time for
    which links are held, on average; "of bound" is how near a time is to the proven bound, and "ours is" how many times
    faster ours is. What needs switches that multiply or add, and a runtime that has them do it, is marked with a plus.
    What people have today, marked with a star, is the best of the baselines that are shaped like NCCL;
    with --nccl-graph, of the rings and trees that NCCL has chosen.
    """
    # Flags need some size to make the collectives with; the sweep replaces it.
    if sizes is not None and spec is None:
        if flags["size"] is not None:
            raise click.UsageError("--size and --sizes exclude each other")
        flags["size"] = sizes.partition(":")[0]
    from pccl.algorithm.core import needs_text

    task = read_task(spec, flags)
    others: tuple[Baseline, ...] = ()
    if nccl_graph is not None:
        from pccl.analysis import nccl_graph_baselines

        others = nccl_graph_baselines(nccl_graph)
    tasks = [task.collectives]
    if sizes is not None:
        from pccl.analysis import of_size, size_range

        tasks = [of_size(task.topology, task.collectives, size) for size in size_range(sizes)]
    comparisons = [_compared(replace(task, collectives=one), others) for one in tasks]
    rows = [(comparison, row) for comparison in comparisons for row in comparison.rows]
    # Each baseline once, however many sizes it was left out for.
    left_out = {row.name: row.reason for comparison in comparisons for row in comparison.left_out}
    if as_json:
        documents = [_document(*row) for row in rows]
        print_json({"topology": task.topology.name, "rows": documents, "left_out": left_out})
        return
    print_table(_COLUMNS, (_shown(*row) for row in rows), len(rows), _SPARE)
    for comparison in comparisons:
        if today := comparison.today:
            size = comparison.algorithm.collectives[0].size
            ours = f"ours is {today.speedup:.2f}x as fast"
            click.echo(f"* what you have today at {size}: {today.name}; {ours}")
    if any(_is_slower(comparison) for comparison in comparisons):
        for reason in _why_slower(task):
            click.echo(f"ours is slower than it might be: {reason}")
    # Which need what may differ from size to size.
    marked = dict.fromkeys((row.needs, row.name) for _, row in rows if row.needs)
    for needs in dict.fromkeys(needs for needs, _ in marked):
        names = ", ".join(name for same, name in marked if same == needs)
        click.echo(f"+ {names}: needs {needs_text(needs)}")
    # Most are left out for the same reason, which is said once for all of them.
    for reason in dict.fromkeys(left_out.values()):
        names = ", ".join(name for name, why in left_out.items() if why == reason)
        click.echo(f"left out: {names} ({reason})")


def _is_slower(comparison: Comparison) -> bool:
    best = comparison.best_baseline
    return best is not None and (best.duration or 0) < (comparison.ours.duration or 0)


def _why_slower(task: Spec) -> list[str]:
    """What was asked for that may make a plan slower than a baseline."""
    reasons = []
    if any(one.chunks is not None for one in task.collectives):
        reasons.append("its number of chunks is given; left open, it is searched for")
    if task.settings.effort == "fast":
        reasons.append("effort fast is one pass, and tries no known schemes")
    if task.settings.time_limit is not None:
        reasons.append("its search had a time limit")
    return reasons


def _compared(task: Spec, others: Sequence[Baseline]) -> Comparison:
    from pccl.analysis import compare as set_beside
    from pccl.synthesis import synthesize

    # One line for both: to the user, search and baselines are one wait.
    with watching(quiet=False) as watch:
        ours = synthesize(
            task.topology, *task.collectives, settings=task.settings, progress=watch.progress
        )
        return set_beside(
            ours,
            others=others,
            network=task.topology,
            target=task.settings.target,
            progress=watch.progress,
        )


def _document(comparison: Comparison, row: ComparisonRow) -> dict[str, Any]:
    return {
        "size": int(comparison.algorithm.collectives[0].size),
        "algorithm": row.name,
        "time_ps": int(row.duration or 0),
        "algbw": row.algorithm_bandwidth,
        "busbw": row.bus_bandwidth,
        "links_busy": row.links_busy,
        "of_bound": row.of_bound,
        "speedup": row.speedup,
        "today": row == comparison.today,
        "needs": list(row.needs),
    }


def _shown(comparison: Comparison, row: ComparisonRow) -> tuple[str, ...]:
    # Ours beside itself would be 1.00x, and the bound is nothing that runs.
    is_baseline = row in comparison.baselines
    marks = (" *" if row == comparison.today else "") + (" +" if row.needs else "")
    return (
        str(comparison.algorithm.collectives[0].size),
        row.name + marks,
        microseconds(row.duration or 0, 2),
        f"{(row.algorithm_bandwidth or 0) / 1e9:,.2f}",
        f"{(row.bus_bandwidth or 0) / 1e9:,.2f}",
        # A bound keeps no link busy.
        "" if row.links_busy is None else f"{row.links_busy:.1%}",
        f"{row.of_bound:.1%}",
        f"{row.speedup:.2f}x" if is_baseline else "",
    )


@command(
    "pccl bound --topology mesh:8x8 --collective all-to-all --size 64MiB",
    "pccl bound examples/mix.yaml --json",
)
@task_options
@click.option(
    "--trees",
    is_flag=True,
    help="Say also what no all-reduce beats that collects and spreads along trees, without latencies.",
)
@json_option
def bound(spec: Path | None, trees: bool, as_json: bool, **flags: Any) -> None:
    """Prove how long any algorithm must take, given flags or a SPEC file.

    It comes with a certificate: a chunk and its way, a set of devices and what must leave it, or prices of links.
    """
    task = read_task(spec, flags)
    from pccl.bounds import lower_bound, tree_optimum
    from pccl.units import time_text

    for collective in task.collectives:
        collective.check_pieces(task.topology)
    # For any number of chunks where the task leaves it open.
    found = lower_bound(task.topology, *task.collectives)
    along_trees = tree_optimum(task.topology, *task.collectives) if trees else None
    if as_json:
        print_json(
            {
                "bound_ps": int(found.value),
                "trees_ps": None if along_trees is None else int(along_trees),
                "kind": found.kind,
                # Each kind of bound has its own certificate; the document has the same keys for all.
                "devices": list(found.certificate.get("devices", ())),
                "sources": list(found.certificate.get("sources", ())),
                "destinations": list(found.certificate.get("destinations", ())),
                "chunk": next(iter(found.certificate.get("chunk", ())), None),
                "prices": list(found.prices),
            }
        )
        return
    facts = {"bound": time_text(found.value), "kind": found.kind, "because": str(found)}
    if along_trees is not None:
        facts["trees"] = f"{time_text(along_trees)} at least, without latencies"
    print_facts(facts)
