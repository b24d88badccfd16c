"""The tutorial's study in Python prints what its page says, digit for digit."""

import re
import subprocess
import sys
from pathlib import Path

import narrows

PAGE = Path(__file__).parents[2] / "docs" / "tutorials" / "researcher.md"


def test_the_study_prints_what_the_page_says(tmp_path):
    page = PAGE.read_text()
    files = dict(re.findall(r"^```\w+ file=(\S+)\n(.*?)^```$", page, re.MULTILINE | re.DOTALL))
    assert {"thin.toml", "study.py"} <= files.keys()
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    command = [sys.executable, "study.py"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    printed = re.search(r"^\$ venv/bin/python study\.py\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)[1]
    # Pandas ends a line with spaces, which no page has.
    assert [line.rstrip() for line in done.stdout.splitlines()] == printed.splitlines()


def test_the_claims_table_of_the_page_is_the_package_s(tmp_path):
    """The program of the wheel prints the page's first table, as the one of `make build` does."""
    page = PAGE.read_text()
    (tmp_path / "thin.toml").write_text(re.search(r"^```toml file=thin\.toml\n(.*?)^```$", page, re.M | re.S)[1])
    told = re.search(r"^\$ narrows sim thin\.toml --quiet\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)[1]
    command = [sys.executable, "-m", "narrows", "sim", "thin.toml", "--quiet"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.stdout.splitlines() == told.splitlines(), (narrows.VERSION, done.stderr)
