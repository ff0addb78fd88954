"""Figures: files of the right type that show what they should, also of large and odd algorithms."""

from __future__ import annotations

import dataclasses
import re
import runpy
import subprocess
import sys
from itertools import pairwise
from pathlib import Path
from xml.etree import ElementTree

import matplotlib
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings

import pccl
from pccl.errors import FormatError, PcclError
from pccl.reporting.figures import FIGURES, SUFFIXES, plot
from pccl.reporting.figures.gantt import critical_transfers
from pccl.reporting.figures.style import COLOURS, group_label, readable_on
from pccl.reporting.groups import process_groups
from pccl.reporting.layouts import arrange
from pccl.topology import Link, Switch, Topology, mesh, parse_topology
from pccl.units import time_text
from tests.end_to_end.program import pccl as program
from tests.end_to_end.program import refused, spawn
from tests.strategies import topologies

SVG = "{http://www.w3.org/2000/svg}"
BEGINNINGS = {".svg": b"<?xml", ".png": b"\x89PNG", ".pdf": b"%PDF"}


class Picture:
    """An SVG file, taken apart."""

    def __init__(self, path: Path) -> None:
        self.root = ElementTree.parse(path).getroot()

    def count(self, gid: str) -> int:
        """How many things are drawn in the group of this name."""
        groups = [g for g in self.root.iter(f"{SVG}g") if g.get("id") == gid]
        drawn = [
            e
            for g in groups
            for e in g.iter()
            if e.tag in (f"{SVG}path", f"{SVG}use") and e not in defined(g)
        ]
        return len(drawn)

    @property
    def texts(self) -> list[str]:
        return ["".join(text.itertext()).strip() for text in self.root.iter(f"{SVG}text")]


def defined(group: ElementTree.Element) -> set[ElementTree.Element]:
    return {e for d in group.iter(f"{SVG}defs") for e in d.iter()}


@pytest.fixture(scope="module")
def gathers() -> pccl.Algorithm:
    groups = pccl.device_mesh(dp=2, tp=3)["tp"]
    return pccl.synthesize(
        mesh(2, 3), *(pccl.AllGather("3MiB", group=group, chunks=1) for group in groups)
    )


@pytest.fixture
def drawn(tmp_path):
    def draw(subject, kind, **options) -> Picture:
        return Picture(plot(subject, kind, tmp_path / "figure.svg", **options))

    return draw


@pytest.mark.parametrize("kind", FIGURES)
@pytest.mark.parametrize("suffix", SUFFIXES)
def test_figures_are_files_of_the_right_type_and_always_the_same(gathers, tmp_path, kind, suffix):
    options = {"sizes": "1KiB:4KiB", "effort": "fast"} if kind == "sizes" else {}
    first, second = (
        pccl.plot(gathers, kind, tmp_path / f"{i}{suffix}", **options) for i in range(2)
    )
    assert first.read_bytes().startswith(BEGINNINGS[suffix])
    assert first.read_bytes() == second.read_bytes()
    assert b"Date" not in first.read_bytes() if suffix != ".png" else True
    assert sorted(file.name for file in tmp_path.iterdir()) == [f"0{suffix}", f"1{suffix}"]


def test_listing_figures_loads_nothing_heavy():
    code = "import sys, pccl.reporting.figures"
    code += "; assert not {'numpy', 'numba', 'matplotlib'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_settings_of_matplotlib_are_left_alone(gathers, tmp_path):
    before = dict(matplotlib.rcParams)
    pccl.plot(gathers, "heatmap", tmp_path / "a.svg")
    assert dict(matplotlib.rcParams) == before
    code = "import sys, pccl; pccl.plot(pccl.topology.ring(3), 'topology', sys.argv[1])"
    code += "; assert 'matplotlib.pyplot' not in sys.modules"
    subprocess.run([sys.executable, "-c", code, str(tmp_path / "b.svg")], check=True)


