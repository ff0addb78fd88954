"""Plans in JAX, inside :func:`jax.shard_map` and :func:`jax.jit` (extra ``jax``).

rounds   in_rounds(): messages as a few static permutations, round by round
tables   what every device does in every round

A plan becomes one ``lax.scan`` over its rounds. A round is one ``lax.ppermute`` for each of a few fixed permutations of
the devices; what is sent, and what becomes of it, is looked up in tables. So the program stays small however many
messages there are, and is differentiated and compiled as any other.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from pccl.algorithm import Algorithm
from pccl.errors import RunError
from pccl.jax.rounds import Rounds, in_rounds
from pccl.jax.tables import (
    ADD,
    COPY_COUNT,
    COPY_READ,
    COPY_WRITE,
    COUNT,
    READ,
    REDUCE,
    WRITE,
    Tables,
    schedule,
    tables_of,
)
from pccl.runtime import OPS, Scripts, scripts_of

try:
    import jax.numpy as jnp
    from jax import lax
except ImportError:
    raise RunError(
        "plans in JAX need the package jax: pip install 'pccl-synth[jax]', or jax by itself"
    ) from None

__all__ = ["Collective", "Rounds", "compile", "in_rounds"]

_OPERATIONS = {"sum": jnp.add, "avg": jnp.add, "prod": jnp.multiply, "max": jnp.maximum}
_OPERATIONS["min"] = jnp.minimum


def compile(algorithm: Algorithm, axis_name: str) -> Collective:  # noqa: A001
    """Make a function of a plan, to be called inside `jax.shard_map`.

    Parameters
    ----------
    algorithm
        Any that the verifier accepts. Device ``i`` along the axis stands for the i-th NPU of its topology, in or out of
        the groups.
    axis_name
        The axis of the mesh of devices; it must be as long as there are NPUs.

    Examples
    --------
    ::

        plan = pccl.synthesize(pccl.topology.mesh(2, 4), pccl.AllReduce("1MiB"))
        all_reduce = pccl.jax.compile(plan, "x")
        mesh = jax.make_mesh((8,), ("x",))
        total = jax.jit(jax.shard_map(all_reduce, mesh=mesh, in_specs=P("x"), out_specs=P("x")))(values)
    """
    return Collective(algorithm, axis_name)


class Collective:
    """A plan as a function of arrays; made by :func:`compile`."""

    def __init__(self, algorithm: Algorithm, axis_name: str) -> None:
        self.axis_name = axis_name
        # Joined messages differ in length, and every exchange is as long as the longest.
        self.scripts: Scripts = scripts_of(algorithm, join=False)
        self.rounds = schedule(self.scripts)
        self._made: dict[tuple[int, ...], Tables] = {}

    def __call__(self, *inputs: Any, op: str = "sum") -> Any:
        """Run the plan.

        Parameters
        ----------
        inputs
            Of this device: one array for each collective that it is a member of, in the order of the plan. All devices
            have equal shapes, as always in JAX; what a device does not need is not read.
        op
            What sums are: ``sum``, ``prod``, ``max``, ``min`` or ``avg``.

        Returns
        -------
        array or tuple of arrays
            The output of each, in one dimension; zeros where nothing is promised. One array if there is one input.
        """
        if op not in OPS:
            raise RunError(f"there is no operation {op!r}; there are {', '.join(OPS)}")
        size = lax.axis_size(self.axis_name)
        if size != self.scripts.ranks:
            raise RunError(
                f"the plan is for {self.scripts.ranks} ranks, but the axis {self.axis_name!r} has {size} devices"
            )
        flat = [jnp.ravel(array) for array in inputs]
        if len({array.dtype for array in flat}) > 1:
            raise RunError("the inputs differ in type; run collectives of different types apart")
        tables = self._tables(tuple(array.size for array in flat))
        buffer = self._run(tables, flat, op)
        device = lax.axis_index(self.axis_name)
        outputs = []
        for number, (begin, length) in enumerate(tables.outputs):
            output = buffer[begin : begin + length]
            if op == "avg" and (tables.members[number] > 1).any():
                output = _divided(output, jnp.asarray(tables.members[number])[device])
            outputs.append(output)
        return outputs[0] if len(outputs) == 1 else tuple(outputs)

    def elements(self, *lengths: int) -> list[int]:
        """How many elements every collective of the plan has, given the lengths of the inputs of a device."""
        return self._tables(lengths).elements

    def _tables(self, lengths: tuple[int, ...]) -> Tables:
        if lengths not in self._made:
            self._made[lengths] = tables_of(self.scripts, self.rounds, lengths)
        return self._made[lengths]

    def _run(self, tables: Tables, inputs: list[Any], op: str) -> Any:
        device = lax.axis_index(self.axis_name)
        room = tables.size - sum(array.size for array in inputs) + max(tables.message, tables.copy)
        dtype = inputs[0].dtype
        # From the device's own number, so that JAX knows that the zeros of devices will not stay equal.
        zeros = jnp.zeros(room, dtype) + (0 * device).astype(dtype)
        buffer = jnp.concatenate([*inputs, zeros])
        copies = jnp.asarray(tables.copies)[:, device]
        exchanges = jnp.asarray(tables.exchanges)[:, :, device]
        if len(tables.copies):
            buffer = lax.scan(partial(_copy, tables.copy), buffer, copies)[0]
        if tables.exchanges.size:
            buffer = lax.scan(partial(self._round, tables.message, op), buffer, exchanges)[0]
        return buffer

    def _round(self, length: int, op: str, buffer: Any, rows: Any) -> tuple[Any, None]:
        """All messages of a round are read before any is written."""
        received = [
            lax.ppermute(
                lax.dynamic_slice(buffer, (rows[color, READ],), (length,)), self.axis_name, pairs
            )
            for color, pairs in enumerate(self.rounds.permutations)
        ]
        for color, message in enumerate(received):
            row = rows[color]
            added = lax.dynamic_slice(buffer, (row[ADD],), (length,))
            result = jnp.where(row[REDUCE] > 0, _OPERATIONS[op](added, message), message)
            buffer = _written(buffer, row[WRITE], row[COUNT], result)
        return buffer, None


def _copy(length: int, buffer: Any, row: Any) -> tuple[Any, None]:
    source = lax.dynamic_slice(buffer, (row[COPY_READ],), (length,))
    return _written(buffer, row[COPY_WRITE], row[COPY_COUNT], source), None


def _written(buffer: Any, begin: Any, count: Any, values: Any) -> Any:
    """The buffer with the first `count` of the values in it; what lies behind them stays as it is."""
    old = lax.dynamic_slice(buffer, (begin,), values.shape)
    kept = jnp.where(jnp.arange(values.size) < count, values, old)
    return lax.dynamic_update_slice(buffer, kept, (begin,))


def _divided(output: Any, by: Any) -> Any:
    if not jnp.issubdtype(output.dtype, jnp.floating):
        raise RunError(f"an average of {output.dtype} is not defined; take a sum")
    return output / by.astype(output.dtype)
