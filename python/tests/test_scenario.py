"""Scenarios as dataclasses: equal to the files, key by key, and judged by their reader."""

import dataclasses
import re

import numpy as np
import pytest

import narrows
from narrows import _native
from narrows.tables import key_of

THIN = {"name": "t", "rate": "1mbit", "discipline": "taq"}
LONG = {"kind": "long", "flows": 2}
LINKS = {
    "name": "t",
    "discipline": "taq",
    "link": [{"name": "c", "from": "a", "to": "b", "rate": "1mbit"}, {"from": "a", "to": "b", "rate": "1mbit"}],
    "hosts": [{"name": "servers", "at": "a"}, {"name": "clients", "at": "b"}],
    "traffic": [LONG],
}
CLAIM = {"text": "t", "expr": "1", "bound": "> 0", "why": "w"}


def thin(**more):
    return THIN | {"traffic": [LONG]} | more


def log(**synthetic):
    synthetic = {"requests": 1, "clients": 1} | synthetic
    return thin(traffic=[{"kind": "log", "clients": 1, "synthetic": synthetic}])


# Each class, a file that works with a key in it that does not exist, and what keys such a file may have beside the
# class's.
TABLES = {
    narrows.Scenario: [thin(zzzzzzzzzz=1)],
    narrows.Link: [LINKS | {"link": [LINKS["link"][0] | {"zzzzzzzzzz": 1}]}],
    narrows.Hosts: [LINKS | {"hosts": [LINKS["hosts"][0] | {"zzzzzzzzzz": 1}, LINKS["hosts"][1]]}],
    narrows.Edge: [LINKS | {"edge": [{"at": "a", "policy": "random", "mark": [18, 10], "zzzzzzzzzz": 1}]}],
    narrows.Probes: [thin(probes={"zzzzzzzzzz": 1})],
    narrows.Group: [thin(probes={"groups": [{"name": "g", "zzzzzzzzzz": 1}]})],
    narrows.Claim: [thin(claim=[CLAIM | {"zzzzzzzzzz": 1}])],
    narrows.SyntheticLog: [log(zzzzzzzzzz=1)],
    narrows.Topology: [
        {"name": "t", "discipline": "taq", "traffic": [LONG], "topology": {"rate": "1mbit", "zzzzzzzzzz": 1} | kind}
        for kind in ({"kind": "dumbbell"}, {"kind": "parking_lot", "hops": 2}, {"kind": "diamond"})
    ],
    **{
        cls: [thin(traffic=[{"kind": cls.kind, "zzzzzzzzzz": 1} | entry])]
        for cls, entry in {
            narrows.Long: {"flows": 1},
            narrows.Files: {"arrivals": 1, "size": 9},
            narrows.Objects: {"users": 1},
            narrows.Pages: {"users": 1, "objects": 3},
            narrows.Browser: {},
            narrows.Telnet: {"flows": 1},
            narrows.Udp: {"flows": 1, "rate": "9kbit", "on": "1s", "off": "1s"},
            narrows.Calls: {"flows": 1},
            narrows.Log: {"clients": 1, "synthetic": {"requests": 1, "clients": 1}},
        }.items()
    },
}


def known(tables):
    """The keys of a table, as the reader's refusal of one that does not exist lists them."""
    keys = set()
    for table in tables:
        with pytest.raises(narrows.ScenarioError) as refused:
            _native.expand(_native.to_toml(table))
        keys |= set(refused.value.problem.split("expected one of ")[1].split(", "))
    return keys


@pytest.mark.parametrize("cls", TABLES, ids=lambda cls: cls.__name__)
def test_a_class_has_the_keys_its_table_has(cls):
    keys = {key_of(f) for f in dataclasses.fields(cls)} - {None}
    if issubclass(cls, narrows.Traffic):
        keys.add("kind")
    # Keys of connections have no meaning for datagrams; there is one list for all kinds.
    connections = {"opened_by", "request", "header", "tcp", "opaque", "transport"}
    refused = connections if cls in (narrows.Udp, narrows.Calls) else set()
    exist = known(TABLES[cls])
    assert exist - keys == set()
    assert keys - exist <= refused


