"""Congestion controls and queues written in Python run in the simulator, and do what the same lines of Rust do."""

import dataclasses
import functools
import inspect
from collections import deque

import few
import pytest

import narrows
from narrows import own

FEW = dataclasses.replace(few.FEW, duration="60s", discipline="fifo:15", traffic=[narrows.Long(flows=12)])


class Aimd:
    """AIMD (Chiu and Jain 1989; Shorten and Leith, section III) with whole segments where bytes are counted (RFC 3465,
    section 2.1)."""

    alpha, beta = 0.5, 0.75

    def __init__(self):
        self.counted = 0.0

    def on_ack(self, window, ack):
        if not ack.by_bytes:
            window.cwnd += self.alpha * ack.credit / window.cwnd
            return
        if self.counted >= window.cwnd:
            self.counted, window.cwnd = 0.0, window.cwnd + 1.0
        self.counted += self.alpha * ack.credit
        if self.counted >= window.cwnd:
            self.counted, window.cwnd = self.counted - window.cwnd, window.cwnd + 1.0

    def on_loss(self, window, loss):
        window.ssthresh = self.beta * loss.base

    on_rto = on_loss


class Tail:
    """Drop-tail."""

    def __init__(self, limit=15):
        self.limit, self.waiting = limit, deque()

    def enqueue(self, packet, now):
        if len(self.waiting) < self.limit:
            self.waiting.append(packet)
        else:
            packet.drop()

    def dequeue(self, now):
        return self.waiting.popleft() if self.waiting else None


@pytest.mark.parametrize("preset", ["ns2", "linux", "rfc"])
def test_aimd_in_python_gives_the_figures_of_rust(preset):
    ours = narrows.Tcp(preset=preset, congestion="aimd", alpha=0.5, beta=0.75)
    told = narrows.run(FEW, 1, set={"tcp": ours})
    same = narrows.run(FEW, 1, set={"tcp": narrows.Tcp(preset=preset, congestion=Aimd)})
    assert same.manifest["own"] == {own.number(Aimd): "Aimd"} and "own" not in told.manifest
    assert told.summary["fast_retransmits"] > 100 and dict(same.summary) == dict(told.summary)
    assert list(same.flows) == list(told.flows)
    # Other constants are other figures, so the class was asked.
    other = functools.partial(type("Other", (Aimd,), {"beta": 0.5}))
    assert dict(narrows.run(FEW, 1, set={"tcp.preset": preset, "tcp.congestion": other}).summary) != dict(told.summary)


def test_it_takes_at_most_25_lines():
    assert len(inspect.getsource(Aimd).splitlines()) <= 25


def test_a_queue_in_python_gives_the_figures_of_rust():
    ours = narrows.run(FEW, 1)
    same = narrows.run(FEW, 1, set={"discipline": Tail})
    assert dict(same.summary) == dict(ours.summary) and ours.summary["loss"] > 0.01
    assert dict(narrows.run(FEW, 1, set={"discipline": lambda: Tail(30)}).summary) == dict(
        narrows.run(FEW, 1, set={"discipline": "fifo:30"}).summary
    )


def test_a_queue_sees_packets_and_may_mark_push_out_and_hold_back():
    seen = []

    class Slow(Tail):
        """Marks every packet, pushes the oldest out, and lets one go each 20 ms (200 kbit/s of these)."""

        def __init__(self):
            super().__init__()
            self.next = 0.0

        def enqueue(self, packet, now):
            seen.append(packet)
            packet.mark()
            if len(self.waiting) >= self.limit:
                self.waiting.popleft().drop()
            self.waiting.append(packet)

        def dequeue(self, now):
            if now < self.next or not self.waiting:
                return None
            self.next = now + 0.02
            return self.waiting.popleft()

        def next_ready(self, now):
            return max(now, self.next)

    ecn = narrows.run(FEW, 1, set={"discipline": Slow, "tcp.ecn": True})
    first = len(seen)
    plain = narrows.run(FEW, 1, set={"discipline": Slow})
    assert ecn.summary["marked"] > 0 == plain.summary["marked"]
    assert 120 < ecn.summary["goodput_kbps"] < 200
    data = [p for p in seen if p.payload]
    assert any(p.ecn_capable for p in data)
    assert {p.size for p in data} == {500} and all(p.is_tcp and not p.syn for p in data)
    assert data[0].flow[:2] == (data[0].src, data[0].dst) and data[0].src.startswith("10.") and data[0].seq is not None
    assert all(packet.number == at for at, packet in enumerate(seen[:first]))
    assert data[-1].came > 55
    with pytest.raises(ValueError, match="has left the queue"):
        data[0].drop()


