"""Docstrings of the classes agree with the reader of scenario files and with its reference."""

import dataclasses
import re
from pathlib import Path

import pytest
from few import FEW

import narrows
from narrows.tables import key_of

REFERENCE = Path(__file__).parents[2] / "docs" / "reference"
SECTIONS = {
    "## Top level": narrows.Scenario,
    "## `[topology]`": narrows.Topology,
    "## `[[link]]`": narrows.Link,
    "## `[[hosts]]`": narrows.Hosts,
    "## `[[edge]]`": narrows.Edge,
    "## `[probes]`": narrows.Probes,
    "## `[[probes.groups]]`": narrows.Group,
    "## `[[claim]]`": narrows.Claim,
    "## `[[traffic]]`": narrows.Traffic,
    "### log.synthetic": narrows.SyntheticLog,
    **{f"### {cls.kind}": cls for cls in narrows.Traffic.__subclasses__()},
}


def words(cls):
    """Sentences of a class about its keys, by key."""
    told = {}
    for field in dataclasses.fields(cls):
        said = re.search(rf"^    {field.name}: (.*?)(?=^    \S|\Z)", cls.__doc__, re.MULTILINE | re.DOTALL)
        if said is not None:
            told[key_of(field)] = " ".join(said[1].split())
    return told


def reference():
    """Rows of the reference: class, key, default, example, meaning."""
    pages = "".join((REFERENCE / page).read_text() for page in ("scenarios.md", "workloads.md"))
    for section in re.split(r"^(?=##)", pages, flags=re.MULTILINE):
        cls = SECTIONS.get(section.splitlines()[0].strip())
        for row in re.findall(r"^\| `(.*)\|$", section, re.MULTILINE) if cls else ():
            cells = [cell.strip() for cell in re.split(r"(?<!\\)\|", f"`{row}")]
            for key in re.findall(r"`([^`]+)`", cells[0]):
                yield cls, key, cells[1], cells[-1]


ROWS = list(reference())


def test_the_reference_was_read():
    assert len(ROWS) > 120 and {cls for cls, *_ in ROWS} == set(SECTIONS.values())


@pytest.mark.parametrize("cls", SECTIONS.values(), ids=lambda cls: cls.__name__)
def test_keys_of_the_lab_alone_are_called_so(cls):
    own = words(cls)
    lab = {key for c, key, _, meaning in ROWS if c is cls and meaning.startswith("lab only")}
    said = {key for key in own if re.search(r"[;(] ?lab only\)\.$", own[key])}
    # A browser as a whole is the lab's.
    assert said == lab if cls is not narrows.Browser else said >= lab


@pytest.mark.parametrize("cls", SECTIONS.values(), ids=lambda cls: cls.__name__)
def test_defaults_are_those_of_the_reference(cls):
    own = words(cls)
    for key, default in ((key, default) for c, key, default, _ in ROWS if c is cls):
        if key not in own or not re.fullmatch(r"`[^`]+`", default):
            continue
        plain = default.strip("`")
        assert f"default {plain}" in own[key] or f"default ``{plain}``" in own[key], (cls, key, default, own[key])


def test_tcp_says_what_its_reference_says():
    page = (REFERENCE / "tcp.md").read_text()
    own = words(narrows.Tcp)
    rows = re.findall(r"^\| `(\w+)` \|(?:[^|]*\|){4} ([^|]*) \| ([^|]*) \|$", page, re.MULTILINE)
    assert {key for key, *_ in rows} == own.keys() - {"preset"}
    for key, values, meaning in rows:
        said = own[key].replace("``", "`").rstrip(".")
        assert values in said, (key, values, said)
        assert said.lower().startswith(meaning[:40].lower().split(" (docs/")[0]), (key, meaning, said)
    presets = re.findall(r"^- `(\w+)`", page.split("## Presets")[1].split("##")[0], re.MULTILINE)
    assert sorted(re.findall(r"``(\w+)``", own["preset"])) == sorted(presets)


KINDS = {
    "long": narrows.Long(flows=1),
    "files": narrows.Files(flows=1, size=900),
    "objects": narrows.Objects(users=1),
    "pages": narrows.Pages(users=1, objects=2),
    "telnet": narrows.Telnet(flows=1),
}


def test_transports_go_with_the_traffic_that_is_named():
    said = words(narrows.Traffic)["transport"]
    named = re.findall(r"``(\w+)`` \(in the simulator for ([^)]*)\)", said)
    told = {name: set(re.findall(r"\w+", kinds)) - {"and"} for name, kinds in named}
    assert told.keys() == {"quic", "tls", "tfrc"}
    for transport, kinds in told.items():
        for kind, traffic in KINDS.items():
            scenario = dataclasses.replace(FEW, mtu=1500, traffic=[dataclasses.replace(traffic, transport=transport)])
            try:
                narrows.expand(scenario)
                accepted = True
            except narrows.ScenarioError:
                accepted = False
            assert accepted == (kind in kinds), (transport, kind)


def test_sizes_of_request_and_header_go_with_quic_too():
    own = words(narrows.Traffic)
    for key in ("request", "header"):
        default = next(default for cls, named, default, _ in ROWS if cls is narrows.Traffic and named == key)
        for kind in re.findall(r"objects|pages|log|QUIC", default):
            assert kind in own[key], (key, kind)
