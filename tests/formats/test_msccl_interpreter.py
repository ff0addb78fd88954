"""The interpreter: files written by hand, right ones and wrong ones, and what is said about them."""

from __future__ import annotations

import pytest

import pccl
from pccl.formats.machine import Kind, Place
from pccl.formats.msccl.file import parse
from pccl.formats.msccl.interpreter import check, find_problems


def check_text(text: str, **options) -> list[str]:
    """The problems of a file given as text, each one line."""
    return [str(problem) for problem in find_problems(text, **options)]


HEAD = {
    "name": "test", "proto": "Simple", "nchannels": 1, "nchunksperloop": 2, "ngpus": 2, "coll": "allgather",
    "inplace": 0, "outofplace": 1, "minBytes": 0, "maxBytes": 1048576,
}  # fmt: skip


def tag(name: str, values: dict, empty: bool = False) -> str:
    return (
        f"<{name} "
        + " ".join(f'{key}="{value}"' for key, value in values.items())
        + ("/>" if empty else ">")
    )


def step(number, kind, src, dst, cnt=1, dep=(-1, -1), hasdep=0) -> str:
    """One step; places are written as ``i0``."""
    return tag("step", {
        "s": number, "type": kind, "srcbuf": src[0], "srcoff": src[1:], "dstbuf": dst[0], "dstoff": dst[1:],
        "cnt": cnt, "depid": dep[0], "deps": dep[1], "hasdep": hasdep,
    }, empty=True)  # fmt: skip


def block(number, send, recv, *steps, chan=0) -> str:
    inside = "\n".join(steps)
    return (
        tag("tb", {"id": number, "send": send, "recv": recv, "chan": chan}) + f"\n{inside}\n</tb>"
    )


def rank(number, *blocks, chunks=(1, 2, 0)) -> str:
    sizes = dict(zip(("i_chunks", "o_chunks", "s_chunks"), chunks, strict=True))
    return tag("gpu", {"id": number} | sizes) + "\n" + "\n".join(blocks) + "\n</gpu>"


def algo(*ranks, **head) -> str:
    return tag("algo", HEAD | head) + "\n" + "\n".join(ranks) + "\n</algo>\n"


def pair(me: int, *, chunks=(1, 2, 0), copy=True) -> str:
    """One of two ranks of an all-gather: it sends, receives, and copies what it has."""
    other = 1 - me
    blocks = [
        block(0, other, -1, step(0, "s", "i0", f"o{me}")),
        block(1, -1, other, step(0, "r", "i0", f"o{other}")),
    ]
    if copy:
        blocks.append(block(2, -1, -1, step(0, "cpy", "i0", f"o{me}")))
    return rank(me, *blocks, chunks=chunks)


GOOD = algo(pair(0), pair(1))


def test_a_file_by_hand(tmp_path):
    path = tmp_path / "hand.xml"
    path.write_text(GOOD)
    problems, facts = check(path)
    assert problems == []
    assert facts["collective"] == "allgather among 2 ranks, out of place"
    assert "exact" in facts["results"]


def test_in_place_a_copy_onto_itself_does_nothing():
    assert check_text(algo(pair(0), pair(1), inplace=1)) == []
    assert check_text(algo(pair(0, copy=False), pair(1, copy=False), inplace=1, outofplace=0)) == []


