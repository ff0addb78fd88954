"""Flooding: a second way to find trees, for chunks with many destinations."""

from __future__ import annotations

import numpy as np

from pccl._arrays import Ints, offsets_of, stable_order
from pccl.synthesis.jobs import Jobs
from pccl.synthesis.kernels import Flood, flood, prune
from pccl.synthesis.placement import Placed, Progress

__all__ = ["flooded"]

SLICE = 20_000  # transfers between two looks at the world outside


def flooded(jobs: Jobs, seed: int, progress: Progress) -> Placed:
    """Spread all chunks at once over a network where nothing else goes on."""
    net, devices = jobs.net, jobs.topology.num_devices
    # Jobs are numbered at random, as of equally rare ones the first is taken.
    number = np.random.default_rng(seed).permutation(len(jobs))
    # Where every device is a destination of something, relays would mostly be in the way; but some may be needed.
    relays = not np.all(np.bincount(jobs.destination, minlength=devices))
    state = _spread(jobs, number, relays, progress)
    if np.any(state.wants & ~state.has):
        state = _spread(jobs, number, True, progress)
    count = int(state.now[1])
    useful = np.zeros(count, np.bool_)
    prune(net, state, np.zeros_like(state.has), useful)
    kept = np.flatnonzero(useful)
    # By job, and in the order of their starts.
    job_of = np.empty(len(jobs), np.int32)
    job_of[number] = np.arange(len(jobs))
    job = job_of[state.job[kept]]
    order = kept[stable_order(job, len(jobs))]
    arc, start = state.arc[order], state.start[order]
    size = jobs.size[job_of[state.job[order]]]
    first = offsets_of(np.bincount(job, minlength=len(jobs)))
    end = int((start + net.travel[size, net.kind[arc]]).max(initial=0))
    return Placed(np.arange(len(jobs)), first, arc, start, end, work=8 * count)


def _spread(jobs: Jobs, number: Ints, relays: bool, progress: Progress) -> Flood:
    state, done = _initial(jobs, number, relays), 0
    while not flood(jobs.net, state, SLICE):
        reached = min(int(state.now[1]) * len(jobs) // max(len(jobs.destination), 1), len(jobs))
        progress(reached - done)
        done = reached
        if state.now[1] == len(state.arc):
            state = _grown(state)
    return state


def _initial(jobs: Jobs, number: Ints, relays: bool) -> Flood:
    net, n, arcs = jobs.net, jobs.topology.num_devices, len(jobs.net.dst)
    words = -(-len(jobs) // 64)
    has, wants = np.zeros((2, n, words), np.uint64)
    bit, word = np.uint64(1) << (number & 63).astype(np.uint64), number >> 6
    np.bitwise_or.at(has, (jobs.source, word), bit)
    owner = np.repeat(np.arange(len(jobs)), np.diff(jobs.first))
    np.bitwise_or.at(wants, (jobs.destination, word[owner]), bit[owner])
    size = np.empty(len(jobs), np.int32)
    size[number] = jobs.size
    room = len(jobs.destination) * 5 // 4 + arcs
    most = arcs * (
        2 + int(np.diff(net.first).max(initial=0))
    )  # touched at a time: as it becomes free, and per arrival
    return Flood(
        has=has,
        coming=has.copy(),
        wants=wants,
        copies=np.ones(len(jobs), np.int32),
        size=size,
        idle=np.ones(arcs, np.bool_),
        touched=np.arange(most),
        heap=np.empty((room + arcs + 2, 3), np.int64),
        job=np.empty(room, np.int32),
        arc=np.empty(room, np.int32),
        start=np.empty(room, np.int64),
        now=np.array([0, 0, 0, arcs, 1]),
        relays=relays,
    )


def _grown(state: Flood) -> Flood:
    room, count = 2 * len(state.arc), len(state.arc)
    wider = state._replace(
        heap=np.empty((len(state.heap) + count, 3), np.int64),
        job=np.empty(room, np.int32),
        arc=np.empty(room, np.int32),
        start=np.empty(room, np.int64),
    )
    wider.heap[: len(state.heap)] = state.heap
    for new, old in ((wider.job, state.job), (wider.arc, state.arc), (wider.start, state.start)):
        new[:count] = old
    return wider