@pytest.mark.parametrize("text", ["h100:4", "torus:3x3", "fat-tree:4", "dragonfly:5x4x2", "ndv2:2"])
def test_a_topology_shows_every_device(drawn, text):
    topology = parse_topology(text)
    picture = drawn(topology, "topology")
    assert picture.count("npus") == topology.num_npus
    assert picture.count("switches") == len(topology.switches)
    # Switches have their names where there is room for them.
    assert {str(npu) for npu in topology.npus} <= set(picture.texts)
    for switch in topology.switches.tolist():
        assert {str(switch), topology.labels[switch]} & set(picture.texts)
    assert topology.name in picture.texts
    assert "NPU" in picture.texts
    assert ("switch" in picture.texts) == bool(len(topology.switches))


@pytest.mark.parametrize(
    ("text", "labels"),
    [
        ("h100:2", {"switch"}),
        ("h100:2,nvls=yes", {"switch", "switch that multiplies and adds"}),
        ("switch:4,multicast=yes", {"switch0", "switch that multiplies"}),
        ("switch:4,reduce=yes", {"switch0", "switch that adds"}),
    ],
)
def test_a_topology_shows_what_its_switches_do(drawn, text, labels):
    texts = drawn(parse_topology(text), "topology").texts
    assert {one for one in texts if one.startswith("switch") and one != text} - {
        parse_topology(text).name
    } == labels


def test_what_is_out_of_order_is_dashed_where_it_was(drawn):
    whole = parse_topology("h100:2")
    broken = whole.without(links=["8-11:rail*"], devices=["npu5"])
    picture = drawn(broken, "topology")
    # Four cables, and the two of the NPU that failed.
    assert picture.count("lost") == 6
    assert "out of order" in picture.texts
    assert "out of order" not in drawn(whole, "topology").texts
    before = arrange(whole)
    after = arrange(broken)
    assert (before.x.tolist(), before.y.tolist()) == (after.x.tolist(), after.y.tolist())
    assert len(after.rise) == broken.num_links


def test_frames_and_bandwidths_of_machines(drawn):
    texts = drawn(parse_topology("h100:4"), "topology").texts
    assert {"box 0", "box 1", "box 2", "box 3"} <= set(texts)
    assert {"400GiB/s", "50GB/s"} <= set(texts)


def test_only_links_that_lead_one_way_have_heads(drawn):
    assert drawn(pccl.topology.ring(5), "topology").count("links") == 5
    assert drawn(pccl.topology.ring(5), "topology").count("heads") == 0
    assert drawn(pccl.topology.ring(5, unidirectional=True), "topology").count("heads") == 5
    ndv2 = drawn(parse_topology("ndv2:2"), "topology")
    assert (ndv2.count("links"), ndv2.count("heads")) == (32 + 2, 2)


def test_parallel_and_unequal_links_are_drawn_one_by_one(drawn):
    links = [Link(0, 1, "1GB/s", "0ns"), Link(1, 0, "2GB/s", "0ns"), Link(1, 2, "1GB/s", "0ns"),
             Link(1, 2, "1GB/s", "0ns"), Link(2, 1, "1GB/s", "0ns")]  # fmt: skip
    picture = drawn(Topology.from_links(3, links), "topology")
    assert picture.count("links") == picture.count("heads") == 5


def test_process_groups_have_colours_and_a_legend(gathers, drawn):
    picture = drawn(gathers, "topology")
    assert {"all-gather: 0-2", "all-gather: 3-5"} <= set(picture.texts)
    assert "in no process group" not in picture.texts
    text = ElementTree.tostring(picture.root, encoding="unicode").lower()
    assert all(colour.lower() in text for colour in COLOURS[:2])


def test_an_npu_of_several_groups_has_several_colours(drawn):
    both = [pccl.AllGather("2MiB", group=(0, 1)), pccl.AllReduce("2MiB", group=(1, 2))]
    picture = drawn(pccl.synthesize(pccl.topology.line(4), *both), "topology")
    assert picture.count("npu-colours") == 1 + 2 + 1 + 1
    assert "in no process group" in picture.texts


def test_groups_of_the_same_npus_are_one():
    ring = pccl.topology.ring(4)
    several = [
        pccl.AllGather("4MiB"),
        pccl.AllReduce("4MiB", group=(3, 2, 1, 0)),
        pccl.Broadcast("4MiB", group=(0, 1)),
    ]
    groups, of_collective = process_groups(ring, several)
    assert [group_label(group) for group in groups] == [
        "all-gather, all-reduce: all NPUs",
        "broadcast: 0-1",
    ]
    assert of_collective == [0, 0, 1]


