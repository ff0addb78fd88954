"""Options of formats, as the registry lists them, turned into flags."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import click

from pccl.formats.format import Format, Option

__all__ = ["format_options", "given_options"]

Options = Mapping[str, tuple[Format, tuple[Option, ...]]]


def format_options(formats: Options) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Give a command the options of several formats, each once, saying which formats have it."""
    options: dict[str, Option] = {}
    users: dict[str, list[str]] = {}
    for name, (_, own) in formats.items():
        for option in own:
            known = options.get(option.name, option)
            choices = tuple(dict.fromkeys(known.choices + option.choices))
            options[option.name] = Option(
                known.name, known.kind, known.help, choices, known.opposite
            )
            users.setdefault(option.name, []).append(name)

    def decorate(command: Callable[..., Any]) -> Callable[..., Any]:
        for option in reversed(options.values()):
            command = _flag(option, users[option.name])(command)
        return command

    return decorate


def given_options(
    chosen: Format, own: tuple[Option, ...], flags: Mapping[str, Any]
) -> dict[str, Any]:
    """Those flags that were given, by keyword, unless one is not for this format."""
    given = {name: value for name, value in flags.items() if value is not None}
    chosen.refuse_others(given, own, lambda name: f"--{name.replace('_', '-')}")
    kinds = {option.name: option.kind for option in own}
    return {
        name: _ranks(value) if kinds[name] == "ranks" else value for name, value in given.items()
    }


def _flag(option: Option, formats: list[str]) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    opposite = f"/--{option.opposite.replace('_', '-')}" if option.opposite else ""
    settings: dict[str, Any] = {"default": None, "help": f"[{', '.join(formats)}] {option.help}"}
    if option.kind == "flag":
        settings["is_flag"] = True
    elif option.kind == "choice":
        settings["type"] = click.Choice(option.choices)
    elif option.kind in ("count", "number"):
        settings |= {"type": click.IntRange(1 if option.kind == "count" else 0), "metavar": "N"}
    else:
        settings["metavar"] = option.kind.upper()
    return click.option(f"{option.flag}{opposite}", option.name, **settings)


def _ranks(text: str) -> tuple[int, ...]:
    from pccl.collective import parse_group

    return parse_group(text)
