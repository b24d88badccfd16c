//! TCP settings: the scenario's, over them those of a group of hosts, over them those of an entry of traffic.

use narrows_tcp::{CcKind, Config, Preset, Settings as _, StartupKind};
use toml::{Table, Value};

use crate::Error;
use crate::read::shown;
use narrows_settings::nearest;

/// A `[tcp]` table and the path at which the table stands.
#[derive(Clone, Debug)]
pub(crate) struct Layer<'a> {
    pub table: &'a Table,
    pub path: String,
}

/// TCP and IP headers without options, bytes.
const HEADERS: u32 = 40;

/// The settings of an end: `layers` from the outermost. A preset begins anew: what lies further out counts no more.
/// `congestion` is the scenario's `congestion_control`. The MSS is what fits into `mtu`, unless it is given.
pub(crate) fn config(layers: &[Layer<'_>], congestion: Option<&str>, mtu: u32) -> Result<Config, Error> {
    let from = layers.iter().rposition(|l| l.table.contains_key("preset")).unwrap_or(0);
    let mut config = match layers.get(from).and_then(|l| Some((l, l.table.get("preset")?))) {
        None => Config::default(),
        Some((layer, value)) => Config::preset(preset(layer, value)?),
    };
    if let Some(name) = congestion.filter(|_| from == 0) {
        config.set("congestion", name).map_err(|e| {
            let mut e = Error::setting("congestion_control", format!("'{name}'"), &e);
            e.problem += "; the lab takes all the kernel knows";
            e
        })?;
        // HyStart belongs to CUBIC: in the kernel Reno starts slowly in the old way.
        if config.congestion != CcKind::Cubic {
            config.startup = StartupKind::SlowStart;
        }
    }
    let mut mss_given = false;
    for layer in layers.get(from..).unwrap_or_default() {
        for (key, value) in layer.table.iter().filter(|(k, _)| *k != "preset") {
            mss_given |= key == "mss";
            set(&mut config, layer, key, value)?;
        }
    }
    let path = layers.last().map_or("tcp", |l| l.path.as_str());
    let most = mtu - HEADERS - config.timestamp_bytes();
    if !mss_given {
        config.mss = most;
    } else if config.mss > most {
        let expected = format!("at most {most}, or with its headers it does not fit into mtu = {mtu}");
        return Err(Error::value(&format!("{path}.mss"), config.mss, expected));
    }
    config.check().map_err(|e| Error::setting(&format!("{path}.{}", e.key), &e.value, &e))?;
    Ok(config)
}

fn set(config: &mut Config, layer: &Layer<'_>, key: &str, value: &Value) -> Result<(), Error> {
    let path = format!("{}.{key}", layer.path);
    if Config::key(key).is_none() {
        let names = Config::keys().iter().map(|k| k.name).chain(["preset"]);
        let expected = match nearest(key, names) {
            Some(near) => format!("'{near}'?"),
            None => "preset or a key of docs/reference/tcp.md".to_owned(),
        };
        return Err(Error::new(path, format!("no such key: expected {expected}")));
    }
    let text = match value {
        Value::String(s) => s.clone(),
        Value::Boolean(b) => (if *b { "on" } else { "off" }).to_owned(),
        other => other.to_string(),
    };
    config.set(key, &text).map_err(|e| Error::setting(&path, shown(value), &e))
}

fn preset(layer: &Layer<'_>, value: &Value) -> Result<Preset, Error> {
    let name = value.as_str().unwrap_or_default();
    name.parse().map_err(|e: narrows_tcp::SettingError| {
        Error::setting(&format!("{}.preset", layer.path), shown(value), &e)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(tables: &[&str], congestion: Option<&str>, mtu: u32) -> Result<Config, Error> {
        let tables: Vec<Table> = tables.iter().map(|t| toml::from_str(t).unwrap()).collect();
        let layers: Vec<Layer<'_>> =
            tables.iter().map(|table| Layer { table, path: "tcp".to_owned() }).collect();
        config(&layers, congestion, mtu)
    }

    #[test]
    fn inner_settings_win_and_a_preset_begins_anew() {
        let c = with(&["dupthresh = 5\necn = true", "dupthresh = 7"], None, 1500).unwrap();
        assert_eq!((c.dupthresh, c.ecn), (7, true));
        let c = with(&["dupthresh = 5", "preset = \"ns2\"\nrto_min = 1"], Some("cubic"), 500).unwrap();
        let ns2 = Config::preset(Preset::Ns2);
        assert_eq!((c.dupthresh, c.congestion), (ns2.dupthresh, ns2.congestion));
        assert_eq!(c.rto.min, narrows_units::Duration::from_secs(1));
    }

    #[test]
    fn what_fits_into_the_mtu() {
        // 500 - 40 without timestamps, 1500 - 40 - 12 with them.
        assert_eq!(with(&["preset = \"ns2\""], None, 500).unwrap().mss, 460);
        assert_eq!(with(&[], None, 1500).unwrap().mss, 1448);
        // ns-2's option has 10.
        assert_eq!(with(&["preset = \"ns2\"\ntimestamps = true"], None, 500).unwrap().mss, 450);
        assert_eq!(with(&["mss = 1000"], None, 1500).unwrap().mss, 1000);
    }

    #[test]
    fn congestion_control_by_its_kernel_name() {
        let c = with(&["preset = \"linux\""], Some("reno"), 1500).unwrap();
        assert_eq!((c.congestion, c.startup), (CcKind::Reno, StartupKind::SlowStart));
        for (tables, congestion, says) in [
            (["preset = \"linus\""], None, "tcp.preset = 'linus': expected ns2 or ns3 or linux or rfc"),
            (["rto_mn = 1"], None, "tcp.rto_mn: no such key: expected 'rto_min'?"),
            (["dupthresh = 0"], None, "tcp.dupthresh = 0: expected 1 to 1000"),
            (["recovery = \"reno\""], None, "expected recovery = sack"),
            (["mss = 1460"], None, "tcp.mss = 1460: expected at most 1448"),
            ([""], Some("bbr"), "congestion_control = 'bbr': expected reno or aimd or adaptive_aimd or htcp"),
        ] {
            let e = with(&tables, congestion, 1500).unwrap_err().to_string();
            assert!(e.contains(says), "{e}");
        }
    }
}