def test_every_class_is_compared():
    tables = {c for c in vars(narrows).values() if dataclasses.is_dataclass(c) and c.__module__ in MODULES}
    assert tables - {narrows.Traffic, narrows.Tcp} == set(TABLES)


MODULES = {"narrows.parts", "narrows.scenario", "narrows.traffic"}


def test_tcp_has_the_keys_of_the_hosts():
    assert {f.name for f in dataclasses.fields(narrows.Tcp)} == {"preset", *_native.tcp_keys()}


def files(experiments):
    found = sorted(p for p in experiments.glob("*/**/*.toml"))
    assert len(found) > 60
    return found


def test_every_file_makes_the_round_trip(experiments):
    for path in files(experiments):
        scenario = narrows.Scenario.from_toml(path)
        again = narrows.Scenario.from_toml(scenario.to_toml())
        assert again == scenario, path
        # Not only equal to itself: the same tables as the file has.
        assert _native.from_toml(scenario.to_toml()) == _native.from_toml(path.read_text()), path


def test_every_file_is_the_same_to_the_reader(experiments):
    compared = 0
    for path in files(experiments):
        try:
            of_file = narrows.expand(path)
        except narrows.ScenarioError as refused:
            # Traces are others' data, which need not be here.
            assert "lab" in refused.problem or "expected a trace" in refused.problem, refused
            continue
        of_class = narrows.expand(narrows.Scenario.from_toml(path))
        assert [p.key for p in of_class] == [p.key for p in of_file], path
        compared += 1
    assert compared > 50


def few(**more):
    settings = {"name": "few", "rate": "600kbit", "rtt": "200ms", "duration": "5s", "discipline": "taq"}
    return narrows.Scenario(**settings | {"traffic": [narrows.Long(flows=3)]} | more)


def test_a_scenario_runs_as_its_file_does(tmp_path):
    scenario = few(tcp=narrows.Tcp(preset="ns2"), vars={"n": 4}, traffic=[narrows.Long(flows="=n")])
    path = tmp_path / "few.toml"
    path.write_text(scenario.to_toml())
    assert narrows.run(scenario, 3).summary == narrows.run(path, 3).summary
    assert len(narrows.run(scenario, 3).flows) == 4


def test_what_a_file_names_is_looked_for_beside_it(tmp_path):
    (tmp_path / "access.log").write_text("time,client,bytes\n0,a,1000\n1,b,2000\n")
    (tmp_path / "log.toml").write_text(few(traffic=[narrows.Log(file="access.log", clients=2)]).to_toml())
    scenario = narrows.Scenario.from_toml(tmp_path / "log.toml")
    assert len(narrows.run(scenario).transfers) == 2
    with pytest.raises(ValueError, match=r"traffic\.0\.file.*folder"):
        narrows.run(dataclasses.replace(scenario, file=None))


def test_numbers_of_numpy_are_numbers():
    scenario = few(traffic=[narrows.Long(flows=np.int64(3))], loss=np.float64(0.25))
    assert scenario.to_toml() == few(loss=0.25).to_toml()


