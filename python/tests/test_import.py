"""Modules that importing the package brings along."""

import subprocess
import sys
from pathlib import Path

import pytest

import narrows


def loaded_by_import():
    """Modules that `import narrows` loads beyond the interpreter's own and numpy's, in a process of its own."""
    code = "import sys, numpy; before = set(sys.modules); import narrows; print(*sorted(set(sys.modules) - before))"
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()


def test_import_loads_little():
    """Under 0.3 s in all (docs/how-to/python.md has the time). Time is not asserted, but what would take it is not
    loaded."""
    loaded = loaded_by_import()
    heavy = {"matplotlib", "pandas", "polars", "pyarrow", "dask", "distributed", "xarray", "asyncio", "multiprocessing"}
    assert not heavy & {name.split(".")[0] for name in loaded}
    # The parts that are loaded when they are used.
    assert "narrows.models" not in loaded and "narrows.figures" not in loaded
    assert "narrows._native" in loaded


@pytest.mark.skipif(sys.platform == "win32", reason="there a module for all versions is called _native.pyd")
def test_the_module_is_one_for_all_versions_of_python():
    """Built against the stable ABI: its name says so, and has no version in it."""
    assert Path(narrows._native.__file__).name == "_native.abi3.so"


def test_everything_named_is_there():
    for name in narrows.__all__:
        assert getattr(narrows, name) is not None, name
        assert name in dir(narrows)
    assert narrows.__version__ == narrows.VERSION


def test_numpy_is_the_only_dependency():
    from importlib.metadata import requires

    needed = [line for line in requires("narrows") or [] if "extra ==" not in line]
    assert [line.split(">")[0].strip() for line in needed] == ["numpy"]
