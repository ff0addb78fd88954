"""Random collectives on a network, as the Python that makes them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from benchmarks.stress.dice import Dice
from benchmarks.stress.networks import quoted
from pccl.collective import COLLECTIVES
from pccl.collective.base import ELEMENT_BYTES

LARGEST = 300_000_000
CHUNKS = (1, 1, 2, 3, 4, 7, 8, 16, 64)
# Of everyone to everyone: so many pieces are enough.
MOST_DELIVERIES = 40_000
PATTERNS = ("uniform", "pareto", "zipf", "sparse", "row", "column", "bits", "blocks", "pages")
# In these everyone sends something to everyone.
_QUADRATIC = {"all-gather", "reduce-scatter", "all-reduce", "all-to-all", "all-to-all-v"}


@dataclass(frozen=True)
class Group:
    """A process group: what to write, and the NPUs in it."""

    text: str
    members: tuple[int, ...]


def random_traffic(dice: Dice, npus: Sequence[int], exchange: bool) -> tuple[tuple[str, str], ...]:
    """One or a few collectives that run at the same time, each with its kind; an All-to-Allv first if asked for."""
    groups = _groups(dice, npus)
    kinds = sorted(COLLECTIVES)
    alike = dice.chance(0.5)
    found: list[tuple[str, str]] = []
    for number, group in enumerate(groups):
        kind = "all-to-all-v" if exchange and not number else dice.pick(kinds)
        if number and alike:
            kind = found[0][0]
        found.append((kind, _collective(dice, kind, group, len(groups))))
    return tuple(found)


# --- groups ----------------------------------------------------------------------------------------------------------


def _groups(dice: Dice, npus: Sequence[int]) -> list[Group]:
    everybody = Group("None", tuple(npus))
    count = 1 if dice.chance(0.7) else dice.whole(2, 4)
    if count == 1:
        return [everybody if dice.chance(0.7) else _any(dice, npus)]
    how = dice.pick(["everybody", "same", "overlapping", "disjoint", "mesh"])
    if how == "everybody":
        return [everybody] * count
    if how == "same":
        return [_any(dice, npus)] * count
    if how == "overlapping":
        return [_any(dice, npus) for _ in range(count)]
    if how == "mesh" and _divisors(len(npus)) and list(npus) == list(range(len(npus))):
        return _rows(dice, len(npus))
    order = dice.some(npus, len(npus))
    size = max(1, len(order) // count)
    parts = [order[first : first + size] for first in range(0, size * count, size)]
    return [_given(part) for part in parts if part]


def _any(dice: Dice, npus: Sequence[int]) -> Group:
    """Some NPUs: in a row, or any of them in any order."""
    least = min(2, len(npus))
    if dice.chance(0.05):
        least = 1
    count = dice.whole(least, len(npus))
    if dice.chance(0.4):
        first = dice.whole(0, len(npus) - count)
        return _given(npus[first : first + count])
    return _given(dice.some(npus, count))


def _given(members: Sequence[int]) -> Group:
    members = tuple(members)
    step = members[1] - members[0] if len(members) > 1 else 1
    if step > 0 and len(members) > 2 and members == tuple(range(members[0], members[-1] + 1, step)):
        end = "" if step == 1 else f", {step}"
        return Group(f"range({members[0]}, {members[-1] + 1}{end})", members)
    return Group(str(list(members)), members)


def _rows(dice: Dice, count: int) -> list[Group]:
    """The groups along one dimension of a device mesh, at most four of them."""
    inner = dice.pick(_divisors(count))
    outer = count // inner
    name = dice.pick(["dp", "tp"])
    if name == "tp":
        rows = [tuple(range(row * inner, (row + 1) * inner)) for row in range(outer)]
    else:
        rows = [tuple(range(row, count, inner)) for row in range(inner)]
    mesh = f"pccl.device_mesh(dp={outer}, tp={inner})[{quoted(name)}]"
    return [Group(f"{mesh}[{number}]", row) for number, row in enumerate(rows)][:4]


def _divisors(count: int) -> list[int]:
    return [size for size in range(2, count // 2 + 1) if count % size == 0]


# --- collectives -----------------------------------------------------------------------------------------------------


def _collective(dice: Dice, kind: str, group: Group, among: int) -> str:
    if kind == "custom":
        return _custom(dice, group.members)
    dtype = dice.pick(sorted(ELEMENT_BYTES)) if dice.chance(0.25) else "uint8"
    element = ELEMENT_BYTES[dtype]
    words = [_matrix(dice, len(group.members), element)]
    if kind != "all-to-all-v":
        words = [quoted(f"{_size(dice, element)}B")]
    if group.text != "None":
        words.append(f"group={group.text}")
    chunks = _chunks(dice, kind, len(group.members))
    if chunks:
        words.append(f"chunks={chunks}")
    if dtype != "uint8":
        words.append(f"dtype={quoted(dtype)}")
    words += _particular(dice, kind, group.members)
    if dice.chance(0.08):
        words.append("confined=True")
    if among > 1 and dice.chance(0.25):
        words.append(f"priority={dice.whole(-1, 2)}")
    if among > 1 and dice.chance(0.25):
        words.append(f"weight={dice.pick([0.5, 2, 10])}")
    return f"pccl.{COLLECTIVES[kind].__name__}({', '.join(words)})"


def _particular(dice: Dice, kind: str, members: Sequence[int]) -> list[str]:
    """What only some kinds can be told."""
    if COLLECTIVES[kind].rooted and dice.chance(0.7):
        return [f"root={dice.pick(members)}"]
    if kind == "send-recv" and dice.chance(0.5):
        return ["cyclic=True"]
    if kind == "all-reduce" and dice.chance(0.15):
        return ["whole=True"]
    return []


def _size(dice: Dice, element: int) -> int:
    size = dice.scale(1, LARGEST)
    if dice.chance(0.4):
        size = 2 ** int(math.log2(size))
    return max(size // element, 1) * element


def _chunks(dice: Dice, kind: str, members: int) -> int | None:
    if dice.chance(0.6):
        return None
    deliveries = members**2 if kind in _QUADRATIC else members
    fitting = [chunks for chunks in CHUNKS if chunks * deliveries <= MOST_DELIVERIES]
    return dice.pick(fitting or [1])


def _custom(dice: Dice, members: Sequence[int]) -> str:
    rows = []
    for _ in range(dice.whole(1, 6)):
        size = quoted(f"{_size(dice, 1)}B")
        some = dice.some(members, dice.whole(1, len(members)))
        if dice.chance(0.4):
            sources = dice.some(members, dice.whole(1, len(members)))
            rows.append(f"pccl.Condition({sources}, {some}, {size}, reduces=True)")
        else:
            rows.append(f"pccl.Condition({dice.pick(members)}, {some}, {size})")
    return f"pccl.Custom([{', '.join(rows)}])"


def _matrix(dice: Dice, n: int, element: int) -> str:
    """Who sends how much to whom: a line of NumPy, as a table of many numbers would be long."""
    pattern = dice.pick(PATTERNS)
    rng = f"np.random.default_rng({dice.seed()})"
    most = max(dice.scale(4, LARGEST) // max(n, 1), 2)
    place = dice.whole(0, n - 1)
    text = f"{rng}.integers(0, {most}, ({n}, {n}))"
    if pattern == "pareto":
        # Shares differ by orders of magnitude, and few senders have most.
        text = f"({rng}.pareto({dice.pick([0.8, 1.2, 2.5])}, ({n}, {n})) * {most // 20 + 1}).clip(0, {10 * most})"
        text += ".astype(int)"
    elif pattern == "zipf":
        text = f"{rng}.zipf({dice.pick([1.3, 1.8, 3.0])}, ({n}, {n})).clip(1, {most})"
    elif pattern == "sparse":
        share = dice.pick([0.05, 0.2, 0.5])
        text += f" * (np.random.default_rng({dice.seed()}).random(({n}, {n})) < {share})"
    elif pattern == "row":
        text += f" * (np.arange({n}) == {place})[:, None]"
    elif pattern == "column":
        text += f" * (np.arange({n}) == {place})"
    elif pattern == "bits":
        text = f"{rng}.integers(0, 2, ({n}, {n}))"
    elif pattern == "blocks":
        side = dice.pick([size for size in range(1, n + 1) if n % size == 0])
        text = f"np.kron({rng}.integers(0, 4, ({n // side}, {n // side})), np.full(({side}, {side}), {most}))"
    elif pattern == "pages":
        text = f"{rng}.integers(0, {max(most // 4096, 2)}, ({n}, {n})) * 4096"
    return text if element == 1 else f"{text} * {element}"
