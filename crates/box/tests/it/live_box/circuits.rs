//! Circuits with rates of both directions, and one that is named by its VLAN.

use std::io::{Read as _, Write as _};
use std::net::{IpAddr, SocketAddr, TcpListener};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

use narrows_netio::packet_socket::{FrameDirection, PacketSocket};
use nix::sys::signal::Signal;

use crate::live_box::users::{Downloads, connect_as, counted};
use crate::live_box::world::{Kind, PATIENCE, World, inside};

/// Uploads without end to the server of a world.
struct Uploads {
    /// Bytes that came from each address.
    came: Vec<Arc<AtomicU64>>,
    stop: Arc<AtomicBool>,
}

impl Uploads {
    /// One connection from each address.
    fn start(world: &World, server: IpAddr, who: &[IpAddr]) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let upload = |from: IpAddr| {
            let (tell, told) = mpsc::channel();
            let (came, stopped) = (Arc::new(AtomicU64::new(0)), stop.clone());
            let count = came.clone();
            inside(&world.ns("s"), move || take(server, &tell, &count, &stopped));
            let (to, stopped) = (told.recv_timeout(PATIENCE).unwrap(), stop.clone());
            inside(&world.ns("c"), move || send_on(from, to, &stopped));
            came
        };
        Self { came: who.iter().map(|from| upload(*from)).collect(), stop: stop.clone() }
    }

    /// Mbit/s of each address in the time to come, once all have some.
    fn measure(&self, time: Duration) -> Vec<f64> {
        let came: Vec<_> = self.came.iter().map(|n| &**n).collect();
        mbps(counted(&came, time))
    }
}

impl Drop for Uploads {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}

fn mbps((bytes, took): (Vec<u64>, Duration)) -> Vec<f64> {
    bytes.iter().map(|n| *n as f64 * 8e-6 / took.as_secs_f64()).collect()
}

/// Counts what comes over one connection.
fn take(address: IpAddr, tell: &mpsc::Sender<SocketAddr>, count: &AtomicU64, stop: &AtomicBool) {
    let listener = TcpListener::bind((address, 0)).unwrap();
    tell.send(listener.local_addr().unwrap()).unwrap();
    let (mut stream, _) = listener.accept().unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let mut buffer = [0; 4096];
    while !stop.load(Ordering::Relaxed) {
        match stream.read(&mut buffer) {
            Ok(n) if n > 0 => drop(count.fetch_add(n as u64, Ordering::Relaxed)),
            _ => return,
        }
    }
}

fn send_on(from: IpAddr, to: SocketAddr, stop: &AtomicBool) {
    let mut stream = connect_as(from, to).unwrap_or_else(|| panic!("{from} cannot connect to {to}"));
    stream.set_write_timeout(Some(PATIENCE)).unwrap();
    while !stop.load(Ordering::Relaxed) && stream.write_all(&[7; 4096]).is_ok() {}
}

/// Whether a measured rate is near the set one: payload lies below it, sockets may be read late, and a busy machine
/// carries less.
fn is_near(mbps: f64, rate: f64) -> bool {
    (0.4 * rate..1.1 * rate).contains(&mbps)
}

#[test]
fn a_circuit_keeps_to_its_rate_up_and_a_reload_changes_it() {
    let Some(world) = World::try_new(Kind::Routed) else { return };
    world.ip("c", "addr add 10.77.0.10/24 dev e0");
    let [home, other] = ["10.77.0.10", "10.77.0.2"].map(|a| a.parse::<IpAddr>().unwrap());
    let file = world.dir.join("circuits.csv");
    let write = |up: &str| {
        let head = "Circuit ID,Circuit Name,IPv4,Download Max Mbps,Upload Max Mbps";
        std::fs::write(&file, format!("{head}\na,Household,10.77.0.10,2,{up}\n")).unwrap();
    };
    write("1");
    let circuits = file.display();
    world.configure(&format!("down = '8mbit'\nup = '8mbit'\ndiscipline = 'taq'\ncircuits = '{circuits}'\n"));
    let running = world.start_configured();
    let uploads = Uploads::start(&world, world.server4(), &[home, other]);
    for up in [1.0, 3.0] {
        write(&up.to_string());
        running.signal(Signal::SIGHUP);
        std::thread::sleep(Duration::from_secs(1));
        let got = uploads.measure(Duration::from_secs(4));
        eprintln!("at most {up} Mbit/s up: {got:.3?}");
        assert!(is_near(got[0], up), "{up}: {got:?}");
        // The link has room for more: it is the circuit's rate that is kept to.
        assert!(got[1] > 1.1 * got[0], "{up}: {got:?}");
    }
    // Down there is another rate, and what is acknowledged up takes little of that one.
    let downloads = Downloads::start(&world, world.server4(), &[(home, 1)]);
    let down = mbps(downloads.measure(Duration::from_secs(4)));
    eprintln!("at most 2 Mbit/s down beside an upload: {down:.3?}");
    assert!(is_near(down[0], 2.0), "{down:?}");
    drop(downloads);
    drop(uploads);
    running.stop();
}

