//! Targets of fuzzing, here so that ordinary tests run them too, over random bytes: all that a box reads from
//! others. Every input is answered with an error or passed over; nothing panics or grows.

use std::io::{self, Read as _, Write as _};
use std::net::IpAddr;
use std::os::unix::net::UnixStream;
use std::sync::Arc;

use narrows_qdisc::{Direction, Event, ShaperConfig, Verdict};
use narrows_units::{Duration, Instant, Rate};
use narrows_users::{Change, CircuitFile, Leases, LinkAddress, Mac, User};
use narrows_wire::{FlowKey, Header, Proto, parse, tcp_checksum};

use crate::backend::Backend;
use crate::control::{self, StatusPublisher};
use crate::engine::Engine;
use crate::handover::LinkState;
use crate::http_503::{Answer, Http503, Standing};
use crate::lane::{LaneSettings, LaneState};
use crate::packet::HeldPacket;
use crate::rate_from;
use crate::settings::Options;
use crate::sites::Sites;
use crate::status::Status;
use crate::users::{self, UserMap};

/// Longer than any message about what is wrong, however long that is.
const MESSAGE: usize = 4000;

/// A back end to which nothing comes, and which counts what goes.
#[derive(Default)]
struct Nowhere(usize);

impl Backend for Nowhere {
    type Packet = HeldPacket;

