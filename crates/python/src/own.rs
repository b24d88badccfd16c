//! Congestion controls and queues written in Python: classes whose objects the simulator calls.
//!
//! Each call takes the interpreter's lock and costs half a microsecond at least, where the same lines of Rust cost a
//! few nanoseconds. The first exception ends the run: from then on nothing is called, and the run stops when it next
//! asks.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock};

use narrows_qdisc::ShaperConfig;
use narrows_sim::{Fate, MakeControl, Own, OwnQueue};
use narrows_tcp::Config;
use narrows_tcp::cc::{AckSample, CongestionControl, DeliverySample};
use narrows_units::{Duration, Instant, Rate};
use narrows_wire::{Flags, Header, Proto};
use pyo3::PyClass;
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;

/// The window of a connection, in segments.
#[pyclass(module = "narrows.own")]
#[derive(Debug)]
pub(crate) struct Window {
    /// Congestion window, segments; may be a fraction, of which the whole part may be sent.
    #[pyo3(get, set)]
    cwnd: f64,
    /// Slow start threshold, segments.
    #[pyo3(get, set)]
    ssthresh: f64,
}

#[pymethods]
impl Window {
    fn __repr__(&self) -> String {
        format!("Window(cwnd={}, ssthresh={})", self.cwnd, self.ssthresh)
    }
}

/// An acknowledgment of new data.
#[pyclass(frozen, get_all, module = "narrows.own")]
#[derive(Debug)]
pub(crate) struct Ack {
    /// Time, s.
    now: f64,
    /// Bytes newly acknowledged.
    acked: u64,
    /// Segments that the ACK counts for.
    credit: f64,
    /// Whether the credit is computed from bytes, as Linux does.
    by_bytes: bool,
    /// The round trip that it measures, s; None if it measures none.
    rtt: Option<f64>,
    /// Smoothed round trip, s; 0 before the first sample.
    srtt: f64,
    /// Segments in flight before the ACK.
    in_flight: u32,
    /// Whether the sender used its whole window.
    window_limited: bool,
    /// Bytes of a full segment.
    mss: u32,
}

/// A loss, a time-out or an echo of a congestion mark.
#[pyclass(frozen, get_all, module = "narrows.own")]
#[derive(Debug)]
pub(crate) struct Loss {
    /// Time, s.
    now: f64,
    /// Segments from which to reduce, as `reduce_from` says.
    base: f64,
    /// Bytes of a full segment.
    mss: u32,
}

/// Data newly acknowledged, in any phase of the connection.
#[pyclass(frozen, get_all, module = "narrows.own")]
#[derive(Debug)]
pub(crate) struct Delivery {
    /// Time, s.
    now: f64,
    /// Segments newly acknowledged.
    segments: u32,
    /// The round trip that it measures, s; None if it measures none.
    rtt: Option<f64>,
    /// Whether no loss is being repaired.
    open: bool,
}

/// First exception of a run's own parts; once there is one, nothing of Python's is called.
#[derive(Clone, Debug, Default)]
pub(crate) struct Failure(Arc<OnceLock<PyErr>>);

impl Failure {
    pub(crate) fn is_there(&self) -> bool {
        self.0.get().is_some()
    }
    pub(crate) fn exception(&self, py: Python<'_>) -> Option<PyErr> {
        self.0.get().map(|why| why.clone_ref(py))
    }
    fn keep(&self, why: PyErr) {
        self.0.get_or_init(|| why);
    }
}

/// The parts of a run that Python brings, by number.
pub(crate) struct Parts {
    parts: Vec<Arc<Py<PyAny>>>,
    failure: Failure,
}

/// Words of a refusal whose reason is an exception, which says more.
const EXCEPTION: &str = "has failed";

impl Parts {
    pub(crate) fn new(parts: Vec<Py<PyAny>>, failure: Failure) -> Self {
        Self { parts: parts.into_iter().map(Arc::new).collect(), failure }
    }

    /// The part with a number.
    fn part(&self, number: u16) -> Result<&Arc<Py<PyAny>>, String> {
        let there = self.parts.get(usize::from(number));
        there.ok_or_else(|| "is a class of another process: pass the class itself".to_owned())
    }

