"""Threads, processes, anybody's executor and Dask, as one thing: submit a batch, mend what broke, stop what runs."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Mapping
from concurrent.futures import BrokenExecutor, CancelledError, Executor, Future, ThreadPoolExecutor
from typing import Any

from narrows import _native
from narrows.sweeps import work
from narrows.sweeps.work import Done, Run

LOST = (BrokenExecutor, CancelledError, EOFError, ConnectionError, TimeoutError)
"""Exceptions of a future whose worker went away."""
LOST_NAMES = {
    "KilledWorker",
    "FutureCancelledError",
    "FutureLostError",
    "CommClosedError",
    "FutureCancelledByNannyError",
}
"""Names of Dask's exceptions for a worker that went away; Dask is not imported here."""

AHEAD = 2
"""Batches handed out for each worker: one to do and one to go on with, so that none waits for us."""
LOOK = 1.0
"""Seconds after which a cluster is asked for its size again: workers come and go."""


class Pool:
    """An executor that was given, with how many batches it takes at a time."""

    stop: _native.Stop | None = None
    """Reaches the runs of threads."""

    def __init__(self, executor: Any, count: int | None = None) -> None:
        self.executor = executor
        self.count = count
        if isinstance(executor, ThreadPoolExecutor):
            self.stop = _native.Stop()

    def workers(self) -> int:
        """How many batches run at a time."""
        if self.count is not None:
            return self.count
        count = getattr(self.executor, "_max_workers", None)
        return count if isinstance(count, int) and count > 0 else os.cpu_count() or 1

    def submit(self, runs: list[Run], *how: Any) -> Future[Done]:
        """Hands out a batch."""
        future: Future[Done] = self.executor.submit(work.work, runs, *how, self.stop)
        return future

    def begun(self, future: Future[Done], runs: list[Run]) -> list[Run]:
        """Runs of a lost batch that may have caused their worker's death: all, if the pool cannot tell."""
        return runs

    def lost(self, why: BaseException) -> bool:
        """Whether a batch came to nothing because its worker went away."""
        return isinstance(why, LOST) or type(why).__name__ in LOST_NAMES

    def mend(self) -> bool:
        """After a worker died: whether batches can be handed out again."""
        return not getattr(self.executor, "_broken", False)

    def interrupt(self) -> None:
        """Asks runs to end."""
        if self.stop is not None:
            self.stop.set()

    def close(self) -> None:
        """Ends what was made here; an executor that was given goes on."""


class Threads(Pool):
    """Threads of our own; a run leaves the interpreter to the others."""

    def __init__(self, count: int) -> None:
        super().__init__(ThreadPoolExecutor(count, thread_name_prefix="narrows"))

    def close(self) -> None:
        self.executor.shutdown(wait=True, cancel_futures=True)


class Processes(Pool):
    """Processes of our own: they leave Ctrl-C to us, hear from us when to stop, and mark which run they are at."""

    def __init__(self, count: int) -> None:
        import multiprocessing
        from multiprocessing.process import current_process

        # A worker imports the script that made it; one without a guard would make workers of its own, and so on.
        if getattr(current_process(), "_inheriting", False):
            sys.exit(1)
        # Not by fork: a child would inherit locks that other threads hold.
        self.context = multiprocessing.get_context("spawn")
        # Its other end closes when the sweep is over, or this process dies. An Event would not do: setting one waits
        # for all who wait for it, and waits for ever for one that was killed.
        self.until, self.going = self.context.Pipe(duplex=False)
        self.slots: dict[Future[Done], tuple[Any, int]] = {}
        super().__init__(self._made(count), count)

    def _made(self, count: int) -> Executor:
        from concurrent.futures import ProcessPoolExecutor

        # Without a lock, which a process that is killed would keep. A pool's marks are its own: processes of one that
        # broke may still write theirs.
        self.marks = self.context.RawArray("l", AHEAD * count)
        self.came = self.context.RawValue("b", 0)
        self.free = list(range(len(self.marks)))
        given = (self.until, os.getpid(), self.marks, self.came)
        return ProcessPoolExecutor(count, self.context, initializer=_begin, initargs=given)

    def submit(self, runs: list[Run], *how: Any) -> Future[Done]:
        slot = self.free.pop()
        self.marks[slot] = 0
        try:
            future: Future[Done] = self.executor.submit(work.work, runs, *how, None, slot)
        except BaseException:
            self.free.append(slot)
            raise
        self.slots[future] = self.marks, slot
        future.add_done_callback(self._ended)
        return future

    def _ended(self, future: Future[Done]) -> None:
        if not future.cancelled() and future.exception() is None:
            self._slot(future)

    def _slot(self, future: Future[Done]) -> tuple[Any, int]:
        """A batch's slot, which is free for the next."""
        marks, slot = self.slots.pop(future)
        if marks is self.marks:
            self.free.append(slot)
        return marks, slot

    def begun(self, future: Future[Done], runs: list[Run]) -> list[Run]:
        marks, slot = self._slot(future)
        at = marks[slot]
        if at:
            return runs[at - 1 : at]
        # Processes that die before they begin anything would be made anew for ever if nothing counted.
        return [] if any(marks) else runs

    def mend(self) -> bool:
        # Each batch that was out says that the pool broke; one new pool is enough for all of them.
        if not super().mend():
            if not self.came.value:
                raise RuntimeError(
                    "no worker process came up: a script has to call sweep() below "
                    "`if __name__ == '__main__':`, as its workers import it; or use executor='threads'"
                )
            self.executor.shutdown(wait=False, cancel_futures=True)
            self.executor = self._made(self.workers())
        return True

    def interrupt(self) -> None:
        self.going.close()

    def close(self) -> None:
        self.executor.shutdown(wait=True, cancel_futures=True)
        self.going.close()
        self.until.close()


