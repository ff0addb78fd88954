"""Files of others become topologies: what joins what, how fast, and what had to be assumed."""

from __future__ import annotations

import doctest
import re
from pathlib import Path

import pytest

from pccl.errors import FormatError, PcclError, TopologyError
from pccl.topology import load, mesh, parse_topology, save_topology
from pccl.topology.importers import IMPORTERS, read, read_nccl_graph
from pccl.topology.importers.hardware import GPUS
from tests.topology.importers import texts

GB = 10**9
SAMPLES = Path(__file__).parents[4] / "shared" / "samples"


@pytest.fixture
def write(tmp_path):
    def write(name, text):
        path = tmp_path / name
        path.write_text(text, newline="")
        return path

    return write


def speed(network, a, b):
    """GB/s of all links from one device to another, by name."""
    src, dst = (network.device(end) for end in (a, b))
    return network.bandwidth[(network.src == src) & (network.dst == dst)].sum() / GB


# --- nvidia-smi ------------------------------------------------------------------------------------------------------


def test_nvswitch_is_what_more_links_than_a_gpu_has_lead_to(write):
    reading = read(write("box.txt", texts.smi(8, "NV18")))
    network = reading.topology
    assert (network.num_npus, len(network.switches), network.num_links) == (8, 1, 16)
    assert speed(network, "gpu0", "nvswitch") == 450
    assert "gpu=b200" in " ".join(reading.assumed)


@pytest.mark.parametrize(
    ("gpus", "links", "gpu", "pair", "total"),
    [
        (4, "NV4", None, 100, 300),  # four A100, joined directly
        (2, "NV12", None, 300, 300),
        (4, "NV6", None, 150, 450),  # HGX H100 of four
        (2, "NV4", None, 56.25, 56.25),  # a bridge between two A6000
        (8, "NV18", "b200", 0, 900),
        (16, "NV6", None, 0, 150),  # DGX-2
        (2, "NV2", None, 50, 50),
    ],
)
def test_speeds_by_the_number_of_nvlinks(write, gpus, links, gpu, pair, total):
    network = load(write("box.txt", texts.smi(gpus, links)), gpu=gpu)
    assert speed(network, "gpu0", "gpu1") == pair
    assert network.bandwidth[network.src == 0].sum() == total * GB


def test_colours_and_windows_line_ends_change_nothing(write):
    plain = load(write("box.txt", texts.smi(4, "NV4")))
    coloured = texts.smi(4, "NV4", colours=True).replace("\n", "\r\n")
    assert load(write("box.log", coloured)) == plain


def test_powershell_writes_utf_16(write):
    text = texts.smi(4, "NV4")
    path = write("box.txt", text)
    plain = load(path)
    path.write_bytes(text.encode("utf-16"))
    assert load(path) == plain


def test_boxes_without_nics_get_one_a_gpu_of_the_speed_that_is_given(write):
    path = write("box.txt", texts.smi(2, "NV12"))
    with pytest.raises(FormatError, match=r"give the fabric, or nic=50GB/s for one NIC a GPU"):
        load(path, boxes=2)
    network = load(path, boxes=2, nic="50GB/s")
    assert network.shape == (2, 2)
    assert speed(network, "box1.nic1", "rail1") == 50


def test_nics_hang_on_their_gpu_and_those_near_none_are_left_out(write):
    nics = (("mlx5_0", 0), ("mlx5_1", 1), ("mlx5_9", None))
    reading = read(write("box.txt", texts.smi(4, "NV12", nics)))
    assert speed(reading.topology, "gpu1", "mlx5_1") == 25
    assert "mlx5_9" not in reading.topology.labels
    assert any("mlx5_9 left out" in text for text in reading.found)


def test_names_of_nics_come_from_the_legend(write):
    text = texts.smi(2, "NV12", (("NIC0", 0),)) + "\nNIC Legend:\n\n  NIC0: rocep1s0\n"
    assert "rocep1s0" in load(write("box.txt", text)).labels


