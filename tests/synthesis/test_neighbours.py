"""Good neighbours: no relay that gains nothing, everybody done early, priorities, weights and confinement."""

from __future__ import annotations

import pytest

import pccl
from pccl import (
    AllGather,
    AllReduce,
    AllToAll,
    CollectiveError,
    InfeasibleError,
    SendRecv,
    each_collective,
)
from pccl.synthesis.neighbours import classes_of

# One link between two NPUs, on which 1 kB takes 1 us.
PAIR = pccl.topology.line(2, bandwidth="1GB/s", latency="0ns")


def done(algorithm: pccl.Algorithm) -> list[float]:
    """When each collective is done, in microseconds."""
    return [int(row.finish) / 1e6 for row in each_collective(algorithm)]


def relayed(algorithm: pccl.Algorithm) -> int:
    return sum(row.relayed for row in each_collective(algorithm))


def test_the_short_one_goes_first() -> None:
    """All is done at 11 us whoever goes first; so it is the one that would wait longest."""
    both = pccl.synthesize(
        PAIR, SendRecv("10kB", (0, 1), chunks=1), SendRecv("1kB", (0, 1), chunks=1)
    )
    assert done(both) == [11, 1]


def test_weights_change_who_goes_first() -> None:
    long = SendRecv("10kB", (0, 1), chunks=1, weight=100)
    both = pccl.synthesize(PAIR, long, SendRecv("1kB", (0, 1), chunks=1))
    assert done(both) == [10, 11]


def test_a_higher_priority_runs_as_if_the_others_were_not_there() -> None:
    long = SendRecv("10kB", (0, 1), chunks=1, priority=1)
    both = pccl.synthesize(PAIR, long, SendRecv("1kB", (0, 1), chunks=1))
    assert done(both) == [10, 11]


def test_a_relay_that_gains_nothing_is_not_taken() -> None:
    """Two rails between two boxes of two: each group keeps to its own rail, as both are full anyway."""
    boxes = pccl.topology.hgx_h100(2)
    rails = [AllGather("64MiB", (rail, rail + 8)) for rail in range(8)]
    assert relayed(pccl.synthesize(boxes, *rails)) == 0


def test_a_relay_that_gains_time_is_taken() -> None:
    """The row of a mesh, alone: its neighbours have nothing else to do."""
    mesh = pccl.topology.mesh(4, 4)
    row = AllToAll("16MiB", (4, 5, 6, 7), chunks=4)
    free = pccl.synthesize(mesh, row)
    assert relayed(free) > 0
    confined = pccl.synthesize(mesh, AllToAll("16MiB", (4, 5, 6, 7), chunks=4, confined=True))
    assert relayed(confined) == 0
    assert free.duration < confined.duration


@pytest.mark.parametrize("kind", [AllGather, AllReduce, AllToAll])
def test_confined_chunks_keep_to_their_group_and_to_switches(kind: type[pccl.Collective]) -> None:
    boxes = pccl.topology.hgx_h100(2)
    group = (0, 1, 8, 9)
    algorithm = pccl.synthesize(boxes, kind("4MiB", group, confined=True))
    npus = set(algorithm.transfers.dst.tolist()) - set(boxes.switches.tolist())
    assert npus <= set(group)


def test_a_group_that_is_not_joined_by_itself_cannot_be_confined() -> None:
    corners = AllGather("1MiB", (0, 3), confined=True)
    with pytest.raises(
        InfeasibleError, match="from NPU 0 to NPU 3: no path of links inside its group, to which"
    ):
        pccl.synthesize(pccl.topology.mesh(2, 2), corners)
    # Of several destinations it names the one that cannot be reached.
    line = AllGather("1MiB", (0, 1, 3), confined=True)
    with pytest.raises(InfeasibleError, match="from NPU 0 to NPU 3: no path of links inside"):
        pccl.synthesize(pccl.topology.line(4), line)


def test_tensor_parallel_sums_do_not_wait_for_data_parallel_gathers() -> None:
    """Sums inside boxes go over NVLink, gathers between boxes over rails: each takes what it takes alone."""
    boxes = pccl.topology.hgx_h100(2)
    sums = [AllReduce("16MiB", tuple(range(8 * box, 8 * box + 8))) for box in range(2)]
    gathers = [AllGather("64MiB", (rail, rail + 8)) for rail in range(8)]
    alone = max(done(pccl.synthesize(boxes, *sums)))
    gathers_alone = max(done(pccl.synthesize(boxes, *gathers)))
    times = done(pccl.synthesize(boxes, *sums, *gathers))
    assert max(times[:2]) <= 1.1 * alone
    assert max(times[2:]) <= 1.005 * gathers_alone


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"weight": 0}, "the weight must be positive, not 0"),
        ({"weight": float("inf")}, "the weight must be positive, not inf"),
        ({"weight": "2"}, "the weight must be a number, not '2'"),
        ({"priority": 0.5}, "the priority must be a whole number, not 0.5"),
        ({"confined": "yes"}, "all-gather: confined must be true or false, not 'yes'"),
    ],
)
def test_wishes_that_make_no_sense(options: dict[str, object], message: str) -> None:
    with pytest.raises(CollectiveError, match=message):
        AllGather("1MiB", **options)  # type: ignore[arg-type]


