"""``pccl export``: algorithms for runtimes, simulators and people."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from pccl.cli.console import check_writable, examples, print_facts
from pccl.export.registry import FORMATS, Option, find_format

__all__ = ["export"]


def _options() -> list[Option]:
    """Every option of every format, once; choices of several formats are joined."""
    found: dict[str, Option] = {}
    for option in (option for f in FORMATS.values() for option in f.options):
        known = found.get(option.name, option)
        choices = tuple(dict.fromkeys(known.choices + option.choices))
        found[option.name] = Option(known.name, known.kind, known.help, choices, known.opposite)
    return list(found.values())


def _with_options(command: Callable[..., Any]) -> Callable[..., Any]:
    for option in reversed(_options()):
        opposite = f"/--{option.opposite.replace('_', '-')}" if option.opposite else ""
        formats = ", ".join(f.name for f in FORMATS.values() if any(o.name == option.name for o in f.options))
        settings: dict[str, Any] = {"default": None, "help": f"[{formats}] {option.help}"}
        if option.kind == "flag":
            settings["is_flag"] = True
        elif option.kind == "choice":
            settings["type"] = click.Choice(option.choices)
        elif option.kind in ("count", "number"):
            settings |= {"type": click.IntRange(1 if option.kind == "count" else 0), "metavar": "N"}
        else:
            settings["metavar"] = option.kind.upper()
        command = click.option(f"{option.flag}{opposite}", option.name, **settings)(command)
    return command


@click.command(
    short_help="Write an algorithm for a runtime, a simulator, or people.",
    epilog=examples(
        "pccl export a2a.pccl --format msccl -o a2a.xml",
        "pccl export a2a.pccl -o a2a.xml --target rccl --instances 2",
        "pccl export group.pccl -o group.xml --all-ranks",
        then="Formats: " + "; ".join(f"{f.name}, {f.description}" for f in FORMATS.values()) + ".",
    ),
)
@click.argument("file", type=click.Path(path_type=Path))
@click.option("-f", "--format", "name", metavar="NAME", help="One of those below. Default: what OUT ends with.")
@click.option("-o", "--output", "out", metavar="OUT", required=True, type=click.Path(path_type=Path), help="To write.")
@click.option("-q", "--quiet", is_flag=True, help="Print nothing but errors.")
@_with_options
def export(file: Path, name: str | None, out: Path, quiet: bool, **flags: Any) -> None:
    """Write the algorithm of a .pccl FILE in the format of another program."""
    chosen = find_format(out, name)
    given = {option: value for option, value in flags.items() if value is not None}
    spelled = {option.name: option.flag for option in _options()}
    chosen.check_options(given, spelled.__getitem__)
    if chosen.suffixes:
        check_writable(out, sorted({out.suffix}), "this")
    from pccl.algorithm import load
    from pccl.export import export as write

    facts = write(load(file), out, chosen.name, **given)
    if not quiet:
        print_facts({"format": f"{chosen.name}, {chosen.description}", **facts, "written to": str(out)})
