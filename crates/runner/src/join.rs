//! The tables of all runs as one: coordinates and seed in front, run after run, of large tables one run in memory at a
//! time.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use narrows_sim::{Column, Data};

use crate::manifest::File;
use crate::parquet::{ColumnType, Reader};
use crate::store::{Finished, Store};
use crate::{ENGINE, Error, Job, RunPlan, VERSION, csv, folder, parquet};

/// Tables with more rows are written as Parquet alone: as CSV they would fill disks, and no one reads them by eye.
const MOST_CSV_ROWS: u64 = 500_000;

/// Most rows of a table of all runs that is held in memory as a whole while it is joined.
const MOST_READ_ROWS: u64 = 500_000;

/// The runs that are joined.
#[derive(Clone, Copy)]
pub(crate) struct Runs<'a> {
    pub(crate) plan: &'a RunPlan,
    pub(crate) store: &'a Store,
    /// Finished runs, in the plan's order.
    pub(crate) finished: &'a [Finished],
}

/// Writes `summary` and every table, and says what was written.
pub(crate) fn all(out: &Path, runs: Runs<'_>, stop: &AtomicBool) -> Result<BTreeMap<String, File>, Error> {
    let Runs { plan, finished, .. } = runs;
    let mut files = BTreeMap::new();
    summary(out, plan, finished, &mut files)?;
    let tables: BTreeSet<&String> = finished.iter().flat_map(|f| f.rows.keys()).collect();
    for name in tables {
        table(out, runs, name, stop, &mut files)?;
    }
    Ok(files)
}

/// Writes the joint summary, a row for each run.
fn summary(
    out: &Path,
    plan: &RunPlan,
    finished: &[Finished],
    files: &mut BTreeMap<String, File>,
) -> Result<(), Error> {
    let figures: BTreeSet<&String> = finished.iter().flat_map(|f| f.summary.keys()).collect();
    let columns = figures.iter().map(|name| ((*name).clone(), ColumnType::F64)).collect();
    let mut joint = Joint::create(out, plan, "summary", columns, finished.len() as u64)?;
    for (job, run) in plan.jobs.iter().zip(finished) {
        let value = |name: &&String| Data::F64(vec![run.summary.get(*name).copied().unwrap_or(f64::NAN)]);
        joint.append(job, 1, figures.iter().map(value).collect())?;
    }
    joint.close(files)
}

fn table(
    out: &Path,
    runs: Runs<'_>,
    name: &str,
    stop: &AtomicBool,
    files: &mut BTreeMap<String, File>,
) -> Result<(), Error> {
    let Runs { plan, store, finished } = runs;
    let with: Vec<(&Job, &u64)> =
        plan.jobs.iter().zip(finished).filter_map(|(job, f)| Some((job, f.rows.get(name)?))).collect();
    let path = |job: &Job| store.folder(&job.key).join(format!("{name}.parquet"));
    let rows = with.iter().map(|(_, rows)| **rows).sum();
    let mut columns: Vec<(String, ColumnType)> = Vec::new();
    let mut in_runs: BTreeMap<String, usize> = BTreeMap::new();
    // Opening a file costs more than reading a small one, so small ones are opened once.
    let mut read: VecDeque<Vec<Column>> = VecDeque::new();
    for (job, _) in &with {
        let path = path(job);
        let opened = Reader::open(&path).and_then(|reader| {
            let columns = reader.columns()?;
            if rows <= MOST_READ_ROWS {
                read.push_back(reader.read()?);
            }
            Ok(columns)
        });
        let these = opened.map_err(Error::parquet("reading", &path))?;
        for (name, kind) in these {
            *in_runs.entry(name.clone()).or_default() += 1;
            match columns.iter_mut().find(|c| c.0 == name) {
                None => columns.push((name, kind)),
                Some(known) => known.1 = known.1.wider(kind),
            }
        }
    }
    for (name, kind) in &mut columns {
        // Whole numbers have no value that says there is none.
        if *kind == ColumnType::U64 && in_runs[name.as_str()] < with.len() {
            *kind = ColumnType::F64;
        }
    }
    let mut joint = Joint::create(out, plan, name, columns.clone(), rows)?;
    for (job, rows) in with {
        if stop.load(Ordering::Relaxed) {
            return Err(Error::Stopped { done: finished.len(), total: plan.jobs.len() });
        }
        let path = path(job);
        let read = match read.pop_front() {
            Some(read) => read,
            None => Reader::open(&path).and_then(|r| r.read()).map_err(Error::parquet("reading", &path))?,
        };
        let rows = usize::try_from(*rows).unwrap_or(usize::MAX);
        joint.append(job, rows, aligned(read, &columns, rows))?;
    }
    joint.close(files)
}

