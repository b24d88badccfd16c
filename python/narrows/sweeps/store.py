"""Finished runs on disk: a file each.

It is named by the hash over scenario, seed and engine, so that any sweep can read it. A file appears
whole or not at all (written beside, then renamed), and its first line is the SHA-256 of the rest: what a full disk or a
stray hand left is taken for no run. Tables that were asked for lie beside it (:mod:`narrows.sweeps.tables`).

Whoever does a run holds a lock on it meanwhile, so that two sweeps on one folder, of this machine or over a network's
file system, share the work.
"""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from narrows import _native
from narrows.sweeps import tables

try:
    import fcntl
except ImportError:
    # Where there are no such locks each sweep does what it does not find.
    fcntl = None  # type: ignore[assignment]


@dataclass(frozen=True)
class Finished:
    """A run that was done."""

    summary: dict[str, float]
    seconds: float
    """Duration of the run by the wall clock."""
    tables: Mapping[str, _native.Table | None] = field(default_factory=dict)
    """Tables that were wanted; None for a name that the run has no table of."""


@dataclass(frozen=True)
class Store:
    """A folder of finished runs."""

    folder: str

    @classmethod
    def of(cls, cache: str | os.PathLike[str] | None) -> Store | None:
        """Makes the folder; None if nothing is to be kept.

        Raises:
            OSError: it cannot be made.
        """
        if cache is None:
            return None
        folder = Path(cache).absolute()
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as why:
            problem = f"{why.strerror}: choose another folder for finished runs with cache=, or cache=None for none"
            raise type(why)(why.errno, problem, str(folder)) from why
        return cls(str(folder))

    def there(self) -> bool:
        """Whether this machine has it; another one of a cluster may not."""
        return os.path.isdir(self.folder)

    def path(self, key: str) -> Path:
        """A run's file; a hundred thousand of them are better not in one folder."""
        return Path(self.folder, key[:2], f"{key}.json")

    def table(self, key: str, name: str) -> Path:
        """The file of one of its tables."""
        return Path(self.folder, key[:2], f"{key}.{name}.table")

    def find(self, key: str, asked: tuple[str, ...] = ()) -> Finished | None:
        """A finished run, if it is there and whole, with the tables asked for."""
        try:
            check, body = self.path(key).read_bytes().split(b"\n", 1)
        except (OSError, ValueError):
            return None
        if hashlib.sha256(body).hexdigest().encode() != check:
            return None
        told = json.loads(body)
        if told["key"] != key:
            return None
        found = {}
        for name in asked:
            held = self._table(key, name)
            if held is None:
                return None
            (found[name],) = held
        return Finished(told["summary"], told["seconds"], found)

    def _table(self, key: str, name: str) -> tuple[_native.Table | None] | None:
        try:
            return tables.from_bytes(self.table(key, name).read_bytes())
        except OSError:
            return None

    def keep(self, key: str, run: Finished) -> None:
        """Writes it unless it is there.

        Raises:
            OSError: it cannot be written.
        """
        if self.find(key, tuple(run.tables)) is not None:
            return
        told = {"key": key, "engine": _native.ENGINE, "seconds": run.seconds, "summary": run.summary}
        body = json.dumps(told, sort_keys=True).encode()
        self.path(key).parent.mkdir(exist_ok=True)
        for name, table in run.tables.items():
            self._write(self.table(key, name), tables.to_bytes(table))
        self._write(self.path(key), hashlib.sha256(body).hexdigest().encode() + b"\n" + body)

    def _write(self, path: Path, content: bytes) -> None:
        handle, beside = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(content)
            os.replace(beside, path)
        except BaseException:
            Path(beside).unlink(missing_ok=True)
            raise

    @contextmanager
    def doing(self, key: str) -> Iterator[bool]:
        """While a run is done: False if somebody else is at it.

        The system lets go of the lock of whoever dies. A folder that cannot be written, or has no locks, is nobody's.
        """
        lock = self.path(key).with_suffix(".lock")
        try:
            lock.parent.mkdir(exist_ok=True)
            file = lock.open("wb")
        except OSError:
            yield True
            return
        with file:
            taken = fcntl is not None
            if fcntl is not None:
                try:
                    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                except BlockingIOError:
                    yield False
                    return
                except OSError:
                    taken = False
            try:
                # A faster sweep has removed the file that was locked here: another file has its name now, or none.
                yield not taken or _same(file.fileno(), lock)
            finally:
                if taken and _same(file.fileno(), lock):
                    lock.unlink(missing_ok=True)


def _same(handle: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(handle), path.stat())
    except OSError:
        return False
