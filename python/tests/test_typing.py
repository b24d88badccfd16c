"""The stub says what the module has, and the package keeps to its own types."""

import os
import subprocess
import sys
from pathlib import Path

import narrows


def mypy(tmp_path, *args):
    environment = os.environ | {"MYPY_CACHE_DIR": str(Path(sys.prefix) / "mypy-cache")}
    command = [sys.executable, "-m", *args]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_stub_is_the_module_s(tmp_path):
    mypy(tmp_path, "mypy.stubtest", "narrows._native")


def test_the_package_is_typed(tmp_path):
    assert Path(narrows.__file__).with_name("py.typed").exists()
    mypy(tmp_path, "mypy", "--strict", "-p", "narrows")