    /// Result of `work`, whose exception ends the run.
    fn attempt<T>(&self, work: impl FnOnce(Python<'_>) -> PyResult<T>) -> Result<T, String> {
        Python::attach(work).map_err(|why| {
            self.failure.keep(why);
            EXCEPTION.to_owned()
        })
    }
}

/// An object of `part`; an exception if it lacks one of the methods that `what` needs.
fn object<'py>(
    py: Python<'py>,
    part: &Py<PyAny>,
    methods: &[&str],
    what: &str,
) -> PyResult<Bound<'py, PyAny>> {
    let made = part.bind(py).call0()?;
    for method in methods {
        if !made.getattr_opt(*method)?.is_some_and(|m| m.is_callable()) {
            let all = methods.join(", ");
            let name = made.get_type().name()?;
            let told = format!("{name} has no method {method}: expected {all} of {what}");
            return Err(PyTypeError::new_err(told));
        }
    }
    Ok(made)
}

/// A value as its `repr` tells it, for an error.
fn shown(value: &Bound<'_, PyAny>) -> String {
    value.repr().map_or_else(|_| "a value".to_owned(), |words| words.to_string())
}

impl Own for Parts {
    fn control(&self, number: u16) -> Result<MakeControl, String> {
        let part = self.part(number)?.clone();
        // This object only shows whether the part can be a control; ends make their own, some of them none.
        self.attempt(|py| {
            object(py, &part, &["on_ack", "on_loss", "on_rto"], "a congestion control").map(drop)
        })?;
        let failure = self.failure.clone();
        Ok(MakeControl::new(move || {
            let (part, failure) = (part.clone(), failure.clone());
            Box::new(Control { part, failure, made: None })
        }))
    }

    fn queue(&self, number: u16, _link: &ShaperConfig, _seed: u64) -> Result<Box<dyn OwnQueue>, String> {
        let part = self.part(number)?;
        let queue = self.attempt(|py| {
            let made = object(py, part, &["enqueue", "dequeue"], "a queue")?;
            let next_ready = made.getattr_opt("next_ready")?.map(Bound::unbind);
            Ok(Queue {
                name: made.get_type().name()?.to_string(),
                enqueue: made.getattr("enqueue")?.unbind(),
                dequeue: made.getattr("dequeue")?.unbind(),
                next_ready,
                holds_back: false,
                desk: Arc::default(),
                failure: self.failure.clone(),
            })
        })?;
        Ok(Box::new(queue))
    }
}

/// A congestion control of an end: an object of Python's from the first event on, so that an end which only receives
/// has none.
struct Control {
    part: Arc<Py<PyAny>>,
    failure: Failure,
    made: Option<Made>,
}

struct Made {
    name: String,
    window: Py<Window>,
    on_ack: Py<PyAny>,
    on_loss: Py<PyAny>,
    on_rto: Py<PyAny>,
    on_ecn: Option<Py<PyAny>>,
    on_delivery: Option<Py<PyAny>>,
    pacing_rate: Option<Py<PyAny>>,
}

impl Made {
    fn new(py: Python<'_>, part: &Py<PyAny>) -> PyResult<Self> {
        let made = part.bind(py).call0()?;
        let optional = |name| PyResult::Ok(made.getattr_opt(name)?.map(Bound::unbind));
        Ok(Self {
            name: made.get_type().name()?.to_string(),
            window: Py::new(py, Window { cwnd: 0.0, ssthresh: 0.0 })?,
            on_ack: made.getattr("on_ack")?.unbind(),
            on_loss: made.getattr("on_loss")?.unbind(),
            on_rto: made.getattr("on_rto")?.unbind(),
            on_ecn: optional("on_ecn")?,
            on_delivery: optional("on_delivery")?,
            pacing_rate: optional("pacing_rate")?,
        })
    }