def test_without_nvlink_gpus_talk_over_pcie_of_a_model_that_must_be_said(write):
    between = {
        (0, 1): "PIX",
        (2, 3): "PXB",
        (0, 2): "NODE",
        (0, 3): "NODE",
        (1, 2): "NODE",
        (1, 3): "NODE",
    }
    path = write("box.txt", texts.smi(4, "SYS", between=between))
    with pytest.raises(
        FormatError, match=r"box\.txt:1: no NVLink, and nothing tells how fast PCIe is"
    ):
        load(path)
    network = load(path, gpu="l40s")
    assert sorted(network.labels[4:]) == ["cpu0", "pcie0", "pcie2"] or len(network.switches) == 3
    assert network.bandwidth.max() == pytest.approx(31.5 * GB, rel=0.01)
    assert network.diameter() == 4


@pytest.mark.parametrize(
    ("name", "gpus", "links", "fastest"),
    [
        ("NVIDIA B200", 8, "NV18", 900),
        ("NVIDIA H100 80GB HBM3", 8, "NV18", 450),
        ("NVIDIA GeForce RTX 3090", 2, "NV4", 56.25),
        ("Tesla V100-SXM2-32GB", 2, "NV2", 50),
        ("NVIDIA L40S", 4, "SYS", 31.508),
        ("NVIDIA RTX PRO 6000 Blackwell", 4, "NODE", 63.015),
    ],
)
def test_the_model_may_stand_above_the_table(write, name, gpus, links, fastest):
    above = f"|   0  {name}        On  |   00000000:C3:00.0 Off |\n"
    assert load(write("box.txt", above + texts.smi(gpus, links))).bandwidth.max() == fastest * GB


def test_rows_that_are_cut_off_are_filled_in_from_the_others(write):
    lines = texts.smi(4, "NV12", (("mlx5_0", 0),)).splitlines()
    whole = load(write("whole.txt", "\n".join(lines)))
    part = load(write("part.txt", "\n".join(lines[:4])))  # the header and three of four GPUs
    assert (part.num_links, part.labels) == (whole.num_links, whole.labels)
    with pytest.raises(FormatError, match="nothing is said of GPU2 and GPU3: the table is cut off"):
        load(write("less.txt", "\n".join(lines[:3])))


def test_several_boxes_in_one_file(write):
    one = texts.smi(2, "NV12", (("mlx5_0", 0), ("mlx5_1", 1)))
    prompts = "".join(f"me@node{i}:~$ nvidia-smi topo -m\n{one}" for i in range(2))
    network = load(write("all.txt", prompts))
    assert network.shape == (2, 2)
    assert speed(network, "node1.mlx5_1", "rail1") == 25
    assert network.diameter() == 5
    prefixed = "".join(f"n{i}: {line}\n" for i in range(2) for line in one.splitlines())
    assert load(write("pdsh.txt", prefixed)).labels[0] == "n0.gpu0"


def test_where_a_table_contradicts_itself_the_worse_counts(write):
    """As with a link that only one of its ends takes for active."""
    lines = texts.smi(3, "NV12").splitlines()
    lines[3] = lines[3].replace("NV12", "NV11", 1)  # from GPU2 to GPU0
    reading = read(write("box.txt", "\n".join(lines)), gpu="a100")
    said = "GPU0 and GPU2 are NV11: the table has NV12 one way and NV11 the other"
    assert said in reading.assumed
    assert any("NV11 and NV12" in text for text in reading.found)


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        ("NV12", "NVX", r"box\.txt:2: 'NVX' between GPU0 and GPU1"),
        ("GPU1\tCPU", "GPU0\tCPU", "a device twice"),
        ("\tCPU", "\n\tCPU", r"box\.txt:2: .* a terminal has broken the lines"),
        ("GPU1\tNV12", "GPU0\tNV12", r"box\.txt:3: a second row for GPU0"),
        (texts.smi(2, "NV12"), " \n", r"box\.txt: the file is empty"),
    ],
)
def test_wrong_tables(write, old, new, problem):
    with pytest.raises(FormatError, match=problem):
        load(write("box.txt", texts.smi(2, "NV12").replace(old, new)))


