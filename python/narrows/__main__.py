"""``python -m narrows``, and ``narrows`` after ``pip install``: the program's commands that need no box.

They are the program's own code. ``notebooks`` is Python's alone: it writes the notebooks of this package into a folder.
"""

from __future__ import annotations

import os
import signal
import sys
import tempfile
from importlib import resources
from pathlib import Path
from typing import TextIO

from narrows import _native

HELP = """
Python alone:
  notebooks [DIR]  Write the notebooks that come with the package into DIR (here)
"""


OF_THE_PROGRAM = frozenset("run setup check status top doctor lab demo replay senders".split())
"""Commands that the program for Linux has beyond these: its box and its lab."""


def main(args: list[str] | None = None) -> int:
    """Does what the arguments say, and gives the status to end with."""
    args = sys.argv[1:] if args is None else args
    if args[:1] == ["notebooks"]:
        return _notebooks(args[1:])
    if args and args[0] in OF_THE_PROGRAM:
        sys.stderr.write(
            f"narrows: {args[0]} is a command of the program, which Debian's package or `make build` installs; "
            "the Python package has those that need no box\n"
        )
        return 2
    # The commands stop by themselves, and keep what is finished.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    sys.stdout.flush()
    if not _asks_for_experiments(args):
        status = _native.command(["narrows", *args])
    else:
        with tempfile.TemporaryDirectory(prefix="narrows-") as folder:
            _write_experiments(Path(folder))
            status = _native.command(["narrows", *args, "--experiments", folder])
    if args in ([], ["--help"], ["-h"], ["help"]):
        _say(HELP, sys.stdout if args else sys.stderr)
    return status


def _say(text: str, stream: TextIO = sys.stdout) -> None:
    """Writes ``text``; a reader that has left, as ``head`` does, is no error."""
    try:
        stream.write(text)
        stream.flush()
    except BrokenPipeError:
        # Python flushes the stream again when it ends, and would raise the exception there a second time.
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def _asks_for_experiments(args: list[str]) -> bool:
    """Whether the papers' scenarios are needed and none are at hand: the package has those of its version."""
    given = any(arg.split("=")[0] == "--experiments" for arg in args)
    return args[:1] == ["reproduce"] and not given and not os.path.isdir("experiments")


def _write_experiments(folder: Path) -> None:
    for name, text in _native.experiments():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")


def _notebooks(args: list[str]) -> int:
    if len(args) > 1 or (args and args[0].startswith("-")):
        sys.stderr.write(f"narrows: notebooks {' '.join(args)}: expected one folder, or none for this one\n")
        return 2
    folder = Path(args[0] if args else ".")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for held in resources.files("narrows").joinpath("notebooks").iterdir():
            if held.name.endswith(".ipynb"):
                path = folder / held.name
                if path.exists():
                    _say(f"{path} is there, and stays as it is\n")
                    continue
                path.write_bytes(held.read_bytes())
                _say(f"{path}\n")
    except OSError as why:
        sys.stderr.write(f"narrows: {why}: choose another folder\n")
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
