"""Keeps the workers busy until every run is done once."""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import CancelledError, Future
from queue import Empty, SimpleQueue
from typing import NamedTuple

from narrows import _native
from narrows.sweeps.batches import Batches
from narrows.sweeps.pools import AHEAD, Pool
from narrows.sweeps.store import Finished, Store
from narrows.sweeps.work import Done, Run, work

LOOK = 0.5
"""Seconds after which it is looked whether there are more workers now."""

Tables = Mapping[str, "_native.Table | None"]
"""The tables of a run that were asked for."""


class Row(NamedTuple):
    """A finished run that takes little room."""

    names: tuple[str, ...]
    """Names of the figures; runs share the tuple."""
    values: array[float]
    tables: Tables


class Drive:
    """A sweep on its way: what is finished, what waits, what is out."""

    def __init__(
        self,
        runs: Sequence[Run],
        store: Store | None,
        task_s: float,
        retries: int,
        tell: Callable[[int, int], object] | None,
    ) -> None:
        # Points that are the same under two names are one run.
        self.runs = {run.key: run for run in runs}
        self.store, self.retries, self.tell = store, retries, tell
        self.finished: dict[str, Row] = {}
        self.names: dict[tuple[str, ...], tuple[str, ...]] = {}
        self.lost: Counter[str] = Counter()
        self.out: dict[Future[Done], list[Run]] = {}
        self.back: SimpleQueue[Future[Done]] = SimpleQueue()
        self.batches = Batches((), task_s)
        for key, run in self.runs.items() if store is not None else ():
            found = store.find(key, run.tables) if store is not None else None
            if found is not None:
                self._finish(key, found)
        self.batches.give_back(run for key, run in self.runs.items() if key not in self.finished)
        self._told()

    def serial(self) -> None:
        """Here, one after another."""
        while batch := self.batches.next():
            self._take(batch, work(batch, self.batches.task_s, _native.ENGINE, self.store))

    def parallel(self, pool: Pool) -> None:
        """By a pool's workers."""
        while self.batches.waiting or self.out:
            broken = self._hand_out(pool)
            for future in self._come_back():
                batch = self.out.pop(future)
                why = _said(future)
                if why is None:
                    self._take(batch, future.result())
                elif pool.lost(why):
                    broken = why
                    self._again(batch, pool.begun(future, batch), why)
                else:
                    raise why
            if broken is not None and not pool.mend():
                raise RuntimeError(f"a worker died, and the executor is broken by it: {self._remains()}") from broken

    def _hand_out(self, pool: Pool) -> BaseException | None:
        """As many batches as the workers can use; says so if the executor takes none."""
        while self.batches.waiting and len(self.out) < AHEAD * pool.workers():
            batch = self.batches.next()
            try:
                future = pool.submit(batch, self.batches.task_s, _native.ENGINE, self.store)
            except Exception as why:
                self.batches.give_back(batch)
                if pool.lost(why):
                    return why
                raise
            self.out[future] = batch
            future.add_done_callback(self.back.put)
        return None

    def _come_back(self) -> list[Future[Done]]:
        """Batches that have ended; waits a little if there are none."""
        ended = []
        try:
            ended.append(self.back.get(timeout=LOOK))
            while True:
                ended.append(self.back.get_nowait())
        except Empty:
            return ended

    def _take(self, batch: list[Run], done: Done) -> None:
        for key, run in done.finished.items():
            if key not in self.finished:
                self._finish(key, run)
        if done.failed is not None:
            where, why = done.failed
            raise RuntimeError(f"{where}: {why}; {self._remains()}")
        left = [run for run in batch if run.key not in self.finished]
        self.batches.give_back(run for run in left if run.key not in done.elsewhere)
        self.batches.put_off(run for run in left if run.key in done.elsewhere)
        self._told()

    def _finish(self, key: str, run: Finished) -> None:
        names = tuple(run.summary)
        values = array("d", run.summary.values())
        self.finished[key] = Row(self.names.setdefault(names, names), values, run.tables)
        self.batches.took(self.runs[key], run.seconds)
        if self.store is not None:
            try:
                self.store.keep(key, run)
            except OSError as why:
                kept = sum(self.store.path(done).exists() for done in self.finished)
                raise RuntimeError(
                    f"{self.store.folder}: a finished run cannot be kept: {why.strerror or why}; {kept} of "
                    f"{len(self.runs)} runs are kept there: make room, or choose another folder with cache=, or "
                    "cache=None for none"
                ) from why

    def _again(self, batch: list[Run], begun: list[Run], why: BaseException) -> None:
        """Puts the runs of a lost batch back; those that its worker had begun may be the cause of its death."""
        for run in batch:
            # A worker that died may have left it on disk.
            found = self.store.find(run.key, run.tables) if self.store is not None else None
            if found is not None and run.key not in self.finished:
                self._finish(run.key, found)
        self.lost.update(run.key for run in begun)
        for run in begun:
            if run.key not in self.finished and self.lost[run.key] > self.retries:
                raise RuntimeError(
                    f"{run.where}: its worker died {self.lost[run.key]} times; {self._remains()}"
                ) from why
        self.batches.give_back(run for run in batch if run.key not in self.finished)

    def _remains(self) -> str:
        kept = f"kept in {self.store.folder}" if self.store is not None else "lost, as there is no cache"
        return f"{len(self.finished)} of {len(self.runs)} runs are finished and {kept}"

    def _told(self) -> None:
        if self.tell is not None:
            self.tell(len(self.finished), len(self.runs))


def _said(future: Future[Done]) -> BaseException | None:
    """Returns the exception of a finished future, also if it was cancelled; None if it succeeded."""
    return CancelledError() if future.cancelled() else future.exception()


def run_all(
    runs: Sequence[Run],
    pool: Pool | None,
    store: Store | None,
    task_s: float,
    retries: int,
    tell: Callable[[int, int], object] | None,
) -> dict[str, Row]:
    """Every run once, by key."""
    drive = Drive(runs, store, task_s, retries, tell)
    if pool is None:
        drive.serial()
    else:
        try:
            drive.parallel(pool)
        except BaseException:
            for future in drive.out:
                future.cancel()
            pool.interrupt()
            raise
        finally:
            pool.close()
    return drive.finished
