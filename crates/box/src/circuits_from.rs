//! Circuits as another program tells them while the box runs: a RADIUS server, DHCP, a billing system.
//!
//! Clients connect to a socket and say lines ([`Change`]); each line that says anything is answered with one: `ok` and
//! what holds from then on, or `error` and why. Nothing that a client says ends the box or changes other circuits.

use std::fmt;
use std::io::{ErrorKind, Read as _, Write as _};
use std::os::fd::AsFd as _;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::str::FromStr;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::Duration;

use narrows_users::Change;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

use super::control::StatusPublisher;
use super::privilege;
use super::socket_file::SocketFile;

/// Clients at once; one more is told so.
const CLIENTS: usize = 16;
/// The longest line: a name, and addresses of one circuit.
const LINE: usize = 8192;
/// Lines of one client that are under way at once.
const LINES: usize = 64;
/// Rights of the socket, its owner's and its group's: whoever may write there says whose packets are whose.
const RIGHTS: u32 = 0o660;
/// Longest wait for the engine's answer to a client, and for a read or a write on the client's socket.
const PATIENCE: Duration = Duration::from_secs(2);

/// Socket on which circuits are told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CircuitsFrom(PathBuf);

impl FromStr for CircuitsFrom {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        let path = text.strip_prefix("unix:").unwrap_or(text);
        if path.is_empty() {
            return Err(format!("'{text}' names no socket: expected unix:PATH"));
        }
        Ok(Self(path.into()))
    }
}

impl fmt::Display for CircuitsFrom {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the socket {}", self.0.display())
    }
}

/// Change that a client waits for.
#[derive(Debug)]
pub struct Request {
    /// The change.
    pub change: Change,
    answer: SyncSender<Result<String, String>>,
}

impl Request {
    /// Answers the client, which may be gone by now.
    pub fn answer(&self, outcome: Result<String, String>) {
        let _ = self.answer.send(outcome);
    }
}

/// The ear of a box for circuits.
#[derive(Debug)]
pub struct CircuitNews {
    heard: Receiver<Request>,
    socket: SocketFile,
}

impl CircuitNews {
    /// Listens at `from` in a thread of its own, which wakes the engine.
    ///
    /// # Errors
    /// If the socket cannot be made, or the kernel has no thread left.
    pub fn listen(from: &CircuitsFrom, engine: Arc<StatusPublisher>) -> anyhow::Result<Self> {
        let (requests, heard) = sync_channel(LINES);
        let (listener, socket) = SocketFile::bind("circuits_from", &from.0, RIGHTS, UnixListener::bind)?;
        let ear = Ear { listener, clients: Vec::new(), requests, engine };
        privilege::talker("circuits", None, move || ear.hear())?;
        Ok(Self { heard, socket })
    }

    /// Requests since the last call, no more than a few at once: packets wait meanwhile.
    pub fn heard(&self) -> impl Iterator<Item = Request> {
        self.heard.try_iter().take(LINES)
    }

    /// Leaves the socket's name to the process that has taken this one's place.
    pub fn leave(self) {
        self.socket.leave();
    }
}

/// Connection of a client, and the bytes received of a line that is not complete yet.
struct Client {
    stream: UnixStream,
    said: Vec<u8>,
}

/// The thread's part.
struct Ear {
    listener: UnixListener,
    clients: Vec<Client>,
    requests: SyncSender<Request>,
    engine: Arc<StatusPublisher>,
}

/// The engine is gone.
struct Deaf;

impl Ear {
    fn hear(mut self) {
        loop {
            let listener = std::iter::once(self.listener.as_fd());
            let fds = listener.chain(self.clients.iter().map(|client| client.stream.as_fd()));
            let mut fds: Vec<_> = fds.map(|fd| PollFd::new(fd, PollFlags::POLLIN)).collect();
            if poll(&mut fds, PollTimeout::NONE).is_err() {
                // Not to be expected, and no reason to be busy.
                std::thread::sleep(PATIENCE);
            }
            let ready: Vec<bool> = fds.iter().map(|fd| fd.any().unwrap_or(false)).collect();
            for at in (0..self.clients.len()).rev().filter(|at| ready[at + 1]) {
                match self.serve(at) {
                    Ok(true) => {}
                    Ok(false) => drop(self.clients.swap_remove(at)),
                    Err(Deaf) => return,
                }
            }
            if ready[0]
                && let Ok((stream, _)) = self.listener.accept()
            {
                self.welcome(stream);
            }
        }
    }

    fn welcome(&mut self, mut stream: UnixStream) {
        let limits = stream.set_read_timeout(Some(PATIENCE)).and(stream.set_write_timeout(Some(PATIENCE)));
        if limits.is_err() {
            return;
        }
        if self.clients.len() >= CLIENTS {
            let _ = writeln!(stream, "error {CLIENTS} clients are connected already");
            return;
        }
        self.clients.push(Client { stream, said: Vec::new() });
    }