def test_a_heatmap_shows_both_directions_and_per_cent(gathers, drawn):
    picture = drawn(gathers, "heatmap")
    links = gathers.topology.num_links
    assert picture.count("links") == picture.count("heads") == links
    assert any("(%)" in text for text in picture.texts)
    share = 100 * pccl.simulate(gathers).utilization.mean()
    assert f"Link utilization: {share:.1f} % on average" in picture.texts
    assert "unused link" in picture.texts  # those between the two rows


def test_utilization_is_set_beside_baselines(gathers, drawn):
    picture = drawn(gathers, "utilization", against="ring,direct")
    assert [text.partition(":")[0] for text in picture.texts if "% busy" in text] == [
        "this algorithm",
        "ring",
        "direct",
    ]
    assert {"time (us)", "links busy (%)"} <= set(picture.texts)
    assert [picture.count(f"run-{i}") for i in range(4)] == [1, 1, 1, 0]


def test_a_timeline_has_a_bar_per_transfer(gathers, drawn):
    picture = drawn(gathers, "timeline")
    assert picture.count("transfers") == len(gathers.transfers)
    used = np.unique(gathers.transfers.link)
    assert f"When links are held: {len(used)} links in use" in picture.texts
    topology = gathers.topology
    assert {f"npu{topology.src[link]} → npu{topology.dst[link]}" for link in used} <= set(
        picture.texts
    )
    few = drawn(gathers, "timeline", links=2)
    assert f"When links are held: the 2 busiest of {len(used)} links in use" in few.texts


@pytest.fixture(scope="module")
def mixed() -> pccl.Algorithm:
    """Twelve collectives of two kinds in groups along both sides of two boxes."""
    groups = pccl.device_mesh(dp=2, tp=8)
    reduces = [pccl.AllReduce("1MiB", group, chunks=1) for group in groups["tp"]]
    gathers = [pccl.AllGather("1MiB", group, chunks=1) for group in groups["dp"]]
    return pccl.synthesize(parse_topology("h100:2"), *reduces, *gathers, effort="fast")


def test_a_gantt_has_a_bar_and_a_finish_for_each_collective(mixed, drawn):
    picture = drawn(mixed, "gantt")
    rows = pccl.each_collective(mixed)
    for number, row in enumerate(rows):
        assert picture.count(f"collective-{number}") == 1
        assert time_text(int(row.finish)) in picture.texts
    assert {"all-reduce", "all-gather", "bound, alone"} <= set(picture.texts)


def test_the_critical_path_leads_from_the_start_to_the_end(mixed, drawn):
    path = critical_transfers(mixed)
    t = mixed.transfers
    assert t.start[path[0]] == 0
    assert t.arrival[path[-1]] == int(mixed.duration)
    for before, after in pairwise(path.tolist()):
        same_link = t.link[before] == t.link[after]
        brought = t.chunk[before] == t.chunk[after] and t.dst[before] == t.src[after]
        assert same_link or brought
        assert t.start[before] < t.start[after]
    picture = drawn(mixed, "critical")
    assert picture.count("step-0") == 1
    assert any(text.startswith("npu") and "chunk" in text for text in picture.texts)


def test_many_groups_are_told_apart_by_kind_and_links_of_all_kinds_are_shown(mixed, drawn):
    texts = drawn(mixed, "timeline", links=60).texts
    assert {"all-reduce, 2 groups", "all-gather, 8 groups"} <= set(texts)
    assert any("rail" in text for text in texts)
    assert any("nvswitch" in text for text in texts)


def test_one_curve_needs_no_legend(gathers, drawn):
    assert not any(
        text.startswith("this algorithm") for text in drawn(gathers, "utilization").texts
    )
    assert any(
        text.startswith("this algorithm")
        for text in drawn(gathers, "utilization", against="ring").texts
    )


