"""Plans written by hand: what the interpreter accepts, and that it finds what is wrong."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pccl.errors import FormatError
from pccl.formats.mscclpp.interpreter import check, execute
from pccl.formats.mscclpp.plan import parse
from pccl.formats.mscclpp.resolver import resolve

Json = dict[str, Any]


def op(name: str, **fields: Any) -> Json:
    return {"name": name, **fields}


def chunk(kind: str | int, index: int, size: int = 1) -> Json:
    return {"type" if isinstance(kind, str) else "buffer_id": kind, "index": index, "size": size}


def move(name: str, sources: list[Json], destinations: list[Json], **fields: Any) -> Json:
    return op(name, src_buff=sources, dst_buff=destinations, **fields)


def over(name: str, channel: int = 0, kind: str = "memory") -> Json:
    return op(name, channel_type=kind, channel_ids=[channel])


NOP = op("nop")


def threadblock(
    ops: list[Json], number: int = 0, channels: int = 1, buffers: int = 1, kind: str = "memory"
) -> Json:
    return {
        "id": number,
        "ops": ops,
        "channels": [{"channel_type": kind, "channel_ids": list(range(channels))}],
        "remote_buffer_refs": [
            {"access_channel_type": kind, "remote_buffer_ids": list(range(buffers))}
        ],
    }


def plan(
    blocks: list[list[Json]],
    collective: str = "allgather",
    chunks: tuple[int, int, int] = (1, 2, 0),
    remote: str = "o",
    kind: str = "memory",
    semaphores: int = 0,
    in_place: bool = False,
) -> Json:
    """Two ranks with one channel and one remote buffer each."""
    return {
        "name": "by hand",
        "collective": collective,
        "protocol": "Simple",
        "inplace": in_place,
        "gpus": [
            {
                "id": rank,
                "input_chunks": chunks[0],
                "output_chunks": chunks[1],
                "scratch_chunks": chunks[2],
                "threadblocks": own,
                "channels": [{"channel_type": kind, "connected_to": [1 - rank]}],
                "remote_buffers": [
                    {"rank": 1 - rank, "type": remote, "access_channel_types": [kind]}
                ],
                "semaphores": [{"init_value": 0}] * semaphores,
            }
            for rank, own in enumerate(blocks)
        ],
    }


def all_gather() -> Json:
    return plan([[threadblock(gather_ops(rank))] for rank in range(2)])


def gather_ops(rank: int) -> list[Json]:
    return [
        over("rlxsignal"),
        over("rlxwait"),
        NOP,
        move("put", [chunk("i", 0)], [chunk(0, rank)], channel_type="memory"),
        move("copy", [chunk("i", 0)], [chunk("o", rank)]),
        NOP,
        over("signal"),
        over("wait"),
    ]


def all_reduce() -> Json:
    """Each rank puts its input into the scratch of the other, which adds it in a second threadblock."""
    blocks = []
    for _ in range(2):
        put = move("put", [chunk("i", 0)], [chunk(0, 0)], channel_type="memory")
        add = move("re", [chunk("i", 0), chunk("s", 0)], [chunk("o", 0)])
        first = [
            over("rlxsignal"),
            over("rlxwait"),
            NOP,
            put,
            NOP,
            over("signal"),
            over("wait"),
            NOP,
        ]
        first.append(op("sem_release", semaphore_ids=[0]))
        second = [op("sem_acquire", semaphore_ids=[0]), NOP, add]
        blocks.append([threadblock(first), threadblock(second, 1, 0, 0)])
    return plan(blocks, "allreduce", (1, 1, 1), "s", semaphores=1)


def through_ports() -> Json:
    """The all-gather over port channels; each side says when it has what the other sent."""
    blocks = []
    for rank in range(2):
        put = move("pws", [chunk("i", 0)], [chunk(0, rank)], channel_type="port", channel_ids=[0])
        shake = [over("rlxsignal", kind="port"), over("rlxwait", kind="port"), NOP]
        answer = [
            over("wait", kind="port"),
            NOP,
            over("signal", kind="port"),
            over("wait", kind="port"),
        ]
        ops = [*shake, put, move("copy", [chunk("i", 0)], [chunk("o", rank)]), *answer]
        blocks.append([threadblock(ops, kind="port")])
    return plan(blocks, kind="port")


def problems(document: Json) -> list[str]:
    return [str(problem) for problem in execute(parse(json.dumps(document)))]


@pytest.mark.parametrize("document", [all_gather(), all_reduce(), through_ports()])
def test_plans_that_are_right(document: Json) -> None:
    assert problems(document) == []


def test_shares_of_threadblocks_make_a_whole() -> None:
    document = all_gather()
    for gpu in document["gpus"]:
        gpu["channels"] = [{"channel_type": "memory", "connected_to": [1 - gpu["id"]] * 2}]
        gpu["threadblocks"] = [threadblock(gather_ops(gpu["id"]), i) for i in range(2)]
        for i, block in enumerate(gpu["threadblocks"]):
            block["channels"][0]["channel_ids"] = [i]
            block["ops"] = copy.deepcopy(block["ops"])
            for step in block["ops"]:
                if "src_buff" in step:
                    step["tbg_info"] = {"tb_id": i, "tbg_size": 2}
    assert problems(document) == []
    document["gpus"][0]["threadblocks"][1]["ops"][3]["tbg_info"]["tb_id"] = 0
    assert any("race" in line for line in problems(document))


def test_barriers_order_threadblocks() -> None:
    document = all_reduce()
    for gpu in document["gpus"]:
        first, second = gpu["threadblocks"]
        first["ops"][-1] = second["ops"][0] = op("barrier", barrier_id=3, num_threadblocks=2)
        gpu["semaphores"] = []
    assert problems(document) == []
    del document["gpus"][0]["threadblocks"][1]["ops"][0]
    assert problems(document) == [
        "rank 0: barrier 3 is not used equally often by the threadblocks that it is for"
    ]


def test_in_place_input_is_part_of_the_output() -> None:
    document = all_gather()
    document["inplace"] = True
    for gpu in document["gpus"]:
        del gpu["threadblocks"][0]["ops"][4]
    assert problems(document) == []


def test_reading_what_a_peer_holds() -> None:
    """Reduce reading the other's input: no scratch, and the owner waits until it has been read."""
    ops = [
        over("rlxsignal"), over("rlxwait"), NOP,
        move("rre", [chunk("i", 0), chunk(0, 0)], [chunk("o", 0)], channel_type="memory"),
        NOP, over("signal"), over("wait"),
    ]  # fmt: skip
    document = plan([[threadblock(ops)] for _ in range(2)], "allreduce", (1, 1, 0), "i")
    assert problems(document) == []
    for gpu in document["gpus"]:
        gpu["threadblocks"][0]["ops"] = ops[:5]
    assert any("may end before" in line for line in problems(document))


