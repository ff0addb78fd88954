"""Write the reference pages from the code again: ``python docs/reference.py``."""

from __future__ import annotations

import ast
import builtins
import doctest
import inspect
import json
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cached_property
from pathlib import Path
from types import ModuleType, UnionType
from typing import Annotated, Any, ForwardRef, Union, get_args, get_origin

import click

import pccl
from pccl.cli import main as program

FOLDER = Path(__file__).parent
NOTE = "<!-- Written by docs/reference.py: change the code, then run make docs. -->"
WIDTH = 100


def main() -> None:
    """Write both pages."""
    for name, text in pages().items():
        (FOLDER / name).write_text(text, encoding="utf-8", newline="\n")


def pages() -> dict[str, str]:
    """The text of each page, by file name."""
    return {"reference-cli.md": _page(_commands()), "reference-api.md": _page(_names())}


def _page(blocks: Iterable[str]) -> str:
    return "\n\n".join([NOTE, *(block for block in blocks if block)]) + "\n"


# The command line.


def _commands() -> Iterator[str]:
    yield "# Commands"
    yield "Every command and option, as `--help` lists them. [The command line](cli.md) shows them at work."
    yield from _command("pccl", program, parent=None)


def _command(path: str, command: click.Command, parent: click.Context | None) -> Iterator[str]:
    context = click.Context(command, info_name=path.split()[-1], parent=parent)
    yield f"## {path}"
    yield _fenced("text", f"{path} {' '.join(command.collect_usage_pieces(context))}")
    yield _escaped(" ".join(inspect.cleandoc(command.help or "").split()))
    yield _options(command)
    yield from _epilog(command.epilog or "")
    if isinstance(command, click.Group):
        for name in sorted(command.list_commands(context)):
            child = command.get_command(context, name)
            yield from _command(f"{path} {name}", child, context)


def _options(command: click.Command) -> str:
    options = [
        option
        for option in command.params
        if isinstance(option, click.Option) and not option.hidden
    ]
    rows = [f"| {_flags(option)} | {_meaning(option)} |" for option in options]
    return "\n".join(["| option | meaning |", "|---|---|", *rows]) if rows else ""


def _flags(option: click.Option) -> str:
    names = ", ".join(f"`{name}`" for name in (*option.opts, *option.secondary_opts))
    if option.is_flag or isinstance(option.type, click.Choice):
        return names
    return f"{names} `{option.metavar or option.type.name.upper()}`"


def _meaning(option: click.Option) -> str:
    facts = option.to_info_dict()
    parts = [_escaped(facts["help"] or "")]
    if isinstance(option.type, click.Choice):
        parts.append(f"One of {', '.join(f'`{choice}`' for choice in option.type.choices)}.")
    if isinstance(option.type, click.IntRange | click.FloatRange) and option.type.min is not None:
        parts.append(f"At least {option.type.min}.")
    if option.show_default:
        parts.append(f"Default: `{facts['default']}`.")
    if option.multiple and "Repeat" not in parts[0]:
        parts.append("Can be repeated.")
    if option.required:
        parts.append("Required.")
    return " ".join(parts)


def _epilog(text: str) -> Iterator[str]:
    """Examples of a help text, as ``pccl.cli.options.epilog`` writes them, and what follows them."""
    shown, _, rest = text.partition("\n\n")
    lines = [line.strip() for line in shown.splitlines() if line.startswith("  ")]
    if lines:
        yield _fenced("text", "\n".join(lines))
    yield _escaped(" ".join((rest if lines else text).split()))


# The Python names.


def _names() -> Iterator[str]:
    public = {name: getattr(pccl, name) for name in pccl.__all__}
    yield "# Python names"
    yield "Every public name with its signature and what its docstring says. [Python](api.md) is the overview."
    for title, belongs in SECTIONS.items():
        yield f"## {title}"
        for name, value in public.items():
            if belongs(value):
                yield from _entry(f"pccl.{name}", value)
    for name, value in public.items():
        if isinstance(value, ModuleType):
            yield from _package(name, value)


def _is_error(value: Any) -> bool:
    return isinstance(value, type) and issubclass(value, Exception)


SECTIONS: dict[str, Callable[[Any], bool]] = {
    "Functions": inspect.isfunction,
    "Classes": lambda value: isinstance(value, type) and not _is_error(value),
    "Errors": _is_error,
    "Constants": lambda value: not callable(value) and not isinstance(value, ModuleType),
}


