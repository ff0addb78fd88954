"""Plans that runtimes can take: a search, and if a runtime has no room for its best, another with fewer chunks.

Where a known scheme is faster than what was found, that is taken.

For a runtime that is named, the best is what takes least time there, as messages between NPUs. If none is named, a plan
that suits all of them is preferred to the best if it takes hardly longer.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np

from pccl.algorithm import Algorithm
from pccl.bounds import lower_bound
from pccl.collective import Collective
from pccl.errors import InfeasibleError, PcclError
from pccl.settings import Settings
from pccl.synthesis.chunking import cut, pieces_of
from pccl.synthesis.clock import Clock
from pccl.synthesis.incumbent import Entry, Log
from pccl.synthesis.judging import (
    KEPT,
    TOLERATED,
    Alternative,
    Answer,
    Judged,
    Judgement,
    Plan,
)
from pccl.synthesis.known import Known, Schemes, beats_trees, may_relay
from pccl.synthesis.neighbours import Class, classes_of, finishes_of, is_better, served_in_turn
from pccl.synthesis.problem import Progress
from pccl.synthesis.schedule import Schedule
from pccl.synthesis.search import MENDABLE, Search
from pccl.targets import TARGETS, Target
from pccl.topology import Topology
from pccl.topology.parts import SWITCH

# What is as fast as a scheme may take so many times as long in a runtime as planned; export says so from there on.
ALLOWED = 1.1
# A scheme that is so many times as fast is taken even if some runtime cannot take it.
MUCH_FASTER = 1.25
# Of the time that is left: for a search, so that known schemes get some too.
SHARE_OF_SEARCH = 0.8
# Of the effort: for a second search, if nobody has named a runtime.
SHARE_OF_SECOND = 0.25
# Of the room in a runtime, the share that messages can fill before some are joined.
FULL = 0.9
# What would take so many times the room is refused, or takes far longer than planned: nobody need be asked.
CROWDED = 2.0
# So many times as many chunks as there is room for may be taken with some of them joined.
JOINED = 1.6
# Transfers of one NPU: all runtimes have room for so many; and some have none for so many of one chunk a share.
EASY = 1024
HOPELESS = 8192
NEVER = math.inf


@dataclass
class Fitting:
    """Searches for one task, one after another, and what their schedules take in runtimes."""

    topology: Topology
    collectives: Sequence[Collective]
    settings: Settings
    progress: Progress
    log: Log | None
    clock: Clock
    deadline: float | None  # seconds on the clock
    so_far: Plan | None = None  # what to return where the user has had enough
    interrupted: bool = False  # whether he has
    first_pass: float = 0.0  # seconds until there was any schedule
    expects_exchange: bool = True  # whether a search may leave it to schemes to exchange sums
    is_let_down: bool = False  # whether it did, and none was taken
    known_times: list[Answer] = field(default_factory=list)  # what runtimes have said

    def run(self) -> Plan:
        """The best plan for the runtime that is named, or for all of them, with a bound for any number of chunks."""
        try:
            plan = self._plan()
            if self.is_let_down:
                # Some runtime has no room for the exchange.
                self.expects_exchange = False
                plan = self._plan()
        except KeyboardInterrupt:
            if self.so_far is None:
                raise
            self.interrupted = True
            plan = self.so_far
        return replace(plan, interrupted=self.interrupted, first_pass=self.first_pass)

    def _plan(self) -> Plan:
        target = self.settings.target
        return self._for_all() if target is None else self._for_one(TARGETS[target])

    # --- one runtime --------------------------------------------------------------------------------------------------

    def _for_one(self, target: Target) -> Plan:
        able = with_switches(self.topology, target.multicast, target.reduce)
        search = self._search(able, self.collectives)
        search.is_beaten = self.expects_exchange and beats_trees(search)
        judged = Judged(target)
        judged.add(self._run(search))
        if judged.best is not None:
            self._keep(Plan.of(judged.best, search.incumbent.bound))
        bound = search.proven_bound()
        if not judged.content:
            # What was found on the way to the best, with fewer and fewer chunks.
            for fewer in self._fewer(search):
                judged.add(fewer)
                if judged.content:
                    break
            opening = judged.best
            if opening is not None:
                self._keep(Plan.of(opening, bound))
                if opening is not search.incumbent.best and not search.budget.over():
                    judged.add(self._improved(able, opening))
        if judged.best is None:
            if self.interrupted:
                raise KeyboardInterrupt
            # Whoever passes on the least has the least to do.
            settings = replace(self.settings, routes="minimal")
            judged.add(self._run(self._search(able, cut(self.collectives, 1), settings)))
        if judged.best is None:
            raise InfeasibleError(
                f"no plan was found that {target.name} can take: {judged.refusal}"
            )
        plan = self._keep(Plan.of(judged.best, bound))

        def judge(known: Known, ours: Algorithm) -> Judgement | None:
            if len(self.collectives) > 1:
                return self._of_several(search, known, ours, judged)
            better = None
            for algorithm in self._cuts(known):
                if judged.is_better(algorithm):
                    better = Judgement(algorithm, known.scheme.name, judged.time)
                    if judged.time <= KEPT * algorithm.duration:
                        break
            return better

        return self._or_known(search, plan, judged.time, judge)

    # --- all of them --------------------------------------------------------------------------------------------------

    def _for_all(self) -> Plan:
        search = self._search(self.topology, self.collectives)
        search.is_beaten = self.expects_exchange and beats_trees(search)
        best = self._run(search)
        self._keep(Plan.of(best, search.incumbent.bound))
        plan = self._keep(Plan.of(best, search.proven_bound()))
        asked = [target for target in TARGETS.values() if target.limited]
        plan = self._keep(self._suited(search, plan, asked))

        def judge(known: Known, ours: Algorithm) -> Judgement | None:
            if len(self.collectives) > 1:
                return self._of_several(search, known, ours)
            own = self._as_good(search, known, ours, asked)
            if own is not None:
                return own
            found = self._suitable(known, ours, asked)
            if found is None:
                return None
            return Judgement(found, known.scheme.name, int(found.duration))

        return self._or_known(search, plan, int(plan.algorithm.duration), judge)

    def _suited(self, search: Search, best: Plan, asked: Sequence[Target]) -> Plan:
        """The best, or what takes hardly longer and suits all runtimes."""
        algorithm = best.algorithm
        if search.budget.effort.work == 0 or search.budget.over() or self._is_easy(algorithm):
            return best
        fill = max(target.filled_by(algorithm) for target in asked)
        longest = NEVER if fill > CROWDED else self._longest(algorithm, asked)
        if longest <= KEPT * algorithm.duration:
            return best
        suited = best
        for other in self._alternatives(search, algorithm, asked, fill, longest < NEVER):
            if other.time < longest:
                longest = other.time
                origin = str(other.schedule.origin)
                suited = replace(best, algorithm=other.algorithm, origin=origin)
        return suited

    def _as_good(
        self, search: Search, known: Known, ours: Algorithm, asked: Sequence[Target]
    ) -> Judgement | None:
        """What was found with more chunks than the best, if it is as fast as a scheme and suits all runtimes.

        It was given up for fewer chunks, before anybody knew that a scheme is faster than these.
        """
        # What needs switches to multiply or add is taken by no runtime, neither the scheme nor the best so far.
        is_taken_by_none = bool(known.algorithm.needs and ours.needs)
        for _, schedule in sorted(search.best_of.items()):
            if schedule.duration <= known.algorithm.duration:
                algorithm = schedule.algorithm()
                most = ALLOWED * schedule.duration
                if not may_relay(search, algorithm, ours, int(ours.duration)):
                    continue
                if is_taken_by_none or self._is_taken(algorithm, asked, most):
                    return Judgement(algorithm, str(schedule.origin), schedule.duration)
        return None

    def _suitable(self, known: Known, ours: Algorithm, asked: Sequence[Target]) -> Algorithm | None:
        """A scheme that is as good for all runtimes as what was found, or so much faster that it does not matter."""
        best = known.algorithm
        if ours.duration > MUCH_FASTER * best.duration:
            return best
        for algorithm in self._cuts(known):
            if algorithm.duration >= ours.duration:
                break
            # As it is, it may take a little longer there: with fewer chunks it would be slower than the scheme is.
            kept = TOLERATED if algorithm is best else KEPT
            if self._is_taken(algorithm, asked, kept * algorithm.duration):
                return algorithm
        return best if self._is_taken(best, asked, self._longest(ours, asked)) else None

    def _is_taken(self, algorithm: Algorithm, asked: Sequence[Target], most: float) -> bool:
        """Whether it takes at most so long in all runtimes; those that have no room for it say so quickly."""
        if self._longest(algorithm, asked) > most:
            return False
        return self._longest(algorithm, asked, quick=False) <= most

    def _of_several(
        self, search: Search, known: Known, ours: Algorithm, judged: Judged | None = None
    ) -> Judgement | None:
        """For several collectives: a scheme if it suits them better than ours, or what then suits them even better.

        That is the scheme with one collective served after another, or what was found with other numbers of chunks. A
        runtime that is judged for must not take longer for it.
        """
        ends = finishes_of(ours)
        turn = [number for one in self._classes for number in one.members]
        schemes = [(known.algorithm, known.scheme.name), (known.in_turn(turn), known.scheme.name)]
        if not any(is_better(finishes_of(one), ends, self._classes) for one, _ in schemes):
            return None
        best = None
        for algorithm, origin in (*schemes, *self._served_in_turn(search)):
            finishes = finishes_of(algorithm)
            if not is_better(finishes, ends, self._classes):
                continue
            if not may_relay(search, algorithm, ours, int(ours.duration)):
                continue
            if judged is None or judged.is_as_good(algorithm):
                ends = finishes
                best = Judgement(algorithm, origin, int(algorithm.duration))
        return best

    def _served_in_turn(self, search: Search) -> Iterator[tuple[Algorithm, str]]:
        """What was found with each number of chunks, with one class of collectives served after another."""
        for _, schedule in sorted(search.best_of.items()):
            served = served_in_turn(schedule, self._classes)
            yield served.algorithm(), str(served.origin)

    @cached_property
    def _classes(self) -> list[Class]:
        return classes_of(self.topology, cut(self.collectives, 1))

    def _cuts(self, known: Known) -> Iterator[Algorithm]:
        """A scheme, and the same with fewer chunks, as long as it takes hardly longer."""
        yield known.algorithm
        yield from known.with_fewer_chunks(self.collectives, TOLERATED * known.algorithm.duration)

    def _or_known(
        self,
        search: Search,
        plan: Plan,
        duration: int,
        judge: Callable[[Known, Algorithm], Judgement | None],
    ) -> Plan:
        """The plan, which takes so long, or a known scheme that is judged to be better."""
        # They get the time that searches have left.
        search.budget.deadline = self.deadline
        search.budget.stopped = False
        schemes = Schemes.of(search, plan.bound, duration)
        tried = None
        before = plan
        # With as many chunks as the best of them has, another may be better still.
        while tried != plan.algorithm.collectives:
            tried = plan.algorithm.collectives
            for known in schemes.faster(plan.algorithm):
                better = judge(known, plan.algorithm)
                if better is not None:
                    schemes.duration = better.time
                    found = replace(plan, algorithm=better.algorithm, origin=better.origin)
                    plan = self._keep(found)
                    self._tell(plan)
        self.is_let_down = search.is_beaten and plan is before and not search.budget.over()
        return plan

    def _keep(self, plan: Plan) -> Plan:
        """The plan, which is the best so far."""
        self.so_far = plan
        return plan

    def _tell(self, plan: Plan) -> None:
        """Write a line of the log."""
        if self.log is not None and plan.bound is not None:
            self.log(
                Entry(self.clock.elapsed, plan.origin, plan.algorithm.duration, plan.bound.value)
            )

    def _alternatives(
        self,
        search: Search,
        best: Algorithm,
        asked: Sequence[Target],
        fill: float,
        is_taken: bool,
    ) -> Iterator[Alternative]:
        """What takes hardly longer than the best, but may suit all runtimes better.

        The best fills so much of their room, and they take it or not.
        """
        if best.needs:
            plain = with_switches(self.topology, multicast=False, reduce=False)
            schedule = self._improved(plain, search.incumbent.best, SHARE_OF_SECOND)
            if schedule.duration <= TOLERATED * best.duration:
                yield self._alternative(schedule, asked)
            return
        pieces = pieces_of(self.collectives, best.collectives)
        most = int(pieces * min(FULL / max(fill, FULL), 1.0))
        # Where all of them can take the best, hardly any of its time is given up.
        longest = int((KEPT if is_taken else TOLERATED) * best.duration)
        # What was found with fewer chunks.
        for schedule in self._fewer(search):
            if schedule.duration > longest:
                break
            fewer = self._alternative(schedule, asked)
            yield fewer
            is_taken |= fewer.time < NEVER
            if fewer.content:
                if schedule.duration <= KEPT * best.duration:
                    return
                most = max(most, self._pieces(schedule))
                break
        # With as many as there is room for; if nothing is taken so far, some more, which take less time.
        count = most if is_taken else int(JOINED * most)
        if 0 < count < pieces:
            found = self._near(search, count, longest)
            if found is not None:
                yield self._alternative(found, asked)

    def _near(self, search: Search, pieces: int, most: int) -> Schedule | None:
        """What a short search finds with so many chunks, if it takes at most so long."""
        best = search.incumbent.best
        quick = lower_bound(self.topology, *cut(self.collectives, pieces), quick=True)
        # Where the bound is higher for these chunks, what is found will be so too.
        if best.duration * quick.value > most * best.problem.quick_bound.value:
            return None
        # Likewise where some more chunks than these were found to take so long that nothing mends it.
        more = [count for count in search.best_of if pieces <= count < self._pieces(best)]
        if more and search.best_of[min(more)].duration > MENDABLE * most:
            return None
        opening = search.best_of.get(pieces)
        found = self._searched(self.topology, pieces, SHARE_OF_SECOND, opening)
        return found if found.duration <= most else None

    def _alternative(self, schedule: Schedule, asked: Sequence[Target]) -> Alternative:
        algorithm = schedule.algorithm()
        return Alternative(schedule, algorithm, self._longest(algorithm, asked))

    def _longest(
        self, algorithm: Algorithm, targets: Sequence[Target], quick: bool = True
    ) -> float:
        """The time that it takes, at worst, in these runtimes; for ever if one cannot take it."""
        for known in self.known_times:
            # Schemes may come to the same.
            if known.quick == quick and known.algorithm == algorithm:
                return known.time
        try:
            time = max(float(target.time_of(algorithm, quick=quick)) for target in targets)
        except PcclError:
            time = NEVER
        self.known_times.append(Answer(algorithm, quick, time))
        return time

    def _is_easy(self, algorithm: Algorithm) -> bool:
        """Whether there is no question that is worth asking: all have room, or nothing would have."""
        topology = algorithm.topology
        is_switch = topology.kind == SWITCH
        if len(algorithm.collectives) > 1:
            return True
        if np.any((topology.multicast | topology.reduce) & is_switch):
            return False
        # With one chunk to a share, there is nothing to give up.
        pieces = pieces_of(self.collectives, algorithm.collectives)
        if pieces == 1:
            return True
        ends = np.concatenate([algorithm.transfers.src, algorithm.transfers.dst])
        most = int(np.bincount(ends[~is_switch[ends]]).max(initial=0))
        return most <= EASY or most > HOPELESS * pieces

    # --- searches -----------------------------------------------------------------------------------------------------

    def _search(
        self,
        topology: Topology,
        collectives: Sequence[Collective],
        settings: Settings | None = None,
    ) -> Search:
        """A search in a share of the time that is left."""
        settings = settings or self.settings
        search = Search.of(topology, collectives, settings, self.progress, self.log, self.clock)
        search.budget.deadline = self.clock.part_until(self.deadline, SHARE_OF_SEARCH)
        return search

    def _improved(self, topology: Topology, schedule: Schedule, share: float = 1.0) -> Schedule:
        """The best that a search finds with as many chunks."""
        # What was found for other switches is none for these.
        opening = schedule if schedule.problem.topology is topology else None
        return self._searched(topology, self._pieces(schedule), share, opening)

    def _searched(
        self, topology: Topology, pieces: int, share: float, opening: Schedule | None = None
    ) -> Schedule:
        """The best that a search finds with so many chunks, and with a share of the effort."""
        search = self._search(topology, cut(self.collectives, pieces))
        effort = search.budget.effort
        search.budget.effort = replace(effort, work=max(1, int(share * effort.work)))
        found = self._run(search, opening)
        if self.interrupted:
            # There is a plan that is better known.
            raise KeyboardInterrupt
        return found

    def _run(self, search: Search, opening: Schedule | None = None) -> Schedule:
        """What a search finds."""
        found = search.run(opening)
        self.interrupted |= search.budget.interrupted
        self.first_pass = self.first_pass or search.incumbent.first_pass
        return found

    def _fewer(self, search: Search) -> list[Schedule]:
        """What was found with fewer chunks than the best, the most chunks first."""
        most = self._pieces(search.incumbent.best)
        fewer = sorted((count for count in search.best_of if count < most), reverse=True)
        return [search.best_of[count] for count in fewer]

    def _pieces(self, schedule: Schedule) -> int:
        return pieces_of(self.collectives, schedule.problem.collectives)


def with_switches(topology: Topology, multicast: bool, reduce: bool) -> Topology:
    """The network with switches that multiply and add only if they may."""
    no_switch = topology.kind != SWITCH
    multiplies = topology.multicast & (no_switch | multicast)
    adds = topology.reduce & (no_switch | reduce)
    if np.array_equal(multiplies, topology.multicast) and np.array_equal(adds, topology.reduce):
        return topology
    name = f"{topology.name}, plain switches"
    return topology.derived(name=name, multicast=multiplies, reduce=adds)