def test_a_timeline_of_many_transfers_shows_shares(drawn):
    algorithm = pccl.synthesize(mesh(5, 5), pccl.AllToAll("25MiB", chunks=4))
    count = len(algorithm.transfers)
    picture = drawn(algorithm, "timeline", links=80)
    assert picture.count("transfers") == 0
    said = f"; {count:,} transfers are too many to draw one by one"
    assert any(text.endswith(said) for text in picture.texts)
    busiest = drawn(algorithm, "timeline", links=79).texts
    assert any(f" of {count:,} transfers over these links are too many" in text for text in busiest)
    assert "link held (%)" in picture.texts


def test_the_time_expanded_network_of_the_paper(drawn):
    ring = pccl.topology.ring(
        4, unidirectional=True, exclusive=True, bandwidth="1GB/s", latency="0ns"
    )
    algorithm = pccl.synthesize(ring, pccl.AllGather("4kB", chunks=1))
    picture = drawn(algorithm, "ten")
    assert picture.count("nodes") == 4 * 4  # devices times moments
    assert picture.count("arcs") == 4 * 3  # every link at every time but the last
    assert picture.count("transfers") == 12
    assert "time (us), one step is 1.00 us" in picture.texts
    assert {"NPU 0", "chunk 0: 0 → 1,2,3", "0", "1", "2", "3"} <= set(picture.texts)


@pytest.mark.parametrize(
    ("text", "collective", "what"),
    [
        ("mesh:5x5", pccl.Broadcast("25MiB", chunks=1), "25 devices"),
        ("mesh:4x4", pccl.AllToAll("16MiB", chunks=1), "transfers"),
        ("line:3", pccl.Broadcast("16MiB", chunks=32), "moments"),
    ],
)
def test_a_large_time_expanded_network_is_refused(tmp_path, text, collective, what):
    algorithm = pccl.baseline("direct", parse_topology(text), collective)
    with pytest.raises(PcclError, match=rf"{what}.* too large to be read"):
        pccl.plot(algorithm, "ten", tmp_path / "ten.svg")
    assert not list(tmp_path.iterdir())


