//! A control that the caller brings: written against [`CongestionControl`] outside of this crate, as a Python class is.
//! It costs a call through a pointer for each event; nobody else pays for it.

use narrows_units::{Instant, Rate};

use super::{AckSample, CcEstimates, CongestionControl, DeliverySample, Reno, Window};
use crate::Config;

/// A congestion control of the caller's.
pub type OwnControl = Box<dyn CongestionControl + Send>;

/// A control of the caller's; Reno for an end that was given none.
pub(crate) struct Own(OwnControl);

impl Own {
    pub(crate) fn new(control: OwnControl) -> Self {
        Self(control)
    }
}

impl Default for Own {
    fn default() -> Self {
        Self(Box::<Reno>::default())
    }
}

impl core::fmt::Debug for Own {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("Own")
    }
}

impl CongestionControl for Own {
    fn on_ack(&mut self, window: &mut Window, config: &Config, sample: &AckSample) {
        self.0.on_ack(window, config, sample);
    }
    fn on_loss(&mut self, window: &mut Window, config: &Config, now: Instant, base: f64) {
        self.0.on_loss(window, config, now, base);
    }
    fn on_rto(&mut self, window: &mut Window, config: &Config, now: Instant, base: f64) {
        self.0.on_rto(window, config, now, base);
    }
    fn on_delivery(&mut self, window: &mut Window, config: &Config, delivery: &DeliverySample) {
        self.0.on_delivery(window, config, delivery);
    }
    fn on_ecn(&mut self, window: &mut Window, config: &Config, now: Instant, base: f64) {
        self.0.on_ecn(window, config, now, base);
    }
    fn pacing_rate(&self, window: &Window, config: &Config) -> Option<Rate> {
        self.0.pacing_rate(window, config)
    }
    fn estimates(&self) -> Option<CcEstimates> {
        self.0.estimates()
    }
}

#[cfg(test)]
mod tests {
    use core::cell::Cell;
    use std::sync::Arc;
    use std::sync::Mutex;

    use narrows_units::Duration;

    use super::*;
    use crate::cc::AnyCc;
    use crate::cc::tests::{delivery, sample};

    /// Notes every call, and answers the questions.
    struct Noted(Arc<Mutex<Vec<&'static str>>>, Cell<u32>);

    impl Noted {
        fn note(&self, call: &'static str) {
            self.0.lock().unwrap().push(call);
            self.1.set(self.1.get() + 1);
        }
    }

    impl CongestionControl for Noted {
        fn on_ack(&mut self, window: &mut Window, _: &Config, _: &AckSample) {
            self.note("ack");
            window.cwnd += 1.0;
        }
        fn on_loss(&mut self, _: &mut Window, _: &Config, _: Instant, _: f64) {
            self.note("loss");
        }
        fn on_rto(&mut self, _: &mut Window, _: &Config, _: Instant, _: f64) {
            self.note("rto");
        }
        fn on_delivery(&mut self, _: &mut Window, _: &Config, _: &DeliverySample) {
            self.note("delivery");
        }
        fn on_ecn(&mut self, _: &mut Window, _: &Config, _: Instant, _: f64) {
            self.note("ecn");
        }
        fn pacing_rate(&self, _: &Window, _: &Config) -> Option<Rate> {
            Some(Rate::from_kbps(self.1.get().into()))
        }
        fn estimates(&self) -> Option<CcEstimates> {
            let time = Duration::from_millis(1);
            Some(CcEstimates { alpha: 7.0, beta: 0.5, rtt_min: time, rtt_max: time })
        }
    }

    #[test]
    fn every_call_comes_to_the_callers_control() {
        let config: Config = "ns2:congestion=own:3".parse().unwrap();
        let text = <Config as crate::Settings>::key("congestion").and_then(|key| key.value(&config));
        assert_eq!(text.as_deref(), Some("own:3"));
        let calls = Arc::new(Mutex::new(Vec::new()));
        let (mut cc, mut w) = (AnyCc::new(&config), Window { cwnd: 4.0, ssthresh: 2.0 });
        cc.bring(Box::new(Noted(calls.clone(), Cell::new(0))));
        cc.on_ack(&mut w, &config, &sample(0, 1.0));
        cc.on_loss(&mut w, &config, Instant::ZERO, 4.0);
        cc.on_rto(&mut w, &config, Instant::ZERO, 4.0);
        cc.on_delivery(&mut w, &config, &delivery(0, 1, 100));
        cc.on_ecn(&mut w, &config, Instant::ZERO, 4.0);
        assert_eq!(*calls.lock().unwrap(), ["ack", "loss", "rto", "delivery", "ecn"]);
        assert_eq!(w.cwnd, 5.0);
        assert_eq!(cc.pacing_rate(&w, &config), Some(Rate::from_kbps(5)));
        assert_eq!(cc.estimates().map(|e| e.alpha), Some(7.0));
        // A control that is named by a word is not replaced.
        let config: Config = "ns2:congestion=aimd".parse().unwrap();
        let mut named = AnyCc::new(&config);
        named.bring(Box::new(Noted(calls.clone(), Cell::new(0))));
        named.on_ack(&mut w, &config, &sample(0, 1.0));
        assert_eq!(calls.lock().unwrap().len(), 5);
    }
}
