//! Reader of qlog files. What cannot be read is counted and named, and what is behind it is read on, except in one
//! object whose JSON is broken: there what came before is kept.

use std::collections::HashMap;
use std::fmt::{self, Display};
use std::io::{BufRead, Read};
use std::net::{IpAddr, SocketAddr};

use narrows_units::days_since_1970;
use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::Value;

use super::{Fact, SenderLog};

/// Separator of JSON-SEQ (RFC 7464, section 2.2).
const RECORD: u8 = 0x1e;
/// Most bytes of an event in a file of records: one with all its frames has some thousand.
const LONGEST: u64 = 1 << 20;
/// Most facts that are kept, some 200 MB: hours of a connection.
const MOST_FACTS: usize = 1 << 22;
/// Nanoseconds of the usual unit of times.
const MILLISECOND: f64 = 1e6;
/// Most connections that are told apart in a trace.
const MOST_GROUPS: usize = 1 << 16;

/// A qlog file that was read.
#[derive(Clone, Debug, Default)]
pub struct QlogFile {
    /// Connections that have events which tell something.
    pub logs: Vec<SenderLog>,
    /// Events that were read, of any kind.
    pub events: u64,
    /// Lines and events that could not be read.
    pub unread: u64,
    /// Reason why the first unread record could not be read, and the record's place.
    pub first_unread: Option<String>,
    /// Events that were too many to be kept.
    pub left_out: u64,
}

/// A trace as it is read: members may come in any order, so times are told when all are there.
#[derive(Debug, Default)]
struct Trace {
    title: String,
    vantage: Value,
    common: Value,
    configuration: Value,
    event_fields: Value,
    facts: Vec<Timed>,
    groups: Vec<Group>,
    by_id: HashMap<String, usize>,
    /// Sum of all times so far, for times that are written as differences.
    sum: f64,
}

/// A connection of a trace.
#[derive(Debug, Default)]
struct Group {
    id: String,
    ends: Option<[SocketAddr; 2]>,
}

#[derive(Clone, Copy, Debug)]
struct Timed {
    time: f64,
    sum: f64,
    group: usize,
    fact: Fact,
}

/// State of the reader.
#[derive(Debug, Default)]
struct Reading {
    file: QlogFile,
    kept: usize,
    /// The trace that is being read.
    trace: Option<Trace>,
    /// Whether there was a list of traces, which then holds all events.
    lists: bool,
    /// Whether there was a trace.
    any: bool,
}

impl QlogFile {
    /// Reads a qlog file to the file's end.
    #[must_use]
    pub fn read(mut source: impl BufRead) -> Self {
        let mut reading = Reading::default();
        let separator = begin(&mut source);
        let mut whole = serde_json::Deserializer::from_reader(&mut source);
        if let Err(e) = (Object(&mut reading)).deserialize(&mut whole) {
            reading.unread(format_args!("{e}"));
        }
        if !reading.lists {
            reading.records(&mut source, separator);
        }
        reading.close();
        if !reading.any && reading.file.events == 0 && reading.file.unread == 0 {
            reading.unread("expected a member traces or trace");
        }
        reading.file
    }
}

/// Passes over what stands before the first object; gives the byte that ends records.
fn begin(source: &mut impl BufRead) -> u8 {
    let mut separator = b'\n';
    while let Ok(&[first, ..]) = source.fill_buf() {
        match first {
            RECORD => separator = RECORD,
            // White space, and the mark of UTF-8.
            0xef | 0xbb | 0xbf => {}
            _ if first.is_ascii_whitespace() => {}
            _ => break,
        }
        source.consume(1);
    }
    separator
}

impl Reading {
    fn unread(&mut self, why: impl Display) {
        self.file.unread += 1;
        self.file.first_unread.get_or_insert_with(|| why.to_string());
    }

