"""What a caller may say about the search: one dataclass, from which everything else follows.

``synthesize(..., effort="fast")``, the keys of a spec file and the options of the command line all make a
:class:`Settings`, so a new setting is one field here: its type, its default, its help, and what it must be.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any

from pccl.errors import PcclError
from pccl.targets import TARGETS
from pccl.units import truth, whole

__all__ = ["Settings"]


# Seconds that a balanced search takes at most, with kernels compiled, on two cores that do nothing else: NPUs up to
# which, and how long it is there.
WAITS = ((64, 20.0), (512, 60.0), (1024, 120.0))
# A thorough search takes so many times as long.
THOROUGH = 10.0


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _setting(default: Any, text: str, **about: Any) -> Any:
    """A field: its default and its help; `choices`, a `check` and what it `must_be`, a `unit`, a `flag` of its own."""
    return field(default=default, metadata={"help": text, **about})


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
        "How much to try: fast is one pass of the method that promises most, balanced tries others until the gap to "
        "the bound is below 1% or nothing more is gained, thorough tries many more.",
        choices=("fast", "balanced", "thorough"),
    )
    time_limit: float | None = _setting(
        None,
        "Take the best found after this many seconds; the first pass is always completed. Default: 20 up to 64 NPUs, "
        "60 up to 512, 120 above; for thorough ten times that.",
        check=lambda value: _is_number(value) and value > 0,
        must_be="a positive number of seconds",
        unit="seconds",
    )
    gap: float | None = _setting(
        None,
        "Stop when this close to the bound: 5% or 0.05.",
        check=lambda value: _is_number(value) and 0 <= value < 1e6,
        must_be="a share from 0 on, such as 0.05",
        unit="share",
    )
    seed: int = _setting(
        0,
        "Breaks ties; the same seed gives the same algorithm, bit for bit.",
        check=lambda value: whole(value) is not None and value >= 0,
        must_be="a whole number from 0 on",
    )
    method: str | None = _setting(
        None,
        "One method only: earliest-arrival (the paper's), price-guided, flooding, joint, direct, or mirrored (an "
        "All-Reduce without switches).",
    )
    order: str | None = _setting(
        None,
        "The order in which chunks are placed: farthest-first (the paper's), rounds or random.",
    )
    routes: str | None = _setting(
        None,
        "Whether chunks keep to shortest routes or may take detours.",
        choices=("minimal", "any"),
    )
    target: str | None = _setting(
        None,
        "The runtime that is to run it: the search keeps within its limits and counts the time of its messages. "
        "Default: none; then what is found suits all of them, where that costs at most 5%.",
        choices=tuple(TARGETS),
        flag="--for",
    )
    verify: bool = _setting(
        True,
        "Whether the verifier checks the result.",
        check=lambda value: truth(value) is not None,
        must_be="True or False",
        named="setting verify",
    )

    def __post_init__(self) -> None:
        for setting in fields(self):
            value = getattr(self, setting.name)
            if value is None and setting.default is None:
                continue
            about = setting.metadata
            name = about.get("named", setting.name.replace("_", " "))
            if "choices" in about and value not in about["choices"]:
                known = ", ".join(about["choices"])
                raise PcclError(f"there is no {name} {value!r}; there are {known}")
            if "check" in about and not about["check"](value):
                raise PcclError(f"the {name} must be {about['must_be']}, not {value!r}")

    @classmethod
    def read(cls, given: object, usual: Settings | None = None) -> Settings:
        """Return the settings that a caller gave as a whole, or the usual ones where that is None.

        Examples
        --------
        >>> Settings.read(None).effort
        'balanced'
        >>> Settings.read({"effort": "fast"})
        Traceback (most recent call last):
        ...
        pccl.errors.PcclError: settings must be a pccl.Settings, such as Settings(effort='fast'), not {'effort': 'fast'}
        """
        if given is None:
            return usual or cls()
        if not isinstance(given, cls):
            raise PcclError(
                f"settings must be a pccl.Settings, such as Settings(effort='fast'), not {given!r}"
            )
        return given

    def usual_wait(self, npus: int) -> float | None:
        """Seconds that a search takes at most if the caller sets no limit; None for a single pass, which is never cut.

        Examples
        --------
        >>> Settings().usual_wait(64), Settings(effort="fast").usual_wait(64)
        (20.0, None)
        """
        if self.effort == "fast":
            return None
        wait = next((seconds for most, seconds in WAITS if npus <= most), WAITS[-1][1])
        return wait * THOROUGH if self.effort == "thorough" else wait

    @classmethod
    def of(cls, **given: Any) -> Settings:
        """Return the settings given by name; an unknown name is refused with the names there are."""
        return cls().with_overrides(given)

    def with_overrides(self, given: Mapping[str, Any]) -> Settings:
        """Return these settings with those given by name in their place.

        Examples
        --------
        >>> Settings(seed=3).with_overrides({"effort": "fast"}).seed
        3
        """
        known = [setting.name for setting in fields(self)]
        for name in given:
            if name not in known:
                raise PcclError(f"there is no setting {name!r}; there are {', '.join(known)}")
        return replace(self, **given)