def _begin(until: Any, client: int, marks: Any, came: Any) -> None:
    """In a worker process: Ctrl-C is the client's, who says when it is over."""
    import signal
    import threading

    came.value = 1
    work.MARKS = marks
    signal.signal(signal.SIGINT, signal.SIG_IGN)

    def wait() -> None:
        try:
            until.recv_bytes()
        except (EOFError, OSError):
            work.STOP.set()
        # Time to keep what is finished; nobody else would end this process if the client is gone.
        time.sleep(1)
        if os.getppid() != client:
            os._exit(1)

    threading.Thread(target=wait, daemon=True).start()


class Dask(Pool):
    """A cluster behind a ``dask.distributed.Client``; Dask moves a dead worker's batches to another itself."""

    def __init__(self, client: Any, count: int | None = None, settings: Mapping[str, Any] | None = None) -> None:
        self.client = client
        self.threads, self.looked = 1, float("-inf")
        # Each batch is work to be done, even if it equals another.
        super().__init__(client.get_executor(**{**(settings or {}), "pure": False}), count)

    def workers(self) -> int:
        if self.count is not None:
            return self.count
        # A question to the scheduler, whose answer names every worker.
        if time.monotonic() - self.looked >= LOOK:
            threads: dict[str, int] = self.client.nthreads()
            self.threads, self.looked = max(1, sum(threads.values())), time.monotonic()
        return self.threads

    def close(self) -> None:
        self.executor.shutdown(wait=False)


def of(executor: Any, workers: int | None = None) -> Pool | None:
    """The pool of what was asked for, with so many workers if that is told; None for none.

    Raises:
        ValueError: it is nothing that runs something.
    """
    if workers is not None and (executor is None or isinstance(executor, int)):
        raise _native.refusal("workers", f"= {workers!r}: expected 'threads', 'processes' or an executor to go with it")
    if executor is None:
        return None
    if isinstance(executor, str) and executor in ("threads", "processes"):
        return (Threads if executor == "threads" else Processes)(workers or os.cpu_count() or 1)
    if isinstance(executor, int) and not isinstance(executor, bool) and executor > 0:
        return Threads(executor)
    if _is_client(executor):
        return Dask(executor, workers)
    # Client.get_executor() makes such an executor. Only its client knows the number of workers.
    client = getattr(executor, "_client", None)
    if type(executor).__name__ == "ClientExecutor" and _is_client(client):
        return Dask(client, workers, getattr(executor, "_kwargs", None))
    if callable(getattr(executor, "submit", None)) and callable(getattr(executor, "shutdown", None)):
        return Pool(executor, workers)
    expected = (
        "None, 'threads', 'processes', a number of threads, a concurrent.futures.Executor or a dask.distributed.Client"
    )
    raise _native.refusal("executor", f"= {executor!r}: expected {expected}")


def _is_client(what: Any) -> bool:
    return callable(getattr(what, "get_executor", None)) and callable(getattr(what, "nthreads", None))
