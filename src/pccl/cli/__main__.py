"""``python -m pccl.cli``."""

from pccl.cli import run

run()