# --- how it is written -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('<?xml version="1.0"?>\n' + GOOD, "line 1: there is an <?xml?> line between tags"),
        (GOOD.replace("\n<tb", "\n\t<tb", 1), "line 3: there is a tab"),
        (GOOD.replace('name="test"', "name='test'"), "line 1: there is a single quote"),
        (GOOD.replace('proto="', '\nproto="'), "a newline inside a tag"),
        (GOOD.replace("</tb>", "words</tb>", 1), "line 5: there is the text 'words' between tags"),
        (
            GOOD.removeprefix(GOOD.splitlines()[0]),
            "line 2: the first element is 'gpu'; the runtimes want 'algo'",
        ),
        (GOOD.replace("test", "x" * 256), "has 256 characters; the runtimes keep 255"),
        (
            GOOD.replace("<algo", "<algo " + " ".join(f'a{i}="1"' for i in range(7))),
            "a tag has 17 attributes",
        ),
        (GOOD.replace(' outofplace="1"', ""), "<algo> lacks 'outofplace'"),
        (
            GOOD.replace('send="1"', 'send="one"'),
            "line 3: send='one' of <tb> is not a whole number",
        ),
        (
            GOOD.replace('cnt="1"', 'cnt="1.5"', 1),
            "line 4: cnt='1.5' of <step> is not a whole number",
        ),
        (GOOD.replace("</gpu>", "", 1), "<gpu> is out of place, inside <algo> <gpu>"),
        (GOOD.replace("</algo>", ""), "<algo> is not closed"),
        (GOOD.replace("</tb>", "</gpu>", 1), "</gpu> closes nothing that is open"),
        ("", "there is no element 'algo'"),
        (
            GOOD.replace("<algo ", "<algo junk "),
            "what is inside a tag is not name=\"value\": 'junk'",
        ),
        (GOOD.replace("</tb>", "</tb junk>"), "what is inside a tag is not name=\"value\": 'junk'"),
        (GOOD.replace("</tb>", '</tb ">'), 'what is inside a tag is not name="value": \'"\''),
    ],
)
def test_how_it_is_written(text, message):
    assert any(message in line for line in check_text(text)), check_text(text)


def test_comments_and_unknown_elements_are_ignored():
    assert check_text(GOOD.replace("<gpu", '<!-- a\nb --><other thing="1"/><gpu', 1)) == []


def test_lines_are_counted():
    text = GOOD.replace('cnt="1"', 'cnt="x"')
    found = [int(line.split(":")[0].removeprefix("line ")) for line in map(str, parse(text)[1])]
    assert found == [i for i, line in enumerate(text.splitlines(), 1) if 'cnt="x"' in line]


# --- rules -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (algo(pair(0), pair(1), proto="Fast"), "algo: proto 'Fast' is not one of Simple, LL, LL128"),
        (algo(pair(0), pair(1), coll="broadcast"), "do not compare the root of a broadcast"),
        (algo(pair(0), pair(1), coll="alltoallv"), "never choose a file for alltoallv"),
        (algo(pair(0), pair(1), coll="reduce_scatter"), "coll 'reduce_scatter' is not one that"),
        (algo(pair(0), pair(1), nchannels=33), "33 channels; the MSCCL executor for NCCL has 1 to 32"),
        (algo(pair(0), pair(1), nchunksperloop=3), "nchunksperloop 3 does not divide by 2 gpus"),
        (algo(pair(0), pair(1), nchunksperloop=2**32), "nchunksperloop is 4294967296; it must be from 1 to 32768"),
        (algo(pair(0), pair(1), ngpus=2**32), "ngpus is 4294967296, but there are 2 gpus with the ids 0, 1"),
        (GOOD.replace('s_chunks="0"', 's_chunks="32769"', 1), "gpu 0: a buffer of 32,769 chunks"),
        (GOOD.replace('srcoff="0"', f'srcoff="{"1" * 5000}"', 1), "the value of 'srcoff' has 5000 characters"),
        (algo(pair(0), pair(1), inplace=2), "inplace is 2; it must be 0 or 1"),
        (algo(pair(0), pair(1), outofplace=0), "neither for in place nor for out of place"),
        (algo(pair(0), pair(1), minBytes=2, maxBytes=1), "there are no sizes from 2 to 1 bytes"),
        (algo(pair(0), pair(1), ngpus=3, nchunksperloop=3), "ngpus is 3, but there are 2 gpus with the ids 0, 1"),
        (GOOD.replace('tb id="1"', 'tb id="2"', 1), "gpu 0: its threadblocks are 0, 2, 2; they count from 0 on"),
        (GOOD.replace('chan="0"', 'chan="1"', 1), "gpu 0 tb 0: channel 1 of 1"),
        (GOOD.replace('send="1"', 'send="0"'), "gpu 0 tb 0: send=0 is no peer of gpu 0"),
        (GOOD.replace('s="0" type="cpy"', 's="1" type="cpy"', 1), "gpu 0 tb 2: its steps are 1; they count from 0 on"),
        (GOOD.replace('type="cpy"', 'type="move"', 1), "gpu 0 tb 2 step 0: there is no type 'move'"),
        (GOOD.replace('cnt="1"', 'cnt="72"', 1), "gpu 0 tb 0 step 0: cnt is 72; it must be from 1 to 71"),
        (GOOD.replace('hasdep="0"', 'hasdep="7"', 1), "hasdep is 7"),
        (GOOD.replace('srcbuf="i"', 'srcbuf="x"', 1), "there is no buffer 'x'"),
        (GOOD.replace('dstoff="1"', 'dstoff="2"'), "o[2:3] is outside a buffer of 2 chunks"),
        (GOOD.replace('type="cpy"', 'type="s"', 1), "type s sends, but the threadblock has no peer to send to"),
        (GOOD.replace('type="cpy"', 'type="r"', 1), "type r receives, but the threadblock has no peer"),
        (GOOD.replace('depid="-1" deps="-1"', 'depid="5" deps="0"', 1), "waits for step 0 of tb 5, which is not there"),
        (GOOD.replace('depid="-1" deps="-1"', 'depid="1" deps="0"', 1), "has hasdep=0 and tells nobody"),
        (GOOD.replace('depid="-1" deps="-1"', 'depid="0" deps="0"', 1), "it waits for itself"),
        (GOOD.replace('type="cpy"', 'type="nop"', 1), "a nop must carry a dependency"),
        (GOOD.replace('recv="1"', 'recv="1" ').replace('send="1" recv="-1"', 'send="1" recv="1"'),
         "gpu 0: 2 threadblocks recv with gpu 1 on channel 0"),
    ],
)  # fmt: skip
def test_rules(text, message):
    assert any(message in line for line in check_text(text)), check_text(text)


