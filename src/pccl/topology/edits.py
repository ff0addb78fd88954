"""Damage and changes: which devices and links are meant, by number, name or wildcard, and what becomes of them."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from difflib import get_close_matches
from fnmatch import translate
from typing import Any

import numpy as np

from pccl._arrays import Bools, Column, Ints
from pccl.errors import TopologyError
from pccl.topology.core import Topology
from pccl.topology.parts import ABSENT, LINK_COLUMNS, MOST_PLACES, SWITCH, UNLIMITED, read_flag
from pccl.units import YES_NO, BytesPerSecond, Picoseconds, parse, whole

_SPEEDS: Mapping[str, type[BytesPerSecond] | type[Picoseconds]] = {
    "bandwidth": BytesPerSecond, "latency": Picoseconds, "gap": Picoseconds,
}  # fmt: skip
_ABILITIES = ("multicast", "reduce", "buffer")
# A typing error should not fill the memory with numbers.
_NUMBER = "[0-9]{1,9}"


def without(
    topology: Topology,
    links: Iterable[int | str | Sequence[int | str]],
    devices: Iterable[int | str],
    name: str | None,
) -> Topology:
    """Return what is left of a topology; see :meth:`Topology.without`."""
    gone = np.zeros(topology.num_devices, np.bool_)
    gone[find_devices(topology, devices)] = True
    keep = ~(gone[topology.src] | gone[topology.dst])
    if isinstance(links, str) or not isinstance(links, Iterable):
        raise TopologyError(f"links must be a list of links, not {links!r}")
    for link in links:
        keep[_find_links(topology, link)] = False
    columns = {column: getattr(topology, column)[keep] for column in LINK_COLUMNS}
    ends = zip(topology.src[~keep].tolist(), topology.dst[~keep].tolist(), strict=True)
    left = topology.derived(
        name=f"{topology.name}, damaged" if name is None else name,
        kind=np.where(gone, np.int8(ABSENT), topology.kind),
        lost=(*topology.lost, *ends),
        **columns,
    )
    if not left.num_npus:
        raise TopologyError(f"{left.name} has no NPU")
    return left


def damaged(topology: Topology, texts: Iterable[str]) -> Topology:
    """Return what is left when that fails which texts name: devices, or cables written ``A:B``.

    Examples
    --------
    >>> from pccl.topology import hgx_h100
    >>> damaged(hgx_h100(4), ["24-27:rail*", "npu5"])
    Topology('h100:4, damaged': 31 NPUs, 12 switches, 116 links, 50GB/s to 400GiB/s, 936.25ns to 1us)
    """
    devices: list[int] = []
    links: list[int] = []
    for text in texts:
        if _is_cable(topology, text):
            links += find_cables(topology, text).tolist()
        else:
            devices += find_devices(topology, [text])
    # With nothing to take out, it is the same topology, under the same name.
    return without(topology, links, devices, None) if devices or links else topology


def edited(topology: Topology, changes: Mapping[str, object] | Iterable[str]) -> Topology:
    """Return a topology with other figures; see :meth:`Topology.edited`."""
    if isinstance(changes, Mapping):
        pairs = [(str(key), value) for key, value in changes.items()]
    else:
        pairs = []
        for text in changes:
            name, sign, given = str(text).partition("=")
            if not sign:
                raise TopologyError(
                    f"{text!r} is not NAMES.FIGURE=VALUE, such as rail*.bandwidth=25GB/s"
                )
            pairs.append((name.strip(), given.strip()))
        for key, times in Counter(key for key, _ in pairs).items():
            if times > 1:
                raise TopologyError(f"{key} is given {times} times; give it once")
    for key, value in pairs:
        names, dot, field = key.rpartition(".")
        if not dot or field not in (*_SPEEDS, *_ABILITIES):
            known = ", ".join((*_SPEEDS, *_ABILITIES))
            raise TopologyError(f"{key!r} is not NAMES.FIGURE; figures are {known}")
        column = getattr(topology, field).copy()
        where = _places(topology, names, field)
        column[where] = _values(column[where], field, value, key)
        changed: dict[str, Any] = {field: column}
        topology = replace(topology, **changed)
    return replace(topology, name=f"{topology.name}, edited") if pairs else topology


def find_devices(topology: Topology, given: Iterable[int | str]) -> list[int]:
    """The numbers of devices that are given by number, by name, by wildcard, or as a range such as ``24-27``."""
    if isinstance(given, str) or not isinstance(given, Iterable):
        raise TopologyError(f"devices must be a list of device numbers, not {given!r}")
    found: list[int] = []
    for one in given:
        found += _matching(topology, one) if isinstance(one, str) else [topology.device(one)]
    return found


def find_cables(topology: Topology, text: str) -> Ints:
    """The links that ``A:B`` names, in both directions; ``A->B`` are those of one direction."""
    one_way = "->" in text
    a, b = (_mask(topology, end) for end in text.split("->" if one_way else ":", 1))
    chosen = a[topology.src] & b[topology.dst]
    if not one_way:
        chosen |= b[topology.src] & a[topology.dst]
    if not np.any(chosen):
        raise TopologyError(f"{topology.name} has no link {text}")
    return np.flatnonzero(chosen)


def _is_cable(topology: Topology, text: str) -> bool:
    # A name may hold a colon itself.
    return (":" in text or "->" in text) and text not in topology.labels


def _find_links(topology: Topology, link: int | str | Sequence[int | str]) -> Ints:
    if isinstance(link, str):
        if not _is_cable(topology, link):
            how = "write A:B for a cable, and A->B for one direction"
            raise TopologyError(f"{topology.name} has no link {link!r}; {how}")
        return find_cables(topology, link)
    if isinstance(link, tuple | list) and len(link) == 2:
        a, b = (_mask(topology, end) for end in link)
        found = np.flatnonzero(a[topology.src] & b[topology.dst])
        if not len(found):
            raise TopologyError(f"{topology.name} has no link {link[0]} -> {link[1]}")
        return found
    number = whole(link)
    if number is None or not 0 <= number < topology.num_links:
        raise TopologyError(f"{topology.name} has no link {link!r}; it has {topology.num_links}")
    return np.array([number])


def _mask(topology: Topology, end: int | str) -> Bools:
    inside = np.zeros(topology.num_devices, np.bool_)
    inside[find_devices(topology, [end])] = True
    return inside


def _matching(topology: Topology, text: str) -> list[int]:
    present = topology.kind != ABSENT
    if text in topology.labels:
        return [topology.device(text)]
    found: list[int] = []
    for word in (word.strip() for word in text.split(",")):
        several = re.fullmatch(f"({_NUMBER})-({_NUMBER})", word)
        if several and word not in topology.labels:
            first, last = int(several[1]), int(several[2])
            # Both ends must be there; in between, some may have failed before.
            numbers = range(topology.device(first), topology.device(last) + 1)
            found += [device for device in numbers if present[device]]
        elif any(sign in word for sign in "*?["):
            pattern = re.compile(translate(word))
            some = [
                i for i, label in enumerate(topology.labels) if present[i] and pattern.match(label)
            ]
            if not some:
                raise TopologyError(
                    f"{topology.name} has no device {word!r}{_nearest(topology, word)}"
                )
            found += some
        else:
            found.append(_single(topology, word))
    return found


def _single(topology: Topology, word: str) -> int:
    """A device by its name, or by its number, which may have 'npu' before it."""
    plain = re.fullmatch(f"(?:npu)?({_NUMBER})", word)
    try:
        if plain and word not in topology.labels:
            return topology.device(int(plain[1]))
        return topology.device(word)
    except TopologyError:
        raise TopologyError(
            f"{topology.name} has no device {word!r}{_nearest(topology, word)}"
        ) from None


def _nearest(topology: Topology, word: str) -> str:
    near = get_close_matches(word, topology.labels, n=2)
    return f"; did you mean {' or '.join(map(repr, near))}?" if near else ""


def _places(topology: Topology, names: str, field: str) -> Column:
    """The links, or the switches, whose figure is meant."""
    if field in _ABILITIES:
        devices = find_devices(topology, [names])
        switches = [device for device in devices if topology.kind[device] == SWITCH]
        if not switches:
            raise TopologyError(f"{names!r} names no switch, and only switches have {field}")
        return np.array(switches)
    if _is_cable(topology, names):
        return find_cables(topology, names)
    inside = _mask(topology, names)
    return np.flatnonzero(inside[topology.src] | inside[topology.dst])


def _values(before: Column, field: str, value: object, key: str) -> Any:
    if field in ("multicast", "reduce"):
        return read_flag(value, key, YES_NO)
    if field == "buffer":
        number = (
            whole(value)
            if not isinstance(value, str)
            else int(value)
            if re.fullmatch(_NUMBER, value)
            else None
        )
        if value in (None, "any"):
            return UNLIMITED
        if not number or not 1 <= number <= MOST_PLACES:
            most = f"{MOST_PLACES:,}"
            raise TopologyError(
                f"{key} is a positive number of chunks up to {most}, or any, not {value!r}"
            )
        return number
    if isinstance(value, str) and value.endswith("%"):
        share = re.fullmatch(r"([0-9]{1,6}(?:\.[0-9]{1,6})?)%", value)
        if share is None:
            raise TopologyError(f"{key} is a share such as 50%, not {value!r}")
        return np.rint(before * (float(share[1]) / 100)).astype(np.int64)
    return int(parse(_SPEEDS[field], value, key))
