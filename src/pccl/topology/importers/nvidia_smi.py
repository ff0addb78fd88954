"""``nvidia-smi topo -m``: how GPUs and NICs of a box are joined, without any speed."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from pccl.topology.importers.assembly import NVSWITCH
from pccl.topology.importers.hardware import GB, GPUS, SMP, Gpu, gpu_named_in
from pccl.topology.importers.model import Box, Hints, Part, Source, Wire
from pccl.topology.importers.pcie import BRIDGE, CPU, GPU, NIC, Spot, add_tree

_COLOURS = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
_HEADER = re.compile(r"^\s*(?:GPU[0-9]+\s+)+(?:\S+\s+)*?CPU Affinity|^\s*GPU0\s+GPU1\b")
_PROMPT = re.compile(r"@([\w.-]+)[: ].*nvidia-smi")
# Of pdsh, clush and srun -l: every line begins with its host.
_PREFIX = re.compile(r"^([\w.-]+):\s(?=.*(?:GPU[0-9]|\bX\b|NIC[0-9]|mlx))")
# At most how much of a PCIe hierarchy lies between two devices.
_SAME_SWITCH = ("PIX", "PXB")
_SAME_CPU = ("PHB", "NODE")
_OTHER_CPU = ("SYS", "SOC", "N/A", "X")
_MOST_DEVICES = 256


def recognises(text: str) -> bool:
    """Whether it is the output of that command."""
    plain = _COLOURS.sub("", text)
    return (
        re.search(
            r"^(?:[\w.-]+:\s)?\s*GPU[0-9]+\s+(?:X|NV[0-9]+|PIX|PXB|PHB|NODE|SYS|SOC)\b", plain, re.M
        )
        is not None
    )


@dataclass
class _Matrix:
    """One table, and what else is said of its box."""

    host: str
    line: int
    columns: list[str]
    cells: dict[tuple[str, str], str] = field(default_factory=dict)
    affinity: dict[str, str] = field(default_factory=dict)
    names: dict[str, str] = field(default_factory=dict)

    @property
    def gpus(self) -> list[str]:
        return [name for name in self.columns if name.startswith("GPU")]

    @property
    def nics(self) -> list[str]:
        return [name for name in self.columns if not name.startswith("GPU")]

    def between(self, a: str, b: str) -> str:
        """How two devices are joined; rows may be cut off, but the table is symmetric."""
        return self.cells.get((a, b)) or self.cells.get((b, a), "")


def read(source: Source, hints: Hints) -> Part:
    """Read one table, or those of several boxes below each other."""
    part = Part()
    for matrix in _matrices(source):
        part.boxes.append(_box(matrix, source, hints, part))
    return part


def _matrices(source: Source) -> list[_Matrix]:
    found: list[_Matrix] = []
    host = ""
    for number, raw in enumerate(source.lines, start=1):
        line = _COLOURS.sub("", raw).replace("\ufeff", "").rstrip()
        prompt = _PROMPT.search(line)
        prefix = _PREFIX.match(line)
        if prompt:
            host = prompt[1].split(".")[0]
            continue
        if prefix:
            host = prefix[1]
            line = line[prefix.end() :]
        if _HEADER.search(line):
            columns = line.split("CPU")[0].split()
            if len(columns) > _MOST_DEVICES or len(set(columns)) < len(columns):
                raise source.error("a header that names a device twice, or too many", number)
            found.append(_Matrix(host, number, columns))
            host = ""
            continue
        if "CPU Affinity" in line:
            raise source.error(
                "the end of a header on a line of its own: a terminal has broken the lines; "
                "write the table to a file (nvidia-smi topo -m > node.txt)",
                number,
            )
        words = line.split()
        if found and words and words[0] in found[-1].columns:
            _add_row(found[-1], words, source, number)
        elif found and len(words) == 2 and words[0].removesuffix(":") in found[-1].columns:
            found[-1].names[words[0].removesuffix(":")] = words[1]
    if not found:
        raise source.error("no line that begins the table: GPU0 GPU1 … CPU Affinity", 1)
    for i, matrix in enumerate(found):
        stem = source.path.stem
        matrix.host = matrix.host or (stem if len(found) == 1 else f"{stem}{i}")
    return found


def _add_row(matrix: _Matrix, words: list[str], source: Source, line: int) -> None:
    row = words[0]
    if (row, matrix.columns[0]) in matrix.cells:
        raise source.error(f"a second row for {row}", line)
    for column, word in zip(matrix.columns, words[1:], strict=False):
        if not (
            re.fullmatch(r"NV[0-9]{1,3}", word) or word in _SAME_SWITCH + _SAME_CPU + _OTHER_CPU
        ):
            raise source.error(
                f"{word!r} between {row} and {column} is no connection of this table", line
            )
        matrix.cells[row, column] = word
    rest = words[1 + len(matrix.columns) :]
    if rest and re.match(r"[0-9]", rest[0]):
        matrix.affinity[row] = rest[0]


def _settle(matrix: _Matrix, part: Part) -> None:
    """Where a table contradicts itself, as with a link that only one end takes for active, the worse counts."""
    for (a, b), there in list(matrix.cells.items()):
        back = matrix.cells.get((b, a), there)
        if back != there:
            worse = max(there, back, key=_distance)
            matrix.cells[a, b] = worse
            matrix.cells[b, a] = worse
            part.assume(
                f"{a} and {b} are {worse}: the table has {there} one way and {back} the other"
            )


def _distance(how: str) -> tuple[int, int]:
    """A number that is larger the farther apart two devices are; of NVLinks, the fewer they are."""
    if how.startswith("NV"):
        return 0, -int(how[2:])
    return 1, (_SAME_SWITCH + _SAME_CPU + _OTHER_CPU).index(how)


def _box(matrix: _Matrix, source: Source, hints: Hints, part: Part) -> Box:
    _settle(matrix, part)
    gpus = matrix.gpus
    links: dict[str, dict[str, int]] = {a: {} for a in gpus}
    for i, a in enumerate(gpus):
        for b in gpus[i + 1 :]:
            how = matrix.between(a, b)
            if not how:
                raise source.error(
                    f"nothing is said of {a} and {b}: the table is cut off", matrix.line
                )
            if how.startswith("NV"):
                links[a][b] = links[b][a] = int(how[2:])
    named = gpu_named_in(source.text)
    gpu = hints.gpu or named or _model(links, source, part, matrix.line)
    if named and not hints.gpu:
        part.found.append(f"the file names {named.title}")
        part.assume(f"links as on the data sheet ({named.source})")
    box = Box(matrix.host, [name.lower() for name in gpus])
    part.found.append(f"{len(gpus)} GPUs of {matrix.host}, {_links_text(links)}")
    if hints.gpu:
        part.assume(f"the GPUs are {gpu.title}, as gpu={gpu.name} says ({gpu.source})")
    _add_links(box, links, gpu, part)
    nic = hints.nic or gpu.nic
    add_tree(box, _tree(matrix, gpu, nic), SMP, part)
    if box.nics and hints.nic is None:
        part.assume(f"NICs of {nic / GB:g}GB/s, as usual with {gpu.title}; nic=... says otherwise")
    if box.nics:
        part.found.append(
            f"NICs near GPUs: {', '.join(f'{nic.name} at {nic.at}' for nic in box.nics)}"
        )
    return box


def _links_text(links: dict[str, dict[str, int]]) -> str:
    counts = sorted({count for row in links.values() for count in row.values()})
    if not counts:
        return "no NVLink"
    return " and ".join(f"NV{count}" for count in counts)


def _model(links: dict[str, dict[str, int]], source: Source, part: Part, line: int) -> Gpu:
    """The GPU that has so many NVLinks; all that matters here is how fast one of them is."""
    most = max((count for row in links.values() for count in row.values()), default=0)
    if not most:
        raise source.error(
            "no NVLink, and nothing tells how fast PCIe is; say which GPUs these are, for example --gpu l40s",
            line,
        )
    together = max(sum(row.values()) for row in links.values())
    pairs = max(len(row) for row in links.values()) == 1
    if most == 4 and pairs:
        name = "a40"
    elif most in (18, 12, 8):
        name = {18: "h100", 12: "a100", 8: "h800"}[most]
    elif most == 6 and len(links) > 4:
        name = "v100"
    else:
        name = "v100" if together <= 6 else "a100" if together <= 12 else "h100"
    gpu = GPUS[name]
    also = "; B200, GB200 and B300 have as many, but twice as fast: gpu=b200" if most == 18 else ""
    title = "H100 or H200" if name == "h100" else gpu.title
    part.assume(f"{title}, by the number of NVLinks{also} ({gpu.source})")
    return gpu


def _add_links(box: Box, links: dict[str, dict[str, int]], gpu: Gpu, part: Part) -> None:
    together = max(sum(row.values()) for row in links.values())
    # More than a GPU has: they all lead to a switch, and the table shows the same ones again and again.
    if together > max(gpu.links, max(max(row.values(), default=0) for row in links.values())):
        box.switches.append(NVSWITCH)
        for name, row in links.items():
            if row:
                speed = max(row.values()) * gpu.link
                box.wires.append(Wire(name.lower(), NVSWITCH, speed, gpu.latency))
        part.assume("NVLinks lead to an NVSwitch, as they are more than a GPU has")
        return
    for a, row in links.items():
        for b, count in row.items():
            if a < b:
                box.wires.append(Wire(a.lower(), b.lower(), count * gpu.link, gpu.latency))


def _tree(matrix: _Matrix, gpu: Gpu, nic: int) -> list[Spot]:
    """CPUs, PCIe switches and what hangs on them, from how near devices are to each other."""
    names = matrix.columns
    switch_of = {name: name for name in names}
    cpu_of = {name: name for name in names}
    for i, a in enumerate(names):
        for b in names[i + 1 :]:
            how = matrix.between(a, b)
            same_affinity = a in matrix.affinity and matrix.affinity[a] == matrix.affinity.get(b)
            if how in _SAME_SWITCH:
                _unite(switch_of, a, b)
            if how in _SAME_SWITCH + _SAME_CPU or same_affinity:
                _unite(cpu_of, a, b)
    cpus: dict[str, Spot] = {}
    switches: dict[str, Spot] = {}
    for name in names:
        cpu = cpus.setdefault(cpu_of[name], Spot(CPU, f"cpu{len(cpus)}", 0))
        switch = switches.get(switch_of[name])
        if switch is None:
            switch = Spot(BRIDGE, f"pcie{len(switches)}", gpu.pcie)
            switches[switch_of[name]] = switch
            cpu.children.append(switch)
        if name in matrix.gpus:
            switch.children.append(Spot(GPU, name.lower(), gpu.pcie))
        else:
            switch.children.append(Spot(NIC, matrix.names.get(name, name.lower()), nic))
    return list(cpus.values())


def _unite(groups: dict[str, str], a: str, b: str) -> None:
    keep = groups[a]
    gone = groups[b]
    for name, group in groups.items():
        if group == gone:
            groups[name] = keep
