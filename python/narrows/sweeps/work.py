"""Work of a worker: does the runs of a batch one after another, within the time given, and gives back the rest."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Sequence
from contextlib import nullcontext, suppress
from dataclasses import dataclass, field
from typing import Any

from narrows import _native, own
from narrows.sweeps.store import Finished, Store

STOP = _native.Stop()
"""Set in a worker process when its sweep is over before its time (:mod:`narrows.sweeps.pools`)."""
MARKS: Any = None
"""In a worker process of our own: memory it shares with the client, where a batch's slot has how many of its runs have
begun."""
CLOCK: Callable[[], float] = time.monotonic
"""Seconds; tests have a clock of their own."""
PAUSE = 0.2
"""Seconds before it is looked again whether somebody else has finished what is left."""


@dataclass(frozen=True)
class Run:
    """One run, as it is sent to a worker."""

    key: str
    where: str
    """Its point and seed, for people."""
    scenario: str
    file: str | None
    seed: int
    tables: tuple[str, ...] = ()
    """Names of the tables that are wanted."""


@dataclass
class Done:
    """Result of a batch."""

    finished: dict[str, Finished] = field(default_factory=dict)
    failed: tuple[str, str] | None = None
    """Place of the run that failed, and the reason; the batch ends there."""
    elsewhere: list[str] = field(default_factory=list)
    """Keys of runs that another sweep is at."""


def work(
    runs: Sequence[Run],
    task_s: float,
    engine: str,
    store: Store | None,
    stop: _native.Stop | None = None,
    slot: int | None = None,
) -> Done:
    """Runs what there is time for: at least one run, none is begun after ``task_s`` seconds.

    ``engine`` is the client's: one that differs would give other results. Where the store's folder can be seen, each
    run is there as soon as it is finished, whatever becomes of this worker. ``slot`` is the batch's in :data:`MARKS`.
    """
    if engine != _native.ENGINE:
        problem = f"has narrows with engine {_native.ENGINE}, the client {engine}: install the same on both"
        return Done(failed=(f"worker on {socket.gethostname()}", problem))
    store = store if store is not None and store.there() else None
    stop = STOP if stop is None else stop
    done, begun = Done(), CLOCK()
    for at, run in enumerate(runs):
        if stop.is_set() or (at > 0 and CLOCK() - begun >= task_s):
            break
        if slot is not None:
            MARKS[slot] = at + 1
        finished = store.find(run.key, run.tables) if store is not None else None
        if finished is None:
            with store.doing(run.key) if store is not None else nullcontext(True) as ours:
                if ours:
                    finished = _one(run, store, stop, done)
                else:
                    done.elsewhere.append(run.key)
                    continue
            if finished is None:
                break
        done.finished[run.key] = finished
    if done.elsewhere and not done.finished and not stop.is_set():
        time.sleep(PAUSE)
    return done


def _one(run: Run, store: Store | None, stop: _native.Stop, done: Done) -> Finished | None:
    """A run, kept if there is a store; None if it was stopped, or failed, which ``done`` is told."""
    # Whoever was at it when we looked may have finished it since.
    if store is not None and (found := store.find(run.key, run.tables)) is not None:
        return found
    before = CLOCK()
    try:
        told = _native.run(run.scenario, run.file, [], run.seed, stop, own.brought())
    except Exception as why:  # noqa: BLE001
        # As words: an exception of any type may not survive the way back.
        done.failed = (run.where, f"{type(why).__name__}: {why}")
        return None
    if told is None:
        return None
    if told["manifest"]["key"] != run.key:
        done.failed = (run.where, _other(run))
        return None
    tables = {name: told["tables"].get(name) for name in run.tables}
    finished = Finished(dict(told["summary"]), CLOCK() - before, tables)
    if store is not None:
        # A store that cannot be written is reported by the client, which receives the run all the same.
        with suppress(OSError):
            store.keep(run.key, finished)
    return finished


def _other(run: Run) -> str:
    """Why the results of a run would be kept under a key that is not theirs: scenario, seed and engine are the
    client's."""
    beside = f"beside {run.file}" if run.file is not None else "in its folder"
    return (
        f"what was run on {socket.gethostname()} is not what was asked for: a file that the scenario names ({beside}) "
        "was changed meanwhile, or is another one there: expected the same files everywhere for as long as the sweep "
        "takes"
    )