/// Bytes of an IP packet of a flood.
const LEN: u16 = 1000;
/// How long a flood lasts, and what of its beginning does not count.
const LASTS: Duration = Duration::from_secs(4);
const BEGINS: Duration = Duration::from_secs(1);

/// A datagram between hosts of 10.80.0.0/24 on a VLAN, or of 10.81.0.0/24 on none; its last byte says which.
fn frame(ends: &[u8], vlan: Option<u8>, [from, to]: [u8; 2]) -> Vec<u8> {
    let net = if vlan.is_some() { 80 } else { 81 };
    let [high, low] = LEN.to_be_bytes();
    let mut ip = vec![0x45, 0, high, low, 0, 1, 0, 0, 64, 17, 0, 0, 10, net, 0, from, 10, net, 0, to];
    let sum = narrows_wire::checksum(&ip, 0);
    ip[10..12].copy_from_slice(&sum.to_be_bytes());
    let [high, low] = (LEN - 20).to_be_bytes();
    ip.extend([0, 7, 0, 9, high, low, 0, 0]);
    ip.resize(LEN.into(), net);
    let tag = vlan.map_or(Vec::new(), |vlan| vec![0x81, 0, 0, vlan]);
    [ends, &tag, &[8, 0], &ip].concat()
}

/// Sends 3 Mbit/s of datagrams with a tag and as many without from an end to the other. Mbit/s of either that come.
fn flood(world: &World, [from, to]: [&str; 2], hosts: [u8; 2]) -> [f64; 2] {
    let mac = |end: &str| -> Vec<u8> {
        let text = world.exec(end, "cat /sys/class/net/e0/address");
        text.trim().split(':').map(|byte| u8::from_str_radix(byte, 16).unwrap()).collect()
    };
    let ends = [mac(to), mac(from)].concat();
    let frames = [Some(5), None].map(|vlan| frame(&ends, vlan, hosts));
    let hears = inside(&world.ns(to), || {
        let socket = PacketSocket::open("e0", FrameDirection::Incoming).unwrap();
        let (begun, mut buffer, mut came) = (Instant::now(), [0; 2000], [0_u32; 2]);
        while begun.elapsed() < LASTS {
            socket.wait(Duration::from_millis(20)).unwrap();
            while let Ok((len, _)) = socket.recv(&mut buffer) {
                match buffer[..len].last() {
                    _ if begun.elapsed() < BEGINS => {}
                    Some(80) => came[0] += 1,
                    Some(81) => came[1] += 1,
                    _ => {}
                }
            }
        }
        came.map(|n| f64::from(n) * f64::from(LEN) * 8e-6 / (begun.elapsed() - BEGINS).as_secs_f64())
    });
    let sends = inside(&world.ns(from), move || {
        let socket = PacketSocket::open("e0", FrameDirection::Incoming).unwrap();
        let begun = Instant::now();
        while begun.elapsed() < LASTS {
            for frame in frames.iter().cycle().take(6) {
                assert!(socket.send(frame));
            }
            std::thread::sleep(Duration::from_millis(8));
        }
    });
    sends.join().unwrap();
    hears.join().unwrap()
}

/// The packets of both directions bear the tag. Frames are sent as they are: not every kernel has devices for VLANs.
#[test]
fn a_circuit_is_known_by_its_vlan_both_ways() {
    let Some(world) = World::try_new(Kind::Apart) else { return };
    let file = world.dir.join("circuits.csv");
    let rows = "Circuit ID,VLAN,Download Max Mbps,Upload Max Mbps\nhome,5,1,0.5\nother,6,8,8\n";
    std::fs::write(&file, rows).unwrap();
    let args = "--down 8mbit --up 8mbit --discipline taq --backend packet --circuits";
    let running = world.start(&format!("{args} {}", file.display()));
    for (ends, hosts, rate) in [(["s", "c"], [3, 2], 1.0), (["c", "s"], [2, 3], 0.5)] {
        let [home, plain] = flood(&world, ends, hosts);
        eprintln!("{} to {}: VLAN 5 {home:.3} of {rate} Mbit/s, without a tag {plain:.3}", ends[0], ends[1]);
        assert!(is_near(home, rate), "{ends:?}: {home} Mbit/s");
        assert!(plain > 1.2 * home, "no circuit: {plain} and {home} Mbit/s");
    }
    running.stop();
}
