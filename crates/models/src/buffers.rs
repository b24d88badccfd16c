//! How much buffer a link needs, by the rules of the field.
//!
//! One delay-bandwidth product (DBP; Villamizar and Song, 1994); DBP over the root of the number of flows (Appenzeller,
//! Keslassy and McKeown, 2004), which supposes many flows that do not lose together; what a given backoff factor needs
//! for a given utilisation when all flows lose together, from Shorten and Leith, "On Queue Provisioning, Network
//! Efficiency and the Transmission Control Protocol" (IEEE/ACM ToN, 2007), section III.

use narrows_units::{Bytes, Rate};

use crate::Result;
use crate::domain::{positive, within};

/// `B T`: the delay-bandwidth product in packets.
///
/// # Errors
/// A round-trip time that is not above 0 or is over 1e6 s; a packet of no bytes; a rate of 0.
pub fn dbp_packets(rate: Rate, rtt_s: f64, packet: Bytes) -> Result<f64> {
    let rtt = within("rtt", rtt_s, f64::MIN_POSITIVE..=1e6, "0 < rtt <= 1e6 seconds")?;
    let bits = positive("packet", packet.get() as f64)? * 8.0;
    Ok(positive("rate", rate.as_bps() as f64)? / bits * rtt)
}

/// `B T / sqrt(n)`, in the unit of `dbp`, for `flows` long flows that lose independently.
///
/// # Errors
/// No flow; a product that is not above 0.
pub fn sqrt_rule(dbp: f64, flows: u64) -> Result<f64> {
    let n = within("flows", flows as f64, 1.0.., "flows >= 1")?;
    Ok(positive("dbp", dbp)? / n.sqrt())
}

/// `1/beta - 1`: the buffer, as a multiple of the DBP, that a cut to `beta` of the window just empties. 1 for standard
/// TCP (the DBP rule), 0.25 for an adaptive one that may stay at 0.8.
///
/// # Errors
/// A factor that is not in 0 < beta < 1.
pub fn full_link(beta: f64) -> Result<f64> {
    within("beta", beta, 1e-6..1.0, "1e-6 <= beta < 1").map(|beta| 1.0 / beta - 1.0)
}

/// The least buffer, as a multiple of the DBP, with which synchronised flows that cut to `beta` use the share
/// `utilisation` of the link: the inverse of [`crate::aimd::efficiency`], with eta the utilisation
///
/// ```text
/// 1 + phi = eta / (eta beta + sqrt(eta (1 - eta) (1 - beta^2)))        if eta > (1 + beta) / 2, else phi = 0
/// ```
///
/// An adaptive flow stays at its upper limit as long as the link is not full, so its `beta` is that limit.
///
/// # Errors
/// A utilisation not in 0 < utilisation <= 1; a factor not in 1e-6 <= beta < 1.
pub fn for_utilisation(utilisation: f64, beta: f64) -> Result<f64> {
    let eta = within("utilisation", utilisation, f64::MIN_POSITIVE..=1.0, "0 < utilisation <= 1")?;
    let beta = within("beta", beta, 1e-6..1.0, "1e-6 <= beta < 1")?;
    if eta <= (1.0 + beta) / 2.0 {
        return Ok(0.0);
    }
    let spread = (eta * (1.0 - eta) * (1.0 - beta * beta)).sqrt();
    Ok((eta / (eta * beta + spread) - 1.0).max(0.0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::aimd::efficiency;

    /// 10 Mbit/s, 1500 bytes and 2 (50 + 1.2) ms are the paper's "85 packets"; 155 Mbit/s and 120 ms are 1550.
    #[test]
    fn products_by_hand() {
        let dbp =
            |mbps: u64, rtt_s| dbp_packets(Rate::from_bps(mbps * 1_000_000), rtt_s, Bytes(1500)).unwrap();
        assert!((dbp(10, 0.1024) - 85.333_333).abs() < 1e-6);
        assert!((dbp(155, 0.12) - 1550.0).abs() < 1e-9);
        assert_eq!(sqrt_rule(1550.0, 25).unwrap(), 310.0);
        assert!(dbp_packets(Rate::from_bps(1), 0.0, Bytes(1)).is_err());
        assert!(dbp_packets(Rate::from_bps(1), f64::NAN, Bytes(1)).is_err());
        assert!(dbp_packets(Rate::from_bps(1), 1.0, Bytes(0)).is_err() && sqrt_rule(1.0, 0).is_err());
    }

    /// A factor of 0.8 uses the link fully with 25 % of the DBP (notes, section 1); a half needs one DBP (section
    /// 3.1).
    #[test]
    fn full_links() {
        assert!((full_link(0.8).unwrap() - 0.25).abs() < 1e-12);
        assert_eq!(full_link(0.5).unwrap(), 1.0);
        assert!((for_utilisation(1.0, 0.8).unwrap() - 0.25).abs() < 1e-12);
        assert_eq!(for_utilisation(0.75, 0.5).unwrap(), 0.0);
        assert!(full_link(1.0).is_err() && full_link(f64::NAN).is_err());
        assert!(for_utilisation(1.01, 0.5).is_err() && for_utilisation(0.9, 1.0).is_err());
    }

    /// eta(phi(eta)) = eta, and less of a buffer gives less.
    #[test]
    fn the_inverse_of_the_efficiency() {
        for beta in [1e-6, 0.1, 0.5, 0.6, 0.8, 0.95, 0.999] {
            let mut last = 0.0;
            for i in 1..=200 {
                let eta = f64::from(i) / 200.0;
                let phi = for_utilisation(eta, beta).unwrap();
                assert!(phi >= last && phi <= full_link(beta).unwrap() * (1.0 + 1e-9), "{eta} {beta}: {phi}");
                last = phi;
                let back = efficiency(phi, beta).unwrap();
                assert!(back >= eta - 1e-9, "{eta} {beta}: {back}");
                assert!(phi == 0.0 || (back - eta).abs() < 1e-9, "{eta} {beta}: {back}");
            }
        }
    }
}
