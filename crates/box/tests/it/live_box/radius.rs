//! Circuits that another program tells: by lines, by FreeRADIUS with the script of packaging/radius, and from one box
//! to the next; and sites whose rates they share.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::IpAddr;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use narrows_testing::skip;
use nix::sys::signal::Signal;

use crate::live_box::upgrade::replaced;
use crate::live_box::users::Downloads;
use crate::live_box::world::{Kind, PATIENCE, World};

/// A client of the socket.
struct Teller(BufReader<UnixStream>);

impl Teller {
    fn connect(path: &Path) -> Self {
        Self(BufReader::new(UnixStream::connect(path).unwrap()))
    }

    /// Says a line and returns the answer.
    fn say(&mut self, line: &str) -> String {
        self.0.get_mut().write_all(format!("{line}\n").as_bytes()).unwrap();
        let mut answer = String::new();
        self.0.read_line(&mut answer).unwrap();
        answer.trim_end().to_owned()
    }
}

fn mbps((bytes, took): (Vec<u64>, Duration)) -> Vec<f64> {
    bytes.iter().map(|n| *n as f64 * 8e-6 / took.as_secs_f64()).collect()
}

/// Waits until measured rates are near the expected ones: payload lies below these. A busy machine carries less for a
/// while; a rate that does not hold stays another.
fn wait_for_rates(downloads: &Downloads, words: &str, expected: &[f64]) {
    let near = |(got, rate): (&f64, &f64)| (0.6 * rate..1.1 * rate).contains(got);
    let until = Instant::now() + PATIENCE;
    loop {
        let got = mbps(downloads.measure(Duration::from_secs(2)));
        eprintln!("{words}: {got:.3?}, expected {expected:?} Mbit/s");
        if got.iter().zip(expected).all(near) {
            return;
        }
        assert!(Instant::now() < until, "{words}: {got:?}, expected {expected:?}");
    }
}

fn two_homes(world: &World) -> [IpAddr; 2] {
    world.ip("c", "addr add 10.77.0.10/24 dev e0");
    ["10.77.0.10", "10.77.0.2"].map(|a| a.parse().unwrap())
}

#[test]
fn what_is_told_holds_at_once_and_goes_over_to_the_next_box() {
    let Some(world) = World::try_new(Kind::Routed) else { return };
    let homes = two_homes(&world);
    let socket = world.dir.join("circuits.sock");
    let told = format!("circuits_from = 'unix:{}'", socket.display());
    world.configure(&format!("down = '8mbit'\nup = '8mbit'\ndefault_down = '1mbit'\n{told}\n"));
    let args = format!("--replace --config {}", world.dir.join("box.toml").display());
    let running = world.start(&args);
    let downloads = Downloads::start(&world, world.server4(), &homes.map(|home| (home, 1)));
    let measure = |words: &str, expected: [f64; 2]| wait_for_rates(&downloads, words, &expected);
    measure("the plan of all", [1.0, 1.0]);
    let mut teller = Teller::connect(&socket);
    assert_eq!(teller.say("circuit home 10.77.0.10 3mbit 1mbit"), "ok circuit home 10.77.0.10 3mbit 1mbit");
    measure("told 3 Mbit/s", [3.0, 1.0]);
    assert!(
        teller
            .say("circuit home 10.77.0.10 3mbps 1mbit")
            .starts_with("error '3mbps' is not a rate: tc reads")
    );
    assert_eq!(teller.say("circuit home - 2M 1M"), "ok circuit home 10.77.0.10 2mbit 1mbit");
    // A reload changes nothing of what was told, nor does another process in its place.
    running.signal(Signal::SIGHUP);
    measure("told 2 Mbit/s", [2.0, 1.0]);
    let running = replaced(&world, &args, running);
    measure("in the next box", [2.0, 1.0]);
    let mut teller = Teller::connect(&socket);
    assert_eq!(teller.say("gone home"), "ok gone home");
    measure("the plan of all again", [1.0, 1.0]);
    drop(downloads);
    running.stop();
    assert!(!socket.exists());
}

