"""How bytes of a program become chunks of a file."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pccl._arrays import Ints
from pccl.errors import PcclError
from pccl.formats.lowering import SCRATCH, Program
from pccl.formats.msccl.targets import MOST_OFFSET
from pccl.formats.runtime_files import too_many_chunks, unit_of


@dataclass(frozen=True, eq=False)
class Units:
    """How bytes of a program become chunks of a file."""

    unit: int  # bytes, before instances cut it
    share: int  # units of a share; 0 if instances cut chunks and not shares
    per_loop: int  # units of the larger buffer
    scratch: Ints  # per rank
    instances: int

    @classmethod
    def of(cls, program: Program, instances: int, apart: bool = False) -> Units:
        """The largest chunks that everything is a multiple of.

        Instances have a block of every share each, so that what lies side by side in an instance stays side by side. If
        chunks stay `apart`, instances cut each of them instead, so that the beginning of a share stays its beginning.
        """
        kind = program.collective
        whole = int(max(program.input_bytes.max(), program.output_bytes.max()))
        # Members have shares of a sum that all end with; otherwise all ranks have shares in the largest buffer.
        sums_everywhere = kind.collects and kind.spreads
        share = whole // len(program.members if sums_everywhere else program.npus)
        unit = unit_of(program, share)
        block = 0 if apart and instances > 1 else share // unit
        units = cls(unit, block, whole // unit, program.scratch_bytes // unit, instances)
        largest = max(units.per_loop, int(units.scratch.max(initial=0)))
        if largest > MOST_OFFSET:
            raise too_many_chunks(program, unit, largest, "a buffer", MOST_OFFSET)
        if largest * instances > MOST_OFFSET:
            raise PcclError(
                f"{instances} instances of {largest:,} chunks are more than the {MOST_OFFSET:,} that the runtimes can "
                "number in a buffer; take fewer instances or chunks"
            )
        return units

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
