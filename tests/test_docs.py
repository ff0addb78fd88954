"""What the README and the documents show runs as shown."""

from __future__ import annotations

import re
import runpy
from pathlib import Path

import pytest
from benchmarks.readme import README, renewed

from tests.test_layers import LAYERS

ROOT = Path(__file__).parents[1]
PAGES = [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").glob("*.md"))]
ARCHITECTURE = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_python_of_the_page_runs(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(
        r"^```python\n(.*?)^```", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL
    )
    names: dict[str, object] = {}
    for block in blocks:
        if ">>>" not in block:  # those are run as doctests, page by page
            exec(compile(block, str(page), "exec"), names)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_of_the_page_lead_somewhere(page):
    for target in re.findall(r"\]\(([^)#]+)\)", page.read_text(encoding="utf-8")):
        assert target.startswith("http") or (page.parent / target).exists(), target


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_nothing_is_left_to_fill_in(page):
    assert not re.search(r"TODO|FIXME|XXX|[A-Z]+_TABLE", page.read_text(encoding="utf-8"))


def test_the_readme_shows_what_was_measured_last():
    """``python -m benchmarks.readme`` takes its tables from the pages."""
    text = README.read_text(encoding="utf-8")
    assert renewed(text) == text


def test_demo_says_what_it_found(capsys):
    runpy.run_path(str(ROOT / "examples" / "demo.py"), run_name="__main__")
    said = capsys.readouterr().out
    assert "whole mesh" in said
    assert "2,064,384 transfers" in said
    assert "checked: 0 wrong" in said


def find_source(name: str) -> Path:
    """The file that the page on the architecture calls by this name."""
    places = [ROOT / "src" / "pccl" / name, ROOT / name]
    found = [place for place in places if place.is_file()]
    assert found, f"there is no {name}"
    return found[0]


def test_files_that_the_architecture_names_are_there():
    named = set(re.findall(r"`([\w/]+\.(?:py|toml|md))`", ARCHITECTURE))
    assert len(named) > 40
    for name in named:
        find_source(name)


def test_registries_that_the_architecture_names_are_where_it_says():
    registries = re.findall(r"`(\w+)` in `([\w/]+\.py)` \|$", ARCHITECTURE, flags=re.MULTILINE)
    assert len(registries) == 16
    for registry, name in registries:
        defined = rf"^(?:    def |class )?{registry}\b(?::|\(| = |$)"
        assert re.search(defined, find_source(name).read_text(), flags=re.MULTILINE), registry


def test_the_picture_of_the_architecture_shows_the_layers_that_are_tested():
    picture = ARCHITECTURE.partition("## The picture")[2].partition("Why in that order")[0]
    shown = re.findall(r"^    [\w ]{17}([\w·]+) {2,}", picture, flags=re.MULTILINE)
    assert shown[0] == "errors"
    assert [set(names.split("·")) for names in shown[1:]] == LAYERS[3:]