#[test]
fn circuits_of_a_site_share_its_rate() {
    let Some(world) = World::try_new(Kind::Routed) else { return };
    let homes = two_homes(&world);
    world.ip("c", "addr add 10.77.0.11/24 dev e0");
    let outside: IpAddr = "10.77.0.11".parse().unwrap();
    let (file, tree) = (world.dir.join("circuits.csv"), world.dir.join("network.json"));
    let rows = "Circuit ID,Parent Node,IPv4,Download Max Mbps\na,Barn,10.77.0.10,\nb,Hill,10.77.0.2,\n\
                c,,10.77.0.11,5\nd,Nowhere,10.77.0.12,5\n";
    std::fs::write(&file, rows).unwrap();
    let write = |mbps: u32| {
        let barn = r#""Barn": {"downloadBandwidthMbps": 100, "uploadBandwidthMbps": 100}"#;
        let text = format!(
            r#"{{"Hill": {{"downloadBandwidthMbps": {mbps}, "uploadBandwidthMbps": 1, "children": {{{barn}}}}}}}"#
        );
        std::fs::write(&tree, text).unwrap();
    };
    write(2);
    let files = format!("circuits = '{}'\nsites = '{}'\n", file.display(), tree.display());
    world.configure(&format!("lan = 'lan'\nwan = 'wan'\ndown = '8mbit'\n{files}"));
    let (code, said) = super::check::run_check(&world);
    for words in [
        "sites: 2 in 2 levels, at which 2 of 4 circuits hang",
        "CHECK  sites: 1 circuits hang at 'Nowhere', and no site is called so: they hang at none",
    ] {
        assert!(code == Some(0) && said.contains(words), "{words}: {said}");
    }
    let running = world.start_configured();
    let who = [homes[0], homes[1], outside].map(|home| (home, 1));
    let downloads = Downloads::start(&world, world.server4(), &who);
    for mbit in [2, 4] {
        write(mbit);
        running.signal(Signal::SIGHUP);
        // Each has its share of the site, and who is at none the rest of the link, up to its own rate.
        let site = f64::from(mbit);
        wait_for_rates(
            &downloads,
            &format!("a site of {mbit} Mbit/s"),
            &[site / 2.0, site / 2.0, 8.0 - site.max(3.0)],
        );
    }
    drop(downloads);
    running.stop();
}

/// A FreeRADIUS with one configuration, in the box's namespace.
struct Radius<'a> {
    world: &'a World,
    server: Child,
    dir: PathBuf,
}

impl<'a> Radius<'a> {
    /// Starts it with the module of packaging/radius, whose paths are those of this test.
    fn start(world: &'a World, socket: &Path) -> Self {
        let dir = world.dir.join("radius");
        std::fs::create_dir(&dir).unwrap();
        let packaging = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packaging/radius");
        let script = dir.join("narrows-radius");
        std::fs::copy(packaging.join("narrows-radius"), &script).unwrap();
        std::fs::set_permissions(&script, std::fs::Permissions::from_mode(0o755)).unwrap();
        let module = std::fs::read_to_string(packaging.join("narrows")).unwrap();
        let module = module.replace("/usr/local/bin/narrows-radius", &script.display().to_string());
        let module = module.replace("/run/narrows-circuits/socket", &socket.display().to_string());
        let here = dir.display();
        let config = format!(
            "name = freeradius\nraddbdir = {here}\nlogdir = {here}\nrun_dir = {here}\nradacctdir = {here}\n\
             libdir = /usr/lib/freeradius\npidfile = {here}/pid\n\
             client nas {{\n\tipaddr = 127.0.0.1\n\tsecret = made-up\n}}\n\
             modules {{\n{module}\n}}\n\
             server default {{\n\
             \tlisten {{\n\t\ttype = acct\n\t\tipaddr = 127.0.0.1\n\t\tport = 1813\n\t}}\n\
             \tlisten {{\n\t\ttype = coa\n\t\tipaddr = 127.0.0.1\n\t\tport = 3799\n\t}}\n\
             \taccounting {{\n\t\tnarrows\n\t}}\n\trecv-coa {{\n\t\tnarrows\n\t}}\n}}\n"
        );
        std::fs::write(dir.join("radiusd.conf"), config).unwrap();
        std::fs::write(dir.join("dictionary"), "").unwrap();
        let mut server = Command::new("ip");
        server.args(["netns", "exec", &world.ns("b"), "freeradius", "-f", "-l", "stdout", "-d"]).arg(&dir);
        let log = std::fs::File::create(dir.join("log")).unwrap();
        let server = server.stdout(log.try_clone().unwrap()).stderr(log).spawn().unwrap();
        Self { world, server, dir }
    }