# --- NCCL and RCCL ---------------------------------------------------------------------------------------------------


def test_a_dump_of_nccl(write):
    reading = read(write("dump.xml", texts.xml(4, texts.NVSWITCH)))
    network = reading.topology
    assert speed(network, "gpu3", "nvswitch") == 450
    assert speed(network, "gpu3", "mlx5_3") == 50
    assert reading.formats == ("NCCL or RCCL topology XML",)


def test_a_stub_of_a_virtual_machine_is_completed_and_said_so(write):
    path = write("stub.xml", texts.xml(8, gpu=False))
    with pytest.raises(FormatError, match=r"names no model of GPU and no NVLinks.*--gpu a100"):
        load(path)
    reading = read(path, gpu="h100")
    assert speed(reading.topology, "gpu0", "nvswitch") == 450
    assert any("as gpu=h100 says" in text for text in reading.assumed)
    assert any("no NVLinks: they are those of" in text for text in reading.assumed)


def test_direct_links_between_gpus_are_listed_at_both_ends(write):
    links = {0: "0000:11:00.0", 1: "0000:01:00.0"}
    text = texts.xml(2, "LINK", sm="70")
    for target in links.values():
        text = text.replace("LINK", f'<nvlink target="{target}" count="2" tclass="0x030200"/>', 1)
    network = load(write("pair.xml", text))
    assert speed(network, "gpu0", "gpu1") == speed(network, "gpu1", "gpu0") == 50


def test_bridges_of_virtual_machines_and_nics_of_no_bus(write):
    text = texts.xml(2, texts.NVSWITCH, extra='<nic><net name="eth0" dev="9" speed="10000"/></nic>')
    fast = 'link_speed="32.0 GT/s PCIe" link_width="16">\n      <pci'
    text = text.replace(fast, 'link_speed="2.5 GT/s PCIe" link_width="1">\n      <pci')
    cpu = text[text.index("  <cpu") : text.index("</system>")]
    second = '<cpu numaid="1"><nic><net name="eth0" dev="9" speed="10000"/></nic></cpu>'
    network = load(write("vm.xml", f"<system>{cpu}{second}</system>"))
    assert speed(network, "gpu0", "mlx5_0") == 50
    assert sum(label.startswith("eth0") for label in network.labels) <= 1


def test_xgmi(write):
    text = texts.xml(2, "LINK").replace('sm="90"', 'sm="304" gcn="gfx942:sramecc+"')
    for target in ("0000:11:00.0", "0000:01:00.0"):
        text = text.replace("LINK", f'<xgmi target="{target}" count="1" tclass="0x038000"/>', 1)
    assert speed(load(write("rccl.xml", text)), "gpu0", "gpu1") == 64


def test_gpus_that_share_a_switch_share_the_way_to_the_nics(write):
    shared = texts.xml(2, texts.NVSWITCH)
    # One switch around everything: the two switches of the file become its children.
    shared = shared.replace('numaid="0"', 'numaid="0"', 1).replace(
        'class="0x060400"', 'class="0x060400"'
    )
    inner = shared[shared.index("<pci") : shared.rindex("</cpu>")]
    for bus in ("0000:00:00.0", "0000:10:00.0"):
        inner = inner.replace(
            f'<pci busid="{bus}" class="0x060400" link_speed="32.0 GT/s PCIe" link_width="16">',
            "",
            1,
        )
    inner = inner.replace("\n    </pci>", "")
    whole = f'<pci busid="0000:99:00.0" class="0x060400" link_speed="32 GT/s" link_width="16">{inner}</pci>'
    text = shared[: shared.index("<pci")] + whole + "</cpu></system>"
    network = load(write("shared.xml", text))
    assert speed(network, "gpu0", "pcie0") == pytest.approx(63, rel=0.01)
    assert speed(network, "pcie0", "mlx5_1") == 50


