"""SLURM's ``topology.conf``, and the models of topograph: trees of switches with hosts below, without any speed."""

from __future__ import annotations

import re
from collections.abc import Iterator

from pccl.topology.importers.model import Fabric, Hints, Part, Port, Source, Wire
from pccl.units import counted

# Accounts for typing errors such as n[1-1000000000].
_MOST_HOSTS = 20_000
_MOST_SWITCHES = 20_000
_MOST_LEVELS = 32
_CORE = "core"


def recognises(text: str) -> bool:
    """Whether it is such a file."""
    return re.search(r"^\s*(?:SwitchName|BlockName)\s*=", text, re.M | re.I) is not None


def read(source: Source, hints: Hints) -> Part:
    """Read switches, or blocks, which are NVLink domains."""
    tree = Tree(source, hints)
    begun = ""
    for number, raw in enumerate(source.lines, start=1):
        line = begun + raw.partition("#")[0].strip()
        # A line that ends so goes on in the next.
        begun = line.removesuffix("\\") if line.endswith("\\") else ""
        if begun or not line:
            continue
        fields = dict(re.findall(r"(\w+)\s*=\s*(\S+)", line))
        keys = {key.lower(): value for key, value in fields.items()}
        if "switchname" in keys:
            for name in hostlist(keys["switchname"], source, number):
                tree.add(
                    name,
                    list(hostlist(keys.get("switches", ""), source, number)),
                    list(hostlist(keys.get("nodes", ""), source, number)),
                    number,
                )
        elif "blockname" in keys:
            nodes = list(hostlist(keys.get("nodes", ""), source, number))
            tree.add(keys["blockname"], [], nodes, number, domain=keys["blockname"])
        elif not keys or "blocksizes" not in keys:
            raise source.error(f"{line[:40]!r} is neither SwitchName=… nor BlockName=…", number)
    return tree.part()


class Tree:
    """Switches and hosts on their way into a fabric."""

    def __init__(self, source: Source, hints: Hints) -> None:
        if hints.gpu is None and hints.nic is None:
            raise source.error(
                "the file has no speeds: say what the hosts are, for example --gpu h100, "
                "or how fast their NICs are, --nic 50GB/s"
            )
        self.source = source
        self.hints = hints
        self.fabric = Fabric()
        self.known: set[str] = set()
        self.switch_of: dict[str, str] = {}
        self.above: dict[str, str] = {}
        self.twice: list[str] = []

    def add(
        self,
        name: str,
        switches: list[str],
        hosts: list[str],
        line: int | None = None,
        domain: str = "",
    ) -> None:
        """Add a switch, with the switches and hosts below it."""
        self._know(name)
        for other in switches:
            if other == name or other in self.above:
                where = "itself" if other == name else f"{self.above[other]} already"
                raise self.source.error(f"switch {other} is below {where}", line)
            self._know(other)
            self.above[other] = name
            self.fabric.wires.append(Wire(other, name, 0))
        if len(self.fabric.ports) + len(hosts) > _MOST_HOSTS or len(self.known) > _MOST_SWITCHES:
            raise self.source.error(
                f"more than {_MOST_HOSTS:,} hosts or {_MOST_SWITCHES:,} switches", line
            )
        for host in hosts:
            if host in self.switch_of:
                self.twice.append(host)
            self.switch_of[host] = name
            # Without gpu=, a host is one NPU, and has a speed of its own.
            speed = (
                self.hints.nic if self.hints.gpu is None else self.hints.nic or self.hints.gpu.nic
            )
            self.fabric.ports.append(Port(host, "", name, speed))
            if domain:
                self.fabric.domains[host] = domain

    def _know(self, switch: str) -> None:
        if switch not in self.known:
            self.known.add(switch)
            self.fabric.switches.append(switch)

    def part(self) -> Part:
        """The fabric, whose top switches are joined if there are several."""
        part = Part(fabric=self.fabric)
        if not self.fabric.ports:
            raise self.source.error("no host below any switch")
        for switch in self.fabric.switches:
            self._check_loop(switch)
        tops = [switch for switch in self.fabric.switches if switch not in self.above]
        hosts = len(self.switch_of)
        part.found.append(
            f"{counted(len(self.fabric.switches), 'switch')}, {counted(hosts, 'host')}"
        )
        if len(tops) > 1:
            core = _CORE
            while core in self.fabric.switches:
                core += "+"
            self.fabric.switches.append(core)
            self.fabric.wires += [Wire(top, core, 0) for top in tops]
            part.assume(
                f"a switch {core!r} above {tops[0]} to {tops[-1]}, which the file does not join"
            )
        part.assume("switches carry all that is below them: nothing blocks")
        if self.twice:
            some = ", ".join(self.twice[:3])
            part.assume(f"{some}: at two switches in the file, so joined to both")
        if self.hints.nic is not None:
            part.assume(f"NICs of {self.hints.nic / 1e9:g}GB/s, as nic=… says")
        if self.fabric.domains and (self.hints.gpu is None or self.hints.gpu.per_box > 4):
            self.fabric.domains = {}
        elif self.fabric.domains:
            part.assume("the hosts of a block share an NVSwitch")
        return part

    def _check_loop(self, switch: str) -> None:
        for _ in range(_MOST_LEVELS):
            if switch not in self.above:
                return
            switch = self.above[switch]
        raise self.source.error(
            f"switch {switch} is above itself, or below more than {_MOST_LEVELS} others"
        )


def hostlist(text: str, source: Source, line: int | None = None) -> Iterator[str]:
    """The names that a text such as ``n[001-016],srv[1,5-7]`` stands for."""
    words = re.findall(r"(?:[^,\[\]]|\[[^\[\]]*\])+", text)
    if sum(map(len, words)) + text.count(",") < len(
        text.replace("[", "").replace("]", "")
    ) or text.count("[") != text.count("]"):
        raise source.error(f"{text[:40]!r} is no list of names such as n[001-016]", line)
    count = 0
    for word in words:
        for name in _expanded(word, source, line):
            count += 1
            if count > _MOST_HOSTS:
                raise source.error(f"more than {_MOST_HOSTS:,} names in {text[:40]!r}", line)
            yield name


def _expanded(word: str, source: Source, line: int | None) -> Iterator[str]:
    head, bracket, rest = word.partition("[")
    if not bracket:
        yield word
        return
    inside, _, tail = rest.partition("]")
    for item in inside.split(","):
        first, dash, last = item.strip().partition("-")
        last = last if dash else first
        if not (first.isdecimal() and last.isdecimal() and len(last) < 10 and len(first) < 10):
            raise source.error(f"{word[:40]!r} is no list of names such as n[001-016]", line)
        for number in range(int(first), int(last) + 1):
            for end in _expanded(tail, source, line) if tail else ("",):
                yield f"{head}{number:0{len(first)}d}{end}"
