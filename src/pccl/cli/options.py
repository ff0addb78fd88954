"""What the commands have in common: how one is made, and the options that several of them take."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import Field, fields, replace
from math import isnan
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args, get_type_hints

import click

from pccl.errors import PcclError
from pccl.settings import Settings

if TYPE_CHECKING:
    from pccl.formats.format import Format, Option
    from pccl.reporting.figures import FigureKind

Decorator = Callable[[Any], Any]
# Whether it can be read or written is found out, and said, where that is done.
FILE = click.Path(readable=False, path_type=Path)


Completer = Callable[[click.Context, click.Parameter, str], list[Any]]


def completing(names: Callable[[], Iterable[str]]) -> Completer:
    """Return what a shell offers for a value: names that begin like it, or like its part after a comma."""

    def complete(context: Any, parameter: Any, begun: str) -> list[str]:  # noqa: ARG001
        before, comma, last = begun.rpartition(",")
        return [f"{before}{comma}{name}" for name in names() if name.startswith(last)]

    return complete


def complete_topology(context: Any, parameter: Any, begun: str) -> list[Any]:  # noqa: ARG001
    """Return the networks that begin so, or if there is none, ask the shell for files."""
    from click.shell_completion import CompletionItem

    from pccl.topology import zoo

    names = [entry.name for entry in zoo() if entry.name.startswith(begun)]
    return [CompletionItem(name) for name in names] or [CompletionItem(begun, type="file")]


def _kinds() -> list[str]:
    from pccl.collective.kinds import KINDS

    return [name for name, kind in KINDS.items() if kind.fits_flags]


def _formats() -> list[str]:
    from pccl.formats.registry import FORMATS

    return list(FORMATS)


def _baselines() -> list[str]:
    from pccl.analysis import baselines

    return [entry.name for entry in baselines()]


# By the word for the value, whatever option it belongs to.
COMPLETIONS: dict[str, Completer] = {
    "TEXT": complete_topology,
    "KIND": completing(_kinds),
    "FORMAT": completing(_formats),
    "BASELINE": completing(_baselines),
}


class _Share(click.ParamType[float]):
    """A share such as 0.05 or 5%."""

    name = "share"

    def convert(self, value: Any, param: Any, ctx: Any) -> float:
        # Click converts defaults as well.
        if isinstance(value, float):
            return value
        number = value.removesuffix("%")
        try:
            return float(number) / (100 if value.endswith("%") else 1)
        except ValueError:
            self.fail(f"{value!r} is no share; write for example 5% or 0.05", param, ctx)


SHARE = _Share()


class _Seconds(click.FloatRange):
    """A time to wait: longer than none, and no longer than timers can count."""

    def __init__(self) -> None:
        super().__init__(0, 10**6, min_open=True)

    def convert(self, value: Any, param: Any, ctx: Any) -> float:
        seconds = float(super().convert(value, param, ctx))
        # Which is neither below the least nor above the most.
        if isnan(seconds):
            self.fail(f"{value!r} is no number of seconds", param, ctx)
        return seconds


SECONDS = _Seconds()
# Repetitions of a measurement, which more of them would not make better.
RUNS = click.IntRange(1, 10**6)


class Command(click.Command):
    """A command that refuses an option with two values, of which click would quietly take the last."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Read the arguments, each option once unless it can be repeated."""
        # Half a command line, on which a shell asks what may follow, need not be right yet.
        if not ctx.resilient_parsing:
            _, _, given = self.make_parser(ctx).parse_args(list(args))
            for parameter, times in Counter(given).items():
                takes_several = getattr(parameter, "multiple", True)
                is_switch = getattr(parameter, "is_flag", False) and not parameter.secondary_opts
                if times > 1 and not takes_several and not is_switch:
                    raise click.UsageError(_twice(parameter, times, args), ctx)
        return super().parse_args(ctx, args)


def _twice(parameter: click.Parameter, times: int, args: list[str]) -> str:
    """What to say of an option that is given several times: --in-place and --out-of-place are one."""
    spellings = (parameter.opts, parameter.secondary_opts)
    given = [name for names in spellings for name in names if name in args]
    if any(name in parameter.secondary_opts for name in given):
        if len(given) > 1:
            return f"{given[0]} and {given[-1]} contradict each other; give one of them"
        return f"{given[0]} is given {times} times"
    return f"{parameter.opts[-1]} is given {times} times"


def command(*examples: str, then: str = "", name: str | None = None) -> Decorator:
    """Make a command of a function, with examples at the end of its help, and what is to be said then."""
    return click.command(name, cls=Command, epilog=epilog(*examples, then=then))


def epilog(*examples: str, then: str = "") -> str:
    """Return the end of a help text: the examples, line by line, and what is to be said then."""
    # Click leaves the lines of a paragraph alone that begins with this sign.
    lines = ["\b", "Examples:", *(f"  {line}" for line in examples)]
    return "\n".join(lines) + (f"\n\n{then}" if then else "")


