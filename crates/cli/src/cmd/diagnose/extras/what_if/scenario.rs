//! The fitted workload and link as a scenario of the simulator, with its logs beside it.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use anyhow::Context as _;

use super::Fit;
use super::workload::Class;

/// Factor by which everything else is faster than the thin link.
const FASTER: u64 = 100;
/// A log's request of something without end, in seconds of the whole link.
const BEYOND: f64 = 2.0;

/// Writes a scenario and the logs that the scenario replays; returns the names of the files.
pub fn write(fit: &Fit, disciplines: &[String], path: &Path, captures: &str) -> anyhow::Result<Vec<PathBuf>> {
    let stem = path.file_stem().unwrap_or_default().to_string_lossy();
    let mut files = vec![path.to_path_buf()];
    let mut text = head(fit, disciplines, captures);
    for (n, class) in fit.workload.classes.iter().enumerate() {
        let name = format!("{stem}-{n}.csv");
        let log = path.with_file_name(&name);
        std::fs::write(&log, requests(fit, class)).with_context(|| log.display().to_string())?;
        files.push(log);
        text.push_str(&traffic(fit, class, n, &name));
    }
    std::fs::write(path, text).with_context(|| path.display().to_string())?;
    Ok(files)
}

/// Milliseconds of one way of a half.
fn one_way(half_s: f64) -> String {
    format!("{:.3}ms", half_s.max(0.0) * 500.0)
}

fn head(fit: &Fit, disciplines: &[String], captures: &str) -> String {
    let (link, workload) = (&fit.link, &fit.workload);
    let rate = fit.rate_bps.round() as u64;
    let fast = rate.saturating_mul(FASTER);
    let named: Vec<String> = disciplines.iter().map(|d| format!("{d:?}")).collect();
    let point = if link.before { "before" } else { "thin" };
    // A file's name may hold what ends a comment.
    let captures: String = captures.chars().map(|c| if c.is_control() { '?' } else { c }).collect();
    let mut out = format!(
        "# Fitted to {captures}: {} users, {} transfers without end, {} others.\n\
         # Rates are those of IP packets. The capture was taken at the link '{point}'.\n",
        workload.users, workload.endless, workload.objects
    );
    let _ = write!(
        out,
        "name = \"what-if\"\nduration = \"{:.0}s\"\njitter = \"0s\"\ndephase = \"{}\"\nmtu = {}\noverhead = 0\n\
         access_rate = {fast}\ndisciplines = [{}]\n\n[tcp]\npreset = \"{}\"\n",
        workload.duration_s.ceil().max(1.0),
        dephase(fit),
        link.packet,
        named.join(", "),
        fit.stack
    );
    if let Some(recovery) = fit.recovery {
        let _ = writeln!(out, "recovery = \"{recovery}\"");
    }
    for (name, from, to, rate, discipline) in [
        ("before", "world", "left", fast, "discipline = \"fifo:100000\"\n"),
        ("thin", "left", "right", rate, ""),
    ] {
        let _ = write!(
            out,
            "\n[[link]]\nname = \"{name}\"\nfrom = \"{from}\"\nto = \"{to}\"\nrate = {rate}\n{discipline}\
             back_rate = {fast}\nback_discipline = \"fifo:100000\"\n"
        );
    }
    // A capture behind the queue shows no SYN that is held for admission: such runs are measured before the queue
    // too.
    let points: &[&str] = if link.before { &["before"] } else { &["before", "thin"] };
    let captured: Vec<String> = points.iter().map(|p| format!("\"{p}\", \"{p}.back\"")).collect();
    let _ = write!(out, "\n[probes]\ncapture = [{}]\nstalls = [\"5s\", \"20s\"]\n", captured.join(", "));
    out
}

/// Real senders keep no step with each other: without this drop-tail would always lose the same flow's packets.
fn dephase(fit: &Fit) -> String {
    let packet = fit.link.packet as f64 * 8.0 / fit.rate_bps;
    format!("{:.3}ms", (packet * 1e3).min(fit.workload.rtt_s[0] * 100.0))
}

/// The data of a class come from `world`, before the thin link, or pass its way back.
fn traffic(fit: &Fit, class: &Class, n: usize, log: &str) -> String {
    let users = class.users().len();
    // The thin direction goes from left to right.
    let ends = if fit.link.way == 1 { ["right", "world"] } else { ["world", "right"] };
    let mut out = String::new();
    for (name, at, half, count) in
        [("users", ends[0], class.halves[0], users), ("servers", ends[1], class.halves[1], 1)]
    {
        let _ = write!(
            out,
            "\n[[hosts]]\nname = \"{name}{n}\"\nat = \"{at}\"\ncount = {count}\ndelay = \"{}\"\n",
            one_way(half)
        );
    }
    let start = class.requests.first().map_or(0.0, |r| r.at_s);
    let (from, to, opened) =
        if class.way == 1 { ("servers", "users", "receiver") } else { ("users", "servers", "sender") };
    let asked = if class.way == 1 { class.asked.max(1) } else { 0 };
    let _ = write!(
        out,
        "\n[[traffic]]\nkind = \"log\"\nname = \"log{n}\"\nfrom = \"{from}{n}\"\nto = \"{to}{n}\"\n\
         opened_by = \"{opened}\"\nrequest = {asked}\nheader = 0\nfile = \"{log}\"\nclients = {users}\n\
         connections = {}\nstart = \"{start:.6}s\"\n",
        class.parallel()
    );
    out
}

fn requests(fit: &Fit, class: &Class) -> String {
    // More than the link could carry until the end.
    let endless = (fit.rate_bps / 8.0 * fit.workload.duration_s * BEYOND) as u64 + 1;
    let mut out = "time,client,bytes\n".to_owned();
    for r in &class.requests {
        let _ = writeln!(out, "{:.6},{},{}", r.at_s, r.user, r.bytes.unwrap_or(endless));
    }
    out
}
