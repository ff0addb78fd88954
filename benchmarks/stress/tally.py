"""What came of all problems, for people."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field

from benchmarks.stress.checks import CHECKS
from benchmarks.stress.judge import Outcome, Verdict

_SLOWEST = 10
_REFUSALS = 15
_WORST = 5
_WIDEST = 150
# Of a traceback or a stack, the last lines tell most.
_LINES = 24


@dataclass
class Tally:
    """Verdicts, as they come; the options are those that tell which problem a number stands for."""

    verdicts: list[Verdict] = field(default_factory=list)
    options: str = ""

    def add(self, verdict: Verdict) -> None:
        """Count a verdict, and tell of a failure at once."""
        self.verdicts.append(verdict)
        if verdict.outcome.failed:
            print(failure(verdict, self.options), flush=True)

    def count(self, *outcomes: Outcome) -> int:
        """How many verdicts are one of these."""
        return sum(verdict.outcome in outcomes for verdict in self.verdicts)

    @property
    def failed(self) -> bool:
        """Whether anything falls short."""
        return any(verdict.outcome.failed for verdict in self.verdicts)

    def progress(self, seconds: float) -> str:
        """One line on how it is going."""
        failures = sum(verdict.outcome.failed for verdict in self.verdicts)
        slowest = max(self.verdicts, key=lambda verdict: verdict.wait, default=None)
        text = f"{seconds:5.0f} s: {len(self.verdicts):,} done, {failures} failures"
        if slowest is not None and slowest.wait:
            text += f", slowest {slowest.wait:.1f} s ({slowest.problem.name})"
        return text

    def summary(self) -> str:
        """Everything, with the counts in the last line."""
        parts = [self._kinds(), self._checks(), self._refusals(), self._slow(), self._gaps()]
        parts.append(self._failures())
        return "\n\n".join([part for part in parts if part] + [self.counts()])

    def counts(self) -> str:
        """The last line."""
        return (
            f"stress: {len(self.verdicts):,} problems, {self.count(Outcome.PLANNED):,} planned, "
            f"{self.count(Outcome.REFUSED):,} refused, {self.count(Outcome.HUNG):,} hangs, "
            f"{self.count(Outcome.CRASHED):,} crashes, {self.count(Outcome.INCORRECT):,} incorrect, "
            f"{self.count(Outcome.LATE):,} beyond the wait"
        )

    def _kinds(self) -> str:
        table: dict[str, Counter[str]] = {}
        for verdict in self.verdicts:
            which = "failed" if verdict.outcome.failed else verdict.outcome.value
            for kind in set(verdict.problem.kinds):
                table.setdefault(kind, Counter())[which] += 1
        lines = [f"{'collective':<16}{'planned':>9}{'refused':>9}{'failed':>9}"]
        for kind, row in sorted(table.items()):
            cells = "".join(f"{row[which]:>9,}" for which in ("planned", "refused", "failed"))
            lines.append(f"{kind:<16}{cells}")
        return "\n".join(lines)

    def _checks(self) -> str:
        made = Counter(name for verdict in self.verdicts for name in verdict.checked)
        words = [f"{name} {made[name]:,}" for name in CHECKS]
        families = {verdict.problem.family for verdict in self.verdicts}
        return f"Plans were looked at by: {', '.join(words)}\nNetworks: {len(families)} kinds"

    def _refusals(self) -> str:
        shapes: Counter[str] = Counter()
        example: dict[str, str] = {}
        for verdict in self.verdicts:
            if verdict.outcome is Outcome.REFUSED:
                shape = _shape(verdict.text)
                shapes[shape] += 1
                example.setdefault(shape, verdict.problem.name)
        if not shapes:
            return ""
        lines = [
            f"{count:>6,}  {shape} ({example[shape]})"
            for shape, count in shapes.most_common(_REFUSALS)
        ]
        return "\n".join(["What was refused, with an example:", *lines])

    def _slow(self) -> str:
        slow = sorted(self.verdicts, key=lambda verdict: -verdict.wait)[:_SLOWEST]
        lines = ["Slowest searches: seconds of work, seconds here, seconds foreseen"]
        for one in slow:
            kinds = ", ".join(one.problem.kinds)
            what = f"{one.problem.name}, {one.problem.npus} NPUs of {one.problem.family}, {kinds}"
            lines.append(
                f"{one.wait:>7.2f}{one.wall:>8.2f}{one.foreseen:>8.1f}  {what}, {_settings(one)}"
            )
        return "\n".join(lines)

    def _gaps(self) -> str:
        planned = [verdict for verdict in self.verdicts if verdict.gap is not None]
        if not planned:
            return ""
        mean = sum(verdict.gap or 0 for verdict in planned) / len(planned)
        worst = sorted(planned, key=lambda verdict: -(verdict.gap or 0))[:_WORST]
        words = [f"{verdict.gap:.1%} ({verdict.problem.name})" for verdict in worst]
        return f"Gaps to the bound: mean {mean:.1%}, worst {', '.join(words)}"

    def _failures(self) -> str:
        """What fell short, what is alike together."""
        alike: dict[str, list[Verdict]] = {}
        for verdict in self.verdicts:
            if verdict.outcome.failed:
                alike.setdefault(_kind_of_failure(verdict), []).append(verdict)
        if not alike:
            return ""
        lines = [
            f"{len(some):>6,}  {_one_line(some[0], self.options)}"
            for some in sorted(alike.values(), key=len, reverse=True)
        ]
        return "\n".join(["What fell short, with an example:", *lines])


def _kind_of_failure(verdict: Verdict) -> str:
    # Of what ended in the same line of code, the texts differ.
    where = re.findall(r'File "[^"]*", line \d+', verdict.details)
    return f"{verdict.outcome.value} {where[-1] if where else _shape(verdict.text)}"


def failure(verdict: Verdict, options: str = "") -> str:
    """All that is known of a failure."""
    lines = verdict.details.strip().splitlines()
    hidden = ["..."] if len(lines) > _LINES else []
    check = CHECKS.get(verdict.stage)
    command = verdict.problem.command(check.code if check else "")
    details = [f"    {line}" for line in hidden + lines[-_LINES:]]
    return "\n".join([_one_line(verdict, options), *details, f"  {command}"])


def _one_line(verdict: Verdict, options: str) -> str:
    text = " ".join(verdict.text.split())
    again = f"python -m benchmarks.stress --one {verdict.problem.name}{options}"
    return f"{verdict.outcome.value} in {verdict.stage}: {text[:300]}  [{again}]"


def _settings(verdict: Verdict) -> str:
    return " ".join(f"{name}={value}" for name, value in verdict.problem.settings)


def _shape(text: str) -> str:
    """A text without what differs from problem to problem."""
    shape = re.sub(r"[0-9][0-9,.]*", "N", text)
    shape = re.sub(r"\[[^]]*\]|\([^)]*\)|'[^']*'|\"[^\"]*\"", "…", shape)
    return shape[:_WIDEST]
