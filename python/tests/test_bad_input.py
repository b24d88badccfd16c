"""A table of mistakes: whatever is wrong, the message names the key, what was given, and what is expected."""

import numpy
import pytest

import narrows
from narrows import Claim, Files, Group, Log, Long, Objects, Pages, Probes, Tcp, Telnet, Topology, Udp
from narrows import models as m


def few(**more):
    settings = {"name": "few", "rate": "600kbit", "rtt": "200ms", "duration": "5s", "discipline": "taq"}
    return narrows.Scenario(**settings | {"traffic": [Long(flows=3)]} | more)


def claim(**more):
    return [Claim(**{"text": "t", "expr": "1", "bound": "> 0", "why": "w"} | more)]


RATE = 'expected a rate as text, a number above 0 and a unit, as "600kbit"'
TIME = "expected a time: a number and a unit, as in 200ms, 120s or 2min"
SEEDS = "expected a list of different whole numbers, as [1, 2, 3], or a range"
LOSS = "expected a probability from 0 up to but not 1"
NAME = "expected letters, digits, '-' and '_'"
COUNT = "expected a whole number from 1 to 4294967295"

# A setting of the scenario: where, value, the key that is named, what is shown of the value, what is expected.
SETTINGS = [
    ("rate", "600", "rate", "'600'", RATE),
    ("rate", "600kb", "rate", "'600kb'", RATE),
    ("rate", -5, "rate", "-5", RATE),
    ("rate", 0, "rate", "0", RATE),
    ("rate", 1.5, "rate", "1.5", RATE),
    ("rate", True, "rate", "true", RATE),
    ("rate", None, "rate", "missing", 'as rate="600kbit"'),
    ("rate", "", "rate", "''", RATE),
    ("rate", [1], "rate", "[1]", RATE),
    ("rtt", "200", "rtt", "'200'", TIME),
    ("rtt", True, "rtt", "true", 'with its unit, as "200ms" or "190ms..210ms"'),
    ("rtt", "-5ms", "rtt", "'-5ms'", TIME),
    ("rtt", float("inf"), "rtt", "inf", 'as "200ms"'),
    ("duration", "0s", "duration", "'0s'", "expected a time above 0"),
    ("duration", "forever", "duration", "'forever'", TIME),
    ("duration", -3, "duration", "-3", 'expected a time with its unit, as "200ms"'),
    ("warmup", "10s", "warmup", "'10s'", "expected less than duration = '5s'"),
    ("warmup", "-1s", "warmup", "'-1s'", TIME),
    ("seeds", "1-3", "seeds", "'1-3'", SEEDS),
    ("seeds", [], "seeds", "[]", SEEDS),
    ("seeds", [1.5], "seeds", "[1.5]", SEEDS),
    ("seeds", [-1], "seeds", "[-1]", SEEDS),
    ("seeds", "5..1", "seeds", "'5..1'", SEEDS),
    ("mtu", 0, "mtu", "0", "expected a whole number from 296 to 9000"),
    ("mtu", 1e9, "mtu", "1000000000.0", "expected a whole number from 296 to 9000"),
    ("mtu", "1500 bytes", "mtu", "'1500 bytes'", "expected a whole number from 296 to 9000"),
    ("overhead", -1, "overhead", "-1", "expected a whole number from 0 to 200"),
    ("loss", 1.5, "loss", "1.5", LOSS),
    ("loss", "lots", "loss", "'lots'", LOSS),
    ("loss", "gilbert:to_bad=2", "loss", "'gilbert:to_bad=2'", LOSS),
    ("discipline", "tak", "discipline", "'tak'", "expected one of fifo, "),
    ("discipline", "fifo", "discipline", "'fifo'", "as fifo:30 or fifo:45000b"),
    ("discipline", "fifo:0", "discipline", "'fifo:0'", "a limit above 0"),
    ("discipline", "taq:p_admi=1", "discipline", "'taq:p_admi=1'", "to be a key of taq: mode, "),
    ("discipline", "taq:p_admit=7", "discipline", "'taq:p_admit=7'", "it belongs to mode=paper"),
    ("discipline", "codel:target=fast", "discipline", "'codel:target=fast'", "expected target to be 0.01ms to 10s"),
    ("discipline", 5, "discipline", "5", "expected text"),
    ("framing", "dsl", "framing", "'dsl'", "expected one of none, atm, ptm"),
    ("spread", "odd", "spread", "'odd'", "expected one of even, random"),
    ("up_rate", "slow", "up_rate", "'slow'", RATE),
    ("name", "a b", "name", "'a b'", NAME),
    ("name", "", "name", "''", NAME),
    ("congestion_control", 5, "congestion_control", "5", "expected text"),
    ("tcp", "ns2", "tcp", "'ns2'", "expected narrows.Tcp(...) or a dict"),
    ("tcp", Tcp(preset="ns4"), "tcp.preset", "'ns4'", "expected ns2 or ns3 or linux or rfc"),
    ("tcp", Tcp(initial_window=0), "tcp.initial_window", "0", "expected 1 to 10000, rfc3390 or rfc6928"),
    ("tcp", Tcp(congestion="bbr9"), "tcp.congestion", "'bbr9'", "expected reno or aimd or "),
    ("tcp", Tcp(timestamps="maybe"), "tcp.timestamps", "'maybe'", "expected on or off"),
    ("tcp", Tcp(rto_min="-1s"), "tcp.rto_min", "'-1s'", "expected 0s to 120s"),
    ("traffic", [], "traffic", "missing", "expected a list, as traffic=[narrows.Long(flows=10)]"),
    ("traffic", "long", "traffic", "'long'", "expected a list, as traffic=[narrows.Long(flows=10)]"),
    ("traffic", [Long(flows=0)], "traffic.0.flows", "0", COUNT),
    ("traffic", [Long(flows=-1)], "traffic.0.flows", "-1", COUNT),
    ("traffic", [Long(flows=3, start="9s")], "traffic.0.start", "'9s'", "expected a time before the duration"),
    ("traffic", [Long(flows=3, from_="nobody")], "traffic.0.from", "'nobody'", "one of servers, clients"),
    ("traffic", [Long(flows=3, dscp=99)], "traffic.0.dscp", "99", "expected a whole number from 0 to 63"),
    ("traffic", [Long(flows=3, transport="mail")], "traffic.0.transport", "'mail'", "one of tcp, tls, quic, tfrc"),
    ("traffic", [Long(flows=3), Long()], "traffic.1.flows", "missing", "expected"),
    ("traffic", [Objects(users=3, size="huge")], "traffic.0.size", "'huge'", "expected a size as 64kB, or a law"),
    ("traffic", [Objects(users=3, size="pareto:mean=1")], "traffic.0.size", "'pareto:mean=1'", "expected a shape"),
    ("traffic", [Objects(users=0)], "traffic.0.users", "0", COUNT),
    ("traffic", [Pages(users=3)], "traffic.0.objects", "missing", "expected"),
    ("traffic", [Udp(flows=1)], "traffic.0.rate", "missing", 'expected a rate, as "64kbit"'),
    ("traffic", [Udp(flows=1, rate="9kbit", on="1s")], "traffic.0.off", "missing", "a time above 0 where on has"),
    ("traffic", [Telnet(flows=1, interval=0)], "traffic.0.interval", "'0s'", "expected a time above 0"),
    ("traffic", [Log(clients=2)], "traffic.0.file", "missing", "expected an access log"),
    ("traffic", [Log(clients=2, file="none.log")], "traffic.0.file", "'none.log'", "expected an access log"),
    ("traffic", [Files(size=5)], "traffic.0.flows", "missing", "expected how many files"),
    ("probes", Probes(series=["wind"]), "probes.series", '["wind"]', "expected one of queue, cwnd, throughput"),
    ("probes", Probes(slice="0s"), "probes.slice", "'0s'", "expected a time above 0"),
    ("probes", Probes(capture=["nolink"]), "probes.capture", '["nolink"]', "one of thin, thin.back"),
    ("probes", Probes(groups=[Group()]), "probes.groups.0.name", "missing", "expected a name for the figures"),
    ("probes", Probes(epochs="x"), "probes.epochs", "'x'", TIME),
    ("probes", Probes(stalls=["soon"]), "probes.stalls", '["soon"]', TIME),
    ("vars", {"x": "y z"}, "vars.x", "'y z'", 'expected a number, a quantity as "200ms", or an expression'),
    ("vars", 5, "vars", "5", "expected a dict"),
    ("sweep", {"rat": ["1mbit"]}, "rat", "no such key", "expected 'rate'?"),
    ("sweep", {"rate": []}, "sweep.rate", "[]", "expected a list of values, as [20, 40]"),
    ("sweep", {"rate": "1mbit"}, "sweep.rate", "'1mbit'", "expected a list of values"),
    ("sweep", 5, "sweep", "5", 'expected a dict of keys and lists, as {"rate": [...]}'),
    ("claim", claim(expr="jain_20s{"), "claim.0.expr", "'jain_20s{'", "expected a label, found the end"),
    ("claim", claim(bound="big"), "claim.0.bound", "'big'", 'expected a bound, as ">= 0.98"'),
    ("claim", claim(bound=None), "claim.0.bound", "missing", 'expected a bound, as ">= 0.98"'),
    ("topology", Topology(kind="ring"), "rate", "short form", "set it there"),
]