@pytest.mark.parametrize(
    ("make", "key", "says"),
    [
        (lambda: narrows.Long(flowz=1), "Long.flowz", "'flows'?"),
        (lambda: narrows.Scenario(disciplin="taq"), "Scenario.disciplin", "'discipline'?"),
        (lambda: narrows.Tcp(zzzzzzzzz=1), "Tcp.zzzzzzzzz", "one of alpha, "),
        (lambda: few(rate="600kbyte").check(), "rate", "600kbyte"),
        (lambda: few(rtt="200mbit").check(), "rtt", "200mbit"),
        (lambda: few(mtu="big").check(), "mtu", "'big'"),
        (lambda: few(duration=True).check(), "duration", "true"),
        (lambda: few(traffic=[narrows.Long(flows="many")]).check(), "traffic.0.flows", "'many'"),
        (lambda: few(traffic=[narrows.Long(flows=1.5)]).check(), "traffic.0.flows", "1.5"),
        (lambda: few(traffic=[narrows.Long(flows={1, 2})]).check(), "traffic.0.flows", "of type set"),
        (lambda: few(traffic=[narrows.Long()]).check(), "traffic.0.flows", "missing"),
        (lambda: few(traffic=narrows.Long(flows=1)).check(), "traffic", "[[traffic]]"),
        (lambda: few(traffic=[3]).check(), "traffic", "[[traffic]]"),
        (lambda: few(tcp=narrows.Tcp(rto_min="1kbit")).check(), "tcp.rto_min", "1kbit"),
        (lambda: few(tcp={"rto_mn": 1}).check(), "tcp.rto_mn", "'rto_min'?"),
        (lambda: few(vars={"x": 2**70}).check(), "vars.x", "2^63"),
        (lambda: few(sysctl={1: "1"}).check(), "sysctl", "has the key 1"),
        (lambda: few(loss=float("nan")).check(), "loss", "nan"),
        (lambda: narrows.run(few(), set={"rate": object()}), "rate", "of type object"),
        (lambda: narrows.run(few(), set={"rte": "1mbit"}), "rte", "'rate'?"),
    ],
)
def test_what_cannot_be_is_a_value_error_with_the_key(make, key, says):
    with pytest.raises(ValueError, match=re.escape(says)) as refused:
        make()
    assert refused.value.key == key
    assert key in str(refused.value)


def test_a_key_that_does_not_exist_cannot_be_assigned():
    scenario, hosts = few(), narrows.Long(flows=3)
    with pytest.raises(ValueError, match=r"Scenario\.ratee: no such key: expected 'rate'\?") as refused:
        scenario.ratee = "2mbit"
    assert refused.value.key == "Scenario.ratee"
    for key in ("flowz", "kind", "key"):
        with pytest.raises(ValueError, match=rf"Long\.{key}: no such key"):
            setattr(hosts, key, 3)
    scenario.rate, hosts.flows = "2mbit", 4
    assert (scenario.rate, hosts.flows) == ("2mbit", 4)


@pytest.mark.parametrize(
    ("text", "key", "says"),
    [
        ("name = \nrate = 1", "", "line 1 is no TOML"),
        ("name = 't'\nratee = 1", "ratee", "'rate'?"),
        ("[[traffic]]\nkind = 'long'\nflowz = 1", "traffic.0.flowz", "'flows'?"),
        ("[[traffic]]\nkind = 'short'\nflows = 1", "traffic.0.kind", "expected one of long, files"),
        ("[[traffic]]\nflows = 1", "traffic.0.kind", "is missing"),
        ("[probes]\n[[probes.groups]]\nnam = 'x'", "probes.groups.0.nam", "'name'?"),
        ("[[traffic]]\nkind = 'log'\nsynthetic = { request = 1 }", "traffic.0.synthetic.request", "'requests'?"),
    ],
)
def test_text_that_is_no_scenario_is_refused_in_the_same_way(text, key, says, tmp_path):
    path = tmp_path / "wrong.toml"
    path.write_text(text)
    for source in (text, path):
        with pytest.raises(ValueError, match=re.escape(says)) as refused:
            narrows.Scenario.from_toml(source)
        assert refused.value.key == key
    assert str(path) in str(refused.value)


def test_a_file_that_is_not_there_is_an_os_error(tmp_path):
    for use in (narrows.run, narrows.expand, narrows.Scenario.from_toml):
        with pytest.raises(FileNotFoundError, match="none.toml"):
            use(tmp_path / "none.toml")


def test_the_class_s_own_example():
    few = narrows.Scenario(
        name="few",
        rate="600kbit",
        rtt="200ms",
        mtu=500,
        duration="60s",
        seeds="1..3",
        disciplines=["fifo:30", "taq"],
        sweep={"traffic.0.flows": [10, 30, 60, 120]},
        traffic=[narrows.Long(flows=30)],
    )
    assert few == narrows.Scenario.from_toml(few.to_toml())
    assert len(narrows.expand(few)) == 24
