"""TPUs of Google, by shape or by the name of a slice."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from difflib import get_close_matches
from functools import wraps
from typing import Any, TypeAlias

from pccl.errors import TopologyError
from pccl.topology.core import Topology
from pccl.topology.generators import NO_GAP, grid
from pccl.topology.machines.building import Machine, described, parameter, wire
from pccl.units import Bandwidth, Time, truth, whole

_Shapes: TypeAlias = dict[int, tuple[int, ...]]
# Of a slice of this shape: which dimensions wrap round.
Wrapping: TypeAlias = Callable[[tuple[int, ...]], list[bool]]

# Google Cloud counts both directions of all links of a chip: 1,200 GB/s over six links (v5p, TPU7x), 800 over four
# (v6e), 400 over four (v5e). The paper on v4 has six links of 50 GB/s (arXiv 2304.01433, table 4). The latency is what
# "How to Scale Your Model" takes for v5e, in a problem of chapter 2; that others are as quick is our assumption.
_ICI_LATENCY = "500ns"
# Rows wrap round where they fill an axis of the pod, 16 chips long (v5e, v6e: "How to Scale Your Model", chapter 2), or
# are made of whole cubes of four by four by four, which optical switches join (v4, v5p, TPU7x: Google Cloud, TPU v5p).
_POD_AXIS = 16
_CUBE = 4
# Slices with a name, by the number of their chips (Google Cloud, TPU configurations).
_SHAPES_2D: _Shapes = {
    1: (1, 1), 4: (2, 2), 8: (2, 4), 16: (4, 4), 32: (4, 8), 64: (8, 8), 128: (8, 16), 256: (16, 16),
}  # fmt: skip
_SHAPES_3D: _Shapes = {
    4: (2, 2, 1), 8: (2, 2, 2), 16: (2, 2, 4), 32: (2, 4, 4), 64: (4, 4, 4), 128: (4, 4, 8), 256: (4, 8, 8),
    512: (8, 8, 8), 1024: (8, 8, 16), 2048: (8, 16, 16), 4096: (16, 16, 16), 6144: (16, 16, 24),
}  # fmt: skip


# What shapes are called: two sizes by their names, three in a row.
_PLANE = [
    inspect.Parameter(name, inspect.Parameter.POSITIONAL_OR_KEYWORD, annotation=int)
    for name in ("rows", "columns")
]
_SPACE = [inspect.Parameter("shape", inspect.Parameter.VAR_POSITIONAL, annotation=int)]


def _tpu(name: str, dimensions: int, ici: str) -> Callable[[Wrapping], Machine]:
    """Make a machine of a function that says which dimensions of a slice wrap round.

    The machine takes the shape of the slice, bandwidth, latency and gap of a link, and whether all dimensions are to
    wrap round, whatever the slice says.
    """
    options = [
        parameter("ici", ici, Bandwidth),
        parameter("ici_latency", _ICI_LATENCY, Time),
        parameter("ici_gap", NO_GAP, Time),
        parameter("wrap", None, bool | None),
    ]
    sizes = _PLANE if dimensions == 2 else _SPACE
    signature = inspect.Signature([*sizes, *options], return_annotation=Topology)

    def decorate(wrapping: Wrapping) -> Machine:
        @wraps(wrapping)
        def build(*arguments: Any, **given: Any) -> Topology:
            bound = signature.bind(*arguments, **given)
            bound.apply_defaults()
            shape = bound.args
            values = bound.kwargs
            wrap = values["wrap"]
            _check(name, shape, dimensions, wrap)
            speed = wire("ici", values["ici"], values["ici_latency"], values["ici_gap"])
            return grid(
                *shape,
                wrap=wrapping(shape) if wrap is None else [wrap] * dimensions,
                bandwidth=speed.bandwidth,
                latency=speed.latency,
                gap=speed.gap,
                name=f"{name}:{'x'.join(map(str, shape))}",
            )

        described(build, signature)
        return build

    return decorate


def _check(name: str, shape: tuple[int, ...], dimensions: int, wrap: object) -> None:
    if len(shape) != dimensions:
        raise TopologyError(f"a {name} has {dimensions} dimensions, not {len(shape)}")
    for size in shape:
        if whole(size) is None or size < 1:
            raise TopologyError(f"a {name} needs positive numbers, not {size!r}")
    if wrap is not None and truth(wrap) is None:
        raise TopologyError(f"{name}: wrap is True, False or None, not {wrap!r}")


def _axes_of_pods(shape: tuple[int, ...]) -> list[bool]:
    return [size == _POD_AXIS for size in shape]


def _whole_cubes(shape: tuple[int, ...]) -> list[bool]:
    # Cubes are joined whole or not at all.
    return [all(size % _CUBE == 0 for size in shape)] * len(shape)


@_tpu("tpu-v4", 3, "50GB/s")
def tpu_v4(shape: tuple[int, ...]) -> list[bool]:
    """TPU v4: a 3D torus, 50GB/s a link in each direction; slices smaller than 4x4x4 are meshes.

    A link takes 500ns. ``wrap`` says for all dimensions whether they wrap round; otherwise the slice tells.

    Examples
    --------
    >>> tpu_v4(4, 4, 4)
    Topology('tpu-v4:4x4x4': 64 NPUs, 384 links, 50GB/s, 500ns)
    """
    return _whole_cubes(shape)


@_tpu("tpu-v5e", 2, "50GB/s")
def tpu_v5e(shape: tuple[int, ...]) -> list[bool]:
    """TPU v5e: a 2D torus, 50GB/s a link in each direction; a dimension shorter than 16 does not wrap round.

    A link takes 500ns. ``wrap`` says for both dimensions whether they wrap round; otherwise the slice tells.

    Examples
    --------
    >>> tpu_v5e(16, 16)
    Topology('tpu-v5e:16x16': 256 NPUs, 1,024 links, 50GB/s, 500ns)
    >>> tpu_v5e(4, 4)
    Topology('tpu-v5e:4x4': 16 NPUs, 48 links, 50GB/s, 500ns)
    """
    return _axes_of_pods(shape)


@_tpu("tpu-v5p", 3, "100GB/s")
def tpu_v5p(shape: tuple[int, ...]) -> list[bool]:
    """TPU v5p: as v4, with 100GB/s a link.

    Examples
    --------
    >>> tpu_v5p(4, 4, 8)
    Topology('tpu-v5p:4x4x8': 128 NPUs, 768 links, 100GB/s, 500ns)
    >>> tpu_v5p(2, 2, 2)
    Topology('tpu-v5p:2x2x2': 8 NPUs, 24 links, 100GB/s, 500ns)
    """
    return _whole_cubes(shape)


@_tpu("tpu-v6e", 2, "100GB/s")
def tpu_v6e(shape: tuple[int, ...]) -> list[bool]:
    """TPU v6e (Trillium): as v5e, with 100GB/s a link.

    Examples
    --------
    >>> tpu_v6e(8, 16)
    Topology('tpu-v6e:8x16': 128 NPUs, 480 links, 100GB/s, 500ns)
    """
    return _axes_of_pods(shape)


@_tpu("tpu7x", 3, "100GB/s")
def tpu7x(shape: tuple[int, ...]) -> list[bool]:
    """TPU7x (Ironwood): as v5p, with 100GB/s a link.

    Examples
    --------
    >>> tpu7x(4, 4, 4)
    Topology('tpu7x:4x4x4': 64 NPUs, 384 links, 100GB/s, 500ns)
    """
    return _whole_cubes(shape)


# Per name before the hyphen: the function, shapes by chips, and how many TensorCores count as one chip.
_SLICES: dict[str, tuple[Machine, _Shapes, int]] = {
    "v4": (tpu_v4, _SHAPES_3D, 2),
    "v5litepod": (tpu_v5e, _SHAPES_2D, 1),
    "v5e": (tpu_v5e, _SHAPES_2D, 1),
    "v5p": (tpu_v5p, _SHAPES_3D, 2),
    "v6e": (tpu_v6e, _SHAPES_2D, 1),
    "tpu7x": (tpu7x, _SHAPES_3D, 2),
}


def tpu(
    slice: str,
    *,
    ici: Bandwidth | None = None,
    ici_latency: Time | None = None,
    ici_gap: Time | None = None,
    wrap: bool | None = None,
) -> Topology:
    """Return the TPU slice of a name: ``v6e-64`` has 64 chips, ``v5p-128`` has 64, as v4, v5p and 7x count TensorCores.

    Examples
    --------
    >>> tpu("v5p-128")
    Topology('tpu-v5p:4x4x4': 64 NPUs, 384 links, 100GB/s, 500ns)
    >>> tpu("v6e-16")
    Topology('tpu-v6e:4x4': 16 NPUs, 48 links, 100GB/s, 500ns)
    """
    match = re.fullmatch(r"([a-z0-9]+)-([0-9]{1,6})", str(slice).strip().lower())
    generation = match[1] if match else ""
    generation = "tpu7x" if generation in ("7x", "v7x") else generation
    if match is None or generation not in _SLICES:
        near = get_close_matches(generation or str(slice), _SLICES, n=2)
        hint = f"did you mean {' or '.join(near)}?" if near else f"there are {', '.join(_SLICES)}"
        raise TopologyError(f"{slice!r} is no slice of TPUs such as v5p-128; {hint}")
    build, shapes, per_chip = _SLICES[generation]
    chips, rest = divmod(int(match[2]), per_chip)
    if rest or chips not in shapes:
        sizes = ", ".join(str(count * per_chip) for count in shapes)
        raise TopologyError(f"{generation} has no slice of {match[2]}; it has {sizes}")
    given = {"ici": ici, "ici_latency": ici_latency, "ici_gap": ici_gap}
    # What is not given is as in other slices of the generation.
    options = {name: value for name, value in given.items() if value is not None}
    return build(*shapes[chips], wrap=wrap, **options)