def test_a_file_of_several_hosts_is_one_nvlink_domain(write):
    text = texts.xml(2, texts.NVSWITCH)
    cpu = text[text.index("  <cpu") : text.index("</system>")]
    two = "".join(cpu.replace("<cpu", f'<cpu host_hash="0x{i}"') for i in range(2))
    network = load(write("rack.xml", f"<system version='1'>{two}</system>"))
    assert network.shape == (2, 2)
    assert speed(network, "host1.gpu1", "nvlink.nvswitch") == 450


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("<system>\n<cpu>\n</system>", r"bad\.xml:3: broken XML: mismatched tag"),
        ('<!DOCTYPE a [<!ENTITY b "c">]>\n<system/>', r"bad\.xml:1: a DOCTYPE"),
        ("<system/>", r"bad\.xml:1: no <cpu>"),
        (texts.xml(1).replace('"400000"', '"fast"'), r"bad\.xml:6: speed='fast' is not a number"),
        (texts.xml(1).replace("32.0 GT/s", "33 GT/s"), "is none that PCIe has"),
        (texts.xml(1, classes=False, gpu=False).replace("0x020700", "0x010000"), "no GPU in it"),
        ("<system>" + "<pci>" * 100 + "</pci>" * 100 + "</system>", "nested deeper than"),
        (texts.GRAPH, r"what NCCL chose on a machine \(ring with 1 channel\), not the machine"),
    ],
)
def test_wrong_xml(write, text, problem):
    with pytest.raises(FormatError, match=problem):
        load(write("bad.xml", text))


def test_graphs_of_nccl_are_rings_and_trees(write):
    (graph,) = read_nccl_graph(write("graph.xml", texts.GRAPH))
    assert (graph.pattern, graph.speed, graph.channels) == ("ring", 20.0, ((0, 1, 2),))


# --- rocm-smi --------------------------------------------------------------------------------------------------------


def test_rocm_smi(write):
    path = write("box.txt", texts.rocm())
    assert load(path).num_links == 56
    assert speed(load(path), "gpu0", "gpu7") == 64
    assert speed(load(path, gpu="mi355x"), "gpu0", "gpu7") == 76.8
    pcie = load(write("pcie.txt", texts.rocm(4, "PCIE")), gpu="mi210")
    assert (len(pcie.switches), pcie.diameter()) == (1, 2)


# --- fabrics ---------------------------------------------------------------------------------------------------------


def test_a_fabric_alone_has_hosts_as_npus(write):
    reading = read(write("ib.out", texts.fabric(["node1", "node2", "node10"])))
    assert reading.topology.labels[:3] == ("node1", "node2", "node10")
    assert speed(reading.topology, "node1", "leaf0") == 50
    assert speed(reading.topology, "leaf0", "spine") == 50
    assert any("2 switches with SHARP" in text for text in reading.found)


def test_a_port_has_one_cable(write):
    text = texts.fabric(["node1", "node2"]).replace("[3]", "[1]", 1)
    with pytest.raises(
        FormatError, match=r"ib\.out:8: two cables in port S-0000\[1\]: to H-0000\[1\]"
    ):
        load(write("ib.out", text))


@pytest.mark.parametrize(
    ("word", "gigabytes"), [("4xXDR", 100), ("4xHDR", 25), ("2xHDR", 12.5), ("4xEDR", 12.5)]
)
def test_speeds_of_infiniband(write, word, gigabytes):
    assert (
        speed(load(write("ib.out", texts.fabric(["a", "b"], speed=word))), "a", "leaf0")
        == gigabytes
    )


def test_ports_of_a_chassis_and_long_names_of_hosts(write):
    text = texts.fabric(["node1.example.com", "node2.example.com"]).replace(
        "[60]\t", "[60][ext 7]\t"
    )
    network = load(write("ib.out", text.replace("\n", "\r\n")))
    assert network.labels[:2] == ("node1", "node2")
    assert speed(network, "leaf0", "spine") == 50


