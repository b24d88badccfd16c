"""Models over arrays: values worked by hand from the papers, broadcasting, domains; and none is left out."""

import inspect
import pathlib
import re

import numpy as np
import pytest
from alarm import raises_after

import narrows
from narrows import _native
from narrows import models as m

SOURCES = pathlib.Path(__file__).parents[2] / "crates" / "models" / "src"
MODULES = [getattr(m, name) for name in m.__all__]

# Functions of the crate without a Python function of their own, and where they are instead.
ELSEWHERE = {
    "aimd::BackoffRange::new": "Limits",
    "aimd::BackoffRange::lo": "beta_lo",
    "aimd::BackoffRange::hi": "beta_hi",
    "aimd::estimate::ThroughputBackoff::new": "throughput_backoffs",
    "aimd::estimate::ThroughputBackoff::starting_at": "throughput_backoffs, start",
    "aimd::estimate::ThroughputBackoff::beta": "throughput_backoffs",
    "burst::BurstTcp::new": "f, mice, form",
    "burst::BurstTcp::f": "f",
    "burst::Pareto::new": "scale, shape",
    "control::State::total": "rates.sum(-1)",
    "control::Control::new": "Control",
    "control::Control::equal": "the same: equal gains are told from others",
    "control::Control::flows": "alpha.shape[-1]",
    "control::Control::capacity": "capacity",
    "control::Control::target": "target",
    "control::isolated": "rows of one flow each",
    "latency::Latency::transfer_s": "a field of cardwell",
    "latency::Latency::total_s": "a field of cardwell",
    "operating::Bottleneck::new": "defaults of Bottleneck",
    "operating::Regime::name": "REGIMES",
    "operating::OperatingPoint::silences_per_s": "a field of operating_point",
    "plan::SharedLink::new": "defaults of SharedLink",
    "plan::SharedLink::busy_users": "a field of plan",
    "plan::SharedLink::flows": "a field of plan",
    "plan::SharedLink::buffer_packets": "a field of plan",
    "plan::Stalls::new": "stalls_per_s and so on",
    "plan::Outlook::of": "a field of plan",
    "plan::Outlook::name": "VERDICTS",
    "sharing::SharedQueue::new": "rate_bps, load, sizes",
    "spreading::Spreading::new": "Parameters",
    "taq_chain::Stationary::silent": "a field of stationary",
    "taq_chain::Stationary::silent_or_first": "a field of stationary",
    "taq_chain::Stationary::packets_per_epoch": "a field of stationary",
    "taq_chain::Stationary::timeouts_per_epoch": "a field of stationary",
    "taq_chain::Stationary::mean_idle_epochs": "a field of stationary",
    "taq_chain::Stationary::loss": "loss",
    "taq_chain::Stationary::settings": "Chain",
    "taq_chain::Stationary::idle_quantile_by_time": "idle_quantile, by_time",
    "taq_chain::Silences::quantile_by_time": "silence_quantile, by_time",
    "taq_chain::Silences::per_epoch": "a field of silences",
    "taq_chain::Silences::mean_epochs": "a field of silences",
}
# Sentences for people beside the conclusions of `narrows plan`, not mathematics.
WORDS = {"plan::evidence"}


def public_functions():
    """Every public function and method of the crate, by its path without the files that only hold a part of a
    module."""
    parts = {"burst::path": "burst", "burst::workload": "burst", "plan::stalls": "plan", "plan::edges": "plan"}
    parts |= {"taq_chain::idle": "taq_chain"}
    for path in sorted(SOURCES.rglob("*.rs")):
        module = "::".join(path.relative_to(SOURCES).with_suffix("").parts).removesuffix("::mod")
        parts_of = module.split("::")
        if parts_of[0] in ("lib", "domain", "declared") or "tests" in parts_of or module in WORDS:
            continue
        module = parts.get(module, module)
        text = path.read_text().split("#[cfg(test)]\nmod tests {")[0]
        owner = ""
        for line in text.splitlines():
            if begins := re.match(r"impl(?:<.*?>)? (?:\w+ for )?(\w+)", line):
                owner = f"::{begins[1]}"
            elif line == "}":
                owner = ""
            if (found := re.match(r"\s*pub (?:const )?fn (\w+)", line)) and not hidden(owner):
                yield f"{module}{owner}::{found[1]}"


def hidden(owner):
    """Types that the crate keeps to itself."""
    return owner in ("::Moments", "::Pairs", "::Law", "::Outcome")


