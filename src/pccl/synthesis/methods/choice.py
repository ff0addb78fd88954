"""Which methods to try for a problem, given what the settings leave open."""

from __future__ import annotations

from collections.abc import Iterable

from pccl.errors import PcclError
from pccl.settings import Settings
from pccl.synthesis.methods.base import Method
from pccl.synthesis.orders import check_order
from pccl.synthesis.problem import Problem

KNOBS = ("order", "routes")  # settings that only some methods have


class Choice:
    """The methods that the settings allow, with the knobs that they ask for."""

    def __init__(self, methods: dict[str, type[Method]], settings: Settings) -> None:
        self.settings = settings
        self.knobs = [name for name in KNOBS if getattr(settings, name) is not None]
        self.kinds = list(methods.values())
        if settings.order is not None:
            check_order(settings.order)
        if settings.method is None:
            return
        if settings.method not in methods:
            known = ", ".join(methods)
            raise PcclError(f"there is no method {settings.method!r}; there are {known}")
        self.kinds = [methods[settings.method]]
        for name in self.knobs:
            if name not in self.kinds[0].obeys:
                raise PcclError(f"{settings.method} has no {name} to choose")

    def openings(self, problem: Problem) -> list[Method]:
        """The cheapest methods that promise something for this input, the most promising first."""
        if self.settings.method is not None:
            refusal = self.kinds[0].refusal(problem)
            if refusal:
                raise PcclError(f"{self.settings.method} {refusal}; choose another method")
        ranked = [opening for kind in self.kinds for opening in kind.openings(problem)]
        ranked.sort(key=lambda opening: opening[0])
        usual = (kind.usual(problem) for kind in self.kinds)
        return self._allowed(method for _, method in ranked) or self._allowed(usual)

    def variants(self, problem: Problem) -> list[Method]:
        """Methods and knobs that are worth a try when the openings were not good enough."""
        return self._allowed(variant for kind in self.kinds for variant in kind.variants(problem))

    def _allowed(self, methods: Iterable[Method]) -> list[Method]:
        """Those methods that have all the knobs that the settings speak of, set to what they say."""
        able = (method for method in methods if method.obeys.issuperset(self.knobs))
        return list(dict.fromkeys(method.obeying(self.settings) for method in able))