    /// Reads the events behind the first object, each event a record of its own.
    fn records(&mut self, source: &mut impl BufRead, separator: u8) {
        let (mut record, mut number) = (Vec::new(), 1_u64);
        loop {
            record.clear();
            match source.by_ref().take(LONGEST).read_until(separator, &mut record) {
                Ok(0) => return,
                Ok(n) if n as u64 == LONGEST && record.last() != Some(&separator) => {
                    self.unread(format_args!("record {}: longer than {LONGEST} bytes", number + 1));
                    if source.skip_until(separator).is_err() {
                        return;
                    }
                }
                Ok(_) => {}
                Err(e) => {
                    self.unread(format_args!("record {}: {e}", number + 1));
                    return;
                }
            }
            let text = record.strip_suffix(&[separator]).unwrap_or(&record).trim_ascii();
            if text.is_empty() || record.len() as u64 == LONGEST {
                continue;
            }
            number += 1;
            match serde_json::from_slice::<Value>(text) {
                Ok(event) => self.event(&event, number),
                Err(e) => self.unread(format_args!("record {number}: {e}")),
            }
        }
    }

    fn event(&mut self, event: &Value, number: u64) {
        // Some writers end their list with an empty event, for its comma.
        if event.as_array().is_some_and(Vec::is_empty) {
            return;
        }
        match self.take(event) {
            Ok(()) => self.file.events += 1,
            Err(why) => self.unread(format_args!("event {number}: {why}")),
        }
    }

    /// Takes what an event tells.
    fn take(&mut self, event: &Value) -> Result<(), &'static str> {
        let trace = self.trace.get_or_insert_default();
        let (time, name, data, group) = parts(event).ok_or("expected time, name and data")?;
        trace.sum += time;
        let Some(group) = trace.group(group) else {
            self.file.left_out += 1;
            return Ok(());
        };
        // Until draft 01 connection_new.
        if matches!(&*name, "connection_started" | "connection_new") {
            let known = &mut trace.groups[group].ends;
            *known = known.or_else(|| ends(data));
            return Ok(());
        }
        let (sum, before) = (trace.sum, trace.facts.len());
        facts(&name, data, |fact| {
            if self.kept < MOST_FACTS {
                self.kept += 1;
                trace.facts.push(Timed { time, sum, group, fact });
            } else {
                self.file.left_out += 1;
            }
        });
        // A packet without a number is none that can be told from others.
        let tells = trace.facts.len() > before || self.kept >= MOST_FACTS;
        let ought = matches!(&*name, "packet_sent" | "packet_lost");
        if ought && !tells && !numberless(data) { Err("expected a packet number") } else { Ok(()) }
    }

    /// Ends the trace that is being read.
    fn close(&mut self) {
        let Some(trace) = self.trace.take() else { return };
        self.file.logs.extend(trace.logs());
    }
}

impl Trace {
    /// Place of a connection by its identifier; `None` if there are too many.
    fn group(&mut self, id: Option<&Value>) -> Option<usize> {
        let id = match id {
            Some(Value::String(id)) => id.clone(),
            Some(id) => id.to_string(),
            None => String::new(),
        };
        if let Some(&place) = self.by_id.get(&id) {
            return Some(place);
        }
        if self.groups.len() >= MOST_GROUPS {
            return None;
        }
        self.groups.push(Group { id: id.clone(), ends: None });
        self.by_id.insert(id, self.groups.len() - 1);
        Some(self.groups.len() - 1)
    }

    /// Logs of all connections of the trace.
    fn logs(self) -> Vec<SenderLog> {
        let owner = match self.vantage["type"].as_str().map(str::to_ascii_lowercase).as_deref() {
            Some("client") => Some(0),
            Some("server") => Some(1),
            // Between the ends nobody knows what they think.
            Some("network") => return Vec::new(),
            _ => None,
        };
        let clock = Clock::new(&self);
        let mut all: Vec<Vec<(i64, Fact)>> = self.groups.iter().map(|_| Vec::new()).collect();
        for &Timed { time, sum, group, fact } in &self.facts {
            // Round trips are in the unit of times.
            let fact = match fact {
                Fact::LeastTrip(trip) => Fact::LeastTrip((trip as f64 * clock.unit / MILLISECOND) as i64),
                other => other,
            };
            all[group].push((clock.nanos(time, sum), fact));
        }
        let common = [&self.common["group_id"], &self.common["ODCID"]];
        let common = common.into_iter().find_map(Value::as_str).unwrap_or_default();
        let mut logs = Vec::new();
        for (group, facts) in self.groups.into_iter().zip(all) {
            if facts.is_empty() {
                continue;
            }
            let names = [&*self.title, &*group.id, common];
            let parts: Vec<&str> = names.into_iter().filter(|name| !name.is_empty()).collect();
            // Control characters of a stranger's file do not reach a terminal.
            let name: String = parts.join(", ").chars().filter(|c| !c.is_control()).take(100).collect();
            logs.push(SenderLog::new(name, group.ends, owner, facts));
        }
        logs
    }
}

