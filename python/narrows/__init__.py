"""TCP on links too thin for it: the simulator of Narrows from Python.

>>> import narrows
>>> few = narrows.Scenario(
...     name="few", rate="600kbit", rtt="200ms", duration="60s", discipline="taq",
...     traffic=[narrows.Long(flows=30)])
>>> result = narrows.run(few, seed=1)
>>> result.summary["jain_20s"] > 0.9
True
>>> flows = polars.DataFrame(result.flows)      # or pyarrow.table(result.flows), result.flows.to_pandas()

``docs/how-to/python.md`` tells the rest.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from narrows._native import ENGINE, VERSION, Column, ScenarioError, Stop, Table
from narrows.catalogue import Discipline, Metric, disciplines, metrics
from narrows.diagnosis import Diagnosis, diagnose, what_if
from narrows.intervals import ci, ci_plot, ci_table
from narrows.parts import Claim, Edge, Group, Hosts, Link, Probes, Tcp, Topology
from narrows.results import Result
from narrows.runs import Point, expand, run
from narrows.scenario import Scenario
from narrows.sweeps import Swept, sweep
from narrows.traffic import Browser, Calls, Files, Log, Long, Objects, Pages, SyntheticLog, Telnet, Traffic, Udp

if TYPE_CHECKING:
    from narrows import figures, models, own

__version__ = VERSION

_LAZY = ("figures", "models", "own")
"""Loaded when first used, so that importing this package takes no longer than it must."""


def __getattr__(name: str) -> Any:
    if name in _LAZY:
        return importlib.import_module(f"narrows.{name}")
    raise AttributeError(f"module 'narrows' has no attribute {name!r}", name=name)


def __dir__() -> list[str]:
    return sorted({*__all__, *(name for name in globals() if name.startswith("__"))})


__all__ = [
    "ENGINE",
    "VERSION",
    "Browser",
    "Calls",
    "Claim",
    "Column",
    "Diagnosis",
    "Discipline",
    "Edge",
    "Files",
    "Group",
    "Hosts",
    "Link",
    "Log",
    "Long",
    "Metric",
    "Objects",
    "Pages",
    "Point",
    "Probes",
    "Result",
    "Scenario",
    "ScenarioError",
    "Stop",
    "Swept",
    "SyntheticLog",
    "Table",
    "Tcp",
    "Telnet",
    "Topology",
    "Traffic",
    "Udp",
    "ci",
    "ci_plot",
    "ci_table",
    "diagnose",
    "disciplines",
    "expand",
    "figures",
    "metrics",
    "models",
    "own",
    "run",
    "sweep",
    "what_if",
]