def test_reducing_and_sending_at_once() -> None:
    """Rank 0 adds what it reads from rank 1, or what it was sent, and stores the sum on both."""
    for name in ("rres", "res"):
        source = chunk(0, 0) if name == "rres" else chunk("s", 0)
        reduce = move(
            name, [chunk("i", 0), source], [chunk("o", 0), chunk(1, 0)], channel_type="memory"
        )
        send = move("put", [chunk("i", 0)], [chunk(0, 0)], channel_type="memory")
        first = [
            over("rlxsignal"),
            over("rlxwait"),
            NOP,
            over("wait"),
            NOP,
            reduce,
            NOP,
            over("signal"),
        ]
        second = [
            over("rlxsignal"),
            over("rlxwait"),
            NOP,
            *([send, NOP] if name == "res" else []),
            over("signal"),
            over("wait"),
        ]
        document = plan(
            [[threadblock(first, buffers=2)], [threadblock(second)]], "allreduce", (1, 1, 1), "s"
        )
        read_from = {"rank": 1, "type": "i", "access_channel_types": ["memory"]}
        document["gpus"][0]["remote_buffers"] = [read_from, read_from | {"type": "o"}]
        assert problems(document) == []


def test_ports_put_and_signal_in_order() -> None:
    document = through_ports()
    for rank in range(2):
        ops = ops_of(document, rank)
        ops[3]["name"] = "put"
        ops.insert(4, over("signal", kind="port"))
    assert problems(document) == []
    ops = ops_of(document)
    ops[3], ops[4] = ops[4], ops[3]
    assert any("race" in line or "may end before" in line for line in problems(document))


