//! Finished runs, each in a folder named by its key.

use std::collections::BTreeMap;
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use narrows_sim::{Results, Table};
use serde::{Deserialize, Serialize};

use crate::parquet::ColumnType;
use crate::{ENGINE, Error, Job, VERSION, csv, parquet};

/// The folder `runs`.
#[derive(Debug)]
pub(crate) struct Store(PathBuf);

/// A run that is done.
#[derive(Clone, Debug)]
pub(crate) struct Finished {
    /// Figures of the run, by name.
    pub(crate) summary: BTreeMap<String, f64>,
    /// Rows of each table.
    pub(crate) rows: BTreeMap<String, u64>,
}

/// Content of `run.json`, which is written last and so vouches for the other files.
#[derive(Serialize, Deserialize)]
struct Record {
    narrows: String,
    engine: String,
    seed: u64,
    /// Rows of each table.
    tables: BTreeMap<String, u64>,
    /// Bytes of each file.
    files: BTreeMap<String, u64>,
}

impl Store {
    /// Opens `dir`, and removes what a crash left half done.
    pub(crate) fn open(dir: PathBuf) -> Result<Self, Error> {
        fs::create_dir_all(&dir).map_err(Error::io("making", &dir))?;
        for entry in fs::read_dir(&dir).map_err(Error::io("reading", &dir))?.flatten() {
            if entry.path().extension().is_some_and(|e| e == "half") {
                fs::remove_dir_all(entry.path()).map_err(Error::io("removing", &entry.path()))?;
            }
        }
        Ok(Self(dir))
    }

    /// Folder of a run's files.
    pub(crate) fn folder(&self, key: &str) -> PathBuf {
        self.0.join(key)
    }

    /// Figures and numbers of rows of a run, if the run is finished and whole.
    pub(crate) fn find(&self, key: &str) -> Option<Finished> {
        let folder = self.folder(key);
        let record: Record = serde_json::from_slice(&fs::read(folder.join("run.json")).ok()?).ok()?;
        let whole =
            |(name, bytes): (&String, &u64)| fs::metadata(folder.join(name)).is_ok_and(|m| m.len() == *bytes);
        if !record.files.iter().all(whole) {
            return None;
        }
        let summary = fs::read_to_string(folder.join("summary.csv")).ok()?;
        let figures = summary.lines().skip(1).map(|line| {
            let (name, value) = line.split_once(',')?;
            Some((name.to_owned(), csv::read_number(value)?))
        });
        Some(Finished { summary: figures.collect::<Option<_>>()?, rows: record.tables })
    }

    /// Forgets a run.
    pub(crate) fn remove(&self, key: &str) -> Result<(), Error> {
        let folder = self.folder(key);
        match fs::remove_dir_all(&folder) {
            Err(why) if why.kind() != std::io::ErrorKind::NotFound => {
                Err(Error::io("removing", &folder)(why))
            }
            _ => Ok(()),
        }
    }

    /// Keeps what a run gave.
    pub(crate) fn put(&self, job: &Job, results: &Results) -> Result<Finished, Error> {
        let half = self.0.join(format!("{}.half", job.key));
        fs::create_dir_all(&half).map_err(Error::io("making", &half))?;
        let finished = write_run(&half, job, results).inspect_err(|_| {
            // Leaves room for others; if it cannot be removed, the next start tries again.
            let _ = fs::remove_dir_all(&half);
        })?;
        // A folder under the final name was found incomplete before, so it goes.
        self.remove(&job.key)?;
        let folder = self.folder(&job.key);
        fs::rename(&half, &folder).map_err(Error::io("renaming to", &folder))?;
        Ok(finished)
    }
}

/// A table of a finished run, if the run has it.
///
/// # Errors
/// If its file cannot be read.
pub fn table(out: &Path, job: &Job, name: &str) -> Result<Option<Table>, Error> {
    let path = out.join("runs").join(&job.key).join(format!("{name}.parquet"));
    if !path.exists() {
        return Ok(None);
    }
    let columns =
        parquet::Reader::open(&path).and_then(|r| r.read()).map_err(Error::parquet("reading", &path))?;
    Ok(Some(Table { name: name.to_owned(), columns }))
}

fn write_run(folder: &Path, job: &Job, results: &Results) -> Result<Finished, Error> {
    let mut names = vec!["scenario.toml".to_owned(), "summary.csv".to_owned()];
    write(&folder.join("scenario.toml"), job.scenario.text.as_bytes())?;
    write_summary(&folder.join("summary.csv"), &results.summary)?;
    let mut rows = BTreeMap::new();
    for table in &results.tables {
        let name = format!("{}.parquet", table.name);
        write_table(&folder.join(&name), table, job)?;
        let count = table.columns.first().map_or(0, |c| parquet::rows(&c.data));
        rows.insert(table.name.clone(), count as u64);
        names.push(name);
    }
    for (link, bytes) in &results.captures {
        // A link may be called anything.
        let safe = |c: char| if c.is_ascii_alphanumeric() || ".-_".contains(c) { c } else { '_' };
        let name = format!("{}.pcap", link.chars().map(safe).collect::<String>());
        write(&folder.join(&name), bytes)?;
        names.push(name);
    }
    if let Some(text) = &results.qlog {
        write(&folder.join("connections.qlog"), text.as_bytes())?;
        names.push("connections.qlog".to_owned());
    }
    let mut files = BTreeMap::new();
    for name in names {
        let path = folder.join(&name);
        let size = fs::metadata(&path).map_err(Error::io("reading", &path))?.len();
        files.insert(name, size);
    }
    let record = Record {
        narrows: VERSION.to_owned(),
        engine: ENGINE.to_owned(),
        seed: job.seed,
        tables: rows.clone(),
        files,
    };
    let path = folder.join("run.json");
    let text = serde_json::to_string_pretty(&record).map_err(Error::io("writing", &path))?;
    write(&path, format!("{text}\n").as_bytes())?;
    Ok(Finished { summary: results.summary.clone(), rows })
}

fn write(path: &Path, bytes: &[u8]) -> Result<(), Error> {
    let written = fs::File::create(path).and_then(|mut file| file.write_all(bytes));
    written.map_err(Error::io("writing", path))
}

fn write_summary(path: &Path, summary: &BTreeMap<String, f64>) -> Result<(), Error> {
    let mut text = String::from("figure,value\n");
    for (name, value) in summary {
        text.push_str(&format!("{name},{}\n", csv::number(*value)));
    }
    write(path, text.as_bytes())
}

fn write_table(path: &Path, table: &Table, job: &Job) -> Result<(), Error> {
    let columns: Vec<(String, ColumnType)> =
        table.columns.iter().map(|c| (c.name.clone(), ColumnType::of(&c.data))).collect();
    let seed = job.seed.to_string();
    let about =
        [("narrows", VERSION), ("engine", ENGINE), ("seed", &seed), ("scenario", job.scenario.text.as_str())];
    let rows = table.columns.first().map_or(0, |c| parquet::rows(&c.data)) as u64;
    let written = parquet::Writer::create(path, &columns, &about, rows).and_then(|mut writer| {
        writer.append(table.columns.iter().map(|c| c.data.clone()).collect())?;
        writer.close()
    });
    written.map_err(Error::parquet("writing", path))
}
