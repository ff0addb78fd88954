"""Plans run by processes that share one GPU, or a box of them, over CUDA IPC: every element checked, every plan timed.

    python -m benchmarks.cuda_ipc plan.pccl ... [--size 256MiB] [--dtype float32]

On one GPU all ranks share its memory, and so the least time a plan can take is that of all its copies and sums, one
after another, at the speed at which the same GPU copies a large buffer; that is the column to compare with. With the
multi-process service of CUDA (``nvidia-cuda-mps-control -d``) processes run at the same time; without it they take
turns of milliseconds.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import torch

import pccl
from pccl.runtime import Action, Scripts, script_of, scripts_of
from pccl.runtime.measure import Job, together
from pccl.runtime.pool import Pool
from pccl.units import Bytes, parse

# Read once and written once; sums read two numbers for one that they write.
COPY = 2
SUM = 3
BUFFER = 1 << 30


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("plans", nargs="+", type=Path)
    parser.add_argument("--size", default="256MiB", help="of each collective")
    parser.add_argument("--dtype", default="float32")
    parser.add_argument("--iterations", type=int, default=10)
    options = parser.parse_args()
    width = getattr(torch, options.dtype).itemsize
    elements = int(parse(Bytes, options.size)) // width
    speed = copy_speed()
    print(f"{torch.cuda.get_device_name()}, copies at {speed / 1e12:.2f} TB/s read and written")
    print(
        f"{'plan':<26}{'ranks':>6}{'messages':>10}{'wrong':>7}{'measured us':>13}{'copies us':>11}{'ratio':>7}"
    )
    pools: dict[int, Pool] = {}
    for path in options.plans:
        scripts = scripts_of(pccl.load(path))
        counts = tuple(elements for _ in scripts.parts)
        job = Job((counts,), options.dtype, iterations=options.iterations, warmup=3)
        pool = pools.get(scripts.ranks)
        if pool is None:
            pool = pools[scripts.ranks] = Pool(scripts.ranks, "pccl.torch.ipc:connect", 60.0)
        (outcome,) = together(pool.run("pccl.runtime.measure:measure_rank", scripts, job))
        least = moved(scripts, counts) * width / speed
        print(
            f"{path.stem:<26}{scripts.ranks:>6}{len(scripts.messages):>10}{sum(outcome.wrong):>7}"
            f"{outcome.seconds * 1e6:>13,.0f}{least * 1e6:>11,.0f}{outcome.seconds / least:>7.2f}",
            flush=True,
        )
    for pool in pools.values():
        pool.close()


def copy_speed() -> float:
    """Bytes that the GPU reads and writes per second when it copies a large buffer; the best of several."""
    source = torch.empty(BUFFER, dtype=torch.uint8, device="cuda")
    target = torch.empty_like(source)
    best = 0.0
    for _ in range(10):
        begin = torch.cuda.Event(enable_timing=True)
        end = torch.cuda.Event(enable_timing=True)
        begin.record()
        target.copy_(source)
        end.record()
        end.synchronize()
        best = max(best, COPY * BUFFER / begin.elapsed_time(end) * 1e3)
    return best


def moved(scripts: Scripts, elements: tuple[int, ...]) -> int:
    """Elements that all ranks together read and write."""
    total = 0
    for rank in range(scripts.ranks):
        for step in script_of(scripts, rank, elements).steps:
            if step.action in (Action.SEND, Action.COPY):
                total += COPY * step.length
            elif step.action == Action.TAKE and step.reduce:
                total += SUM * step.length
            elif step.action == Action.TAKE and not step.direct:
                total += COPY * step.length
    return total


if __name__ == "__main__":
    main()