def declared():
    """Functions of the crate behind the models, as the declarations name them."""
    for path in sorted((SOURCES / "declared").glob("*.rs")):
        text = path.read_text()
        for module in re.finditer(r'name: "(\w+)",\n    sentence: .*?\n\};', text, re.DOTALL):
            for function in re.findall(r'(?:->|,)\s+"([\w:]+)",\s+\|a\|', module[0]):
                yield f"{module[1]}::{function}"


def test_every_public_function_of_the_crate_is_here():
    exist = set(public_functions())
    assert len(exist) > 90
    exposed = set(declared()) | set(ELSEWHERE)
    # Plan::exits is a field of the crate's Plan, a function here, because it costs a search.
    assert exist ^ exposed == {"plan::Plan::exits"}


def test_every_native_model_has_a_python_function():
    told = {name for name, _ in functions()}
    assert {name for name, *_ in _native.models()} == told


def functions():
    for module in MODULES:
        for name, function in vars(module).items():
            if inspect.isfunction(function) and function.__module__ == module.__name__ and not name.startswith("_"):
                yield f"{module.__name__.removeprefix('narrows.models.')}.{name}", function


def test_every_function_tells_what_it_is():
    told = dict(functions())
    assert len(told) > 70
    for name, function in told.items():
        assert function.__doc__ and len(function.__doc__) > 20, name
        assert inspect.signature(function).return_annotation, name
    for module in MODULES:
        # The source of each model is named: a name and a year, or a page.
        assert re.search(r"(19|20)\d\d|docs/", module.__doc__), module


def test_by_hand_from_the_papers():
    # Shorten and Leith: standard TCP needs one DBP, an adaptive flow at 0.8 a quarter; alpha = 2 (1 - 0.8).
    np.testing.assert_allclose(m.buffers.full_link([0.5, 0.8]), [1, 0.25])
    np.testing.assert_allclose(m.aimd.increase(0.8), 0.4)
    np.testing.assert_allclose(m.aimd.backoff_for_buffer([0.1, 0.25, 0.5, 2]), [0.8, 0.8, 1 / 1.5, 0.5])
    # Without a buffer halving flows use 3/4: m = 1, (1 - 1/4) / (1 + 1 - 1).
    np.testing.assert_allclose(m.aimd.efficiency(0, 0.5), 0.75)
    # (1 + 2 + 3)^2 / (3 * 14).
    np.testing.assert_allclose(m.fairness.jain([1, 2, 3]), 36 / 42)
    # Mathis at one percent: sqrt(1.5 / 0.01).
    np.testing.assert_allclose(m.throughput.mathis(0.01), 12.24744871)
    # Without loss Wmax / RTT.
    np.testing.assert_allclose(m.throughput.padhye(0, m.throughput.Flow(0.1, 1, 2, 20)), 200)
    # TAQ: 1 - 2^(-1/6).
    np.testing.assert_allclose(m.taq_chain.tipping_point_closed([6, 3, 1]), [0.10910, 0.20630, 0.5], atol=5e-6)
    np.testing.assert_allclose(m.taq_chain.tipping_point("s3"), 0.10910, atol=5e-6)
    # Burst TCP with f = 8, mice threshold 32: 1 + floor(31/8) = 4, 4 + floor(28/8) = 7, 7 + floor(25/8) = 10.
    rounds = m.burst.flow_level(20, f=8, mice=32)
    np.testing.assert_array_equal(rounds.windows, [1, 4, 7, 10])
    np.testing.assert_array_equal(rounds.sent, [1, 5, 12, 22])
    # Ten packets take 1 + 2 + 4 + 3: four round trips.
    np.testing.assert_array_equal(m.control.slow_start_rtts([0, 1, 2, 10]), [0, 1, 2, 4])
    # Half the segments of two: (1/2)^2.
    np.testing.assert_allclose(m.spreading.no_loss(0.5, 2), 0.25)
    # One segment, no loss, is a round trip; four spread over it end three quarters later.
    np.testing.assert_allclose(m.spreading.s([1, 4], [1, 4], m.spreading.Parameters(0, 0.2, 1)).mean_s, [0.2, 0.35])
    # 1 Mbit/s are 125 000 bytes a second; half busy, each transfer takes twice its time.
    np.testing.assert_allclose(m.sharing.ps_s(125_000, 1e6, 0.5), 2)
    # 2 Mbit/s for 1600 flows: 1250 bit/s each; a round is 1600 * 6 ms (crates/models, plan's own example).
    plan = m.plan.plan(m.plan.Link(2e6, 400, 0.2, connections=4))
    np.testing.assert_allclose([plan.share_bps, plan.round_s, plan.admission_users], [1250, 9.6, 500])
    assert plan.verdict == "past the tipping point"


