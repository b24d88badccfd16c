//! Colours: Okabe and Ito's palette for disciplines, told apart by colour-blind eyes, and the perceptually even map
//! `inferno` (Smith and van der Walt, matplotlib) for goodput.

use super::canvas::{AXIS, GREY, GRID, INK, PAPER};

/// Look of a discipline's line.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Style {
    pub(super) colour: &'static str,
    pub(super) dash: &'static str,
    pub(super) width: f64,
}

const BLUE: &str = "#0072b2";
const SKY: &str = "#56b4e9";
const VERMILION: &str = "#d55e00";
const GREEN: &str = "#009e73";
const ORANGE: &str = "#e69f00";
const PURPLE: &str = "#cc79a7";
const DARK: &str = "#5b6068";
const OLIVE: &str = "#a39a00";

const PALETTE: [&str; 8] = [DARK, BLUE, VERMILION, GREEN, ORANGE, PURPLE, SKY, OLIVE];

/// A discipline has the same colour in every picture, whoever else is in it.
fn usual(name: &str) -> Option<&'static str> {
    let kind = name.strip_prefix("kernel:").unwrap_or(name);
    let kind = kind.split([':', ' ', ',']).next().unwrap_or(kind).to_ascii_lowercase();
    match kind.as_str() {
        "fifo" | "pfifo" | "bfifo" | "drop-tail" | "droptail" => Some(DARK),
        "taq" if name.contains("paper") => Some(SKY),
        "taq" => Some(BLUE),
        "cake" => Some(VERMILION),
        "fq_codel" | "fq-codel" => Some(GREEN),
        "sfq" => Some(ORANGE),
        "red" | "pie" | "codel" => Some(PURPLE),
        "fq" => Some(OLIVE),
        _ => None,
    }
}

/// Whether a name begins with TAQ's, in capitals or not.
fn is_taq(name: &str) -> bool {
    name.get(..3).is_some_and(|begin| begin.eq_ignore_ascii_case("taq"))
}

/// Colours of a drawing, each with the colour for dark paper.
const ON_DARK: [(&str, &str); 13] = [
    (PAPER, "#14181f"),
    (INK, "#e4e8ef"),
    (GREY, "#a3adbb"),
    (AXIS, "#6b7683"),
    (GRID, "#2a323d"),
    (DARK, "#b0b6bf"),
    (BLUE, "#5a9bff"),
    (VERMILION, "#ff7f3a"),
    (GREEN, "#2cc79a"),
    (ORANGE, "#f0b429"),
    (PURPLE, "#dd96bd"),
    (SKY, "#7ccbf5"),
    (OLIVE, "#d2c83a"),
];

/// Style rules that give drawings inside of elements that `selector` finds their colours for dark paper.
#[must_use]
pub fn dark_rules(selector: &str) -> String {
    ON_DARK
        .iter()
        .map(|(light, dark)| {
            format!(
                "{selector} [fill=\"{light}\"] {{ fill: {dark} }} \
                 {selector} [stroke=\"{light}\"] {{ stroke: {dark} }}\n"
            )
        })
        .collect()
}

/// One style for each name: its usual colour if that is free, else a free one, and dashes once all are taken.
pub(super) fn styles(names: &[&str]) -> Vec<Style> {
    let mut uses: Vec<&str> = Vec::new();
    // Names with a colour of their own choose first.
    let mut chosen: Vec<Option<&'static str>> = Vec::new();
    for name in names {
        let colour = usual(name).filter(|colour| !uses.contains(colour));
        uses.extend(colour);
        chosen.push(colour);
    }
    names
        .iter()
        .zip(chosen)
        .map(|(name, colour)| {
            let (colour, dash) = colour.map_or_else(
                || {
                    let free = PALETTE.iter().find(|c| !uses.contains(c)).copied();
                    let colour = free.unwrap_or_else(|| PALETTE[uses.len() % PALETTE.len()]);
                    uses.push(colour);
                    (colour, if free.is_some() { "" } else { "6 3" })
                },
                |colour| (colour, ""),
            );
            Style { colour, dash, width: if is_taq(name) { 2.6 } else { 1.9 } }
        })
        .collect()
}

/// Anchors of `inferno` every tenth, as red, green, blue.
const INFERNO: [[u8; 3]; 11] = [
    [0, 0, 4],
    [22, 11, 57],
    [66, 10, 104],
    [106, 23, 110],
    [147, 38, 103],
    [188, 55, 84],
    [221, 81, 58],
    [243, 120, 25],
    [252, 165, 10],
    [246, 215, 70],
    [252, 255, 164],
];

/// The map starts here, so that its darkest colour can be told from the black of a stall.
const START: f64 = 0.2;

/// Colour of a share of the scale, 0 to 1.
pub(super) fn heat(share: f64) -> [u8; 3] {
    let at = (START + share.clamp(0.0, 1.0) * (1.0 - START)) * 10.0;
    let low = (at.floor() as usize).min(9);
    let part = at - low as f64;
    let mut rgb = [0; 3];
    for (to, (a, b)) in rgb.iter_mut().zip(INFERNO[low].iter().zip(INFERNO[low + 1])) {
        *to = (f64::from(*a) + part * (f64::from(b) - f64::from(*a))).round() as u8;
    }
    rgb
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colours_are_constant_and_differ() {
        let all =
            styles(&["fifo:30", "taq", "taq:mode=paper", "kernel:cake", "kernel:fq_codel", "kernel:sfq"]);
        assert_eq!(all[1].colour, BLUE);
        assert_eq!(styles(&["kernel:cake"])[0].colour, all[3].colour);
        for (i, a) in all.iter().enumerate() {
            assert!(all[..i].iter().all(|b| a.colour != b.colour), "{i}");
        }
        // A second of the same kind takes a free colour, and not one a later name owns.
        let two = styles(&["taq", "taq:admission=off", "fifo:30"]);
        assert!(two[1].colour != BLUE && two[1].colour != DARK);
        assert_eq!(styles(&["x"; 20]).len(), 20);
    }

    #[test]
    fn every_colour_differs_on_dark_paper_too() {
        let rules = dark_rules("figure");
        for colour in PALETTE.into_iter().chain([PAPER, INK, GREY, AXIS, GRID]) {
            assert!(rules.contains(&format!("figure [stroke=\"{colour}\"]")), "{colour}");
        }
        for (i, (_, dark)) in ON_DARK.iter().enumerate() {
            assert!(ON_DARK[..i].iter().all(|(_, other)| other != dark), "{dark}");
        }
        assert_eq!(styles(&["TAQ (taq)", "CAKE (kernel:cake)"]), styles(&["taq", "kernel:cake"]));
    }

    #[test]
    fn the_map_grows_brighter() {
        let light =
            |c: [u8; 3]| 0.2126 * f64::from(c[0]) + 0.7152 * f64::from(c[1]) + 0.0722 * f64::from(c[2]);
        let steps: Vec<f64> = (0..=20).map(|i| light(heat(f64::from(i) / 20.0))).collect();
        assert!(steps.windows(2).all(|w| w[0] < w[1]), "{steps:?}");
        assert_eq!(heat(1.0), [252, 255, 164]);
        assert_eq!(heat(0.0), [66, 10, 104]);
    }
}
