//! Users before flows: a household with many connections, one behind NAT on the box, one with many addresses of a
//! prefix, and circuits with rates.

use std::io::{Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

use narrows_testing::skip;
use nix::sys::signal::Signal;
use nix::sys::socket::{AddressFamily, SockFlag, SockType, SockaddrStorage, bind, connect, socket};

use crate::live_box::world::{Kind, PATIENCE, World, inside, run};

/// Somebody's connections from one address, all of which read as fast as they can.
struct Household {
    got: Arc<AtomicU64>,
}

/// Downloads without end from the server of a world.
pub struct Downloads {
    /// Where they come from.
    pub server: SocketAddr,
    households: Vec<Household>,
    stop: Arc<AtomicBool>,
}

impl Downloads {
    /// Each address with its number of connections.
    pub fn start(world: &World, server: IpAddr, who: &[(IpAddr, u32)]) -> Self {
        let (tell, told) = mpsc::channel();
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = stop.clone();
        inside(&world.ns("s"), move || serve(server, &tell, &stopped));
        let server = told.recv_timeout(PATIENCE).unwrap();
        let connection = |(from, got): (IpAddr, Arc<AtomicU64>)| {
            let stopped = stop.clone();
            inside(&world.ns("c"), move || read_on(from, server, &got, &stopped));
        };
        let household = |(from, count): &(IpAddr, u32)| {
            let got = Arc::new(AtomicU64::new(0));
            (0..*count).for_each(|_| connection((*from, got.clone())));
            Household { got }
        };
        let households = who.iter().map(household).collect();
        Self { server, households, stop: stop.clone() }
    }

    /// Bytes of each address in the time to come, once all have some.
    pub fn measure(&self, time: Duration) -> (Vec<u64>, Duration) {
        let households: Vec<_> = self.households.iter().map(|h| &*h.got).collect();
        counted(&households, time)
    }
}

/// Increase of each of these counts in the time to come, once all have some.
pub fn counted(counts: &[&AtomicU64], time: Duration) -> (Vec<u64>, Duration) {
    let now = || counts.iter().map(|n| n.load(Ordering::Relaxed)).collect::<Vec<_>>();
    let until = Instant::now() + PATIENCE;
    while now().contains(&0) {
        assert!(Instant::now() < until, "somebody gets nothing: {:?}", now());
        std::thread::sleep(Duration::from_millis(50));
    }
    let (before, begun) = (now(), Instant::now());
    std::thread::sleep(time);
    let took = begun.elapsed();
    (now().iter().zip(before).map(|(after, before)| after - before).collect(), took)
}

impl Drop for Downloads {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}

fn serve(address: IpAddr, tell: &mpsc::Sender<SocketAddr>, stop: &Arc<AtomicBool>) {
    let listener = TcpListener::bind((address, 0)).unwrap();
    tell.send(listener.local_addr().unwrap()).unwrap();
    listener.set_nonblocking(true).unwrap();
    while !stop.load(Ordering::Relaxed) {
        let Ok((mut stream, _)) = listener.accept() else {
            std::thread::sleep(Duration::from_millis(5));
            continue;
        };
        let stopped = stop.clone();
        std::thread::spawn(move || {
            stream.set_nonblocking(false).unwrap();
            stream.set_write_timeout(Some(PATIENCE)).unwrap();
            while !stopped.load(Ordering::Relaxed) && stream.write_all(&[7; 4096]).is_ok() {}
        });
    }
}

/// A connection from one of several addresses.
pub fn connect_as(from: IpAddr, server: SocketAddr) -> Option<TcpStream> {
    let family = if from.is_ipv4() { AddressFamily::Inet } else { AddressFamily::Inet6 };
    let fd: OwnedFd = socket(family, SockType::Stream, SockFlag::SOCK_CLOEXEC, None).unwrap();
    bind(fd.as_raw_fd(), &SockaddrStorage::from(SocketAddr::new(from, 0))).unwrap();
    connect(fd.as_raw_fd(), &SockaddrStorage::from(server)).ok()?;
    Some(TcpStream::from(fd))
}

/// Fetches so many bytes; none if one read takes longer than `patience`.
pub fn fetch_as(from: IpAddr, server: SocketAddr, bytes: usize, patience: Duration) -> Option<()> {
    let mut stream = connect_as(from, server)?;
    stream.set_read_timeout(Some(patience)).ok()?;
    stream.read_exact(&mut vec![0; bytes]).ok()
}

fn read_on(from: IpAddr, server: SocketAddr, got: &AtomicU64, stop: &AtomicBool) {
    let Some(mut stream) = connect_as(from, server) else {
        assert!(stop.load(Ordering::Relaxed), "{from} cannot connect to {server}");
        return;
    };
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let mut buffer = [0; 4096];
    while !stop.load(Ordering::Relaxed) {
        match stream.read(&mut buffer) {
            Ok(n) if n > 0 => drop(got.fetch_add(n as u64, Ordering::Relaxed)),
            _ => return,
        }
    }
}

/// One household with fifty connections and nineteen with one, at addresses of the client.
fn twenty_households(world: &World) -> Vec<(IpAddr, u32)> {
    let one = |n: u8| {
        world.ip("c", &format!("addr add 10.77.0.{}/24 dev e0", 10 + n));
        ([10, 77, 0, 10 + n].into(), if n == 0 { 50 } else { 1 })
    };
    (0..20).map(one).collect()
}

/// Part of a fair share that the first user got.
fn share_of_first(got: &[u64]) -> f64 {
    got[0] as f64 * got.len() as f64 / got.iter().sum::<u64>() as f64
}

/// Asserts that the first household has a twentieth more than its share at most, in one of three times of ten
/// seconds: a machine that stands still for a while makes timeouts of those with one connection, who then leave a
/// part of theirs to the one that always has something waiting.
fn first_has_its_share(what: &str, downloads: &Downloads, households: impl Fn(&[u64]) -> Vec<u64>) {
    let mut seen = Vec::new();
    for _ in 0..3 {
        let (got, _) = downloads.measure(Duration::from_secs(10));
        let got = households(&got);
        let share = share_of_first(&got);
        eprintln!("{what}: {share:.3} of a share");
        if share <= 1.05 {
            return;
        }
        seen.push((share, got));
    }
    panic!("{what}: {seen:?}");
}

#[test]
fn fifty_connections_of_one_household_have_the_share_of_one() {
    let Some(world) = World::try_new(Kind::Routed) else { return };
    let who = twenty_households(&world);
    // CoDel drops what a flow needs to keep its share, so with FQ-CoDel the nineteen leave some of theirs.
    for spec in ["taq", "drr:share=user"] {
        let running = world.start(&format!("--down 4mbit --discipline {spec}"));
        let downloads = Downloads::start(&world, world.server4(), &who);
        first_has_its_share(spec, &downloads, <[u64]>::to_vec);
        drop(downloads);
        running.stop();
    }
}

#[test]
fn users_behind_nat_on_the_box_are_known_by_their_own_addresses() {
    let Some(world) = World::try_new(Kind::Routed) else { return };
    let nat =
        format!("netns exec {} iptables-legacy -t nat -A POSTROUTING -o wan -j MASQUERADE", world.ns("b"));
    if !run("ip", &nat.split(" ").collect::<Vec<_>>()).status.success() {
        skip("users_behind_nat_on_the_box_are_known_by_their_own_addresses", "needs NAT in this kernel");
        return;
    }
    let who = twenty_households(&world);
    let running = world.start("--down 4mbit --up 4mbit --discipline taq");
    let downloads = Downloads::start(&world, world.server4(), &who);
    // Were all known by the box's one address, the fifty would have 14.5 shares.
    first_has_its_share("behind NAT", &downloads, <[u64]>::to_vec);
    drop(downloads);
    running.stop();
}

#[test]
fn twenty_privacy_addresses_of_one_host_count_once() {
    let Some(world) = World::try_new(Kind::Routed) else { return };
    let mut who = Vec::new();
    for n in 0..20 {
        let address = format!("fd77::{:x}:{:x}", 0x1000 + 77 * n, 3 + n);
        world.ip("c", &format!("-6 addr add {address}/64 dev e0 nodad"));
        who.push((address.parse().unwrap(), 1));
    }
    for n in 1..5 {
        world.ip("c", &format!("-6 addr add fd77:0:0:{n}::2/64 dev e0 nodad"));
        world.ip("b", &format!("-6 route add fd77:0:0:{n}::/64 via fd77::2 dev lan"));
        who.push((format!("fd77:0:0:{n}::2").parse().unwrap(), 1));
    }
    let running = world.start("--down 4mbit --discipline taq");
    let downloads = Downloads::start(&world, world.server6(), &who);
    let prefixes = |got: &[u64]| [&[got[..20].iter().sum()], &got[20..]].concat();
    first_has_its_share("twenty addresses of one host", &downloads, prefixes);
    drop(downloads);
    running.stop();
}

#[test]
fn hosts_of_a_lans_prefix_are_users_as_one_of_ipv4_is() {
    let Some(mut world) = World::try_new(Kind::Routed) else { return };
    let hosts = world.connect_hosts(11);
    let running = world.start("--down 2mbit --discipline taq");
    let stop = Arc::new(AtomicBool::new(false));
    let serving = |address: IpAddr| {
        let ((tell, told), stopped) = (mpsc::channel(), stop.clone());
        inside(&world.ns("s"), move || serve(address, &tell, &stopped));
        told.recv_timeout(PATIENCE).unwrap()
    };
    let (v4, v6) = (serving(world.server4()), serving(world.server6()));
    let got: Vec<_> = hosts.iter().map(|_| Arc::new(AtomicU64::new(0))).collect();
    let download = |at: usize, from: IpAddr| {
        let (got, stopped, server) = (got[at].clone(), stop.clone(), if from.is_ipv4() { v4 } else { v6 });
        inside(&world.ns(&hosts[at].end), move || read_on(from, server, &got, &stopped));
    };
    // The first by IPv4, all others by IPv6, the last with ten connections.
    download(0, hosts[0].v4);
    (1..hosts.len()).for_each(|at| download(at, hosts[at].v6));
    (1..10).for_each(|_| download(hosts.len() - 1, hosts[hosts.len() - 1].v6));
    let all_are_alike = |what: &str| {
        let mut seen = Vec::new();
        // A machine that stands still for a while makes timeouts of those with one connection.
        for _ in 0..3 {
            let counts: Vec<_> = got.iter().map(|count| &**count).collect();
            let (got, _) = counted(&counts, Duration::from_secs(15));
            let all: u64 = got.iter().sum();
            let shares: Vec<_> = got.iter().map(|one| (*one * 11) as f64 / all as f64).collect();
            eprintln!("{what}: {shares:.2?}");
            if shares.iter().all(|share| (0.9..=1.1).contains(share)) {
                return;
            }
            seen.push(shares);
        }
        panic!("{what}: {seen:.2?}");
    };
    all_are_alike("ten hosts of IPv6 beside one of IPv4");
    // Whoever has both is one user.
    download(0, hosts[0].v6);
    (0..3).for_each(|_| download(0, hosts[0].v6));
    std::thread::sleep(Duration::from_secs(6));
    all_are_alike("one of them with both");
    stop.store(true, Ordering::Relaxed);
    let (code, said) = crate::live_box::check::check(&world, "lan = 'lan'\nwan = 'wan'\ndown = '2mbit'\n");
    assert!(code == Some(0) && said.contains("each IPv6 host of fd77::/64 is a user"), "{said}");
    running.stop();
}

#[test]
fn circuits_keep_to_their_rates_and_a_reload_changes_them() {
    let Some(world) = World::try_new(Kind::Routed) else { return };
    let who = &twenty_households(&world)[..3];
    let file = world.dir.join("circuits.csv");
    let write = |rate: &str| {
        let head = "Circuit ID,Circuit Name,IPv4,Download Max Mbps,Upload Max Mbps";
        let rows = format!("a,Household,10.77.0.10,{rate},\nb,Pair,\"10.77.0.11, 10.77.0.12\",,\n");
        std::fs::write(&file, format!("{head}\n{rows}")).unwrap();
    };
    write("1");
    let file_name = file.display();
    world.configure(&format!("down = '8mbit'\ndiscipline = 'taq'\ncircuits = '{file_name}'\n"));
    let running = world.start_configured();
    let downloads = Downloads::start(&world, world.server4(), who);
    for rate in [1.0, 3.0] {
        write(&rate.to_string());
        running.signal(Signal::SIGHUP);
        std::thread::sleep(Duration::from_secs(1));
        let (got, took) = downloads.measure(Duration::from_secs(5));
        let mbps = got.iter().map(|bytes| *bytes as f64 * 8e-6 / took.as_secs_f64()).collect::<Vec<_>>();
        eprintln!("at most {rate} Mbit/s: {mbps:.3?}");
        // The measured bytes are payload; data in the sockets may be read a little late.
        assert!(mbps[0] <= rate * 1.03, "{rate}: {mbps:?}");
        assert!(mbps[0] > rate * 0.5, "{rate}: it is not starved: {mbps:?}");
    }
    // Two devices of one circuit are one user.
    write("");
    running.signal(Signal::SIGHUP);
    std::thread::sleep(Duration::from_secs(1));
    let (got, _) = downloads.measure(Duration::from_secs(5));
    let pair = (got[1] + got[2]) as f64 / got[0] as f64;
    eprintln!("two devices of a circuit beside fifty connections of another: {pair:.3}");
    assert!((0.8..1.25).contains(&pair), "{got:?}");
    // A mistake changes nothing, and is told.
    std::fs::write(&file, "Circuit ID,IPv4\na,10.77.0\n").unwrap();
    running.signal(Signal::SIGHUP);
    let s = running.wait_for("a bad file is told", |s| !s.notices.is_empty());
    assert!(
        s.notices[0].contains("circuits.csv, line 2, column IPv4: '10.77.0' is no address"),
        "{:?}",
        s.notices
    );
    drop(downloads);
    running.stop();
    let said = world.refused(&format!("--strict --down 8mbit --discipline taq --circuits {file_name}"));
    assert!(said.contains("line 2, column IPv4"), "{said}");
    let said = world.refused(&format!("--down 8mbit --discipline taq:share=flow --circuits {file_name}"));
    assert!(said.contains("share = user"), "{said}");
}

/// By whichever back end packets come, and though NFQUEUE shows the sender's address only.
#[test]
fn a_circuit_is_known_by_its_mac_address() {
    for kind in [Kind::Routed, Kind::Apart] {
        let Some(world) = World::try_new(kind) else { return };
        let mac = world.exec("c", "cat /sys/class/net/e0/address");
        let file = world.dir.join("circuits.csv");
        let rows = format!("Circuit ID,MAC,Download Max Mbps\nhome,{},1\n", mac.trim());
        std::fs::write(&file, rows).unwrap();
        let backend = if kind == Kind::Apart { "packet" } else { "nfqueue" };
        let args = format!("--down 8mbit --discipline taq --backend {backend} --circuits");
        let running = world.start(&format!("{args} {}", file.display()));
        let who = [("10.77.0.2".parse().unwrap(), 2)];
        let downloads = Downloads::start(&world, world.server4(), &who);
        let (got, took) = downloads.measure(Duration::from_secs(5));
        let mbps = got[0] as f64 * 8e-6 / took.as_secs_f64();
        eprintln!("{backend}: {mbps:.3} of 1 Mbit/s");
        assert!((0.5..=1.03).contains(&mbps), "{backend}: {mbps} Mbit/s");
        drop(downloads);
        running.stop();
    }
}
