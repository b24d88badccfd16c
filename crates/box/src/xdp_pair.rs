//! Two ports of a bridge by AF_XDP: a program in their drivers hands over what the bridge would forward, and it leaves
//! by the other port. Frames that the program does not hand over the bridge forwards as ever: what cannot be IP, what
//! is for a group or for this machine, and everything while the box shows no life or is gone. So nothing has to be put
//! in or taken out when it fails.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};

use anyhow::{Context, bail, ensure};
use narrows_netio::links::Interface;
use narrows_netio::xdp::{self, Gate, XdpSocket};
use narrows_netio::{ethtool, frame};
use narrows_qdisc::{Direction, Event};
use narrows_units::{Duration, Instant};

use super::backend::Backend;
use super::channel::Channel;
use super::interface_names::Named;
use super::packet::{ErrorCounters, HeldPacket, Passage};
use super::watchdog;

/// Frames taken from each port in a step, so that a flood leaves time for the timers.
const BATCH: usize = 64;
/// Time between two signs of life, at least: each sign costs a line of another processor's cache.
const SIGN: Duration = Duration::from_millis(10);

struct Port {
    name: String,
    index: u32,
    socket: XdpSocket,
    /// Frames to be sent out of this port's interface.
    outgoing: Vec<Vec<u8>>,
    /// Frames received on this port's interface.
    came: Passage,
}

/// A back end on two ports of a bridge.
pub struct XdpPair {
    /// Ports by which packets of each direction come in: the wide network's interface for down, the users' for up.
    ports: [Port; 2],
    gate: Gate,
    shown: Instant,
    errors: ErrorCounters,
    /// Reason why this pair can go on no longer: an interface of its name is another one now.
    changed: Option<String>,
}

/// Why a box by AF_XDP cannot be on these interfaces, if so, as far as can be told without trying.
///
/// # Errors
/// Names the reason and the remedy.
pub fn check(lan: Named<'_>, wan: Named<'_>) -> anyhow::Result<()> {
    let bridge = lan.link.bridge.filter(|bridge| wan.link.bridge == Some(*bridge));
    let Some(bridge) = bridge else {
        bail!(
            "{} and {} are not ports of one bridge: the xdp back end sits between two (ip link set DEV master \
             BRIDGE); packets that are routed take --backend nfqueue",
            lan.name,
            wan.name
        );
    };
    if let Some((other, _)) = Interface::all()?
        .iter()
        .find(|(_, i)| i.bridge == Some(bridge) && ![lan.link.index, wan.link.index].contains(&i.index))
    {
        bail!(
            "{other} is a port of their bridge too: the xdp back end needs one with two ports; use --backend nfqueue"
        );
    }
    xdp::available()?;
    for Named { name, link } in [lan, wan] {
        ensure!(
            link.mtu <= xdp::MTU,
            "{name} has packets up to {} bytes: the xdp back end has room for {} (ip link set {name} mtu {1})",
            link.mtu,
            xdp::MTU
        );
        let queues = ethtool::receive_queues(name);
        ensure!(
            queues == 1,
            "{name} has {queues} queues for what it receives, the xdp back end reads one: ethtool -L {name} \
             combined 1 (or rx 1)"
        );
        // A veth shows its peer's tags beside the frame whatever this says.
        ensure!(
            !ethtool::takes_tags_off(name) || ethtool::driver(name).as_deref() == Some("veth"),
            "{name} takes VLAN tags off, and with the xdp back end they would be lost: ethtool -K {name} rxvlan off"
        );
    }
    Ok(())
}

