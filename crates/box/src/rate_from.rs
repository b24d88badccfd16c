//! The rate of the link as another program tells it: a script that asks the modem, SNMP, a dish.
//!
//! A line says `down 2mbit` or `up 500kbit`. Lines come from a file, which is looked at once a second, or in datagrams
//! to a socket. Whatever is wrong with a line is a warning: the rate stays as it was.

use std::fmt;
use std::fs::File;
use std::io::Read as _;
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::{Duration, Instant};

use narrows_qdisc::Direction;
use narrows_units::Rate;

use super::control::StatusPublisher;
use super::privilege;
use super::socket_file::SocketFile;

/// The most that is read of a file, or taken of a datagram.
const MOST: usize = 4096;
/// Time between two looks at a file.
const EVERY: Duration = Duration::from_secs(1);
/// Least time between two warnings, so that a broken script does not fill a disk.
const WARNINGS: Duration = Duration::from_secs(60);
/// Rates that may wait for the engine.
const NEWS: usize = 16;

/// Source of rates.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RateFrom {
    /// A file, which others write.
    File(PathBuf),
    /// A socket for datagrams, which the box makes.
    Socket(PathBuf),
}

impl FromStr for RateFrom {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        let (path, kind): (_, fn(PathBuf) -> Self) = match text.strip_prefix("unix:") {
            Some(path) => (path, Self::Socket),
            None => (text, Self::File),
        };
        if path.is_empty() {
            return Err(format!("'{text}' names no file: expected a file, or unix:PATH for a socket"));
        }
        Ok(kind(path.into()))
    }
}

impl fmt::Display for RateFrom {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(path) => write!(f, "the file {}", path.display()),
            Self::Socket(path) => write!(f, "who writes to the socket {}", path.display()),
        }
    }
}

/// Understands a line; `None` if it is empty or a comment.
pub fn parse(line: &str) -> Result<Option<(Direction, Rate)>, String> {
    let wrong = |why: &str| {
        let start: String = line.chars().take(60).collect();
        Err(format!("'{start}': expected down or up and a rate, as in down 2mbit{why}"))
    };
    let mut words = line.split_whitespace();
    let direction = match words.next() {
        None => return Ok(None),
        Some(word) if word.starts_with('#') => return Ok(None),
        Some("down") => Direction::Down,
        Some("up") => Direction::Up,
        Some(_) => return wrong(""),
    };
    match (words.next().map(str::parse), words.next()) {
        (Some(Ok(rate)), None) => Ok(Some((direction, rate))),
        (Some(Err(why)), None) => {
            let why: narrows_units::ParseRateError = why;
            wrong(&format!("; {why}"))
        }
        _ => wrong(""),
    }
}

/// News from the source of rates.
#[derive(Debug)]
pub enum RateNews {
    /// The link carries so much.
    Rate(Direction, Rate),
    /// Warning about a line that is wrong.
    Warning(String),
}

/// Receiver of the rates that another program tells.
#[derive(Debug)]
pub struct Rates {
    heard: Receiver<RateNews>,
    /// File of the socket where rates come in datagrams, else `None`.
    socket: Option<SocketFile>,
}

impl Rates {
    /// Listens at `from` in a thread of its own, which wakes the engine.
    ///
    /// # Errors
    /// If the socket cannot be made, or the kernel has no thread left.
    pub fn listen(from: &RateFrom, engine: Arc<StatusPublisher>) -> anyhow::Result<Self> {
        let (news, heard) = sync_channel(NEWS);
        let ear = Ear { name: from.clone(), news, engine, warned: None };
        let (datagrams, socket) = match from {
            RateFrom::File(_) => (None, None),
            RateFrom::Socket(path) => {
                let (datagrams, file) = SocketFile::bind("rate_from", path, 0o600, UnixDatagram::bind)?;
                (Some(datagrams), Some(file))
            }
        };
        privilege::talker("rates", None, move || match datagrams {
            Some(datagrams) => ear.hear(&datagrams),
            None => ear.read(),
        })?;
        Ok(Self { heard, socket })
    }

    /// News since the last call.
    pub fn heard(&self) -> impl Iterator<Item = RateNews> {
        self.heard.try_iter()
    }

    /// Leaves the socket's name to the process that has taken this one's place.
    pub fn leave(self) {
        self.socket.into_iter().for_each(SocketFile::leave);
    }
}

/// The thread's part.
struct Ear {
    name: RateFrom,
    news: SyncSender<RateNews>,
    engine: Arc<StatusPublisher>,
    warned: Option<Instant>,
}

/// The engine is gone.
struct Deaf;

impl Ear {
    fn path(&self) -> &Path {
        match &self.name {
            RateFrom::File(path) | RateFrom::Socket(path) => path,
        }
    }

    fn hear(mut self, socket: &UnixDatagram) {
        let mut buffer = [0; MOST];
        loop {
            let told = match socket.recv(&mut buffer) {
                Ok(n) => self.lines(&buffer[..n]),
                Err(error) => {
                    // Not to be expected, and no reason to be busy.
                    std::thread::sleep(EVERY);
                    self.warn(&error.to_string())
                }
            };
            if told.is_err() {
                return;
            }
        }
    }

    fn read(mut self) {
        let mut before = Vec::new();
        loop {
            let mut text = Vec::new();
            // A reader that is not there yet, or a pipe, is waited for here and nowhere else.
            let read = File::open(self.path()).and_then(|f| f.take(MOST as u64).read_to_end(&mut text));
            let told = match read {
                Ok(_) if text == before => Ok(()),
                Ok(_) => {
                    before.clone_from(&text);
                    self.lines(&text)
                }
                Err(error) => self.warn(&error.to_string()),
            };
            if told.is_err() {
                return;
            }
            std::thread::sleep(EVERY);
        }
    }