    fn receive(&mut self, _: Instant, _: &mut Vec<(Direction, HeldPacket)>) -> io::Result<bool> {
        Ok(false)
    }
    fn apply(&mut self, _: Instant, event: Event<HeldPacket>) {
        self.0 += usize::from(!matches!(event, Event::Verdict(_, Verdict::Marked { .. })));
    }
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Two directions of a box whose disciplines tell what they know, and are told.
fn lanes() -> [LaneSettings; 2] {
    let link = Some(ShaperConfig::new(Rate::from_kbps(600)));
    ["taq", "taq:mode=paper"].map(|spec| LaneSettings::new(link, spec.parse().expect("a discipline"), 1))
}

/// Any bytes as what another box hands over: an error, or packets of which every one goes on or has its verdict.
///
/// # Panics
/// If one is lost or made up.
pub fn link_state(bytes: &[u8]) {
    let Ok(state) = LinkState::parse(bytes) else { return };
    go_on(state.state());
}

/// Any bytes as what a discipline knew of its flows.
///
/// # Panics
/// If a box cannot go on with it.
pub fn knowledge(bytes: &[u8]) {
    let lane = || LaneState {
        knowledge: Some(bytes.to_vec()),
        free_at: Instant::ZERO,
        waiting: [packet(1), packet(2)].into(),
        held: vec![packet(3)],
    };
    go_on([lane(), lane()]);
}

/// A segment from a user, held.
fn packet(user: u8) -> HeldPacket {
    let mut bytes = vec![0x45, 0, 0, 44, 0, 1, 0x40, 0, 64, 6, 0, 0, 10, 0, 0, user, 10, 0, 0, 2];
    bytes.extend([0x9c, 0x40, 0, 80, 0, 0, 0, 7, 0, 0, 0, 9, 0x50, 0x10, 3, 0xe8, 0, 0, 0, 0, 1, 2, 3, 4]);
    HeldPacket::of_bytes(u32::from(user), Direction::Up, bytes)
}

/// An engine that goes on with `state` for a while, and then lets all go.
fn go_on(state: [LaneState<HeldPacket>; 2]) {
    const FAILS: &str = "there is nothing to fail";
    let packets: usize = state.iter().map(|lane| lane.waiting.len() + lane.held.len()).sum();
    let (mut nowhere, mut now) = (Nowhere::default(), Instant::from_nanos(1 << 40));
    let mut engine = Engine::new(&lanes());
    engine.resume(now, state, &mut nowhere).expect(FAILS);
    for _ in 0..50 {
        engine.step(now, &mut nowhere).expect(FAILS);
        now += Duration::from_millis(30);
    }
    for direction in Direction::BOTH {
        let _ = engine.report(now, direction);
    }
    let again = engine.take_apart(now, &mut nowhere).expect(FAILS);
    let mut engine = Engine::new(&lanes());
    engine.resume(now, again, &mut nowhere).expect(FAILS);
    engine.step(now, &mut nowhere).expect(FAILS);
    engine.release_all(now, &mut nowhere).expect(FAILS);
    assert_eq!(nowhere.0, packets);
}

/// Any bytes as what a client says on the control socket: an answer of one line in JSON, or the wish to take over.
///
/// # Panics
/// If it is neither.
pub fn request(bytes: &[u8]) {
    // A socket takes this much without a reader.
    let bytes = &bytes[..bytes.len().min(4096)];
    let publisher = StatusPublisher::new().expect("a descriptor");
    publisher.publish(Status::default);
    let (mut client, server) = UnixStream::pair().expect("a descriptor");
    client.write_all(bytes).and_then(|()| client.shutdown(std::net::Shutdown::Write)).expect("room");
    // A line that is no text is no request.
    let heard = control::answer(server, &publisher).is_ok();
    let successor = publisher.asked().is_some();
    let line = bytes.split(|byte| *byte == b'\n').next().unwrap_or_default();
    let asks = |line: &str| {
        let mut words = line.split_whitespace();
        words.next().is_some_and(|word| ["replace", "release"].contains(&word))
            && words.all(|word| word.parse::<u16>().is_ok())
    };
    // A word ends at a space, not at another kind of blank.
    let plain = |line: &&str| !line.trim().contains(|c: char| c.is_whitespace() && c != ' ');
    if let Some(line) = str::from_utf8(line).ok().filter(plain) {
        assert_eq!(successor, asks(line), "{line}");
    }
    let mut reply = String::new();
    // A server that hangs up while a client still writes resets the connection.
    if client.read_to_string(&mut reply).is_ok() && heard && !successor {
        assert!(
            reply.ends_with('\n') && serde_json::from_str::<serde_json::Value>(&reply).is_ok(),
            "{reply}"
        );
    }
}

/// Reads any bytes as lines of `rate_from`: each is nothing, a rate, or an error of bounded length; whatever the
/// rate, the box stays within its bounds.
///
/// # Panics
/// If one of these does not hold.
pub fn rates(bytes: &[u8]) {
    let text = "lan = 'a'\nwan = 'b'\ndown = '1mbit'\nup = 'auto:max=512'\nrate_from = '/r'\nrate_min = \
                '64kbit'\nrate_max = '2mbit'\n";
    let settings = Options::parse(text).and_then(|options| options.settle()).expect("settings");
    for line in String::from_utf8_lossy(bytes).lines() {
        match rate_from::parse(line) {
            Err(problem) => assert!(problem.len() < 600, "{problem}"),
            Ok(None) => assert!(line.trim().is_empty() || line.trim().starts_with('#'), "{line}"),
            Ok(Some((direction, rate))) => {
                let mut told = [None; 2];
                told[direction as usize] = Some(rate);
                let [down, up] = settings.lanes_as_told(&told);
                let down = down.link.expect("a rate").rate;
                assert!((Rate::from_kbps(64)..=Rate::from_kbps(2000)).contains(&down), "{line}: {down}");
                assert!(up.follow.expect("auto").max <= 512, "{line}");
            }
        }
    }
}

/// Any bytes as a file of circuits, as lines that tell some and as a tree of sites: an error that names the file, or
/// circuits that each have their number.
///
/// # Panics
/// If neither.
pub fn circuits(bytes: &[u8]) {
    let file = match CircuitFile::read("circuits.csv", bytes) {
        Ok(file) => file,
        Err(error) => return assert!(error.to_string().starts_with("circuits.csv")),
    };
    assert!(users::remarks(&file, &Sites::default()).len() <= 11);
    let sites = match Sites::read("network.json", bytes) {
        Ok(sites) => sites,
        Err(error) => {
            assert!(error.to_string().starts_with("network.json"));
            Sites::default()
        }
    };
    let (file, sites) = (Arc::new(file), Arc::new(sites));
    let mut users = UserMap::default();
    for _ in 0..2 {
        users.load(file.clone(), sites.clone(), [None; 2]);
        let _ = Direction::BOTH.map(|direction| users.rates(direction));
        let first = bytes.first_chunk().copied().unwrap_or([10, 0, 0, 1]);
        let key = FlowKey::new(IpAddr::from(first), [192, 0, 2, 1].into(), 1, 2, Proto::UDP);
        let link = LinkAddress { mac: bytes.first_chunk().copied().map(Mac), vlan: Some(5) };
        let named = users.circuit(Direction::Up, &key, link).map(|id| users.name(id).is_some());
        assert_ne!(named, Some(false));
        for line in String::from_utf8_lossy(bytes).lines().take(64) {
            let told = Change::parse(line).map(|change| change.map(|change| users.tell(&change)));
            if let Err(why) | Ok(Some(Err(why))) = told {
                assert!(!why.is_empty() && why.len() < 600 && !why.contains('\n'), "{why:?}");
            }
        }
        let mut heir = UserMap::default();
        heir.load(file.clone(), sites.clone(), [None; 2]);
        for line in users.told() {
            let change = Change::parse(&line).ok().flatten().expect("a line as it is told");
            heir.tell(&change).expect("what another box had");
        }
        assert_eq!(heir.told(), users.told());
    }
}

/// Any bytes as a file of DHCP leases: names of a bounded length that change no line, for no more hosts than it has
/// lines.
///
/// # Panics
/// If not so.
pub fn leases(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    let leases = Leases::parse(&text);
    assert!(leases.len() + leases.bad() <= text.lines().count());
    for word in text.split_whitespace() {
        let Ok(address) = word.parse() else { continue };
        if let Some(name) = leases.name(User::of(address, 128)) {
            assert!(!name.is_empty() && name.len() <= 64 && !name.contains(char::is_control), "{name:?}");
        }
    }
}

/// Any bytes as a settings file: an error of bounded length, or settings that a reload would find unchanged.
///
/// # Panics
/// If neither.
pub fn settings(bytes: &[u8]) {
    let text = String::from_utf8_lossy(&bytes[..bytes.len().min(MESSAGE / 8)]);
    match Options::parse(&text).and_then(|options| options.settle()) {
        Err(error) => assert!(format!("{error:#}").len() < MESSAGE, "{error:#}"),
        Ok(mut settings) => {
            settings.set_mtu(1500);
            let mut again = settings.clone();
            assert!(again.adopt(&settings).is_empty());
            assert_eq!(again, settings);
        }
    }
}

/// Any bytes as a packet of a client to port 80: not answered, or answered by a whole packet back to it. With a first
/// byte that is odd its acknowledgment is made to fit.
///
/// # Panics
/// If the answer is none.
pub fn page_503(bytes: &[u8]) {
    let (fits, bytes) = match bytes.split_first() {
        Some((first, rest)) => (first % 2 == 1, rest),
        None => return,
    };
    let Ok(mut header) = parse(bytes) else { return };
    let pages = Http503::default();
    if fits {
        let ack = pages.isn(&header) + 1;
        header.tcp = header.tcp.map(|tcp| narrows_wire::TcpHeader { ack, ..tcp });
    }
    let standing = Standing { position: bytes.len(), wait: Duration::from_secs(3) };
    let answer = pages.segment(&header, |_| standing);
    let said = match answer {
        Some(Answer::Page(packet) | Answer::Ack(packet)) => Some(packet),
        Some(Answer::Nothing) | None => None,
    };
    for packet in pages.syn(&header).into_iter().chain(said) {
        is_back_to(&header, &packet);
    }
}

fn is_back_to(header: &Header, packet: &[u8]) {
    let back = parse(packet).expect("a packet");
    assert_eq!((back.key, back.len.get()), (header.key.reverse(), packet.len() as u64));
    let at = if packet[0] >> 4 == 4 { 20 } else { 40 };
    assert_eq!(Some(u16::from_be_bytes([packet[at + 16], packet[at + 17]])), tcp_checksum(packet));
}

#[cfg(test)]
mod tests {
    use super::*;
    use narrows_testing::Rng;

