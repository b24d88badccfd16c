//! Reader of packetdrill scripts (Cardwell et al., USENIX ATC 2013; <https://github.com/google/packetdrill>): options,
//! shell commands, packets, system calls and snippets of Python, each with the time at which it is due.

use std::path::Path;

/// When an event is due, microseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Due {
    /// Since the script began.
    At(u64),
    /// After the event before.
    After(u64),
    /// After the event before, between the two.
    Between(u64, u64),
    /// Whenever it happens.
    Any,
}

/// Direction of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// To the host under test.
    In,
    /// From the host under test.
    Out,
}

/// A TCP packet as a script writes it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Packet {
    /// Letters of the flags: `S`, `F`, `R`, `P`, `.`, `E`, `W`, `U`; `A` for the third bit of accurate ECN.
    pub flags: String,
    pub seq: u32,
    pub payload: u32,
    pub ack: Option<u32>,
    pub window: Option<u32>,
    /// Words of the ECN field: `ect0`, `ect1`, `ce`, `noecn`.
    pub ecn: Option<String>,
    /// The options; `None` where the script takes any.
    pub options: Option<Vec<TcpOption>>,
    /// Urgent data.
    pub urgent: bool,
}

impl Packet {
    pub fn has(&self, flag: char) -> bool {
        self.flags.contains(flag)
    }
}

/// A TCP option as a script writes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TcpOption {
    Mss(u16),
    SackOk,
    Scale(u8),
    Times(u32, u32),
    Sack(Vec<(u32, u32)>),
    /// An option that no end host of ours has: its first word.
    Other(String),
}

/// A system call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Call {
    pub name: String,
    pub args: Vec<String>,
    /// Result as written, with its error.
    pub result: String,
    /// The call blocks until then, microseconds after it began.
    pub blocks: bool,
}

impl Call {
    /// The number that the call returns.
    pub fn returns(&self) -> Option<i64> {
        number(self.result.split_whitespace().next()?)
    }
    pub fn arg(&self, at: usize) -> &str {
        self.args.get(at).map_or("", String::as_str)
    }
    /// The number in an argument, with or without brackets.
    pub fn number(&self, at: usize) -> Option<i64> {
        number(self.arg(at).trim_matches(['[', ']']))
    }
}