def test_two_queues_of_their_own_are_rows_of_one():
    alpha, beta = np.array([0.5, 1.5]), np.array([0.4, 1.6])
    # 0.5 + 0.8 < 4, 1.5 + 3.2 > 4; together 2 + 4 > 4.
    assert list(m.control.stability(m.control.Control(alpha[:, None], beta[:, None]))) == ["stable", "unstable"]
    assert m.control.stability(m.control.Control(alpha, beta)) == "unstable"
    control, start = m.control.Control([0.1, 0.3], [0.2, 0.2], 10, 5), m.control.Start(5, [4, 8])
    rest = m.control.equilibrium(control, start)
    # From the target two packets too many a step: 3/4 of them taken from the flow of the larger alpha.
    np.testing.assert_allclose(rest.rates, [3.5, 6.5])
    np.testing.assert_allclose(rest.queue, 5)
    states = m.control.simulate(control, start, steps=400)
    assert states.queue.shape == (401,) and states.rates.shape == (401, 2)
    np.testing.assert_allclose(states.rates[-1], rest.rates, rtol=1e-6)
    assert np.isnan(m.control.equilibrium(m.control.Control([3], [3], 10, 5), m.control.Start(5, [4])).queue)


def padhye(loss, *flow):
    return m.throughput.padhye(loss, m.throughput.Flow(*flow))


def test_arguments_are_broadcast():
    loss, rtt = np.array([[0.01], [0.02]]), np.array([0.1, 0.2, 0.4])
    rates = padhye(loss, rtt, 1.0)
    assert rates.shape == (2, 3)
    for i in range(2):
        for j in range(3):
            assert rates[i, j] == padhye(loss[i, 0], rtt[j], 1.0)
    assert np.ndim(padhye(0.01, 0.1, 1.0)) == 0
    assert padhye(np.zeros((0, 3)) + 0.1, 0.1, 1.0).shape == (0, 3)
    assert m.taq_chain.sent(np.full((4, 2), 0.1), m.taq_chain.Chain(wmax=8)).shape == (4, 2, 9)
    np.testing.assert_allclose(m.taq_chain.sent([0.05, 0.2]).sum(-1), 1)
    stages = m.taq_chain.stages([0.05, 0.2], m.taq_chain.Chain(stages=6))
    assert stages.idle.shape == (2, 7)
    np.testing.assert_allclose(stages.timer_epochs[0], 2.0 ** np.arange(1, 8))
    # Not every array lies in a row.
    np.testing.assert_array_equal(m.throughput.mathis(loss.repeat(3, 1).T), m.throughput.mathis(loss.repeat(3, 1)).T)
    # "No limit" is None for all elements, NaN for a single one.
    limited = padhye(1e-4, 0.1, 1.0, 1, [np.nan, 5])
    assert limited[0] == padhye(1e-4, 0.1, 1.0) and limited[1] < 50


def test_rows_of_different_lengths_end_in_nan():
    twofold = m.burst.Growth(base=2)
    rounds = m.burst.rounds([1, 7, 31], growth=twofold)
    none = np.nan
    np.testing.assert_array_equal(
        rounds.windows, [[1, none, none, none, none], [1, 2, 4, none, none], [1, 2, 4, 8, 16]]
    )
    np.testing.assert_array_equal(m.burst.round_trips([1, 7, 31], growth=twofold), [1, 3, 5])
    # 1500 bytes at 12 kbit/s take 1 s, no ACK's size, 1 s of delay each way: the first is acknowledged after 3 s.
    acked = m.burst.transfer([1, 2], m.burst.Path([12_000], [1.0], ack_bytes=0), growth=twofold)
    np.testing.assert_allclose(acked, [[3, np.nan], [3, 6]])
    # 1 s and 0.5 s of queue beside 0.5 s of propagation.
    np.testing.assert_allclose(m.aimd.rtt_max_s(0.5, [[10, 10], [0, 0]], [10, 20]), [2.0, 0.5])
    factors = m.aimd.throughput_backoffs([1.0, 1.0], [0.75, 1.0])
    np.testing.assert_allclose(factors, [0.5, 0.5 / 0.75, 0.5 / 0.75])