    /// Calls a method with the window and an event, and takes the window back.
    fn call<'py, E>(
        &self,
        py: Python<'py>,
        method: &Py<PyAny>,
        window: &mut narrows_tcp::cc::Window,
        event: E,
    ) -> PyResult<()>
    where
        E: Into<PyClassInitializer<E>> + PyClass,
    {
        {
            let mut told = self.window.bind(py).borrow_mut();
            (told.cwnd, told.ssthresh) = (window.cwnd, window.ssthresh);
        }
        method.bind(py).call1((&self.window, Bound::new(py, event)?))?;
        let told = self.window.bind(py).borrow();
        let Window { cwnd, ssthresh } = *told;
        if !(cwnd.is_finite() && cwnd >= 1.0) {
            let told =
                format!("{} leaves cwnd = {cwnd}: expected a number of segments, 1 and more", self.name);
            return Err(PyValueError::new_err(told));
        }
        if ssthresh.is_nan() || ssthresh < 0.0 {
            let told = format!("{} leaves ssthresh = {ssthresh}: expected a number of segments", self.name);
            return Err(PyValueError::new_err(told));
        }
        (window.cwnd, window.ssthresh) = (cwnd, ssthresh);
        Ok(())
    }
}

impl Control {
    /// Lets the object work, which is made if there is none yet; an exception ends the run.
    fn work(&mut self, work: impl FnOnce(Python<'_>, &Made) -> PyResult<()>) {
        if self.failure.is_there() {
            return;
        }
        let (part, place) = (&self.part, &mut self.made);
        let done = Python::attach(|py| {
            if place.is_none() {
                *place = Some(Made::new(py, part)?);
            }
            place.as_ref().map_or(Ok(()), |made| work(py, made))
        });
        if let Err(why) = done {
            self.failure.keep(why);
        }
    }
}

fn seconds(time: Option<Duration>) -> Option<f64> {
    time.map(Duration::as_secs_f64)
}

impl CongestionControl for Control {
    fn on_ack(&mut self, window: &mut narrows_tcp::cc::Window, config: &Config, sample: &AckSample) {
        self.work(|py, made| {
            let ack = Ack {
                now: sample.now.as_secs_f64(),
                acked: sample.acked,
                credit: sample.credit,
                by_bytes: sample.by_bytes,
                rtt: seconds(sample.rtt),
                srtt: sample.srtt.as_secs_f64(),
                in_flight: sample.in_flight,
                window_limited: sample.window_limited,
                mss: config.mss,
            };
            made.call(py, &made.on_ack, window, ack)
        });
    }
    fn on_loss(&mut self, window: &mut narrows_tcp::cc::Window, config: &Config, now: Instant, base: f64) {
        let loss = Loss { now: now.as_secs_f64(), base, mss: config.mss };
        self.work(|py, made| made.call(py, &made.on_loss, window, loss));
    }
    fn on_rto(&mut self, window: &mut narrows_tcp::cc::Window, config: &Config, now: Instant, base: f64) {
        let loss = Loss { now: now.as_secs_f64(), base, mss: config.mss };
        self.work(|py, made| made.call(py, &made.on_rto, window, loss));
    }
    fn on_ecn(&mut self, window: &mut narrows_tcp::cc::Window, config: &Config, now: Instant, base: f64) {
        let loss = Loss { now: now.as_secs_f64(), base, mss: config.mss };
        self.work(|py, made| made.call(py, made.on_ecn.as_ref().unwrap_or(&made.on_loss), window, loss));
    }
    fn on_delivery(&mut self, window: &mut narrows_tcp::cc::Window, _: &Config, delivery: &DeliverySample) {
        // Most have no such method: then this costs nothing once the object is there.
        if self.made.as_ref().is_some_and(|made| made.on_delivery.is_none()) {
            return;
        }
        self.work(|py, made| {
            let Some(method) = &made.on_delivery else { return Ok(()) };
            let DeliverySample { now, segments, rtt, open } = *delivery;
            let event = Delivery { now: now.as_secs_f64(), segments, rtt: seconds(rtt), open };
            made.call(py, method, window, event)
        });
    }
    fn pacing_rate(&self, window: &narrows_tcp::cc::Window, _: &Config) -> Option<Rate> {
        let made = self.made.as_ref().filter(|_| !self.failure.is_there())?;
        let method = made.pacing_rate.as_ref()?;
        let asked = Python::attach(|py| {
            let told = Window { cwnd: window.cwnd, ssthresh: window.ssthresh };
            method.bind(py).call1((Bound::new(py, told)?,))?.extract::<Option<f64>>()
        });
        match asked {
            Ok(rate) => rate.filter(|bps| *bps >= 1.0).map(|bps| Rate::from_bps(bps as u64)),
            Err(why) => {
                self.failure.keep(why);
                None
            }
        }
    }
}

/// Decisions that packets and the queue that keeps them share.
#[derive(Debug, Default)]
struct Desk {
    fates: Mutex<Vec<Fate>>,
    waiting: AtomicUsize,
}

impl Desk {
    fn decide(&self, fate: Fate) {
        if let Ok(mut fates) = self.fates.lock() {
            fates.push(fate);
        }
    }
}

/// A packet that waits, or has waited, in a queue of one's own.
#[pyclass(frozen, module = "narrows.own")]
#[derive(Debug)]
pub(crate) struct Packet {
    number: u64,
    came: f64,
    header: Header,
    gone: AtomicBool,
    desk: Arc<Desk>,
}

impl Packet {
    /// Takes it off the books; an error if it has left before.
    fn leave(&self) -> PyResult<()> {
        if self.gone.swap(true, Ordering::Relaxed) {
            let told = format!("packet {} has left the queue: expected one that waits", self.number);
            return Err(PyValueError::new_err(told));
        }
        self.desk.waiting.fetch_sub(1, Ordering::Relaxed);
        Ok(())
    }
    fn flag(&self, flag: Flags) -> bool {
        self.header.tcp.is_some_and(|tcp| tcp.flags.has(flag))
    }
}

#[pymethods]
impl Packet {
    /// Number of the packet among those that came to this queue, from 0.
    #[getter]
    fn number(&self) -> u64 {
        self.number
    }
    /// Time at which it came, s.
    #[getter]
    fn came(&self) -> f64 {
        self.came
    }
    /// Length of the IP packet, bytes.
    #[getter]
    fn size(&self) -> u64 {
        self.header.len.get()
    }
    /// Connection and direction: addresses, ports and protocol, to compare and to be a dict's key.
    #[getter]
    fn flow(&self) -> (String, String, u16, u16, u8) {
        let key = &self.header.key;
        (self.src(), self.dst(), key.sport, key.dport, key.proto.0)
    }
    /// Address of the sender.
    #[getter]
    fn src(&self) -> String {
        self.header.key.src().to_canonical().to_string()
    }
    /// Address of the receiver.
    #[getter]
    fn dst(&self) -> String {
        self.header.key.dst().to_canonical().to_string()
    }
    /// Whether it is TCP whose header can be read.
    #[getter]
    fn is_tcp(&self) -> bool {
        self.header.key.proto == Proto::TCP && self.header.tcp.is_some()
    }
    /// Bytes of data of a TCP segment; None where the header cannot be read.
    #[getter]
    fn payload(&self) -> Option<u32> {
        self.header.tcp.map(|tcp| tcp.payload)
    }
    /// Sequence number of a TCP segment.
    #[getter]
    fn seq(&self) -> Option<u32> {
        self.header.tcp.map(|tcp| tcp.seq.0)
    }
    /// Acknowledgment number of a TCP segment.
    #[getter]
    fn ack(&self) -> Option<u32> {
        self.header.tcp.filter(|tcp| tcp.flags.has(Flags::ACK)).map(|tcp| tcp.ack.0)
    }
    /// Whether it opens a connection.
    #[getter]
    fn syn(&self) -> bool {
        self.flag(Flags::SYN)
    }
    /// Whether it ends a direction.
    #[getter]
    fn fin(&self) -> bool {
        self.flag(Flags::FIN)
    }
    /// Codepoint of its class of service (DSCP).
    #[getter]
    fn dscp(&self) -> u8 {
        self.header.dscp.get()
    }
    /// Whether its sender takes a mark in place of a loss (ECN).
    #[getter]
    fn ecn_capable(&self) -> bool {
        self.header.ecn.is_capable()
    }

