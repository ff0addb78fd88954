"""The pages on the command line and the spec file show what really happens."""

from __future__ import annotations

import doctest
import re
import shlex
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

import pccl
from pccl.cli import main
from pccl.spec import load_spec
from tests.end_to_end.program import EXAMPLES

DOCS = Path(__file__).parents[2] / "docs"
PAGES = {
    name: (DOCS / f"{name}.md").read_text(encoding="utf-8") for name in ("cli", "export", "spec")
}


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder with the examples, and the wrong files that the pages mention."""
    monkeypatch.chdir(tmp_path)
    Path("examples").symlink_to(EXAMPLES)
    Path("wrong.yaml").write_text("topology: ring:4\ncollectives: [{kind: all-gather, sise: 4MiB}]")
    good = pccl.synthesize(pccl.topology.ring(4), pccl.AllGather("4MiB"))
    t = good.transfers
    pccl.Algorithm.build(
        good.topology, good.collectives, t.chunk, t.link, np.zeros_like(t.start)
    ).save("wrong.pccl")
    return tmp_path


def blocks(page: str, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", PAGES[page], flags=re.MULTILINE | re.DOTALL)


def commands(page: str) -> list[tuple[str, str]]:
    """Every command of a page with the output that the page shows."""
    parts = [
        part
        for block in blocks(page, "console")
        for part in re.split(r"^\$ pccl ", block, flags=re.MULTILINE)
    ]
    return [
        (command, output) for command, _, output in (part.partition("\n") for part in parts if part)
    ]


def masked(text: str) -> str:
    """The text without what a better synthesis, or another offence found first, would change."""
    text = re.sub(r"(found by +|\"method\": ).*", r"\1", text)
    text = re.sub(r"(transfer \d+) .*", r"\1", text)
    text = re.sub(r"^ +[\d.]+ .*(keeps|adds)\n", "", text, flags=re.MULTILINE)
    return re.sub(r" +", " ", re.sub(r"\d[\d.,]*", "N", text))


@pytest.mark.parametrize("page", PAGES)
def test_the_commands_of_the_pages(folder, page):
    for command, expected in commands(page):
        output = CliRunner().invoke(main, shlex.split(command), prog_name="pccl").output
        assert masked(output) == masked(expected), command


def test_the_python_of_the_page_on_specs(folder):
    example = doctest.DocTestParser().get_doctest(
        re.sub(r"^```.*$", "", PAGES["spec"], flags=re.MULTILINE), {}, "spec.md", "spec.md", 0
    )
    output: list[str] = []
    assert doctest.DocTestRunner().run(example, out=output.append).failed == 0, "".join(output)
    assert len(example.examples) == 5


def test_the_files_of_the_page_on_specs(folder):
    mix, parallelism, custom = blocks("spec", "yaml")
    assert mix == (EXAMPLES / "mix.yaml").read_text()
    assert parallelism == (EXAMPLES / "parallelism.yaml").read_text()
    Path("custom.yaml").write_text(custom)
    assert len(load_spec("custom.yaml").collectives[0].pattern) == 2