/// How the times of a trace are meant.
#[derive(Debug)]
struct Clock {
    /// Nanoseconds of a unit.
    unit: f64,
    /// Time that the others are relative to, in the unit.
    reference: f64,
    /// Whether times are differences from the event before.
    differences: bool,
}

impl Clock {
    fn new(trace: &Trace) -> Self {
        let fields = trace.event_fields.as_array();
        let named = |name: &str| fields.is_some_and(|all| all.iter().any(|f| f.as_str() == Some(name)));
        let format = trace.common["time_format"].as_str().unwrap_or_default();
        let absolute = format == "absolute" || named("time");
        let differences = matches!(format, "delta" | "relative_to_previous_event") || named("delta_time");
        let micros = trace.configuration["time_units"] == "us";
        let reference = match &trace.common["reference_time"] {
            // Drafts from main-schema-09 on have an object; its clock may have an unknown beginning.
            Value::Object(told) => told.get("wall_clock_time").and_then(wall_clock_ms).unwrap_or(0.0),
            told => number(told).unwrap_or(0.0),
        };
        Self {
            unit: if micros { 1e3 } else { MILLISECOND },
            reference: if absolute { 0.0 } else { reference },
            differences,
        }
    }

    /// Nanoseconds; what is beyond a hundred years saturates, so that sums and differences fit.
    fn nanos(&self, time: f64, sum: f64) -> i64 {
        let time = if self.differences { sum } else { time };
        let [reference, time] = [self.reference, time].map(|time| (time * self.unit) as i64);
        reference.saturating_add(time).clamp(i64::MIN / 4, i64::MAX / 4)
    }
}

/// Milliseconds since 1970 of a date and time of RFC 3339.
fn wall_clock_ms(told: &Value) -> Option<f64> {
    let (date, time) = told.as_str()?.split_once('T')?;
    let mut date = date.split('-');
    let year: i64 = date.next()?.parse().ok()?;
    let month: usize = date.next()?.parse().ok()?;
    let day: i64 = date.next()?.parse().ok()?;
    // The offset of the zone is six characters with a sign, or Z.
    let (time, zone) = match time.strip_suffix(['Z', 'z']) {
        Some(time) => (time, None),
        None => time.split_at_checked(time.len().checked_sub(6)?).map(|(time, zone)| (time, Some(zone)))?,
    };
    let mut time = time.split(':').map(|part| part.parse::<f64>().ok());
    let (hours, minutes, seconds) = (time.next()??, time.next()??, time.next()??);
    let east_min = match zone {
        Some(zone) => {
            let (hours, minutes) = zone.get(1..)?.split_once(':')?;
            let minutes = hours.parse::<f64>().ok()? * 60.0 + minutes.parse::<f64>().ok()?;
            if zone.starts_with('-') { -minutes } else { minutes }
        }
        None => 0.0,
    };
    if !(1970..10_000).contains(&year) || !(1..=12).contains(&month) || !(1..=31).contains(&day) {
        return None;
    }
    let days = days_since_1970(year, month, day);
    Some((days as f64 * 86_400.0 + hours * 3600.0 + (minutes - east_min) * 60.0 + seconds) * 1e3)
}

/// Time, name in lower case without its schema, data and connection of an event.
fn parts(event: &Value) -> Option<(f64, String, &Value, Option<&Value>)> {
    let name = |name: &str| name.rsplit(':').next().unwrap_or(name).to_ascii_lowercase();
    if let Some(fields) = event.as_array() {
        // Main schema until draft 01: the fields are named once; these are the usual ones, with or without a trigger.
        // The time may be a text.
        let mut words = fields.iter().filter(|field| number(field).is_none()).filter_map(Value::as_str);
        let time = fields.iter().find_map(number)?;
        let (_category, event) = (words.next()?, words.next()?);
        return Some((time, name(event), fields.iter().rfind(|f| f.is_object())?, None));
    }
    let told = event.get("name").or_else(|| event.get("event")).or_else(|| event.get("type"))?.as_str()?;
    let data = event.get("data").unwrap_or(&Value::Null);
    Some((number(event.get("time")?)?, name(told), data, event.get("group_id")))
}

