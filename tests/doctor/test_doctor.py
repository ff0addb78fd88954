"""The doctor: logs are read as they are, faults are found, and what cannot be told apart is said to be so."""

from __future__ import annotations

import json

import numpy as np
import pytest

from pccl import Algorithm, AllToAll, FormatError, PcclError
from pccl.doctor import (
    Cause,
    Diagnosis,
    Expectation,
    Fault,
    Log,
    boxes_of,
    diagnose,
    faults_of,
    parse_logs,
)
from pccl.doctor.expectation import best_of_nccl
from pccl.topology import parse_topology
from pccl.topology.edits import damaged
from tests.doctor.logs import log_of
from tests.end_to_end.program import pccl as run
from tests.end_to_end.program import refused

SIZES = [2**16, 2**20, 2**24]

OLD = """# nThread 1 nGpus 1 minBytes 1310720000 maxBytes 1310720000 step: 1048576(bytes)
# Using devices
#   Rank  0 Pid   1320 on ip-1 device  0 [0x00] Tesla V100-SXM2-16GB
#   Rank  1 Pid   2066 on ip-2 device  0 [0x00] Tesla V100-SXM2-16GB
#   Rank  2 Pid   2067 on ip-2 device  1 [0x00] Tesla V100-SXM2-16GB
#                                                       out-of-place                       in-place
#       size         count      type   redop     time   algbw   busbw  error     time   algbw   busbw  error
#        (B)    (elements)                       (us)  (GB/s)  (GB/s)            (us)  (GB/s)  (GB/s)
  1310720000     327680000     float     sum  1000000    3.00    4.00  0e+00  1000001    3.00    4.00  0e+00
"""


@pytest.fixture(scope="module")
def h100() -> Expectation:
    """What is expected of two boxes; computed once for all tests."""
    return Expectation(parse_topology("h100:2"))


def whole(machine: Expectation, **fault: object) -> str:
    """A log of two runs of all NPUs, one table after another."""
    return log_of(machine, "all-reduce", SIZES, **fault) + log_of(
        machine, "all-to-all", SIZES, **fault
    )


def test_a_log_of_an_old_version_says_what_ran_by_its_rates():
    (log,) = parse_logs(OLD)
    assert (log.kind, log.sizes, log.times) == ("all-reduce", (1310720000,), (1.0,))
    assert log.devices == (("ip-1", 0), ("ip-2", 0), ("ip-2", 1))


def test_what_others_put_around_the_table_is_passed_over():
    tagged = "".join(f"[1,0]<stdout>:{line}\n" for line in OLD.splitlines())
    coloured = OLD.replace("  1310720000 ", "\x1b[32m  1310720000\x1b[0m ")
    assert parse_logs(tagged)[0].times == parse_logs(coloured)[0].times == (1.0,)


def test_a_file_may_hold_several_tables():
    gather = OLD.replace("# nThread", "+ ./build/all_gather_perf -b 8\n# nThread").replace(
        "sum", "none"
    )
    first, second = parse_logs(OLD + gather, "both")
    assert (first.name, first.kind) == ("both 1", "all-reduce")
    assert (second.name, second.kind) == ("both 2", "all-gather")


def test_a_second_header_without_ranks_has_those_of_the_first():
    header = next(line for line in OLD.splitlines() if "busbw" in line)
    first, second = parse_logs(OLD + header + "\n  64 16 float sum 10 1.00 1.33 0e+00\n")
    assert (first.sizes, second.sizes) == ((1310720000,), (64,))
    assert second.devices == first.devices


def test_of_several_measurements_of_a_size_the_median_counts():
    """As of a test that goes through its sizes several times (``-N``)."""
    line = OLD.splitlines()[-1]
    again = [line.replace(" 1000000 ", f" {time} ") for time in (9000000, 1000100)]
    (log,) = parse_logs(OLD + "\n".join(again))
    assert log.times == (1.0001,)


def test_wrong_results_are_not_passed_over():
    ring = Expectation(parse_topology("ring:4"))
    text = log_of(ring, "all-gather", [2**20, 2**24], start=0.0)
    assert parse_logs(text)[0].wrong == ()
    before, after = text.rsplit("N/A", 1)
    (log,) = parse_logs(f"{before}17{after}")
    assert log.wrong == (2**24,)
    found = diagnose(ring.topology, log, expectation=ring)
    assert [row.wrong for row in found.rows] == [False, True]
    assert found.facts()["wrong results"].startswith("all-gather of 16MiB; find out why")


def test_half_a_table_is_read_as_far_as_it_goes():
    lines = "".join(f"{2**k} 1 float sum {k}.5 1.0 1.0 0 {k}.5 1.0 1.0 0\n" for k in range(3, 9))
    (log,) = parse_logs(OLD + lines + "512 1 float sum 10.")
    assert log.sizes == (8, 16, 32, 64, 128, 256, 1310720000)


