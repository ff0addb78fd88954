"""The verifier: schedules written by hand that it must accept or refuse, and its agreement with a slow, obvious one."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st

from pccl import (
    Algorithm,
    AllGather,
    AllReduce,
    AllToAll,
    Bound,
    Broadcast,
    Condition,
    Custom,
    Link,
    PcclError,
    Reduce,
    ReduceScatter,
    SendRecv,
    Switch,
    Topology,
    VerificationError,
    verify,
)
from pccl.units import Bytes, Picoseconds
from tests.algorithm.examples import LINE, PAIR, RING, US, network, schedule, star
from tests.algorithm.reference import is_correct
from tests.strategies import problems, synthesized

SEND = SendRecv("1kB", (0, 1))

# --- schedules that are right ----------------------------------------------------------------------------------------

RIGHT = {
    "a plain send": schedule(PAIR, SEND, (0, 0, 1, 0)),
    "later than need be": schedule(PAIR, SEND, (0, 0, 1, 7.5)),
    "forwarded the moment it arrives": schedule(LINE, SendRecv("1kB", (0, 2)), (0, 0, 1, 0), (0, 1, 2, 1)),
    "a redundant copy of a plain chunk, over the same link": schedule(PAIR, SEND, (0, 0, 1, 0), (0, 0, 1, 1)),
    "a redundant copy of a plain chunk, back to its source": schedule(PAIR, SEND, (0, 0, 1, 0), (0, 1, 0, 1)),
    "a copy on another way, too late to be of use": schedule(
        network(3, (0, 1), (1, 2), (0, 2)), Broadcast("1kB"), (0, 0, 1, 0), (0, 0, 2, 0), (0, 1, 2, 1)
    ),
    "a copy to a device that nobody asked to have it": schedule(LINE, SEND, (0, 0, 1, 0), (0, 1, 2, 1)),
    "back to back on one link": schedule(PAIR, SendRecv("3kB", (0, 1), chunks=3), *((i, 0, 1, i) for i in range(3))),
    "latency overlaps with the next transmission": schedule(
        network(2, (0, 1), latency="5us"), SendRecv("2kB", (0, 1), chunks=2), (0, 0, 1, 0), (1, 0, 1, 1)
    ),
    "an exclusive link, held for its latency": schedule(
        network(2, (0, 1), latency="5us", exclusive=True), SendRecv("2kB", (0, 1), chunks=2), (0, 0, 1, 0), (1, 0, 1, 6)
    ),
    "nothing to do": schedule(PAIR, AllGather("1kB", [1])),
    # Each NPU sends its partial sum for the share of another, which adds its own and passes it on.
    "ring reduce-scatter": schedule(
        network(4, *RING),
        ReduceScatter("4kB"),
        *((i, (i + step + 1) % 4, (i + step + 2) % 4, step, "add") for i in range(4) for step in range(3)),
    ),
    # Both partners send what they have at the same time, and add what they get: after two exchanges all have the sum.
    "recursive doubling all-reduce, partial sums exchanged": schedule(
        network(4, *((a, b) for a in range(4) for b in range(4) if a != b)),
        Custom([Condition(range(4), range(4), "1kB", reduces=True)]),
        *((0, i, i ^ bit, step, "add") for step, bit in enumerate((1, 2)) for i in range(4)),
    ),
    "all-reduce in one step: everyone sends to everyone": schedule(
        network(3, *((a, b) for a in range(3) for b in range(3) if a != b)),
        Custom([Condition(range(3), range(3), "1kB", reduces=True)]),
        *((0, a, b, 0, "add") for a in range(3) for b in range(3) if a != b),
    ),
    "a tree through a switch that multiplies": schedule(
        star(4, multicast=True), Broadcast("1kB"), (0, 0, 4, 0), (0, 4, 1, 1), (0, 4, 2, 1), (0, 4, 3, 1)
    ),
    "messages through a plain switch: what leaves it has entered it": schedule(
        star(3), Broadcast("1kB"), (0, 0, 3, 0), (0, 0, 3, 1), (0, 3, 1, 1), (0, 3, 2, 2)
    ),
    "partial sums through a plain switch, one by one": schedule(
        star(3), Reduce("1kB", root=0),
        (0, 1, 3, 0, "add"), (0, 2, 3, 0, "add"), (0, 3, 0, 1, "add"), (0, 3, 0, 2, "add"),
    ),
    "a message that a plain switch has taken in for nothing": schedule(
        star(2), SEND, (0, 0, 2, 0), (0, 0, 2, 1), (0, 2, 1, 2)
    ),
    "a switch that adds, but does not multiply": schedule(
        star(3, reduce=True), Reduce("1kB", root=0),
        (0, 1, 3, 0, "add"), (0, 2, 3, 0, "add"), (0, 3, 0, 1, "add"),
    ),
    "a switch that multiplies, but does not add": schedule(
        star(3, multicast=True), [Reduce("1kB", root=0), Broadcast("1kB")],
        (0, 1, 3, 0, "add"), (0, 2, 3, 0, "add"), (0, 3, 0, 1, "add"), (0, 3, 0, 2, "add"),
        (1, 0, 3, 0), (1, 3, 1, 1), (1, 3, 2, 1),
    ),
    "a switch adds up, and is the root of an all-reduce": schedule(
        star(4, multicast=True, reduce=True),
        Custom([Condition(range(4), range(4), "1kB", reduces=True)]),
        *((0, i, 4, 0, "add") for i in range(4)),
        *((0, 4, i, 1) for i in range(4)),
    ),
    "a plain switch passes different messages on at the same time": schedule(
        star(2), AllToAll("2kB"), (0, 0, 2, 0), (1, 1, 2, 0), (0, 2, 1, 1), (1, 2, 0, 1)
    ),
    "a plain switch takes in copies at the same time": schedule(
        network(3, (0, 1), (0, 3), (1, 3), (3, 2), switches=[Switch()]),
        SendRecv("1kB", (0, 2)),
        (0, 0, 1, 0), (0, 0, 3, 1), (0, 1, 3, 1), (0, 3, 2, 2),
    ),
    "one chunk after another through a buffer for one": schedule(
        star(2, buffer=1), SendRecv("2kB", (0, 1), chunks=2), (0, 0, 2, 0), (0, 2, 1, 1), (1, 0, 2, 2), (1, 2, 1, 3)
    ),
    "a chunk that comes back to a buffer it has left": schedule(
        star(3, buffer=1),
        [SendRecv("1kB", (0, 1)), SendRecv("1kB", (1, 2))],
        (0, 0, 3, 0), (0, 3, 1, 1), (1, 1, 3, 2), (1, 3, 2, 3), (0, 1, 3, 4), (0, 3, 2, 5),
    ),
    "a sum for someone who contributes nothing": schedule(
        LINE, Custom([Condition([0, 1], 2, "1kB", reduces=True)]), (0, 0, 1, 0, "add"), (0, 1, 2, 1, "add")
    ),
    "a partial copy, replaced by a fuller one": schedule(
        LINE,
        Custom([Condition([0, 1], 2, "1kB", reduces=True)]),
        (0, 1, 2, 0), (0, 0, 1, 0, "add"), (0, 1, 2, 1),
    ),
}  # fmt: skip


@pytest.mark.parametrize("algorithm", RIGHT.values(), ids=RIGHT)
def test_right(algorithm: Algorithm) -> None:
    verify(algorithm)
    assert is_correct(algorithm)


def test_rabenseifner_all_reduce() -> None:
    """Recursive halving, then recursive doubling, among four: a share is added up in two steps and spread in two."""
    rows = []
    for share in range(4):
        for step, bit in enumerate((2, 1)):  # those whose bits still agree with the share's collect
            senders = [
                i for i in range(4) if (i ^ share) & bit and not (i ^ share) & (3 & ~(2 * bit - 1))
            ]
            rows += [(share, i, i ^ bit, 4 * step, "add") for i in senders]
        for step, bit in enumerate((1, 2)):
            holders = [i for i in range(4) if (i ^ share) < bit]
            rows += [(share, i, i ^ bit, 4 * (2 + step)) for i in holders]
    # Several shares go over the same link in a step: one after another.
    used: dict[tuple[int, int, int], int] = {}
    spread = []
    for chunk, a, b, start, *add in rows:
        turn = used[a, b, start] = used.get((a, b, start), -1) + 1
        spread.append((chunk, a, b, start + turn, *add))
    full = network(4, *((a, b) for a in range(4) for b in range(4) if a != b))
    algorithm = schedule(full, AllReduce("4kB"), *spread)
    assert len(algorithm.transfers) == 24  # 2 (n - 1) / n of the buffer, per NPU
    verify(algorithm)
    assert is_correct(algorithm)


# --- schedules that are wrong ----------------------------------------------------------------------------------------

TWO = SendRecv("2kB", (0, 1), chunks=2)
SUM = Custom([Condition(range(3), range(3), "1kB", reduces=True)])

WRONG = {
    "link used twice at once": (
        schedule(PAIR, TWO, (0, 0, 1, 0), (1, 0, 1, 0.5)),
        r"transfer 1 \(chunk 1 over link 0 \(NPU 0 -> NPU 1\) at 500ns\): the link is held until 1us by chunk 0",
    ),
    "the very same transfer twice": (
        schedule(PAIR, SEND, (0, 0, 1, 0), (0, 0, 1, 0)),
        r"transfer 1 .*: the link is held until 1us by chunk 0",
    ),
    "exclusive link used during its latency": (
        schedule(network(2, (0, 1), latency="5us", exclusive=True), TWO, (0, 0, 1, 0), (1, 0, 1, 5.9)),
        r"transfer 1 .*: the link is held until 6us by chunk 0",
    ),
    "sender does not have the chunk yet": (
        schedule(LINE, SendRecv("1kB", (0, 2)), (0, 0, 1, 0), (0, 1, 2, 0.999999)),
        r"transfer 1 \(chunk 0 over link 1 \(NPU 1 -> NPU 2\) at .*\): NPU 1 does not have the chunk before 1us",
    ),
    "sender does not have the chunk yet, for latency": (
        schedule(network(3, (0, 1), (1, 2), latency="2us"), SendRecv("1kB", (0, 2)), (0, 0, 1, 0), (0, 1, 2, 2)),
        r"transfer 1 .*: NPU 1 does not have the chunk before 3us",
    ),
    "sender never gets it": (
        schedule(LINE, SendRecv("1kB", (0, 2)), (0, 1, 2, 4)),
        r"transfer 0 \(chunk 0 over link 1 .* at 4us\): NPU 1 does not have the chunk at that time",
    ),
    "destination never reached": (
        schedule(LINE, Broadcast("1kB"), (0, 0, 1, 0)),
        r"chunk 0 \(broadcast\) never gets to NPU 2",
    ),
    "nothing happens": (schedule(PAIR, SEND), r"chunk 0 \(send-recv\) never gets to NPU 1"),
    "reduce flag on a plain chunk": (
        schedule(PAIR, SEND, (0, 0, 1, 0, "add")),
        r"transfer 0 \(chunk 0, link 0, start 0 ps\): it reduces, but its chunk is not a sum",
    ),
    "negative start": (
        schedule(PAIR, SEND, (0, 0, 1, -0.000001)),
        r"transfer 0 \(chunk 0, link 0, start -1 ps\): it starts before time zero",
    ),
    "contribution counted twice": (
        schedule(PAIR, Reduce("1kB"), (0, 1, 0, 0, "add"), (0, 1, 0, 1, "add")),
        r"transfer 1 .*: NPU 0 would count the contribution of NPU 1 twice",
    ),
    "own contribution comes back": (
        schedule(PAIR, AllReduce("2kB"), (0, 1, 0, 0, "add"), (0, 0, 1, 1, "add")),
        r"transfer 1 \(chunk 0 .*: NPU 1 would count the contribution of NPU 1 twice",
    ),
    "sum incomplete": (
        schedule(LINE, Reduce("1kB"), (0, 1, 0, 0, "add")),
        r"chunk 0 \(reduce\): the sum at NPU 0 is not complete",
    ),
    "passed on before the last contribution came in": (
        schedule(LINE, Reduce("1kB"), (0, 2, 1, 0, "add"), (0, 1, 0, 0.999999, "add")),
        r"chunk 0 \(reduce\): the sum at NPU 0 is not complete",
    ),
    "copy overwrites a contribution": (
        schedule(PAIR, Reduce("1kB"), (0, 1, 0, 0)),
        r"transfer 0 .*: the copy would overwrite the contribution of NPU 0 at NPU 0",
    ),
    "an older partial sum overwrites a newer one": (
        schedule(
            network(3, (1, 0), (2, 1), (1, 2), (2, 0)), Custom([Condition([1, 2], 0, "1kB", reduces=True)]),
            (0, 2, 1, 0, "add"), (0, 1, 0, 1, "add"), (0, 2, 0, 2),
        ),
        r"transfer 2 .*: the copy would overwrite the contribution of NPU 1 at NPU 0",
    ),
    "a relay has no contribution to send": (
        schedule(LINE, Custom([Condition([0, 2], 0, "1kB", reduces=True)]), (0, 1, 0, 0, "add")),
        r"transfer 0 .*: NPU 1 does not have the chunk at that time",
    ),
    "all-reduce without its second half": (
        schedule(LINE, SUM, (0, 0, 1, 0, "add"), (0, 2, 1, 0, "add"), (0, 1, 0, 1)),
        r"chunk 0 \(custom\): the sum at NPU 2 is not complete",
    ),
    "a plain switch multiplies": (
        schedule(star(3), Broadcast("1kB"), (0, 0, 3, 0), (0, 3, 1, 1), (0, 3, 2, 2)),
        r"transfer 2 .*: switch 3 \(hub\) does not have the chunk to pass on at that time",
    ),
    "a plain switch passes the same message on twice": (
        schedule(
            star(3), Broadcast("1kB"), (0, 0, 3, 0), (0, 3, 1, 1), (0, 3, 2, 2), follows=[-1, 0, 0]
        ),
        r"transfer 2 .*: switch 3 \(hub\) passes on what it has passed on before; it can neither multiply nor add",
    ),
    "a plain switch adds": (
        schedule(
            star(3), Reduce("1kB", root=0),
            (0, 1, 3, 0, "add"), (0, 2, 3, 0, "add"), (0, 3, 0, 1, "add"),
        ),
        r"chunk 0 \(reduce\): the sum at NPU 0 is not complete",
    ),
    "a switch that adds, but does not multiply, sends a sum twice": (
        schedule(
            star(3, reduce=True), Custom([Condition([0, 1], [0, 2], "1kB", reduces=True)]),
            (0, 0, 3, 0, "add"), (0, 1, 3, 0, "add"), (0, 3, 2, 1, "add"), (0, 3, 0, 2, "add"),
        ),
        r"transfer 3 .*: switch 3 \(hub\) does not have the chunk at that time",
    ),
    "a message is passed on before it is there": (
        schedule(star(2), SEND, (0, 0, 2, 0), (0, 2, 1, 0.5)),
        r"transfer 1 .*: switch 2 \(hub\) does not have the chunk to pass on at that time",
    ),
    "a link used during the gap after a message": (
        schedule(network(2, (0, 1), gap="1us"), TWO, (0, 0, 1, 0), (1, 0, 1, 1.9)),
        r"transfer 1 .*: the link is held until 2us by chunk 0",
    ),
    "buffer exceeded": (
        schedule(star(2, buffer=1), AllToAll("2kB"), (0, 0, 2, 0), (1, 1, 2, 0.5), (0, 2, 1, 1), (1, 2, 0, 1.5)),
        r"transfer 2 \(chunk 1 over .* at 500ns\): switch 2 \(hub\) would hold more chunks than its buffer of 1",
    ),
    "buffer exceeded by a chunk that waits": (
        schedule(star(2, buffer=1), TWO, (0, 0, 2, 0), (0, 2, 1, 3), (1, 0, 2, 1), (1, 2, 1, 2)),
        r"switch 2 \(hub\) would hold more chunks than its buffer of 1",
    ),
    "a chunk leaves twice, and is held until the second time": (
        schedule(
            star(3, buffer=1, multicast=True), [Broadcast("1kB"), SendRecv("1kB", (1, 2))],
            (0, 0, 3, 0), (0, 3, 1, 1), (0, 3, 2, 4), (1, 1, 3, 2), (1, 3, 2, 3),
        ),
        r"transfer 3 \(chunk 1 .*: switch 3 \(hub\) would hold more chunks than its buffer of 1",
    ),
    "a chunk that comes in anew is sent on before it is there: it was never gone": (
        schedule(
            star(3, buffer=1, multicast=True), [Broadcast("1kB"), SendRecv("1kB", (1, 2))],
            (0, 0, 3, 0), (0, 3, 1, 1), (1, 1, 3, 2), (0, 0, 3, 4), (0, 3, 2, 4.5), (1, 3, 2, 3),
        ),
        r"would hold more chunks than its buffer of 1",
    ),
    "a switch adds to a sum that it has sent before: it was never gone": (
        schedule(
            star(3, buffer=1, reduce=True, multicast=True),
            [Custom([Condition([0, 1], [2], "1kB", reduces=True)]), SendRecv("1kB", (1, 2))],
            (0, 0, 3, 0, "add"), (0, 3, 2, 1), (1, 1, 3, 2), (1, 3, 2, 3), (0, 1, 3, 4, "add"), (0, 3, 2, 5),
        ),
        r"would hold more chunks than its buffer of 1",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("algorithm", "message"), WRONG.values(), ids=WRONG)
def test_wrong(algorithm: Algorithm, message: str) -> None:
    with pytest.raises(VerificationError, match=message):
        verify(algorithm)
    assert not is_correct(algorithm)


def test_more_contributions_than_bits_in_a_word() -> None:
    hub = star(70, multicast=True, reduce=True)
    everyone = Custom([Condition(range(70), 0, "1kB", reduces=True)])
    rows = [(0, i, 70, 0, "add") for i in range(1, 70)] + [(0, 70, 0, 1, "add")]
    verify(schedule(hub, everyone, *rows))
    with pytest.raises(VerificationError, match="the sum at NPU 0 is not complete"):
        verify(schedule(hub, everyone, *rows[:66], *rows[67:]))
    with pytest.raises(
        VerificationError, match=r"switch 70 \(hub\) would count the contribution of NPU 67 twice"
    ):
        verify(schedule(hub, everyone, *rows, (0, 67, 70, 1, "add")))


# --- algorithms that do not fit together -----------------------------------------------------------------------------


def test_conditions_of_other_collectives() -> None:
    algorithm = schedule(PAIR, SEND, (0, 0, 1, 0))
    with pytest.raises(VerificationError, match="the conditions are not those of the collectives"):
        verify(dataclasses.replace(algorithm, collectives=(SendRecv("2kB", (0, 1)),)))


def test_transfers_on_another_topology() -> None:
    faster = network(2, (0, 1), (1, 0), latency="1us")
    with pytest.raises(VerificationError, match="the transfers are on another topology"):
        verify(dataclasses.replace(schedule(PAIR, SEND, (0, 0, 1, 0)), topology=faster))


@pytest.mark.parametrize(
    ("column", "values", "message"),
    [
        ("chunk", [0, 2], "transfer 1 .*: there is no such chunk"),
        ("link", [-1, 0], "transfer 0 .*: there is no such link"),
        ("chunk", [1, 0], "transfers are not ordered by chunk and start"),
        ("start", [0], r"transfer columns differ in length: \[2, 2, 1, 2\]"),
    ],
)
def test_columns_that_did_not_go_through_build(
    column: str, values: list[int], message: str
) -> None:
    algorithm = schedule(PAIR, TWO, (0, 0, 1, 0), (1, 0, 1, 1))
    broken = dataclasses.replace(algorithm.transfers, **{column: np.array(values)})
    with pytest.raises(VerificationError, match=message):
        verify(dataclasses.replace(algorithm, transfers=broken))


def test_times_that_do_not_fit_an_integer() -> None:
    """A sum that wraps round would look early."""
    with pytest.raises(VerificationError, match="it starts later than"):
        verify(schedule(PAIR, TWO, (0, 0, 1, 2**62 / US), (1, 0, 1, 0)))
    slow = Topology.from_links(2, [Link(0, 1, "1B/s", "0ns")])
    with pytest.raises(VerificationError, match="it takes longer than"):
        verify(Algorithm.build(slow, [SendRecv(Bytes(2**61), (0, 1))], [0], [0], [0]))
    far = Topology.from_links(2, [Link(0, 1, "1GB/s", Picoseconds(2**62 - 1), exclusive=True)])
    late = Algorithm.build(far, [TWO], [0, 1], [0, 0], [2**61 - 2, 2**61 - 1])
    with pytest.raises(VerificationError, match="the link is held until"):
        verify(late)


# --- two verifiers agree ---------------------------------------------------------------------------------------------


@settings(max_examples=100, deadline=None, suppress_health_check=list(HealthCheck))
@given(problems(most=2), st.data())
def test_agrees_with_the_slow_verifier(problem, data: st.DataObject) -> None:
    """On algorithms of ours, and on those with a few random changes, most of which break a rule."""
    algorithm = synthesized(problem)
    assert is_accepted(algorithm) == is_correct(algorithm)
    if len(algorithm.transfers):
        for _ in range(4):
            changed = data.draw(changes(algorithm))
            accepted = is_accepted(changed)
            event("accepted" if accepted else "refused")
            assert accepted == is_correct(changed)


def is_accepted(algorithm: Algorithm) -> bool:
    try:
        verify(algorithm)
    except VerificationError:
        return False
    return True


@st.composite
def changes(draw: st.DrawFn, algorithm: Algorithm) -> Algorithm:
    """The algorithm with one to three of its transfers dropped, added, moved or altered."""
    transfers = algorithm.transfers
    rows = [
        list(row) for row in zip(*(getattr(transfers, c).tolist() for c in COLUMNS), strict=True)
    ]
    moments = sorted({0, *transfers.start.tolist(), *transfers.arrival.tolist()})
    for _ in range(draw(st.integers(1, 3))):
        row = draw(st.sampled_from(rows)) if rows else [0, 0, 0, False]
        what = draw(st.sampled_from(["drop", "again", "move", "nudge", "link", "chunk", "reduce"]))
        changed = list(row)
        if what in ("again", "move"):
            changed[2] = draw(st.sampled_from(moments))
        elif what == "nudge":
            changed[2] += draw(st.sampled_from([-1, 1]))
        elif what == "link":
            changed[1] = draw(st.integers(0, algorithm.topology.num_links - 1))
        elif what == "chunk":
            changed[0] = draw(st.integers(0, len(algorithm.conditions) - 1))
        elif what == "reduce":
            changed[3] = not changed[3]
        if what != "again" and row in rows:
            rows.remove(row)
        if what != "drop":
            rows.append(changed)
    columns = ([row[i] for row in rows] for i in range(4))
    return Algorithm.build(algorithm.topology, algorithm.collectives, *columns)


COLUMNS = ("chunk", "link", "start", "reduce")


def test_what_is_no_algorithm() -> None:
    with pytest.raises(PcclError, match=r"verify checks an algorithm, not 'x\.pccl'; pccl\.load"):
        verify("x.pccl")  # type: ignore[arg-type]


def test_a_bound_that_the_algorithm_beats() -> None:
    """Either the algorithm or the bound is wrong, then."""
    algorithm = schedule(PAIR, SEND, (0, 0, 1, 0))
    verify(dataclasses.replace(algorithm, bound=Bound("cut", algorithm.duration)))
    false = Bound("cut", Picoseconds(algorithm.duration + 1))
    with pytest.raises(VerificationError, match="its bound claims that nothing is faster than"):
        verify(dataclasses.replace(algorithm, bound=false))