/// A number, also as text, in which early drafts have 64 bits.
fn number(value: &Value) -> Option<f64> {
    let number = value.as_f64().or_else(|| value.as_str()?.parse().ok())?;
    number.is_finite().then_some(number)
}

fn whole(value: &Value) -> Option<u64> {
    value.as_u64().or_else(|| value.as_str()?.parse().ok()).or_else(|| {
        let float = value.as_f64()?;
        (0.0..9e15).contains(&float).then_some(float as u64)
    })
}

/// Finds a member of an event's data, or of the header in the data.
fn member<'a>(data: &'a Value, name: &str) -> Option<&'a Value> {
    data.get("header").and_then(|header| header.get(name)).or_else(|| data.get(name))
}

/// Number space of a packet: those of Initials, of the handshake, and of all others (RFC 9000, section 12.3).
fn space(data: &Value) -> u8 {
    let names = ["packet_type", "packet_number_space", "type"];
    let kind = names.into_iter().find_map(|name| member(data, name)?.as_str()).unwrap_or_default();
    match kind.to_ascii_lowercase().as_str() {
        "initial" => 0,
        "handshake" => 1,
        _ => 2,
    }
}

/// Whether a packet is of a kind that has no number (RFC 9000, section 17.2).
fn numberless(data: &Value) -> bool {
    let kind = member(data, "packet_type").or_else(|| data.get("type")).and_then(Value::as_str);
    kind.is_some_and(|kind| {
        ["retry", "version_negotiation", "stateless_reset", "unknown"].contains(&&*kind.to_ascii_lowercase())
    })
}

/// Gives what an event tells.
fn facts(name: &str, data: &Value, mut tell: impl FnMut(Fact)) {
    let packet = || Some((space(data), member(data, "packet_number").and_then(whole)?));
    match name {
        "packet_sent" => {
            if let Some((space, number)) = packet() {
                tell(Fact::Sent { space, number });
                let frames = data.get("frames").and_then(Value::as_array);
                let blocked = ["data_blocked", "stream_data_blocked"].map(Value::from);
                if frames
                    .into_iter()
                    .flatten()
                    .any(|f| f.get("frame_type").is_some_and(|t| blocked.contains(t)))
                {
                    tell(Fact::Blocked);
                }
            }
        }
        "packet_received" => {
            tell(Fact::Received);
            for frame in data.get("frames").and_then(Value::as_array).into_iter().flatten() {
                let acked = frame.get("acked_ranges").and_then(Value::as_array);
                for range in acked.into_iter().flatten().filter_map(Value::as_array) {
                    if let (Some(first), Some(last)) =
                        (range.first().and_then(whole), range.last().and_then(whole))
                    {
                        tell(Fact::Acked { space: space(data), first, last });
                    }
                }
            }
        }
        "packets_acked" => {
            let numbers = data.get("packet_numbers").and_then(Value::as_array);
            for number in numbers.into_iter().flatten().filter_map(whole) {
                tell(Fact::Acked { space: space(data), first: number, last: number });
            }
        }
        "packet_lost" => {
            if let Some((space, number)) = packet() {
                tell(Fact::Lost { space, number });
            }
        }
        // Renamed to timer_updated in quic-events-10.
        "loss_timer_updated" | "loss_timer_expired" | "timer_updated" => {
            let is = |member: &str, wanted: &str| data.get(member).is_some_and(|v| v == wanted);
            let expired = name == "loss_timer_expired" || is("event_type", "expired");
            if expired && is("timer_type", "pto") {
                tell(Fact::Expired);
            }
        }
        "metrics_updated" | "metric_update" => {
            let of = |name: &str| data.get(name);
            if let Some(count) = of("pto_count").and_then(whole) {
                tell(Fact::Expiries(count));
            }
            if let Some(bytes) = of("bytes_in_flight").and_then(whole) {
                tell(Fact::InFlight(bytes));
            }
            if let Some(ms) = of("min_rtt").and_then(number).filter(|ms| *ms > 0.0) {
                tell(Fact::LeastTrip((ms * MILLISECOND) as i64));
            }
        }
        _ => {}
    }
}

