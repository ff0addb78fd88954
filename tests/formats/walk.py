"""Follows chunks through switches, one transfer at a time: a slow and obvious twin of the compiled loops."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from pccl.algorithm import Algorithm


@dataclass(frozen=True)
class Part:
    """What an NPU sent of a chunk, wherever it is now."""

    npu: int
    contributions: frozenset[int]
    from_input: bool
    start: int
    links: tuple[int, ...] = ()


def walk(algorithm: Algorithm) -> list[tuple]:
    """All deliveries in the order in which they are received.

    Rows are (chunk, src, dst, links, start, arrival, reduce, from_input, adds_input).
    """
    rows: list[tuple] = []
    for chunk in range(len(algorithm.conditions)):
        rows += _follow(algorithm, chunk)
    return rows


def _follow(algorithm: Algorithm, chunk: int) -> list[tuple]:
    t, conditions = algorithm.transfers, algorithm.conditions
    switches = set(algorithm.topology.switches.tolist())
    sources = conditions.sources(chunk).tolist()
    sums = bool(conditions.reduces[chunk])
    held = {npu: frozenset([i if sums else 0]) for i, npu in enumerate(sources)}
    whole = frozenset().union(*held.values())
    untouched = set(sources)
    stored: dict[int, list[Part]] = {}
    passing: dict[int, list[Part]] = {}  # by transfer: what a switch passes on as it came
    flying: dict[int, list[Part]] = {}
    adder: Part | None = None
    rows = []
    mine = np.flatnonzero(t.chunk == chunk).tolist()

    def turn(i: int) -> int:
        place = sources.index(t.dst[i]) if sums and t.dst[i] in sources else 0
        return (place - chunk) % len(sources) if sums and switches else 0

    events = sorted(
        [(int(t.arrival[i]), 0, turn(i), i) for i in mine]
        + [(int(t.start[i]), 1, 0, i) for i in mine]
    )
    for time, leaves, _, i in events:
        device = int((t.src if leaves else t.dst)[i])
        if leaves:
            link = int(t.link[i])
            if t.passes_on[i]:
                parts = passing[int(t.follows[i])]
                flying[i] = [replace(part, links=(*part.links, link)) for part in parts]
            elif device in switches:
                multiplies = algorithm.topology.multicast[device]
                parts = stored[device] if multiplies else stored.pop(device)
                flying[i] = [replace(part, links=(*part.links, link)) for part in parts]
            else:
                flying[i] = [Part(device, held[device], device in untouched, time, (link,))]
            continue
        parts, adds = flying.pop(i), bool(t.reduce[i])
        if t.comes_to_pass[i]:
            passing[i] = parts
            continue
        if device in switches:
            if adds:
                stored[device] = stored.get(device, []) + parts
            elif sums or device not in stored:
                stored[device] = parts
            continue
        have = held.get(device, frozenset())
        total = frozenset().union(*(part.contributions for part in parts))
        if not adds and total == have:
            continue
        if not adds and len(parts) > 1 and total == whole:
            from_adder = [part for part in parts if adder and part.npu == adder.npu]
            if adder and from_adder:
                links = from_adder[-1].links
                rows.append(
                    (chunk, adder.npu, device, links, adder.start, time, False, False, False)
                )
                held[device] = total
                untouched.discard(device)
                continue
            if adder is None and any(part.npu == device for part in parts):
                adder = Part(device, total, from_input=False, start=time)
        if not adds and have:
            new = [part for part in parts if not part.contributions & have]
            if have.union(*(part.contributions for part in new)) == total:
                parts, adds = new, True
            else:
                have = frozenset()
        for part in parts:
            reduce = adds and bool(have)
            rows.append(
                (chunk, part.npu, device, part.links, part.start, time, reduce, part.from_input,
                 reduce and device in untouched)
            )  # fmt: skip
            have |= part.contributions
            untouched.discard(device)
            adds = True
        held[device] = have
        untouched.discard(device)
    return rows
