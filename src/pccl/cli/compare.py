"""``pccl compare``: ours beside what people have today, and beside what nobody can beat, at one size after another."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from pccl.cli.console import Table, microseconds, print_json
from pccl.cli.options import command, json_option, option, settings_options
from pccl.cli.progress import Watch, best_so_far, watching
from pccl.cli.stopping import asked, ending, last_word
from pccl.cli.task import read_task, task_options
from pccl.errors import StoppedError

if TYPE_CHECKING:
    from pccl.algorithm import Algorithm
    from pccl.analysis import Baseline, Comparison, ComparisonRow
    from pccl.spec import Spec

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
    task = read_task(spec, flags)
    others: tuple[Baseline, ...] = ()
    if nccl_graph is not None:
        from pccl.analysis import nccl_graph_baselines

        others = nccl_graph_baselines(nccl_graph)
    tasks = [task]
    if sizes is not None:
        from pccl.analysis import of_size, size_range

        each = [of_size(task.topology, task.collectives, size) for size in size_range(sizes)]
        tasks = [replace(task, collectives=one) for one in each]
    sweep = _Sweep(tasks, others, as_json)
    with ending(sweep.end):
        sweep.run()
        with last_word():
            sweep.tell()


@dataclass
class _Sweep:
    """Comparisons at one size after another, printed as they are made; and what is under way."""

    tasks: Sequence[Spec]
    others: Sequence[Baseline]
    as_json: bool
    made: list[Comparison] = field(default_factory=list)
    table: Table = field(default_factory=lambda: Table(_COLUMNS, _SPARE))
    # Of the comparison that is under way.
    watch: Watch = field(default_factory=Watch)
    ours: Algorithm | None = None
    rows: list[ComparisonRow] = field(default_factory=list)
    is_cut_short: bool = False  # the search for ours, and so all of it
    place: str = ""  # where it was stopped, if in the midst of one

    def run(self) -> None:
        """Make all of them."""
        for task in self.tasks:
            found = self._compared(task)
            with last_word():
                self._add(found)

    def _compared(self, task: Spec) -> Comparison:
        from pccl.analysis import compare as set_beside
        from pccl.synthesis import synthesize

        self.watch = Watch()
        self.ours = None
        self.rows = []
        # One line for both: to the user, search and baselines are one wait.
        with watching(quiet=False, watch=self.watch) as watch:
            found = synthesize(
                task.topology,
                *task.collectives,
                settings=task.settings,
                progress=watch.progress,
                log=watch.log,
            )
            # A search that is stopped returns the best that it has found.
            self.is_cut_short = asked()
            self.ours = found
            if self.is_cut_short:
                raise KeyboardInterrupt
            return set_beside(
                found,
                others=self.others,
                network=task.topology,
                target=task.settings.target,
                progress=watch.progress,
                log=self.rows.append,
            )

    def end(self) -> None:
        """Make do with what there is."""
        if len(self.made) < len(self.tasks):
            found = self._part()
            if found is None and not self.made:
                raise StoppedError("interrupted before a first plan was found")
            if found is not None:
                what = "search" if self.is_cut_short else "baselines"
                self.place = f" in the {what} at {found.algorithm.collectives[0].size}"
                self._add(found)
        self.tell()

    def _part(self) -> Comparison | None:
        """What there is of the comparison that is under way; None if there is nothing."""
        from pccl.analysis import compare as set_beside
        from pccl.synthesis.synthesize import verify_own

        ours = self.ours
        if ours is None:
            if self.watch.found is None:
                return None
            ours = best_so_far(self.watch)
            if self.tasks[0].settings.verify:
                verify_own(ours)
            self.is_cut_short = True
        found = set_beside(ours, [], bound=ours.bound is not None)
        return replace(found, baselines=tuple(self.rows))

    def _add(self, found: Comparison) -> None:
        self.made.append(found)
        if self.as_json:
            return
        # Columns are as wide as the largest size will need, as far as that can be told now.
        last = self.tasks[-1].collectives[0].size
        ratio = int(last) / max(int(found.algorithm.collectives[0].size), 1)
        wide = [
            (str(last), "", microseconds(int(int(row.duration or 0) * ratio), 2))
            for row in found.rows
        ]
        self.table.add([self._shown(found, row) for row in found.rows], wide)

    def tell(self) -> None:
        """Say what is to be said of all of them together."""
        # Each baseline once, however many sizes it was left out for.
        left_out = {row.name: row.reason for found in self.made for row in found.left_out}
        if self.as_json:
            rows = [self._document(found, row) for found in self.made for row in found.rows]
            about = {"interrupted": asked(), "not_reached": self._missing}
            name = self.tasks[0].topology.name
            print_json({"topology": name, "rows": rows, "left_out": left_out} | about)
            return
        self._tell_of_today()
        self._tell_of_needs()
        # Most are left out for the same reason, which is said once for all of them.
        for reason in dict.fromkeys(left_out.values()):
            names = ", ".join(name for name, why in left_out.items() if why == reason)
            click.echo(f"left out: {names} ({reason})")
        if asked():
            missing = ", ".join(self._missing)
            click.echo(
                f"interrupted{self.place}" + (f"; not reached: {missing}" if missing else "")
            )

    def _tell_of_today(self) -> None:
        for found in self.made:
            if today := found.today:
                size = found.algorithm.collectives[0].size
                ours = f"ours is {today.speedup:.2f}x as fast"
                click.echo(f"* what you have today at {size}: {today.name}; {ours}")
        if any(_is_slower(found) for found in self.made):
            for reason in _why_slower(self.tasks[0]):
                click.echo(f"ours is slower than it might be: {reason}")

    def _tell_of_needs(self) -> None:
        from pccl.algorithm.core import needs_text

        # Which need what may differ from size to size.
        rows = [row for found in self.made for row in found.rows]
        marked = dict.fromkeys((row.needs, row.name) for row in rows if row.needs)
        for needs in dict.fromkeys(needs for needs, _ in marked):
            names = ", ".join(name for same, name in marked if same == needs)
            click.echo(f"+ {names}: needs {needs_text(needs)}")

    @property
    def _missing(self) -> list[str]:
        """The sizes of which there is nothing."""
        return [str(task.collectives[0].size) for task in self.tasks[len(self.made) :]]

    def _is_interrupted(self, found: Comparison, row: ComparisonRow) -> bool:
        return self.is_cut_short and found is self.made[-1] and row is found.ours

    def _document(self, comparison: Comparison, row: ComparisonRow) -> dict[str, Any]:
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
            "interrupted": self._is_interrupted(comparison, row),
        }

    def _shown(self, comparison: Comparison, row: ComparisonRow) -> tuple[str, ...]:
        # Ours beside itself would be 1.00x, and the bound is nothing that runs.
        is_baseline = row in comparison.baselines
        cut_short = " (interrupted)" if self._is_interrupted(comparison, row) else ""
        marks = cut_short + (" *" if row == comparison.today else "") + (" +" if row.needs else "")
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
