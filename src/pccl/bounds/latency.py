"""Latency: nothing is faster than a chunk that has the network for itself.

The certificate names two devices, from and to which some chunk must get. Its number is only there for people, as it
depends on how others are cut: any chunk between these devices proves as much.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from pccl._arrays import Bools, Ints, take_rows
from pccl.algorithm.bound import Certificate
from pccl.bounds.case import Case
from pccl.collective import Conditions
from pccl.network import NEVER, few_sizes, network, no_way, times_from_nearest, unloaded_times
from pccl.topology import Topology


def find(case: Case) -> Iterator[tuple[Certificate, bool]]:
    """Yield the longest way of a chunk that stays whole, and that of a byte of those that might be cut."""
    conditions = case.conditions
    every = np.ones(len(conditions), np.bool_)
    cut_freely = ~every if case.cut_freely is None else case.cut_freely
    yield _longest_way(case.topology, conditions, ~cut_freely), True
    if np.any(cut_freely):
        # Cut finely enough, data travel as a stream; then only the way of the first byte is certain.
        single_bytes = replace(conditions, bytes=every.astype(np.int64))
        yield _longest_way(case.topology, single_bytes, every), False


def prove(case: Case, certificate: Certificate, whole_chunks: bool) -> int:
    """Picoseconds that the largest chunk between the two devices needs at least, or else its first byte."""
    if not certificate:
        return 0
    source, destination = certificate["devices"]
    devices = np.arange(case.topology.num_devices)
    counts = case.going(devices == source, devices == destination)
    if whole_chunks and case.cut_freely is not None:
        # What might be cut further need not travel as a whole.
        counts &= ~case.cut_freely
    sizes = case.conditions.bytes[counts]
    if not len(sizes):
        return 0
    size = int(sizes.max()) if whole_chunks else 1
    return int(times_from_nearest(case.topology, size, np.array([source]))[destination])


def explain(_case: Case, certificate: Certificate, _whole_chunks: bool) -> str:
    """Which way it is."""
    if not certificate:
        return "as nothing has to be sent"
    source, destination = certificate["devices"]
    return f"the way of chunk {certificate['chunk'][0]} from {source} to {destination}"


def _longest_way(topology: Topology, conditions: Conditions, among: Bools) -> Certificate:
    """The chunk, among some, that is on its way for longest from a source to a destination."""
    # The first piece of a share is the largest, and has the same ends as all others.
    chunks = np.flatnonzero(among & (conditions.piece == 0) & (conditions.num_destinations > 0))
    sizes, size_of = conditions.sizes
    class_of_size, smallest = few_sizes(sizes)
    net = network(topology, sizes)
    size_class = class_of_size[size_of[chunks]]
    longest = 0
    certificate: Certificate = {}
    for one_class in np.unique(size_class):
        some = chunks[size_class == one_class]
        devices = np.unique(take_rows(conditions.source_offsets, conditions.source_ids, some)[1])
        times = unloaded_times(net, devices, np.full(len(devices), smallest[one_class]))
        chunk = _farthest(conditions, some, devices, times)
        sources = conditions.sources(chunk)
        destinations = conditions.destinations(chunk)
        table = times[np.searchsorted(devices, sources)][:, destinations]
        source, destination = divmod(int(table.argmax()), len(destinations))
        ends = int(sources[source]), int(destinations[destination])
        time = int(table[source, destination])
        if time >= NEVER:
            raise no_way(topology, chunk, *ends)
        # Of equally long ways, that of the first chunk counts.
        is_earlier = time == longest and bool(certificate) and chunk < certificate["chunk"][0]
        if time > longest or is_earlier:
            longest = time
            certificate = {"chunk": (chunk,), "devices": ends}
    return certificate


def _farthest(conditions: Conditions, chunks: Ints, devices: Ints, times: Ints) -> int:
    """The first chunk with the longest way, where ``times[i]`` are those from ``devices[i]`` to all others."""
    row, times = _with_sums(conditions, chunks, devices, times)
    first, destinations = take_rows(
        conditions.destination_offsets, conditions.destination_ids, chunks
    )
    row_of_destination = np.repeat(row, np.diff(first))
    longest = int(times[row_of_destination, destinations].argmax())
    return int(chunks[np.searchsorted(first, longest, side="right") - 1])


def _with_sums(
    conditions: Conditions, chunks: Ints, devices: Ints, times: Ints
) -> tuple[Ints, Ints]:
    """The row of times that counts for each chunk, and the times, with rows for sums added.

    The times from several contributors are those from the farthest; many sums have the same contributors.
    """
    first, sources = take_rows(conditions.source_offsets, conditions.source_ids, chunks)
    row = np.searchsorted(devices, sources[first[:-1]])
    row_of: dict[bytes, int] = {}
    added: list[Ints] = []
    for i in np.flatnonzero(np.diff(first) > 1).tolist():
        contributors = sources[first[i] : first[i + 1]]
        key = contributors.tobytes()
        if key not in row_of:
            row_of[key] = len(times) + len(added)
            added.append(times[np.searchsorted(devices, contributors)].max(axis=0))
        row[i] = row_of[key]
    if added:
        times = np.vstack([times, added])
    return row, times
