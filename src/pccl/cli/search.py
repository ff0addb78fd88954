"""``pccl synthesize`` and ``bound``: a task done, and what nobody can beat."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from pccl.cli.console import (
    check_writable,
    print_error,
    print_facts,
    print_json,
)
from pccl.cli.options import (
    command,
    json_option,
    option,
    output_option,
    quiet_option,
    settings_options,
)
from pccl.cli.progress import Watch, best_so_far, watching
from pccl.cli.show import describe, each_of, print_each_collective
from pccl.cli.stopping import asked, ending, last_word
from pccl.cli.task import read_task, task_options
from pccl.errors import StoppedError

if TYPE_CHECKING:
    from pccl.algorithm import Algorithm
    from pccl.analysis import CollectiveRow
    from pccl.bounds import Bound
    from pccl.spec import Spec
    from pccl.units import Picoseconds

# Chunks to deliver from which on the first pass may take longer than the limit that people set.
_MANY_CHUNKS = 200_000
# The same for NPUs.
_MANY_NPUS = 1024


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

    On Ctrl-C or SIGTERM the best that was found by then is kept.
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
    result = _Result(task, as_json, quiet)
    with ending(result.end):
        with watching(quiet, verbose, result.watch):
            result.find()
            with last_word():
                result.keep()
            # The bounds that this takes may take longer than the search, so not unless somebody reads them.
            if as_json or not quiet:
                result.prove()
        with last_word():
            result.tell()


@dataclass
class _Result:
    """What ``synthesize`` finds, keeps and tells; each of it once, in whichever thread the command ends."""

    task: Spec
    as_json: bool
    quiet: bool
    watch: Watch = field(default_factory=Watch)
    algorithm: Algorithm | None = None
    is_cut_short: bool = False
    caveat: str = ""  # what is not known of a plan that was cut short
    is_kept: bool = False
    is_told: bool = False
    each: tuple[CollectiveRow, ...] = ()

    def find(self) -> None:
        """Search; what was cut short ends the command."""
        from pccl.synthesis import synthesize as find  # takes a moment: Numba

        task = self.task
        self.algorithm = find(
            task.topology,
            *task.collectives,
            # Not yet: by then a stop must not cut it short.
            settings=replace(task.settings, verify=False),
            progress=self.watch.progress,
            log=self.watch.log,
        )
        # A search that is stopped returns the best that it has found.
        if asked():
            self.is_cut_short = True
            raise KeyboardInterrupt

    def end(self) -> None:
        """Make do with the best so far."""
        if self.algorithm is None:
            self.algorithm = best_so_far(self.watch)
            self.is_cut_short = True
            # Which a search asks about in the end.
            target = self.task.settings.target
            self.caveat = (
                "" if target is None else f"; {target} was not asked whether it can take it"
            )
        self.keep()
        self.tell()

    def keep(self) -> None:
        """Verify it, unless that is not wanted, and save it."""
        if self.is_kept or self.algorithm is None:
            return
        if self.task.settings.verify:
            from pccl.synthesis.synthesize import verify_own

            self.watch.progress(0, 0, "verifying")
            verify_own(self.algorithm)
        if self.task.output:
            self.watch.progress(0, 0, f"saving {self.task.output.name}")
            self.algorithm.save(self.task.output)
        self.is_kept = True

    def prove(self) -> None:
        """Find out how good it is, and each of several collectives."""
        if self.algorithm is None:
            return
        self.watch.progress(0, 0, "proving bounds")
        if self.algorithm.bound is None:
            from pccl.bounds import lower_bound

            # For any number of chunks, if none is given.
            topology = self.task.topology
            limit = replace(self.task.settings, effort="balanced").usual_wait(topology.num_npus)
            bound = lower_bound(topology, *self.task.collectives, time_limit=limit)
            self.algorithm = replace(self.algorithm, bound=bound)
        self.each = each_of(self.algorithm)

    def tell(self) -> None:
        """Print what is known of it."""
        if self.is_told or self.algorithm is None:
            return
        self.is_told = True
        is_verified = self.task.settings.verify
        if self.as_json:
            # Not properties of the algorithm, so that 'pccl show --json' cannot know them.
            search = {"verified": is_verified, "interrupted": self.is_cut_short}
            print_json(describe(self.algorithm, self.task.output, self.each) | search)
            return
        if self.quiet:
            return
        facts = self.algorithm.facts()
        # What was not checked must not look as if it had been.
        facts["verified"] = "yes" if is_verified else "no, as asked"
        if self.is_cut_short:
            facts["interrupted"] = f"this is the best that was found by then{self.caveat}"
        if self.task.output:
            facts["saved to"] = str(self.task.output)
        print_facts(facts)
        print_each_collective(self.each)


def _announce_first_pass(task: Spec) -> None:
    """Say beforehand what is going to be done, where the first pass may take longer than people wait."""
    npus = task.topology.npus
    for one in task.collectives:
        one.check_manageable(len(one.members(npus)))
    chunks = sum(one.deliveries(len(one.members(npus))) for one in task.collectives)
    settings = task.settings
    limit = settings.time_limit or settings.usual_wait(len(npus))
    if chunks < _MANY_CHUNKS and len(npus) <= _MANY_NPUS:
        return
    first = f"the first pass is always completed, with about {chunks:,} chunks to deliver"
    rest = "a fast search is over then"
    if limit is not None:
        rest = f"what follows ends {limit:g} s after the search began"
    print_error(f"{first}; {rest}", "note: ")


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
@click.option(
    "--time-limit",
    type=float,
    metavar="SECONDS",
    help="Take the best that is proven after this many seconds. Default: 20 up to 64 NPUs, 60 up to 512, 120 above.",
)
@json_option
def bound(
    spec: Path | None, trees: bool, time_limit: float | None, as_json: bool, **flags: Any
) -> None:
    """Prove how long any algorithm must take, given flags or a SPEC file.

    It comes with a certificate: a chunk and its way, a set of devices and what must leave it, or prices of links.
    """
    task = read_task(spec, flags)
    for collective in task.collectives:
        collective.check_pieces(task.topology)
    from pccl.bounds import lower_bound, tree_optimum
    from pccl.settings import Settings

    # Refuses a limit that is none.
    usual = Settings(time_limit=time_limit).usual_wait(task.topology.num_npus)
    along_trees = None
    watch = Watch()
    found: list[Bound] = []

    def end() -> None:
        if not found:
            raise StoppedError("interrupted before a first bound was proven")
        _tell_of_bound(found[-1], None, as_json)

    with ending(end):
        with watching(quiet=False, watch=watch):
            # For any number of chunks where the task leaves it open. The quick one first, so that there is one.
            for quick in (True, False):
                watch.progress(0, 0, "proving a bound")
                limit = None if quick else time_limit or usual
                found.append(
                    lower_bound(task.topology, *task.collectives, quick=quick, time_limit=limit)
                )
            if trees:
                watch.progress(0, 0, "looking for the best trees")
                along_trees = tree_optimum(task.topology, *task.collectives)
        with last_word():
            _tell_of_bound(found[-1], along_trees, as_json)


def _tell_of_bound(found: Bound, along_trees: Picoseconds | None, as_json: bool) -> None:
    from pccl.units import time_text

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
                "interrupted": asked(),
                "cut_short": found.cut_short,
            }
        )
        return
    facts = {"bound": time_text(found.value), "kind": found.kind, "because": str(found)}
    if along_trees is not None:
        facts["trees"] = f"{time_text(along_trees)} at least, without latencies"
    if asked():
        facts["interrupted"] = "this is the best that was proven by then"
    print_facts(facts)
