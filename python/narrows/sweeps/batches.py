"""Batches for workers: runs that take about a second together, so that handing them out costs little.

How long a run takes is learnt on the way: the mean over the runs of its scenario text (its point), or over all runs as
long as there is none of that point. Nothing is known at first, so the first batches have one run each. Runs keep the
grid's order.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

from narrows.sweeps.work import Run


class Mean:
    """A running mean."""

    def __init__(self) -> None:
        self.sum = 0.0
        self.count = 0

    def add(self, value: float) -> None:
        """Adds a value."""
        self.sum += value
        self.count += 1

    def get(self) -> float | None:
        """Returns the mean; None before the first value."""
        return self.sum / self.count if self.count else None


class Batches:
    """Runs that wait, and how long they are thought to take."""

    def __init__(self, runs: Iterable[Run], task_s: float, most: int = 1000) -> None:
        self.waiting = deque(runs)
        self.task_s = task_s
        self.most = most
        self._points: dict[str, Mean] = {}
        self._all = Mean()

    def took(self, run: Run, seconds: float) -> None:
        """A run was done in so much time."""
        self._points.setdefault(run.scenario, Mean()).add(seconds)
        self._all.add(seconds)

    def expected(self, run: Run) -> float | None:
        """Seconds a run is thought to take."""
        mean = self._points.get(run.scenario)
        return self._all.get() if mean is None else mean.get()

    def next(self) -> list[Run]:
        """The next runs that take ``task_s`` together, at most ``most``; none if none waits."""
        batch: list[Run] = []
        seconds = 0.0
        while self.waiting and len(batch) < self.most and (not batch or seconds < self.task_s):
            run = self.waiting.popleft()
            batch.append(run)
            expected = self.expected(run)
            if expected is None:
                break
            seconds += expected
        return batch

    def give_back(self, runs: Iterable[Run]) -> None:
        """Runs that were not done, to be handed out first."""
        self.waiting.extendleft(reversed(list(runs)))

    def put_off(self, runs: Iterable[Run]) -> None:
        """Runs that somebody else is at, to be handed out last."""
        self.waiting.extend(runs)