def _package(name: str, package: ModuleType) -> Iterator[str]:
    """What a package offers beyond the names that ``pccl`` has itself."""
    others = [other for other in package.__all__ if other not in pccl.__all__]
    yield f"## pccl.{name}"
    yield _prose(
        inspect.getdoc(package).partition("\n\n")[0]
    )  # the rest says which module does what
    for other in others:
        yield from _entry(f"pccl.{name}.{other}", getattr(package, other))


def _entry(name: str, value: Any) -> Iterator[str]:
    yield f"### {name}"
    if isinstance(value, type):
        yield from _class(name, value)
    elif inspect.isfunction(value):
        yield _signature(name, value)
        yield from _docstring(value)
    else:
        yield _constant(value)


def _class(name: str, kind: type) -> Iterator[str]:
    if not issubclass(kind, Exception | int):
        yield _signature(name, kind)
    yield from _docstring(kind)
    yield _base(kind)
    for member, value in vars(kind).items():
        if not member.startswith("_"):
            yield from _member(f"{name.rpartition('.')[2]}.{member}", value)


def _member(name: str, value: Any) -> Iterator[str]:
    if isinstance(value, property | cached_property):
        getter = value.fget if isinstance(value, property) else value.func
        yield f"#### {name}"
        yield _fenced("py", f"{name}: {_annotation(inspect.signature(getter).return_annotation)}")
        yield from _docstring(getter)
    elif inspect.isfunction(function := getattr(value, "__func__", value)):
        yield f"#### {name}"
        yield _signature(name, function, bound=not isinstance(value, staticmethod))
        yield from _docstring(function)


def _constant(value: Any) -> str:
    if isinstance(value, str):
        return "Text."
    if isinstance(value, Mapping):
        return f"A mapping with the keys {', '.join(f'`{key}`' for key in value)}."
    return f"Short for `{_annotation(value)}`."


def _base(kind: type) -> str:
    """The nearest base that readers know."""
    for base in kind.__mro__[1:-1]:  # without object
        if base.__name__ in pccl.__all__:
            return f"Base: `pccl.{base.__name__}`."
        if base.__module__ == "builtins":
            return f"Base: `{base.__name__}`."
    return ""


# Signatures.


def _signature(name: str, function: Callable[..., Any], bound: bool = False) -> str:
    signature = inspect.signature(function)
    parameters = list(signature.parameters.values())[1 if bound else 0 :]
    shown = list(_parameters(parameters))
    returned = signature.return_annotation
    end = (
        ""
        if isinstance(function, type) or returned is signature.empty
        else f" -> {_annotation(returned)}"
    )
    line = f"{name}({', '.join(shown)}){end}"
    if len(line) > WIDTH:
        line = "\n".join([f"{name}(", *(f"    {part}," for part in shown), f"){end}"])
    return _fenced("py", line)


def _parameters(parameters: list[inspect.Parameter]) -> Iterator[str]:
    stars = {inspect.Parameter.VAR_POSITIONAL: "*", inspect.Parameter.VAR_KEYWORD: "**"}
    named_only = False
    for parameter in parameters:
        if parameter.kind is inspect.Parameter.KEYWORD_ONLY and not named_only:
            yield "*"
        named_only |= parameter.kind in (
            inspect.Parameter.KEYWORD_ONLY,
            inspect.Parameter.VAR_POSITIONAL,
        )
        kind = (
            ""
            if parameter.annotation is parameter.empty
            else f": {_annotation(parameter.annotation)}"
        )
        yield f"{stars.get(parameter.kind, '')}{parameter.name}{kind}{_default(parameter)}"


def _default(parameter: inspect.Parameter) -> str:
    if parameter.default is parameter.empty:
        return ""
    text = (
        json.dumps(parameter.default)
        if isinstance(parameter.default, str)
        else repr(parameter.default)
    )
    return " = ..." if text.startswith("<") else f" = {text}"  # made anew for each object


def _annotation(kind: Any) -> str:
    """A type as people write it, whichever way and version of Python it was kept by."""
    origin, inner = get_origin(kind), get_args(kind)
    if isinstance(kind, ForwardRef):
        return kind.__forward_arg__
    if origin is Annotated:
        return _annotation(inner[0])
    if origin in (Union, UnionType):
        return " | ".join(map(_annotation, inner))
    if origin is not None:
        return f"{_annotation(origin)}[{', '.join(map(_annotation, inner))}]"
    if kind is type(None):
        return "None"
    return kind.__name__ if isinstance(kind, type) else str(kind)


