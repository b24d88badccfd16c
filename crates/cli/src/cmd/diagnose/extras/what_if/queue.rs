//! Size of a queue, as packets or as time at the link's rate.

use core::str::FromStr;

/// The least and the most that is simulated, packets.
const BOUNDS: (f64, f64) = (1.0, 1e6);

/// Size of a buffer, as packets or as seconds at the link's rate.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum BufferSize {
    Packets(u32),
    Seconds(f64),
}

impl FromStr for BufferSize {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || "a buffer is packets (50) or a time (50ms), above 0".to_owned();
        if let Ok(packets) = text.parse::<u32>() {
            return if packets > 0 { Ok(Self::Packets(packets)) } else { Err(wrong()) };
        }
        let seconds = narrows_scenario::time(text).map_err(|_| wrong())?.as_secs_f64();
        if seconds > 0.0 && seconds < 1000.0 { Ok(Self::Seconds(seconds)) } else { Err(wrong()) }
    }
}

impl BufferSize {
    pub fn packets(self, rate_bps: f64, mean_bytes: f64) -> u32 {
        match self {
            Self::Packets(n) => n,
            Self::Seconds(s) => packets(s, rate_bps, mean_bytes),
        }
    }
}

/// Packets that a link sends in a time.
pub fn packets(seconds: f64, rate_bps: f64, mean_bytes: f64) -> u32 {
    (seconds * rate_bps / 8.0 / mean_bytes.max(40.0)).round().clamp(BOUNDS.0, BOUNDS.1) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_or_a_time() {
        assert_eq!("50".parse(), Ok(BufferSize::Packets(50)));
        assert_eq!("200ms".parse(), Ok(BufferSize::Seconds(0.2)));
        assert_eq!(BufferSize::Seconds(0.2).packets(1e6, 1000.0), 25);
        for wrong in ["", "0", "-1", "0s", "2x", "nan", "1e9h"] {
            assert!(wrong.parse::<BufferSize>().is_err(), "{wrong}");
        }
    }
}