def test_semaphores_released_by_several_threadblocks() -> None:
    """Whoever has acquired as often as is released knows that all have; before, nothing is certain."""

    def document(early: bool) -> Json:
        copies = [move("copy", [chunk("i", i)], [chunk("s", i)]) for i in range(2)]
        writers = [
            threadblock([copy, NOP, op("sem_release", semaphore_ids=[0])], i, 0, 0)
            for i, copy in enumerate(copies)
        ]
        acquire = op("sem_acquire", semaphore_ids=[0])
        reads = [move("copy", [chunk("s", i)], [chunk("o", i)]) for i in range(2)]
        ops = (
            [acquire, NOP, reads[0], acquire, NOP, reads[1]]
            if early
            else [acquire, acquire, NOP, *reads]
        )
        blocks = [*writers, threadblock(ops, 2, 0, 0)]
        made = plan([blocks], "allreduce", (2, 2, 2), semaphores=1)
        made["gpus"][0] |= {"channels": [], "remote_buffers": []}
        return made

    assert problems(document(early=False)) == []
    assert any("race on scratch chunk 0" in line for line in problems(document(early=True)))


Edit = Callable[[Json], None]


def ops_of(document: Json, rank: int = 0, block: int = 0) -> list[Json]:
    ops: list[Json] = document["gpus"][rank]["threadblocks"][block]["ops"]
    return ops


def drop(index: int, rank: int = 0, block: int = 0) -> Edit:
    return lambda document: ops_of(document, rank, block).__delitem__(index)


def swap(i: int, j: int, rank: int = 0, block: int = 0) -> Edit:
    def edit(document: Json) -> None:
        ops = ops_of(document, rank, block)
        ops[i], ops[j] = ops[j], ops[i]

    return edit


def put(index: int, path: tuple[str | int, ...], value: Any) -> Edit:
    def edit(document: Json) -> None:
        inside: Any = ops_of(document)[index]
        for key in path[:-1]:
            inside = inside[key]
        inside[path[-1]] = value

    return edit


@pytest.mark.parametrize(
    ("make", "edit", "said"),
    [
        (all_gather, drop(0), "deadlock: rank 1 threadblock 0 op 7 (wait) waits for a signal from rank 0"),
        (all_gather, drop(1), "without a handshake"),
        (all_gather, drop(2), "without a handshake"),
        (all_gather, drop(3), "rank 1 ends with a wrong output: chunk 0"),
        (all_gather, drop(4), "rank 0 ends with a wrong output: chunk 0"),
        (all_gather, drop(5), "rank 1 may end before rank 0 threadblock 0 op 3 (put) is done with its buffers"),
        (all_gather, drop(6), "deadlock: rank 1 threadblock 0 op 7 (wait) waits for a signal from rank 0"),
        (all_gather, drop(7), "rank 0 never waits for 1 signals on memory channel 0"),
        (all_gather, swap(3, 6), "rank 1 may end before rank 0 threadblock 0 op 6 (put)"),
        (all_gather, put(3, ("dst_buff", 0, "index"), 1), "race on output chunk 1 of rank 1"),
        (all_gather, put(3, ("dst_buff", 0, "index"), 2), "there is no output chunk 2 of rank 1, only 2 chunks"),
        (all_gather, put(3, ("dst_buff", 0, "buffer_id"), 1), "buffer id 1 is none of the 1 remote buffers"),
        (all_gather, put(6, ("channel_ids",), [1]), "channel id 1 is none of the 1 memory channels"),
        (all_gather, put(3, ("name",), "get"), "it mixes up local (type) and remote (buffer_id) buffers"),
        (all_gather, put(3, ("name",), "teleport"), "is not understood here"),
        (all_reduce, drop(8), "deadlock: rank 0 threadblock 1 op 0 (sem_acquire) waits for a release of semaphore 0"),
        (all_reduce, drop(7), "race on scratch chunk 0 of rank 0: rank 1 threadblock 0 op 3 (put) writes it"),
        (all_reduce, drop(0, block=1), "race on scratch chunk 0 of rank 0"),
        (all_reduce, drop(0, block=1), "semaphore 0 ends +1 from its initial value"),
        (all_reduce, drop(1, block=1), "race on scratch chunk 0 of rank 0"),
        (all_reduce, drop(2, block=1), "rank 0 ends with a wrong output"),
        (all_reduce, drop(4), "race on scratch chunk 0 of rank 1"),
        (through_ports, drop(8), "rank 0 may end before rank 0 threadblock 0 op 3 (pws) is done with its buffers"),
        (through_ports, drop(6), "rank 1 may end before rank 1 threadblock 0 op 3 (pws) is done with its buffers"),
    ],
)  # fmt: skip
def test_mistakes_are_found(make: Callable[[], Json], edit: Edit, said: str) -> None:
    document = make()
    edit(document)
    assert any(said in line for line in problems(document)), problems(document)