# Docstrings.


def _docstring(thing: Any) -> Iterator[str]:
    text = inspect.getdoc(thing) or ""
    parts = re.split(r"^(\w[\w ]*)\n-{3,}\n", text, flags=re.MULTILINE)
    yield _prose(parts[0])
    for title, body in zip(parts[1::2], parts[2::2], strict=True):
        yield f"**{title}**"
        yield _examples(body, thing.__module__) if title == "Examples" else _definitions(body)


def _definitions(text: str) -> str:
    """Names, and what is indented below them, as a list."""
    items = []
    for name, body in re.findall(
        r"^(\S.*)\n((?:[ ]+.*\n?|\n)*)", f"{text.strip()}\n", flags=re.MULTILINE
    ):
        names = ", ".join(f"`{part.strip()}`" for part in name.split(","))
        items.append(
            f"- {names}: {_prose(inspect.cleandoc(body))}" if body.strip() else f"- {names}"
        )
    return "\n".join(items)


def _examples(text: str, module: str) -> str:
    """Examples as people would type them: with the imports that their module spares them."""
    paragraphs = re.sub(r"[ ]+# doctest:.*", "", text).strip().split("\n\n")
    imports = _imports(text, module)
    shown = []
    for paragraph in paragraphs:
        if paragraph.startswith(">>>"):
            shown.append(_fenced("python", "\n".join([*imports, paragraph])))
            imports = []
        else:
            shown.append(_prose(paragraph))
    return "\n\n".join(shown)


def _imports(text: str, module: str) -> list[str]:
    """Lines that import what examples use of their own module without saying so."""
    code = "".join(example.source for example in doctest.DocTestParser().get_examples(text))
    names = [node for node in ast.walk(ast.parse(code)) if isinstance(node, ast.Name)]
    made = {node.id for node in names if isinstance(node.ctx, ast.Store)}
    used = {node.id for node in names} - made - set(dir(builtins))
    imported = {
        alias.asname or alias.name
        for node in ast.walk(ast.parse(code))
        if isinstance(node, ast.Import | ast.ImportFrom)
        for alias in node.names
    }
    known = vars(sys.modules[module])
    lines = []
    by_home: dict[str, list[str]] = {}
    for name in sorted((used - imported) & set(known)):
        value = known[name]
        if isinstance(value, ModuleType):
            lines.append(f">>> import {value.__name__} as {name}")
        else:
            by_home.setdefault(_home(name, value), []).append(name)
    return lines + [f">>> from {home} import {', '.join(names)}" for home, names in by_home.items()]


def _home(name: str, value: Any) -> str:
    """The package that readers import a name from."""
    if name in pccl.__all__:
        return "pccl"
    for package, public in vars(pccl).items():
        if isinstance(public, ModuleType) and name in getattr(public, "__all__", ()):
            return f"pccl.{package}"
    return str(value.__module__)


def _prose(text: str) -> str:
    paragraphs = []
    for paragraph in text.strip().split("\n\n"):
        if paragraph.startswith("    "):
            paragraphs.append(_fenced("text", inspect.cleandoc(paragraph)))
        else:
            paragraphs.append(_inline(" ".join(paragraph.split())).replace("::", ":"))
    return "\n\n".join(paragraphs)


def _inline(text: str) -> str:
    """Markup of docstrings as Markdown: roles and double backticks are code."""
    text = re.sub(r":\w+:`(?:~[\w.]*\.)?([^`]+)`", r"`\1`", text)
    text = text.replace("``", "`")
    return "".join(
        part if part.startswith("`") else _plain(part) for part in re.split(r"(`[^`]*`)", text)
    )


def _escaped(text: str) -> str:
    """Plain text as Markdown, with options as code."""
    return re.sub(r"(?<!\S)(--?[a-z][\w-]*)", r"`\1`", _plain(text))


def _plain(text: str) -> str:
    return re.sub(r"([*<|])", r"\\\1", text)


def _fenced(language: str, text: str) -> str:
    return f"```{language}\n{text}\n```"


if __name__ == "__main__":
    main()
