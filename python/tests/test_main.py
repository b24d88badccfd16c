"""The command that comes with the package: the program's own, without its box."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import narrows
from narrows.__main__ import OF_THE_PROGRAM


def narrows_says(tmp_path, *args):
    """`python -m narrows`, in a folder where nothing is."""
    command = [sys.executable, "-m", "narrows", *args]
    return subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)


def test_the_program_is_installed_beside_python():
    from importlib.metadata import entry_points

    (script,) = [e for e in entry_points(group="console_scripts") if e.name == "narrows"]
    assert script.value == "narrows.__main__:main"


def test_help_names_the_commands(tmp_path):
    done = narrows_says(tmp_path, "--help")
    assert done.returncode == 0
    for command in ("sim", "reproduce", "league", "model", "plan", "diagnose", "explore", "notebooks"):
        assert f"\n  {command}" in done.stdout, command
    assert narrows_says(tmp_path, "--version").stdout == f"narrows {narrows.VERSION}\n"


def test_sim_runs_a_file(tmp_path):
    few = narrows.Scenario(name="few", rate="600kbit", rtt="200ms", duration="5s", discipline="taq")
    few.traffic = [narrows.Long(flows=3)]
    (tmp_path / "few.toml").write_text(few.to_toml())
    done = narrows_says(tmp_path, "sim", "few.toml", "--json", "--quiet", "--seeds", "2")
    assert done.returncode == 0, done.stderr
    (told,) = json.loads(done.stdout)
    summary = narrows.run(few, 2).summary
    assert told["points"][0]["figures"]["goodput_kbps"]["median"] == summary["goodput_kbps"]
    assert (tmp_path / "out/sim/few/summary.csv").exists()


def test_a_capture_is_diagnosed_as_by_the_function(tmp_path):
    few = narrows.Scenario(name="few", rate="600kbit", rtt="200ms", mtu=500, duration="30s", discipline="fifo:20")
    few.traffic, few.probes = [narrows.Long(flows=20)], narrows.Probes(capture=["thin"])
    path = tmp_path / "few.pcap"
    path.write_bytes(next(iter(narrows.run(few, 1).captures.values())))
    done = narrows_says(tmp_path, "diagnose", "few.pcap", "--json")
    assert done.returncode in (0, 1), done.stderr
    assert json.loads(done.stdout)["overall"] == narrows.diagnose(path).overall
    refused = narrows_says(tmp_path, "diagnose", "nowhere.pcap")
    assert refused.returncode == 2 and "nowhere.pcap" in refused.stderr


def test_models_and_plans_are_the_same(tmp_path):
    asked = ("model", "link", "--rate", "600kbit", "--flows", "60", "--rtt", "200ms", "--json")
    told = json.loads(narrows_says(tmp_path, *asked).stdout)
    point = narrows.models.operating.operating_point(narrows.models.operating.Bottleneck("600kbit", "200ms", 60))
    assert told["loss"] == point.loss and told["silent"] == point.silent
    # One set of names: the chain's, its end of a back-off.
    for name in ("partial", "f3", "f64"):
        asked = ("model", "taq", "--loss", "0.2", "--chain", name, "--backoff-ends", "new_ack", "--json")
        told = json.loads(narrows_says(tmp_path, *asked).stdout)[name]
        chain = narrows.models.taq_chain.Chain(chain=name, repair="one", backoff_ends="new_ack")
        assert told["silent"] == narrows.models.taq_chain.stationary(0.2, chain).silent
    done = narrows_says(tmp_path, "plan", "--rate", "2mbit", "--users", "200", "--rtt", "600ms")
    assert done.returncode == 0 and "map: out" in done.stdout


def test_reproduce_brings_its_scenarios(tmp_path):
    done = narrows_says(tmp_path, "reproduce", "--list", "taq")
    assert done.returncode == 0 and "taq/fig08" in done.stdout, done.stderr


@pytest.mark.parametrize(
    ("args", "says"),
    [
        (("simm",), "sim"),
        (("sim", "none.toml"), "none.toml"),
        (("model", "taq", "--loss", "2"), "0 <= loss"),
        (("notebooks", "a", "b"), "expected one folder"),
    ],
)
def test_what_cannot_be_is_status_2(tmp_path, args, says):
    done = narrows_says(tmp_path, *args)
    assert done.returncode == 2 and says in done.stderr
    assert "Traceback" not in done.stderr


def test_notebooks_are_written_and_none_is_overwritten(tmp_path):
    done = narrows_says(tmp_path, "notebooks", "mine")
    assert done.returncode == 0
    written = sorted((tmp_path / "mine").glob("*.ipynb"))
    assert [path.name for path in written] == ["near_and_far.ipynb", "satellite.ipynb"]
    assert all(path.name in done.stdout for path in written)
    notebook = written[1]
    held = Path(narrows.__file__).parent / "notebooks" / "satellite.ipynb"
    assert notebook.read_bytes() == held.read_bytes()
    notebook.write_text("mine")
    assert "stays as it is" in narrows_says(tmp_path, "notebooks", "mine").stdout and notebook.read_text() == "mine"


def test_whoever_reads_may_have_had_enough(tmp_path):
    """As `narrows --help | head -1`: no trace of a broken pipe."""
    for args in (["--help"], ["sim", "--help"], [], ["model", "list"]):
        command = [sys.executable, "-m", "narrows", *args]
        with subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as told:
            # Gone before the first word.
            told.stdout.close()
            said = told.stderr.read()
        assert "Traceback" not in said and "BrokenPipe" not in said and "panicked" not in said, (args, said)


def program():
    """The program of this source, where it has been built since it changed."""
    root = Path(__file__).parents[2]
    target = Path(os.environ.get("CARGO_TARGET_DIR", root / "target"))
    newest = max(path.stat().st_mtime for path in (root / "crates" / "cli" / "src").rglob("*.rs"))
    built = [target / profile / "narrows" for profile in ("debug", "quick", "release")]
    return next((path for path in built if path.exists() and path.stat().st_mtime > newest), None)


def test_what_both_have_is_one_program(tmp_path):
    """`pip install` and the package: each command that the package of Python has takes the same and says the same."""
    other = program()
    if other is None:
        pytest.skip("no program has been built since its source changed: cargo build -p narrows-cli")
    commands = re.findall(r"^  (\w+) ", narrows_says(tmp_path, "--help").stdout.split("Python alone")[0], re.MULTILINE)
    ours = set(commands) - {"help"}
    assert ours == {"sim", "reproduce", "league", "model", "plan", "diagnose", "explore"}
    for command in ours:
        told = subprocess.run([other, command, "--help"], capture_output=True, text=True, check=True).stdout
        assert narrows_says(tmp_path, command, "--help").stdout == told, command
    asked = ("model", "link", "--rate", "600kbit", "--flows", "60", "--rtt", "200ms", "--json")
    told = subprocess.run([other, *asked], capture_output=True, text=True, check=True).stdout
    assert narrows_says(tmp_path, *asked).stdout == told
    # The program's other commands are named by those who look for them here.
    others = re.findall(r"^  (\w+) ", subprocess.run([other, "--help"], capture_output=True, text=True).stdout, re.M)
    assert set(others) - ours - {"help"} == set(OF_THE_PROGRAM)
    for command in OF_THE_PROGRAM:
        done = narrows_says(tmp_path, command)
        assert done.returncode == 2 and "is a command of the program" in done.stderr, done.stderr
