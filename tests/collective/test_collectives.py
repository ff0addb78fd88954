"""Collectives as plain data, and everything that can be wrong with one, each with a message that says what to do."""

from __future__ import annotations

import json
from dataclasses import fields

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import pccl
from pccl import (
    AllGather,
    AllToAllV,
    Broadcast,
    Collective,
    CollectiveError,
    Condition,
    Custom,
    PcclError,
    Reduce,
    SendRecv,
    UnitError,
)
from pccl.collective import COLLECTIVES, collective_from_dict, compile_conditions
from pccl.collective.kinds import KINDS
from tests.strategies import collectives

RING = pccl.topology.ring(4)
STAR = pccl.topology.switch(4)


@given(collectives(npus=5))
def test_plain_data_reads_back(collective: Collective) -> None:
    data = collective.to_dict()
    assert collective_from_dict(data) == collective
    assert collective_from_dict(json.loads(json.dumps(data))) == collective


@pytest.mark.parametrize("name", KINDS)
def test_what_is_declared_of_a_kind_is_true(name: str) -> None:
    kind = COLLECTIVES[name]
    assert kind.kind == name
    assert KINDS[name].fits_flags == ("pattern" not in {field.name for field in fields(kind)})
    assert getattr(pccl.collective, kind.__name__) is kind


def test_plain_data_is_short() -> None:
    assert AllGather("8MiB").to_dict() == {"kind": "all-gather", "size": "8MiB"}
    assert Broadcast("1kB", np.array([3, 1]), 2, root=np.int64(1)).to_dict() == {
        "kind": "broadcast", "size": "1kB", "group": [3, 1], "chunks": 2, "root": 1,
    }  # fmt: skip
    assert AllToAllV(np.array([[0, 7], [8, 0]])).to_dict() == {
        "kind": "all-to-all-v",
        "matrix": [[0, 7], [8, 0]],
    }
    assert Custom([Condition(np.int64(0), np.array([1]), "2B")]).to_dict() == {
        "kind": "custom",
        "pattern": [{"sources": [0], "destinations": [1], "size": "2B", "reduces": False}],
    }


def test_numbers_of_numpy_become_plain_ones() -> None:
    for collective in (
        Reduce("4B", root=np.int32(2), chunks=np.int64(2)),
        AllToAllV(np.ones((4, 4), np.int64), np.arange(4)),
        Custom(
            [{"sources": np.arange(2), "destinations": np.int64(1), "size": "1B", "reduces": True}]
        ),
    ):
        assert collective_from_dict(json.loads(json.dumps(collective.to_dict()))) == collective


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ({}, "there is no collective None; there are all-gather, reduce-scatter, "),
        ({"kind": "gossip"}, "there is no collective 'gossip'"),
        ({"kind": ["all-gather"]}, "there is no collective"),
        (
            {"kind": "all-gather"},
            "all-gather: .*'size'.*; its parameters are size, group, chunks, dtype, priority, weight, confined$",
        ),
        (
            {"kind": "all-gather", "size": "1B", "root": 0},
            "all-gather: .*'root'.*; its parameters are size, group, chun",
        ),
        (
            {"kind": "all-to-all-v", "matrix": 7},
            "all-to-all-v: the matrix must be a list of rows, not 7",
        ),
        ({"kind": "custom", "pattern": [7]}, "custom: "),
        ({"kind": "custom", "pattern": [{"sources": 0}]}, "custom: "),
        (
            {"kind": "custom", "pattern": [{"sources": "x", "destinations": 0, "size": "1B"}]},
            "sources of .*, not 'x'",
        ),
        (
            {
                "kind": "custom",
                "pattern": [{"sources": 0, "destinations": 1, "size": "1B", "reduces": 2}],
            },
            "true or false",
        ),
        (
            {"kind": "send-recv", "size": "1B", "cyclic": "yes"},
            "send-recv: cyclic must be true or false, not 'yes'",
        ),
        (["all-gather"], "a collective is given by its kind and its parameters, not by"),
        (
            {"kind": "all-gather", "size": "1B", "group": 3},
            "group must be a list of NPU numbers, not 3",
        ),
        (
            {"kind": "all-gather", "size": "1B", "group": ["a", 1]},
            "group must be a list of NPU numbers, not .*'a'",
        ),
        (
            {"kind": "all-gather", "size": "1B", "group": [0.5]},
            "group must be a list of NPU numbers, not .*0.5",
        ),
        (
            {"kind": "all-gather", "size": "1B", "group": "01"},
            "group must be a list of NPU numbers, not '01'",
        ),
        (
            {"kind": "broadcast", "size": "1B", "root": "1"},
            "root must be the number of an NPU, not '1'",
        ),
    ],
)
def test_wrong_plain_data(data, message: str) -> None:
    with pytest.raises(CollectiveError, match=message):
        collective_from_dict(data)


