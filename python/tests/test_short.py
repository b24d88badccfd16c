"""Short names of keys, defaults that are told, and what `help()` says of a table."""

import copy
import dataclasses
import pickle
import re

import numpy as np
import pytest
from few import FEW

import narrows
from narrows import Long, Objects
from narrows.traffic import Traffic


def test_a_short_key_is_the_one_it_can_be():
    swept = narrows.sweep(FEW, {"flows": [5, 10]}, [1], cache=None)
    assert dict(swept.sizes) == {"flows": 2, "seed": 1}
    full = narrows.sweep(FEW, {"traffic.0.flows": [5, 10]}, [1], cache=None)
    assert (swept["goodput_kbps"].values == full["goodput_kbps"].values).all()
    key = narrows.expand(FEW, {"flows": 7, "initial_window": 3, "slice": "5s"})[0].key
    assert key == narrows.expand(FEW, {"traffic.0.flows": 7, "tcp.initial_window": 3, "probes.slice": "5s"})[0].key


def test_a_key_of_the_scenario_s_own_is_not_short():
    # `rate` is the link's, though traffic has one too; a variable is itself, whatever traffic has.
    udp = dataclasses.replace(FEW, traffic=[narrows.Udp(flows=1, rate="9kbit"), Long(flows=2)])
    faster = dataclasses.replace(udp, rate="1mbit")
    assert narrows.expand(udp, {"rate": "1mbit"})[0].key == narrows.expand(faster)[0].key
    named = dataclasses.replace(FEW, vars={"flows": 4}, traffic=[Long(flows="=flows"), Objects(users=3)])
    assert len(narrows.run(named, 1, set={"flows": 6}).flows) == 6
    with pytest.raises(ValueError, match=r"users: could be traffic.0.users or traffic.1.users: expected one of these"):
        narrows.expand(dataclasses.replace(FEW, traffic=[Objects(users=3), Objects(users=4)]), {"users": 5})
    # One of traffic and one of TCP; only what the entries' kinds have counts.
    telnet = dataclasses.replace(FEW, traffic=[narrows.Telnet(flows=1)])
    with pytest.raises(ValueError, match=r"interval: could be traffic.0.interval or probes.interval"):
        narrows.expand(telnet, {"interval": "1s"})
    assert narrows.expand(FEW, {"interval": "1s"})


MODULES = {"narrows.parts", "narrows.scenario", "narrows.traffic"}
TABLES = [c for c in vars(narrows).values() if dataclasses.is_dataclass(c) and c.__module__ in MODULES]


def test_a_default_is_told_and_is_no_key():
    few = narrows.Scenario(name="few", rate="1mbit")
    assert (few.duration, few.mtu, few.overhead) == ("120s", 1500, 14)
    assert few.to_dict() == {"name": "few", "rate": "1mbit"}
    # A value that was given is a key, even if it equals the default.
    assert narrows.Scenario(duration="120s").to_dict() == {"duration": "120s"}
    assert narrows.Scenario(duration="120s") == narrows.Scenario()
    for other in (copy.deepcopy(few), pickle.loads(pickle.dumps(few)), dataclasses.replace(few)):
        assert other.to_toml() == few.to_toml()
    few.duration = None
    assert few.to_dict() == {"name": "few", "rate": "1mbit"}
    link = narrows.Link(from_="a", to="b")
    assert link.oneway == False and repr(link) == "Link(from_='a', to='b')"  # noqa: E712
    assert narrows.expand(FEW, {"dephase": narrows.Scenario().dephase})


@pytest.mark.parametrize("cls", TABLES, ids=lambda cls: cls.__name__)
def test_a_default_is_what_the_words_say(cls):
    """The words are compared with the reader's by the pages of the reference."""
    for field in dataclasses.fields(cls):
        if field.default is None or field.default is dataclasses.MISSING or field.name in ("kind", "preset"):
            continue
        plain = field.default.plain
        told = {True: "true", False: "false"}[plain] if isinstance(plain, bool) else str(plain)
        words = cls.__doc__.split(f"\n    {field.name}: ")[1]
        words = " ".join(re.split(r"\n    (?! )", words)[0].split())
        assert f"default {told}" in words, field.name


