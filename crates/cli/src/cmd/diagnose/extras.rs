//! Output of a diagnosis beside the page: pictures, tables in Parquet, and the answer to `--what-if`.

use std::path::PathBuf;

use anyhow::{Context as _, ensure};
use narrows_diagnose::{ColumnValues, FlowReport, Overall, Tables, Trace};
use narrows_runner::TableFile;
use narrows_sim::{Column, Data};
use narrows_units::Instant;
use narrows_wire::Header;
use serde_json::Value;

mod bars;
mod colours;
mod decided;
mod sequence;
mod slow_link;
pub mod what_if;

use super::decisions::Decisions;
use slow_link::SlowLink;
use what_if::WhatIf;

/// Options.
#[derive(clap::Args)]
#[group(id = "diagnosis_extras")]
pub struct Args {
    /// Draw all connections as bars in time, stalls coloured by cause; with --flow, the packets of that connection by
    /// their sequence numbers. The file's name ends in .svg or .png
    #[arg(long, value_name = "FILE")]
    picture: Option<PathBuf>,
    /// Draw the slow link's rate over time, and where its queue stood, as `auto` would have found them here; of files
    /// of decisions what it found, and why. The file's name ends in .svg or .png
    #[arg(long, value_name = "FILE", conflicts_with = "flow")]
    link: Option<PathBuf>,
    /// Write flows.parquet and stalls.parquet into this folder
    #[arg(long, value_name = "FOLDER")]
    parquet: Option<PathBuf>,
    #[command(flatten)]
    what_if: what_if::Args,
}

/// Text that the extras add to a diagnosis.
#[derive(Default)]
pub struct Said {
    /// Remarks for standard error.
    pub remarks: Vec<String>,
    /// Lines below the page.
    pub text: String,
    /// Members of the JSON object: names and values.
    pub json: Vec<(&'static str, Value)>,
    /// Last action, taken after all output is written; may not return.
    pub last: Option<Last>,
}

/// Action that runs after all output is written.
pub type Last = Box<dyn FnOnce() -> anyhow::Result<()>>;

/// Extras of a diagnosis: pictures, tables, the answer to `--what-if`.
pub struct Extras {
    picture: Option<PathBuf>,
    /// The connection that is drawn alone.
    only: Option<u64>,
    trace: Option<Trace>,
    bars: bars::Bars,
    tables: Option<Writing>,
    link: Option<SlowLink>,
    what_if: Option<WhatIf>,
    /// Whether the fit is explored on a page.
    explores: bool,
}

/// Tables that are being written.
struct Writing {
    tables: Tables,
    files: [TableFile; 2],
    failed: Option<narrows_runner::Error>,
}

/// Rows collected before a part of a table is written.
const ROWS: u64 = 4096;
/// The time axis of pictures. The page has the same origin.
const TIME: &str = "time since the capture began, s";

impl Args {
    /// Draws decisions where a picture is wanted of them.
    ///
    /// # Errors
    /// Something else is wanted, which needs a capture; a file that cannot be written.
    pub fn draw(&self, name: &str, decisions: &Decisions) -> anyhow::Result<()> {
        let others = [
            ("--picture", self.picture.is_some()),
            ("--parquet", self.parquet.is_some()),
            ("--what-if", !self.what_if.what_if.is_empty()),
        ];
        if let Some((flag, _)) = others.into_iter().find(|(_, given)| *given) {
            anyhow::bail!("{flag}: needs a capture; {name} has decisions, which --link draws");
        }
        let Some(file) = &self.link else { return Ok(()) };
        narrows_plot::save_as(&decided::svg(name, decisions), file)
            .with_context(|| format!("--link {}", file.display()))
    }
}

impl Extras {
    pub fn new(args: &Args, only: Option<u64>) -> anyhow::Result<Self> {
        for (flag, file) in [("picture", &args.picture), ("link", &args.link)] {
            let Some(file) = file else { continue };
            let ending = file.extension().and_then(|e| e.to_str()).unwrap_or_default();
            ensure!(
                matches!(ending, "svg" | "png"),
                "--{flag} {}: expected a name in .svg or .png",
                file.display()
            );
        }
        let link = args.link.clone().map(SlowLink::new);
        let tables = match &args.parquet {
            Some(folder) => Some(Writing::create(folder)?),
            None => None,
        };
        let what_if = WhatIf::new(&args.what_if)?;
        let (picture, bars) = (args.picture.clone(), bars::Bars::default());
        let explores = args.what_if.explores();
        Ok(Self { picture, only, trace: None, bars, tables, link, what_if, explores })
    }

    /// Takes a packet, and the number of the packet's connection; `None` if the packet is not TCP.
    pub fn packet(&mut self, number: Option<u64>, at: Instant, frame: u64, header: &Header) {
        if let Some(link) = &mut self.link {
            link.packet(at, header);
        }
        if let Some(what_if) = &mut self.what_if {
            what_if.packet(number, at, header);
        }
        if number.is_none() || number != self.only || self.picture.is_none() {
            return;
        }
        if let Some(tcp) = &header.tcp {
            let trace = self.trace.get_or_insert_with(|| Trace::new(header.key));
            trace.packet(at, frame, &header.key, tcp);
        }
    }

