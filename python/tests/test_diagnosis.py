"""The diagnosis of captures, against what the simulator's senders say of themselves."""

import dataclasses

import numpy as np
import pyarrow
import pytest

import narrows

SCENARIO = narrows.Scenario(
    name="thin",
    rate="600kbit",
    rtt="200ms",
    mtu=500,
    duration="60s",
    discipline="fifo:20",
    traffic=[narrows.Long(flows=20)],
    probes=narrows.Probes(capture=["thin"], repairs=True),
)


@pytest.fixture(scope="module")
def result():
    return narrows.run(SCENARIO, 1)


@pytest.fixture(scope="module")
def found(result, tmp_path_factory):
    path = tmp_path_factory.mktemp("captures") / "thin.pcap"
    path.write_bytes(next(iter(result.captures.values())))
    return narrows.diagnose(path)


def test_tables_say_the_same_as_the_page(found):
    flows, stalls = found.flows, found.stalls
    assert len(flows) == found.overall["connections"] == 20
    assert int(flows["timeouts"].sum()) == found.overall["counts"]["timeouts"] > 0
    assert set(stalls["flow"]) <= set(flows["number"])
    np.testing.assert_allclose(stalls["length_s"], stalls["to_s"] - stalls["from_s"])
    assert pyarrow.table(stalls).num_rows == len(stalls)
    assert "timeouts" in str(found) and found.quic == []


def test_what_cannot_be_read_is_refused(tmp_path):
    with pytest.raises(OSError, match="nowhere"):
        narrows.diagnose(tmp_path / "nowhere.pcap")
    other = tmp_path / "other.pcap"
    other.write_text("no capture")
    with pytest.raises(ValueError, match="other.pcap.*neither pcap nor pcapng"):
        narrows.diagnose(other)
    with pytest.raises(ValueError, match="path"):
        narrows.diagnose()
    with pytest.raises(ValueError, match="over_s"):
        narrows.diagnose(other, over_s=-1.0)


def test_another_queue_is_tried_with_what_was_captured(tmp_path):
    scenario = dataclasses.replace(
        SCENARIO,
        traffic=[narrows.Long(flows=20, opened_by="receiver")],
        probes=narrows.Probes(capture=["thin", "thin.back"]),
    )
    paths = []
    for link, capture in narrows.run(scenario, 1).captures.items():
        paths.append(tmp_path / f"{link}.pcap")
        paths[-1].write_bytes(capture)
    told = narrows.what_if(*paths, disciplines=["taq"], scenario=tmp_path / "fitted.toml")
    assert told["fit"]["users"] == 20 and told["fit"]["capture"] == "behind"
    assert told["fit"]["rate_bps"] == pytest.approx(600e3, rel=0.05)
    assert [row["discipline"] for row in told["simulated"]][1:] == ["taq"]
    assert narrows.Scenario.from_toml(tmp_path / "fitted.toml").name == "what-if"
    with pytest.raises(ValueError, match="one direction"):
        narrows.what_if(paths[0])
    with pytest.raises(ValueError, match="nonsense"):
        narrows.what_if(*paths, disciplines=["nonsense"])
    with pytest.raises(ValueError, match="path"):
        narrows.what_if()