    fn lines(&mut self, bytes: &[u8]) -> Result<(), Deaf> {
        for line in String::from_utf8_lossy(bytes).lines() {
            match parse(line) {
                Ok(None) => {}
                Ok(Some((direction, rate))) => self.tell(RateNews::Rate(direction, rate))?,
                Err(problem) => self.warn(&problem)?,
            }
        }
        Ok(())
    }

    fn warn(&mut self, problem: &str) -> Result<(), Deaf> {
        if self.warned.is_some_and(|at| at.elapsed() < WARNINGS) {
            return Ok(());
        }
        self.warned = Some(Instant::now());
        let text = format!("rate_from {}: {problem}; the rate stays as it is", self.path().display());
        self.tell(RateNews::Warning(text))
    }

    fn tell(&self, heard: RateNews) -> Result<(), Deaf> {
        self.news.send(heard).map_err(|_| Deaf)?;
        self.engine.nudge();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::Options;

    #[test]
    fn a_line_by_hand() {
        assert_eq!(parse("down 2mbit"), Ok(Some((Direction::Down, Rate::from_kbps(2000)))));
        assert_eq!(parse("  up\t500kbit \r"), Ok(Some((Direction::Up, Rate::from_kbps(500)))));
        assert_eq!((parse(""), parse("# from the modem")), (Ok(None), Ok(None)));
        for (line, words) in [
            ("dwon 2mbit", "'dwon 2mbit': expected down or up"),
            ("down", "expected down or up and a rate"),
            ("down 2mbit up 1mbit", "expected down or up and a rate"),
            ("down 600", "'600' is not a rate"),
            ("down 0kbit", "'0kbit' is not a rate"),
        ] {
            assert!(parse(line).unwrap_err().contains(words), "{line}");
        }
        // A message is short however long the line.
        assert!(parse(&"x".repeat(4000)).unwrap_err().len() < 200);
    }

    #[test]
    fn a_file_or_a_socket() {
        assert_eq!("/run/rate".parse(), Ok(RateFrom::File("/run/rate".into())));
        assert_eq!("unix:/run/rate.sock".parse(), Ok(RateFrom::Socket("/run/rate.sock".into())));
        assert!("unix:".parse::<RateFrom>().is_err() && "".parse::<RateFrom>().is_err());
    }

    #[test]
    fn what_is_told_is_bounded() {
        let kbit = |kbps| Some(Rate::from_kbps(kbps));
        let options = Options::parse(
            "lan = 'a'\nwan = 'b'\ndown = '1mbit'\nup = 'auto:max=512'\nrate_from = '/run/rate'\nrate_min = \
             '64kbit'\nrate_max = '2mbit'\n",
        );
        let settings = options.unwrap().settle().unwrap();
        for (told, rate, most) in [
            ([None, None], 1000, 512),
            ([kbit(700), kbit(300)], 700, 300),
            ([kbit(1), kbit(1)], 64, 64),
            ([kbit(9000), kbit(9000)], 2000, 512),
        ] {
            let [down, up] = settings.lanes_as_told(&told);
            let found = (down.link.unwrap().rate, up.follow.unwrap().max);
            assert_eq!(found, (Rate::from_kbps(rate), most), "{told:?}");
        }
    }

    fn next(rates: &Rates) -> RateNews {
        rates.heard.recv_timeout(Duration::from_secs(30)).unwrap()
    }

    #[test]
    fn what_is_told_is_heard_and_what_is_wrong_is_a_warning() {
        let dir = narrows_testing::Scratch::new("rate-from");
        let path = dir.join("rate.sock");
        let listen = || {
            let from = RateFrom::Socket(path.clone());
            Rates::listen(&from, StatusPublisher::new().unwrap())
        };
        let rates = listen().unwrap();
        let modem = UnixDatagram::unbound().unwrap();
        let say = |text: &str| assert!(modem.send_to(text.as_bytes(), &path).is_ok());
        say("down 2mbit\nup 500kbit\n");
        assert!(matches!(next(&rates), RateNews::Rate(Direction::Down, r) if r == Rate::from_kbps(2000)));
        assert!(matches!(next(&rates), RateNews::Rate(Direction::Up, r) if r == Rate::from_kbps(500)));
        // One of many bad lines is reported.
        (0..50).for_each(|_| say("fast"));
        say("up 400kbit");
        let RateNews::Warning(text) = next(&rates) else { panic!("no warning") };
        assert!(text.contains("rate.sock") && text.contains("'fast'"), "{text}");
        assert!(matches!(next(&rates), RateNews::Rate(Direction::Up, r) if r == Rate::from_kbps(400)));
        // Another box takes the name; this one no longer removes it.
        let heir = listen().unwrap();
        rates.leave();
        say("up 300kbit");
        assert!(matches!(next(&heir), RateNews::Rate(Direction::Up, _)));
        drop(heir);
        assert!(!path.exists());
        std::fs::write(&path, "").unwrap();
        assert!(listen().unwrap_err().to_string().contains("something else has that name"));
    }

    #[test]
    fn a_file_is_read_again_when_it_has_changed() {
        let dir = narrows_testing::Scratch::new("rate-file");
        let path = dir.join("rate");
        let from = RateFrom::File(path.clone());
        let rates = Rates::listen(&from, StatusPublisher::new().unwrap()).unwrap();
        assert!(matches!(next(&rates), RateNews::Warning(_)), "it is not there yet");
        for kbps in [700, 800] {
            std::fs::write(&path, format!("# kbit/s\ndown {kbps}kbit\n")).unwrap();
            assert!(matches!(next(&rates), RateNews::Rate(Direction::Down, r) if r == Rate::from_kbps(kbps)));
        }
    }
}
