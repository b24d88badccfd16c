"""The notebooks run: their code cells are executed one after another as they stand, each notebook in a folder of its
own."""

import json
from pathlib import Path

import matplotlib
import matplotlib.pyplot as plt
import pytest

import narrows

NOTEBOOKS = sorted((Path(__file__).parents[1] / "notebooks").glob("*.ipynb"))
STUDY = Path(narrows.__file__).parent / "notebooks" / "satellite.ipynb"
"""Notebooks that come with the package."""


def cells(path):
    return [c for c in json.loads(path.read_text())["cells"] if c["cell_type"] == "code"]


def test_there_is_one_for_each_paper():
    papers = ["adaptive_aimd", "burst_tcp", "class_isolation", "initial_spreading", "taq"]
    assert [path.stem for path in NOTEBOOKS] == papers


@pytest.mark.parametrize("path", [*NOTEBOOKS, STUDY], ids=lambda path: path.stem)
def test_a_notebook_runs(path, tmp_path, monkeypatch):
    matplotlib.use("Agg")
    monkeypatch.chdir(tmp_path)
    names = {"__name__": "__main__"}
    for at, cell in enumerate(cells(path)):
        code = compile("".join(cell["source"]), f"{path.name}, code cell {at}", "exec")
        exec(code, names)  # noqa: S102
    drawn = names["figure"]
    assert drawn.axes
    plt.close("all")


@pytest.mark.parametrize("path", [*NOTEBOOKS, STUDY], ids=lambda path: path.stem)
def test_a_notebook_is_kept_without_what_it_gave(path):
    assert all(cell["outputs"] == [] and cell["execution_count"] is None for cell in cells(path))


def test_the_first_study_is_short():
    lines = [line for cell in cells(STUDY) for line in "".join(cell["source"]).splitlines()]
    assert len([line for line in lines if line.strip()]) <= 25
