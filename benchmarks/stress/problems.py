"""A problem: a network, collectives, settings, and what is to follow the plan; all of it from a seed and a number."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import pccl
from benchmarks.stress.checks import CHECKS
from benchmarks.stress.dice import Dice
from benchmarks.stress.networks import NAMES, quoted, random_network
from benchmarks.stress.traffic import random_traffic
from pccl.synthesis.methods import METHODS
from pccl.synthesis.orders import ORDERS
from pccl.targets import TARGETS

EFFORTS = ("fast", "balanced", "thorough", "mixed")
_MIXED = {"fast": 0.75, "balanced": 0.2, "thorough": 0.05}
# How many NPUs there are at most, and how often; the largest networks are for `fast` alone.
_MOST = {4: 0.15, 8: 0.25, 16: 0.4, 32: 0.1, 64: 0.06, 256: 0.04}
_LARGEST = {"fast": 256, "balanced": 64, "thorough": 32}
# How often the problem is an All-to-Allv through switches.
_EXCHANGES = 0.33
# Kinds that every runtime takes, one at a time, and runtimes that take anything: others are mostly refused.
_COMMON = {"all-gather", "reduce-scatter", "all-reduce", "all-to-all"}
_BROAD = sorted(name for name, target in TARGETS.items() if not target.limited)
_IMPORTS = "import numpy as np, pccl; from pccl.topology import Link, Switch, Topology, load, parse_topology"


@dataclass(frozen=True)
class Problem:
    """What is asked, as Python.

    Attributes
    ----------
    seed, number
        What it follows from.
    network, family
        Makes the topology; the name in the zoo, or how else it was made.
    npus
        How many there are.
    collectives, kinds
        Make the collectives; the kind of each.
    settings
        Of the search, by name.
    checks
        Names of what follows the plan.
    """

    seed: int
    number: int
    network: str
    family: str
    npus: int
    switched: bool
    collectives: tuple[str, ...]
    kinds: tuple[str, ...]
    settings: tuple[tuple[str, Any], ...]
    checks: tuple[str, ...]

    @property
    def name(self) -> str:
        """What to give to ``--one``."""
        return f"{self.seed}:{self.number}"

    @property
    def options(self) -> dict[str, Any]:
        """The settings as keywords."""
        return dict(self.settings)

    def topology(self) -> pccl.Topology:
        """Make the network."""
        return eval(self.network, {"np": np, "pccl": pccl, **NAMES})

    def asked(self) -> list[pccl.Collective]:
        """Make the collectives."""
        return [eval(text, {"np": np, "pccl": pccl}) for text in self.collectives]

    def command(self, then: str = "") -> str:
        """A line for a shell that needs nothing but pccl."""
        words = [
            quoted(value) if isinstance(value, str) else repr(value)
            for value in self.options.values()
        ]
        settings = [f"{name}={word}" for name, word in zip(self.options, words, strict=True)]
        lines = [
            _IMPORTS,
            f"network = {self.network}",
            f"asked = [{', '.join(self.collectives)}]",
            f"plan = pccl.synthesize(network, *asked, {', '.join(settings)})",
            then or "print(plan)",
        ]
        return f"python -c {shlex.quote('; '.join(lines))}"


def problem_of(
    seed: int, number: int, effort: str = "mixed", samples: Path | None = None
) -> Problem:
    """The problem of this number.

    Examples
    --------
    >>> problem_of(1, 2) == problem_of(1, 2)
    True
    """
    dice = Dice(seed, number)
    # Drawn in any case, so that a problem has much in common with that of the same number at another effort.
    mixed = dice.weighted(_MIXED)
    effort = mixed if effort == "mixed" else effort
    most = min(dice.weighted(_MOST), _LARGEST[effort])
    exchange = dice.chance(_EXCHANGES)
    least = 2 if most <= 16 else most // 4
    network = random_network(dice, least, most, samples, switched=exchange)
    # Where the network is refused, that is what we look at.
    traffic = random_traffic(dice, network.npus or [0, 1], exchange)
    kinds = tuple(kind for kind, _ in traffic)
    settings = _settings(dice, effort, kinds)
    checks = [name for name, check in CHECKS.items() if dice.chance(check.share)]
    return Problem(
        seed,
        number,
        network.text,
        network.family,
        len(network.npus),
        network.switched,
        tuple(text for _, text in traffic),
        kinds,
        tuple(settings.items()),
        tuple(checks),
    )


def _settings(dice: Dice, effort: str, kinds: tuple[str, ...]) -> dict[str, Any]:
    settings: dict[str, Any] = {"effort": effort}
    if dice.chance(0.5):
        settings["seed"] = dice.seed()
    if dice.chance(0.3):
        fits_all = all(kind in _COMMON for kind in kinds) and len(kinds) == 1
        names = sorted(TARGETS) if fits_all or dice.chance(0.2) else _BROAD
        settings["target"] = dice.pick(names)
    # Without one, nobody promises how long a thorough search takes.
    if dice.chance(0.8 if effort == "thorough" else 0.08):
        settings["time_limit"] = round(0.05 * 60 ** (dice.whole(0, 100) / 100), 2)
    if dice.chance(0.06):
        settings["method"] = dice.pick(sorted(METHODS))
    if dice.chance(0.06):
        settings["order"] = dice.pick(sorted(ORDERS))
    if dice.chance(0.06):
        settings["routes"] = dice.pick(["minimal", "any"])
    if dice.chance(0.03):
        settings["gap"] = dice.pick([0, 0.05, 0.5])
    return settings
