"""How far long work is: a bar of tqdm where that is installed, in a notebook a widget, else a line on stderr."""

from __future__ import annotations

import importlib
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Union

from narrows import _native

Progress = Callable[[int, int], object]
"""Function that is called with the number of finished runs and the number of all."""
Asked = Union[bool, Progress]
"""True to show progress, or a function to call with it."""


@contextmanager
def told(asked: Asked, what: str) -> Iterator[Progress | None]:
    """Yields the function to call after each finished run, or None; ``what`` names the work.

    Raises:
        ValueError: it is neither True nor False nor a function.
    """
    if asked is False:
        yield None
    elif asked is not True:
        expect(asked)
        yield asked
    else:
        shown = _tqdm(what) or Line(what)
        try:
            yield shown
        finally:
            shown.close()


def expect(asked: object) -> None:
    """Refuses what :func:`told` cannot use."""
    if not isinstance(asked, bool) and not callable(asked):
        raise _native.refusal("progress", f"= {asked!r}: expected True, False or a function")


class Line:
    """A line on stderr, with the time that is left."""

    def __init__(self, what: str) -> None:
        self.what = what
        self.began = time.monotonic()
        self.before: int | None = None

    def __call__(self, finished: int, runs: int) -> None:
        # Runs found finished from before say nothing about the time that the rest takes.
        self.before = finished if self.before is None else self.before
        done = finished - self.before
        left = (time.monotonic() - self.began) * (runs - finished) / done if done else None
        end = "" if left is None or finished == runs else f", about {left:.0f} s left"
        sys.stderr.write(f"\r{self.what}: {finished} of {runs} runs{end:24}")
        sys.stderr.flush()

    def close(self) -> None:
        """The line is over."""
        sys.stderr.write("\n")


class Bar:
    """A bar of tqdm."""

    def __init__(self, tqdm: Any, what: str) -> None:
        self.tqdm, self.what = tqdm, what
        self.bar: Any = None

    def __call__(self, finished: int, runs: int) -> None:
        if self.bar is None:
            self.bar = self.tqdm(total=runs, initial=finished, desc=self.what, unit="run")
        self.bar.total = runs
        self.bar.update(finished - self.bar.n)

    def close(self) -> None:
        """The bar is over."""
        if self.bar is not None:
            self.bar.close()


def _tqdm(what: str) -> Bar | None:
    with warnings.catch_warnings():
        # A notebook without widgets has the bar as text, and a warning in front of it.
        warnings.simplefilter("ignore")
        try:
            return Bar(importlib.import_module("tqdm.auto").tqdm, what)
        except ImportError:
            return None
