"""Options of formats and figures, as the registry lists them, turned into flags."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

import click

from pccl.cli.options import Decorator, all_of, spelled
from pccl.formats.format import Format, Option
from pccl.reporting.figures import FigureKind

__all__ = ["format_options", "given_options"]


def format_options(formats: Iterable[tuple[Format | FigureKind, tuple[Option, ...]]]) -> Decorator:
    """Give a command the options of several formats or figures, each once, saying which have it."""
    options: dict[str, Option] = {}
    users: dict[str, list[str]] = {}
    for chosen, own in formats:
        for option in own:
            known = options.get(option.name, option)
            choices = tuple(dict.fromkeys(known.choices + option.choices))
            options[option.name] = replace(known, choices=choices)
            users.setdefault(option.name, []).append(chosen.name)
    return all_of(_flag(option, users[option.name]) for option in options.values())


def given_options(
    chosen: Format, own: tuple[Option, ...], flags: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the flags that were given, by keyword, unless one is not for this format."""
    given = {name: value for name, value in flags.items() if value is not None}
    chosen.refuse_others(given, own, spelled)
    kinds = {option.name: option.kind for option in own}
    for name, value in given.items():
        if kinds[name] == "ranks":
            from pccl.collective import parse_group

            given[name] = parse_group(value)
    return given


def _flag(option: Option, formats: list[str]) -> Decorator:
    flag = option.flag
    if option.opposite:
        flag += f"/{spelled(option.opposite)}"
    settings: dict[str, Any] = {"default": None, "help": f"[{', '.join(formats)}] {option.help}"}
    if option.kind == "flag":
        settings["is_flag"] = True
    elif option.kind == "choice":
        settings["type"] = click.Choice(option.choices)
    elif option.kind in ("count", "number"):
        settings["type"] = click.IntRange(1 if option.kind == "count" else 0)
        settings["metavar"] = "N"
    else:
        settings["metavar"] = option.kind.upper()
    return click.option(flag, option.name, **settings)
