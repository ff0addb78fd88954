"""PCCL."""