    /// Drops the packet, which waits.
    ///
    /// Raises:
    ///     ValueError: it has left before.
    fn drop(&self) -> PyResult<()> {
        self.leave()?;
        self.desk.decide(Fate::Drop(self.number));
        Ok(())
    }

    /// Marks congestion experienced; False, and nothing done, if the packet is not ECN-capable or has left.
    fn mark(&self) -> bool {
        let may = self.header.ecn.is_capable() && !self.gone.load(Ordering::Relaxed);
        if may {
            self.desk.decide(Fate::Mark(self.number));
        }
        may
    }

    fn __repr__(&self) -> String {
        format!("<Packet {}: {} B, {} to {}>", self.number, self.size(), self.src(), self.dst())
    }
}

/// A queue of Python's.
struct Queue {
    name: String,
    enqueue: Py<PyAny>,
    dequeue: Py<PyAny>,
    next_ready: Option<Py<PyAny>>,
    /// Whether it gave no packet when it was asked last, though some wait.
    holds_back: bool,
    desk: Arc<Desk>,
    failure: Failure,
}

impl Queue {
    fn settle(&self, fates: &mut Vec<Fate>) {
        if let Ok(mut decided) = self.desk.fates.lock() {
            fates.append(&mut decided);
        }
    }

    /// The packet that `dequeue` gives.
    fn next(&self, now: f64) -> PyResult<Option<u64>> {
        Python::attach(|py| {
            let given = self.dequeue.bind(py).call1((now,))?;
            if given.is_none() {
                let waiting = self.desk.waiting.load(Ordering::Relaxed);
                if waiting > 0 && self.next_ready.is_none() {
                    let told = format!(
                        "{}.dequeue gives None while {waiting} packets wait: expected one of them, or a method \
                         next_ready(now) that tells when there is one",
                        self.name
                    );
                    return Err(PyValueError::new_err(told));
                }
                return Ok(None);
            }
            let wrong = || {
                PyTypeError::new_err(format!(
                    "{}.dequeue gives {}: expected a packet that was enqueued, or None",
                    self.name,
                    shown(&given)
                ))
            };
            let packet = given.cast::<Packet>().map_err(|_| wrong())?.get();
            if !Arc::ptr_eq(&packet.desk, &self.desk) {
                return Err(wrong());
            }
            packet.leave()?;
            Ok(Some(packet.number))
        })
    }

