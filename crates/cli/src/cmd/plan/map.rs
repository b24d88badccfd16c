//! The map of `narrows plan`: rate to the right, users upwards, by verdict.

use narrows_models::plan::{Edges, Outlook, Plan, SharedLink, edges};
use narrows_plot::{Band, Bands};
use narrows_scenario::time_text;
use narrows_units::Rate;

use super::lines;

/// Rates the map spans, bit/s, unless the link lies beyond.
const RATES: (f64, f64) = (64e3, 10e6);
/// Most users on the map, unless the link has more.
const USERS: f64 = 1000.0;
/// Rates at which the edges are looked for.
const COLUMNS: u32 = 60;
/// Least factor between the link and an end of the map.
const AROUND: f64 = 4.0;

/// The page to draw.
pub fn page(link: &SharedLink, plan: &Plan) -> anyhow::Result<Bands> {
    let (rate, users) = (link.rate.as_bps() as f64, f64::from(link.users));
    let x = (RATES.0.min(rate / AROUND).max(1e3), RATES.1.max(rate * AROUND).min(1e12));
    let y = (1.0, USERS.max(users * AROUND));
    let last = f64::from(COLUMNS - 1);
    let rates: Vec<Rate> = (0..COLUMNS)
        .map(|i| Rate::from_bps((x.0 * (x.1 / x.0).powf(f64::from(i) / last)).round() as u64))
        .collect();
    let found = edges(link, &rates)?;
    let bands = Outlook::ALL.into_iter().enumerate().map(|(at, verdict)| Band {
        name: verdict.name().to_owned(),
        about: lines::about(verdict, link),
        edge: if at == 0 { Vec::new() } else { edge(&found, at - 1) },
    });
    let reading = format!(
        "{}, {} users: {}, {} packets per round trip, loss {:.0} %",
        link.rate,
        link.users,
        plan.verdict.name(),
        lines::short(plan.share_packets),
        plan.point.loss * 100.0
    );
    Ok(Bands {
        title: format!("{} for {}: {}", link.rate, lines::count(link.users, "user"), plan.verdict.name()),
        subtitle: format!(
            "Drop-tail with a buffer of {}; {} each, {}; round trip {}, packets of {} B, senders: {}. Edges: model \
             (docs/how-to/plan.md).",
            lines::buffer(link),
            lines::count(link.connections, "connection"),
            lines::busy(link),
            time_text(link.rtt),
            link.packet.0,
            lines::stack(link)
        ),
        x_name: "rate of the link, bit/s".to_owned(),
        y_name: "users".to_owned(),
        x,
        y,
        bands: bands.collect(),
        here: Some(((rate, users), reading)),
    })
}

fn edge(found: &[Edges], at: usize) -> Vec<(f64, f64)> {
    found.iter().map(|e| (e.rate.as_bps() as f64, e.users[at])).collect()
}