pub fn number(text: &str) -> Option<i64> {
    match text.strip_prefix("0x") {
        Some(hex) => i64::from_str_radix(hex, 16).ok(),
        None => text.parse().ok(),
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum What {
    Packet(Way, Packet),
    /// A packet of another protocol, or an ICMP message.
    Foreign(String),
    Call(Call),
    Shell(String),
    Python(String),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// Line of the script, from 1.
    pub line: usize,
    pub due: Due,
    pub what: What,
}

#[derive(Clone, Debug, Default)]
pub struct Script {
    /// Options before the first event: `--name=value`.
    pub options: Vec<(String, String)>,
    pub events: Vec<Event>,
    /// The script is meant to fail: it says so in a comment.
    pub fails: bool,
}

impl Script {
    pub fn option(&self, name: &str) -> Option<&str> {
        self.options.iter().find(|o| o.0 == name).map(|o| o.1.as_str())
    }
    pub fn packets(&self) -> impl Iterator<Item = (Way, &Packet)> {
        self.events.iter().filter_map(|e| match &e.what {
            What::Packet(way, packet) => Some((*way, packet)),
            _ => None,
        })
    }
    pub fn calls(&self) -> impl Iterator<Item = &Call> {
        self.events.iter().filter_map(|e| if let What::Call(call) = &e.what { Some(call) } else { None })
    }
    pub fn python(&self) -> impl Iterator<Item = &str> {
        self.events
            .iter()
            .filter_map(|e| if let What::Python(code) = &e.what { Some(code.as_str()) } else { None })
    }

    /// Commands of the shell lines, and of the files that they run, which lie relative to `folder`.
    pub fn commands(&self, folder: &Path) -> Result<Commands, String> {
        let mut commands = Commands::default();
        for event in &self.events {
            if let What::Shell(text) = &event.what {
                commands.read(text, folder)?;
            }
        }
        Ok(commands)
    }
}

/// The shell commands of a script.
#[derive(Clone, Debug, Default)]
pub struct Commands {
    /// Settings of the kernel in order: `tcp_sack`, `1`.
    pub settings: Vec<(String, String)>,
    /// Other commands.
    pub others: Vec<String>,
}

impl Commands {
    /// Reads shell commands: settings of the kernel, and files with such commands.
    fn read(&mut self, text: &str, folder: &Path) -> Result<(), String> {
        let joined = text.replace("\\\n", " ");
        for line in joined.lines().flat_map(|line| line.split(" && ")).map(str::trim) {
            let line = line.split(" #").next().unwrap_or("").trim();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let first = line.split_whitespace().next().unwrap_or("");
            if first.ends_with("defaults.sh") {
                let path = folder.join(first);
                let text = std::fs::read_to_string(&path).map_err(|e| format!("{}: {e}", path.display()))?;
                self.read(&text, folder)?;
            } else if first == "sysctl" || first.ends_with("set_sysctls.py") {
                for word in line.split_whitespace().skip(1) {
                    if let Some((name, value)) = word.split_once('=') {
                        let name = name.rsplit(['.', '/']).next().unwrap_or(name);
                        self.settings.push((name.to_owned(), value.trim_matches('"').to_owned()));
                    }
                }
            } else {
                self.others.push(line.to_owned());
            }
        }
        Ok(())
    }
}

/// Cursor over the text of a script.
struct Reader<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Reader<'a> {
    fn rest(&self) -> &'a str {
        &self.text[self.at..]
    }
    fn line(&self) -> usize {
        self.text[..self.at].matches('\n').count() + 1
    }
    fn skip_space(&mut self) {
        loop {
            let rest = self.rest();
            let trimmed = rest.trim_start();
            self.at += rest.len() - trimmed.len();
            if trimmed.starts_with("//") || trimmed.starts_with('#') {
                self.at += trimmed.find('\n').unwrap_or(trimmed.len());
            } else if let Some(body) = trimmed.strip_prefix("/*") {
                self.at += body.find("*/").map_or(trimmed.len(), |end| end + 4);
            } else {
                return;
            }
        }
    }
    fn take_until(&mut self, end: &str) -> Result<&'a str, String> {
        let rest = self.rest();
        let len = rest.find(end).ok_or_else(|| format!("line {}: no {end}", self.line()))?;
        self.at += len + end.len();
        Ok(&rest[..len])
    }
    fn take_while(&mut self, is: impl Fn(char) -> bool) -> &'a str {
        let rest = self.rest();
        let len = rest.find(|c| !is(c)).unwrap_or(rest.len());
        self.at += len;
        &rest[..len]
    }
}

impl std::str::FromStr for Script {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        let mut r = Reader { text, at: 0 };
        let mut script = Self { fails: text.contains("// Failure:"), ..Self::default() };
        r.skip_space();
        while r.rest().starts_with("--") {
            let word = r.take_while(|c| !c.is_whitespace());
            let (name, value) = word.split_once('=').unwrap_or((word, ""));
            script.options.push((name.to_owned(), value.to_owned()));
            r.skip_space();
        }
        while !r.rest().is_empty() {
            let line = r.line();
            let due = time(&mut r)?;
            r.skip_space();
            // A call that blocks names the time at which it returns.
            let blocks = due.is_some() && r.rest().starts_with("...");
            if blocks {
                r.at += 3;
                r.skip_space();
                time(&mut r)?;
                r.skip_space();
            }
            let what = what(&mut r, blocks)?;
            script.events.push(Event { line, due: due.unwrap_or(Due::After(0)), what });
            r.skip_space();
        }
        Ok(script)
    }
}