def test_boxes_and_the_fabric_between_them_are_joined_by_name(write):
    box = texts.smi(2, "NV12", (("mlx5_0", 0), ("mlx5_1", 1)))
    files = [
        write("node1.txt", box),
        write("topo-node2.txt", box),
        write("ib.out", texts.fabric(["node1", "node2", "other"])),
    ]
    reading = read(*files)
    network = reading.topology
    assert network.shape == (2, 2)
    assert speed(network, "node2.mlx5_1", "leaf1") == 50
    assert speed(network, "node1.gpu0", "node1.mlx5_0") == 50
    assert any("1 host of the fabric left out" in text for text in reading.found)
    assert network.diameter() == 5
    assert parse_topology(" + ".join(map(str, files))) == network
    with pytest.raises(FormatError, match="the fabric has no host 'node7'"):
        load(write("node7.txt", box), files[2])
    with pytest.raises(FormatError, match="two files are about the host 'node1'"):
        load(files[0], write("node1.log", box), files[2])


def test_a_fabric_of_boxes_of_a_model(write):
    network = load(write("ib.out", texts.fabric(["a", "b"], nics=8)), gpu="h100")
    assert network.shape == (2, 8)
    assert speed(network, "a.nic3", "leaf1") == 50
    assert speed(network, "a.gpu0", "a.nvswitch") == 450


@pytest.mark.parametrize("name", ["t.conf", "t.txt"])
def test_slurm(write, name):
    path = write(name, texts.SLURM)
    with pytest.raises(FormatError, match="the file has no speeds"):
        load(path)
    network = load(path, nic="12.5GB/s")
    assert network.labels[:6] == ("n001", "n002", "n003", "n004", "n006", "login")
    assert speed(network, "leaf1", "top") == 37.5
    boxes = load(path, gpu="a100")
    assert (boxes.shape, speed(boxes, "leaf1", "top")) == ((6, 8), 600)


def test_slurm_goes_on_in_the_next_line_and_knows_more_than_we_need(write):
    text = "switchname=a nodes=n[1-2],\\\n  n[5-6] LinkSpeed=100 # two\r\nSwitchName=top Switches=a\r\n"
    assert load(write("t.conf", text), nic="25GB/s").labels[:4] == ("n1", "n2", "n5", "n6")


def test_slurm_without_a_top_and_with_a_host_at_two_switches(write):
    reading = read(
        write("t.conf", "SwitchName=a Nodes=n[1-2]\nSwitchName=b Nodes=n[2-3]\n"), nic="25GB/s"
    )
    assert reading.topology.diameter() == 4
    assert any("'core' above a to b" in text for text in reading.assumed)
    assert any("n2: at two switches" in text for text in reading.assumed)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("SwitchName=a Nodes=n[1-\n", "is no list of names"),
        ("SwitchName=a Nodes=n[1-999999999]\n", "more than 20,000 names"),
        ("SwitchName=a Switches=a\n", "switch a is below itself"),
        (
            "SwitchName=a Switches=b\nSwitchName=b Switches=a\nSwitchName=c Nodes=n\n",
            "is above itself",
        ),
        ("SwitchName=a Nodes=n\nhello\n", r"t\.conf:2: 'hello' is neither"),
        ("SwitchName=a\n", "no host below any switch"),
    ],
)
def test_wrong_slurm(write, text, problem):
    with pytest.raises(FormatError, match=problem):
        load(write("t.conf", text), nic="25GB/s")


def test_topograph_domains_share_an_nvswitch(write):
    network = load(write("model.yaml", texts.TOPOGRAPH), gpu="gb200")
    assert network.shape == (4, 4)
    assert speed(network, "node12.gpu3", "nvl-1.nvswitch") == 900
    assert "nvl-2.nvswitch" in network.labels
    assert load(write("model.yaml", texts.TOPOGRAPH), nic="50GB/s").num_npus == 4


