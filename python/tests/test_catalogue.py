"""Disciplines and figures by name: all there are, each with words, and a near name for one that is not."""

import pickle

import pytest
from few import FEW

import narrows
from narrows import _native


def test_disciplines_with_their_settings():
    listed = narrows.disciplines()
    assert list(listed) == _native.discipline_names() and {"fifo", "taq", "fq_codel"} <= set(listed)
    for name, one in listed.items():
        assert one.name == name and one.about.endswith(".") and "\n" not in one.about, one
        assert name == "fifo" or one.settings, name
        # Each is what scenarios take.
        example = "fifo:30" if name == "fifo" else name
        narrows.expand(FEW, {"discipline": example})
    # RFC 8289, section 4.3 and 4.4: a target of 5 ms, an interval of 100 ms.
    codel = listed["codel"].settings
    assert (codel["target"].default, codel["interval"].default) == ("5ms", "100ms")
    with pytest.raises(KeyError, match=r"^fq_codle: no such discipline: expected 'fq_codel'\?$"):
        listed["fq_codle"]
    with pytest.raises(KeyError, match=r"targt: no such setting of codel: expected 'target'\?"):
        codel["targt"]


def test_metrics_with_their_units():
    listed = narrows.metrics()
    units = {name: listed[name].unit for name in ("goodput_bps", "goodput_kbps", "jain_20s", "object_p99_s", "loss")}
    assert units == {"goodput_bps": "bit/s", "goodput_kbps": "kbit/s", "jain_20s": "", "object_p99_s": "s", "loss": ""}
    assert "dropped or lost: p of the models" in listed["loss"].meaning and listed["loss"].about == "The link"
    assert listed["capture_missed"].meaning.startswith("captured packets beyond")
    assert all(one.meaning and one.about for one in listed.values())
    with pytest.raises(KeyError, match=r"jain_2s: no such figure: expected 'jain_20s'\?"):
        listed["jain_2s"]


def test_metrics_of_a_scenario_are_those_its_runs_can_have():
    probes = narrows.Probes(slice="5s", epochs="1s", bursts=True, series=["cwnd"], stalls=["3s"])
    own = narrows.Scenario.from_toml(FEW.to_toml())
    own.probes, own.duration = probes, "20s"
    listed = narrows.metrics(own)
    assert set(narrows.run(own, 1).summary) <= set(listed)
    assert listed["jain_5s"].meaning == narrows.metrics()["jain_20s"].meaning
    assert "jain_20s" not in listed and listed["cwnd_long_pkts"].unit == "packets"
    assert [name for name, one in listed.items() if not one.meaning] == []
    with pytest.raises(ValueError, match="rate"):
        narrows.metrics(FEW, set={"rate": "fast"})


def test_a_figure_that_is_not_there_has_a_near_name():
    result = narrows.run(FEW, 1, set={"duration": "5s"})
    with pytest.raises(KeyError, match=r"^goodput_kps: no such figure of this run: expected 'goodput_kbps'\?$"):
        result.summary["goodput_kps"]
    with pytest.raises(KeyError, match=r"flowss: no such table of this run: expected 'flows'\?"):
        result.tables["flowss"]
    with pytest.raises(AttributeError, match=r"flowss: this run has no such table: expected 'flows'\?"):
        result.flowss
    again = pickle.loads(pickle.dumps(result))
    assert again.summary == result.summary and again.summary.what == result.summary.what
    # Names with the same beginning are listed, where no name is near.
    with pytest.raises(KeyError, match=r"expected one of flow_stall_"):
        result.summary["flow"]