@pytest.mark.parametrize(
    "text", ["", "hello", "# size time algbw busbw\n", "# size busbw time\n8 x y z\n"]
)
def test_what_is_no_log_is_refused(text):
    with pytest.raises(FormatError, match="has no table of nccl-tests"):
        parse_logs(text)


def test_faults_that_look_alike_have_one_colour():
    """On a symmetric network only the kind of a fault can be told; runs in boxes tell the boxes."""
    topology = parse_topology("h100:2")
    everyone = range(16)
    boxes = [box[:8] for box in boxes_of(topology)]
    assert boxes == [list(range(8)), list(range(8, 16))]
    assert len({fault.colour for fault in faults_of(topology, [everyone])}) == 4
    assert len({fault.colour for fault in faults_of(topology, [everyone, *boxes])}) == 8


# What is hidden: a kind of fault, and how many times slower it is; infinitely if it is gone.
HIDDEN = [
    *[("nic", factor) for factor in (2.0, 3.0, 1.7, 4.0)],
    *[("nic", np.inf)] * 4,
    *[("nvlink", 2.0)] * 6,  # half of the NVLinks
    *[("box", factor) for factor in (2.0, 1.6, 3.0)],
    *[("box-nics", factor) for factor in (2.0, 1.6, 3.0)],
]


def visit(machine: Expectation, hidden: Fault, factor: float, seed: int) -> list[Diagnosis]:
    """Diagnoses: the doctor gets two runs of all NPUs; then, with them, those that it asks for, as long as it does."""
    text = whole(machine, fault=hidden, factor=factor, seed=seed)
    found = []
    while len(found) < 4:
        found.append(diagnose(machine.topology, *parse_logs(text), expectation=machine))
        advice = found[-1].advice
        if advice is None or not advice.runs:
            break
        for number, asked in enumerate(advice.runs):
            own = {"group": asked.group, "seed": 1000 * seed + number}
            text += log_of(machine, asked.kind, SIZES, fault=hidden, factor=factor, **own)
    return found


def is_right(cause: Cause, hidden: Fault, factor: float) -> bool:
    """Whether a cause holds the hidden fault, and says how bad it is."""
    if hidden.links not in {fault.links for fault in cause.faults}:
        return False
    return cause.gone if np.isinf(factor) else abs(cause.factor / factor - 1) < 0.1


def look_alike(diagnosis: Diagnosis, cause: Cause) -> bool:
    """Whether a symmetry of the network and of all that ran maps the faults of a cause onto each other."""
    named = {fault.links for fault in cause.faults}
    faults = faults_of(diagnosis.topology, dict.fromkeys(run.group for run in diagnosis.runs))
    return len({fault.colour for fault in faults if fault.links in named}) == 1


def test_faults_are_found(h100):
    """Twenty logs with one hidden fault each.

    From two runs of all NPUs, the right fault is in one of at most two causes. With the runs that the doctor then asks
    for, it is in the first cause, which holds nothing that the runs can tell from it: at most one other fault.
    """
    dice = np.random.default_rng(5)
    faults = faults_of(h100.topology, [range(16)])
    assert len(HIDDEN) == 20
    named = named_first = found = 0
    for seed, (kind, factor) in enumerate(HIDDEN):
        hidden = dice.choice([fault for fault in faults if fault.what == kind])
        diagnoses = visit(h100, hidden, factor, seed)
        first = diagnoses[0]
        last = diagnoses[-1]
        right = [is_right(c, hidden, factor) and look_alike(first, c) for c in first.causes]
        # Of four kinds at most two look alike: one NIC and all of a box, NVLinks and all of a box.
        named += any(right) and len(right) <= 2
        named_first += any(right[:1])
        found += any(
            is_right(cause, hidden, factor) and look_alike(last, cause) and len(cause.faults) <= 2
            for cause in last.causes[:1]
        )
    # A slow NIC goes before all NICs of a box, and NVLinks before all of them: six are boxes.
    assert named_first >= 14
    assert named >= 18
    assert found >= 18


def test_healthy_ones_are_called_healthy(h100):
    for seed in range(10):
        text = whole(h100, seed=100 + seed, scatter=0.015)
        diagnosis = diagnose(h100.topology, *parse_logs(text), expectation=h100)
        assert diagnosis.healthy, diagnosis.verdict
        assert "no single fault" in diagnosis.verdict