def test_topology_yaml_of_slurm(write):
    text = """- topology: blocks
  block:
    block_sizes: [2]
    blocks:
      - {block: b1, nodes: "n[1-2]"}
      - {block: b2, nodes: "n[3-4]"}
- topology: tree
  cluster_default: true
  tree:
    switches:
      - {switch: root, children: "s[1-2]"}
      - {switch: s1, nodes: "n[1-2]"}
      - {switch: s2, nodes: "n[3-4]"}
"""
    network = load(write("topology.yaml", text), nic="50GB/s")
    assert network.labels == ("n1", "n2", "n3", "n4", "root", "s1", "s2")
    blocks = load(write("topology.yaml", text.partition("- topology: tree")[0]), gpu="gb200")
    assert speed(blocks, "n1.gpu0", "b1.nvswitch") == 900
    with pytest.raises(FormatError, match="neither a tree nor blocks"):
        load(write("topology.yaml", "- topology: flat\n"), nic="50GB/s")
    with pytest.raises(FormatError, match=r"got `array` - at `\$\[1\]\.tree"):
        load(write("topology.yaml", text.replace('"s[1-2]"', "[1]")), nic="50GB/s")


def test_htsim(write):
    network = load(write("tree.topo", texts.HTSIM))
    assert (network.num_npus, len(network.switches), network.num_links) == (8, 4, 2 * (8 + 4))
    assert (speed(network, "npu0", "tor0"), speed(network, "tor1", "agg1")) == (12.5, 25)
    with pytest.raises(FormatError, match=r"tree\.topo:3: expected a word and a number"):
        load(write("tree.topo", texts.HTSIM.replace("\n\n", "\nhello\n", 1)))
    with pytest.raises(FormatError, match="do not fit together"):
        load(write("tree.topo", texts.HTSIM.replace("Nodes 8", "Nodes 9")))


# --- graphs ----------------------------------------------------------------------------------------------------------


def test_graphml_and_gml(write):
    networkx = pytest.importorskip("networkx")
    graph = networkx.Graph(name="ring")
    for i in range(4):
        graph.add_edge(f"n{i}", f"n{(i + 1) % 4}", bandwidth="25GB/s", latency="1us")
    graph.nodes["n3"]["kind"] = "switch"
    text = "\n".join(networkx.generate_graphml(graph))
    assert (
        repr(load(write("g.graphml", text)))
        == "Topology('ring': 3 NPUs, 1 switch, 8 links, 25GB/s, 1us)"
    )
    gml = "\n".join(networkx.generate_gml(graph))
    assert load(write("g.gml", gml)).num_links == 8
    with pytest.raises(FormatError, match="a DOCTYPE"):
        load(write("g.graphml", "<!DOCTYPE a>" + text))
    with pytest.raises(FormatError, match="networkx cannot read it"):
        load(write("g.graphml", text[:-20]))
    with pytest.raises(FormatError, match="has no attribute 'bandwidth'"):
        load(write("g.gml", gml.replace("bandwidth", "width")))


# --- all of them -----------------------------------------------------------------------------------------------------


def test_boxes_that_are_alike_are_joined_by_rails(write):
    path = write("box.txt", texts.smi(2, "NV12", (("mlx5_0", 0), ("mlx5_1", 1))))
    network = parse_topology(f"{path},boxes=3")
    assert (network.shape, network.diameter()) == ((3, 2), 5)
    with pytest.raises(FormatError, match="no NIC that could join them"):
        load(write("lonely.txt", texts.smi(2)), boxes=2)


def test_what_would_fill_the_memory_is_refused_first(write):
    path = write("t.conf", "SwitchName=a Nodes=n[1-19999]\n")
    with pytest.raises(FormatError, match="159,992 NPUs are beyond 20,000"):
        load(path, gpu="mi300x")
    with pytest.raises(FormatError, match="is there twice"):
        load(write("twice.xml", texts.xml(2).replace('dev="1"', 'dev="0"')))