@pytest.mark.parametrize(("key", "value", "named", "given", "expected"), SETTINGS, ids=lambda v: str(v)[:40])
def test_a_setting_that_cannot_be(key, value, named, given, expected):
    with pytest.raises(narrows.ScenarioError) as refused:
        few(**{key: value}).check()
    told = str(refused.value)
    assert refused.value.key == named and named in told
    assert given in told and expected in told


# Calls that are refused: the call, the key that is named, the text shown of the value, the text expected.
CALLS = [
    (lambda: narrows.expand(few(), {"rate.x": 1}), "rate.x", "'x'", "expected the key to end there"),
    (lambda: narrows.expand(few(), {"traffic.9.flows": 1}), "traffic.9.flows", "'9'", "expected a place from 0 to 0"),
    (lambda: narrows.expand(few(), {"tcp.presett": "ns2"}), "tcp.presett", "no such key", "expected 'preset'?"),
    (lambda: narrows.expand(few(), {"discipline": None}), "discipline", "None of type NoneType", "expected text, a"),
    (lambda: narrows.expand(few(), {"rate": numpy.array([1, 2])}), "rate", "[1, 2]", RATE),
    (lambda: narrows.expand(few(), {"flowz": 3}), "flowz", "no such key", "expected 'flows'?"),
    (lambda: narrows.expand(few(), {"flows": "x"}), "traffic.0.flows", "'x'", "expected a whole number"),
    (lambda: narrows.expand(few(), {"flows": 1, "traffic.0.flows": 2}), "traffic.0.flows", "too", "expected it once"),
    (
        lambda: narrows.expand(few(traffic=[Long(flows=1), Long(flows=2)]), {"flows": 3}),
        "flows",
        "could be traffic.0.flows or traffic.1.flows",
        "expected one of these",
    ),
    (lambda: narrows.run(few(), seed=-1), "seed", "-1", "expected a whole number from 0 to 2^64 - 1"),
    (lambda: narrows.run(few(), seed="one"), "seed", "'one'", "expected a whole number"),
    (lambda: narrows.run(5), "scenario", "of type int", "expected a narrows.Scenario, or the path of a file"),
    (lambda: narrows.run(few(), set=[1]), "set", "[1]", "expected a dict of keys"),
    (
        lambda: narrows.run(few(discipline=None, disciplines=["taq", "red"])),
        "sweep of discipline",
        "2 points",
        "expected one",
    ),
    (
        lambda: narrows.sweep(few(), {"flows": [1], "traffic.0.flows": [2]}, cache=None),
        "traffic.0.flows",
        "the same key as flows",
        "expected it once",
    ),
    (
        lambda: narrows.sweep(few(), {"flows": [1]}, set={"traffic.0.flows": 2}, cache=None),
        "flows",
        "both in over and set",
        "expected in one of them",
    ),
    (lambda: narrows.sweep(few(), cache=None, executor="gpu"), "executor", "'gpu'", "expected None, 'threads', "),
    (lambda: narrows.sweep(few(), cache=None, tables=["flow"]), "tables", "'flow'", "expected 'flows'?"),
    (lambda: narrows.metrics(few(rate="fast")), "rate", "'fast'", RATE),
    (lambda: few(traffic=[Objects(users=3)]).operating_point(), "traffic", "no endless flows", "kind = 'long'"),
    (lambda: narrows.figures.taq.fig08(size="small"), "size", "'small'", "expected one of full, quick, least"),
    (lambda: narrows.figures.taq.fig08(jobs=0), "jobs", "0", "expected a whole number from 1 to 4096"),
    (lambda: narrows.figures.taq.fig08(progress=3), "progress", "3", "expected True, False or a function"),
    (lambda: m.throughput.mathis(0), "loss", "0", "expected 0 < loss <= 1"),
    (lambda: m.throughput.mathis("x"), "loss", "'x' of type str", "expected a number or an array of numbers"),
    (lambda: m.throughput.mathis([0.1, 2]), "loss", "2", "expected 0 < loss <= 1"),
    (lambda: m.throughput.padhye(0.1, m.throughput.Flow("2kbit", 1)), "rtt_s", "'2kbit'", "or words as '200ms'"),
    (lambda: m.buffers.dbp_packets("1s", 1), "rate_bps", "'1s'", "a number of bit/s, or words as '600kbit'"),
    (lambda: m.buffers.dbp_packets("1mbit", 1, "big"), "packet_bytes", "'big'", "or words as '64kB'"),
    (
        lambda: m.taq_chain.stationary(0.1, m.taq_chain.Chain(backoff_ends="ack")),
        "backoff_ends",
        "'ack'",
        "expected one of new_ack, new_sample, s2, s3",
    ),
    (
        lambda: m.taq_chain.stationary(0.1, m.taq_chain.Chain(chain="f5")),
        "chain",
        "'f5'",
        "expected one of partial, f3, f64",
    ),
    (lambda: m.taq_chain.stationary(0.1, m.taq_chain.Chain(wmax=1)), "wmax", "1", "expected"),
    (lambda: m.taq_chain.stationary(0.7, m.taq_chain.Chain(chain="f3")), "loss", "0.7", "0 <= loss < 0.5"),
    (
        lambda: m.operating.operating_point(m.operating.Bottleneck("600kbit", "200ms", 3, stack="bsd")),
        "stack",
        "'bsd'",
        "expected one of linux, rfc",
    ),
    (lambda: m.plan.plan(m.plan.Link("600kbit", -3, "200ms")), "users", "-3", "expected a whole number"),
    (lambda: m.sharing.ps_mean_s("1mbit", 1.5, m.sharing.Fixed(5)), "load", "1.5", "expected 0 <= load <= 0.9999"),
    (lambda: m.sharing.ps_mean_s("1mbit", 0.5, 3), "sizes", "3", "expected Fixed, Choice, "),
    (lambda: narrows.Scenario.from_toml("rate = 600kbit\n"), "", "line 1 is no TOML", "expected literal string"),
]


