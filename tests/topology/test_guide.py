"""The user guide says what is true."""

from __future__ import annotations

import doctest
import inspect
import re
from pathlib import Path

import pytest

from pccl.topology import load, parse_topology, zoo

GUIDE = Path(__file__).parents[2] / "docs" / "topologies.md"
TEXT = GUIDE.read_text(encoding="utf-8")


def test_the_python_of_the_guide():
    code = re.sub(r"^```.*$", "", TEXT, flags=re.MULTILINE)
    example = doctest.DocTestParser().get_doctest(code, {}, GUIDE.name, str(GUIDE), 0)
    output: list[str] = []
    assert doctest.DocTestRunner().run(example, out=output.append).failed == 0, "".join(output)
    assert len(example.examples) > 20


@pytest.mark.parametrize(
    ("language", "suffix", "number", "counts"),
    [
        ("yaml", ".yaml", 0, (4, 1, 12)),
        ("yaml", ".yaml", 1, (64, 32, 448)),
        ("text", ".txt", 0, (2, 1, 3)),
    ],
)
def test_the_files_of_the_guide(tmp_path, language, suffix, number, counts):
    path = tmp_path / f"guide{suffix}"
    path.write_text(
        re.findall(rf"^```{language}\n(.*?)^```", TEXT, flags=re.MULTILINE | re.DOTALL)[number]
    )
    network = load(path)
    assert (network.num_npus, len(network.switches), network.num_links) == counts


def test_the_zoo_of_the_guide():
    rows = re.findall(
        r"^\| (`.*?`) \|.*\|$", TEXT.partition("## One line of text")[0], flags=re.MULTILINE
    )
    texts = [text for row in rows for text in re.findall("`(.*?)`", row)]
    for text in texts:
        assert parse_topology(text).num_npus
    assert {text.partition(":")[0] for text in texts} == {entry.name for entry in zoo()}


def test_the_figures_of_the_guide_are_those_of_the_machines():
    """A row for every kind of link of every machine, with its bandwidth, latency and gap."""
    rows = re.findall(r"^\| ([\w-]+) \| (\w+) \| (\d.*?) \| (.*?) \| (.*?) \| ", TEXT, re.MULTILINE)
    # A slice by its name has the figures of its generation.
    machines = {e.name: e for e in zoo() if e.source and e.arguments != "SLICE"}
    assert {row[0] for row in rows} == set(machines)
    for machine, entry in machines.items():
        parameters = inspect.signature(entry.build).parameters.values()
        usual = {p.name: p.default for p in parameters if isinstance(p.default, str)}
        told = {}
        for name, link, *figures in rows:
            if name == machine:
                told |= zip((link, f"{link}_latency", f"{link}_gap"), figures, strict=True)
        assert told == usual