def test_sweeps_name_classes_and_keep_nothing(tmp_path):
    over = {"tcp.congestion": ["reno", Aimd], "discipline": [Tail, "fifo:15"]}
    grid = narrows.sweep(FEW, over, seeds=[1, 2], executor="threads", cache=tmp_path / "kept")
    assert grid["tcp.congestion"].values.tolist() == ["reno", "Aimd"]
    assert grid.discipline.values.tolist() == ["Tail", "fifo:15"]
    one = grid.sel({"tcp.congestion": "Aimd"})
    assert (one.sel(discipline="Tail").loss == one.sel(discipline="fifo:15").loss).all()
    assert not list(tmp_path.glob("kept/**/*.json"))
    with pytest.raises(narrows.ScenarioError, match="executor = 'processes': expected None or \"threads\""):
        narrows.sweep(FEW, over, executor="processes")
    both = narrows.Scenario(**vars(FEW) | {"disciplines": [Tail, "taq"], "discipline": None})
    assert [point.coords["discipline"] for point in narrows.expand(both)] == ["Tail", "taq"]


def test_no_file_holds_a_class():
    scenario = narrows.Scenario.from_toml(FEW.to_toml())
    scenario.tcp = narrows.Tcp(congestion=Aimd)
    scenario.check()
    with pytest.raises(narrows.ScenarioError, match=r"tcp\.congestion = Aimd: expected a name"):
        scenario.to_toml()


class Broken(Tail):
    def dequeue(self, now):
        raise LookupError("nothing here")


class Nothing(Tail):
    def dequeue(self, now):
        return None


class Twice(Tail):
    def dequeue(self, now):
        return self.waiting[0] if self.waiting else None


class Returns(Tail):
    def enqueue(self, packet, now):
        return False


class Still(Nothing):
    def next_ready(self, now):
        return now


class Zero(Aimd):
    def on_ack(self, window, ack):
        window.cwnd = 0


class NotANumber(Aimd):
    def on_loss(self, window, loss):
        window.ssthresh = float("nan")

    on_rto = on_loss


class Half:
    def on_ack(self, window, ack):
        pass


@pytest.mark.parametrize(
    ("key", "part", "kind", "words"),
    [
        ("discipline", Broken, LookupError, "nothing here"),
        ("discipline", Nothing, ValueError, r"Nothing\.dequeue gives None while 1 packets wait: expected one of them"),
        ("discipline", Twice, ValueError, "packet 0 has left the queue"),
        ("discipline", Returns, TypeError, r"Returns\.enqueue gives False: expected None"),
        ("discipline", Still, ValueError, r"Still\.next_ready gives .* after dequeue gave None: expected a later time"),
        ("discipline", Aimd, TypeError, "Aimd has no method enqueue: expected enqueue, dequeue of a queue"),
        ("tcp.congestion", Zero, ValueError, r"Zero leaves cwnd = 0: expected a number of segments, 1 and more"),
        ("tcp.congestion", NotANumber, ValueError, "NotANumber leaves ssthresh = NaN"),
        ("tcp.congestion", Half, TypeError, "Half has no method on_loss: expected on_ack, on_loss, on_rto"),
        ("tcp.congestion", functools.partial(Tail, 1, 2, 3), TypeError, "takes from 1 to 2 positional arguments"),
    ],
)
def test_what_goes_wrong_ends_the_run_with_its_exception(key, part, kind, words):
    with pytest.raises(kind, match=words):
        narrows.run(FEW, 1, set={"tcp.preset": "ns2", key: part})


def test_a_number_of_another_process_is_refused():
    with pytest.raises(RuntimeError, match="own:4000' is a class of another process"):
        narrows.run(FEW, set={"discipline": "own:4000"})
