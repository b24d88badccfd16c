"""Refusals of a scenario written in Python, in Python's words: a file's ``[[traffic]]`` is ``traffic=[...]``."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

from narrows import _native

CLASSES = {
    "tcp": "narrows.Tcp(...)",
    "probes": "narrows.Probes(...)",
    "topology": "narrows.Topology(...)",
    "traffic": "narrows.Long(flows=10)",
    "link": "narrows.Link(...)",
    "hosts": "narrows.Hosts(...)",
    "edge": "narrows.Edge(...)",
    "claim": "narrows.Claim(...)",
}


@contextmanager
def of_python(of_python: bool) -> Iterator[None]:
    """Tells refusals from within in words of Python, if the scenario is ``of_python`` and from no file."""
    try:
        yield
    except _native.ScenarioError as why:
        problem = spoken(why.problem)
        if not of_python or why.file is not None or problem == why.problem:
            raise
        where = f" (at {why.point})" if why.point else ""
        told = _native.refusal(why.key, problem + where, why.file)
        told.problem, told.point = problem, why.point
        raise told from None


def spoken(problem: str) -> str:
    """A problem as people who write Python say it; what the file says stands in brackets where it differs."""
    given, expected, told = problem.rpartition("expected ")
    if not expected:
        return problem

    def listed(found: re.Match[str]) -> str:
        return f"a list, as {found[1]}=[{CLASSES.get(found[1], '...')}] ([[{found[1]}]] in a file)"

    def single(found: re.Match[str]) -> str:
        return f"{CLASSES[found[1]] + ' or ' if found[1] in CLASSES else ''}a dict ([{found[1]}] in a file)"

    told = re.sub(r"(?:tables|a table), as \[\[(\w+)\]\]", listed, told)
    told = re.sub(r"^at least one \[\[(\w+)\]\] with a kind", listed, told)
    told = re.sub(r"a table, as \[(\w+)\]", single, told)
    told = re.sub(r"a table (of keys and lists), as (\w+) = \[\.\.\.\]", r'a dict \1, as {"\2": [...]}', told)
    told = re.sub(r"(?<!\()\[\[(\w+)\]\]s?", r"\1=[...]", told)
    told = re.sub(r"\b(\w+) = \"", r'\1="', told)
    told = re.sub(r"text in quotes\b", "text", told)
    told = re.sub(r" in quotes\b", " as text", told)
    return f"{given}{expected}{told}"
