"""Steps in whatever order they become possible, for transports that can wait for the first of several messages.

One step after another, a rank that waits for a late message sends nothing to anybody else in the meantime, and so makes
others late. Here only what has to come first is waited for; messages to the same rank keep their planned order, as they
share its links.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterator
from typing import Any

from pccl._arrays import Ints
from pccl.runtime.scripts import Action, Scripts
from pccl.runtime.sizes import Script, Step
from pccl.runtime.transport import Handle


def needs_of(scripts: Scripts, rank: int) -> dict[int, list[int]]:
    """By event of a rank, the events that must be complete before it.

    Sending message ``m`` is event ``2 * m``, and taking it the next.
    """
    m = scripts.messages
    event = scripts.after
    at: Ints = m.dst[event // 2]
    is_sent = event % 2 == 0
    at[is_sent] = m.src[event[is_sent] // 2]
    found: dict[int, list[int]] = defaultdict(list)
    mine = at == rank
    for before, after in zip(scripts.before[mine].tolist(), event[mine].tolist(), strict=True):
        found[after].append(before)
    return found


def perform_eagerly(
    script: Script, needs: dict[int, list[int]], hands: Any, transport: Any
) -> Iterator[Handle]:
    """Do every step as soon as it can be done."""
    run = _Run(script, needs, hands, transport)
    while run.waiting:
        yield transport.first(list(run.waiting))
        run.go_on()


class _Run:
    """What is still to be done.

    Attributes
    ----------
    waiting
        Messages under way, and the event that is complete with each: what has left, or what can be taken.
    """

    def __init__(
        self, script: Script, needs: dict[int, list[int]], hands: Any, transport: Any
    ) -> None:
        self.hands = hands
        self.transport = transport
        self.waiting: dict[Any, int] = {}
        self._takes: dict[int, tuple[Step, Any]] = {}
        self._peer: dict[int, int] = {}
        self._sends: dict[int, deque[Step]] = defaultdict(deque)
        self._posts: dict[int, deque[Step]] = defaultdict(deque)
        # Per event: how many others it waits for, of those that there are with so many elements; and who waits for it.
        self._missing: dict[int, int] = {}
        self._followers: dict[int, list[int]] = defaultdict(list)
        events = {_event(step) for step in script.steps if step.message >= 0}
        for step in script.steps:
            if step.action == Action.COPY:
                hands.copy(step)
            elif step.action == Action.POST:
                self._posts[step.peer].append(step)
            elif step.action == Action.SEND:
                self._sends[step.peer].append(step)
                self._peer[_event(step)] = step.peer
            if step.action in (Action.SEND, Action.TAKE):
                event = _event(step)
                before = [one for one in needs.get(event, ()) if one in events]
                # A message is taken when it has come.
                self._missing[event] = len(before) + (step.action == Action.TAKE)
                for one in before:
                    self._followers[one].append(event)
                if step.action == Action.TAKE:
                    self._takes[event] = (step, None)
        # Two at once, so that the second has a place when it comes in behind the first.
        for peer in 2 * list(self._posts):
            self._post(peer)
        for peer in self._sends:
            self._send(peer)

    def go_on(self) -> None:
        """Do all that has become possible."""
        come = [handle for handle in self.waiting if handle.done]
        for handle in come:
            event = self.waiting.pop(handle)
            if event % 2:
                self._post(handle.peer)
                self._arm(event)
            else:
                self._complete(event)

    def _post(self, peer: int) -> None:
        """Expect the next message of a rank, which is received while the one before it is taken."""
        if self._posts[peer]:
            step = self._posts[peer].popleft()
            place = self.hands.place(step)
            event = _event(step)
            self._takes[event] = (self._takes[event][0], place)
            self.waiting[self.transport.receive(place, peer, step.tag)] = event

    def _send(self, peer: int) -> None:
        """Send what may be sent to a rank, in the planned order."""
        queue = self._sends[peer]
        while queue and not self._missing[_event(queue[0])]:
            step = queue.popleft()
            handle = self.transport.send(self.hands.source(step), peer, step.tag)
            self.waiting[handle] = _event(step)

    def _arm(self, event: int) -> None:
        """One thing less that an event waits for."""
        self._missing[event] -= 1
        if self._missing[event]:
            return
        if event % 2:
            step, place = self._takes.pop(event)
            self.hands.take(step, place)
            self._complete(event)
        else:
            self._send(self._peer[event])

    def _complete(self, event: int) -> None:
        for follower in self._followers.pop(event, ()):
            self._arm(follower)


def _event(step: Step) -> int:
    return 2 * step.message + (step.action != Action.SEND)
