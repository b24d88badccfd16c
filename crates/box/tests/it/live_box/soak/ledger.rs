//! Events of a run, a line each in a file, so that an interrupted run goes on.

use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// One event.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Record {
    pub event: String,
    pub seconds: f64,
    /// Datagrams.
    pub sent: u64,
    pub lost: u64,
    /// Packets that the box has dropped and that may have been datagrams, as far as it is still there to tell.
    pub verdicts: u64,
    pub datagram_gap_ms: u64,
    pub flow_gap_ms: u64,
    /// Goodput of all connections.
    pub kbps: u64,
    /// Packets a second of a flood.
    pub flood_pps: u64,
    /// Packets that this box has let by unqueued since it began.
    pub unseen: u64,
    /// Connections that broke since the beginning.
    pub broken: u64,
    /// Memory and descriptors of the box and its watchdog, after the event.
    pub memory_kb: u64,
    pub descriptors: u64,
}

impl Record {
    /// Datagrams lost that no verdict explains.
    pub const fn beyond(&self) -> u64 {
        self.lost.saturating_sub(self.verdicts)
    }
}

/// Resident memory in kB, and open descriptors of these processes.
pub fn gauges(processes: &[u32]) -> (u64, u64) {
    let of = |pid: &u32| {
        let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        let memory = line.and_then(|l| l.split_whitespace().next()?.parse::<u64>().ok());
        let open = std::fs::read_dir(format!("/proc/{pid}/fd")).map_or(0, Iterator::count);
        (memory.unwrap_or(0), open as u64)
    };
    processes.iter().map(of).fold((0, 0), |a, b| (a.0 + b.0, a.1 + b.1))
}

/// All events so far.
pub struct Ledger {
    file: File,
    records: Vec<Record>,
}

impl Ledger {
    /// With what an interrupted run has left.
    pub fn open() -> Self {
        let path = std::env::var_os("SOAK_FILE").map_or_else(|| "out/soak.jsonl".into(), PathBuf::from);
        if let Some(dir) = path.parent() {
            std::fs::create_dir_all(dir).unwrap();
        }
        let mut file = OpenOptions::new().create(true).read(true).append(true).open(&path).unwrap();
        let mut text = String::new();
        file.read_to_string(&mut text).unwrap();
        let records: Vec<Record> = text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
        if !records.is_empty() {
            println!("{} events of {} count; to begin anew remove it", records.len(), path.display());
        }
        Self { file, records }
    }

    pub fn records(&self) -> &[Record] {
        &self.records
    }

    pub fn seconds(&self) -> f64 {
        self.records.iter().map(|record| record.seconds).sum()
    }

    /// Keeps an event, and says how far it is.
    pub fn add(&mut self, record: Record, of: f64) {
        writeln!(self.file, "{}", serde_json::to_string(&record).unwrap()).unwrap();
        println!(
            "{:>6.0} of {of:.0} s  {:<24} lost {}, gaps {} and {} ms, {} kbit/s, {} kB",
            self.seconds() + record.seconds,
            record.event,
            record.lost,
            record.datagram_gap_ms,
            record.flow_gap_ms,
            record.kbps,
            record.memory_kb
        );
        self.records.push(record);
    }
}