    pub fn flow(&mut self, flow: &FlowReport) {
        if let Some(what_if) = &mut self.what_if {
            what_if.flow(flow);
        }
        if self.picture.is_some() && self.only.is_none() {
            self.bars.add(flow);
        }
        if let Some(writing) = &mut self.tables {
            writing.tables.add(flow);
            if flow.number % ROWS == ROWS - 1 {
                writing.write();
            }
        }
    }

    /// Writes what was asked for of captures with these names. Ends the analysis and gives the extra results.
    pub fn finish(self, name: &str, overall: &Overall, only: Option<&FlowReport>) -> anyhow::Result<Said> {
        let mut said = Said::default();
        let short = short(name);
        if let Some(writing) = self.tables {
            writing.close()?;
        }
        if let Some(file) = &self.picture {
            let svg = match (only, &self.trace) {
                (Some(flow), Some(trace)) => {
                    if trace.left_out() > 0 {
                        said.remarks.push(format!(
                            "{}: {} packets were too many for it",
                            file.display(),
                            trace.left_out()
                        ));
                    }
                    sequence::svg(&short, flow, trace)
                }
                _ => self.bars.svg(&short, overall),
            };
            narrows_plot::save_as(&svg, file).with_context(|| format!("--picture {}", file.display()))?;
        }
        if let Some(link) = self.link {
            let (lines, json) = link.finish(&short)?;
            said.text = lines;
            said.json.push(("link", json));
        }
        let (explored, what_if) = if self.explores { (self.what_if, None) } else { (None, self.what_if) };
        said.last = explored.map(|fitted| last(fitted, name)).transpose()?;
        if let Some(what_if) = what_if {
            let stop = crate::cmd::sim::stop_on_signal()?;
            let answer = what_if.finish(name, overall.over_s, &stop)?;
            said.text += &answer.text;
            said.json.push(("what_if", answer.json));
        }
        Ok(said)
    }
}

/// Opens the page of `narrows explore` with what was fitted to captures with these names.
#[cfg(feature = "explore")]
fn last(fitted: WhatIf, name: &str) -> anyhow::Result<Last> {
    let settings = fitted.settings(name)?;
    Ok(Box::new(move || crate::cmd::explore::open(&settings).map(drop)))
}

/// Without the page nothing explores.
#[cfg(not(feature = "explore"))]
fn last(_: WhatIf, _: &str) -> anyhow::Result<Last> {
    anyhow::bail!("this program has no page to explore with")
}

/// Names of files without their folders: the first, and how many more there are.
pub fn short(names: &str) -> String {
    let mut files = names.split(", ").map(|name| name.rsplit('/').next().unwrap_or(name));
    let first = files.next().unwrap_or_default();
    match files.count() {
        0 => first.to_owned(),
        more => format!("{first} and {more} more"),
    }
}

impl Writing {
    fn create(folder: &std::path::Path) -> anyhow::Result<Self> {
        let context = || format!("--parquet {}", folder.display());
        std::fs::create_dir_all(folder).with_context(context)?;
        let tables = Tables::default();
        let open = |table: &narrows_diagnose::ColumnTable| {
            let path = folder.join(format!("{}.parquet", table.name));
            TableFile::create(&path, &columns(table.clone()), &[("narrows", env!("CARGO_PKG_VERSION"))])
        };
        let files = [open(&tables.flows).with_context(context)?, open(&tables.stalls).with_context(context)?];
        Ok(Self { tables, files, failed: None })
    }

    fn write(&mut self) {
        let Tables { flows, stalls } = core::mem::take(&mut self.tables);
        for (file, table) in self.files.iter_mut().zip([flows, stalls]) {
            if self.failed.is_none() {
                self.failed = file.append(columns(table)).err();
            }
        }
    }

    fn close(mut self) -> anyhow::Result<()> {
        self.write();
        if let Some(why) = self.failed {
            return Err(why.into());
        }
        for file in self.files {
            file.close()?;
        }
        Ok(())
    }
}

/// Columns of a diagnosis table in the form that tables of sweeps have.
#[must_use]
pub fn columns(table: narrows_diagnose::ColumnTable) -> Vec<Column> {
    let column = |(name, values): (&str, ColumnValues)| {
        let data = match values {
            ColumnValues::U64(v) => Data::U64(v),
            ColumnValues::F64(v) => Data::F64(v),
            ColumnValues::Text(v) => Data::Text(v),
        };
        Column { name: name.to_owned(), data }
    };
    table.columns.into_iter().map(column).collect()
}

#[cfg(test)]
mod tests {
    use super::short;

    #[test]
    fn titles_name_files_without_folders() {
        assert_eq!(short("/var/tmp/a.pcap"), "a.pcap");
        assert_eq!(short("up/a.pcap, down/b.pcap, c.pcap"), "a.pcap and 2 more");
        assert_eq!((short("eth0"), short("-")), ("eth0".to_owned(), "-".to_owned()));
    }
}