def test_what_is_said_of_a_whole_topology_is_refused(tmp_path):
    save_topology(mesh(2, 2), tmp_path / "mesh.yaml")
    with pytest.raises(FormatError, match="leave out gpu and boxes"):
        load(tmp_path / "mesh.yaml", gpu="h100", boxes=2)
    with pytest.raises(FormatError, match="only dumps of boxes can be joined"):
        load(tmp_path / "mesh.yaml", tmp_path / "mesh.yaml")


def test_wrong_arguments(tmp_path):
    with pytest.raises(TopologyError, match=r"there is no GPU 'h10'; did you mean 'h100'"):
        load(tmp_path / "x", gpu="h10")
    with pytest.raises(TopologyError, match="boxes is a whole number"):
        load(tmp_path / "x", boxes=0)
    with pytest.raises(FormatError, match="there is no such file"):
        load(tmp_path / "x")
    with pytest.raises(TopologyError, match="no file"):
        load()


def test_what_is_imported_can_be_saved_and_edited(write, tmp_path):
    network = load(write("dump.xml", texts.xml(4, texts.NVSWITCH)))
    save_topology(network, tmp_path / "mine.yaml")
    assert load(tmp_path / "mine.yaml") == network


def test_the_python_of_the_page():
    page = Path(__file__).parents[3] / "docs" / "importing.md"
    code = re.sub(r"^```.*$", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE)
    example = doctest.DocTestParser().get_doctest(code, {}, page.name, str(page), 0)
    output: list[str] = []
    assert doctest.DocTestRunner().run(example, out=output.append).failed == 0, "".join(output)
    rows = re.findall(r"^\| `([\w-]+)` \| (.*) \|$", code, flags=re.MULTILINE)
    assert {name for name, _ in rows} == set(GPUS)
    for name, row in rows:
        links, each, _, pcie, nic, source = row.split(" | ")
        gpu = GPUS[name]
        assert (links, each) == (
            (str(gpu.links), f"{gpu.link / 1e9:g}GB/s") if gpu.links else ("—", "—")
        )
        assert (pcie, nic) == (f"{gpu.pcie / 1e9:g}GB/s", f"{gpu.nic / 1e9:g}GB/s")
        assert source == gpu.source


def test_every_model_has_a_source_and_every_format_a_name():
    assert all(gpu.source and gpu.pcie and gpu.nic for gpu in GPUS.values())
    assert len({importer.name for importer in IMPORTERS}) == len(IMPORTERS)


# Samples that load at least; others may be there that nobody can read yet.
FEWEST_LOADED = 30
# What is refused unless more is said; None for what is refused in any case.
MORE = {
    "aws-g5.48xl-topo.xml": None,
    "azure-ncv4-graph.xml": None,
    "sample_16nodes_2D.json": None,
    "azure-ndv2-topo.xml": {"gpu": "v100"},
    "azure-ndv4-topo.xml": {"gpu": "a100"},
    "litgpt-nvlink_not_connected_output.txt": {"gpu": "l40s"},
    "rtx6kpro-asus-8gpu.log": {"gpu": "rtx-pro-6000"},
    "tonystarkiss-slurm-superpod-topology.conf": {"nic": "12.5GB/s"},
    "topograph-expected.slinky-dra-block.conf": {"gpu": "gb200"},
    "topograph-expected.slinky-oci-sim-tree.conf": {"gpu": "h100"},
    "topograph-model-medium.yaml": {"nic": "50GB/s"},
    "topograph-model-nvl72.yaml": {"gpu": "gb200"},
}


@pytest.mark.skipif(not SAMPLES.is_dir(), reason="no samples beside the repository")
def test_samples_load_and_are_connected_or_are_refused():
    """More of them may be there than we can read; those that we can are at least as many as there once were."""
    loaded = []
    for path in sorted(SAMPLES.glob("*/*")):
        hints = MORE.get(path.name, {})
        if hints is None or hints:
            with pytest.raises(PcclError):
                load(path)
        if hints is None:
            continue
        try:
            topology = load(path, **hints)
        except PcclError:
            assert not hints, path
            continue
        assert topology.diameter() >= 1, path
        loaded.append(path)
    assert len(loaded) >= FEWEST_LOADED