scalars = st.sampled_from(
    [None, True, -1, 0, 1, 2, 2**31, 2**63, 2**70, 0.5, float("nan"), "", "x", "4B", "7"]
)
anything = scalars | st.lists(scalars | st.lists(scalars, max_size=2), max_size=3)


@given(
    st.sampled_from(sorted(COLLECTIVES)),
    st.dictionaries(
        st.sampled_from(
            ["size", "group", "chunks", "root", "matrix", "cyclic", "whole", "pattern"]
        ),
        anything,
    ),
)
def test_any_plain_data_is_read_or_refused(kind: str, data: dict[str, object]) -> None:
    """A file written by hand may hold anything: an error of ours, never another."""
    try:
        collective = collective_from_dict({"kind": kind} | data)
        collective.conditions(RING)
    except PcclError:
        return
    assert collective_from_dict(json.loads(json.dumps(collective.to_dict()))) == collective


# --- every error -----------------------------------------------------------------------------------------------------

WRONG_IN_ITSELF = [
    (
        lambda: AllGather("4B", [0, 1, 0]),
        CollectiveError,
        "all-gather: NPU 0 appears twice in the group",
    ),
    (lambda: AllGather("4B", []), CollectiveError, "all-gather: the group is empty"),
    (lambda: AllGather("0B"), CollectiveError, "all-gather has a size of 0; it must be positive"),
    (
        lambda: AllGather(1024),
        UnitError,
        "size of all-gather 1024 has no unit: write for example '1KiB'",
    ),
    (lambda: AllGather("1024"), UnitError, "size of all-gather '1024' has no unit"),
    (
        lambda: AllGather("-4B"),
        UnitError,
        "size of all-gather '-4B' is not a number followed by a unit",
    ),
    (
        lambda: AllGather("4B", chunks=0),
        CollectiveError,
        "all-gather: chunks must be a positive whole number, not 0",
    ),
    (
        lambda: AllGather("4B", chunks=-1),
        CollectiveError,
        "chunks must be a positive whole number, not -1",
    ),
    (
        lambda: AllGather("4B", chunks=1.5),
        CollectiveError,
        "chunks must be a positive whole number, not 1.5",
    ),
    (
        lambda: AllGather("4B", chunks=2**31),
        CollectiveError,
        "2147483648 chunks are too many; 2147483647 is the limi",
    ),
    (
        lambda: AllGather("4B", chunks=True),
        CollectiveError,
        "chunks must be a positive whole number, not True",
    ),
    (
        lambda: Broadcast("4B", [0, 1], root=2),
        CollectiveError,
        "broadcast: root 2 is not in the group",
    ),
    (
        lambda: AllToAllV([[0, 1]]),
        CollectiveError,
        "row 0 has 2 entries, not 1, one for each row; the matrix must be square",
    ),
    (
        lambda: AllToAllV([[0, 1], [0]]),
        CollectiveError,
        "row 1 has 1 entry, not 2, one for each row; the matrix must be square",
    ),
    (
        lambda: AllToAllV([[0, -1], [0, 0]]),
        CollectiveError,
        "the matrix holds -1; bytes are whole and not negative",
    ),
    (
        lambda: AllToAllV([[0, 0.5], [0, 0]]),
        CollectiveError,
        "the matrix holds 0.5; bytes are whole and not negative",
    ),
    (lambda: AllToAllV([[0, float("nan")], [0, 0]]), CollectiveError, "the matrix holds nan"),
    (lambda: AllToAllV([[0, None], [0, 0]]), CollectiveError, "the matrix holds None"),
    (
        lambda: AllToAllV([[0, "5"], [0, 0]]),
        UnitError,
        "entry of the matrix of all-to-all-v '5' has no unit",
    ),
    (
        lambda: AllToAllV([[0, 2**62], [0, 0]]),
        UnitError,
        "entry of the matrix of all-to-all-v .* is too large",
    ),
    (
        lambda: AllToAllV([[0, 1], [0, 0]], [0, 1, 2]),
        CollectiveError,
        "the matrix is 2 x 2, but the group has 3 member",
    ),
    (lambda: Custom([]), CollectiveError, "custom: there is no condition"),
    (lambda: Condition([0, 1], 2, "1B"), CollectiveError, "does not reduce has one source, not"),
    (
        lambda: Condition([], 2, "1B", reduces=True),
        CollectiveError,
        r"sources \[\]: there must be some, each only onc",
    ),
    (
        lambda: Condition(0, [2, 2], "1B"),
        CollectiveError,
        r"destinations \[2, 2\]: there must be some, each only once",
    ),
    (lambda: Condition(0, 1, "0B"), CollectiveError, "a condition has a size of 0"),
    (lambda: Condition(0, 1, 5), UnitError, "size of a condition 5 has no unit"),
]

