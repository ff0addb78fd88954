"""How bytes of a program become chunks of a file."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from pccl._arrays import Ints
from pccl.formats.lowering import SCRATCH, Program

__all__ = ["Units"]


@dataclass(frozen=True, eq=False)
class Units:
    """How bytes of a program become chunks of a file."""

    unit: int  # bytes, before instances cut it
    share: int  # units of a share; 0 if instances cut chunks and not shares
    per_loop: int  # units of the larger buffer
    scratch: Ints  # per rank
    instances: int

    @classmethod
    def of(cls, program: Program, share: int, instances: int, apart: bool = False) -> Units:
        """The largest chunks that everything is a multiple of; `share` is in bytes.

        Instances have a block of every share each, so that what lies side by side in an instance stays side by side. If
        chunks stay `apart`, instances cut each of them instead, so that the beginning of a share stays its beginning.
        """
        m, c = program.messages, program.copies
        columns = (
            m.bytes,
            m.read_offset,
            m.write_offset,
            m.add_offset,
            c.bytes,
            c.read_offset,
            c.write_offset,
        )
        unit = math.gcd(share, *(int(np.gcd.reduce(column)) for column in columns if len(column)))
        whole = int(max(program.input_bytes.max(), program.output_bytes.max()))
        block = 0 if apart and instances > 1 else share // unit
        return cls(unit, block, whole // unit, program.scratch_bytes // unit, instances)

    @property
    def together(self) -> bool:
        """Whether neighbours in the program are neighbours in the file."""
        return self.share > 0 or self.instances == 1

    def offset(self, rank: Ints, buffer: Ints, offset: Ints, size: Ints, instance: Ints) -> Ints:
        """Where an instance has its part of something that has so many units, in the file."""
        if not self.share:
            return offset * self.instances + instance * size
        share, within = np.divmod(offset, self.share)
        apart: Ints = np.where(
            buffer == SCRATCH,
            instance * self.scratch[rank] + offset,
            (share * self.instances + instance) * self.share + within,
        )
        return apart
