"""Models over words with units and over DataArrays, and the operating point of a scenario."""

import numpy as np
import pytest
import xarray
from few import FEW

import narrows
from narrows import models as m

LOSS = xarray.DataArray([0.05, 0.1, 0.2], dims="seed", coords={"seed": [1, 2, 3]}, attrs={"units": "none"})
RATE = xarray.DataArray([6e5, 1e6], dims="rate", coords={"rate": [6e5, 1e6]})
FLOWS = xarray.DataArray([30, 60, 120], dims="flows", coords={"flows": [30, 60, 120]})


def test_words_with_units_are_numbers():
    # 600 kbit/s for 0.2 s are 120 000 bit, 30 packets of 500 B.
    assert m.buffers.dbp_packets("600kbit", "200ms", "500B") == 30
    np.testing.assert_array_equal(m.buffers.dbp_packets("600kbit", ["200ms", 0.4], "0.5kB"), [30, 60])
    by_words = m.operating.operating_point(m.operating.Bottleneck("600kbit", "200ms", 60, "500B", 30, "200ms"))
    assert by_words == m.operating.operating_point(m.operating.Bottleneck(600_000, 0.2, 60, 500, 30, 0.2))
    exponential = m.sharing.ps_mean_s("1mbit", 0.5, m.sharing.Exponential("64kB"))
    assert exponential == m.sharing.ps_mean_s(1_000_000, 0.5, m.sharing.Exponential(64_000))
    assert m.sharing.ps_s("1kB", "8kbit", 0.0) == 1.0


def test_labels_go_through_a_model():
    chain = m.taq_chain.stationary(LOSS)
    assert chain.silent.dims == ("seed",) and chain.silent["seed"].values.tolist() == [1, 2, 3]
    np.testing.assert_array_equal(chain.silent, m.taq_chain.stationary(LOSS.values).silent)
    # Attributes of the loss do not pass to figures computed from it.
    assert chain.silent.attrs == {} and chain.silent.name == "silent"


def test_arrays_go_together_by_the_names_of_their_dimensions():
    link = m.operating.Bottleneck(RATE, "200ms", FLOWS, packet_bytes=500, buffer_packets=30)
    point = m.operating.operating_point(link)
    assert point.loss.dims == ("rate", "flows")
    bare = m.operating.Bottleneck(RATE.values[:, None], 0.2, FLOWS.values, packet_bytes=500, buffer_packets=30)
    np.testing.assert_array_equal(point.loss, m.operating.operating_point(bare).loss)
    assert point.rtt_s.attrs == {"units": "s"}
    assert point.regime.sel(rate=6e5, flows=120) == m.operating.operating_point(bare).regime[0, 2]
    by_loss = m.throughput.mathis(LOSS)
    assert float(by_loss.sel(seed=2)) == m.throughput.mathis(0.1)


def test_rows_have_a_dimension_of_their_own():
    sent = m.taq_chain.sent(LOSS)
    assert sent.dims == ("seed", "row") and sent.shape == (3, 7)
    np.testing.assert_array_equal(sent, m.taq_chain.sent(LOSS.values))
    stages = m.taq_chain.stages(LOSS, m.taq_chain.Chain(stages=2))
    assert stages.idle.dims == ("seed", "row")
    np.testing.assert_array_equal(stages.idle, m.taq_chain.stages(LOSS.values, m.taq_chain.Chain(stages=2)).idle)
    rtt = m.aimd.rtt_max_s(xarray.DataArray([0.1, 0.2], dims="x"), [10, 20], [100, 200])
    np.testing.assert_allclose(rtt, [0.3, 0.4])


@pytest.mark.parametrize(
    ("call", "key", "says"),
    [
        (lambda: m.throughput.mathis(LOSS, [1, 2, 1]), "b", "1 dimensions without names"),
        (lambda: m.throughput.mathis(LOSS, LOSS.isel(seed=[0, 1]) + 1), "loss and b", "do not fit each other"),
        (lambda: m.throughput.mathis(LOSS - 0.05), "loss", "expected 0 < loss <= 1"),
        (lambda: m.aimd.rtt_max_s(LOSS, [[1, 2]], [1, 2]), "queue_packets", "expected one row beside base_rtt_s"),
    ],
)
def test_what_does_not_fit_is_refused(call, key, says):
    with pytest.raises(narrows.ScenarioError, match=says) as refused:
        call()
    assert refused.value.key == key


def test_the_operating_point_of_a_scenario():
    thin = narrows.Scenario(
        name="t", rate="600kbit", rtt="190ms..210ms", mtu=500, overhead=0, discipline="fifo:30",
        tcp=narrows.Tcp(preset="ns2"),
        traffic=[narrows.Long(flows=40), narrows.Long(flows=20), narrows.Objects(users=5)],
    )  # fmt: skip
    link = m.operating.Bottleneck(600_000, 0.2, 60, 500, 30, stack="rfc", backoff_ends="new_sample", window=20)
    ours = thin.operating_point(set={"tcp.receive_window": 20 * 460})
    assert ours == m.operating.operating_point(link)
    # Linux has timestamps and a floor below the deviation; a queue that is no drop-tail counts as a round trip's.
    linux = dict(packet_bytes=514, stack="linux", backoff_ends="new_ack", window=1000)
    other = thin.operating_point(set={"tcp.preset": "linux", "overhead": 14, "discipline": "taq"})
    assert other.loss == m.operating.operating_point(m.operating.Bottleneck(600_000, 0.2, 60, **linux)).loss


def test_operating_points_over_a_grid_are_the_sweep_s():
    over = {"discipline": ["fifo:10", "fifo:60"], "flows": [30, 60]}
    points = FEW.operating_point(over)
    assert points.loss.dims == ("discipline", "flows")
    assert float(points.loss.sel(discipline="fifo:10", flows=60)) == FEW.operating_point(
        set={"discipline": "fifo:10", "flows": 60}
    ).loss
    assert points.queue_s.attrs["units"] == "s" and points.regime.dtype.kind == "U"
    swept = narrows.sweep(FEW, over, [1, 2], cache=None)
    difference = swept["loss"].mean("seed") - points.loss
    assert difference.dims == ("discipline", "flows") and difference.shape == (2, 2)
    of_links = narrows.Scenario.from_toml(FEW.to_toml())
    of_links.traffic = [narrows.Files(flows=3, size=9)]
    with pytest.raises(ValueError, match=r"traffic: has no endless flows: .* \(at mtu=500"):
        of_links.operating_point({"mtu": [500, 600]})