def test_a_connection_is_made_at_both_ends():
    lonely = algo(
        pair(0).replace("</gpu>", block(3, 1, -1, chan=1) + "</gpu>"), pair(1), nchannels=2
    )
    assert check_text(lonely) == [
        "gpu 0 tb 3: gpu 1 has no threadblock to receive from it on channel 1"
    ]
    waiting = algo(
        pair(0).replace("</gpu>", block(3, -1, 1, chan=1) + "</gpu>"), pair(1), nchannels=2
    )
    assert check_text(waiting) == [
        "gpu 0 tb 3: gpu 1 has no threadblock to send to it on channel 1"
    ]


@pytest.mark.parametrize(("sums", "broken"), [(16, False), (17, True)])
def test_sums_in_a_row(sums, broken):
    steps = [step(0, "cpy", "i0", "o0"), *(step(k + 1, "re", "i0", "o0") for k in range(sums))]
    text = algo(rank(0, block(0, -1, -1, *steps), chunks=(1, 1, 0)), ngpus=1, nchunksperloop=1)
    message = "gpu 0 tb 0: more than 16 sums into one place in a row; break them up with hasdep=1"
    assert (message in check_text(text)) is broken
    assert message not in check_text(text.replace('hasdep="0"', 'hasdep="1"'))


def test_limits_depend_on_the_runtime():
    steps = [step(i, "cpy", "i0", "o0") for i in range(65)]
    text = algo(rank(0, block(0, -1, -1, *steps)), ngpus=1, nchunksperloop=1).replace(
        'o_chunks="2"', 'o_chunks="1"'
    )
    assert "65 steps; RCCL has at most 64" in check_text(text, target="rccl")[0]
    assert check_text(text, target="msccl") == []
    blocks = [block(i, -1, -1, *steps[:1]) for i in range(70)]
    text = algo(rank(0, *blocks), ngpus=1, nchunksperloop=1)
    assert "70 threadblocks; RCCL has at most 64" in check_text(text, target="rccl")[0]
    many = algo(
        rank(0, *(block(i, -1, -1, *steps[:64]) for i in range(64))), ngpus=1, nchunksperloop=1
    )
    assert "has to read 4162 elements; the runtimes keep 4095" in check_text(many)[0]
    assert (
        "no alltoall in place"
        in check_text(algo(pair(0), pair(1), coll="alltoall", inplace=1), target="msccl")[0]
    )
    endless = algo(pair(0), pair(1), maxBytes=0)
    assert check_text(endless) == []
    assert "a maxBytes of 0" in check_text(endless, target="msccl")[0]
    with pytest.raises(pccl.PcclError, match="no target 'nccl'"):
        check_text(GOOD, target="nccl")


