"""The notebooks run: their code cells are executed one after another as they stand, each notebook in a folder of its
own."""

import json
from pathlib import Path

import matplotlib
import matplotlib.pyplot as plt
import pytest

import narrows

NOTEBOOKS = sorted((Path(__file__).parents[1] / "notebooks").glob("*.ipynb"))
STUDIES = sorted((Path(narrows.__file__).parent / "notebooks").glob("*.ipynb"))
"""Notebooks that come with the package."""


def cells(path):
    return [c for c in json.loads(path.read_text())["cells"] if c["cell_type"] == "code"]


def test_there_is_one_for_each_paper():
    papers = ["adaptive_aimd", "burst_tcp", "class_isolation", "initial_spreading", "taq"]
    assert [path.stem for path in NOTEBOOKS] == papers


@pytest.mark.parametrize("path", [*NOTEBOOKS, *STUDIES], ids=lambda path: path.stem)
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
    if path.stem == "near_and_far":
        # The notebook's words hold: near gains by drop-tail, TAQ's ratio is about 1, the model's loss about the run's.
        sure = narrows.ci(names["ratio"])
        assert (sure.sel(discipline="fifo:20", ci="low") > 1.2).all()
        assert (abs(sure.sel(discipline="taq", ci="mean") - 1) < 0.01).all()
        assert abs(names["model"] - names["grid"]["loss"].sel(discipline="fifo:20").mean("seed").values).max() < 0.03


@pytest.mark.parametrize("path", [*NOTEBOOKS, *STUDIES], ids=lambda path: path.stem)
def test_a_notebook_is_kept_without_what_it_gave(path):
    assert all(cell["outputs"] == [] and cell["execution_count"] is None for cell in cells(path))


def test_the_first_studies_are_short():
    assert [path.stem for path in STUDIES] == ["near_and_far", "satellite"]
    for study in STUDIES:
        lines = [line for cell in cells(study) for line in "".join(cell["source"]).splitlines()]
        assert len([line for line in lines if line.strip()]) <= 28
