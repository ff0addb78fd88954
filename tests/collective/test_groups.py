"""Process groups: device meshes against what PyTorch's init_device_mesh gives, and groups as text."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pccl import CollectiveError, device_mesh
from pccl.collective import format_group, parse_group

# mesh = init_device_mesh("cuda", (2, 2, 3), mesh_dim_names=("pp", "dp", "tp")); rank = pp * 6 + dp * 3 + tp
MESH = device_mesh((2, 2, 3), ("pp", "dp", "tp"))


@pytest.mark.parametrize(
    ("along", "expected"),
    [
        (("tp",), ((0, 1, 2), (3, 4, 5), (6, 7, 8), (9, 10, 11))),
        (("dp",), ((0, 3), (1, 4), (2, 5), (6, 9), (7, 10), (8, 11))),
        (("pp",), ((0, 6), (1, 7), (2, 8), (3, 9), (4, 10), (5, 11))),
        (("dp", "tp"), ((0, 1, 2, 3, 4, 5), (6, 7, 8, 9, 10, 11))),
        (("tp", "dp"), ((0, 1, 2, 3, 4, 5), (6, 7, 8, 9, 10, 11))),
        (("pp", "tp"), ((0, 1, 2, 6, 7, 8), (3, 4, 5, 9, 10, 11))),
        (("pp", "dp", "tp"), (tuple(range(12)),)),
    ],
)
def test_groups_of_a_mesh(along: tuple[str, ...], expected: tuple[tuple[int, ...], ...]) -> None:
    assert MESH.groups(*along) == expected


def test_ways_to_write_a_mesh() -> None:
    assert (
        device_mesh((2, 3), ("dp", "tp"))
        == device_mesh([2, 3], ["dp", "tp"])
        == device_mesh(dp=2, tp=3)
    )
    assert device_mesh((2, 3)).names == ("dim0", "dim1")
    assert len(MESH) == 12


@given(st.dictionaries(st.sampled_from("abcd"), st.integers(1, 4), min_size=1), st.data())
def test_groups_partition_the_ranks(sizes: dict[str, int], data: st.DataObject) -> None:
    mesh = device_mesh(**sizes)
    along = data.draw(st.lists(st.sampled_from(sorted(sizes)), min_size=1, unique=True))
    groups = mesh.groups(*along)
    assert sorted(rank for group in groups for rank in group) == list(range(len(mesh)))
    assert all(list(group) == sorted(group) for group in groups)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (lambda: device_mesh(), r"needs a shape: device_mesh\(\(8, 8\)"),
        (lambda: device_mesh((2, 2), ("a",)), "2 dimensions but 1 names"),
        (lambda: device_mesh((2, 2), ("a", "a")), "the same name: a, a"),
        (lambda: device_mesh((2, 2), a=4), "either a shape with names or name=size pairs"),
        (lambda: device_mesh(dp=0), "dimension 'dp' of the mesh has size 0"),
        (lambda: device_mesh(dp=2).groups("tp"), "no dimension 'tp'; it has dp"),
        (lambda: device_mesh(dp=2, tp=2).groups(), "name the dimension to group along: dp, tp"),
    ],
)
def test_wrong_meshes(wrong, message: str) -> None:
    with pytest.raises(CollectiveError, match=message):
        wrong()


@pytest.mark.parametrize(
    ("text", "ranks"),
    [
        ("5", (5,)),
        ("0-3", (0, 1, 2, 3)),
        ("0-56:8", (0, 8, 16, 24, 32, 40, 48, 56)),
        ("0-7:3", (0, 3, 6)),
        (" 7, 0-1 ,4-4 ", (7, 0, 1, 4)),
    ],
)
def test_parse_group(text: str, ranks: tuple[int, ...]) -> None:
    assert parse_group(text) == ranks


@pytest.mark.parametrize(("text", "part"), [("", "''"), ("0,", "''"), ("0-", "'0-'"), ("-1", "'-1'"), ("a", "'a'"),
                                            ("0:2", "'0:2'"), ("1.5", "'1.5'")])  # fmt: skip
def test_text_that_is_no_group(text: str, part: str) -> None:
    with pytest.raises(
        CollectiveError,
        match=f"group {text!r}: {part} is not a rank or range such as 0-7 or 0-56:8",
    ):
        parse_group(text)


@pytest.mark.parametrize("text", ["3-1", "0-7:0"])
def test_empty_ranges(text: str) -> None:
    with pytest.raises(CollectiveError, match=f"'{text}' is an empty range"):
        parse_group(text)


def test_format_group_is_short() -> None:
    assert format_group(range(64)) == "0-63"
    assert format_group([3, 2, 1]) == "3,2,1"
    assert format_group([0, 1, 4, 6, 7]) == "0-1,4,6-7"


@given(st.lists(st.integers(0, 40), min_size=1))
def test_text_reads_back_as_the_same_group(group: list[int]) -> None:
    assert parse_group(format_group(group)) == tuple(group)