def test_more_runs_find_the_place(h100):
    """Runs on the same NPU of both boxes leave the two ends of one rail, also those of All-Reduces."""
    hidden = next(
        fault for fault in faults_of(h100.topology, [range(16)]) if "NIC of npu11" in fault.where
    )
    text = whole(h100, fault=hidden, factor=2.0)
    advice = diagnose(h100.topology, *parse_logs(text), expectation=h100).advice
    assert [run.group for run in advice.runs] == [(npu, npu + 8) for npu in range(8)]
    # Sixteen NICs and two boxes of them.
    assert "on the same NPU of all boxes" in str(advice)
    assert str(advice).endswith("that leaves 2 of 18")
    rails = [
        log_of(h100, "all-reduce", SIZES[2:], group=(p, p + 8), fault=hidden, factor=2.0, seed=p)
        for p in range(8)
    ]
    diagnosis = diagnose(h100.topology, *parse_logs(text + "".join(rails)), expectation=h100)
    assert {fault.where for fault in diagnosis.causes[0].faults} == {
        "the NIC of npu3 (to rail3)",
        "the NIC of npu11 (to rail3)",
    }
    assert "look at the counters" in str(diagnosis.advice)
    # Of what the network allows to all: pairs might go through NPUs that take no part.
    assert diagnosis.share > 0.3


@pytest.mark.parametrize("factor", [2.0, np.inf])
def test_pairs_find_a_link(factor):
    """Halves of a box leave two links that are in the same halves; the NPUs at the ends of each tell them apart."""
    mi300x = Expectation(parse_topology("mi300x"))
    hidden = next(
        fault for fault in faults_of(mi300x.topology, [range(8)]) if "npu1 and npu7" in fault.where
    )
    _, in_halves, in_pairs = visit(mi300x, hidden, factor, 1)
    assert [run.group for run in in_halves.advice.runs] == [(1, 7), (3, 5)]
    assert len(in_halves.causes[0].faults) == 2
    assert [fault.where for fault in in_pairs.causes[0].faults] == [hidden.where]
    assert in_pairs.causes[0].gone == np.isinf(factor)
    assert in_pairs.advice is None


def test_boxes_are_found_in_damaged_networks_too():
    """A NIC that is known to be slow, or an NPU that is gone, leaves two boxes."""
    h100 = parse_topology("h100:2")
    slow = h100.edited(["rail0.bandwidth=25GB/s"])
    assert boxes_of(slow) == boxes_of(h100)
    assert [len(box) for box in boxes_of(damaged(h100, ["npu5"]))] == [8, 9]
    # MI300X: links in a box are hardly faster than NICs.
    assert len(boxes_of(parse_topology("mi300x:2"))) == 2


def test_ranks_are_npus_by_host_and_device():
    topology = parse_topology("h100:2")
    log = Log("log", "all-reduce", (2**20,), (1e-3,), (("node10", 1), ("node2", 3)))
    assert diagnose(topology, log).runs[0].group == (9, 3)
    assert diagnose(topology, log, hosts=["node10", "node2"]).runs[0].group == (1, 11)
    with pytest.raises(PcclError, match="no NPU for device 8 of node1"):
        diagnose(topology, Log("log", "all-reduce", (8,), (1.0,), (("node1", 8),)))


def test_nccl_has_an_algorithm_or_there_is_nothing_to_expect():
    ring = parse_topology("ring:4")
    assert isinstance(best_of_nccl(ring, AllToAll("1MiB")), Algorithm)
    with pytest.raises(PcclError, match="which collective ran; say which"):
        diagnose(ring, Log("log", "", (8,), (1.0,)))


def test_the_command(tmp_path):
    """As a table, as JSON and as a figure, all of the same."""
    ring = Expectation(parse_topology("ring:4"))
    log = tmp_path / "gather.log"
    log.write_text(log_of(ring, "all-gather", [2**20, 2**24], start=0.0))
    command = ("doctor", log, "-t", "ring:4")
    document = json.loads(run(*command, "--json").stdout)
    assert document["healthy"] is True
    assert [row["size"] for row in document["rows"]] == [2**20, 2**24]
    assert document["rows"][1]["because"] == "what must leave NPUs 1-3"
    figure = tmp_path / "doctor.svg"
    shown = run(*command, "--figure", figure).stdout
    assert document["verdict"] in shown
    assert "NCCL, as it should be" in figure.read_text()
    assert "there is no such file" in refused("doctor", tmp_path / "none.log", "-t", "ring:4")
    assert "no table of nccl-tests" in refused("doctor", figure, "-t", "ring:4")


def test_what_is_known_to_be_wrong_goes_into_the_network(tmp_path):
    """A log of a damaged ring is that of a sick ring, and that of a well one if the doctor knows."""
    damage = ("--without", "npu3", "--set", "npu0:npu1.bandwidth=50%")
    known = parse_topology("ring:5")
    known = damaged(known, ["npu3"]).edited(["npu0:npu1.bandwidth=50%"])
    log = tmp_path / "gather.log"
    log.write_text(log_of(Expectation(known), "all-gather", [2**20, 2**24], start=0.0))
    assert json.loads(run("doctor", log, "-t", "ring:5", *damage, "--json").stdout)["healthy"]
    sick = run("doctor", log, "-t", "ring:5", *damage[:2], "--json").stdout
    assert json.loads(sick)["causes"][0]["what"] == "cable"
    assert "no device" in refused("doctor", log, "-t", "ring:5", "--without", "npu9")