/// Reads a time, if there is one.
fn time(r: &mut Reader<'_>) -> Result<Option<Due>, String> {
    let rest = r.rest();
    if rest.starts_with('*') {
        r.at += 1;
        return Ok(Some(Due::Any));
    }
    let relative = rest.starts_with('+');
    if !relative && !rest.starts_with(|c: char| c.is_ascii_digit() || c == '.') {
        return Ok(None);
    }
    r.at += usize::from(relative);
    let micros = |r: &mut Reader<'_>| {
        let word = r.take_while(|c| c.is_ascii_digit());
        let mut text = word.to_owned();
        if r.rest().starts_with('.') && !r.rest().starts_with("...") {
            r.at += 1;
            text = format!("{text}.{}", r.take_while(|c| c.is_ascii_digit()));
        }
        let text = if text.starts_with('.') { format!("0{text}") } else { text };
        let seconds = text.parse::<f64>().map_err(|_| format!("line {}: no time: {text}", r.line()))?;
        Ok::<u64, String>((seconds * 1e6).round() as u64)
    };
    let first = micros(r)?;
    if r.rest().starts_with('~') {
        r.at += 1;
        r.at += usize::from(r.rest().starts_with('+'));
        return Ok(Some(Due::Between(first, micros(r)?)));
    }
    Ok(Some(if relative { Due::After(first) } else { Due::At(first) }))
}

fn what(r: &mut Reader<'_>, blocks: bool) -> Result<What, String> {
    let rest = r.rest();
    if rest.starts_with('`') {
        r.at += 1;
        return Ok(What::Shell(r.take_until("`")?.to_owned()));
    }
    if rest.starts_with("%{") {
        r.at += 2;
        return Ok(What::Python(r.take_until("}%")?.to_owned()));
    }
    if rest.starts_with('<') || rest.starts_with('>') {
        let way = if rest.starts_with('<') { Way::In } else { Way::Out };
        r.at += 1;
        let line = r.line();
        return packet(r, way).map_err(|why| format!("line {line}: {why}"));
    }
    call(r, blocks)
}

/// Reads a packet up to the end of its line; options may go over several.
fn packet(r: &mut Reader<'_>, way: Way) -> Result<What, String> {
    let mut line = r.take_while(|c| c != '\n' && c != '<').to_owned();
    let options = if r.rest().starts_with('<') {
        r.at += 1;
        let text = r.take_until(">")?;
        r.take_while(|c| c != '\n');
        Some(text)
    } else {
        None
    };
    if let Some(comment) = line.find("//") {
        line.truncate(comment);
    }
    let mut packet = Packet::default();
    let mut text = line.trim();
    if ["icmp", "udp", "gre", "ipv", "encap"].iter().any(|word| text.starts_with(word)) {
        return Ok(What::Foreign(text.to_owned()));
    }
    for (open, close) in [('[', ']'), ('(', ')')] {
        if let Some((inside, after)) = text.strip_prefix(open).and_then(|t| t.split_once(close)) {
            let word = inside.split(',').map(str::trim).find(|w| ["ect0", "ect1", "ce", "noecn"].contains(w));
            if word.is_none() {
                return Ok(What::Foreign(inside.to_owned()));
            }
            packet.ecn = word.map(str::to_owned);
            text = after.trim();
        }
    }
    let mut words = text.split_whitespace();
    packet.flags = words.next().ok_or("no flags")?.to_owned();
    if let Some(letter) = packet.flags.chars().find(|c| !"SFRP.EWUA-".contains(*c) && !c.is_ascii_digit()) {
        return Err(format!("unknown flag {letter}"));
    }
    let span = words.next().ok_or("no sequence numbers")?;
    let (seq, rest) = span.split_once(':').ok_or("no sequence numbers")?;
    let (end, len) = rest.split_once('(').ok_or("no length")?;
    packet.seq = seq.parse().map_err(|_| format!("sequence number {seq}"))?;
    packet.payload = len.trim_end_matches(')').parse().map_err(|_| format!("length {len}"))?;
    if end.parse() != Ok(packet.seq.wrapping_add(packet.payload)) {
        return Err(format!("{span}: the end is not the beginning and the length"));
    }
    while let Some(word) = words.next() {
        let mut value = || words.next().and_then(|w| w.parse().ok()).ok_or(format!("value of {word}"));
        match word {
            "ack" => packet.ack = Some(value()?),
            "win" => packet.window = Some(value()?),
            "urg" => {
                packet.urgent = true;
                value()?;
            }
            _ => return Ok(What::Foreign(word.to_owned())),
        }
    }
    packet.options = match options.map(str::trim) {
        Some("...") => None,
        Some(text) => Some(tcp_options(text)?),
        None => Some(vec![]),
    };
    Ok(What::Packet(way, packet))
}