def all_of(decorators: Iterable[Decorator]) -> Decorator:
    """One decorator for several, which are listed in the order of the help."""
    several = list(decorators)

    def decorate(function: Any) -> Any:
        # As if they were written above each other: the lowest is applied first.
        for decorator in reversed(several):
            function = decorator(function)
        return function

    return decorate


def option(usage: str, text: str, **more: Any) -> Decorator:
    """Return an option, written as in the help: ``-o --output FILE``; without a word for its value it is a flag.

    A word in small letters is the parameter of the function, where that is called otherwise.
    """
    *names, value = usage.split()
    if not value.isupper():
        return click.option(*names, value, is_flag=True, help=text, **more)
    # Whatever is called so on the command line is read, and completed, in the same way.
    kind = {"FILE": FILE, "SHARE": SHARE}.get(value)
    about: dict[str, Any] = {"type": kind}
    if value in COMPLETIONS:
        about["shell_complete"] = COMPLETIONS[value]
    return click.option(*names, metavar=value, help=text, **about | more)


file_argument = click.argument("file", type=FILE)
json_option = option("--json as_json", "Print one JSON document instead of text.")
quiet_option = option("-q --quiet", "Print nothing but errors.")


def output_option(text: str, required: bool = True) -> Decorator:
    """The option that names the file to write."""
    return option("-o --output FILE", text, required=required)


def format_option(file: str) -> Decorator:
    """The option that names a format; `file` says whose name tells the format if it is not given."""
    return option("-f --format name FORMAT", f"One of those below. Default: what {file} ends with.")


def spelled(name: str) -> str:
    """How a keyword of Python is spelled as an option: ``--time-limit``."""
    return f"--{name.replace('_', '-')}"


def settings_options(function: Any) -> Any:
    """Give a command an option for every setting of the search; what is not given is None."""
    types = get_type_hints(Settings)
    return all_of(_setting_option(setting, types[setting.name]) for setting in fields(Settings))(
        function
    )


def _setting_option(setting: Field[Any], hint: Any) -> Decorator:
    name = setting.name
    about = setting.metadata
    # What may also be None is read as the other type.
    kind = get_args(hint)[0] if get_args(hint) else hint
    flag = about.get("flag", spelled(name))
    text = about["help"]
    if "choices" in about:
        text += f" One of {', '.join(about['choices'])}."
    if kind is bool:
        flag += f"/{spelled(f'no_{name}')}"

    def check(context: Any, parameter: Any, value: Any) -> Any:  # noqa: ARG001
        try:
            # Settings check themselves: here one alone, so that the error can name its option.
            Settings.of(**{} if value is None else {name: value})
        except PcclError as error:
            # Click adds the name of the option to it.
            raise click.BadParameter(str(error)) from None
        return value

    unit = about.get("unit", "")
    return click.option(
        flag,
        name,
        # Not the default of the setting: what was not given must not beat a spec file.
        default=None,
        type=SHARE if unit == "share" else kind,
        metavar=None if kind is bool else unit.upper() or _METAVARS[kind],
        callback=check,
        shell_complete=completing(lambda: about.get("choices", ())),
        help=text,
    )


_METAVARS = {int: "N", str: "NAME"}


def format_options(formats: Iterable[tuple[Format | FigureKind, tuple[Option, ...]]]) -> Decorator:
    """Give a command the options of several formats or figures, each once, saying which have it."""
    options: dict[str, Option] = {}
    users: dict[str, list[str]] = {}
    for chosen, own in formats:
        for option in own:
            known = options.get(option.name, option)
            # Two formats may have one option with different choices: the help lists all of them.
            choices = tuple(dict.fromkeys(known.choices + option.choices))
            options[option.name] = replace(known, choices=choices)
            users.setdefault(option.name, []).append(chosen.name)
    return all_of(_flag(option, users[option.name]) for option in options.values())


def given_options(
    chosen: Format, own: tuple[Option, ...], flags: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the flags that were given, by keyword, unless one is not for this format."""
    given = {name: value for name, value in flags.items() if value is not None}
    # The command has the options of all formats; those of others are refused here.
    chosen.refuse_others(given, own, spelled)
    kinds = {option.name: option.kind for option in own}
    for name, value in given.items():
        if kinds[name] == "ranks":
            from pccl.collective import parse_group

            given[name] = parse_group(value)
    return given


# How values of these kinds are read; those of any other kind are text.
_KINDS: dict[str, dict[str, Any]] = {
    "flag": {"is_flag": True},
    "count": {"type": click.IntRange(1), "metavar": "N"},
    "number": {"type": click.IntRange(0), "metavar": "N"},
}


def _flag(option: Option, formats: list[str]) -> Decorator:
    flag = option.flag
    if option.opposite:
        flag += f"/{spelled(option.opposite)}"
    about = _KINDS.get(option.kind, {"metavar": option.kind.upper()})
    if option.choices:
        about = {"type": click.Choice(option.choices)}
    # None again where it is not given, even for flags: a writer has defaults of its own.
    text = f"[{', '.join(formats)}] {option.help}"
    return click.option(flag, option.name, default=None, help=text, **about)
