"""Topologies in one line, as typed on a command line: ``torus:8x8x8@50GB/s,500ns``.

The grammar is ``name[:AxBxC][,option=value...][@bandwidth[,latency[,gap]]]...``; `` x `` between two such texts is
their product. One table, :func:`zoo`, lists the names; what each accepts is read off the signature of the function
that builds it.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from math import prod
from pathlib import Path
from typing import Any

from pccl.errors import PcclError, TopologyError
from pccl.topology import generators
from pccl.topology.core import Topology
from pccl.topology.machines import amd, clouds, google, nvidia

# A typing error should not fill the memory with NPUs.
_MOST_NPUS = 1_000_000
FILE_SUFFIXES = (
    ".yaml", ".yml", ".json", ".txt", ".edges", ".xml", ".log", ".out", ".conf", ".topo", ".graphml", ".gml",
)  # fmt: skip
_PATHS = ("/", "./", "../", "~")
# What may be said of a file, after commas, as of a machine.
_FILE_OPTIONS = ("gpu", "nic", "boxes")
_JOIN = " + "


@dataclass(frozen=True)
class ZooEntry:
    """One name of the language.

    Attributes
    ----------
    name, arguments
        What to write before and after the colon; arguments in brackets may be left out.
    description
        One line.
    example
        A text that :func:`parse_topology` reads.
    speeds
        What the ``@`` parts stand for, in order; none for machines, whose links have speeds of their own.
    build
        The function behind the name.
    source
        Where the figures of a machine come from.
    """

    name: str
    arguments: str
    description: str
    example: str
    speeds: tuple[str, ...]
    build: Callable[..., Topology] = field(repr=False)
    source: str = ""

    @property
    def usage(self) -> str:
        """The name with its arguments."""
        if self.arguments.startswith("["):
            return f"{self.name}[:{self.arguments[1:]}"
        return f"{self.name}:{self.arguments}"

    @property
    def options(self) -> tuple[str, ...]:
        """The options that may follow the arguments, as ``option=value``."""
        # What the topology is called follows from the text.
        parameters = inspect.signature(self.build).parameters.values()
        return tuple(p.name for p in parameters if p.kind is p.KEYWORD_ONLY and p.name != "name")


def zoo() -> list[ZooEntry]:
    """Return every topology that has a name.

    Examples
    --------
    >>> [entry.example for entry in zoo()][:3]
    ['line:4', 'ring:8,unidirectional', 'fully-connected:8']
    """
    return list(_ZOO.values())


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
    return [_ZOO[name] for name in names if name in _ZOO]


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
    # Commas may be part of a path: only what follows the last of them, and is an option, counts.
    options: dict[str, Any] = {}
    while match := re.search(rf",\s*({'|'.join(_FILE_OPTIONS)})\s*=\s*([^,=]*)$", text):
        text = text[: match.start()].rstrip()
        option = match[1]
        value = match[2]
        if option in options:
            raise TopologyError(f"the option {option!r} is given twice")
        options[option] = _count(value, option, None) if option == "boxes" else value
    paths = [path.strip() for path in text.split(_JOIN)]
    # A known name goes before a file: one that is called ring must not hide the ring.
    are_files = all(
        path.endswith(FILE_SUFFIXES)
        or path.startswith(_PATHS)
        or (_name(path) not in _ZOO and Path(path).is_file())
        for path in paths
    )
    return (paths, options) if are_files else None


def _name(text: str) -> str:
    # Underscores as in Python are as good as hyphens.
    return re.split("[@,:]", text)[0].strip().lower().replace("_", "-")


def _parse_one(text: str) -> Topology:
    name = _name(text)
    if name not in _ZOO:
        raise _unknown(name)
    entry = _ZOO[name]
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
        described = [e.name for e in _ZOO.values() if name in e.description.lower()]
    near = described[:3] or get_close_matches(name, _ZOO, n=3)
    if near:
        return TopologyError(f"there is no {name!r}; did you mean {' or '.join(map(repr, near))}?")
    return TopologyError(f"there is no {name!r}; known are {', '.join(_ZOO)}, and files")


def _read_arguments(entry: ZooEntry, text: str, keywords: Mapping[str, Any]) -> list[Any]:
    """What is after the colon, numbers or the name of a slice; `keywords` may give some of them by name."""
    if entry.arguments == _SLICE:
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
        npus *= _MOST_IN_A_BOX
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
        name, _, value = (word.strip() for word in text.partition("="))
        if name not in known:
            its = f"its options are {', '.join(known)}" if known else "it has none"
            raise TopologyError(f"{entry.name} has no option {name!r}; {its}")
        if name in keywords:
            raise TopologyError(f"the option {name!r} is given twice")
        keywords[name] = _read_option(parameters[name], value)
    return keywords


def _read_option(parameter: inspect.Parameter, text: str) -> Any:
    """The value of an option, or several values for the dimensions or levels of the network."""
    default = _usual(parameter)
    # What is None by default is left to the network; its annotation tells what it is.
    annotation = str(parameter.annotation)
    is_quantity = default is None and any(word in annotation for word in ("Bandwidth", "Time"))
    kind = type(default)
    if "bool" in annotation:
        kind = bool
    elif is_quantity:
        kind = str
    read = _READERS.get(kind, _count)
    # The "/s" of a bandwidth parts nothing.
    values = [read(one, parameter.name, default) for one in re.split(r"/(?!s(?:/|$))", text)]
    if len(values) > 1 and "Sequence" not in annotation:
        raise TopologyError(f"{parameter.name} is one value, not {len(values)}: {text!r}")
    return values if len(values) > 1 else values[0]


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
    several = dimensions if entry.speeds == _EACH_DIMENSION else len(entry.speeds)
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
    if value not in ("", "yes", "no"):
        raise TopologyError(f"{name} is yes or no, not {value!r}")
    return value != "no"


def _count(value: str, name: str, _: object) -> int:
    if not _positive(value):
        what = "a positive number of chunks" if name == "buffer" else "a positive number"
        raise TopologyError(f"{name} is {what}, not {value!r}")
    return _positive(value)


def _quantity(value: str, name: str, default: object) -> str:
    if not value:
        raise TopologyError(f"{name} needs a value, such as {name}={default}")
    return value


# How the values of options are read, by the type of their defaults; all others are numbers.
_READERS: Mapping[type, Callable[[str, str, object], Any]] = {bool: _yes_no, str: _quantity}
# What the words after an @ are, in order.
_SPEEDS = ("bandwidth", "latency", "gap")
_EVERY_LINK = ("every link",)
_EACH_DIMENSION = ("each dimension",)
_BOXES = "[boxes]"
_MOST_IN_A_BOX = 72
_SLICE = "SLICE"
_TPU = "bandwidth: Google's data sheets; latency: our assumption"
_AS_H100 = "latency: as h100; gap: ConnectX-6"
_EFA = "latency of EFA: our assumption; gap: ConnectX-6"
_TRN2 = "bandwidth: AWS Neuron, Trn2 architecture; latency: our assumption"
_AMD = "latency: RCCL's tuning, of NICs our assumption; gap: ConnectX-6"

# fmt: off
_ZOO = {entry.name: entry for entry in (
    ZooEntry("line", "N", "NPUs in a row", "line:4", _EVERY_LINK, generators.line),
    ZooEntry("ring", "N", "NPUs in a circle", "ring:8,unidirectional", _EVERY_LINK, generators.ring),
    ZooEntry("fully-connected", "N", "every pair of NPUs joined", "fully-connected:8",
             _EVERY_LINK, generators.fully_connected),
    ZooEntry("switch", "N", "NPUs around one switch", "switch:8,multicast=yes,reduce=yes",
             _EVERY_LINK, generators.switch),
    ZooEntry("mesh", "AxBx...", "a product of lines", "mesh:8x8", _EACH_DIMENSION, generators.mesh),
    ZooEntry("torus", "AxBx...", "a product of rings", "torus:8x8x8@50GB/s,500ns",
             _EACH_DIMENSION, generators.torus),
    ZooEntry("grid", "AxBx...", "a product of lines and rings", "grid:4x8,wrap=yes/no",
             _EACH_DIMENSION, generators.grid),
    ZooEntry("hypercube", "D", "2**D NPUs, joined where one bit differs", "hypercube:6",
             _EVERY_LINK, generators.hypercube),
    ZooEntry("switch2d", "NPUSxNODES", "nodes around a switch, and rail switches between nodes",
             "switch2d:8x4@400GB/s,500ns@50GB/s,2us", ("inside a node", "between nodes"), generators.switch_2d),
    ZooEntry("leaf-spine", "LEAVESxNPUSxSPINES", "a two-level tree with NPUS on each leaf",
             "leaf-spine:4x8x2@50GB/s@200GB/s", ("NPU to leaf", "leaf to spine"), generators.leaf_spine),
    ZooEntry("fat-tree", "K", "the three-level tree of K-port switches, K**3/4 NPUs", "fat-tree:4",
             _EVERY_LINK, generators.fat_tree),
    ZooEntry("dragonfly", "GROUPSxROUTERSxNPUS", "fully connected groups of routers with NPUS on each router",
             "dragonfly:5x4x2", ("NPU to router", "inside a group", "between groups"), generators.dragonfly),
    ZooEntry("dgx1", _BOXES, "DGX-1: 8 V100 in a hybrid cube mesh of NVLinks", "dgx1", (), nvidia.dgx1,
             "TE-CCL; gap: ConnectX-4; several boxes: our assumption"),
    ZooEntry("ndv2", _BOXES, "Azure NDv2: DGX-1 like boxes with one NIC", "ndv2:2", (), nvidia.ndv2,
             "TE-CCL; gap: ConnectX-4"),
    ZooEntry("dgx2", _BOXES, "DGX-2: 16 V100 on an NVSwitch", "dgx2:2", (), nvidia.dgx2,
             "TE-CCL; gap: ConnectX-4; three boxes and more: our assumption"),
    ZooEntry("a100", _BOXES, "DGX A100: 8 NPUs on an NVSwitch", "a100:2,nic=50GB/s", (), nvidia.dgx_a100,
             "bandwidth: ForestColl; latency: NCCL's tuning; gap: ConnectX-6"),
    ZooEntry("h100", _BOXES, "HGX H100: 8 NPUs on an NVSwitch, 8 rails", "h100:4,nvls=yes", (), nvidia.hgx_h100,
             "NVSwitch: ASTRA-sim; latency of NICs: our assumption; gap: ConnectX-6"),
    ZooEntry("h200", _BOXES, "HGX H200: 8 NPUs on an NVSwitch, 8 rails", "h200:4", (), nvidia.hgx_h200,
             f"bandwidth: NVIDIA H200 data sheet; {_AS_H100}"),
    ZooEntry("b200", _BOXES, "HGX B200: 8 NPUs on an NVSwitch, 8 rails", "b200:4", (), nvidia.hgx_b200,
             f"bandwidth: NVIDIA DGX B200 data sheet; {_AS_H100}"),
    ZooEntry("gb200", "[racks]", "GB200 NVL72: racks of 72 NPUs on an NVSwitch", "gb200:2", (), nvidia.gb200_nvl72,
             f"bandwidth: NVIDIA GB200 NVL72 data sheet; {_AS_H100}"),
    ZooEntry("gb300", "[racks]", "GB300 NVL72: racks of 72 NPUs on an NVSwitch", "gb300:2", (), nvidia.gb300_nvl72,
             f"bandwidth: NVIDIA GB300 NVL72 data sheet; {_AS_H100}"),
    ZooEntry("spark", _BOXES, "DGX Spark: a ring of boxes with one NPU each", "spark:3", (), nvidia.dgx_spark,
             "bandwidth: NVIDIA DGX Spark data sheet; latency: our assumption; gap: ConnectX-6"),
    ZooEntry("p4d", _BOXES, "AWS p4d.24xlarge: 8 A100 on an NVSwitch, 4 NICs", "p4d:2", (), clouds.aws_p4d,
             f"NICs: EC2 user guide, aws-ofi-nccl; rest as a100; {_EFA}"),
    ZooEntry("p5", _BOXES, "AWS p5.48xlarge: 8 H100 on an NVSwitch, 32 NICs", "p5:2", (), clouds.aws_p5,
             f"bandwidth: NVIDIA H100 data sheet, EC2 user guide; {_EFA}"),
    ZooEntry("p5e", _BOXES, "AWS p5e.48xlarge: 8 H200 on an NVSwitch, 32 NICs", "p5e:2", (), clouds.aws_p5e,
             f"bandwidth: NVIDIA H200 data sheet, EC2 user guide; {_EFA}"),
    ZooEntry("ndv4", _BOXES, "Azure ND A100 v4: 8 A100 on an NVSwitch, 8 NICs", "ndv4:2", (), clouds.azure_ndv4,
             "NICs: Azure ND A100 v4 series; rest as a100"),
    ZooEntry("ndv5", _BOXES, "Azure ND H100 v5: 8 H100 on an NVSwitch, 8 NICs", "ndv5:2", (), clouds.azure_ndv5,
             f"bandwidth: NVIDIA H100 data sheet, Azure ND H100 v5 series; {_AS_H100}"),
    ZooEntry("trn2", _BOXES, "AWS trn2.48xlarge: 16 Trainium2 in a 4x4 torus", "trn2:2", (), clouds.aws_trn2, _TRN2),
    ZooEntry("trn2u", _BOXES, "Trn2 UltraServer: 64 Trainium2 in a 4x4x4 torus", "trn2u", (),
             clouds.aws_trn2_ultraserver, _TRN2),
    ZooEntry("mi250", _BOXES, "8 MI250: 16 dies joined by xGMI", "mi250:2", (), amd.mi250,
             "bandwidth: ForestColl; latency: RCCL's and NCCL's tuning; gap: ConnectX-6"),
    ZooEntry("mi300x", _BOXES, "8 MI300X: every pair joined by xGMI, 8 rails", "mi300x:2", (), amd.mi300x,
             f"bandwidth: AMD MI300X data sheet; {_AMD}"),
    ZooEntry("mi355x", _BOXES, "8 MI355X: every pair joined by xGMI, 8 rails", "mi355x:2", (), amd.mi355x,
             f"bandwidth: AMD MI355X data sheet; {_AMD}"),
    ZooEntry("tpu", _SLICE, "a slice of TPUs by its name", "tpu:v5p-128", (), google.tpu, _TPU),
    ZooEntry("tpu-v4", "AxBxC", "TPU v4: a 3D torus", "tpu-v4:4x4x4", (), google.tpu_v4, _TPU),
    ZooEntry("tpu-v5e", "AxB", "TPU v5e: a 2D torus", "tpu-v5e:16x16", (), google.tpu_v5e, _TPU),
    ZooEntry("tpu-v5p", "AxBxC", "TPU v5p: a 3D torus", "tpu-v5p:4x4x8", (), google.tpu_v5p, _TPU),
    ZooEntry("tpu-v6e", "AxB", "TPU v6e (Trillium): a 2D torus", "tpu-v6e:16x16", (), google.tpu_v6e, _TPU),
    ZooEntry("tpu7x", "AxBxC", "TPU7x (Ironwood): a 3D torus", "tpu7x:4x4x8", (), google.tpu7x, _TPU),
)}
# fmt: on