fn tcp_options(text: &str) -> Result<Vec<TcpOption>, String> {
    let mut list = vec![];
    for part in text.split(',').map(str::trim) {
        let words: Vec<&str> = part.split_whitespace().collect();
        let bad = || format!("option {part}");
        list.push(match words.as_slice() {
            ["nop" | "eol"] | [] => continue,
            ["sackOK"] => TcpOption::SackOk,
            // A name stands for a number that the command line gives.
            ["mss", n] if n.starts_with(char::is_alphabetic) => TcpOption::Other((*n).to_owned()),
            ["mss", n] => TcpOption::Mss(n.parse().map_err(|_| bad())?),
            ["wscale", n] => TcpOption::Scale(n.parse().map_err(|_| bad())?),
            ["TS", "val", val, "ecr", ecr] => {
                TcpOption::Times(val.parse().map_err(|_| bad())?, ecr.parse().map_err(|_| bad())?)
            }
            ["sack", blocks @ ..] => {
                let mut ranges = vec![];
                for block in blocks {
                    let (left, right) = block.split_once(':').ok_or_else(bad)?;
                    ranges.push((left.parse().map_err(|_| bad())?, right.parse().map_err(|_| bad())?));
                }
                TcpOption::Sack(ranges)
            }
            [name, ..] => TcpOption::Other((*name).to_owned()),
        });
    }
    Ok(list)
}

/// Reads a call: name, arguments, `=` and the result up to the end of the line.
fn call(r: &mut Reader<'_>, blocks: bool) -> Result<What, String> {
    let line = r.line();
    let name = r.take_while(|c| c.is_alphanumeric() || c == '_').to_owned();
    r.take_while(char::is_whitespace);
    if name.is_empty() || !r.rest().starts_with('(') {
        let text: String = r.rest().chars().take(30).collect();
        return Err(format!("line {line}: neither a packet nor a call: {text}"));
    }
    r.at += 1;
    let (mut depth, mut quoted, mut arg, mut args) = (0, false, String::new(), vec![]);
    loop {
        let Some(c) = r.rest().chars().next() else { return Err(format!("line {line}: a call without end")) };
        r.at += c.len_utf8();
        match c {
            '"' => quoted = !quoted,
            '(' | '[' | '{' if !quoted => depth += 1,
            ')' if !quoted && depth == 0 => break,
            ')' | ']' | '}' if !quoted => depth -= 1,
            ',' if !quoted && depth == 0 => {
                args.push(std::mem::take(&mut arg).trim().to_owned());
                continue;
            }
            _ => {}
        }
        arg.push(c);
    }
    args.push(arg.trim().to_owned());
    r.take_while(|c| c == ' ' || c == '\t');
    if !r.rest().starts_with('=') {
        return Err(format!("line {line}: no result of {name}"));
    }
    r.at += 1;
    let result = r.take_while(|c| c != '\n');
    let result = result.split("//").next().unwrap_or("").trim().to_owned();
    Ok(What::Call(Call { name, args, result, blocks }))
}
