//! `narrows top`: a running box, watched.

use std::collections::VecDeque;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::Context;
use narrows_box::{self as live, DirectionStatus, Status};
use ratatui::Frame;
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEventKind, KeyModifiers};
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Style, Stylize};
use ratatui::text::Line;
use ratatui::widgets::{Block, Gauge, Paragraph, Row, Sparkline, Table};

use super::bits;
use super::status::{admission_lines, find, headline, odd_lines, rates, rows, sight};
use crate::SUCCESS;

/// Arguments of `narrows top`.
#[derive(clap::Args)]
pub struct Args {
    /// Control socket of the box; without it every box under /run/narrows
    #[arg(long, value_name = "PATH")]
    control: Option<PathBuf>,
}

/// Looks a minute back at two looks a second, and then some for wide screens.
const HISTORY: usize = 240;
const PACE: Duration = Duration::from_millis(500);

/// Runs the command.
pub fn main(args: Args) -> anyhow::Result<u8> {
    let boxes = find(args.control.as_deref())?;
    let mut terminal =
        ratatui::try_init().context("narrows top needs a terminal; narrows status prints once")?;
    let outcome = watch(&mut terminal, &boxes);
    ratatui::restore();
    outcome.map(|()| SUCCESS)
}

fn watch(terminal: &mut ratatui::DefaultTerminal, boxes: &[PathBuf]) -> anyhow::Result<()> {
    // A box, and which of its links.
    let (mut chosen, mut link, mut view) = (0, 0, View::default());
    loop {
        let next = Instant::now() + PACE;
        let mut links = 1;
        match live::fetch(&boxes[chosen]) {
            Ok(status) => {
                links = status.each().len();
                view.take(one_link(&status, link));
            }
            Err(error) => view.trouble = Some(format!("{error:#}")),
        }
        terminal.draw(|frame| view.draw(frame)).context("cannot draw")?;
        while event::poll(next.saturating_duration_since(Instant::now()))
            .context("cannot read the keyboard")?
        {
            match event::read().context("cannot read the keyboard")? {
                Event::Key(key) if key.kind == KeyEventKind::Press => match key.code {
                    KeyCode::Char('q') | KeyCode::Esc => return Ok(()),
                    KeyCode::Char('c') if key.modifiers.contains(KeyModifiers::CONTROL) => return Ok(()),
                    KeyCode::Tab => {
                        link += 1;
                        if link >= links {
                            (chosen, link) = ((chosen + 1) % boxes.len(), 0);
                        }
                        view = View::default();
                        break;
                    }
                    _ => {}
                },
                Event::Resize(..) => {
                    terminal.draw(|frame| view.draw(frame)).context("cannot draw")?;
                }
                _ => {}
            }
        }
    }
}

/// Status of one link of a box, with what is wrong with the whole.
fn one_link(status: &Status, link: usize) -> Status {
    let each = status.each();
    let mut one = each[link.min(each.len() - 1)].clone();
    if !status.links.is_empty() {
        one.notices.extend_from_slice(&status.notices);
    }
    one
}

/// Content of the screen.
#[derive(Default)]
struct View {
    now: Option<Status>,
    before: Option<Status>,
    /// Link rates, oldest first, in bit/s: down, up.
    history: [VecDeque<u64>; 2],
    trouble: Option<String>,
}

impl View {
    fn take(&mut self, status: Status) {
        self.trouble = None;
        self.before = self.now.replace(status);
        let (Some(now), Some(before)) = (&self.now, &self.before) else { return };
        let dt = now.uptime_s - before.uptime_s;
        for (history, d) in self.history.iter_mut().zip([direction_of(0), direction_of(1)]) {
            if dt > 0.0 {
                history.push_back(rates(d(now), d(before), dt).0 as u64);
            }
            if history.len() > HISTORY {
                history.pop_front();
            }
        }
    }

