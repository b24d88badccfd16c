"""The diagnosis of captures, against what the simulator's senders say of themselves."""

import dataclasses
import json
import struct

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


def quic_capture(path):
    """Writes a capture at a server of QUIC: a handshake, and a datagram that is answered when sent again after 6 s."""
    client, server = bytes([10, 0, 0, 1]), bytes([192, 0, 2, 1])
    # RFC 9000, section 17.2.2: first byte, version 1, two connection IDs, no token, length, packet number and the rest.
    initial = b"\xc3" + struct.pack("!I", 1) + b"\x08" + bytes(8) + b"\x00\x00" + b"\x44\xb0" + bytes(1200)
    short = b"\x40" + bytes(1200)
    # A file of IP packets (LINKTYPE_RAW).
    records = [struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 65535, 101)]
    for ms, from_client, payload in [
        (0, True, initial),
        (1, False, initial),
        (100, True, short),
        (300, False, short),
        (6300, False, short),
        (6400, True, short),
    ]:
        udp = struct.pack("!HHHH", *((50000, 443) if from_client else (443, 50000)), 8 + len(payload), 0) + payload
        ends = client + server if from_client else server + client
        packet = struct.pack("!BBHHHBBH", 0x45, 0, 20 + len(udp), 0, 0, 64, 17, 0) + ends + udp
        records.append(struct.pack("<IIII", ms // 1000, ms % 1000 * 1000, len(packet), len(packet)) + packet)
    path.write_bytes(b"".join(records))


def test_a_senders_own_log_judges_the_silences_of_quic(tmp_path):
    capture, log = tmp_path / "web.pcap", tmp_path / "server.sqlog"
    quic_capture(capture)

    def packet(ms, what, number):
        header = {"packet_type": "1RTT", "packet_number": number}
        return {"time": ms, "name": f"transport:packet_{what}", "data": {"header": header}}

    expired = {"timer_type": "pto", "event_type": "expired"}
    events = [
        {"qlog_format": "JSON-SEQ", "trace": {"vantage_point": {"type": "server"}}},
        packet(0, "received", 0),
        packet(1, "sent", 0),
        packet(300, "sent", 1),
        {"time": 6300, "name": "recovery:loss_timer_updated", "data": expired},
        packet(6300, "sent", 2),
        packet(6400, "received", 1),
        packet(6400, "lost", 1),
    ]
    log.write_text("".join(f"\x1e{json.dumps(event)}\n" for event in events))
    (alone,) = narrows.diagnose(capture).quic[0]["stalls"]
    (told,) = narrows.diagnose(capture, qlog=[log]).quic[0]["stalls"]
    assert (alone["certainty"], "sender" in alone) == ("possible", False)
    assert (told["certainty"], told["sender"]["timeouts"], told["by_qlog"]) == ("certain", 1, True)
    log.write_text("no qlog")
    with pytest.raises(ValueError, match="server.sqlog: no event of qlog"):
        narrows.diagnose(capture, qlog=[log])
    with pytest.raises(OSError, match="nowhere"):
        narrows.diagnose(capture, qlog=[tmp_path / "nowhere"])
    with pytest.raises(ValueError, match="list of paths"):
        narrows.diagnose(capture, qlog=log)


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