    /// Sends a packet with radclient. Its answer, once there is one.
    fn send(&self, port: u16, kind: &str, attributes: &str) -> String {
        let until = Instant::now() + PATIENCE;
        loop {
            let mut client = Command::new("ip");
            client.args(["netns", "exec", &self.world.ns("b"), "radclient", "-x", "-r", "1", "-t", "5"]);
            client.args([&format!("127.0.0.1:{port}"), kind, "made-up"]);
            let mut client =
                client.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
            client.stdin.take().unwrap().write_all(attributes.as_bytes()).unwrap();
            let out = client.wait_with_output().unwrap();
            let said = String::from_utf8_lossy(&out.stdout).into_owned();
            if said.contains("Received ") {
                return said;
            }
            let log = std::fs::read_to_string(self.dir.join("log")).unwrap_or_default();
            assert!(Instant::now() < until, "{said} {} {log}", String::from_utf8_lossy(&out.stderr));
        }
    }
}

impl Drop for Radius<'_> {
    fn drop(&mut self) {
        let _ = self.server.kill();
        let _ = self.server.wait();
    }
}

/// Session of a subscriber as an access server accounts for it.
fn session(status: &str, id: &str) -> String {
    format!(
        "Acct-Status-Type = {status}\nUser-Name = \"bob@isp\"\nAcct-Session-Id = \"{id}\"\n\
         NAS-IP-Address = 127.0.0.1\nFramed-IP-Address = 10.77.0.10\nEvent-Timestamp = 1700000000\n"
    )
}

#[test]
fn a_radius_server_tells_who_comes_goes_and_has_another_plan() {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let have = |program: &str| std::env::split_paths(&path).any(|folder| folder.join(program).is_file());
    if !["freeradius", "radclient", "python3"].into_iter().all(have) {
        return skip(
            "radius",
            "no freeradius, radclient and python3 here (Debian: freeradius, freeradius-utils)",
        );
    }
    let Some(world) = World::try_new(Kind::Routed) else { return };
    let homes = two_homes(&world);
    world.ip("b", "link set lo up");
    let (file, socket) = (world.dir.join("circuits.csv"), world.dir.join("circuits.sock"));
    // The name of RADIUS stands where LibreQoS has it.
    std::fs::write(&file, "Circuit ID,MAC,Download Max Mbps,Upload Max Mbps\npppoe-7,bob@isp,3,1\n").unwrap();
    let told = format!("circuits = '{}'\ncircuits_from = '{}'", file.display(), socket.display());
    world.configure(&format!("down = '8mbit'\nup = '8mbit'\ndefault_down = '1mbit'\n{told}\n"));
    let running = world.start_configured_with("--log-level debug");
    let radius = Radius::start(&world, &socket);
    let downloads = Downloads::start(&world, world.server4(), &homes.map(|home| (home, 1)));
    let measure = |words: &str, expected: f64| wait_for_rates(&downloads, words, &[expected, 1.0]);
    assert!(radius.send(1813, "acct", &session("Start", "a")).contains("Received Accounting-Response"));
    measure("a session has begun, and the file has its rates", 3.0);
    let coa =
        "User-Name = \"bob@isp\"\nWISPr-Bandwidth-Max-Down = 5000000\nWISPr-Bandwidth-Max-Up = 1000000\n";
    assert!(radius.send(3799, "coa", coa).contains("Received CoA-ACK"));
    measure("another plan", 5.0);
    let other = "User-Name = \"bob@isp\"\nMikrotik-Rate-Limit = \"512k/2M 1M/4M\"\n";
    assert!(radius.send(3799, "coa", other).contains("Received CoA-ACK"));
    assert!(
        radius.send(1813, "acct", &session("Interim-Update", "a")).contains("Received Accounting-Response")
    );
    measure("the plan as RouterOS writes it", 2.0);
    assert!(radius.send(1813, "acct", &session("Stop", "a")).contains("Received Accounting-Response"));
    measure("the session has ended", 1.0);
    assert!(radius.send(1813, "acct", &session("Start", "b")).contains("Received Accounting-Response"));
    assert!(radius.send(3799, "disconnect", "User-Name = \"bob@isp\"\n").contains("Received Disconnect-ACK"));
    measure("disconnected", 1.0);
    let log = running.log();
    for line in ["circuit bob@isp 10.77.0.10", "circuit bob@isp 10.77.0.10 5mbit 1mbit", "gone bob@isp"] {
        assert!(log.contains(line), "{line}: {log}");
    }
    drop(radius);
    drop(downloads);
    running.stop();
}