/// Columns of a run in the order and with the types of the joint table.
fn aligned(mut read: Vec<Column>, columns: &[(String, ColumnType)], rows: usize) -> Vec<Data> {
    let of_run = |(name, kind): &(String, ColumnType)| match read.iter().position(|c| c.name == *name) {
        Some(at) => kind.convert(read.swap_remove(at).data),
        None => kind.nothing(rows),
    };
    columns.iter().map(of_run).collect()
}

/// A joint table under construction, in both forms.
struct Joint<'a> {
    out: &'a Path,
    name: &'a str,
    columns: Vec<String>,
    axes: Vec<ColumnType>,
    rows: u64,
    parquet: parquet::Writer,
    csv: Option<csv::Writer>,
}

impl<'a> Joint<'a> {
    fn create(
        out: &'a Path,
        plan: &RunPlan,
        name: &'a str,
        columns: Vec<(String, ColumnType)>,
        rows: u64,
    ) -> Result<Self, Error> {
        let axes: Vec<ColumnType> = plan.axes.iter().map(|a| ColumnType::of_words(&a.values)).collect();
        let mut all: Vec<(String, ColumnType)> = Vec::new();
        for (axis, kind) in
            plan.axes.iter().map(|a| a.name.as_str()).zip(&axes).chain([("seed", &ColumnType::U64)])
        {
            // A column of the table may have the name of an axis, as `link`.
            let own = columns.iter().any(|(name, _)| name == axis);
            all.push((if own { format!("sweep.{axis}") } else { axis.to_owned() }, *kind));
        }
        all.extend(columns);
        let about = [
            ("narrows", VERSION),
            ("engine", ENGINE),
            ("command", &plan.command),
            ("hash", &plan.hash()),
            ("scenario", &plan.text),
        ];
        let path = out.join(format!("{name}.parquet"));
        let parquet = parquet::Writer::create(&folder::half(&path), &all, &about, rows)
            .map_err(Error::parquet("writing", &path))?;
        let path = out.join(format!("{name}.csv"));
        let csv = (rows <= MOST_CSV_ROWS)
            .then(|| csv::Writer::create(&folder::half(&path), all.iter().map(|(n, _)| n.as_str())))
            .transpose()
            .map_err(Error::io("writing", &path))?;
        let columns = all.into_iter().map(|(name, _)| name).collect();
        Ok(Self { out, name, columns, axes, rows: 0, parquet, csv })
    }

    /// Adds the rows of a run.
    fn append(&mut self, job: &Job, rows: usize, columns: Vec<Data>) -> Result<(), Error> {
        let mut all: Vec<Data> =
            self.axes.iter().zip(&job.coords).map(|(kind, value)| kind.repeat(value, rows)).collect();
        all.push(Data::U64(vec![job.seed; rows]));
        all.extend(columns);
        if let Some(csv) = &mut self.csv {
            let path = self.out.join(format!("{}.csv", self.name));
            csv.append(&all).map_err(Error::io("writing", &path))?;
        }
        self.rows += rows as u64;
        let path = self.out.join(format!("{}.parquet", self.name));
        self.parquet.append(all).map_err(Error::parquet("writing", &path))
    }

    fn close(self, files: &mut BTreeMap<String, File>) -> Result<(), Error> {
        let path = |end: &str| self.out.join(format!("{}.{end}", self.name));
        let mut settle = |end: &str| {
            let file = File { rows: self.rows, columns: self.columns.clone() };
            files.insert(format!("{}.{end}", self.name), file);
            folder::settle(&path(end))
        };
        self.parquet.close().map_err(Error::parquet("writing", &path("parquet")))?;
        settle("parquet")?;
        if let Some(csv) = self.csv {
            csv.close().map_err(Error::io("writing", &path("csv")))?;
            settle("csv")?;
        }
        Ok(())
    }
}
