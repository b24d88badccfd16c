"""Figures of the papers, made anew at their least size; what they must show is in the scenarios' claims."""

import csv
import os
import signal
import subprocess
import sys
import time

import numpy as np
import polars
import pytest

import narrows
from narrows import _native, figures


def test_every_figure_of_the_lists_is_a_function(experiments):
    lists = sorted(experiments.glob("*.figures.toml"))
    assert len(lists) == 5
    for path in lists:
        listed = _native.from_toml(path.read_text())
        paper = getattr(figures, path.name.removesuffix(".figures.toml").replace("-", "_"))
        assert listed["title"] in paper.__doc__
        names = [figure["id"].replace("-", "_") for figure in listed["figure"]]
        assert dir(paper) == sorted(names)
        for name, figure in zip(names, listed["figure"]):
            assert getattr(paper, name).__doc__.startswith(f"{figure['item']}: {figure['title']}")


def test_the_module_holds_the_files_of_the_repository(experiments):
    held = dict(_native.experiments())
    there = {str(p.relative_to(experiments)): p.read_text() for p in experiments.rglob("*.toml")}
    assert held == there


def test_a_figure_of_arithmetic_is_exact_and_kept(tmp_path):
    """Burst TCP, figure 10 of the dissertation: B2 is exact, and is run whole."""
    figure, table = narrows.figures.burst_tcp.fig10("least", out=tmp_path, jobs=1)
    frame = polars.DataFrame(table)
    assert len(figure.axes) >= 1 and len(frame) > 3
    # The points are those that narrows reproduce writes beside them.
    with open(tmp_path / "burst-tcp" / "fig10" / "figure.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["line"] for row in rows] == frame["line"].to_list()
    np.testing.assert_array_equal([float(row["y"]) for row in rows], frame["y"])
    # The drawn points are those of the table, line by line.
    drawn = [line for axes in figure.axes for line in axes.get_lines()]
    assert sum(len(line.get_xdata()) for line in drawn) == len(frame)
    np.testing.assert_array_equal(np.concatenate([line.get_ydata() for line in drawn]), frame["y"])
    assert figure.axes[0].get_xlabel() and figure.axes[0].get_ylabel()
    figure.savefig(tmp_path / "fig10.svg")
    assert (tmp_path / "fig10.svg").stat().st_size > 1000
    # Found again: nothing is run, and the same comes out.
    runs = sorted(p.stat().st_mtime_ns for p in tmp_path.rglob("run.json"))
    again = narrows.figures.burst_tcp.fig10("least", out=tmp_path, jobs=1)
    assert polars.DataFrame(again.table).equals(frame)
    assert sorted(p.stat().st_mtime_ns for p in tmp_path.rglob("run.json")) == runs


def test_claims_come_with_their_verdicts(tmp_path):
    judged = figures.judge("burst-tcp", "fig10", "least", out=tmp_path, jobs=1)
    claims = polars.DataFrame(judged.claims)
    assert set(claims["outcome"]) == {"holds"}
    assert claims["worst"].is_finite().all()


def test_progress_counts_the_runs(tmp_path):
    told = []
    narrows.figures.burst_tcp.fig10("least", out=tmp_path, jobs=1, progress=lambda *at: told.append(at))
    runs = told[-1][1]
    assert told[-1] == (runs, runs) and runs == len(list(tmp_path.rglob("run.json")))
    assert told == sorted(told)
    # Finished runs are found, and count as progress too.
    del told[:]
    narrows.figures.burst_tcp.fig10("least", out=tmp_path, jobs=1, progress=lambda *at: told.append(at))
    assert told[-1] == (runs, runs)

    def enough(finished, runs):
        raise KeyError("enough")

    with pytest.raises(KeyError, match="enough"):
        narrows.figures.burst_tcp.fig10("least", out=tmp_path / "b", jobs=1, progress=enough)


def test_another_folder_of_scenarios(tmp_path, experiments):
    listed = narrows.figures.burst_tcp.fig10("least", out=tmp_path / "a", jobs=1, experiments=experiments)
    held = narrows.figures.burst_tcp.fig10("least", out=tmp_path / "b", jobs=1)
    assert polars.DataFrame(listed.table).equals(polars.DataFrame(held.table))


def test_what_is_not_there_is_named(tmp_path):
    with pytest.raises(AttributeError, match="taqq: no such paper: expected one of .*taq"):
        narrows.figures.taqq
    with pytest.raises(AttributeError, match="fig99: taq has no such figure: expected one of fig01"):
        narrows.figures.taq.fig99
    with pytest.raises(ValueError, match="size = 'tiny': expected one of full, quick, least"):
        narrows.figures.taq.fig08("tiny", out=tmp_path)
    (tmp_path / "taken").write_text("")
    with pytest.raises(OSError, match="taken"):
        narrows.figures.burst_tcp.fig10("least", out=tmp_path / "taken", jobs=1)


@pytest.mark.parametrize("jobs", [-1, 0, 1.5, "2", True, 2**64])
def test_jobs_that_cannot_be_are_refused(jobs, tmp_path):
    with pytest.raises(ValueError, match="expected a whole number from 1") as refused:
        narrows.figures.burst_tcp.fig10("least", out=tmp_path / "out", jobs=jobs)
    assert refused.value.key == "jobs" and not (tmp_path / "out").exists()


def test_without_matplotlib_nothing_is_run(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(ImportError, match="pip install matplotlib"):
        narrows.figures.burst_tcp.fig10("least", out=tmp_path / "out", jobs=1)
    assert not (tmp_path / "out").exists()


def test_ctrl_c_keeps_finished_runs(tmp_path):
    script = "import narrows; narrows.figures.taq.fig08('quick', out='out', jobs=1)"
    with subprocess.Popen([sys.executable, "-c", script], cwd=tmp_path, stderr=subprocess.PIPE, text=True) as process:
        until = time.monotonic() + 60
        while not list(tmp_path.rglob("run.json")) and time.monotonic() < until:
            time.sleep(0.05)
        process.send_signal(signal.SIGINT)
        _, told = process.communicate(timeout=60)
    assert "KeyboardInterrupt" in told
    assert process.returncode == -signal.SIGINT or process.returncode == 1
    assert len(list(tmp_path.rglob("run.json"))) >= 1
    # A run that was not finished leaves nothing under its own name.
    assert all((path.parent / "summary.csv").exists() for path in tmp_path.rglob("run.json"))
    assert os.path.exists(tmp_path / "out")