def test_help_has_every_field():
    for cls in TABLES:
        if cls is not Traffic:
            for field in dataclasses.fields(cls):
                if field.name != "kind":
                    assert f"\n    {field.name}: " in cls.__doc__, (cls, field.name)
    assert narrows.Scenario.__doc__.startswith("A scenario file: what is simulated")
    assert "How long the load lasts (time; default 120s)." in narrows.Scenario.__doc__


def test_the_reader_s_defaults_are_these():
    """Each default given in full makes the same runs as none."""
    bare = dataclasses.replace(FEW, tcp=narrows.Tcp(), probes=narrows.Probes())
    given = copy.deepcopy(bare)
    lab = {"backend", "http", "page"}
    for table in (given, given.traffic[0], given.tcp, given.probes):
        for field in dataclasses.fields(table):
            value = getattr(table, field.name)
            plain = getattr(value, "plain", None)
            if plain is not None and field.name not in lab:
                setattr(table, field.name, plain)
    assert len(given.to_toml().splitlines()) > len(bare.to_toml().splitlines()) + 15
    assert narrows.run(given, 1).summary == narrows.run(bare, 1).summary


def test_bare_numbers_are_seconds_and_bits_per_second(experiments):
    words = dataclasses.replace(
        FEW,
        duration="5s",
        traffic=[narrows.Long(flows=3, start="500ms", tcp=narrows.Tcp(rto_min="250ms"))],
        probes=narrows.Probes(stalls=["1s", "2.5s"], slice="1s"),
    )
    numbers = dataclasses.replace(
        FEW,
        rate=0.6e6,
        rtt=np.float64(0.2),
        duration=5,
        traffic=[narrows.Long(flows=3, start=0.5, tcp=narrows.Tcp(rto_min=0.25))],
        probes=narrows.Probes(stalls=[1, 2.5], slice=1.0),
    )
    assert narrows.run(numbers, 1).summary == narrows.run(words, 1).summary
    assert (numbers.to_dict()["rtt"], numbers.to_dict()["rate"]) == ("0.2s", 600_000)
    # In what is set and swept too, by short keys; labels are the numbers with their unit.
    assert narrows.run(FEW, 1, set={"duration": 5, "start": 1}).summary == (
        narrows.run(FEW, 1, set={"duration": "5s", "start": "1s"}).summary
    )
    grid = narrows.sweep(words, {"rtt": np.array([0.1, 0.2]), "rate": [3e5, 1.1 * 6e5]}, cache=None)
    assert grid.rtt.values.tolist() == [0.1, 0.2] and grid.rtt.attrs["units"] == "s"
    assert grid.rate.values.tolist() == [300_000, 660_000]
    assert (grid.goodput_kbps.sel(rate=660_000) > 1.5 * grid.goodput_kbps.sel(rate=300_000)).all()
    # A variable is a plain number, whatever it is called.
    named = experiments / "initial-spreading" / "fig13-sizes.toml"
    assert {point.coords["rtt"] for point in narrows.expand(narrows.Scenario.from_toml(named))} == {"50", "100", "200"}
    assert "rtt" not in narrows.expand(named, {"rtt": 50})[0].coords
    # A value that is no time is refused in the words in which it was written.
    for value in (-1, float("nan"), True):
        with pytest.raises(narrows.ScenarioError, match="duration = (-1|nan|true): expected a time"):
            narrows.run(FEW, set={"duration": value})


def test_words_for_what_python_has_no_place_for():
    with pytest.raises(TypeError, match=r"^Long\(3\): expected keywords, as Long\(flows=3\)$"):
        narrows.Long(3)
    with pytest.raises(narrows.ScenarioError, match="flow: no such key: expected 'flows'"):
        narrows.sweep(FEW, {"flow": [1]})
    assert narrows.Scenario.from_toml('rate = "3mbit"') == narrows.Scenario(rate="3mbit")