# --- connections, deadlocks, races, results --------------------------------------------------------------------------


def test_a_connection_has_two_ends():
    silent = pair(1).replace('type="s"', 'type="cpy"')
    assert check_text(algo(pair(0), silent)) == [
        "gpu 0 tb 1 step 0: it receives what nobody sends (gpu 1 -> gpu 0 on channel 0: 0 sends, 1 receives)"
    ]
    deaf = pair(1).replace('type="r"', 'type="cpy"')
    assert (
        "gpu 0 tb 0 step 0: it sends a message that nobody receives"
        in check_text(algo(pair(0), deaf))[0]
    )


def test_both_ends_count_alike():
    wide = [rank(me, *pair(me).splitlines()[1:-1], chunks=(2, 4, 0)) for me in (0, 1)]
    text = algo(wide[0].replace('cnt="1"', 'cnt="2"', 1), wide[1], nchunksperloop=4)
    assert check_text(text)[0].startswith(
        "gpu 1 tb 1 step 0: it receives 1 chunk, but gpu 0 tb 0 step 0 sends 2"
    )


def exchange(chunks: int = 2) -> str:
    """Two ranks that send everything before they receive anything, in one threadblock each."""
    ranks = []
    for me in (0, 1):
        other = 1 - me
        sends = [step(k, "s", f"i{k}", f"o{me * chunks + k}") for k in range(chunks)]
        takes = [step(chunks + k, "r", f"i{k}", f"o{other * chunks + k}") for k in range(chunks)]
        copy = block(1, -1, -1, step(0, "cpy", "i0", f"o{me * chunks}", cnt=chunks))
        ranks.append(
            rank(me, block(0, other, other, *sends, *takes), copy, chunks=(chunks, 2 * chunks, 0))
        )
    return algo(*ranks, nchunksperloop=2 * chunks)


def test_depth_matters():
    assert check_text(exchange(2)) == []
    problems = check_text(exchange(2), depth=1)
    assert problems == [
        "gpu 0 tb 0 step 1: deadlock: type s waits for ever for gpu 1 tb 0 step 2 to make room "
        "(the connection holds 1 message)",
        "gpu 1 tb 0 step 1: deadlock: type s waits for ever for gpu 0 tb 0 step 2 to make room "
        "(the connection holds 1 message)",
    ]
    assert "deadlock" in check_text(exchange(3))[0]
    assert check_text(exchange(3).replace("Simple", "LL")) == []
    with pytest.raises(pccl.PcclError, match="1 message or more, not 0"):
        check_text(GOOD, depth=0)


def test_problems_have_a_kind_and_a_place():
    (first, second) = find_problems(exchange(2), depth=1)
    assert first.kind is second.kind is Kind.DEADLOCK
    assert (first.place, second.place) == (Place(0, 0, 1), Place(1, 0, 1))


def test_threadblocks_that_wait_for_each_other():
    circle = rank(0, block(0, -1, -1, step(0, "cpy", "i0", "o0", dep=(1, 0), hasdep=1)),
                  block(1, -1, -1, step(0, "cpy", "i0", "o0", dep=(0, 0), hasdep=1)), chunks=(1, 1, 0))  # fmt: skip
    problems = check_text(algo(circle, ngpus=1, nchunksperloop=1))
    assert problems[0] == (
        "gpu 0 tb 0 step 0: deadlock: type cpy waits for ever for gpu 0 tb 1 step 0, on which it depends"
    )
    assert len(problems) == 2


def forwarding(dep) -> str:
    """Rank 0 sends its chunk to rank 1, which passes its own output on to rank 2."""
    ranks = [
        rank(0, block(0, 1, -1, step(0, "s", "i0", "o0")), chunks=(1, 3, 0)),
        rank(1, block(0, -1, 0, step(0, "r", "i0", "o0", hasdep=1)), block(1, 2, -1, step(0, "s", "o0", "o0", dep=dep)),
             chunks=(1, 3, 0)),
        rank(2, block(0, -1, 1, step(0, "r", "o0", "o0")), chunks=(1, 3, 0)),
    ]  # fmt: skip
    return algo(*ranks, ngpus=3, nchunksperloop=3)