    /// Runs a body over many changes of bytes that make sense, and over some that do not.
    fn often(times: u64, valid: impl Fn(&mut Rng) -> Vec<u8>, body: impl Fn(&[u8])) {
        for seed in 1..=times {
            println!("seed {seed}");
            let mut rng = Rng(seed);
            let mut bytes = valid(&mut rng);
            body(&bytes);
            for _ in 0..rng.below(6) {
                let at = rng.below(bytes.len() as u64 + 1) as usize;
                match rng.below(4) {
                    0 => bytes.truncate(at),
                    1 => bytes.insert(at, rng.below(256) as u8),
                    _ if at < bytes.len() => bytes[at] = [rng.below(256) as u8, 0, 255, 1][seed as usize % 4],
                    _ => {}
                }
                body(&bytes);
            }
        }
    }

    /// Makes a text of 1 to `lines` random lines out of `words`.
    fn of(words: &[&str], lines: u64, rng: &mut Rng) -> Vec<u8> {
        let mut text = String::new();
        for _ in 0..rng.below(lines) + 1 {
            text += words[rng.below(words.len() as u64) as usize];
            text.push('\n');
        }
        text.into_bytes()
    }

    /// Knowledge of two disciplines after packets of some users.
    fn known(users: u8) -> Vec<Vec<u8>> {
        let lane = |first: u8| LaneState {
            knowledge: None,
            free_at: Instant::ZERO,
            waiting: (0..users).map(|n| packet(first + n)).collect(),
            held: vec![],
        };
        let (mut nowhere, now) = (Nowhere::default(), Instant::from_nanos(1 << 40));
        let mut engine = Engine::new(&lanes());
        engine.resume(now, [lane(1), lane(100)], &mut nowhere).unwrap();
        engine.step(now, &mut nowhere).unwrap();
        engine.knowledge(now).into_iter().flatten().collect()
    }