def test_limits_and_indices() -> None:
    document = all_gather()
    gpu = document["gpus"][0]
    gpu["threadblocks"][0]["ops"] += [NOP] * 60
    gpu["threadblocks"][0]["channels"][0]["channel_ids"] = [0] * 17
    gpu["threadblocks"][0]["remote_buffer_refs"][0]["remote_buffer_ids"] = [7]
    gpu["threadblocks"][0]["id"] = 4
    gpu["output_chunks"], gpu["scratch_chunks"] = 0, 2**32
    assert problems(document) == [
        "gpu 0: output_chunks must not be 0",
        "gpu 0: 4,294,967,296 chunks are more than kernels can address",
        "rank 0 threadblock 0 has id 4; ids must be the positions",
        "rank 0 threadblock 0 has 68 ops; there is room for 64",
        "rank 0 threadblock 0 has 17 memory channels; there is room for 16",
        "rank 0 threadblock 0 uses remote buffer 7, but gpu 0 has 1",
    ]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"protocol": "LL"}, "packets"),
        ({"reuse_resources": True}, "scratch"),
        ({"buffer_alignment": 8}, "multiple of 16"),
        ({"num_threads_per_block": 2048}, "1 to 1024"),
        ({"collective": "barter"}, "what 'barter' promises is not known"),
        ({"collective": "allreduce"}, "rank 0 has 2 output chunks, not 1"),
    ],
)
def test_plans_as_a_whole(change: Json, said: str) -> None:
    assert any(said in line for line in problems(all_gather() | change)), problems(
        all_gather() | change
    )


def test_known_defects_of_kernels_are_named() -> None:
    document = all_gather()
    ops = ops_of(document)
    ops[3]["src_buff"] *= 2
    ops[3]["dst_buff"] *= 2
    ops.append(over("flush"))
    defects = resolve(parse(json.dumps(document))).defects
    assert [problem.text.split(": ")[1].split(";")[0] for problem in defects] == [
        "kernels read all sources of a put over memory channels from the buffer of the first",
        "kernels skip a flush that stands alone",
    ]


def test_files(tmp_path: Path) -> None:
    file = tmp_path / "gather.plan.json"
    file.write_text(json.dumps(all_gather()))
    found, facts = check(file)
    assert found == []
    assert facts["plan"] == "by hand: allgather of 2 ranks, out of place"
    file.write_text(json.dumps(all_gather() | {"gpus": [{"id": "zero"}]}))
    with pytest.raises(FormatError, match=r"Expected `int`, got `str` - at `\$.gpus\[0\].id`"):
        check(file)
    with pytest.raises(FormatError, match="cannot read"):
        check(tmp_path / "nothing.json")
