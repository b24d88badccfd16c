//! The part of `costs` that runs in the guest: each case in turn.

use std::io::Read as _;
use std::os::fd::{AsFd as _, OwnedFd};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use narrows_netio::{mmsg, packet_socket, priority};
use nix::sched::{CloneFlags, setns};
use nix::sys::socket::{AddressFamily, SockFlag, SockType, setsockopt, socket, sockopt};

use super::case::{Case, Figure, Side, Traffic};
use super::load::{Burst, Load};
use super::place::Place;
use super::spinner::Spinner;

/// Turns that are measured; 94 of them reach each of 3000 connections.
const TURNS: usize = 96;
/// Room for frames that a socket has sent and that wait, bytes.
const ROOM: usize = 32 << 20;

/// Arguments of `xtask costs-inside`.
#[derive(clap::Args)]
pub struct Args {
    /// The program `narrows`
    #[arg(long)]
    program: PathBuf,
    /// Cases, as JSON
    #[arg(long)]
    cases: PathBuf,
    /// Where figures go, as JSON
    #[arg(long)]
    out: PathBuf,
}

/// Measures each case, and writes down what it cost.
pub fn run(args: &Args) -> Result<()> {
    let text = std::fs::read_to_string(&args.cases).with_context(|| args.cases.display().to_string())?;
    let cases: Vec<Case> = serde_json::from_str(&text).with_context(|| args.cases.display().to_string())?;
    // Until the kernel's random numbers are ready it makes each anew, at thousands of instructions; CAKE draws one for
    // each flow that begins.
    std::fs::File::open("/dev/random")
        .and_then(|mut file| file.read_exact(&mut [0]))
        .context("/dev/random")?;
    // A burst comes as a whole, as from a network card: who handles packets does not run between them.
    priority::realtime(1, true).context("SCHED_FIFO")?;
    let spinner = Spinner::new()?;
    let mut figures = Vec::new();
    for case in cases {
        let figure = measure(&case, &args.program, &spinner).with_context(|| format!("{case:?}"))?;
        println!("{}", super::table::line(&figure));
        figures.push(figure);
    }
    let text = serde_json::to_string_pretty(&figures)?;
    std::fs::write(&args.out, text).with_context(|| args.out.display().to_string())
}

fn measure(case: &Case, program: &Path, spinner: &Spinner) -> Result<Figure> {
    let place = Place::new(case, program)?;
    // What the kernel does after the last case's namespaces have gone, and after these have come, is done.
    std::thread::sleep(Duration::from_millis(500));
    let ends = Ends::open(case.traffic)?;
    let mut load = Load::new(case.flows, case.layer);
    let (mut before, mut measured) = (Sums::default(), Sums::default());
    let opening: Vec<Burst> = (0..load.turns()).flat_map(|_| load.open()).collect();
    let first: Vec<Burst> = (0..load.turns()).flat_map(|_| load.exchange()).collect();
    for burst in opening.iter().chain(&first) {
        *before.packets(burst.from) += ends.send(burst)?;
    }
    let bursts: Vec<Burst> = (0..TURNS).flat_map(|_| load.exchange()).collect();
    let mut counting = spinner.start()?;
    for burst in &bursts {
        *measured.packets(burst.from) += ends.send(burst)?;
        *measured.spent(burst.from) += counting.lap()?;
    }
    drop(counting);
    std::thread::sleep(Duration::from_millis(100));
    for from in [Side::Servers, Side::Users] {
        let sent = *before.packets(from) + *measured.packets(from);
        let arrived = place.arrived(from.other())?;
        ensure!(arrived >= sent, "of {sent} packets of the {} {arrived} arrived", from.namespace());
        if let Some(handled) = place.handled(from)? {
            ensure!(handled >= sent, "of {sent} packets of the {} the box saw {handled}", from.namespace());
        }
    }
    Ok(measured.figure(case))
}

/// Packets that were sent, and instructions that they cost.
#[derive(Default)]
struct Sums {
    packets: [u64; 2],
    spent: [u64; 2],
}

impl Sums {
    const fn packets(&mut self, from: Side) -> &mut u64 {
        &mut self.packets[from as usize]
    }

    const fn spent(&mut self, from: Side) -> &mut u64 {
        &mut self.spent[from as usize]
    }

    fn figure(&self, case: &Case) -> Figure {
        let each = |spent: u64, packets: u64| spent as f64 / packets as f64;
        let of = |side: Side| each(self.spent[side as usize], self.packets[side as usize]);
        Figure {
            case: case.clone(),
            data: of(Side::Servers),
            ack: of(Side::Users),
            packet: each(self.spent.iter().sum(), self.packets.iter().sum()),
        }
    }
}

/// A packet socket at each end.
struct Ends {
    users: OwnedFd,
    servers: OwnedFd,
    traffic: Traffic,
}

impl Ends {
    fn open(traffic: Traffic) -> Result<Self> {
        Ok(Self { users: socket_in(Side::Users)?, servers: socket_in(Side::Servers)?, traffic })
    }

    /// Sends a burst, and lets as much time pass as its packets need to arrive. Returns how many they are.
    fn send(&self, burst: &Burst) -> Result<u64> {
        let socket = match burst.from {
            Side::Users => &self.users,
            Side::Servers => &self.servers,
        };
        let (refused, error) = mmsg::send_all(socket.as_fd(), &burst.frames);
        ensure!(refused == 0, "{refused} frames were not taken: {error:?}");
        std::thread::sleep(match (self.traffic, burst.from) {
            (Traffic::Passing, _) => Duration::from_micros(1_500),
            (Traffic::Waiting, Side::Servers) => Duration::from_millis(6),
            (Traffic::Waiting, Side::Users) => Duration::from_millis(4),
        });
        Ok(burst.frames.len() as u64)
    }
}

/// A packet socket at the end of this side, which hears nothing.
fn socket_in(side: Side) -> Result<OwnedFd> {
    let open = move || {
        let path = Path::new("/run/netns").join(side.namespace());
        let namespace = std::fs::File::open(&path).with_context(|| path.display().to_string())?;
        setns(namespace, CloneFlags::CLONE_NEWNET).context("setns")?;
        let index = nix::net::if_::if_nametoindex("end").context("interface end")?;
        let fd = socket(AddressFamily::Packet, SockType::Raw, SockFlag::SOCK_CLOEXEC, None)
            .context("packet socket")?;
        setsockopt(&fd, sockopt::SndBufForce, &ROOM).context("SO_SNDBUFFORCE")?;
        packet_socket::bind(&fd, index, 0).context("bind to end")?;
        Ok(fd)
    };
    // The other namespace is this thread's alone.
    std::thread::spawn(open).join().map_err(|_| anyhow::anyhow!("a thread in {} died", side.namespace()))?
}