    #[test]
    fn what_a_discipline_knew() {
        let known: Vec<_> = [0, 3, 20].into_iter().flat_map(known).collect();
        assert!(known.len() >= 3, "{}", known.len());
        often(300, |rng| known[rng.below(known.len() as u64) as usize].clone(), knowledge);
    }

    #[test]
    fn what_is_handed_over() {
        let told = known(9).pop();
        let lane = |first| LaneState {
            knowledge: told.clone(),
            free_at: Instant::from_nanos(99),
            waiting: [packet(first), packet(first + 1)].into(),
            held: vec![packet(first + 2)],
        };
        let bytes =
            postcard::to_stdvec(&LinkState::of(&[lane(1), lane(11)], vec![40, 5, 6], Vec::new())).unwrap();
        often(400, |_| bytes.clone(), link_state);
    }

    #[test]
    fn what_clients_say() {
        let words = [
            "status",
            "terms",
            "replace",
            " status\r",
            "",
            "stat\u{fc}s",
            "replace replace",
            "replace 0 7",
            "release 9",
        ];
        often(300, |rng| of(&words, 3, rng), request);
        request(&[b'x'; 4096]);
    }

    #[test]
    fn what_rates_are_told() {
        let words =
            ["down 2mbit", "up 500kbit", "# x", "down 99999999999999999999gbit", "up auto", "down 1bit"];
        often(2000, |rng| of(&words, 5, rng), rates);
    }

    #[test]
    fn what_a_file_of_circuits_says() {
        let words = [
            "Circuit ID,Circuit Name,IPv4,Download Max Mbps,Upload Max Mbps,MAC,VLAN,IPv6",
            "1,one,10.0.0.1,2,1,02:00:00:00:00:01,5,2001:db8::/64",
            "2,two,\"10.0.0.2,10.0.1.0/24\",0.5,0.1,,,",
            "3,,,,,,,",
            "# comment",
            "2,two,10.0.0.9,1e9,-1,x,4096,::/0",
        ];
        let file = |rng: &mut Rng| [words[0].as_bytes(), b"\n", &of(&words, 6, rng)].concat();
        often(2000, file, circuits);
    }

    #[test]
    fn what_a_file_of_leases_says() {
        let words = [
            "1764300000 02:00:00:00:00:01 10.0.0.7 laptop *",
            "0 02:00:00:00:00:02 fd00::7 * 01",
            "duid 00:01",
            "lease 10.0.0.5 {",
            "  client-hostname \"a \u{202e}b\u{7}\";",
            "  binding state free;",
            "}",
            "# x",
            "1 m 10.0.0.7 nnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnn",
        ];
        often(2000, |rng| of(&words, 8, rng), leases);
    }

    #[test]
    fn what_settings_say() {
        let words = [
            "lan = 'a'\nwan = 'b'",
            "down = '600kbit'",
            "up = 'auto:max=512'",
            "discipline = 'taq:k=4'",
            "overhead = 40",
            "mpu = 64",
            "framing = 'atm'",
            "backend = 'packet'",
            "queue = 65534",
            "observe = true",
            "page = '127.0.0.1:80'",
            "page_for_others = true",
            "rate_from = 'unix:/r'",
            "rate_min = '64kbit'",
            "up_discipline = 'fifo:20'",
            "http_503 = true",
            "local = true",
            "rules = 'nft'",
            "[down]",
            "a = [",
        ];
        let file = |rng: &mut Rng| [words[0].as_bytes(), b"\n", &of(&words[1..], 5, rng)].concat();
        often(2000, file, settings);
    }

    #[test]
    fn what_a_client_of_port_80_sends() {
        let client = |rng: &mut Rng| {
            let mut bytes = vec![1];
            bytes.extend(packet(1).bytes);
            bytes[1 + 22..1 + 24].copy_from_slice(&80_u16.to_be_bytes());
            bytes[1 + 33] = [2, 0x10, 0x18, 0x11, 4][rng.below(5) as usize];
            bytes
        };
        often(3000, client, page_503);
    }
}
