"""The search: phases that try methods and improve what they find, a budget for them, and the best so far.

1. For one number of chunks after another, as long as more chunks gain time: the methods that promise most.
2. The best is mended, also with fewer and with more chunks.
3. Other methods and knobs, and the best of what they find is mended.
4. Variations of the best, by all improvements in turn.

It stops as soon as the best is proven to be good enough, nothing more is gained, or the budget is spent.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import TypeAlias

import numpy as np

from pccl._arrays import Bools
from pccl.bounds import Bound, lower_bound
from pccl.collective import Collective, compile_conditions
from pccl.errors import InfeasibleError
from pccl.settings import Settings
from pccl.synthesis.budget import TWO_PHASES, WORKERS, Budget, Enough, clock_of, effort_of
from pccl.synthesis.chunking import cut, numbers_of_chunks, pieces_of
from pccl.synthesis.clock import Clock
from pccl.synthesis.improve import AS_IT_IS, IMPROVEMENTS, Aim, Improvement, Timing, retimed
from pccl.synthesis.incumbent import WORTHWHILE, Incumbent, Log
from pccl.synthesis.methods import METHODS, Method, cost_of
from pccl.synthesis.methods.choice import Choice
from pccl.synthesis.neighbours import (
    Class,
    Part,
    classes_of,
    cut_like,
    finishes,
    is_better,
    relays,
    served_apart,
    served_in_turn,
    side_by_side,
    ways_to_confine,
)
from pccl.synthesis.problem import Problem, Progress
from pccl.synthesis.schedule import Schedule
from pccl.topology import Topology

Attempt: TypeAlias = Callable[[], Schedule]
# Of the effort: for the number of chunks; for that and other methods. The rest improves what they find.
SHARE_OF_CHUNKING = 0.4
SHARE_OF_METHODS = 0.6
# That for each search with fewer chunks, where all before has taken no more than this.
SHARE_OF_FEWER_CHUNKS = 0.15
EASY = 0.4
# A method that takes so many times as long as the best is not tried with more chunks, once there are enough of them to
# tell: some methods need many.
HOPELESS = 1.25
TELLING = 4
# What takes so many times as long as the best, and is not yet mended, will not become as good.
MENDABLE = 1.06
# Of the effort: for a search that keeps collectives to their own NPUs.
SHARE_OF_CONFINING = 0.25
# Of the work that is left to all searches of a call: for collectives each by themselves.
SHARE_OF_NEIGHBOURS = 0.5
# A relay through others must gain more than this share of the time.
WORTH_A_RELAY = 0.005
# So many kinds of collectives are each looked for with all the effort, as if the others were not there.
AFFORDED_ALONE = 4
# Attempts that modest work pays for, at least, if each takes next to no time.
CHEAP = 6
# Of what other methods find, that many of the best are mended.
CONTENDERS = 6
# A share of the duration: what gains less has stalled.
FEWEST_GAINED = 0.0005
# Attempts to mend the best without a gain before other methods are tried.
PATIENCE_WITH_MENDING = 2


@dataclass
class Search:
    """One search for the best schedule; `run` does it."""

    topology: Topology
    collectives: Sequence[Collective]
    settings: Settings
    choice: Choice
    progress: Progress
    budget: Budget
    incumbent: Incumbent
    confined: Bools  # per collective: whether it keeps to its own NPUs
    tried: set[Method] = field(default_factory=set)
    best_of: dict[int, Schedule] = field(default_factory=dict)  # per number of chunks
    variations: int = 0  # of the best, so far: each gets a seed of its own
    stalled: bool = False  # whether the last of them gained nothing
    is_beaten: bool = (
        False  # whether what we do not look for is known to take less than all we may find
    )

    @classmethod
    def of(
        cls,
        topology: Topology,
        collectives: Sequence[Collective],
        settings: Settings,
        progress: Progress,
        log: Log | None,
        clock: Clock | None = None,
    ) -> Search:
        """A search by the clock of a call; without one, by one of its own that begins now."""
        clock = clock or clock_of(settings, topology.num_npus)
        effort = effort_of(settings)
        # No more than all searches of the call may take, but the first pass is always made.
        work = max(1, int(min(effort.work, clock.work))) if effort.work else 0
        budget = Budget(replace(effort, work=work), clock, clock.limit)
        choice = Choice(METHODS, settings)
        is_open = any(one.chunks is None for one in collectives)
        best = Incumbent(clock, log, is_open)
        confined = np.array([getattr(one, "confined", False) for one in collectives], np.bool_)
        return cls(topology, collectives, settings, choice, progress, budget, best, confined)

    def run(self, opening: Schedule | None = None) -> Schedule:
        """The best schedule that the budget allows; it may go on from one that was found before."""
        try:
            if opening is None:
                self._choose_number_of_chunks()
                self._improve_if_worth_it()
            else:
                self._go_on_from(opening)
            if self.budget.effort.work:
                self._settle_for_fewer_chunks()
            self._be_good_neighbours()
        except (Enough, KeyboardInterrupt) as reason:
            if self.incumbent.schedule is None:
                raise KeyboardInterrupt from None
            self.budget.interrupted |= isinstance(reason, KeyboardInterrupt)
        return self.incumbent.best

    def proven_bound(self) -> Bound | None:
        """The best bound for what the caller asked for, where he leaves the chunks open for any number of them.

        None if nothing was proven, as when there was one quick pass.
        """
        best = self.incumbent.best
        if self.budget.effort.work == 0:
            return None
        known = best.problem.known_bound
        is_open = self.incumbent.any_number_of_chunks
        bound = self.incumbent.raise_bound(self.bound_of_any_cut if is_open else known)
        if not known.whole_chunks and not np.any(self.topology.overhead):
            bound = self.incumbent.raise_bound(known)
        is_good = best.duration <= bound.value * (1 + self.budget.effort.gap)
        if is_good or self.budget.interrupted:
            return bound
        time_limit = self.budget.clock.time_for_bound
        if is_open:
            found = lower_bound(self.topology, *self.collectives, time_limit=time_limit)
        else:
            found = best.problem.best_bound(time_limit)
        return self.incumbent.raise_bound(found)

    @cached_property
    def bound_of_any_cut(self) -> Bound:
        """A quick bound, however data are cut where that is left open."""
        return lower_bound(self.topology, *self.collectives, quick=True)

    # --- the number of chunks, and the methods that promise most ------------------------------------------------------

    def _choose_number_of_chunks(self) -> None:
        hopeless: set[Method] = set()
        for problem in self._problems():
            self._try_openings(problem, hopeless)
            if self.budget.effort.work == 0 or self._good_enough():
                break
        self.incumbent.bound_of_any_cut = None  # from now on the chunks are what they are

    def _problems(self) -> Iterator[Problem]:
        """The problem for each promising number of chunks, as long as more chunks gain time."""
        options = self._numbers_of_chunks()
        if self.incumbent.any_number_of_chunks and self.budget.effort.work:
            self.incumbent.raise_bound(self.bound_of_any_cut)
        if len(options) > 1:
            self.incumbent.bound_of_any_cut = self.bound_of_any_cut
        worse = 0
        before = None
        for chunks in options:
            problem = self._problem(chunks)
            if self.incumbent.schedule is not None:
                # For each number of chunks there are about four attempts.
                enough = SHARE_OF_CHUNKING * self.budget.allowed
                if self.budget.spent + 4 * cost_of(problem) > enough:
                    return
            yield problem
            worse += 1
            if before is None or self.incumbent.shortest < WORTHWHILE * before:
                before = self.incumbent.shortest
                worse = 0
            if worse == 2:
                return

    def _numbers_of_chunks(self) -> list[int]:
        if self.budget.effort.work == 0:
            return [1]
        return numbers_of_chunks(self.topology, self.collectives)

    def _problem(self, chunks: int) -> Problem:
        problem = self._pose(cut(self.collectives, chunks), self.confined)
        self._allow_for(problem)
        return problem

    def _allow_for(self, problem: Problem) -> None:
        phases = TWO_PHASES if problem.collects_and_spreads else 1.0
        self.budget.allowed = phases * self.budget.effort.work

    def _pose(self, collectives: tuple[Collective, ...], confined: Bools) -> Problem:
        conditions = compile_conditions(self.topology, collectives)
        seed = self.settings.seed
        clock = self.budget.clock
        return Problem(self.topology, collectives, conditions, seed, self._report, confined, clock)

    def _try_openings(self, problem: Problem, hopeless: set[Method]) -> None:
        """Try what promises most; note what is hopeless, so as not to try it with more chunks."""
        methods = self.choice.openings(problem)
        if self.budget.effort.work == 0:
            methods = methods[:1]
        for method in methods:
            self._try_opening(problem, method, hopeless)
            if self._good_enough():
                return
        if problem.collects_and_spreads and self.budget.effort.work:
            midway = (method.midway() for method in (self.incumbent.best.origin.method, *methods))
            for centered in filter(None, midway):
                self._try_opening(problem, centered, hopeless)
                break

    def _try_opening(self, problem: Problem, method: Method, hopeless: set[Method]) -> None:
        if method in hopeless:
            return
        (found,) = self._try([self._attempt(problem, method)])
        if self._pieces(found) >= TELLING and found.duration > HOPELESS * self.incumbent.shortest:
            hopeless.add(method)

    def _go_on_from(self, opening: Schedule) -> None:
        """Improve what was found before."""
        self._allow_for(opening.problem)
        self._offer(opening)
        self._improve_if_worth_it()

    # --- improving ----------------------------------------------------------------------------------------------------

    def _improve_if_worth_it(self) -> None:
        if self.budget.effort.work and not self._good_enough():
            self._improve()

    def _improve(self) -> None:
        mending = [one for one in self._improvements() if one.mends]
        for improvement in mending:
            best = self.incumbent.best
            attempts = [self._improving(improvement, best) for _ in range(WORKERS)]
            self._try_all(attempts, best.problem)
            if not self._try_fewer_chunks(improvement):
                self._try_more_chunks(improvement)
                self._prefer_fewer_chunks()
            vary = partial(self._improve_best, improvement)
            self._repeat(vary, PATIENCE_WITH_MENDING, improvement.most_work)
        problem = self.incumbent.best.problem
        root = self.incumbent.best.origin.method.root
        variants = [replace(method, root=root) for method in self.choice.variants(problem)]
        untried = [method for method in variants if method not in self.tried]
        attempts = [self._attempt(problem, method) for method in untried]
        found = self._try_all(attempts, problem, SHARE_OF_METHODS)
        contenders = sorted(found, key=lambda schedule: schedule.duration)[:CONTENDERS]
        for improvement in mending:
            attempts = [self._improving(improvement, schedule) for schedule in contenders]
            self._try_all(attempts, problem)
        self._repeat(self._vary_best, self.budget.effort.patience, cost_of(problem))

    def _improvements(self) -> list[Improvement]:
        problem = self.incumbent.best.problem
        return [improvement for improvement in IMPROVEMENTS if improvement.applies(problem)]

    def _try_fewer_chunks(self, improvement: Improvement) -> bool:
        """Whether fewer chunks do nearly as well when both are improved: of fewer, more can be tried."""
        found_some = False
        while not self.is_beaten:
            best = self.incumbent.best
            fewer = max((count for count in self.best_of if count < self._pieces(best)), default=0)
            found = self.best_of.get(fewer)
            if found is None or not self.budget.affords(cost_of(found.problem)):
                break
            if found.duration > MENDABLE * best.duration:
                break
            self._try([self._improving(improvement, found) for _ in range(WORKERS)])
            if not self.incumbent.is_near(self.best_of[fewer].duration):
                break
            self.incumbent.settle(self.best_of[fewer])
            found_some = True
        return found_some

    def _try_more_chunks(self, improvement: Improvement) -> None:
        """See what the same method finds with more chunks: it may be better when both are improved."""
        while not self._good_enough():
            best = self.incumbent.best
            options = [one for one in self._numbers_of_chunks() if one > self._pieces(best)]
            if not options:
                break
            found = self.best_of.get(options[0])
            problem = self._problem(options[0]) if found is None else found.problem
            if not self.budget.affords(cost_of(problem)):
                break
            if found is None:
                (found,) = self._try([self._attempt(problem, best.origin.method)])
            self._try([self._improving(improvement, found) for _ in range(WORKERS)])
            if self.incumbent.best.duration > WORTHWHILE * best.duration:
                break

    def _settle_for_fewer_chunks(self) -> None:
        """Take the fewest chunks that take hardly longer than the best, as they are or once they are improved."""
        self._prefer_fewer_chunks()
        for improvement in self._improvements():
            if improvement.mends:
                self._try_fewer_chunks(improvement)
        while self._search_with_fewer_chunks():
            pass

    def _search_with_fewer_chunks(self) -> bool:
        """Whether a search of its own finds something with fewer chunks that takes hardly longer than the best."""
        best = self.incumbent.best
        fewer = max((count for count in self.best_of if count < self._pieces(best)), default=0)
        opening = self.best_of.get(fewer)
        if self.is_beaten or opening is None or not self._cheap(opening.problem):
            return False
        if self.budget.spent > EASY * self.budget.allowed or self.budget.clock.work <= 0:
            return False
        least = opening.problem.quick_bound.value
        if opening.duration > HOPELESS * best.duration or not self.incumbent.is_near(least):
            return False
        search = self._search_for(opening.problem.collectives, SHARE_OF_FEWER_CHUNKS)
        search.confined = self.confined
        search._go_on_from(opening)
        found = search.incumbent.best
        self.budget.spent += search.budget.spent  # which the clock knows already
        self._offer(found)
        if not self.incumbent.is_near(found.duration):
            return False
        self.incumbent.settle(found)
        return True

    def _prefer_fewer_chunks(self) -> None:
        """Settle for the fewest chunks that take hardly longer than the best."""
        most = self._pieces(self.incumbent.best)
        for chunks in sorted(count for count in self.best_of if count < most):
            if self.incumbent.is_near(self.best_of[chunks].duration):
                self.incumbent.settle(self.best_of[chunks])
                return

    def _pieces(self, schedule: Schedule) -> int:
        return pieces_of(self.collectives, schedule.problem.collectives)

    def _improve_best(self, improvement: Improvement) -> Attempt:
        return self._improving(improvement, self.incumbent.best)

    def _vary_best(self) -> Attempt:
        """Something like the best so far: improvements take turns, each with all workers."""
        usable = self._improvements()
        return self._improve_best(usable[self.variations // WORKERS % len(usable)])

    # --- good neighbours ----------------------------------------------------------------------------------------------

    def _be_good_neighbours(self) -> None:
        """Of what takes no longer: with few relays through others, and each collective done as early as it can be."""
        if self.budget.effort.work:
            self._avoid_relays()
        best = self.incumbent.best
        if len(best.problem.collectives) < 2:
            return
        classes = classes_of(self.topology, best.problem.collectives)
        self.incumbent.settle(served_in_turn(best, classes))
        if not self.budget.effort.work or len(classes) < 2 or self.topology.limited:
            return
        free = self._found_alone(served_apart(classes))
        self._settle_side_by_side(free, classes)
        # Who relays for some may be in the way of others.
        share = self._share_of_each(len(free))
        confined = [self._confined_alone(*part, share) for part in free]
        if confined != free:
            self._settle_side_by_side(confined, classes)

    def _settle_side_by_side(self, parts: list[Part], classes: list[Class]) -> None:
        """Take what was found for parts of the collectives, one served after another, if that suits all better."""
        problem = self._pose(cut_like(self.collectives, parts), self.confined)
        found = served_in_turn(side_by_side(problem, parts), classes)
        if is_better(finishes(found), finishes(self.incumbent.best), classes):
            self.incumbent.settle(found)

    def _avoid_relays(self) -> None:
        """Confine collectives to their own NPUs where that takes no longer: all that relay, or some of them."""
        best = self.incumbent.best
        for confined in ways_to_confine(best):
            if not np.any(confined & ~self.confined):
                continue
            found = self._confined_to(confined)
            if found is not None and found.duration <= (1 + WORTH_A_RELAY) * best.duration:
                self.confined = confined
                self.incumbent.settle(found)
                return

    def _confined_to(self, confined: Bools) -> Schedule | None:
        """The best that is found in short time for collectives of which some are confined; None if there is nothing."""
        best = self.incumbent.best
        problem = self._pose(best.problem.collectives, confined)
        least = self.budget.clock.work - SHARE_OF_CONFINING * self.budget.effort.work
        try:
            options = [*self.choice.openings(problem), *self.choice.variants(problem)]
            methods = dict.fromkeys([best.origin.method, *options])
            attempts = [self._attempt(problem, method) for method in methods]
            found = self._try_in_private(attempts, problem, least)
        except InfeasibleError:
            return None
        for improvement in self._improvements():
            if improvement.mends:
                found.sort(key=lambda schedule: schedule.duration)
                attempts = [self._improving(improvement, one) for one in found[:WORKERS]]
                found += self._try_in_private(attempts, problem, least)
        return min(found, key=lambda schedule: schedule.duration, default=None)

    def _try_in_private(
        self, attempts: list[Attempt], problem: Problem, least: float
    ) -> list[Schedule]:
        """What attempts find that are no news, as long as they leave so much work to all searches of the call."""
        found: list[Schedule] = []
        for low in range(0, len(attempts), WORKERS):
            if self.budget.clock.work - WORKERS * cost_of(problem) < max(least, 0):
                break
            self._stop_if_over()
            some, stop = self._run(attempts[low : low + WORKERS])
            found += some
            if stop is not None:
                raise stop
        return found

    def _found_alone(self, members: list[tuple[int, ...]]) -> list[Part]:
        """What is best for some collectives at a time, as if the others were not there."""
        share = self._share_of_each(len(members))
        found: list[tuple[list[Collective], Schedule]] = []
        for some in members:
            asked = [self.collectives[number] for number in some]
            alike = [schedule for others, schedule in found if others == asked]
            found.append((asked, alike[0] if alike else self._found_for(asked, share)))
        return [(some, schedule) for some, (_, schedule) in zip(members, found, strict=True)]

    def _share_of_each(self, parts: int) -> float:
        """The share of the effort for each of several searches, so that they leave some to others."""
        affordable = SHARE_OF_NEIGHBOURS * self.budget.clock.work / parts
        return min(1.0, AFFORDED_ALONE / parts, affordable / self.budget.effort.work)

    def _confined_alone(self, members: tuple[int, ...], schedule: Schedule, share: float) -> Part:
        """What is best for some collectives that keep to their own NPUs; the same if they do, or cannot."""
        if not np.any(relays(schedule)):
            return members, schedule
        try:
            asked = [self.collectives[number] for number in members]
            return members, self._found_for(asked, share, confined=True)
        except InfeasibleError:
            return members, schedule

    def _found_for(
        self, collectives: list[Collective], share: float, confined: bool = False
    ) -> Schedule:
        """What a search finds for some of the collectives, with a share of the effort."""
        search = self._search_for(collectives, share)
        search.confined |= confined
        found = search.run()
        self.budget.interrupted |= search.budget.interrupted
        return found

    def _search_for(self, collectives: Sequence[Collective], share: float) -> Search:
        """A search of its own, with a share of the effort."""
        self._stop_if_over()
        clock = self.budget.clock
        search = Search.of(self.topology, collectives, self.settings, self.progress, None, clock)
        effort = search.budget.effort
        search.budget.deadline = self.budget.deadline
        search.budget.effort = replace(effort, work=max(1, int(share * self.budget.effort.work)))
        return search

    # --- attempts -----------------------------------------------------------------------------------------------------

    def _attempt(self, problem: Problem, method: Method) -> Attempt:
        """What a method finds, re-timed."""
        self.tried.add(method)
        like = AS_IT_IS if method.in_time else None
        return lambda: self._polished(method.find(problem), like)

    def _polished(self, schedule: Schedule, like: Timing | None = None) -> Schedule:
        """The schedule re-timed; with `like`, only in the way that was best for one of that kind."""
        passes = self.budget.effort.passes
        if passes == 0:
            return schedule
        try:
            enough = self._enough(schedule.problem)
            return retimed(schedule, passes, enough, like, self.budget.over)
        except KeyboardInterrupt:
            self.budget.interrupted = True
            # It may be the first there is.
            return schedule

    def _improving(self, improvement: Improvement, schedule: Schedule) -> Attempt:
        """What an improvement makes of a schedule."""
        self.variations += 1
        aim = Aim(
            settings=self.settings,
            seed=self.settings.seed + self.variations,
            enough=self._enough(schedule.problem),
            polish=self._polished,
            over=self.budget.over,
        )
        return partial(improvement.improved, schedule, aim)

    def _try_all(
        self, attempts: list[Attempt], problem: Problem, share: float = 1.0
    ) -> list[Schedule]:
        """Make attempts as long as there is something to gain, with a share of the effort; returns what they found."""
        found: list[Schedule] = []
        for low in range(0, len(attempts), WORKERS):
            if self._good_enough() or not self.budget.affords(cost_of(problem), share):
                break
            found += self._try(attempts[low : low + WORKERS])
        return found

    def _repeat(self, variation: Callable[[], Attempt], patience: int, cost: int) -> None:
        """Vary the best again and again until that gains nothing any more; `cost` is about what a variation takes."""
        failures = 0
        while failures < patience and not self._good_enough() and self.budget.affords(cost):
            before = self.incumbent.best.duration
            self._try([variation() for _ in range(WORKERS)])
            self.stalled = self.incumbent.best.duration > (1 - FEWEST_GAINED) * before
            failures = failures + WORKERS if self.stalled else 0

    def _try(self, attempts: list[Attempt]) -> list[Schedule]:
        """Make attempts, at the same time if there are several, and offer what they find."""
        self._stop_if_over()
        found, stop = self._run(attempts)
        for schedule in found:
            self._offer(schedule)
        if stop is not None:
            raise stop
        return found

    def _offer(self, schedule: Schedule) -> None:
        self.incumbent.offer(schedule)
        known = self.best_of.setdefault(self._pieces(schedule), schedule)
        if schedule.duration < known.duration:
            self.best_of[self._pieces(schedule)] = schedule

    def _run(self, attempts: list[Attempt]) -> tuple[list[Schedule], BaseException | None]:
        """What attempts come to, and what stopped some of them."""
        # Until there is something to fall back on, one after another in this thread, where Ctrl-C arrives.
        found: list[Schedule] = []
        if len(attempts) == 1 or self.incumbent.schedule is None:
            for attempt in attempts:
                found.append(attempt())
                self.budget.spend(found[-1].work)
            return found, None
        stop: BaseException | None = None
        with ThreadPoolExecutor(WORKERS) as pool:
            # In the order in which they were begun, so that the same is found however fast each one is.
            for attempted in [pool.submit(attempt) for attempt in attempts]:
                try:
                    found.append(attempted.result())
                    self.budget.spend(found[-1].work)
                except (Enough, KeyboardInterrupt) as reason:
                    self.budget.stopped = True  # so that those at work see it when they next report
                    # Others are stopped by that; what the user wants is not to be forgotten over it.
                    if not isinstance(stop, KeyboardInterrupt):
                        stop = reason
        return found, stop

    # --- when to stop -------------------------------------------------------------------------------------------------

    def _enough(self, problem: Problem) -> int:
        """What is so short that trying to make it shorter is a waste."""
        gap = 0.0 if self._cheap(problem) else self.budget.effort.gap
        bound = self.incumbent.bound_of_any_cut or problem.known_bound
        return int(bound.value * (1 + gap))

    def _cheap(self, problem: Problem) -> bool:
        """Whether one more attempt takes next to no time; then it is made even if there is little to gain."""
        return cost_of(problem) * CHEAP <= self.budget.effort.modest

    def _good_enough(self) -> bool:
        best = self.incumbent.schedule
        if best is None or not self.budget.effort.work:
            return False
        if self.is_beaten:
            return True
        any_cut = self.incumbent.bound_of_any_cut
        if any_cut is not None:
            return best.duration <= any_cut.value * (1 + self.budget.effort.gap)
        if self._within(best, best.problem.quick_bound):
            return True
        self._stop_if_over()  # as the bound may take seconds
        return self._within(best, best.problem.bound)

    def _within(self, best: Schedule, bound: Bound) -> bool:
        """Whether there is nothing to gain, or little and enough has been tried to gain it."""
        effort = self.budget.effort
        little = best.duration <= bound.value * (1 + effort.gap)
        modest = self.budget.spent >= effort.modest or not self._cheap(best.problem)
        return best.duration <= bound.value or (little and (self.stalled or modest))

    def _report(self, done: int, total: int, text: str) -> None:
        self._stop_if_over()
        self.progress(done, total, text)

    def _stop_if_over(self) -> None:
        if self.incumbent.schedule is not None and self.budget.over():
            raise Enough
