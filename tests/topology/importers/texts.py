"""Small files in the formats of others, written for the tests."""

from __future__ import annotations

from itertools import combinations


def smi(gpus=4, links="NV12", nics=(), colours=False, between=None):
    """What ``nvidia-smi topo -m`` prints; a NIC is its name and the GPU that it is nearest to (or None)."""
    between = between or {}
    columns = [f"GPU{i}" for i in range(gpus)] + [name for name, _ in nics]
    near = dict(nics)
    header = "\t" + "\t".join(columns) + "\tCPU Affinity\tNUMA Affinity"
    lines = [f"\x1b[4m{header}\x1b[0m" if colours else header]
    for i, row in enumerate(columns):
        cells = [row]
        for j in range(len(columns)):
            a, b = sorted((i, j))
            if i == j:
                cells.append(" X ")
            elif b < gpus:
                cells.append(between.get((a, b), links))
            elif a < gpus:
                cells.append("PIX" if near[columns[b]] == a else "SYS")
            else:
                cells.append("SYS")
        lines.append("\t".join([*cells, f"{16 * i}-{16 * i + 15}", str(i)] if i < gpus else cells))
    return "\n".join(
        [*lines, "", "Legend:", "", "  X    = Self", "  NV#  = a bonded set of # NVLinks", ""]
    )


def xml(gpus=2, nvlinks="", sm="90", classes=True, extra="", gpu=True):
    """A topology file of NCCL: GPUs below one CPU, each with a NIC below a switch of its own."""
    rows = []
    for i in range(gpus):
        about = f'<gpu dev="{i}" sm="{sm}" rank="{i}" gdr="1">{nvlinks}</gpu>' if gpu else ""
        kind = 'class="0x030200"' if classes else ""
        rows.append(f"""
    <pci busid="0000:{i}0:00.0" class="0x060400" link_speed="32.0 GT/s PCIe" link_width="16">
      <pci link_width="16" busid="0000:{i}1:00.0" {kind} link_speed="32.0 GT/s PCIe">{about}</pci>
      <pci busid="0000:{i}2:00.0" class="0x020700" link_speed="32.0 GT/s PCIe" link_width="16">
        <nic><net name="mlx5_{i}" dev="{i}" speed="400000" port="1" guid="0x{i}"/></nic>
      </pci>
    </pci>""")
    return f"""<system version="1">
  <cpu numaid="0" arch="x86_64" vendor="AuthenticAMD" familyid="175" modelid="17">{"".join(rows)}{extra}
  </cpu>
</system>
"""


NVSWITCH = '<nvlink target="0000:ff:00.0" count="18" tclass="0x068000"/>'


def rocm(gpus=8, kind="XGMI"):
    """What ``rocm-smi --showtopo`` prints."""
    names = [f"GPU{i}" for i in range(gpus)]
    text = "==== ROCm System Management Interface ====\n"
    for title, value in (("Weight", "15"), ("Hops", "1"), ("Link Type", kind)):
        text += f"==== {title} between two GPUs ====\n       {'  '.join(names)}\n"
        for a in names:
            text += f"{a}  {'  '.join('0' if a == b else value for b in names)}\n"
    text += "==== Numa Nodes ====\n"
    return text + "".join(f"GPU[{i}]\t: (Topology) Numa Node: {i // 4}\n" for i in range(gpus))


def fabric(hosts, nics=2, speed="4xNDR", leaves=2):
    """What ``ibnetdiscover`` prints: NIC i of every host on leaf i, leaves joined to one spine."""
    lines = ["#", "# Topology file: generated on some day", "#", ""]
    for leaf in range(leaves):
        lines += [
            f"switchguid=0x{leaf}(0)",
            f'Switch\t65 "S-{leaf:04x}"\t\t# "MF0;leaf{leaf}:MQM9700/U1" port 0',
        ]
        for i, host in enumerate(hosts):
            for nic in range(leaf, nics, leaves):
                guid = f"H-{i:02x}{nic:02x}"
                port = 1 + i * nics + nic
                lines.append(f'[{port}]\t"{guid}"[1]({i}) \t\t# "{host} mlx5_{nic}" lid 1 {speed}')
        lines += [f'[600]\t"S-00ff"[{leaf}]\t\t# "MF0;spine:MQM9700/U1" lid 9 {speed}']
        lines += [
            f'[650]\t"H-ff{leaf:02x}"[1](9)\t\t# "Mellanox Technologies Aggregation Node" lid 9 {speed}',
            "",
        ]
    lines += ['Switch\t65 "S-00ff"\t\t# "MF0;spine:MQM9700/U1" port 0']
    lines += [
        f'[{leaf}]\t"S-{leaf:04x}"[600]\t\t# "MF0;leaf{leaf}:MQM9700/U1" lid 1 {speed}'
        for leaf in range(leaves)
    ]
    return "\n".join(lines) + "\n"


SLURM = """# a tree
SwitchName=top Switches=leaf[1-2]
SwitchName=leaf1 Nodes=n[001-003]
SwitchName=leaf2 Nodes=n[004,006],login
"""

TOPOGRAPH = """switches:
  spine:
    switches: [leaf-1, leaf-2]
blocks:
- switch: leaf-1
  nodes: ["node[11-12]"]
  annotations: {example.com/domain: nvl-1}
- switch: leaf-2
  nodes: ["node[21-22]"]
  annotations: {example.com/domain: nvl-2}
"""

HTSIM = """Nodes 8
Tiers 2

Tier 0
Downlink_speed_Gbps 100
Radix_Down 4
Radix_Up 2
Downlink_Latency_ns 500

Tier 1
Downlink_speed_Gbps 200
Radix_Down 2
Downlink_Latency_ns 700
Bundle 1
"""

GRAPH = """<graphs version="1">
  <graph id="0" pattern="4" nchannels="1" speedintra="20" speedinter="20">
    <channel><gpu dev="0"/><gpu dev="1"/><gpu dev="2"/></channel>
  </graph>
</graphs>
"""

ALL_PAIRS = list(combinations(range(8), 2))
