"""What a caller may say about the search: one dataclass, from which everything else follows.

``synthesize(..., effort="fast")``, a spec file and the options of the command line all make a :class:`Settings`, so a
new setting is one field here: its default, its type and its help.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from pccl.errors import PcclError
from pccl.units import whole

__all__ = ["EFFORTS", "Settings"]

EFFORTS = ("fast", "balanced", "thorough")


def _setting(default: Any, text: str, **more: Any) -> Any:
    return field(default=default, metadata={"help": text, **more})


@dataclass(frozen=True)
class Settings:
    """How to search for an algorithm.

    Examples
    --------
    >>> Settings(effort="fast").seed
    0
    >>> Settings(effort="quick")
    Traceback (most recent call last):
    ...
    pccl.errors.PcclError: there is no effort 'quick'; there are fast, balanced, thorough
    """

    effort: str = _setting(
        "balanced",
        "fast: one pass of the method that promises most; balanced: other methods, knobs and orders as well, until the "
        "gap is below 1 % or nothing more is gained; thorough: many more of them",
        choices=EFFORTS,
    )
    time_limit: float | None = _setting(
        None,
        "seconds after which the best so far is taken; the first pass is always completed",
        unit="s",
    )
    gap: float | None = _setting(
        None, "how far from the lower bound is good enough, as a share such as 0.05", unit="share"
    )
    seed: int = _setting(
        0, "breaks ties; the same input, seed and effort give the same algorithm, bit for bit"
    )
    method: str | None = _setting(None, "one method only, such as earliest-arrival (the paper's)")
    order: str | None = _setting(
        None, "in which chunks are placed, such as farthest-first (the paper's)"
    )
    routes: str | None = _setting(
        None,
        "minimal keeps chunks with one destination on shortest routes, any allows detours",
        choices=("minimal", "any"),
    )
    verify: bool = _setting(True, "have the verifier check the result", hidden=True)

    def __post_init__(self) -> None:
        for setting in fields(self):
            value = getattr(self, setting.name)
            choices = setting.metadata.get("choices")
            if choices and value is not None and value not in choices:
                known = ", ".join(choices)
                raise PcclError(f"there is no {setting.name} {value!r}; there are {known}")
        if self.time_limit is not None and not (
            _is_number(self.time_limit) and self.time_limit > 0
        ):
            raise PcclError(
                f"the time limit must be a positive number of seconds, not {self.time_limit!r}"
            )
        if self.gap is not None and not (_is_number(self.gap) and 0 <= self.gap < 1e6):
            raise PcclError(f"the gap must be a share from 0 on, such as 0.05, not {self.gap!r}")
        if whole(self.seed) is None or self.seed < 0:
            raise PcclError(f"the seed must be a whole number from 0 on, not {self.seed!r}")

    def with_overrides(self, given: Mapping[str, Any]) -> Settings:
        """The same, but for what is given by name."""
        return type(self).of(**{**vars(self), **given}) if given else self

    @classmethod
    def of(cls, **given: Any) -> Settings:
        """The settings given by name; an unknown name is refused with the names there are."""
        known = [setting.name for setting in fields(cls)]
        for name in given:
            if name not in known:
                raise PcclError(f"there is no setting {name!r}; there are {', '.join(known)}")
        return cls(**given)


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