    /// Time that `next_ready` gives; it must be later than `now` if `dequeue` has just given nothing.
    fn ready(&self, method: &Py<PyAny>, now: Instant) -> PyResult<Option<Instant>> {
        let asked = now.as_secs_f64();
        let told = Python::attach(|py| method.bind(py).call1((asked,))?.extract::<Option<f64>>())?;
        let Some(at) = told else { return Ok(None) };
        if at.is_nan() || self.holds_back && at <= asked {
            let told = format!(
                "{}.next_ready gives {at} at {asked} s, after dequeue gave None: expected a later time, or None",
                self.name
            );
            return Err(PyValueError::new_err(told));
        }
        // Rounding up lets a queue that compares its own time with `now` find that the time has come.
        let mut nanos = (at.max(asked) * 1e9).ceil() as u64;
        while Instant::from_nanos(nanos).as_secs_f64() < at && nanos < u64::MAX {
            nanos += 1;
        }
        Ok(Some(Instant::from_nanos(nanos)))
    }
}

impl OwnQueue for Queue {
    fn enqueue(&mut self, now: Instant, number: u64, header: &Header, fates: &mut Vec<Fate>) {
        if self.failure.is_there() {
            return fates.push(Fate::Drop(number));
        }
        let came = now.as_secs_f64();
        let done = Python::attach(|py| {
            self.desk.waiting.fetch_add(1, Ordering::Relaxed);
            let (desk, gone) = (self.desk.clone(), AtomicBool::new(false));
            let packet = Bound::new(py, Packet { number, came, header: *header, gone, desk })?;
            let given = self.enqueue.bind(py).call1((packet, came))?;
            if given.is_none() {
                return Ok(());
            }
            let told =
                format!("{}.enqueue gives {}: expected None; packet.drop() drops", self.name, shown(&given));
            Err(PyTypeError::new_err(told))
        });
        if let Err(why) = done {
            self.failure.keep(why);
        }
        self.settle(fates);
    }

    fn dequeue(&mut self, now: Instant, fates: &mut Vec<Fate>) -> Option<u64> {
        if self.failure.is_there() {
            return None;
        }
        let next = self.next(now.as_secs_f64()).unwrap_or_else(|why| {
            self.failure.keep(why);
            None
        });
        self.settle(fates);
        self.holds_back = next.is_none();
        next
    }

    fn next_ready(&self, now: Instant) -> Option<Instant> {
        if self.failure.is_there() {
            return None;
        }
        let Some(method) = &self.next_ready else { return Some(now) };
        self.ready(method, now).unwrap_or_else(|why| {
            self.failure.keep(why);
            None
        })
    }
}