@settings(
    max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(topologies(absent=True))
def test_any_topology_can_be_drawn(tmp_path, topology):
    picture = Picture(plot(topology, "topology", tmp_path / "any.svg"))
    assert picture.count("npus") == topology.num_npus
    assert picture.count("switches") == len(topology.switches)


@pytest.mark.parametrize("kind", FIGURES)
def test_an_algorithm_that_does_nothing_can_be_drawn(tmp_path, kind):
    alone = Topology.from_links(1, [], [Switch("$x$\x07")], name="one $\\frac$ \x1b 孤独")
    algorithm = pccl.Algorithm.build(alone, [pccl.AllGather("1MiB", chunks=1)], [], [], [])
    assert pccl.plot(algorithm, kind, tmp_path / "none.svg").stat().st_size > 1_000


def test_of_a_thousand_npus_only_so_much_is_drawn(tmp_path, drawn):
    network = mesh(32, 32)
    algorithm = pccl.baseline("direct", network, pccl.AllGather("1MiB", group=range(0, 1024, 33)))
    picture = drawn(algorithm, "heatmap")
    assert picture.count("npus") == 1024
    assert picture.count("links") == network.num_links
    assert len(picture.texts) < 30  # numbers of devices would not be readable
    assert len(algorithm.transfers) > 20_000
    for links in (40, 2_000):
        picture = drawn(algorithm, "timeline", links=links)
        assert picture.count("transfers") <= 4_000
        assert len(picture.texts) < 150
    assert drawn(algorithm, "utilization").count("run-0") == 1


def test_a_network_of_more_links_has_no_heads(drawn):
    network = mesh(33, 33)
    algorithm = pccl.Algorithm.build(network, [pccl.SendRecv("1kB", group=(0, 1))], [0], [0], [0])
    picture = drawn(algorithm, "heatmap")
    assert (picture.count("links"), picture.count("heads")) == (network.num_links, 0)


@pytest.mark.parametrize("kind", FIGURES)
def test_long_names_are_shortened(tmp_path, kind):
    pair = [Link(0, 1, "1GB/s", "1us"), Link(1, 0, "1GB/s", "1us")]
    network = Topology.from_links(["n" * 20_000, "b"], pair, name="x" * 20_000)
    algorithm = pccl.synthesize(network, pccl.AllGather("2MiB", chunks=1))
    picture = Picture(pccl.plot(algorithm, kind, tmp_path / "long.svg"))
    assert float(picture.root.get("width").removesuffix("pt")) < 800
    assert max(map(len, picture.texts)) < 150
    assert any("x…" in text for text in picture.texts)


def test_names_in_any_script_get_a_font_that_has_them(tmp_path, monkeypatch):
    """A font of Chinese is used where there is one, but not named in an SVG, which is the same on every machine."""
    pair = [Link(0, 1, "1GB/s", "1us"), Link(1, 0, "1GB/s", "1us")]
    network = Topology.from_links(2, pair, name="北京 ラック")
    asked = []
    manager = matplotlib.font_manager.fontManager
    find = manager._find_fonts_by_props

    def noted(properties, *arguments, **options):
        asked.append(properties.get_family())
        return find(properties, *arguments, **options)

    monkeypatch.setattr(manager, "_find_fonts_by_props", noted)
    [plain] = [font for font in manager.ttflist if font.fname.endswith("/DejaVuSansMono.ttf")][:1]
    chinese = dataclasses.replace(plain, name="Noto Sans CJK SC")
    monkeypatch.setattr(manager, "ttflist", [*manager.ttflist, chinese])
    plot(network, "topology", tmp_path / "rack.png")
    assert {tuple(family) for family in asked} == {
        ("DejaVu Sans", "Noto Sans CJK SC", "sans-serif")
    }
    written = plot(network, "topology", tmp_path / "rack.svg").read_text(encoding="utf-8")
    assert "北京 ラック" in written
    assert "CJK" not in written


def test_the_legend_says_how_many_groups_it_leaves_out(drawn):
    groups = [(2 * i, 2 * i + 1) for i in range(10)]
    sends = [pccl.SendRecv("1MiB", group=group, chunks=1) for group in groups]
    algorithm = pccl.synthesize(pccl.topology.ring(20), *sends)
    texts = drawn(algorithm, "topology").texts
    assert sum(text.startswith("send-recv: ") for text in texts) == len(COLOURS)
    assert "and 2 more; colours repeat" in texts
    # Along time, kinds are told apart where groups are too many.
    assert "send-recv, 10 groups" in drawn(algorithm, "timeline").texts
    busiest = drawn(algorithm, "timeline", links=1).texts
    assert sum(text.startswith("send-recv: ") for text in busiest) == 1


def test_what_cannot_be_drawn_is_refused_before_any_work(gathers, tmp_path):
    file = tmp_path / "a.svg"
    for error, message, arguments, options in (
        (PcclError, "there is no figure 'pie'; there are heatmap, ", ("pie", file), {}),
        (
            FormatError,
            r"a figure is saved as \.svg, \.png or \.pdf",
            ("heatmap", tmp_path / "a.bmp"),
            {},
        ),
        (
            PcclError,
            "the figure heatmap has no option 'links'; it goes with timeline",
            ("heatmap", file),
            {"links": 3},
        ),
        (
            PcclError,
            "the figure ten has no option 'colour'; no figure has it",
            ("ten", file),
            {"colour": "red"},
        ),
        (PcclError, "there is no baseline 'rings'", ("utilization", file), {"against": ["rings"]}),
        (PcclError, "named twice", ("utilization", file), {"against": "ring,ring"}),
        (PcclError, "the number of links to show", ("timeline", file), {"links": 0}),
    ):
        with pytest.raises(error, match=message):
            pccl.plot(gathers, *arguments, **options)
    with pytest.raises(PcclError, match="a ten needs an algorithm"):
        plot(mesh(2, 2), "ten", file)
    assert not list(tmp_path.iterdir())


def test_without_matplotlib_the_error_says_what_to_install(gathers, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(PcclError, match=r"matplotlib is not installed: pip install matplotlib"):
        pccl.plot(gathers, "heatmap", tmp_path / "a.svg")


@pytest.mark.parametrize("colour", COLOURS)
def test_numbers_can_be_read_on_every_colour(colour):
    channels = np.array(matplotlib.colors.to_rgb(colour))
    linear = np.where(channels <= 0.04045, channels / 12.92, ((channels + 0.055) / 1.055) ** 2.4)
    light = float(linear @ [0.2126, 0.7152, 0.0722])
    contrast = (
        (1.05 / (light + 0.05)) if readable_on(colour) == "white" else ((light + 0.05) / 0.05)
    )
    assert contrast > 3  # what the accessibility guidelines ask of large or bold text


def test_every_picture_of_the_pages_has_its_line_in_the_script():
    folder = Path(__file__).parents[2] / "docs" / "images"
    script = runpy.run_path(str(folder / "make.py"))
    pages = "".join(
        (folder.parent / f"{name}.md").read_text(encoding="utf-8")
        for name in ("figures", "gallery")
    )
    drawn = {f"topology-{name}.svg" for name in script["TOPOLOGIES"]}
    drawn |= set(re.findall(r'"([\w-]+\.svg)"', (folder / "make.py").read_text(encoding="utf-8")))
    assert (
        drawn
        == {file.name for file in folder.glob("*.svg")}
        == set(re.findall(r"images/([\w-]+\.svg)", pages))
    )


class TestCommand:
    def test_its_help_knows_what_there_is(self):
        said = program("plot", "--help").stdout
        assert all(word in said for word in (*FIGURES, *SUFFIXES))

    def test_algorithms_and_networks(self, gathers, tmp_path):
        gathers.save(tmp_path / "a.pccl")
        for kind in FIGURES:
            result = program(
                "plot", tmp_path / "a.pccl", "--kind", kind, "-o", tmp_path / f"{kind}.svg"
            )
            assert result.exit_code == 0, result.output
            assert f"written to   {tmp_path / kind}.svg" in result.stdout
            assert Picture(tmp_path / f"{kind}.svg").texts
        result = program("plot", "torus:4x4", "-k", "topology", "-o", tmp_path / "t.png", "--quiet")
        assert (result.exit_code, result.output) == (0, "")
        assert (tmp_path / "t.png").read_bytes().startswith(b"\x89PNG")

    def test_options(self, gathers, tmp_path):
        gathers.save(tmp_path / "a.pccl")
        out = tmp_path / "a.svg"
        program("plot", tmp_path / "a.pccl", "-k", "utilization", "--against", "ring", "-o", out)
        assert any(text.startswith("ring: ") for text in Picture(out).texts)
        program("plot", tmp_path / "a.pccl", "-k", "timeline", "--links", 1, "-o", out)
        assert any("the 1 busiest" in text for text in Picture(out).texts)

    def test_bad_input_is_refused_before_any_work(self, tmp_path):
        out = tmp_path / "a.svg"
        assert "there is no figure 'pie'" in refused("plot", "no.pccl", "-k", "pie", "-o", out)
        assert "a figure is saved as" in refused(
            "plot", "no.pccl", "-k", "ten", "-o", tmp_path / "a.bmp"
        )
        assert "there is no folder" in refused(
            "plot", "no.pccl", "-k", "ten", "-o", tmp_path / "x" / "a.svg"
        )
        assert "has no option" in refused("plot", "no.pccl", "-k", "ten", "--links", 3, "-o", out)
        assert "no.pccl" in refused("plot", "no.pccl", "-k", "ten", "-o", out)
        assert refused("plot", "mesh:2x2", "-k", "heatmap", "-o", out)
        assert not list(tmp_path.iterdir())

    def test_in_a_process_of_its_own_without_a_display(self, tmp_path):
        environment = {"PATH": "/usr/bin", "PYTHONPATH": ":".join(sys.path), "HOME": str(tmp_path)}
        result = spawn(
            "plot", "h100:2", "-k", "topology", "-o", tmp_path / "h.pdf", env=environment
        )
        assert (result.returncode, result.stderr) == (0, "")
        assert (tmp_path / "h.pdf").read_bytes().startswith(b"%PDF")


# --- sizes ------------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def ring_of_boxes() -> pccl.Algorithm:
    return pccl.synthesize(parse_topology("switch2d:2x2"), pccl.AllReduce("1MiB"), effort="fast")


def test_sizes_show_ours_nccl_and_the_bound(ring_of_boxes, drawn):
    heard = []
    picture = drawn(
        ring_of_boxes,
        "sizes",
        sizes="1KiB:64KiB",
        effort="fast",
        progress=lambda *what: heard.append(what),
    )
    for name in ("pccl", "nccl-ring", "nccl-tree", "bound"):
        assert picture.count(f"time-{name}") >= 1
        assert picture.count(f"busbw-{name}") >= 1
        assert any(text.startswith(f"{name}: ") for text in picture.texts)
    assert {"1KiB", "64KiB", "at 64KiB"} <= set(picture.texts)
    assert any("as fast as the best that NCCL does" in text for text in picture.texts)
    assert {done for done, _, _ in heard} == {0, 1, 2, 3}
    assert all(total == 4 for _, total, _ in heard)
    assert heard[-1][2].startswith("64KiB: ")


def test_sizes_set_any_baselines_beside_it(ring_of_boxes, drawn):
    options = {"sizes": "1KiB:1KiB", "effort": "fast"}
    picture = drawn(ring_of_boxes, "sizes", against="ring, hierarchical", **options)
    names = {text.partition(":")[0] for text in picture.texts if ": " in text}
    assert names == {"pccl", "ring", "hierarchical", "bound"}
    with pytest.raises(PcclError, match="the baseline 'bruck': does not support all-reduce"):
        drawn(ring_of_boxes, "sizes", against=["bruck"], **options)
    with pytest.raises(PcclError, match="named twice"):
        drawn(ring_of_boxes, "sizes", against="ring,ring", **options)
    with pytest.raises(PcclError, match="an empty range"):
        drawn(ring_of_boxes, "sizes", sizes="1M:1K")


def test_parts_with_sizes_of_their_own_have_no_sizes_to_sweep(drawn):
    exchange = pccl.AllToAllV([[0, "1kB"], ["2kB", 0]])
    algorithm = pccl.synthesize(pccl.topology.ring(2), exchange, effort="fast")
    with pytest.raises(PcclError, match="cannot change all-to-all-v"):
        drawn(algorithm, "sizes", sizes="1K:1K")


def test_sizes_from_the_command_line(ring_of_boxes, tmp_path):
    file = tmp_path / "ar.pccl"
    ring_of_boxes.save(file)
    figure = tmp_path / "sizes.png"
    flags = ("--kind", "sizes", "--sizes", "1K:4K", "--effort", "fast", "-o", figure)
    assert "bus bandwidth over sizes" in program("plot", file, *flags).stdout
    assert figure.read_bytes().startswith(BEGINNINGS[".png"])


@pytest.fixture(scope="module")
def in_the_switch():
    """A plan that needs a switch that multiplies and adds."""
    able = pccl.topology.switch(4, multicast=True, reduce=True)
    return pccl.synthesize(able, pccl.AllReduce("1MiB", chunks=4), effort="fast")


@pytest.mark.parametrize("kind", ["heatmap", "utilization", "timeline", "gantt", "critical"])
def test_what_switches_must_do_is_said(in_the_switch, drawn, kind):
    subtitles = [text for text in drawn(in_the_switch, kind).texts if " on switch:4, " in text]
    assert len(subtitles) == 1
    assert ", with switches that multiply and add" in subtitles[0]


def test_who_needs_switches_is_marked(in_the_switch, drawn):
    """In legends, where there are several."""
    texts = drawn(in_the_switch, "utilization", against="nvls").texts
    assert [text.partition(":")[0] for text in texts if " busy" in text and ":" in text][:2] == [
        "this algorithm +",
        "nvls +",
    ]
    texts += drawn(
        in_the_switch, "sizes", sizes="64KiB:256KiB", against="nvls", effort="fast"
    ).texts
    assert {"pccl +", "nvls +"} <= {text.partition(":")[0] for text in texts}
    assert texts.count("+ needs switches that") == texts.count("multiply or add") == 2
    ring = pccl.synthesize(pccl.topology.ring(4), pccl.AllGather("4MiB", chunks=1))
    assert not any("+" in text for text in drawn(ring, "utilization", against="ring").texts)
