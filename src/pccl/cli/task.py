"""What to do, as people say it on the command line: by flags, or by a spec file."""

from __future__ import annotations

import re
from dataclasses import fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from pccl.cli.networks import FLAG_NAMES, NETWORK_FLAGS, note_assumptions, read_network
from pccl.cli.options import FILE, all_of, option, spelled
from pccl.collective.kinds import KINDS
from pccl.settings import Settings

if TYPE_CHECKING:
    from pccl.collective import DeviceMesh
    from pccl.spec import Spec

# Named in the help.
_BY_FLAGS = [name for name, kind in KINDS.items() if kind.fits_flags]


def _once(context: Any, parameter: Any, values: tuple[str, ...]) -> str | None:  # noqa: ARG001
    """The only value of an option that people might give several times."""
    # Click would quietly take the last of several; two collectives are a task for a spec file.
    if len(values) > 1:
        raise click.BadParameter(f"give one, or describe {' and '.join(values)} in a spec file")
    return values[0] if values else None


_FLAGS = {
    "topology": option(
        "-t --topology TEXT", "The network: mesh:8x8, or a file. See 'pccl topology'."
    ),
    **NETWORK_FLAGS,
    "collective": option(
        "-c --collective KIND", f"One of {', '.join(_BY_FLAGS)}.", multiple=True, callback=_once
    ),
    "matrix": option(
        "--matrix FILE",
        "all-to-all-v: what each member sends to each, in bytes, from .csv, .npy or .parquet.",
    ),
    "round": option(
        "--round SIZE",
        "all-to-all-v: round every share up to whole multiples, such as 64KiB, for files that count in chunks.",
    ),
    "size": option("-s --size SIZE", "Buffer of one NPU with its unit: 8MiB, 1GB, 4KiB."),
    "group": option(
        "-g --group RANKS",
        "NPUs that take part: 0-7, 0-3,8, 0-56:8. Repeat it for several groups at once. Default: all.",
        multiple=True,
    ),
    "mesh": option("--mesh DIMS", "Arrange the ranks row by row: dp=8,tp=8. Goes with --along."),
    "along": option(
        "--along DIM", "One collective per process group along this dimension of the mesh."
    ),
    "chunks": option(
        "--chunks N", "Pieces every share is cut into. Default: the best.", type=click.IntRange(1)
    ),
    "dtype": option(
        "--dtype TYPE",
        "Type of the elements: float16, int32. Shares differ by one where they must. Default: bytes.",
    ),
    # None, and not False, where it is not given, as with a spec file.
    "confined": option(
        "--confined",
        "Keep chunks to the NPUs of their group: no relays through others.",
        default=None,
    ),
    "root": option(
        "--root NPU",
        "Root of broadcast, reduce, scatter, gather. Default: the first.",
        type=click.IntRange(0),
    ),
    # None, and not False, where it is not given: most collectives have no such parameter.
    "cyclic": option("--cyclic", "send-recv: the last member sends to the first.", default=None),
}
# What a flag says about the one collective that flags describe.
_OF_COLLECTIVE = (
    "matrix", "round", "size", "along", "chunks", "dtype", "confined", "root", "cyclic",
)  # fmt: skip

task_options = all_of([click.argument("spec", required=False, type=FILE), *_FLAGS.values()])
"""Give a command the argument SPEC and the flags that can take its place."""


def read_task(spec: Path | None, flags: dict[str, Any]) -> Spec:
    """Read the spec file, or the flags; settings and output of the command line beat those of the file."""
    # Either, never both: which of two topologies counts would be anybody's guess.
    task = _from_flags(flags) if spec is None else _from_file(spec, flags)
    # A flag beats the file, and the file beats the default; so what was not given must not count.
    given = {}
    for setting in fields(Settings):
        if flags.get(setting.name) is not None:
            given[setting.name] = flags[setting.name]
    output = flags.get("output") or task.output
    return replace(task, settings=task.settings.with_overrides(given), output=output)


def _from_file(path: Path, flags: dict[str, Any]) -> Spec:
    for name in (*_FLAGS, *FLAG_NAMES):
        # Options that can be repeated are empty tuples where they are not given.
        if flags.get(name) not in (None, ()):
            flag = "--set" if name == "changes" else spelled(name)
            raise click.UsageError(f"{path} says what to synthesize; leave out {flag}")
    from pccl.spec import load_spec

    return load_spec(path)


def _from_flags(flags: dict[str, Any]) -> Spec:
    # Checked by hand, because with a spec file neither is required.
    for name, example in (("topology", "mesh:8x8"), ("collective", "all-to-all")):
        if flags[name] is None:
            raise click.UsageError(
                f"give a spec file, or --topology and --collective; for example --{name} {example}"
            )
    from pccl.spec import CollectiveEntry, Spec, check_mesh, collectives_of, normal_kind

    kind = normal_kind(flags["collective"])
    # A pattern has no sensible spelling on one line.
    if not KINDS[kind].fits_flags:
        raise click.UsageError(
            f"{kind} does not fit into flags; describe it in a spec file (docs/spec.md)"
        )
    topology, reading = read_network(flags["topology"], flags)
    if not flags.get("quiet"):
        note_assumptions(topology, reading)
    mesh = _mesh(flags["mesh"], flags["along"])
    # Before any collective is made: its groups would name NPUs that do not exist.
    if mesh is not None:
        check_mesh(mesh, topology)
    about = {name: flags[name] for name in _OF_COLLECTIVE}
    about["matrix"] = None if about["matrix"] is None else str(about["matrix"])
    collectives = []
    # Without a group there is one collective, among all NPUs.
    for group in flags["group"] or (None,):
        collectives += collectives_of(CollectiveEntry(kind, group=group, **about), mesh)
    return Spec(topology, tuple(collectives))


def _mesh(text: str | None, along: str | None) -> DeviceMesh | None:
    if text is None:
        if along is not None:
            raise click.UsageError("--along needs --mesh, for example --mesh dp=8,tp=8")
        return None
    if along is None:
        raise click.UsageError("--mesh needs --along, the dimension to group along")
    from pccl.collective import device_mesh

    names = []
    sizes = []
    for part in text.split(","):
        # Stricter than int(), which also reads signs, underscores and digits of other scripts.
        match = re.fullmatch(r"\s*([^=]*[^=\s])\s*=\s*([0-9]{1,9})\s*", part)
        if match is None:
            raise click.UsageError(
                f"--mesh {text!r}: {part.strip()!r} is not name=size; write for example dp=8,tp=8"
            )
        names.append(match[1])
        sizes.append(int(match[2]))
    return device_mesh(sizes, names)