@pytest.mark.parametrize(("call", "named", "given", "expected"), CALLS, ids=lambda v: str(v)[:40])
def test_a_call_that_cannot_be(call, named, given, expected):
    with pytest.raises(narrows.ScenarioError) as refused:
        call()
    told = str(refused.value)
    assert refused.value.key == named and named in told
    assert given in told and expected in told


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda: narrows.sweep(few(), cache=None, retry=3), "'retry': expected 'retries'?"),
        (lambda: narrows.figures.taq.fig08(job=3), "'job': expected 'jobs'?"),
        (lambda: narrows.figures.taq.fig8, "did you mean 'fig08'?"),
        (lambda: narrows.figures.tak, "did you mean 'taq'?"),
        (lambda: narrows.run("nofile.toml"), "No such file or directory: 'nofile.toml'"),
        (lambda: narrows.disciplines()["tak"], "tak: no such discipline: expected 'taq'?"),
    ],
)
def test_names_that_nothing_has(call, says):
    with pytest.raises((TypeError, AttributeError, OSError, KeyError)) as refused:
        call()
    assert says in str(refused.value)


def test_there_are_a_hundred():
    assert len(SETTINGS) + len(CALLS) > 100


def test_a_file_keeps_its_own_words(tmp_path):
    path = tmp_path / "few.toml"
    path.write_text('name = "few"\nrate = "1mbit"\ndiscipline = "taq"\ntraffic = "long"\n')
    with pytest.raises(narrows.ScenarioError, match=r"expected tables, as \[\[traffic\]\]"):
        narrows.expand(path)
