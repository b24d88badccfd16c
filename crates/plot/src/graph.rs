//! A network as a picture: nodes from left to right by their distance from the first, links with their settings.

use super::canvas::{self, AXIS, Align, Canvas, GREY, INK, Rect, clip};
use super::{MARGIN, WIDTH};

/// Network of nodes and links to draw.
#[derive(Clone, Debug, Default)]
pub struct Graph {
    /// Title of the network, in one line.
    pub title: String,
    /// Settings of the network.
    pub subtitle: String,
    /// Nodes, the one to begin at first.
    pub nodes: Vec<Node>,
    /// Links between the nodes.
    pub edges: Vec<Edge>,
}

/// A node.
#[derive(Clone, Debug, Default)]
pub struct Node {
    /// Name of the node.
    pub name: String,
    /// Description of the node, in a line below the name; may be empty.
    pub about: String,
    /// Whether the node is a place where packets begin and end.
    pub host: bool,
}

/// A link between two nodes, by place in [`Graph::nodes`].
#[derive(Clone, Debug, Default)]
pub struct Edge {
    /// Place among the nodes at which the link begins.
    pub from: usize,
    /// Place among the nodes at which the link ends.
    pub to: usize,
    /// Lines of text beside the link.
    pub label: Vec<String>,
    /// Whether the link matters more than the others.
    pub strong: bool,
}

const BOX: (f64, f64) = (120.0, 46.0);
const ROW: f64 = 130.0;

/// The graph as SVG text.
#[must_use]
pub fn graph_svg(graph: &Graph) -> String {
    let mut canvas = Canvas::new(WIDTH);
    let top = canvas::heading(&mut canvas, &graph.title, &graph.subtitle, WIDTH, MARGIN) + 20.0;
    let (places, rows) = places(graph, top);
    for edge in &graph.edges {
        if let (Some(a), Some(b)) = (places.get(edge.from), places.get(edge.to)) {
            draw_edge(&mut canvas, *a, *b, edge);
        }
    }
    for (node, (x, y)) in graph.nodes.iter().zip(&places) {
        let area = Rect { x: x - BOX.0 / 2.0, y: y - BOX.1 / 2.0, w: BOX.0, h: BOX.1 };
        canvas.fill(area, if node.host { "#e8f1f8" } else { "#f3f4f6" });
        canvas.frame(area);
        let lift = if node.about.is_empty() { 5.0 } else { -3.0 };
        canvas.text((*x, y + lift), &clip(&node.name, BOX.0 - 8.0, 13.0), 13.0, INK, Align::Middle);
        canvas.text((*x, y + 14.0), &clip(&node.about, BOX.0 - 4.0, 10.0), 10.0, GREY, Align::Middle);
    }
    canvas.finish(top + ROW * rows as f64 + 20.0)
}

/// Where each node stands, and how many rows there are: columns by the number of links from the first node.
fn places(graph: &Graph, top: f64) -> (Vec<(f64, f64)>, usize) {
    let mut depth: Vec<Option<usize>> = vec![None; graph.nodes.len()];
    let mut last = 0;
    for start in 0..graph.nodes.len() {
        // Parts without a link between them stand one after the other.
        if depth[start].is_some() {
            continue;
        }
        let first = if start == 0 { 0 } else { last + 1 };
        depth[start] = Some(first);
        let mut edge_of_known = vec![(start, first)];
        while let Some((node, at)) = (!edge_of_known.is_empty()).then(|| edge_of_known.remove(0)) {
            last = last.max(at);
            for edge in &graph.edges {
                for (a, b) in [(edge.from, edge.to), (edge.to, edge.from)] {
                    if a == node && b < depth.len() && depth[b].is_none() {
                        depth[b] = Some(at + 1);
                        edge_of_known.push((b, at + 1));
                    }
                }
            }
        }
    }
    let depth: Vec<usize> = depth.into_iter().map(|d| d.unwrap_or(0)).collect();
    let in_column = |column: usize| depth.iter().filter(|d| **d == column).count();
    let rows = (0..=last).map(in_column).max().unwrap_or(1).max(1);
    let room = WIDTH - 2.0 * MARGIN - BOX.0;
    let place = |at: usize| {
        let column = depth[at];
        let row = depth[..at].iter().filter(|d| **d == column).count();
        let x =
            MARGIN + BOX.0 / 2.0 + if last == 0 { room / 2.0 } else { room * column as f64 / last as f64 };
        let y = top + ROW * rows as f64 * (row as f64 + 0.5) / in_column(column) as f64;
        (x, y)
    };
    ((0..graph.nodes.len()).map(place).collect(), rows)
}

fn draw_edge(canvas: &mut Canvas, a: (f64, f64), b: (f64, f64), edge: &Edge) {
    let (colour, width) = if edge.strong { (INK, 3.0) } else { (AXIS, 1.5) };
    canvas.line(a, b, colour, width, "");
    let (x, y) = ((a.0 + b.0) / 2.0, (a.1 + b.1) / 2.0);
    let room = ((b.0 - a.0).abs() - BOX.0).max(140.0);
    for (at, line) in edge.label.iter().enumerate() {
        // The first line above, the others below.
        let y = if at == 0 { y - 8.0 } else { y + 1.0 + 14.0 * at as f64 };
        canvas.text((x, y), &clip(line, room, 11.0), 11.0, if at == 0 { INK } else { GREY }, Align::Middle);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn graph(nodes: usize, edges: &[(usize, usize)]) -> Graph {
        let node = |i| Node { name: format!("n{i}"), ..Node::default() };
        let edge = |&(from, to)| Edge { from, to, label: vec!["a <b>".into()], strong: true };
        Graph {
            nodes: (0..nodes).map(node).collect(),
            edges: edges.iter().map(edge).collect(),
            ..Graph::default()
        }
    }

    #[test]
    fn a_diamond_by_hand() {
        let (places, rows) = places(&graph(4, &[(0, 1), (0, 2), (1, 3), (2, 3)]), 0.0);
        assert_eq!(rows, 2);
        let middle = WIDTH / 2.0;
        assert_eq!(places[0], (MARGIN + 60.0, ROW));
        assert_eq!((places[1], places[2]), ((middle, ROW / 2.0), (middle, ROW * 1.5)));
        assert_eq!(places[3], (WIDTH - MARGIN - 60.0, ROW));
    }

    #[test]
    fn whatever_comes_is_drawn() {
        for g in [
            graph(0, &[]),
            graph(1, &[(0, 0)]),
            graph(3, &[]),
            graph(2, &[(0, 9), (7, 1)]),
            graph(30, &[(0, 29)]),
        ] {
            let svg = graph_svg(&g);
            assert!(svg.ends_with("</svg>\n") && !svg.contains("NaN") && !svg.contains("inf"));
        }
    }
}
