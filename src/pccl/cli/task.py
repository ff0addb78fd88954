"""What to do, as people say it on the command line: by flags, or by a spec file."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from pccl.spec import Spec

__all__ = ["read_task", "solver_options", "task_options"]

KINDS = ("all-gather", "reduce-scatter", "all-reduce", "all-to-all", "broadcast", "reduce", "scatter", "gather",
         "send-recv")  # fmt: skip
# What a spec file always says itself, and what it may leave to flags.
_TASK = ("topology", "collective", "size", "group", "mesh", "along", "chunks", "root", "cyclic")
_SHARED = ("seed", "effort", "time_limit", "gap", "method", "order", "routes", "output")


def solver_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command the flags that say how much to try."""
    for option in reversed(_SOLVER):
        command = option(command)
    return command


def task_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command the argument SPEC and the flags that can take its place."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


def read_task(spec: Path | None, flags: dict[str, Any]) -> Spec:
    """Read the spec file, or the flags; flags that the command does not have are left open."""
    flags = dict.fromkeys(_SHARED) | flags
    return _from_flags(flags) if spec is None else _from_file(spec, flags)


_OPTIONS = (
    click.argument("spec", required=False, type=click.Path(path_type=Path)),
    click.option(
        "-t",
        "--topology",
        metavar="TEXT",
        help="The network: mesh:8x8, or a file. See 'pccl topology'.",
    ),
    click.option("-c", "--collective", metavar="KIND", help=f"One of {', '.join(KINDS)}."),
    click.option(
        "-s", "--size", metavar="SIZE", help="Buffer of one NPU with its unit: 8MiB, 1GB, 4KiB."
    ),
    click.option(
        "-g",
        "--group",
        metavar="RANKS",
        multiple=True,
        help="NPUs that take part: 0-7, 0-3,8, 0-56:8. Repeat it for several groups at once. Default: all.",
    ),
    click.option(
        "--mesh", metavar="DIMS", help="Arrange the ranks row by row: dp=8,tp=8. Goes with --along."
    ),
    click.option(
        "--along",
        metavar="DIM",
        help="One collective per process group along this dimension of the mesh.",
    ),
    click.option(
        "--chunks",
        metavar="N",
        type=click.IntRange(1),
        help="Pieces every share is cut into. Default: the best.",
    ),
    click.option(
        "--root",
        metavar="NPU",
        type=click.IntRange(0),
        help="Root of broadcast, reduce, scatter, gather. Default: the first.",
    ),
    click.option(
        "--cyclic",
        is_flag=True,
        default=None,
        help="send-recv: the last member sends to the first.",
    ),
)


def _share(context: click.Context, parameter: click.Parameter, text: str | None) -> float | None:  # noqa: ARG001
    """A share such as 0.05 or 5%."""
    if text is None:
        return None
    try:
        return float(text.removesuffix("%")) / (100 if text.endswith("%") else 1)
    except ValueError:
        raise click.BadParameter(f"{text!r} is no share; write for example 5% or 0.05") from None


_SOLVER = (
    click.option(
        "--effort",
        metavar="NAME",
        help="fast (one pass), balanced (within 1% of the bound), thorough. Default: balanced.",
    ),
    click.option(
        "--time-limit", metavar="SECONDS", type=float, help="Take the best found by then."
    ),
    click.option(
        "--gap", metavar="SHARE", callback=_share, help="Stop this close to the bound: 5% or 0.05."
    ),
)


def _from_flags(flags: dict[str, Any]) -> Spec:
    for name, example in (("topology", "mesh:8x8"), ("collective", "all-to-all")):
        if flags[name] is None:
            raise click.UsageError(
                f"give a spec file, or --topology and --collective; for example --{name} {example}"
            )
    from pccl.spec import CollectiveEntry, Spec, check_mesh, collectives_of, normal_kind
    from pccl.topology import parse_topology

    kind = normal_kind(flags["collective"])
    if kind not in KINDS:
        raise click.UsageError(
            f"{kind} does not fit into flags; describe it in a spec file (docs/spec.md)"
        )
    topology = parse_topology(flags["topology"])
    mesh = None if flags["mesh"] is None else _mesh(flags["mesh"])
    if mesh is not None:
        if flags["along"] is None:
            raise click.UsageError("--mesh needs --along, the dimension to group along")
        check_mesh(mesh, topology)
    elif flags["along"] is not None:
        raise click.UsageError("--along needs --mesh, for example --mesh dp=8,tp=8")
    collectives = []
    for group in flags["group"] or (None,):
        entry = CollectiveEntry(
            kind, group=group,
            **{name: flags[name] for name in ("size", "along", "chunks", "root", "cyclic")},
        )  # fmt: skip
        collectives += collectives_of(entry, mesh)
    return Spec(topology, tuple(collectives), *(flags[name] for name in _SHARED))


def _mesh(text: str) -> Any:
    from pccl.collective import device_mesh

    names, sizes = [], []
    for part in text.split(","):
        name, _, size = (word.strip() for word in part.partition("="))
        if not name or not (size.isascii() and size.isdecimal() and len(size) < 10):
            raise click.UsageError(
                f"--mesh {text!r}: {part.strip()!r} is not name=size; write for example dp=8,tp=8"
            )
        names.append(name)
        sizes.append(int(size))
    return device_mesh(sizes, names)


def _from_file(path: Path, flags: dict[str, Any]) -> Spec:
    from dataclasses import replace

    for name in _TASK:
        if flags[name] not in (None, ()):
            raise click.UsageError(f"{path} says what to synthesize; leave out --{name}")
    from pccl.spec import load_spec

    spec = load_spec(path)
    added = {name: flags[name] for name in _SHARED if flags[name] is not None}
    for name in added:
        if getattr(spec, name) is not None:
            raise click.UsageError(
                f"{path} gives {name!r} already; leave out --{name.replace('_', '-')}"
            )
    return replace(spec, **added)
