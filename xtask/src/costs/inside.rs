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

/// Number of measured turns; 94 turns reach each of 3000 connections.
const TURNS: usize = 96;
/// Room for frames that a socket has sent and that wait, bytes.
const ROOM: usize = 32 << 20;

/// Arguments of `xtask costs-inside`.
#[derive(clap::Args)]
pub struct Args {
    /// The program `narrows`
    #[arg(long)]
    program: PathBuf,
    /// Seed of random numbers
    #[arg(long)]
    seed: u64,
    /// Cases, as JSON
    #[arg(long)]
    cases: PathBuf,
    /// File for the figures, as JSON
    #[arg(long)]
    out: PathBuf,
}

/// Measures each case and writes the figures to a file.
pub fn run(args: &Args) -> Result<()> {
    let text = std::fs::read_to_string(&args.cases).with_context(|| args.cases.display().to_string())?;
    let cases: Vec<Case> = serde_json::from_str(&text).with_context(|| args.cases.display().to_string())?;
    // The seed decides every hash from here on.
    std::fs::write("/dev/urandom", args.seed.to_le_bytes()).context("/dev/urandom")?;
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
    // A pause lets the kernel finish the work that the last case's namespaces leave and these bring.
    std::thread::sleep(Duration::from_millis(250));
    let ends = Ends::open(case.traffic)?;
    let mut load = Load::new(case.flows, case.layer);
    let opening: Vec<Burst> = (0..load.turns()).flat_map(|_| load.open()).collect();
    let first: Vec<Burst> = (0..load.turns()).flat_map(|_| load.exchange()).collect();
    let bursts: Vec<Burst> = (0..TURNS).flat_map(|_| load.exchange()).collect();
    let mut sent = [0; 2];
    // Never idle from here on: whether the machine's clock jumps over a few microseconds of idleness now or a little
    // later depends on the host, once in some ten thousand times.
    let mut counting = spinner.start()?;
    for burst in opening.iter().chain(&first) {
        sent[burst.from as usize] += ends.send(burst)?;
    }
    counting.lap()?;
    let mut sums = [Sums::default(), Sums::default()];
    for burst in &bursts {
        let packets = ends.send(burst)?;
        sums[burst.from as usize].add(packets, counting.lap()?);
    }
    drop(counting);
    std::thread::sleep(Duration::from_millis(100));
    for from in [Side::Servers, Side::Users] {
        let sent = sent[from as usize] + sums[from as usize].packets;
        let arrived = place.arrived(from.other())?;
        ensure!(arrived >= sent, "of {sent} packets of the {} {arrived} arrived", from.namespace());
        if let Some(handled) = place.handled(from)? {
            ensure!(handled >= sent, "of {sent} packets of the {} the box saw {handled}", from.namespace());
        }
    }
    let [acks, data] = [&sums[Side::Users as usize], &sums[Side::Servers as usize]];
    let share = data.packets as f64 / (data.packets + acks.packets) as f64;
    let packet = share * data.mean() + (1.0 - share) * acks.mean();
    Ok(Figure { case: case.clone(), data: data.mean(), ack: acks.mean(), packet })
}

/// Sums over the bursts of one side: packets, and instructions.
#[derive(Default)]
struct Sums {
    packets: u64,
    /// Instructions for each packet, of each burst.
    each: Vec<f64>,
}

impl Sums {
    fn add(&mut self, packets: u64, spent: u64) {
        self.packets += packets;
        self.each.push(spent as f64 / packets as f64);
    }

    /// The mean of the middle four fifths. What the kernel does by the clock, as once a minute for its random numbers,
    /// falls into some burst, and would be in one case's figure and not in another's.
    fn mean(&self) -> f64 {
        let mut each = self.each.clone();
        each.sort_by(f64::total_cmp);
        let aside = each.len() / 10;
        let middle = &each[aside..each.len() - aside];
        middle.iter().sum::<f64>() / middle.len() as f64
    }
}

/// A packet socket at each end.
pub struct Ends {
    users: OwnedFd,
    servers: OwnedFd,
    traffic: Traffic,
}

impl Ends {
    /// Opens the sockets; the traffic's rates say how long a burst needs.
    pub fn open(traffic: Traffic) -> Result<Self> {
        Ok(Self { users: socket_in(Side::Users)?, servers: socket_in(Side::Servers)?, traffic })
    }

    /// Sends a burst, and lets as much time pass as its packets need to arrive. Returns how many they are.
    pub fn send(&self, burst: &Burst) -> Result<u64> {
        self.send_at_once(burst)?;
        let rate = match burst.from {
            Side::Users => self.traffic.up(),
            Side::Servers => self.traffic.down(),
        };
        std::thread::sleep(match rate {
            None => Duration::from_micros(1_500),
            Some(mbit) => {
                let bits = 8 * burst.frames.iter().map(Vec::len).sum::<usize>();
                // A twentieth more, and what the last packet needs itself.
                Duration::from_nanos(bits as u64 * 1050 / u64::from(mbit)) + Duration::from_micros(500)
            }
        });
        Ok(burst.frames.len() as u64)
    }

    /// Sends a burst without waiting for the arrival of its packets.
    pub fn send_at_once(&self, burst: &Burst) -> Result<()> {
        let socket = match burst.from {
            Side::Users => &self.users,
            Side::Servers => &self.servers,
        };
        let (refused, error) = mmsg::send_all(socket.as_fd(), &burst.frames);
        ensure!(refused == 0, "{refused} frames were not taken: {error:?}");
        Ok(())
    }
}

/// Packet socket at the end of a side, for sending only.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_burst_in_ten_at_either_end_is_left_aside() {
        let mut sums = Sums::default();
        for spent in [640, 1280, 1280, 1280, 1920, 1280, 1280, 1920, 1280, 64_000] {
            sums.add(64, spent);
        }
        // 20 six times and 30 twice; 10 and 1000 are aside.
        assert_eq!((sums.packets, sums.mean()), (640, 22.5));
    }
}
