"""Problems for tests, as the search poses them."""

from __future__ import annotations

import numpy as np

from pccl.collective import compile_conditions
from pccl.synthesis.problem import Problem


def pose(topology, *collectives) -> Problem:
    conditions = compile_conditions(topology, collectives)
    confined = np.array([collective.confined for collective in collectives], np.bool_)
    return Problem(topology, tuple(collectives), conditions, 0, lambda *_: None, confined)
