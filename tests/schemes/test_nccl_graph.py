"""What NCCL has chosen on a machine, from its graph files: rings and trees through all boxes, timed like any other."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import pccl
from pccl import FormatError
from pccl.analysis import nccl_graph_baselines
from pccl.schemes.nccl_graph import rings_through, trees_through
from pccl.schemes.workload import UnsupportedError
from pccl.topology import parse_topology
from pccl.topology.importers import Graph, read_nccl_graph
from tests.end_to_end.program import pccl as run
from tests.end_to_end.program import refused
from tests.schemes.test_nccl import rails

RING, TREE, NVLS = 0, 1, 3
PATTERNS = {RING: 4, TREE: 1, NVLS: 5}


def graph(number, channels, *, pattern=None, nets=(), crossnic=0, written=str):
    """One graph as NCCL writes it; `nets` has for each channel the NICs by which it comes in and leaves."""
    lines = []
    for place, channel in enumerate(channels):
        gpus = "".join(f'<gpu dev="{written(gpu)}"/>' for gpu in channel)
        ends = [f'<net dev="{written(nic)}"/>' for nic in nets[place]] if nets else ["", ""]
        lines.append(f"<channel>{ends[0]}{gpus}{ends[1]}</channel>")
    inner = "\n    ".join(lines)
    about = f'id="{number}" pattern="{pattern or PATTERNS[number]}" crossnic="{crossnic}" nchannels="{len(channels)}"'
    return f'  <graph {about} speedintra="20" speedinter="20">\n    {inner}\n  </graph>'


@pytest.fixture
def write(tmp_path):
    def written(*graphs):
        path = tmp_path / "graph.xml"
        path.write_text('<graphs version="1">\n' + "\n".join(graphs) + "\n</graphs>\n")
        return path

    return written


def baseline_of(path, name):
    return next(entry for entry in nccl_graph_baselines(path) if entry.name == name)


def microseconds(entry, topology, collective):
    algorithm = entry.run(topology, [collective])
    pccl.verify(algorithm)
    return algorithm.duration / 10**6


def test_rings_in_a_box_take_what_arithmetic_says(write):
    """Four NPUs in a circle: round it both ways every link is busy; zigzag, a hop in two takes two links."""
    topology = pccl.topology.ring(4, bandwidth="1GB/s", latency="0ns")
    collective = pccl.AllGather("4MB", chunks=2)
    both = write(graph(RING, [(0, 1, 2, 3), (0, 3, 2, 1)]))
    assert microseconds(baseline_of(both, "nccl-graph-ring"), topology, collective) == 1500
    one = write(graph(RING, [(0, 1, 2, 3)]))
    assert microseconds(baseline_of(one, "nccl-graph-ring"), topology, collective) == 3000
    zigzag = write(graph(RING, [(0, 2, 1, 3)]))
    assert microseconds(baseline_of(zigzag, "nccl-graph-ring"), topology, collective) > 3000


def test_trees_in_a_box_are_chains(write):
    """The sum goes up along the line and down again, in many pieces: so it takes one way and a little more."""
    line = pccl.topology.line(4, bandwidth="1GB/s", latency="0ns")
    entry = baseline_of(write(graph(TREE, [(0, 1, 2, 3)])), "nccl-graph-tree")
    algorithm = entry.run(line, [pccl.AllReduce("1MB", chunks=1)])
    pccl.verify(algorithm)
    # Four shares, one after another over each of the three links, then back.
    assert algorithm.duration / 10**6 == (4 + 2 + 3) * 250
    up = algorithm.transfers.reduce
    assert set(algorithm.transfers.src[up].tolist()) == {1, 2, 3}
    assert set(algorithm.transfers.dst[~up].tolist()) == {1, 2, 3}


def test_rings_go_on_from_box_to_box():
    """With crossnic=2 every second box takes the other channel of a pair: NIC 1 leads to NIC 1."""
    chosen = Graph("ring", "ring", 20.0, ((0, 2, 1), (1, 2, 0)), has_nics=True)
    member = np.arange(6).reshape(2, 3)
    assert rings_through(member, chosen).tolist() == [[0, 2, 1, 3, 5, 4], [1, 2, 0, 4, 5, 3]]
    turning = Graph("ring", "ring", 20.0, chosen.channels, has_nics=True, in_turns=True)
    assert rings_through(member, turning).tolist() == [[0, 2, 1, 4, 5, 3], [1, 2, 0, 3, 5, 4]]


# Per pattern: where box 1, the first child of box 2, and box 3, the second, come in, in the channel (2, 0, 1).
@pytest.mark.parametrize(
    ("pattern", "first", "second"),
    [("tree", 2, 2), ("balanced tree", 0, 2), ("split tree", 0, 0)],
)
def test_trees_go_on_from_box_to_box(pattern, first, second):
    """Of four boxes the first tree is 0 above 2, 2 above 1 and 3; the other is the same turned round."""
    chosen = Graph("tree", pattern, 20.0, ((2, 0, 1),), has_nics=True)
    member = np.arange(12).reshape(4, 3)
    ((one, other),) = trees_through(member, chosen)
    inside = {3 * box + gpu: 3 * box + above for box in range(4) for gpu, above in ((0, 2), (1, 0))}
    across = {2: -1, 5: 6 + first, 8: second, 11: 6 + second}
    assert dict(enumerate(one.tolist())) == inside | across
    turned = {11: -1, 8: 3 + first, 5: 9 + second, 2: 3 + second}
    assert dict(enumerate(other.tolist())) == inside | turned


@given(
    boxes=st.integers(1, 5),
    channels=st.lists(st.permutations([0, 1, 2]).map(tuple), min_size=1, max_size=3),
    pattern=st.sampled_from([1, 2, 3]),
    collective=st.sampled_from([pccl.AllGather, pccl.ReduceScatter, pccl.AllReduce]),
)
@settings(deadline=None, max_examples=40)
def test_whatever_nccl_chose_is_right(tmp_path_factory, boxes, channels, pattern, collective):
    path = tmp_path_factory.mktemp("graphs") / "graph.xml"
    nets = [(channel[0], channel[-1]) for channel in channels] if boxes > 1 else ()
    ring = graph(RING, channels, nets=nets, crossnic=2)
    tree = graph(TREE, channels, nets=nets, pattern=pattern)
    path.write_text(f"<graphs>{ring}{tree}</graphs>")
    for entry in nccl_graph_baselines(path):
        if collective.kind in entry.kinds:
            pccl.verify(entry.run(rails(boxes, 3), [collective("1MB")]))


def test_over_all_nics_it_takes_what_our_model_of_nccl_takes(write):
    """Two boxes of four on four rails: a ring for each NIC, which come in at one GPU and leave at the next."""
    ways = [tuple((start + i) % 4 for i in (0, 2, 3, 1)) for start in range(4)]
    ways = [ways[0], ways[0][::-1], ways[2], ways[2][::-1]]
    path = write(graph(RING, ways, nets=[(way[0], way[-1]) for way in ways], crossnic=2))
    topology = rails(2, 4)
    entry = baseline_of(path, "nccl-graph-ring")
    ours = pccl.baseline("nccl-ring", topology, pccl.AllGather("64MB"))
    chosen = entry.run(topology, [pccl.AllGather("64MB")])
    assert chosen.duration == pytest.approx(ours.duration, rel=0.05)
    # All that crosses stays on its rail.
    assert not np.any(chosen.transfers.link_busy[topology.bandwidth == 10**10] == 0)


def test_numbers_of_gpus(write):
    """Newer versions write them in hexadecimal; of a box with more GPUs than are used they say which."""
    collective = pccl.AllGather("1MB")
    path = write(graph(RING, [(4, 6, 5, 7)], written=hex))
    assert read_nccl_graph(path)[0].channels == ((4, 6, 5, 7),)
    entry = baseline_of(path, "nccl-graph-ring")
    # A box with just four of them; a box of which these are the last four; and others of it.
    assert len(entry.run(parse_topology("switch:4"), [collective]).transfers)
    assert len(
        entry.run(parse_topology("switch:8"), [pccl.AllGather("1MB", range(4, 8))]).transfers
    )
    with pytest.raises(UnsupportedError, match=r"the 4 GPUs of each box .*; the group has others"):
        entry.run(parse_topology("switch:8"), [pccl.AllGather("1MB", range(4))])
    with pytest.raises(UnsupportedError, match="up to number 7 in a box; boxes of switch:5 have 5"):
        entry.run(parse_topology("switch:5"), [collective])
    with pytest.raises(UnsupportedError, match="was chosen for one box; the group is in 2"):
        entry.run(rails(2, 4), [collective])
    far = write(graph(RING, [(0, 1, 2, 3)], nets=[(0, 0)]))
    with pytest.raises(UnsupportedError, match=r"for several boxes, .*; the group is in 1"):
        baseline_of(far, "nccl-graph-ring").run(rails(1, 4), [collective])


def test_rings_and_trees_have_as_many_channels_as_both_have(write):
    """The second of the trees would have no ring beside it."""
    path = write(graph(RING, [(0, 1, 2)]), graph(TREE, [(0, 1, 2), (2, 1, 0)]))
    line = pccl.topology.line(3, bandwidth="1GB/s", latency="0ns")
    tree = baseline_of(path, "nccl-graph-tree").run(line, [pccl.AllReduce("3MB", chunks=2)])
    down = tree.transfers.dst[~tree.transfers.reduce]
    assert set(down.tolist()) == {1, 2}


def test_what_people_have_today_is_what_the_file_says(write):
    """Even if NCCL could do better, and also where the file has no algorithm for it."""
    topology = pccl.topology.ring(4, bandwidth="1GB/s", latency="0ns")
    others = nccl_graph_baselines(write(graph(RING, [(0, 2, 1, 3)])))
    gather = pccl.synthesize(topology, pccl.AllGather("4MB"), effort="fast")
    comparison = pccl.compare(gather, ["nccl-ring"], others=others)
    assert [row.name for row in comparison.baselines] == ["nccl-graph-ring", "nccl-ring"]
    assert comparison.today.name == "nccl-graph-ring"
    assert comparison.today.duration > comparison.baselines[1].duration
    exchange = pccl.synthesize(topology, pccl.AllToAll("4MB"), effort="fast")
    assert pccl.compare(exchange, ["direct"], others=others).today.name == "direct"


def test_sums_in_switches_are_among_what_nccl_does_if_it_chose_channels_for_them(write):
    """Their channels have only the GPU that is the head."""
    ring = graph(RING, [(0, 1, 2)])
    with_sums = nccl_graph_baselines(write(ring, graph(NVLS, [(0,), (1,), (2,)])))
    assert [entry.name for entry in with_sums] == ["nccl-graph-ring", "nvls"]
    without = nccl_graph_baselines(write(ring, graph(NVLS, [])))
    assert [entry.name for entry in without] == ["nccl-graph-ring"]


def test_the_command(write):
    both_ways = [(0, 1, 2, 3), (3, 2, 1, 0)]
    path = write(graph(RING, both_ways), graph(TREE, both_ways))
    task = ("-t", "ring:4", "-c", "all-reduce", "--effort", "fast")
    common = ("compare", *task, "--nccl-graph", path)
    shown = run(*common, "-s", "4MiB").stdout
    assert "nccl-graph-tree" in shown
    assert "* what you have today at 4MiB: nccl-graph-ring; ours is" in shown
    rows = json.loads(run(*common, "--sizes", "1M:2M", "--json").stdout)["rows"]
    today = [(row["size"], row["algorithm"]) for row in rows if row["today"]]
    assert today == [(2**20, "nccl-graph-ring"), (2**21, "nccl-graph-ring")]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("<graphs>\n<graph", "graph.xml:2: broken XML: unclosed token"),
        ("<system>\n</system>", "graph.xml:1: it begins with <system>; graph files of NCCL have"),
        ("<graphs>\n</graphs>", "graph.xml:1: no <graph> in it"),
        ("<graphs>\n<graph id='0'/></graphs>", "graph.xml:2: <graph> has pattern=''"),
        ("<graphs>\n<graph id='0' pattern='9'/></graphs>", "graph.xml:2: there is no pattern 9"),
        ("<graphs>\n<graph pattern='4' speedintra='x'/></graphs>", "graph.xml:2: speedintra='x'"),
        ("<graphs>\n<graph pattern='4' nchannels='2'/></graphs>", "graph.xml:2: nchannels=2, but 0"),
        ("<graphs><graph pattern='4'>\n<channel/></graph></graphs>", "graph.xml:2: a channel without"),
        ("<graphs><graph pattern='4'><channel>\n<gpu dev='-1'/></channel></graph></graphs>",
         "graph.xml:2: <gpu> has dev='-1', which is not a whole number"),
        ("<graphs><graph pattern='4'><channel><gpu dev='1'/>\n<gpu dev='1'/></channel></graph></graphs>",
         "graph.xml:2: GPU 1 is in the channel twice"),
        ("<graphs><graph pattern='4'><channel><gpu dev='1'/><gpu dev='2'/></channel>\n"
         "<channel><gpu dev='1'/></channel></graph></graphs>", "graph.xml:2: GPU 2 is not in this channel"),
        ("<graphs><graph pattern='4'/></graphs>", "graph.xml: no ring and no tree has a channel in it"),
    ],
)  # fmt: skip
def test_wrong_files_get_one_line(tmp_path, text, problem):
    path = tmp_path / "graph.xml"
    path.write_text(text)
    with pytest.raises(FormatError) as caught:
        nccl_graph_baselines(path)
    assert problem in str(caught.value)
    flags = ("-t", "ring:4", "-c", "all-gather", "-s", "1MiB", "--nccl-graph", path)
    assert problem in refused("compare", *flags)