impl XdpPair {
    /// Takes what passes between `lan` and `wan`, from the first [`Backend::receive`] on.
    ///
    /// # Errors
    /// What the kernel or a driver refuses, with the remedy.
    pub fn open(lan: Named<'_>, wan: Named<'_>) -> anyhow::Result<Self> {
        let gate = Gate::new(watchdog::LIMIT).context("a BPF map (needs CAP_BPF, run as root; Linux 5.9)")?;
        let port = |Named { name, link }: Named<'_>| -> anyhow::Result<Port> {
            let socket = XdpSocket::open(link.index, link.mtu, &gate)
                .with_context(|| format!("{name} cannot be read by AF_XDP"))?;
            Ok(Port {
                name: name.to_owned(),
                index: link.index,
                socket,
                outgoing: Vec::new(),
                came: Passage::default(),
            })
        };
        let ports = [port(wan)?, port(lan)?];
        let (errors, shown) = (ErrorCounters::default(), Instant::ZERO);
        let pair = Self { ports, gate, shown, errors, changed: None };
        pair.leave_own_alone();
        Ok(pair)
    }

    /// Name of the mode, in words.
    #[must_use]
    pub fn words(&self) -> String {
        let copies = self.ports.iter().filter(|port| !port.socket.is_zero_copy()).count();
        format!("AF_XDP ({})", ["no copy", "a copy at one interface", "copies"][copies])
    }

    /// Frames for this machine go to its stack: for the bridge, and for the ports by their own addresses.
    fn leave_own_alone(&self) {
        let found = self.ports.each_ref().map(|port| Interface::find(&port.name).unwrap_or_default());
        let bridge = found[0].bridge;
        let all = Interface::all().unwrap_or_default();
        let bridge = all.into_iter().find(|(_, link)| Some(link.index) == bridge).unwrap_or_default().1;
        let [wan, lan] = found;
        self.gate.leave_alone([bridge, wan, lan].map(|link| link.address));
    }

    fn receive_from(&mut self, direction: Direction, into: &mut Vec<(Direction, HeldPacket)>) -> bool {
        let [down, up] = &mut self.ports;
        let from = if direction == Direction::Down { down } else { up };
        let (errors, came) = (&mut self.errors, &mut from.came);
        let count = from.socket.receive(BATCH, |bytes| {
            let mut bytes = bytes.to_vec();
            if let Some(ip_at) = frame::ip_offset(&bytes) {
                frame::finish_checksum(&mut bytes, ip_at);
            }
            let packet = HeldPacket::of_frame(bytes, direction, errors);
            came.note(packet.is_some());
            into.extend(packet.map(|packet| (direction, packet)));
        });
        count == BATCH
    }
}

impl Backend for XdpPair {
    type Packet = HeldPacket;

    fn receive(&mut self, now: Instant, into: &mut Vec<(Direction, HeldPacket)>) -> io::Result<bool> {
        if let Some(why) = self.changed.take() {
            return Err(io::Error::other(why));
        }
        if now.since(self.shown) >= SIGN {
            self.gate.show_life();
            self.shown = now;
        }
        let down = self.receive_from(Direction::Down, into);
        let up = self.receive_from(Direction::Up, into);
        Ok(down || up)
    }

    fn apply(&mut self, _now: Instant, event: Event<HeldPacket>) {
        if let Event::Send(direction, packet) = event {
            self.ports[direction.other() as usize].outgoing.push(packet.bytes);
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        for direction in Direction::BOTH {
            let port = &mut self.ports[direction.other() as usize];
            let gone = port.socket.send(&port.outgoing);
            port.outgoing.clear();
            self.errors.gone += gone;
            self.ports[direction as usize].came.gone += gone;
        }
        Ok(())
    }
}

impl Channel for XdpPair {
    fn fds(&self) -> [BorrowedFd<'_>; 2] {
        self.ports.each_ref().map(|port| port.socket.as_fd())
    }

    fn error_counters(&mut self) -> ErrorCounters {
        for port in &mut self.ports {
            let dropped = port.socket.dropped();
            port.came.lose(dropped, &mut self.errors);
        }
        self.errors
    }

    fn gone(&self) -> u64 {
        self.errors.gone
    }

    fn passages(&mut self) -> [Passage; 2] {
        self.error_counters();
        self.ports.each_ref().map(|port| port.came)
    }

    fn links_changed(&mut self) {
        for port in &self.ports {
            port.socket.clear_error();
            // The program went with the old one, and what it takes to attach another was given up.
            if let Ok(link) = Interface::find(&port.name)
                && link.index != port.index
            {
                self.changed = Some(format!("{} is another interface now: start again", port.name));
            }
        }
        self.leave_own_alone();
    }

    fn hand_over(&self) -> (Vec<BorrowedFd<'_>>, Vec<u32>) {
        (Vec::new(), Vec::new())
    }

    fn close(&mut self) -> io::Result<()> {
        self.gate.shut();
        // Packets that came before the gate was shut: nobody else forwards them.
        let mut rest = Vec::new();
        for direction in Direction::BOTH {
            // No more than the ring holds: none comes any more.
            let most = xdp::RECEIVING as usize / BATCH;
            (0..=most).take_while(|_| self.receive_from(direction, &mut rest)).for_each(drop);
        }
        for (direction, packet) in rest {
            self.apply(Instant::ZERO, Event::Send(direction, packet));
        }
        self.flush()
    }
}
