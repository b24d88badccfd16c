//! Figures as people read them, and as programs do.

use std::fmt::{self, Write as _};
use std::path::Path;

use anyhow::{Context as _, Result};

use super::case::{Case, Figure, Layer, Queue, Traffic};

impl fmt::Display for Queue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::None => f.write_str("none"),
            Self::Kernel(name) => write!(f, "kernel {name}"),
            Self::Box { backend, discipline } => write!(f, "{backend} {discipline}"),
        }
    }
}

impl fmt::Display for Layer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Routed => "routed",
            Self::Bridged => "bridged",
            Self::Apart => "apart",
        })
    }
}

impl fmt::Display for Traffic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Passing => "passing",
            Self::Waiting => "waiting",
        })
    }
}

/// Name by which a case is chosen and recorded.
impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} {} {}", self.layer, self.traffic, self.flows, self.queue)
    }
}

/// Line printed for each case while the guest works.
pub fn line(figure: &Figure) -> String {
    let Figure { case, data, ack, packet } = figure;
    format!("{:<42} data {data:7.0}  ack {ack:7.0}  packet {packet:7.0}", case.to_string())
}

/// All figures of a run.
pub struct Table(Vec<Figure>);

impl Table {
    /// A table of these.
    pub const fn new(figures: Vec<Figure>) -> Self {
        Self(figures)
    }

    /// Figures, one per line of the table.
    pub fn figures(&self) -> &[Figure] {
        &self.0
    }

    /// Cost of a packet of `case` with another queue and layer; `None` if that case was not measured.
    fn packet(&self, case: &Case, queue: &Queue, layer: Layer) -> Option<f64> {
        let case = Case { queue: queue.clone(), layer, ..case.clone() };
        self.0.iter().find(|figure| figure.case == case).map(|figure| figure.packet)
    }

    /// Cost of a queue beyond the kernel's own forwarding. A box that joins two interfaces by itself is compared with a
    /// bridge; packets that wait are compared with packets that pass, as nothing waits without a queue.
    pub fn above_none(&self, figure: &Figure) -> Option<f64> {
        let passing = Case { traffic: Traffic::Passing, ..figure.case.clone() };
        Some(figure.packet - self.packet(&passing, &Queue::None, kernels(figure.case.layer))?)
    }

    /// Cost of the kernel's CAKE beyond forwarding, for the same packets.
    fn cake_above_none(&self, case: &Case) -> Option<f64> {
        self.above_none(self.cake(case)?)
    }

    /// Cost of the kernel's CAKE beyond the kernel's drop-tail, for the same packets.
    pub fn cake_above_drop_tail(&self, case: &Case) -> Option<f64> {
        self.above_drop_tail(self.cake(case)?)
    }

    fn cake(&self, case: &Case) -> Option<&Figure> {
        let layer = kernels(case.layer);
        let cake = Case { layer, queue: Queue::Kernel("cake".to_owned()), ..case.clone() };
        self.0.iter().find(|figure| figure.case == cake)
    }

    /// Cost of a queue beyond drop-tail in the same place.
    pub fn above_drop_tail(&self, figure: &Figure) -> Option<f64> {
        let drop_tail = figure.case.queue.drop_tail()?;
        Some(figure.packet - self.packet(&figure.case, &drop_tail, figure.case.layer)?)
    }

    /// The table in Markdown.
    pub fn markdown(&self) -> String {
        let mut text = String::from(
            "| way | traffic | flows | queue | data | ack | packet | above none | / CAKE's | above drop-tail |\n\
             |---|---|---|---|---|---|---|---|---|---|\n",
        );
        for figure in &self.0 {
            let Figure { case, data, ack, packet } = figure;
            let above = self.above_none(figure);
            let ratio = above.zip(self.cake_above_none(case)).map(|(a, cake)| format!("{:.2}", a / cake));
            let whole = |x: Option<f64>| x.map_or_else(String::new, |x| format!("{x:.0}"));
            // Writing to a String cannot fail.
            _ = writeln!(
                text,
                "| {} | {} | {} | {} | {data:.0} | {ack:.0} | {packet:.0} | {} | {} | {} |",
                case.layer,
                case.traffic,
                case.flows,
                case.queue,
                whole(above),
                ratio.unwrap_or_default(),
                whole(self.above_drop_tail(figure)),
            );
        }
        text
    }

    /// Writes the same for programs.
    pub fn write_csv(&self, path: &Path) -> Result<()> {
        let mut csv = csv::Writer::from_path(path).with_context(|| path.display().to_string())?;
        csv.write_record([
            "way",
            "traffic",
            "flows",
            "queue",
            "data",
            "ack",
            "packet",
            "above_none",
            "of_cake",
            "above_drop_tail",
        ])?;
        for figure in &self.0 {
            let Figure { case, data, ack, packet } = figure;
            let above = self.above_none(figure);
            let ratio = above.zip(self.cake_above_none(case)).map(|(a, cake)| a / cake);
            let text = |x: Option<f64>| x.map_or_else(String::new, |x| format!("{x:.4}"));
            csv.write_record([
                case.layer.to_string(),
                case.traffic.to_string(),
                case.flows.to_string(),
                case.queue.to_string(),
                text(Some(*data)),
                text(Some(*ack)),
                text(Some(*packet)),
                text(above),
                text(ratio),
                text(self.above_drop_tail(figure)),
            ])?;
        }
        csv.flush().with_context(|| path.display().to_string())
    }
}

/// Layer at which the kernel does the work of a box.
const fn kernels(layer: Layer) -> Layer {
    match layer {
        Layer::Routed => Layer::Routed,
        Layer::Bridged | Layer::Apart => Layer::Bridged,
    }
}
