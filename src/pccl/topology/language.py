"""Topologies in one line, as typed on a command line: ``torus:8x8x8@50GB/s,500ns``.

The grammar is ``name[:AxBxC][,option=value...][@bandwidth[,latency[,gap]]]...``; `` x `` between two such texts is
their product. The names are those of the zoo; what each accepts is read off the signature of the function that builds
it.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping
from difflib import get_close_matches
from math import prod
from pathlib import Path
from typing import Any

from pccl.errors import PcclError, TopologyError
from pccl.topology import generators
from pccl.topology.core import Topology
from pccl.topology.names import EACH_DIMENSION, MOST_IN_A_BOX, SLICE, ZOO, ZooEntry
from pccl.topology.parts import read_flag
from pccl.units import YES_NO

# A typing error should not fill the memory with NPUs.
_MOST_NPUS = 1_000_000
FILE_SUFFIXES = (
    ".yaml", ".yml", ".json", ".txt", ".edges", ".xml", ".log", ".out", ".conf", ".topo", ".graphml", ".gml",
)  # fmt: skip
_PATHS = ("/", "./", "../", "~")
# What may be said of a file, after commas, as of a machine.
_FILE_OPTIONS = ("gpu", "nic", "boxes")
_JOIN = " + "
# What the words after an @ are, in order.
_SPEEDS = ("bandwidth", "latency", "gap")


def named_in(text: str) -> list[ZooEntry]:
    """Return what a text names: one entry of the zoo, those of a product, or none, as for a file.

    Examples
    --------
    >>> [entry.name for entry in named_in("ring:4 x a100:2")]
    ['ring', 'a100']
    """
    if files_in(text):
        return []
    names = (_name(part.strip()) for part in text.split(" x "))
    return [ZOO[name] for name in names if name in ZOO]


def parse_topology(text: str) -> Topology:
    """Read a topology from one line of text, or from the file that it names.

    A text that ends as files do (``.yaml``, ``.xml``, ``.txt``) is a file, and so is one that begins with no known name
    but names an existing file. Several files are joined by `` + ``; what they do not tell follows after commas:
    ``box1.txt + box2.txt + fabric.out``, ``topo.xml,gpu=h100,boxes=4``. See :func:`pccl.topology.load`.

    Examples
    --------
    >>> parse_topology("torus:8x8x8@50GB/s,500ns")
    Topology('torus:8x8x8': 512 NPUs, 3,072 links, 50GB/s, 500ns)
    >>> parse_topology("switch:8,bandwidth=50GB/s,latency=1us")
    Topology('switch:8': 8 NPUs, 1 switch, 16 links, 50GB/s, 1us)
    >>> parse_topology("switch2d:8x4@400GB/s,500ns@50GB/s,2us")
    Topology('switch2d:8x4': 32 NPUs, 12 switches, 128 links, 50GB/s to 400GB/s, 500ns to 2us)
    >>> parse_topology("a100:4,nic=50GB/s,nic_latency=2us")
    Topology('a100:4': 32 NPUs, 6 switches, 128 links, 50GB/s to 300GB/s, 300ns to 2us)
    >>> parse_topology("line:2 x ring:4")
    Topology('line:2 x ring:4': 8 NPUs, 24 links, 50GiB/s, 500ns)
    >>> parse_topology("tours:8x8")
    Traceback (most recent call last):
        ...
    pccl.errors.TopologyError: topology 'tours:8x8': there is no 'tours'; did you mean 'torus'?
    """
    text = text.strip()
    files = files_in(text)
    if files:
        from pccl.topology.importers import load

        paths, options = files
        return load(*paths, **options)
    try:
        factors = [_parse_one(part.strip()) for part in text.split(" x ")]
        return factors[0] if len(factors) == 1 else generators.product(*factors)
    except PcclError as error:
        raise TopologyError(f"topology {text!r}: {error}") from error


def files_in(text: str) -> tuple[list[str], dict[str, Any]] | None:
    """Return the files that a text names and what it says of them, or None for a network that has a name.

    Examples
    --------
    >>> files_in("box.txt + fabric.out,gpu=h100")
    (['box.txt', 'fabric.out'], {'gpu': 'h100'})
    >>> files_in("mesh:8x8") is None
    True
    """
    text = text.strip()
    whole = text
    # Commas may be part of a path: only what follows the last of them, and is an option, counts.
    options: dict[str, Any] = {}
    while match := re.search(rf",\s*({'|'.join(_FILE_OPTIONS)})\s*=\s*([^,=]*)$", text):
        text = text[: match.start()].rstrip()
        option = match[1]
        value = match[2]
        if option in options:
            raise TopologyError(f"topology {whole!r}: the option {option!r} is given twice")
        options[option] = _count(value, option, None) if option == "boxes" else value
    paths = [path.strip() for path in text.split(_JOIN)]
    # A known name goes before a file: one that is called ring must not hide the ring.
    are_files = all(
        path.endswith(FILE_SUFFIXES)
        or path.startswith(_PATHS)
        or (_name(path) not in ZOO and Path(path).is_file())
        for path in paths
    )
    return (paths, options) if are_files else None


def _name(text: str) -> str:
    # Underscores as in Python are as good as hyphens.
    return re.split("[@,:]", text)[0].strip().lower().replace("_", "-")


def _parse_one(text: str) -> Topology:
    name = _name(text)
    if name not in ZOO:
        raise _unknown(name)
    entry = ZOO[name]
    head, *speeds = text.split("@")
    what, *options = head.split(",")
    numbers = what.partition(":")[2].strip()
    # Options first: some of them may be numbers that are otherwise written after the colon.
    keywords = _read_options(entry, options)
    arguments = _read_arguments(entry, numbers, keywords)
    for option, value in _read_speeds(entry, speeds, len(arguments)).items():
        if option in keywords:
            raise TopologyError(f"the {option} is given twice")
        keywords[option] = value
    return entry.build(*arguments, **keywords)


def _unknown(name: str) -> TopologyError:
    """What to say of a name that is none: which others are like it."""
    # Also by what things are called: nvl72 is in the description of gb200. Two letters are in nearly all of them.
    described = []
    if len(name) > 2:
        described = [e.name for e in ZOO.values() if name in e.description.lower()]
    near = described[:3] or get_close_matches(name, ZOO, n=3)
    if near:
        return TopologyError(f"there is no {name!r}; did you mean {' or '.join(map(repr, near))}?")
    return TopologyError(f"there is no {name!r}; known are {', '.join(ZOO)}, and files")


def _read_arguments(entry: ZooEntry, text: str, keywords: Mapping[str, Any]) -> list[Any]:
    """What is after the colon, numbers or the name of a slice; `keywords` may give some of them by name."""
    if entry.arguments == SLICE:
        return [text]
    numbers = [_positive(word) for word in text.split("x")] if text else []
    may_be_left_out = entry.arguments.startswith("[")
    # The function itself says what it accepts, so that no second table could disagree with it. A
    # grid would accept nothing at all, too, but that is no grid.
    try:
        counts = inspect.signature(entry.build).bind(*numbers, **keywords).args
        fits = all(numbers) and (len(counts) > 0 or may_be_left_out)
    except TypeError:
        fits = False
    if not fits:
        usage = f"{entry.name}:{entry.arguments}, for example {entry.example}"
        raise TopologyError(
            f"{text!r} does not describe {_article(entry.name)} {entry.name}; write {usage}"
        )
    # Refused before it is built, which would fill the memory. What may be left out is a number of boxes.
    npus = prod(counts)
    if may_be_left_out:
        npus *= MOST_IN_A_BOX
    if npus > _MOST_NPUS:
        raise TopologyError(f"this is beyond {_MOST_NPUS:,} NPUs")
    return numbers


def _article(name: str) -> str:
    """As people say it: an a100, an h100, a mesh."""
    begins_with_a_vowel = name[0] in "aeio"
    # Names of models are spelled: an "aitch" hundred, an "em" i.
    is_spelled_so = re.match(r"[fhlmnrsx][0-9]|mi[0-9]|ndv", name) is not None
    return "an" if begins_with_a_vowel or is_spelled_so else "a"


def _positive(word: str) -> int:
    """Return a positive whole number of at most nine digits, or zero when it is not one."""
    word = word.strip()
    return int(word) if word.isascii() and word.isdecimal() and len(word) < 10 else 0


def _read_options(entry: ZooEntry, texts: list[str]) -> dict[str, Any]:
    parameters = inspect.signature(entry.build).parameters
    counts = [p.name for p in parameters.values() if p.kind is p.POSITIONAL_OR_KEYWORD]
    # Whatever a signature has is an option: no list to keep up to date for every name.
    known = [*counts, *entry.options]
    keywords: dict[str, Any] = {}
    for text in texts:
        name, sign, value = (word.strip() for word in text.partition("="))
        if name not in known:
            its = f"its options are {', '.join(known)}" if known else "it has none"
            raise TopologyError(f"{entry.name} has no option {name!r}; {its}")
        if name in keywords:
            raise TopologyError(f"the option {name!r} is given twice")
        # The name alone says yes; with nothing after the sign, something was forgotten.
        says_yes = not sign and _kind_of(parameters[name]) is bool
        keywords[name] = _read_option(parameters[name], "yes" if says_yes else value)
    return keywords


def _read_option(parameter: inspect.Parameter, text: str) -> Any:
    """The value of an option, or several values for the dimensions or levels of the network."""
    default = _usual(parameter)
    read = _READERS.get(_kind_of(parameter), _count)
    # The "/s" of a bandwidth parts nothing.
    values = [read(one, parameter.name, default) for one in re.split(r"/(?!s(?:/|$))", text)]
    if len(values) > 1 and "Sequence" not in str(parameter.annotation):
        raise TopologyError(f"{parameter.name} is one value, not {len(values)}: {text!r}")
    return values if len(values) > 1 else values[0]


def _kind_of(parameter: inspect.Parameter) -> type:
    """What the values of an option are."""
    default = _usual(parameter)
    # What is None by default is left to the network; its annotation tells what it is.
    annotation = str(parameter.annotation)
    if "bool" in annotation:
        return bool
    is_quantity = default is None and any(word in annotation for word in ("Bandwidth", "Time"))
    return str if is_quantity else type(default)


def _usual(parameter: inspect.Parameter) -> Any:
    """The default of an option, for the first dimension or level if it differs."""
    default = parameter.default
    return default[0] if isinstance(default, tuple) else default


def _read_speeds(entry: ZooEntry, parts: list[str], dimensions: int) -> dict[str, Any]:
    """Bandwidth and latency from the parts with an @."""
    if not parts:
        return {}
    if not entry.speeds:
        parameters = inspect.signature(entry.build).parameters.values()
        kind = next(p for p in parameters if isinstance(p.default, str))
        how = f"an option of its own, such as {kind.name}={kind.default}"
        raise TopologyError(
            f"{entry.name} has for every kind of link {how}; leave out '@{parts[0]}'"
        )
    several = dimensions if entry.speeds == EACH_DIMENSION else len(entry.speeds)
    if len(parts) not in (1, several):
        levels = ", ".join(entry.speeds)
        raise TopologyError(
            f"{len(parts)} parts with '@': give one for all links, or one for: {levels}"
        )
    speeds = [_read_speed(part) for part in parts]
    if len(speeds) == 1:
        return dict(zip(_SPEEDS, speeds[0], strict=True))
    # From the figures of each part to all bandwidths, all latencies, and all gaps.
    columns = zip(*speeds, strict=True)
    return dict(zip(_SPEEDS, columns, strict=True))


def _read_speed(part: str) -> tuple[Any, ...]:
    """Bandwidth, latency and gap of one part with an @, of which the last may be left out."""
    given = [word.strip() for word in part.split(",")]
    if len(given) > len(_SPEEDS) or any(word[:1].isalpha() for word in given):
        raise TopologyError(
            f"'@{part}' is not '@bandwidth', '@bandwidth,latency' or '@bandwidth,latency,gap' "
            "(options go before the first '@')"
        )
    usual = ("", generators.LATENCY, generators.NO_GAP)
    return *given, *usual[len(given) :]


def _yes_no(value: str, name: str, _: object) -> bool:
    return read_flag(value, name, YES_NO)


def _count(value: str, name: str, _: object) -> int:
    if not _positive(value):
        what = "a positive number of chunks" if name == "buffer" else "a positive number"
        limit = ", of at most nine digits" if len(value) > 9 else ""
        raise TopologyError(f"{name} is {what}{limit}, not {value!r}")
    return _positive(value)


def _quantity(value: str, name: str, default: object) -> str:
    if not value:
        raise TopologyError(f"{name} needs a value, such as {name}={default}")
    return value


# How the values of options are read, by the type of their defaults; all others are numbers.
_READERS: Mapping[type, Callable[[str, str, object], Any]] = {bool: _yes_no, str: _quantity}
