"""The figures of the paper: each can be made, and the page shows what they found."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from benchmarks.paper import MODULES, module, page
from benchmarks.paper.__main__ import main
from benchmarks.paper.setting import (
    all_to_all,
    direct,
    mesh,
    mesh_row,
    method,
    microseconds,
    spread_rows,
)

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGE = (DOCS / "paper.md").read_text(encoding="utf-8")

TINY = {
    "synthesis_time": {"shapes": ((3, 3), (4, 4, 4), (5, 5, 5))},
    "collective_size": {"chunks": (1,)},
    "switch_2d": {"nodes": (2,)},
    "mesh_all_to_all": {"widths": (3,)},
    "worked_example": {},
    "group_bandwidth": {"together": ((3, 1),), "apart": ((4, 1),)},
    "heat_map": {"width": 3},
    "utilization": {"width": 4, "size": 2**20},
    "group_count": {"counts": (8,), "chunks": 1},
}
STATED = (
    "11.68 min",
    "2.01 h",
    "1.83 min",
    "1.33x",
    "2.33-3.03x",
    "2.68x",
    "2.8x",
    "1.88x",
    "3.05x",
    "O(n^3)",
    "4,404",
)


@pytest.mark.parametrize("name", MODULES)
def test_each_is_run_drawn_and_shown(name, tmp_path):
    found = module(name)
    rows = found.run(**TINY[name])
    found.draw(rows, tmp_path / f"{name}.svg")
    assert "<svg" in (tmp_path / f"{name}.svg").read_text(encoding="utf-8")
    page.write(tmp_path / "paper.md", {name: (found, rows)})
    text = (tmp_path / "paper.md").read_text(encoding="utf-8")
    assert f"\n## {found.TITLE}\n" in text
    assert f"images/paper/{name}.svg" in text
    assert page.machine() in text
    for claim in found.claims(rows):
        assert f"| {claim.what} | {claim.paper} | {claim.method} | {claim.search} |" in text
        assert claim.why in text
    assert not re.search(r"[{}]|\bnan\b|\binf\b", text)


def test_figures_are_the_same_every_time(tmp_path):
    found = module("heat_map")
    for file in ("first.svg", "second.svg"):
        found.draw(found.run(**TINY["heat_map"]), tmp_path / file)
    assert (tmp_path / "first.svg").read_bytes() == (tmp_path / "second.svg").read_bytes()


def test_names_are_checked_before_any_work(monkeypatch, capsys):
    monkeypatch.setattr("sys.argv", ["benchmarks.paper", "pie"])
    with pytest.raises(SystemExit):
        main()
    assert "there is no figure 'pie'; there are synthesis_time" in capsys.readouterr().err


@pytest.mark.parametrize("number", STATED)
def test_committed_page_names_the_number_of_the_paper(number):
    glance = PAGE.split("## At a glance")[1].split("\n## ")[0]
    assert re.search(rf"(\| |/ ){re.escape(number)} ", glance)


@pytest.mark.parametrize("name", MODULES)
def test_committed_page_has_what_is_made_now(name):
    found = module(name)
    assert f"\n## {found.TITLE}\n" in PAGE
    assert found.CHOICES.split("{")[0] in PAGE
    assert (DOCS / "images" / "paper" / f"{name}.svg").stat().st_size < 200_000


def test_committed_page_begins_as_it_would_now():
    before, after = page.HEAD.split("{machine}")
    assert PAGE.startswith(before)
    assert after in PAGE


@pytest.mark.parametrize(
    ("what", "width", "groups", "chunks"),
    [
        ("one group", 8, [mesh_row(8, 0)], 16),
        ("two groups over Direct", 6, spread_rows(6, 2), 16),
        ("32 of 64 NPUs, over Direct", 8, [range(0, 64, 2)], 4),
    ],
)
def test_committed_page_says_how_much_faster_the_method_is(what, width, groups, chunks):
    network, collectives = mesh(width, width), [all_to_all(list(group), chunks) for group in groups]
    faster = microseconds(direct(network, *collectives)) / microseconds(
        method(network, *collectives)
    )
    stated, here = re.search(rf"\| {what} \| ([\d.]+)x \| ([\d.]+)x \|", PAGE).groups()
    assert f"{faster:.2f}" == here
    assert faster == pytest.approx(float(stated), rel=0.01)
