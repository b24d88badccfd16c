//! Calls, from an entry of `[[traffic]]`.

use crate::calls::CallShape;
use crate::read::Reader;
use crate::{Error, Traffic, TrafficKind};
use narrows_settings::one_of;

/// Most calls of an entry: each keeps how its packets were delayed, some 40 kB.
const MOST_CALLS: u32 = 10_000;
/// Least packet: IP and UDP headers, and the 20 bytes by which the lab knows it again.
const LEAST: u32 = 48;

/// Reads the keys of calls alone.
pub(super) fn read(r: &Reader<'_>) -> Result<TrafficKind, Error> {
    let mut call = r.or("shape", CallShape::NAMED[0].1, |r, k| r.word(k, &CallShape::NAMED))?;
    let packet = |key| r.count(key, LEAST, 9_000);
    if let Some(bytes) = packet("packet")? {
        (call.down, call.up) = (bytes, bytes);
    }
    call.up = packet("up_packet")?.unwrap_or(call.up);
    call.interval = r.or("interval", call.interval, |r, k| r.positive_time(k))?;
    let flows = r.must("flows", "how many calls, 1 or more", |r, k| r.count(k, 1, MOST_CALLS))?;
    Ok(TrafficKind::Calls { flows, call })
}

/// Finds the entry whose users make the calls.
pub(super) fn beside(r: &Reader<'_>, call: &Traffic, before: &[Traffic]) -> Result<Option<usize>, Error> {
    let TrafficKind::Calls { flows, .. } = call.kind else { return Ok(None) };
    let Some(name) = r.text("beside")? else { return Ok(None) };
    let all = || before.iter().map(|t| t.name.as_str());
    let Some(at) = all().position(|known| known == name) else {
        let known =
            if before.is_empty() { "none is before this one".to_owned() } else { one_of(name, all()) };
        return Err(r.wrong("beside", format!("the name of traffic that stands before this: {known}")));
    };
    let users = &before[at];
    if (users.from, users.to) != (call.from, call.to) {
        return Err(r.wrong("beside", "traffic between the same groups of hosts: the same from and to"));
    }
    if flows > users.users() {
        let problem = format!("at most {} calls, one for each user of '{name}'", users.users());
        return Err(r.wrong("flows", problem));
    }
    Ok(Some(at))
}

#[cfg(test)]
mod tests {
    use narrows_units::{Dscp, Duration};

    use crate::calls::CallShape;
    use crate::{Experiment, Scenario, TrafficKind};

    fn load(calls: &str) -> Result<Scenario, String> {
        let text = format!(
            "name = 't'\nrate = '1mbit'\ndiscipline = 'taq'\n[[traffic]]\nkind = 'long'\nflows = 3\n\
             [[traffic]]\nkind = 'objects'\nusers = 4\n[[traffic]]\nkind = 'calls'\n{calls}\n"
        );
        let runs = Experiment::parse(&text, &[]).and_then(|e| e.expand()).map_err(|e| e.to_string())?;
        Ok(Scenario::clone(&runs[0].scenario))
    }

    fn call(calls: &str) -> CallShape {
        let TrafficKind::Calls { call, .. } = load(calls).unwrap().traffic[2].kind else { panic!() };
        call
    }

    #[test]
    fn a_shape_and_what_changes_it() {
        assert_eq!((call("flows = 1").down, call("flows = 1").up), (200, 200));
        assert_eq!(call("flows = 1\nshape = 'game'").up, 80);
        let own = call("flows = 1\nshape = 'game'\npacket = 300\ninterval = '50ms'");
        assert_eq!((own.down, own.up, own.interval), (300, 300, Duration::from_millis(50)));
        assert_eq!(call("flows = 1\npacket = 300\nup_packet = 60").up, 60);
    }

    #[test]
    fn calls_by_users_of_others_take_no_hosts() {
        let place = |calls: &str| {
            let s = load(calls).unwrap();
            (s.traffic[2].first, s.topology.hosts[1].count)
        };
        assert_eq!(place("flows = 2"), (7, 9));
        assert_eq!(place("flows = 2\nbeside = 'objects'"), (3, 7));
        assert_eq!(place("flows = 2\nbeside = 'long'"), (0, 7));
    }

    #[test]
    fn codepoints_by_name() {
        for (word, number) in
            [("'ef'", 46), ("'cs5'", 40), ("'af41'", 34), ("'va'", 44), ("'le'", 1), ("18", 18)]
        {
            let s = load(&format!("flows = 1\ndscp = {word}")).unwrap();
            assert_eq!(s.traffic[2].dscp, Dscp::new(number).unwrap(), "{word}");
        }
    }

    #[test]
    fn wrong_entries_say_what_is_expected() {
        for (calls, says) in [
            ("", "traffic.2.flows is missing: expected how many calls"),
            (
                "flows = 1\nbeside = 'object'",
                "expected the name of traffic that stands before this: 'objects'",
            ),
            ("flows = 5\nbeside = 'objects'", "at most 4 calls, one for each user of 'objects'"),
            ("flows = 1\nshape = 'g729'", "g711"),
            ("flows = 1\npacket = 20", "a whole number from 48 to 9000"),
            ("flows = 1\npacket = 2000", "at most mtu = 1500"),
            ("flows = 1\ndscp = 'cs8'", "cs0 to cs7"),
            ("flows = 1\nrequest = 9", "no such key for calls, which has no connections"),
            ("flows = 20000", "from 1 to 10000"),
        ] {
            let e = load(calls).unwrap_err();
            assert!(e.contains(says), "{calls}: {e}");
        }
    }
}
