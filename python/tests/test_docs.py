"""docs/how-to/python.md and README.md say what is so: their examples run, and refusals are worded as they are."""

import re
from pathlib import Path

import pytest

import narrows

ROOT = Path(__file__).parents[2]
DOCS = (ROOT / "docs" / "how-to" / "python.md").read_text()


def test_the_examples_run(monkeypatch):
    monkeypatch.chdir(ROOT)
    names = {}
    blocks = [block.split("```")[0] for block in DOCS.split("```python\n")[1:]]
    # Figures of any size but the least take minutes; test_figures makes some.
    blocks = [block for block in blocks if 'size="quick"' not in block]
    assert len(blocks) >= 4
    for block in blocks:
        exec(compile(block, "docs/how-to/python.md", "exec"), names)  # noqa: S102
    assert names["result"].summary["jain_20s"] > 0.9


def test_the_examples_of_own_parts_run(monkeypatch, tmp_path):
    """In the order of the page; what they assert holds."""
    monkeypatch.chdir(tmp_path)
    page = (ROOT / "docs" / "how-to" / "own-parts.md").read_text()
    blocks = [block.split("```")[0] for block in page.split("```python\n")[1:]]
    names = {}
    for block in blocks:
        exec(compile(block, "docs/how-to/own-parts.md", "exec"), names)  # noqa: S102
    assert len(blocks) == 4 and names["grid"].sizes == {"congestion": 2, "discipline": 2, "seed": 3}
    # Its Rust is what stands in the file.
    rust = page.split("```rust\n")[1].split("```")[0]
    assert rust in (ROOT / "crates" / "tcp" / "src" / "cc" / "aimd.rs").read_text()


def test_the_example_of_the_first_page_runs(monkeypatch, tmp_path):
    """As it stands, in a folder where nothing is; but for the figure, which takes minutes (see above)."""
    monkeypatch.chdir(tmp_path)
    blocks = [block.split("```")[0] for block in (ROOT / "README.md").read_text().split("```python\n")[1:]]
    assert len(blocks) == 1 and "import narrows\n" in blocks[0]
    lines = [line for line in blocks[0].splitlines() if 'size="quick"' not in line]
    assert len(lines) > 6
    names = {}
    exec(compile("\n".join(lines), "README.md", "exec"), names)  # noqa: S102
    assert dict(names["grid"].sizes) == {"discipline": 2, "seed": 5}


def test_the_refusals_are_these(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("few.toml").write_text(
        'name = "few"\nrate = "1mbit"\ndiscipline = "taq"\ntraffic = [{ kind = "long", flows = 3 }]\n'
    )
    told = re.findall(r"^>>> (.*)\nnarrows\.ScenarioError: (.*)$", DOCS, re.MULTILINE)
    assert len(told) == 2
    for code, words in told:
        with pytest.raises(narrows.ScenarioError) as refused:
            eval(code, {"narrows": narrows})  # noqa: S307
        assert str(refused.value) == words
