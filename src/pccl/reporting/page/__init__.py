"""A page about an algorithm that any browser opens, also without a network.

writer     report(), which puts the page together from its parts
data       how busy links are over time, a sample of chunks, and what else scripts work with, packed
content    what the page says in words and tables
commands   what to do with the algorithm next, as commands that work
assets/    the page itself, its style and its scripts
"""

from __future__ import annotations

from pccl.reporting.page.writer import report

__all__ = ["report"]
