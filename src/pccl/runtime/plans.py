"""A folder of plans, from which running programs choose by collective, group and size."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from math import log2
from pathlib import Path

import numpy as np

from pccl.algorithm import Algorithm, load
from pccl.collective import Collective
from pccl.errors import RunError
from pccl.runtime.scripts import Scripts, scripts_of


@dataclass(frozen=True, eq=False)
class Plan:
    """One plan of a folder, for one collective.

    Attributes
    ----------
    path, algorithm
        The file, and what is in it.
    """

    path: Path
    algorithm: Algorithm

    @property
    def collective(self) -> Collective:
        """What it is for."""
        return self.algorithm.collectives[0]

    @cached_property
    def members(self) -> tuple[int, ...]:
        """The ranks that take part, in the order of the group."""
        npus = self.algorithm.topology.npus
        return tuple(np.searchsorted(npus, self.collective.members(npus)).tolist())

    @cached_property
    def root(self) -> int | None:
        """Which member is the root, by its place in the group."""
        if not self.collective.rooted:
            return None
        given = getattr(self.collective, "root", None)
        group = self.collective.members(self.algorithm.topology.npus).tolist()
        return 0 if given is None else group.index(given)

    @cached_property
    def scripts(self) -> Scripts:
        """What its ranks do; all NPUs are ranks if all are members, otherwise those with something to do."""
        return scripts_of(self.algorithm, only_busy=True)

    @property
    def is_closed(self) -> bool:
        """Whether members need nobody else: others would not know that they are called."""
        return not len(self.scripts.parts[0].helpers)


class Plans:
    """The plans of a folder.

    Parameters
    ----------
    folder
        Where ``.pccl`` files lie; those for several collectives at once are left out, as they take one call by all.
        If ``pccl tune`` has written an ``index.json`` there, that says which plan serves which sizes.
    """

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)
        if not self.folder.is_dir():
            raise RunError(f"there is no folder {folder} with plans")
        found = [Plan(path, load(path)) for path in sorted(self.folder.glob("*.pccl"))]
        self.plans = [plan for plan in found if len(plan.algorithm.collectives) == 1]
        self.serves_from = _served_sizes(self.folder / "index.json")

    def find(
        self, kind: str, ranks: Sequence[int], size: int, root: int | None = None
    ) -> Plan | str:
        """The plan that serves the size by the index, or whose size is nearest, or the reason why there is none.

        Parameters
        ----------
        kind
            The collective, such as ``"all-reduce"``.
        ranks
            The process group.
        size
            Bytes, as the size of a collective counts them.
        root
            The root, by its place in the group, for collectives that have one.
        """
        named = [plan for plan in self.plans if plan.collective.kind == kind]
        if not named:
            return f"{self.folder} has no plan for {kind}"
        same = [plan for plan in named if plan.members == tuple(ranks)]
        if not same:
            return f"{self.folder} has no plan for {kind} among ranks {', '.join(map(str, ranks))}"
        rooted = [plan for plan in same if plan.root == root]
        if not rooted:
            return f"{self.folder} has no plan for {kind} with root {root}"
        closed = [plan for plan in rooted if plan.is_closed]
        if not closed:
            return f"plans for {kind} relay through ranks outside the group, which take no part in its calls"
        listed = [plan for plan in closed if plan.path.name in self.serves_from]
        if listed:
            # Each serves from its first size on, until the next one does.
            listed.sort(key=lambda plan: self.serves_from[plan.path.name])
            begun = [plan for plan in listed if self.serves_from[plan.path.name] <= size]
            return begun[-1] if begun else listed[0]
        return min(closed, key=lambda plan: abs(log2(int(plan.collective.size) / max(size, 1))))


def _served_sizes(index: Path) -> dict[str, int]:
    """By the name of a file: the size from which on it serves, as an index says; empty without one."""
    if not index.is_file():
        return {}
    try:
        plans = json.loads(index.read_text(encoding="utf-8"))["plans"]
        return {str(plan["file"]): int(plan["first"]) for plan in plans}
    except (ValueError, LookupError, TypeError) as error:
        raise RunError(f"{index} is not an index of plans: {error!r}") from None
