"""``python -m pccl.cli``."""

from pccl.cli import main

main()