    fn draw(&self, frame: &mut Frame) {
        let Some(now) = &self.now else {
            let text = self.trouble.clone().unwrap_or_else(|| "looking for the box ...".to_owned());
            frame.render_widget(Paragraph::new(text), frame.area());
            return;
        };
        let mut odd = odd_lines(now);
        odd.extend(self.trouble.clone());
        let admission: Vec<String> = now.admissions().into_iter().flat_map(admission_lines).collect();
        let held_back = now.admissions().iter().any(|a| a.waiting > 0);
        let stalls = sight::lines(&now.sight, 3);
        let words = u16::from(!now.sight.words.is_empty());
        let [said, head, odds, middle, bottom, why, foot] = Layout::vertical([
            Constraint::Length(words),
            Constraint::Length(1),
            Constraint::Length(odd.len().min(4) as u16),
            Constraint::Min(8),
            Constraint::Length(admission.len().min(12) as u16),
            Constraint::Length(stalls.len() as u16),
            Constraint::Length(1),
        ])
        .areas(frame.area());
        let tone = match &now.sight {
            s if s.users_stalled_long > 0 => Color::LightRed,
            s if s.users_stalled_lately > 0 => Color::Yellow,
            _ => Color::Reset,
        };
        frame.render_widget(Line::from(now.sight.words.as_str()).bold().fg(tone), said);
        frame.render_widget(Line::from(headline(now)).dim(), head);
        frame.render_widget(Paragraph::new(odd.join("\n")).fg(Color::Yellow), odds);
        let halves = Layout::horizontal([Constraint::Fill(1), Constraint::Fill(1)]).split(middle);
        for (i, title) in ["Down: to the users", "Up: from the users"].into_iter().enumerate() {
            self.direction(frame, halves[i], i, title, now);
        }
        let waits = if held_back { Color::Yellow } else { Color::DarkGray };
        frame.render_widget(Paragraph::new(admission.join("\n")).fg(waits), bottom);
        let toned = stalls
            .into_iter()
            .map(|line| Line::from(line.text).fg(if line.odd { Color::Yellow } else { Color::DarkGray }));
        frame.render_widget(Paragraph::new(toned.collect::<Vec<_>>()), why);
        frame.render_widget(Line::from("q: quit   Tab: switch between boxes and links").dim(), foot);
    }

    fn direction(&self, frame: &mut Frame, area: Rect, which: usize, title: &str, now: &Status) {
        let of = direction_of(which);
        let dt = self.before.as_ref().map_or(0.0, |b| now.uptime_s - b.uptime_s);
        let block = Block::bordered().title(title);
        let inner = block.inner(area);
        frame.render_widget(block, area);
        let rate = self.history[which].back().copied().unwrap_or(0);
        let shaped = of(now).rate_bps;
        let heights =
            [Constraint::Length(u16::from(shaped.is_some())), Constraint::Length(3), Constraint::Min(0)];
        let [gauge, line, table] = Layout::vertical(heights).areas(inner);
        if let Some(limit) = shaped {
            let share = (rate as f64 / limit.max(1) as f64).clamp(0.0, 1.0);
            let label = format!("{} of {}", bits(rate as f64), bits(limit as f64));
            let style = Style::new().fg(Color::Blue).bg(Color::DarkGray);
            frame.render_widget(Gauge::default().ratio(share).label(label).gauge_style(style), gauge);
        }
        let width = usize::from(line.width);
        let latest: Vec<u64> = self.history[which].iter().rev().take(width).rev().copied().collect();
        let spark = Sparkline::default()
            .data(&latest)
            .max(shaped.unwrap_or_else(|| latest.iter().copied().max().unwrap_or(1)));
        frame.render_widget(spark.fg(Color::Blue), line);
        let lines =
            rows(of(now), self.before.as_ref().map(|b| (of(b), dt)), now.sight.acknowledgments[1 - which]);
        let cells = lines.into_iter().map(|(name, value)| Row::new([name, value]));
        frame.render_widget(Table::new(cells, [Constraint::Length(20), Constraint::Fill(1)]), table);
    }
}

fn direction_of(which: usize) -> fn(&Status) -> &DirectionStatus {
    if which == 0 { |s| &s.down } else { |s| &s.up }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ratatui::Terminal;
    use ratatui::backend::TestBackend;

    fn screen(view: &View, width: u16, height: u16) -> String {
        let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
        terminal.draw(|f| view.draw(f)).unwrap();
        terminal.backend().to_string()
    }

    #[test]
    fn rates_stand_on_the_screen() {
        let mut view = View::default();
        assert!(screen(&view, 80, 24).contains("looking for the box"));
        let mut status = Status::default();
        status.down.rate_bps = Some(600_000);
        view.take(status.clone());
        status.uptime_s = 0.5;
        status.down.report.counters.sent_bytes = narrows_units::Bytes(30_000);
        view.take(status);
        // 30 000 B in half a second are 480 kbit/s.
        let text = screen(&view, 100, 30);
        assert!(text.contains("480.0 kbit/s of 600.0 kbit/s"), "{text}");
    }

    #[test]
    fn each_link_of_a_box_is_shown_with_what_is_wrong_with_all() {
        let link = |name: &str| Status { name: Some(name.into()), ..Status::default() };
        let whole = Status {
            links: vec![link("north"), link("south")],
            notices: vec!["settings not reloaded".into()],
            ..Status::default()
        };
        for (at, name) in [(0, "north"), (1, "south"), (7, "south")] {
            let mut view = View::default();
            view.take(one_link(&whole, at));
            let text = screen(&view, 100, 30);
            assert!(text.contains(&format!("{name}: ")) && text.contains("settings not reloaded"), "{text}");
        }
    }

    #[test]
    fn no_screen_is_too_small() {
        let mut view = View::default();
        view.take(Status { notices: vec!["something".into(); 9], ..Status::default() });
        for (width, height) in [(1, 1), (3, 2), (20, 5), (300, 3), (2, 80)] {
            let _ = screen(&view, width, height);
        }
    }
}
