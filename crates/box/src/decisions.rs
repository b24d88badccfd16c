//! File of what shapers that follow their link decide ([`Decision`]), written without waiting for a disk.
//!
//! The file is opened before privileges are given up, and a second one for the lines before. When the file has half of
//! the room for both, its lines are moved into the second, in place of what stood there: so nothing has to be made or
//! renamed later, in whatever folder the files are, and both together never take more than the room.

use std::fs::{File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{FileExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant as Clock, SystemTime};

use anyhow::{Context as _, ensure};
use narrows_qdisc::Direction;
use narrows_qdisc::follow::Decision;

use super::clock;
use super::log::{Log, Notice, Voice};
use super::privilege::{self, Identity};
use super::settings::Settings;

/// Decisions that may wait to be written; more are lost, and counted.
const WAITING: usize = 256;
/// Time that the disk has for what was decided last.
const LAST_WORDS: Duration = Duration::from_secs(1);
/// Least time between two warnings about the file.
const WARNINGS: Duration = Duration::from_secs(60);
/// Bytes that are moved at once.
const PIECE: usize = 64 << 10;
/// Columns by which a file of another version is known.
const BEGIN: &str = "time_s,link,";

/// A decision on its way to the file.
struct Line {
    time_s: f64,
    link: Arc<str>,
    decision: Decision,
}

/// Thread that writes decisions.
pub struct DecisionLog {
    tell: SyncSender<Line>,
    lost: Arc<AtomicU64>,
    thread: JoinHandle<()>,
}

/// Way of a link's decisions to the file.
pub struct DecisionWriter {
    tell: SyncSender<Line>,
    lost: Arc<AtomicU64>,
    /// Names of the directions, down and up.
    names: [Arc<str>; 2],
}

impl DecisionLog {
    /// Opens the file that the settings name, if they do, and starts a thread that writes it and is this user's.
    ///
    /// # Errors
    /// If the file cannot be opened or is no file of decisions, or the kernel has no thread left.
    pub fn start(settings: &Settings, user: Option<Identity>, log: &Log) -> anyhow::Result<Option<Self>> {
        let Some(path) = &settings.decisions else { return Ok(None) };
        let file = DecisionFile::open(path, u64::from(settings.decisions_mb) * 1_000_000)?;
        let (tell, told) = sync_channel(WAITING);
        let lost = Arc::new(AtomicU64::new(0));
        let (uncounted, voice) = (lost.clone(), log.voice());
        let thread =
            privilege::talker("decisions", user, move || write_all(file, &told, &uncounted, &voice))?;
        Ok(Some(Self { tell, lost, thread }))
    }

    /// Way to the file for a link; `link` is its name, if it has one.
    pub fn writer(&self, link: Option<&str>) -> DecisionWriter {
        let name = |direction: Direction| match link {
            Some(link) => format!("{link} {}", direction.name()).into(),
            None => direction.name().into(),
        };
        DecisionWriter { tell: self.tell.clone(), lost: self.lost.clone(), names: Direction::BOTH.map(name) }
    }

    /// Waits for what was decided last, for a moment.
    pub fn finish(self) {
        drop(self.tell);
        let until = Clock::now() + LAST_WORDS;
        while !self.thread.is_finished() && Clock::now() < until {
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

impl DecisionWriter {
    /// Has a decision written, soon or not at all.
    pub fn write(&self, direction: Direction, decision: Decision) {
        let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let ago = clock::now().since(decision.at);
        let time_s = since.as_secs_f64() - ago.as_secs_f64();
        let line = Line { time_s, link: self.names[direction as usize].clone(), decision };
        if self.tell.try_send(line).is_err() {
            self.lost.fetch_add(1, Ordering::Relaxed);
        }
    }
}

fn write_all(mut file: DecisionFile, told: &Receiver<Line>, lost: &AtomicU64, voice: &Voice) {
    let mut warned: Option<Clock> = None;
    for line in told {
        let written = file.write(&line.decision.line(line.time_s, &line.link));
        let missing = lost.swap(0, Ordering::Relaxed) + u64::from(written.is_err());
        if missing == 0 {
            continue;
        }
        if warned.is_some_and(|at| at.elapsed() < WARNINGS) {
            // Told with the next warning.
            lost.fetch_add(missing, Ordering::Relaxed);
            continue;
        }
        warned = Some(Clock::now());
        let why = written.map_or_else(|error| error.to_string(), |()| "the disk takes too long".to_owned());
        let path = file.path.display();
        voice.say(Notice::Warning(format!("decisions = {path}: {missing} lines were not written: {why}")));
    }
}

/// The file and the one before it.
struct DecisionFile {
    path: PathBuf,
    now: File,
    before: File,
    /// Most bytes of each.
    half: u64,
}

impl DecisionFile {
    /// Opens the file and the one before it, for at most `room` bytes together; begins the file if it is new or of
    /// another version.
    fn open(path: &Path, room: u64) -> anyhow::Result<Self> {
        let mut second = path.as_os_str().to_owned();
        second.push(".1");
        let open = |path: &Path| {
            open(path).with_context(|| format!("decisions = {}: cannot write it", path.display()))
        };
        let (now, before) = (open(path)?, open(Path::new(&second))?);
        let mut file = Self { path: path.to_owned(), now, before, half: room / 2 };
        file.go_on().with_context(|| format!("decisions = {}: cannot write it", path.display()))?;
        Ok(file)
    }

    /// Goes on with what is in the file, if it has the columns of this version.
    fn go_on(&mut self) -> io::Result<()> {
        let header = Decision::header();
        let mut first = vec![0; header.len()];
        let read = self.now.read_at(&mut first, 0)?;
        if first[..read] == *header.as_bytes() { Ok(()) } else { self.begin() }
    }

    /// Writes a line.
    fn write(&mut self, line: &str) -> io::Result<()> {
        if self.now.metadata()?.len() + line.len() as u64 > self.half {
            self.begin()?;
        }
        let before = self.now.metadata()?.len();
        // A disk that is full may take a part of it: then none of it stays.
        self.now.write_all(line.as_bytes()).inspect_err(|_| drop(self.now.set_len(before)))
    }

    /// Moves all lines into the file before, in place of what stands there, and begins anew.
    fn begin(&mut self) -> io::Result<()> {
        let length = self.now.metadata()?.len();
        if length > 0 {
            self.before.set_len(0)?;
        }
        let (mut piece, mut at) = (vec![0; PIECE], 0);
        while at < length.min(self.half) {
            let read = self.now.read_at(&mut piece, at)?;
            if read == 0 {
                break;
            }
            self.before.write_all(&piece[..read])?;
            at += read as u64;
        }
        self.now.set_len(0)?;
        self.now.write_all(Decision::header().as_bytes())
    }
}

/// Opens a file to append to, which is new, empty, or one of decisions: a mistyped name spoils nothing.
fn open(path: &Path) -> anyhow::Result<File> {
    let mut options = OpenOptions::new();
    // Not to follow a link that somebody else has put there, nor to wait for the other end of a pipe.
    options
        .read(true)
        .append(true)
        .create(true)
        .mode(0o644)
        .custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK);
    let file = options.open(path)?;
    let found = file.metadata()?;
    ensure!(found.is_file() && found.nlink() <= 1, "expected a file of its own, not a link or a device");
    let mut begin = [0; BEGIN.len()];
    let read = file.read_at(&mut begin, 0)?;
    ensure!(
        read == 0 || begin == *BEGIN.as_bytes(),
        "it holds something else: expected a new file or one of decisions"
    );
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(n: u64) -> String {
        Decision::default().line(n as f64, "down")
    }

    #[test]
    fn both_files_together_stay_within_their_room_and_hold_the_last_lines() {
        let folder = narrows_testing::Scratch::new("decisions-room");
        let (path, second) = (folder.join("auto.csv"), folder.join("auto.csv.1"));
        let mut file = DecisionFile::open(&path, 20_000).unwrap();
        for n in 0..1000 {
            file.write(&line(n)).unwrap();
            let sizes = [&path, &second].map(|path| std::fs::metadata(path).unwrap().len());
            assert!(sizes.iter().all(|size| *size <= 10_000), "{sizes:?}");
        }
        let text = [&second, &path].map(|path| std::fs::read_to_string(path).unwrap());
        assert!(text.iter().all(|text| text.starts_with(&Decision::header())));
        let all = narrows_qdisc::follow::read_decisions(&text.concat()).unwrap();
        let times: Vec<u64> = all.iter().map(|d| d.time_s as u64).collect();
        assert!(times.len() > 100 && times.windows(2).all(|two| two[1] == two[0] + 1), "{times:?}");
        assert_eq!(times.last(), Some(&999));
    }

    #[test]
    fn the_next_start_goes_on_and_another_version_is_moved_away() {
        let folder = narrows_testing::Scratch::new("decisions-again");
        let (path, second) = (folder.join("auto.csv"), folder.join("auto.csv.1"));
        DecisionFile::open(&path, 20_000).unwrap().write(&line(1)).unwrap();
        DecisionFile::open(&path, 20_000).unwrap().write(&line(2)).unwrap();
        let text = std::fs::read_to_string(&path).unwrap();
        assert_eq!(text, Decision::header() + &line(1) + &line(2));
        std::fs::write(&path, "time_s,link,other\n1,down,x\n").unwrap();
        DecisionFile::open(&path, 20_000).unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), Decision::header());
        assert_eq!(std::fs::read_to_string(&second).unwrap(), "time_s,link,other\n1,down,x\n");
    }

    #[test]
    fn what_is_no_file_of_decisions_is_not_touched() {
        let folder = narrows_testing::Scratch::new("decisions-other");
        let (path, other) = (folder.join("auto.csv"), folder.join("other"));
        let error = |path: &Path| DecisionFile::open(path, 20_000).err().map(|error| format!("{error:#}"));
        std::fs::write(&path, "root:x:0:0\n").unwrap();
        assert!(error(&path).unwrap().contains("auto.csv: cannot write it: it holds something else"));
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "root:x:0:0\n");
        std::fs::remove_file(&path).unwrap();
        std::fs::write(&other, "").unwrap();
        std::os::unix::fs::symlink(&other, &path).unwrap();
        assert!(error(&path).is_some(), "a link");
        std::fs::remove_file(&path).unwrap();
        std::fs::hard_link(&other, &path).unwrap();
        assert!(error(&path).unwrap().contains("expected a file of its own"));
        assert!(error(&folder.join("none/auto.csv")).unwrap().contains("none/auto.csv: cannot write it"));
    }

    /// A disk that is full for a while: lines are lost and counted, and the file goes on.
    #[test]
    fn lines_that_cannot_be_written_are_told() {
        let (seen, all) = std::sync::mpsc::channel();
        let log = Log::start(None, move |notice| seen.send(notice).unwrap()).unwrap();
        let full = || OpenOptions::new().append(true).open("/dev/full").unwrap();
        let file = DecisionFile { path: "auto.csv".into(), now: full(), before: full(), half: 1000 };
        let (tell, told) = sync_channel(8);
        for n in 0..3 {
            let decision = Decision::default();
            assert!(tell.try_send(Line { time_s: f64::from(n), link: "down".into(), decision }).is_ok());
        }
        drop(tell);
        let lost = AtomicU64::new(2);
        write_all(file, &told, &lost, &log.voice());
        log.finish();
        let warnings: Vec<Notice> = all.try_iter().collect();
        let [Notice::Warning(text)] = &warnings[..] else { panic!("{warnings:?}") };
        assert!(text.starts_with("decisions = auto.csv: 3 lines were not written"), "{text}");
        assert_eq!(lost.load(Ordering::Relaxed), 2, "two more, told with the next warning");
    }
}