def test_wishes_are_kept_in_files(tmp_path) -> None:
    wishes = AllGather("1MiB", (0, 1), priority=2, weight=0.5, confined=True)
    assert str(wishes).endswith("priority 2, weight 0.5, confined")
    algorithm = pccl.synthesize(PAIR, wishes)
    algorithm.save(tmp_path / "wishes.pccl")
    assert pccl.load(tmp_path / "wishes.pccl").collectives == algorithm.collectives


def test_a_scheme_that_takes_the_place_of_a_plan_is_a_good_neighbour_too() -> None:
    """NCCL's rings are as fast as what is found for both; but one of them need not wait for the other."""
    small = AllGather("256KiB")
    large = AllReduce("16MiB")
    switch = pccl.topology.switch(8)
    early, late = done(pccl.synthesize(switch, small, large))
    rings = pccl.baseline("nccl-ring", switch, small, large)
    assert late <= int(rings.duration) / 1e6
    assert early < 0.05 * late


@pytest.mark.parametrize("number", [2, 3])
def test_groups_that_are_alike_are_no_slower_than_what_people_have_today(number: int) -> None:
    groups = [range(3 * group, 3 * group + 3) for group in range(number)]
    ours = pccl.synthesize(
        pccl.topology.ring(3 * number), *(AllReduce("64KiB", group=group) for group in groups)
    )
    assert pccl.compare(ours).best_baseline.duration >= ours.duration


def test_the_bound_of_each_holds_however_it_is_cut() -> None:
    mesh = pccl.topology.mesh(4, 4)
    first = AllReduce("1MiB", group=range(8))
    both = pccl.synthesize(mesh, first, AllGather("4MiB", group=range(8, 16)), effort="fast")
    alone = pccl.synthesize(mesh, AllReduce("1MiB", group=range(8), chunks=64))
    assert each_collective(both)[0].bound <= alone.duration


@pytest.mark.parametrize("kind", [AllGather, AllReduce])
def test_of_two_that_are_the_same_one_is_done_early(kind: type[pccl.Collective]) -> None:
    """The other could not be done any sooner, whether they share the links or take turns."""
    switch = pccl.topology.switch(8)
    alone = done(pccl.synthesize(switch, kind("8MiB")))[0]
    early, late = sorted(done(pccl.synthesize(switch, kind("8MiB"), kind("8MiB"))))
    assert early < 1.02 * alone
    assert late < 2.01 * alone


def test_many_that_are_the_same_do_not_take_turns() -> None:
    """Each turn is timed anew, which would take long for all pairs of many NPUs."""
    mesh = pccl.topology.mesh(4, 4)

    def sends(number: int) -> list[pccl.Collective]:
        return [SendRecv("1kB", (0, other)) for other in range(1, number + 1)]

    assert [len(one.members) for one in classes_of(mesh, sends(8))] == [1] * 8
    assert [len(one.members) for one in classes_of(mesh, sends(9))] == [9]


def test_groups_that_are_alike_and_share_no_npu_are_done_together() -> None:
    rows = [range(4 * row, 4 * row + 4) for row in range(4)]
    mesh = pccl.topology.mesh(4, 4)
    times = done(pccl.synthesize(mesh, *(AllGather("1MiB", row, confined=True) for row in rows)))
    assert len(set(times)) == 1


def test_among_many_kinds_a_higher_priority_still_comes_first() -> None:
    mesh = pccl.topology.mesh(4, 4)
    alone = done(pccl.synthesize(mesh, AllGather("1MiB")))[0]
    others = [AllGather(f"{2**power}MiB") for power in range(1, 6)]
    assert done(pccl.synthesize(mesh, *others, AllGather("1MiB", priority=1)))[-1] == alone


def test_many_kinds_are_served_in_turn() -> None:
    """Those that come last are looked for together."""
    sends = [SendRecv(f"{size}kB", (0, 1), chunks=1) for size in range(1, 16)]
    times = done(pccl.synthesize(PAIR, *sends))
    assert times == [sum(range(size + 1)) for size in range(1, 16)]


def test_a_relay_that_delays_others_is_not_taken() -> None:
    """Alone, the short one would be done sooner with relays; but those are in the way of the long one."""
    mesh = pccl.topology.mesh(4, 4)
    short = AllReduce("1MiB", group=range(8, 16), confined=True)
    alone = done(pccl.synthesize(mesh, short))[0]
    long = AllGather("64MiB", group=range(8))
    both = pccl.synthesize(mesh, long, AllReduce("1MiB", group=range(8, 16)))
    assert done(both)[0] == done(pccl.synthesize(mesh, long))[0]
    assert done(both)[1] <= 1.01 * alone