def test_reading_what_may_not_be_there_yet():
    assert (
        "is not what allgather promises" in check_text(forwarding((0, 0)))[0]
    )  # only the other shares are missing
    problems = check_text(forwarding((-1, -1)))
    assert any("race" in line or "nothing has been written yet" in line for line in problems)


def test_sums_of_every_kind_of_step():
    """An all-reduce in a chain there and back: receive, add and forward; then receive, keep and forward."""
    one = {"chunks": (1, 1, 1)}
    ranks = [
        rank(0, block(0, 1, -1, step(0, "s", "i0", "o0")), block(1, -1, 1, step(0, "r", "i0", "o0")), **one),
        rank(1, block(0, 2, 0, step(0, "rrs", "i0", "i0")), block(1, 0, 2, step(0, "rcs", "i0", "o0")), **one),
        rank(2, block(0, -1, 1, step(0, "r", "i0", "s0", hasdep=1)),
             block(1, -1, -1, step(0, "cpy", "i0", "o0"), step(1, "re", "s0", "o0", dep=(0, 0), hasdep=1)),
             block(2, 1, -1, step(0, "s", "o0", "o0", dep=(1, 1))), **one),
    ]  # fmt: skip
    text = algo(*ranks, ngpus=3, nchunksperloop=1, coll="allreduce")
    assert check_text(text) == []
    assert "race" in check_text(text.replace('depid="1" deps="1"', 'depid="-1" deps="-1"'))[0]
    wrong = check_text(text.replace('type="re"', 'type="cpy"'))
    assert wrong[0] == "gpu 0: o[0] is not what allreduce promises (out of place)"


def all_pairs(ranks: int = 4) -> str:
    """An all-reduce as others write it: in place, all to all through scratch, then summed up by each for itself."""
    found = []
    for me in range(ranks):
        others = [other for other in range(ranks) if other != me]
        blocks = [
            block(
                slot,
                other,
                other,
                step(0, "s", "i0", "s0"),
                step(1, "r", "i0", f"s{slot}", hasdep=1),
            )
            for slot, other in enumerate(others)
        ]
        waits = [step(k, "nop", "i-1", "o-1", cnt=0, dep=(k, 1)) for k in range(ranks - 2)]
        last = len(waits)
        sums = [step(last, "re", "s0", "i0", dep=(last, 1))]
        sums += [step(last + k, "re", f"s{k}", "i0") for k in range(1, ranks - 1)]
        found.append(
            rank(me, *blocks, block(ranks - 1, -1, -1, *waits, *sums), chunks=(1, 0, ranks - 1))
        )
    return algo(*found, ngpus=ranks, nchunksperloop=1, coll="allreduce", inplace=1, outofplace=0)


def test_an_all_reduce_as_others_write_it():
    assert check_text(all_pairs(), depth=1) == []
    assert check_text("<!-- whose it is -->\n" + all_pairs()) == []
    early = all_pairs().replace('type="nop"', 'type="cpy"', 1)
    assert check_text(early)
    unpublished = all_pairs().replace('hasdep="1"', 'hasdep="0"', 1)
    assert "tells nobody" in check_text(unpublished)[0]


def test_the_input_must_not_change():
    text = algo(rank(0, block(0, -1, -1, step(0, "cpy", "i0", "o0"), step(1, "re", "o0", "i0")), chunks=(1, 1, 0)),
                ngpus=1, nchunksperloop=1, coll="allreduce")  # fmt: skip
    assert check_text(text) == ["gpu 0: its input has changed (out of place)"]


def test_beyond_the_buffer_of_the_collective():
    text = GOOD.replace('i_chunks="1"', 'i_chunks="2"').replace('srcoff="0"', 'srcoff="1"', 1)
    assert (
        check_text(text)[0]
        == "gpu 0 tb 0 step 0: i[1:2] is outside the buffer, which has 1 of 2 chunks"
    )


def test_files_that_cannot_be_read(tmp_path):
    with pytest.raises(pccl.FormatError, match="no such file"):
        check(tmp_path / "none.xml")
    (tmp_path / "bytes.xml").write_bytes(b"\xff\xfe")
    with pytest.raises(pccl.FormatError, match="cannot read"):
        check(tmp_path / "bytes.xml")
    with pytest.raises(pccl.PcclError, match="not among the 2 ranks"):
        check_text(GOOD, group=[0, 5])
