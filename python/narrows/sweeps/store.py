"""Finished runs on disk: a file each.

It is named by the hash over scenario, seed and engine, so that any sweep can read it. A file appears
whole or not at all (written beside, then renamed), and its first line is the SHA-256 of the rest: what a full disk or a
stray hand left is taken for no run.
"""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
from dataclasses import dataclass
from pathlib import Path

from narrows import _native


@dataclass(frozen=True)
class Finished:
    """A run that was done."""

    summary: dict[str, float]
    seconds: float
    """What it took, of wall clock."""


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
        folder.mkdir(parents=True, exist_ok=True)
        return cls(str(folder))

    def there(self) -> bool:
        """Whether this machine has it; another one of a cluster may not."""
        return os.path.isdir(self.folder)

    def path(self, key: str) -> Path:
        """A run's file; a hundred thousand of them are better not in one folder."""
        return Path(self.folder, key[:2], f"{key}.json")

    def find(self, key: str) -> Finished | None:
        """A finished run, if it is there and whole."""
        try:
            check, body = self.path(key).read_bytes().split(b"\n", 1)
        except (OSError, ValueError):
            return None
        if hashlib.sha256(body).hexdigest().encode() != check:
            return None
        told = json.loads(body)
        return Finished(told["summary"], told["seconds"]) if told["key"] == key else None

    def keep(self, key: str, run: Finished) -> None:
        """Writes it unless it is there.

        Raises:
            OSError: it cannot be written.
        """
        path = self.path(key)
        if path.exists() and self.find(key) is not None:
            return
        told = {"key": key, "engine": _native.ENGINE, "seconds": run.seconds, "summary": run.summary}
        body = json.dumps(told, sort_keys=True).encode()
        path.parent.mkdir(exist_ok=True)
        handle, beside = tempfile.mkstemp(prefix=f".{key}.", dir=path.parent)
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(hashlib.sha256(body).hexdigest().encode() + b"\n" + body)
            os.replace(beside, path)
        except BaseException:
            Path(beside).unlink(missing_ok=True)
            raise
