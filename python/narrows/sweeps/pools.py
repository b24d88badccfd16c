"""Threads, processes, anybody's executor and Dask, as one thing: submit a batch, mend what broke, stop what runs."""

from __future__ import annotations

import os
import time
from concurrent.futures import BrokenExecutor, CancelledError, Executor, Future, ThreadPoolExecutor
from typing import Any

from narrows import _native
from narrows.sweeps import work
from narrows.sweeps.work import Done

LOST = (BrokenExecutor, CancelledError, EOFError, ConnectionError, TimeoutError)
"""What a future says whose worker went away."""
LOST_NAMES = {
    "KilledWorker",
    "FutureCancelledError",
    "FutureLostError",
    "CommClosedError",
    "FutureCancelledByNannyError",
}
"""The same by Dask, which is not imported here."""

LOOK = 1.0
"""Seconds after which a cluster is asked for its size again: workers come and go."""


class Pool:
    """An executor that was given, with how many batches it takes at a time."""

    stop: _native.Stop | None = None
    """Reaches the runs of threads."""

    def __init__(self, executor: Any) -> None:
        self.executor = executor
        if isinstance(executor, ThreadPoolExecutor):
            self.stop = _native.Stop()

    def workers(self) -> int:
        """How many batches run at a time."""
        count = getattr(self.executor, "_max_workers", None)
        return count if isinstance(count, int) and count > 0 else os.cpu_count() or 1

    def submit(self, *batch: Any) -> Future[Done]:
        """Hands out a batch."""
        future: Future[Done] = self.executor.submit(work.work, *batch, self.stop)
        return future

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
    """Processes of our own: they leave Ctrl-C to us and hear from us when to stop."""

    def __init__(self, count: int) -> None:
        import multiprocessing

        # Not by fork: a child would inherit locks that other threads hold.
        self.context = multiprocessing.get_context("spawn")
        # Its other end closes when the sweep is over, or this process dies. An Event would not do: setting one waits for all
        # who wait for it, and waits for ever for one that was killed.
        self.until, self.going = self.context.Pipe(duplex=False)
        self.count = count
        super().__init__(self._made())

    def _made(self) -> Executor:
        from concurrent.futures import ProcessPoolExecutor

        return ProcessPoolExecutor(self.count, self.context, initializer=_begin, initargs=(self.until, os.getpid()))

    def workers(self) -> int:
        return self.count

    def mend(self) -> bool:
        # Each batch that was out says that the pool broke; one new pool is enough for all of them.
        if not super().mend():
            self.executor.shutdown(wait=False, cancel_futures=True)
            self.executor = self._made()
        return True

    def interrupt(self) -> None:
        self.going.close()

    def close(self) -> None:
        self.executor.shutdown(wait=True, cancel_futures=True)
        self.going.close()
        self.until.close()


def _begin(until: Any, client: int) -> None:
    """In a worker process: Ctrl-C is the client's, who says when it is over."""
    import signal
    import threading

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

    def __init__(self, client: Any) -> None:
        self.client = client
        self.count, self.looked = 1, float("-inf")
        # Each batch is work to be done, even if it equals another.
        super().__init__(client.get_executor(pure=False))

    def workers(self) -> int:
        # A question to the scheduler, whose answer names every worker.
        if time.monotonic() - self.looked >= LOOK:
            threads: dict[str, int] = self.client.nthreads()
            self.count, self.looked = max(1, sum(threads.values())), time.monotonic()
        return self.count

    def close(self) -> None:
        self.executor.shutdown(wait=False)


def of(executor: Any) -> Pool | None:
    """The pool of what was asked for; None for none.

    Raises:
        ValueError: it is nothing that runs something.
    """
    if executor is None:
        return None
    if isinstance(executor, str) and executor in ("threads", "processes"):
        return (Threads if executor == "threads" else Processes)(os.cpu_count() or 1)
    if isinstance(executor, int) and not isinstance(executor, bool) and executor > 0:
        return Threads(executor)
    if callable(getattr(executor, "get_executor", None)) and callable(getattr(executor, "nthreads", None)):
        return Dask(executor)
    if callable(getattr(executor, "submit", None)) and callable(getattr(executor, "shutdown", None)):
        return Pool(executor)
    expected = (
        "None, 'threads', 'processes', a number of threads, a concurrent.futures.Executor or a dask.distributed.Client"
    )
    raise _native.refusal("executor", f"= {executor!r}: expected {expected}")
