"""What may follow a plan: each check raises :class:`Fault` where a promise is broken."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

import pccl
from benchmarks.stress.dice import Dice
from pccl.collective import collective_from_dict
from pccl.formats import FORMATS
from pccl.reporting.figures.registry import FIGURES
from pccl.runtime.arrays import DTYPES, OPS
from pccl.runtime.measure import Job, run_in_one_process
from pccl.schemes import UnsupportedError
from pccl.targets import TARGETS
from pccl.topology import save_topology

# The slow twin of the verifier compares every two transfers, so that time grows with the square.
_MOST_FOR_REFERENCE = 1_500
# NumPy runs one message after another.
_MOST_TO_RUN = 20_000
_MOST_TO_DRAW = 20_000


class Fault(Exception):  # noqa: N818
    """A promise is broken."""


@dataclass(frozen=True)
class Case:
    """A plan, what was asked for, and a folder to write in."""

    topology: pccl.Topology
    asked: list[pccl.Collective]
    settings: dict[str, Any]
    plan: pccl.Algorithm
    folder: Path
    dice: Dice

    @property
    def transfers(self) -> int:
        """How many transfers the plan has."""
        return len(self.plan.transfers)

    @property
    def target(self) -> str | None:
        """The runtime that the plan is for."""
        return self.settings.get("target")


@dataclass(frozen=True)
class Check:
    """Something that may follow a plan.

    Attributes
    ----------
    share
        How often it follows.
    run
        The function that raises where something is wrong.
    code
        What to write after a plan to see it again; empty if that takes more than a line.
    """

    share: float
    run: Callable[[Case], None] = field(repr=False)
    code: str = ""


def _need(fine: bool, text: str) -> None:
    if not fine:
        raise Fault(text)


@contextmanager
def _may_be_refused() -> Iterator[None]:
    """Let a clear refusal pass."""
    try:
        yield
    except pccl.VerificationError:
        raise
    except pccl.PcclError as error:
        _need_clear(error)


def _need_clear(error: pccl.PcclError) -> None:
    text = str(error)
    _need(bool(text.strip()) and "\n" not in text, f"a refusal is no line of text: {text!r}")


# --- is it correct? ---------------------------------------------------------------------------------------------------


def _verify(case: Case) -> None:
    pccl.verify(case.plan)


def _what_was_asked(case: Case) -> None:
    """The plan is for the collectives and the network that were asked for; it may use less of its switches."""
    made = case.plan.collectives
    _need(len(made) == len(case.asked), "it is for another number of collectives")
    for asked, found in zip(case.asked, made, strict=True):
        same = found == asked if asked.chunks is not None else found.uncut() == asked.uncut()
        _need(same, f"it is for {found!r}, not for {asked!r}")
    own = case.plan.topology
    for name in ("kind", "src", "dst", "bandwidth", "latency", "gap", "exclusive", "buffer"):
        _need(np.array_equal(getattr(own, name), getattr(case.topology, name)), f"{name} differs")
    for name in ("multicast", "reduce"):
        more = getattr(own, name) & ~getattr(case.topology, name)
        _need(not np.any(more), f"its switches can do more: {name}")


def _reference(case: Case) -> None:
    if case.transfers <= _MOST_FOR_REFERENCE:
        from tests.algorithm.reference import is_correct

        _need(is_correct(case.plan), "the slow reference does not agree that it is correct")


def _bound(case: Case) -> None:
    least = pccl.lower_bound(case.topology, *case.asked)
    took = case.plan.duration
    _need(least.value <= took, f"the bound {least.value} is above the plan, which takes {took}")
    own = case.plan.bound
    if own is not None:
        _need(own.value <= took, f"its own bound {own.value} is above the plan, which takes {took}")


def _target(case: Case) -> None:
    if case.target:
        time = TARGETS[case.target].time_of(case.plan)
        _need(time >= 0, "the runtime takes no time")


# --- does the rest work on it? ----------------------------------------------------------------------------------------


def _simulate(case: Case) -> None:
    simulation = pccl.simulate(case.plan)
    late = simulation.finish > case.plan.duration
    _need(not late, f"simulated {simulation.finish}, planned {case.plan.duration}")
    pccl.verify(simulation.to_algorithm())


def _fifo(case: Case) -> None:
    with _may_be_refused():
        simulation = pccl.simulate(case.plan, "fifo", jitter=0.1, seed=1)
        _need(simulation.finish >= 0, "it ends before it begins")


def _file(case: Case) -> None:
    for name in ("plan.pccl", "plan.json"):
        path = case.folder / name
        case.plan.save(path)
        again = pccl.load(path)
        _need(again == case.plan, f"{name} gives back another plan")
        _need(again.bound == case.plan.bound, f"{name} gives back another bound")


def _network_file(case: Case) -> None:
    for name in ("network.yaml", "network.json"):
        path = case.folder / name
        save_topology(case.topology, path)
        _need(pccl.topology.load(path) == case.topology, f"{name} gives back another network")


def _again(case: Case) -> None:
    if "time_limit" not in case.settings:
        again = pccl.synthesize(case.topology, *case.asked, **case.settings)
        _need(again == case.plan, "the same seed gives another plan")


def _describe(case: Case) -> None:
    plan = case.plan
    texts = [plan.summary(), repr(plan), repr(case.topology), *plan.facts().values()]
    texts += [str(collective) for collective in plan.collectives]
    texts += [str(row.finish) for row in pccl.each_collective(plan)]
    if plan.bound is not None:
        texts.append(str(plan.bound))
    _need(all(texts), "there is nothing to say")
    for collective in (*case.asked, *plan.collectives):
        again = collective_from_dict(collective.to_dict())
        _need(again == collective, f"{collective!r} is {again!r} once it was written")


def _report(case: Case) -> None:
    path = case.folder / "report.html"
    pccl.report(case.plan, path)
    _need("</html>" in path.read_text(encoding="utf-8"), "the page is not complete")


def _plot(case: Case) -> None:
    kinds = [name for name, figure in FIGURES.items() if not figure.searches]
    if case.transfers <= _MOST_TO_DRAW:
        with _may_be_refused():
            pccl.plot(case.plan, case.dice.pick(kinds), case.folder / "figure.svg")


def _export(case: Case) -> None:
    plan = case.plan
    which = case.dice.whole(0, len(plan.collectives) - 1)
    collective = plan.collectives[which]
    npus = case.topology.npus.tolist()
    members = [npus.index(npu) for npu in collective.members(case.topology.npus)]
    given: dict[str, Any] = {}
    if len(plan.collectives) > 1:
        given["collective"] = which
    if len(members) < len(npus):
        given["all_ranks"] = True
    elif sorted(members) != members:
        # Ranks of a file are in the order of the group.
        members = sorted(members)
    for declared in FORMATS.values():
        known = {option.name for option in declared.options}
        options = {name: value for name, value in given.items() if name in known}
        path = case.folder / f"export{(*declared.suffixes, '')[0]}"
        try:
            pccl.export(plan, path, declared.name, **options)
        except pccl.PcclError as error:
            _need_clear(error)
            continue
        if declared.checker:
            _check_file(case, path, declared.name, collective, members)


def _check_file(
    case: Case, path: Path, name: str, collective: pccl.Collective, members: list[int]
) -> None:
    known = {option.name for option in FORMATS[name].checks}
    options: dict[str, Any] = {}
    if "group" in known and len(members) < case.topology.num_npus:
        options["group"] = members
    if "root" in known and collective.rooted:
        root = getattr(collective, "root", None)
        group = collective.members(case.topology.npus).tolist()
        alone = len(members) == case.topology.num_npus
        npus = group if alone else case.topology.npus.tolist()
        options["root"] = npus.index(group[0] if root is None else root)
    result = pccl.check(path, name, **options)
    _need(bool(result), f"{name}: {result.problems[:1]}")


def _run(case: Case) -> None:
    if case.transfers > _MOST_TO_RUN:
        return
    dice = case.dice
    elements = tuple(dice.pick([1, 7, 64, 1000, 4099]) for _ in case.plan.collectives)
    op = dice.pick(sorted(OPS))
    floats = [name for name in DTYPES if "float" in name and "8" not in name and name != "bfloat16"]
    dtype = "float32" if op == "avg" else dice.pick(["int32", "float32", *floats])
    job = Job((elements,), dtype=dtype, op=op, in_place=dice.chance(0.3), iterations=0)
    # A plan for so little that some have nothing to send cannot be run with more.
    with _may_be_refused():
        outcome = run_in_one_process(case.plan, job).outcomes[0]
        text = f"of {elements} elements of {dtype}, {op}, {outcome.wrong} are wrong"
        _need(not any(outcome.wrong), text)


def _schemes(case: Case) -> None:
    """Every baseline that fits is correct, and none beats the bound."""
    uncut = [collective.uncut() for collective in case.asked]
    least = pccl.lower_bound(case.topology, *uncut).value
    for one in pccl.baselines():
        # Our own search takes longer than all the others together.
        if one.synthesizes and not case.dice.chance(0.1):
            continue
        try:
            found = one.run(case.topology, case.asked)
        except UnsupportedError as error:
            _need_clear(error)
            continue
        except pccl.InfeasibleError as error:
            _need_clear(error)
            continue
        try:
            pccl.verify(found)
        except pccl.VerificationError as error:
            raise Fault(f"the baseline {one.name}: {error}") from None
        took = found.duration
        _need(least <= took, f"the baseline {one.name} takes {took}, but the bound is {least}")


def _compare(case: Case) -> None:
    found = pccl.compare(case.plan, network=case.topology, target=case.target, quick=True)
    for row in found.rows:
        text = f"{row.name} takes {row.duration}, and the bound is {found.bound}"
        _need(found.bound is None or found.bound.value <= (row.duration or 0), text)


CHECKS = {
    "verify": Check(1, _verify, "pccl.verify(plan)"),
    "asked": Check(1, _what_was_asked, "print(plan.topology, plan.collectives)"),
    "bound": Check(
        0.6, _bound, "print(pccl.lower_bound(network, *asked), plan.bound, plan.duration)"
    ),
    "target": Check(1, _target),
    "reference": Check(
        0.6, _reference, "from tests.algorithm.reference import is_correct; print(is_correct(plan))"
    ),
    "simulate": Check(0.5, _simulate, "print(pccl.simulate(plan).finish, plan.duration)"),
    "fifo": Check(0.2, _fifo, 'print(pccl.simulate(plan, "fifo", jitter=0.1, seed=1))'),
    "file": Check(0.4, _file, 'plan.save("a.pccl"); print(pccl.load("a.pccl") == plan)'),
    "network file": Check(0.2, _network_file),
    "again": Check(0.12, _again),
    "describe": Check(0.2, _describe, "print(plan.summary(), pccl.each_collective(plan))"),
    "report": Check(0.04, _report, 'pccl.report(plan, "report.html")'),
    "plot": Check(0.01, _plot),
    "export": Check(0.25, _export),
    "run": Check(0.25, _run),
    "schemes": Check(0.15, _schemes),
    "compare": Check(0.06, _compare, "print(pccl.compare(plan, network=network, quick=True))"),
}