def test_slices():
    # Two flows take turns: each slice of one unit is as unfair as can be, a slice of both is fair.
    amounts = [[1, 0, 1, 0], [0, 1, 0, 1]]
    assert m.fairness.jain_of_slices(amounts, 1) == 0.5
    assert m.fairness.jain_of_slices(amounts, 2) == 1
    np.testing.assert_array_equal(m.fairness.jain_of_slices([amounts, amounts], 2), [1, 1])


@pytest.mark.parametrize(
    ("make", "key", "says"),
    [
        (lambda: m.aimd.efficiency(-1, 0.5), "phi", "= -1: expected 0 <= phi"),
        (lambda: m.aimd.efficiency([0, -1], 0.5), "phi", "(at element 1)"),
        (lambda: m.aimd.efficiency("much", 0.5), "phi", "of type str"),
        (lambda: m.aimd.efficiency(1j, 0.5), "phi", "of type complex"),
        (lambda: m.aimd.efficiency(np.nan, 0.5), "phi", "NaN"),
        (lambda: m.aimd.epoch(1, 0.5, 1, 100, 1.5), "flows", "a whole number"),
        (lambda: padhye([0.1, 0.2], [1, 2, 3], 1), "shapes", "loss (2,), rtt_s (3,)"),
        (lambda: padhye(0.1, 0.1, 1, None), "b", "NaN"),
        (lambda: padhye(0, 0.1, 1), "loss", "or a wmax"),
        (lambda: m.burst.rounds(10, growth=m.burst.Growth(form="new")), "form", "expected one of guarded,"),
        (lambda: m.spreading.s(5, 4, m.spreading.Parameters(0.1, 0.2, 1)), "i", "1 <= i <= n"),
        (
            lambda: m.spreading.d(2, 2, m.spreading.Parameters(0.1, 0.2, 1, backoff="never")),
            "backoff",
            "single_segment, every_timeout",
        ),
        (lambda: m.taq_chain.stationary(0.6, m.taq_chain.Chain(chain="partial")), "loss", "0 <= loss < 0.5"),
        (lambda: m.taq_chain.idle_quantile(2, 0.1), "quantile", "0 to 1"),
        (lambda: m.operating.operating_point(m.operating.Bottleneck(0, 0.2, 10)), "rate_bps", "1 bit/s or more"),
        (lambda: m.fairness.jain(3), "shares", "a row of numbers"),
        (lambda: m.fairness.jain([]), "flows", "at least one flow"),
        (
            lambda: m.control.stability(m.control.Control([1, 2], [1, 2, 3])),
            "alpha and beta",
            "different lengths: alpha 2, beta 3",
        ),
        (lambda: m.sharing.fifo_mean_s(1e6, 0.5, m.sharing.Pareto(1000, 1.5)), "shape", "above 2"),
    ],
)
def test_what_has_no_value_is_a_value_error_with_the_parameter(make, key, says):
    with pytest.raises(ValueError, match=re.escape(says)) as refused:
        make()
    assert refused.value.key == key


def slots(model):
    """Numbers and rows in the order in which the native module takes them, and which numbers may be left out."""
    numbers, rows, optional = [], [], set()
    for name, form in MODELS[model]:
        if form in ("number", "optional"):
            numbers.append(name)
            optional |= {name} if form == "optional" else set()
        elif form in ("row", "grid"):
            rows.append(name)
            numbers += ["width"] if form == "grid" else []
        elif form == "law":
            numbers += "abc"
            optional |= set("abc")
            rows.append("list")
    return numbers, rows, optional


MODELS = {name: takes for name, takes, _, _ in _native.models()}
NUMBERS = [(name, i) for name in MODELS for i in range(len(slots(name)[0]))]
ROWS = [(name, i) for name in MODELS for i in range(len(slots(name)[1]))]
# Numbers that may be left out: None in Python, NaN for an element.
OPTIONAL = {
    *("base", "buffer_packets", "buffer_s", "probe_epochs", "reset_change", "stages", "start", "syn_bytes"),
    *("wmax_packets", "a", "b", "c"),
}


def asked(model, numbers, rows):
    """A model at one element, with the usual words."""
    return _native.model(
        model,
        1,
        [np.float64(x).tobytes() for x in numbers],
        [(np.asarray(row, dtype=float).tobytes(), len(row)) for row in rows],
        {},
    )