/// Addresses of a connection: of quic-events until draft 09, and later.
fn ends(data: &Value) -> Option<[SocketAddr; 2]> {
    let end = |address: Option<&Value>, port: Option<&Value>| {
        let address: IpAddr = address?.as_str()?.parse().ok()?;
        Some(SocketAddr::new(address.to_canonical(), u16::try_from(whole(port?)?).ok()?))
    };
    let early =
        |side: &str| end(data.get(format!("{side}_ip").as_str()), data.get(format!("{side}_port").as_str()));
    let late = |side: &str| {
        let side = data.get(side)?;
        let of = |version: &str| {
            end(side.get(format!("ip_{version}").as_str()), side.get(format!("port_{version}").as_str()))
        };
        of("v4").or_else(|| of("v6"))
    };
    early("src").zip(early("dst")).or_else(|| late("local").zip(late("remote"))).map(|(a, b)| [a, b])
}

/// The file's object, or the first record of the file.
struct Object<'a>(&'a mut Reading);
/// The list of traces.
struct Traces<'a>(&'a mut Reading);
/// A trace.
struct TraceObject<'a>(&'a mut Reading);
/// The list of a trace's events.
struct Events<'a>(&'a mut Reading);

impl<'de> DeserializeSeed<'de> for Object<'_> {
    type Value = ();
    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<(), D::Error> {
        from.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for Object<'_> {
    type Value = ();
    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object of qlog")
    }
    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        while let Some(key) = map.next_key::<String>()? {
            match key.as_str() {
                "traces" => map.next_value_seed(Traces(self.0))?,
                "trace" => {
                    self.0.any = true;
                    map.next_value_seed(TraceObject(self.0))?;
                }
                _ => drop(map.next_value::<IgnoredAny>()?),
            }
        }
        Ok(())
    }
}

impl<'de> DeserializeSeed<'de> for Traces<'_> {
    type Value = ();
    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<(), D::Error> {
        from.deserialize_seq(self)
    }
}

impl<'de> Visitor<'de> for Traces<'_> {
    type Value = ();
    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of traces")
    }
    fn visit_seq<A: SeqAccess<'de>>(self, mut all: A) -> Result<(), A::Error> {
        (self.0.lists, self.0.any) = (true, true);
        while all.next_element_seed(TraceObject(self.0))?.is_some() {
            self.0.close();
        }
        Ok(())
    }
}

impl<'de> DeserializeSeed<'de> for TraceObject<'_> {
    type Value = ();
    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<(), D::Error> {
        from.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for TraceObject<'_> {
    type Value = ();
    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a trace")
    }
    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        self.0.trace = Some(Trace::default());
        while let Some(key) = map.next_key::<String>()? {
            if key == "events" {
                map.next_value_seed(Events(self.0))?;
                continue;
            }
            let trace = self.0.trace.get_or_insert_default();
            match key.as_str() {
                "title" => trace.title = map.next_value::<Value>()?.as_str().unwrap_or_default().to_owned(),
                "vantage_point" => trace.vantage = map.next_value()?,
                "common_fields" => trace.common = map.next_value()?,
                "configuration" => trace.configuration = map.next_value()?,
                "event_fields" => trace.event_fields = map.next_value()?,
                _ => drop(map.next_value::<IgnoredAny>()?),
            }
        }
        Ok(())
    }
}

impl<'de> DeserializeSeed<'de> for Events<'_> {
    type Value = ();
    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<(), D::Error> {
        from.deserialize_seq(self)
    }
}

impl<'de> Visitor<'de> for Events<'_> {
    type Value = ();
    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of events")
    }
    fn visit_seq<A: SeqAccess<'de>>(self, mut all: A) -> Result<(), A::Error> {
        let mut number = 0;
        while let Some(event) = all.next_element::<Value>()? {
            number += 1;
            self.0.event(&event, number);
        }
        Ok(())
    }
}