    /// Hears what a client has said and answers it. `false` if it is gone, or is to go.
    fn serve(&mut self, at: usize) -> Result<bool, Deaf> {
        let mut buffer = [0; LINE];
        let client = &mut self.clients[at];
        match client.stream.read(&mut buffer) {
            Ok(0) => {
                // The last line need not end.
                let rest = std::mem::take(&mut client.said);
                return self.answer(at, &[rest]).map(|_| false);
            }
            Ok(n) => client.said.extend_from_slice(&buffer[..n]),
            Err(error) if error.kind() == ErrorKind::Interrupted => return Ok(true),
            Err(_) => return Ok(false),
        }
        let mut lines: Vec<Vec<u8>> = client.said.split(|byte| *byte == b'\n').map(<[u8]>::to_vec).collect();
        client.said = lines.pop().unwrap_or_default();
        if client.said.len() > LINE {
            let _ = writeln!(client.stream, "error a line has at most {LINE} bytes");
            return Ok(false);
        }
        for some in lines.chunks(LINES) {
            if !self.answer(at, some)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Has the engine take what these lines say, and answers each. `false` if the client does not take the answer.
    fn answer(&mut self, at: usize, lines: &[Vec<u8>]) -> Result<bool, Deaf> {
        let mut under_way = Vec::new();
        for line in lines {
            let (answer, answered) = sync_channel(1);
            match Change::parse(&String::from_utf8_lossy(line)) {
                Ok(None) => continue,
                Ok(Some(change)) => {
                    self.requests.send(Request { change, answer }).map_err(|_| Deaf)?;
                    self.engine.nudge();
                }
                Err(problem) => drop(answer.send(Err(problem))),
            }
            under_way.push(answered);
        }
        let mut text = String::new();
        for answered in under_way {
            let outcome = answered.recv_timeout(PATIENCE).unwrap_or(Err("the box does not answer".into()));
            let (word, what) = outcome.map_or_else(|why| ("error", why), |what| ("ok", what));
            text.push_str(&format!("{word} {what}\n"));
        }
        Ok(self.clients[at].stream.write_all(text.as_bytes()).is_ok())
    }
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead as _, BufReader};
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn a_socket_by_its_path() {
        assert_eq!("unix:/run/c.sock".parse(), "/run/c.sock".parse::<CircuitsFrom>());
        assert!("unix:".parse::<CircuitsFrom>().is_err() && "".parse::<CircuitsFrom>().is_err());
    }

    #[test]
    fn each_line_is_answered_with_one() {
        let dir = narrows_testing::Scratch::new("circuits-from");
        let path = dir.join("c.sock");
        let from: CircuitsFrom = path.display().to_string().parse().unwrap();
        let news = CircuitNews::listen(&from, StatusPublisher::new().unwrap()).unwrap();
        let mode = std::fs::metadata(&path).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o660);
        let mut client = UnixStream::connect(&path).unwrap();
        // In pieces, and with what says nothing.
        client.write_all(b"# hello\n\ncircuit a 10.0.0.1\ncircuit b 10.0.0.2 1mbit").unwrap();
        let mut answers = BufReader::new(client.try_clone().unwrap()).lines();
        let request = news.heard.recv_timeout(Duration::from_secs(30)).unwrap();
        request.answer(Ok("as you say".into()));
        assert_eq!(answers.next().unwrap().unwrap(), "ok as you say");
        client.write_all(b" 1mbit\nnonsense\ngone a\n").unwrap();
        for why in ["no room", "nothing"] {
            news.heard.recv_timeout(Duration::from_secs(30)).unwrap().answer(Err(why.into()));
        }
        let said: Vec<_> = answers.by_ref().take(3).map(Result::unwrap).collect();
        assert_eq!((&*said[0], &*said[2]), ("error no room", "error nothing"));
        assert!(said[1].starts_with("error no name of up to"), "{said:?}");
        // A client without end is sent away, and others are served.
        let mut endless = UnixStream::connect(&path).unwrap();
        let _ = endless.write_all(&[b'x'; 3 * LINE]);
        let mut refused = String::new();
        let _ = BufReader::new(endless).read_line(&mut refused);
        assert_eq!(refused, format!("error a line has at most {LINE} bytes\n"));
        let many: Vec<_> = (0..CLIENTS).map(|_| UnixStream::connect(&path).unwrap()).collect();
        let mut last = String::new();
        BufReader::new(many.last().unwrap()).read_line(&mut last).unwrap();
        assert_eq!(last, format!("error {CLIENTS} clients are connected already\n"));
        drop(many);
        // The last line of a client that hangs up counts.
        client.write_all(b"gone b").unwrap();
        client.shutdown(std::net::Shutdown::Write).unwrap();
        let request = news.heard.recv_timeout(Duration::from_secs(30)).unwrap();
        assert!(matches!(&request.change, Change::Gone { name, .. } if name == "b"));
        request.answer(Ok("gone b".into()));
        assert_eq!(answers.next().unwrap().unwrap(), "ok gone b");
        drop(news);
        assert!(!path.exists());
        std::fs::write(&path, "").unwrap();
        let taken = CircuitNews::listen(&from, StatusPublisher::new().unwrap()).unwrap_err();
        assert!(taken.to_string().contains("something else has that name"));
    }
}