@pytest.mark.parametrize(("model", "at"), NUMBERS)
def test_what_is_no_number_is_refused_wherever_one_is_needed(model, at):
    numbers, rows, optional = slots(model)
    assert optional <= OPTIONAL
    given = [1.0] * len(numbers)
    given[at] = np.nan
    if numbers[at] in optional:
        try:
            asked(model, given, [[1.0]] * len(rows))
        except ValueError as refused:
            assert "= NaN: expected a number" not in str(refused)
        return
    with pytest.raises(ValueError, match="= NaN: expected a number") as refused:
        asked(model, given, [[1.0]] * len(rows))
    assert refused.value.key == numbers[at]


@pytest.mark.parametrize(("model", "at"), ROWS)
def test_what_is_no_number_is_refused_in_rows(model, at):
    numbers, rows, _ = slots(model)
    given = [[1.0, 1.0]] * len(rows)
    given[at] = [1.0, np.nan]
    with pytest.raises(ValueError, match="= NaN at place 1 of its row") as refused:
        asked(model, [1.0] * len(numbers), given)
    assert refused.value.key == rows[at]


LINK = m.plan.Link(600_000, 60, 0.2)
BOTTLENECK = m.operating.Bottleneck(600_000, 0.2, 60)


@pytest.mark.parametrize(
    ("make", "key", "says"),
    [
        (lambda: m.taq_chain.silent_longer_than(-1, 0.1), "epochs", "0 or more"),
        (lambda: m.operating.silent_longer_than(-1, BOTTLENECK), "x_s", "0 or more"),
        (lambda: m.operating.regime([3, -1]), "share_packets_per_rtt", "0 or more"),
        (lambda: m.plan.stalls_per_s(-1, LINK), "x_s", "0 or more"),
        (lambda: m.plan.stalls_share_over(-1, 60, LINK), "x_s", "0 or more"),
        (lambda: m.plan.stalls_share_over(5, -60, LINK), "during_s", "0 to 1e9 s"),
        (lambda: m.plan.longest_stall_s(5, 60, LINK), "of", "0 to 1"),
        (lambda: m.plan.longest_stall_s(0.5, -60, LINK), "during_s", "0 to 1e9 s"),
        (lambda: m.plan.longest_stall_s(0.5, np.inf, LINK), "during_s", "0 to 1e9 s"),
        (lambda: m.burst.on_ack(0), "cwnd", "a window of 1 packet or more"),
        (lambda: m.burst.on_ack(np.inf, m.burst.Growth(base=2)), "cwnd", "a window of 1 packet or more"),
        (lambda: m.burst.on_ack(1, m.burst.Growth(base=1)), "base", "1 < base <= 1024"),
    ],
)
def test_what_a_formula_would_answer_outside_its_domain_is_refused(make, key, says):
    with pytest.raises(ValueError, match=re.escape(says)) as refused:
        make()
    assert refused.value.key == key


def test_the_ends_of_these_domains_are_inside():
    assert m.operating.regime(0) == "sub-packet" and m.operating.regime(np.inf) == "normal"
    assert m.plan.stalls_share_over(0, 0, LINK) == 0 and m.plan.stalls_per_s(np.inf, LINK) == 0
    assert m.plan.longest_stall_s([0, 1], 60, LINK)[0] == pytest.approx(60)
    assert 0 < m.operating.silent_longer_than(0, BOTTLENECK) <= 1
    assert m.burst.on_ack(1, m.burst.Growth(base=2)) == 2


def test_sizes_that_are_no_law():
    with pytest.raises(ValueError, match="expected Fixed, Choice"):
        m.sharing.ps_mean_s(1e6, 0.5, 1000)
    laws = [m.sharing.Fixed(1000), m.sharing.Choice([1000, 1000]), m.sharing.Exponential(1000)]
    laws += [m.sharing.Pareto(500, 2.0), m.sharing.BoundedPareto(1000 / (1 + 1e-6), 1000 * (1 + 1e-6), 1.0)]
    np.testing.assert_allclose([m.sharing.mean_bytes(law) for law in laws], 1000, rtol=1e-5)


def test_a_long_model_stops_too():
    """Ctrl-C is heard between elements: see test_stop for how."""
    with raises_after(0.3, KeyboardInterrupt), pytest.raises(KeyboardInterrupt):
        m.operating.operating_point(m.operating.Bottleneck(600_000, 0.2, np.full(1_000_000, 300)))


def test_models_is_loaded_when_it_is_used():
    assert narrows.models is m
    with pytest.raises(AttributeError, match="modelz"):
        narrows.modelz