WRONG_ON_A_TOPOLOGY = [
    (STAR, AllGather("2B", [0, 4]), r"all-gather: device 4 \(switch0\) is a switch, not an NPU"),
    (
        STAR,
        AllGather("2B", [0, 5]),
        "all-gather: there is no NPU 5 in switch:4, which has NPUs 0-3",
    ),
    (
        RING,
        AllGather("2B", [0, -1]),
        "all-gather: there is no NPU -1 in ring:4, which has NPUs 0-3",
    ),
    (
        RING.without(devices=[1]),
        AllGather("2B", [0, 1]),
        "all-gather: NPU 1 is absent from ring:4, damaged",
    ),
    (
        RING.without(devices=[1]),
        AllGather("2B", [0, 9]),
        "no NPU 9 in ring:4, damaged, which has NPUs 0,2-3",
    ),
    (RING, Broadcast("2B", root=4), "broadcast: root 4 is not in the group"),
    (STAR, Broadcast("2B", root=4), "broadcast: root 4 is not in the group"),
    (RING, AllToAllV([[0, 3], [0, 0]]), "the matrix is 2 x 2, but the group has 4 members"),
    (
        RING,
        SendRecv("1B", [2]),
        "send-recv needs a sender and a receiver; the group has one member",
    ),
    (STAR, Custom([Condition(0, 4, "1B")]), r"custom: device 4 \(switch0\) is a switch"),
]


@pytest.mark.parametrize(("make", "error", "message"), WRONG_IN_ITSELF)
def test_wrong_in_itself(make, error: type[PcclError], message: str) -> None:
    with pytest.raises(error, match=message):
        make()


@pytest.mark.parametrize(("topology", "collective", "message"), WRONG_ON_A_TOPOLOGY)
def test_wrong_on_a_topology(topology: pccl.Topology, collective: Collective, message: str) -> None:
    with pytest.raises(CollectiveError, match=message):
        collective.conditions(topology)


def test_nothing_to_do() -> None:
    with pytest.raises(
        CollectiveError, match="there is nothing to do: give at least one collective"
    ):
        compile_conditions(RING, [])
    with pytest.raises(CollectiveError, match="'all-gather' is not a collective"):
        compile_conditions(RING, ["all-gather"])  # type: ignore[list-item]


class Table:
    """A data frame, as far as arrays are made of it: iterating over it gives the names of its columns."""

    def __iter__(self):
        return iter(["a", "b"])

    def __array__(self, dtype=None, copy=None):
        return np.array([[0.0, 3.0], [5.0, 0.0]])


@pytest.mark.parametrize(
    "matrix", [np.array([[0.0, 3.0], [5.0, 0.0]]), [[0, 3.0], [5, 0]], Table()]
)
def test_a_matrix_of_whole_floats(matrix) -> None:
    assert AllToAllV(matrix).matrix == ((0, 3), (5, 0))


@pytest.mark.parametrize("entry", [0.5, float("nan"), float("inf"), -1.0])
def test_a_matrix_of_other_floats(entry: float) -> None:
    with pytest.raises(CollectiveError, match="bytes are whole and not negative"):
        AllToAllV(np.array([[0.0, entry], [1.0, 0.0]]))
