//! Jain's fairness index, over a whole run and over slices of it.
//!
//! Jain, Chiu and Hawe, "A Quantitative Measure of Fairness and Discrimination for Resource Allocation in Shared
//! Computer Systems" (DEC-TR-301, 1984). The TAQ paper (section 2.3, figures 2 and 8) takes it of what each flow got in
//! 20 s, and means over the slices: over hours every flow has had its turn, and the index says nothing of who hung
//! meanwhile.
//!
//! The simulator's probes hold the same sum for their integers: these two rooms do not meet, so that one can check the
//! other.

use crate::Result;
use crate::domain::within;

/// `(sum x)^2 / (n sum x^2)`: 1 if all `shares` are equal, 1/n if one has everything. A flow that got nothing counts as
/// one of the n. If nobody got anything they are equal, but a silent link is not fair: 0, as in the simulator.
///
/// # Errors
/// If there is no share, or one is negative or not finite.
pub fn jain(shares: &[f64]) -> Result<f64> {
    within("flows", shares.len() as f64, 1.0.., "at least one flow")?;
    let mut largest = 0.0_f64;
    for x in shares {
        largest = largest.max(within("share", *x, 0.0..=f64::MAX, "a finite number, 0 or above")?);
    }
    if largest == 0.0 {
        return Ok(0.0);
    }
    // By the largest, so that no square is lost or infinite.
    let (sum, squares) = shares.iter().map(|x| x / largest).fold((0.0, 0.0), |(s, q), x| (s + x, q + x * x));
    Ok((sum * sum / (shares.len() as f64 * squares)).min(1.0))
}

/// The mean of [`jain`] over slices of time. `amounts` has a row for each flow and in it what the flow got in each unit
/// of time, as bytes in a second; `per_slice` units make a slice: 20 for TAQ's 20 s. What is left over at the end is no
/// slice.
///
/// # Errors
/// As [`jain`]; if the rows differ in length, or hold no whole slice.
pub fn jain_of_slices(amounts: &[Vec<f64>], per_slice: usize) -> Result<f64> {
    let units = amounts.first().map_or(0, Vec::len);
    for row in amounts {
        within(
            "length",
            row.len() as f64,
            units as f64..=units as f64,
            "as many units of time for each flow",
        )?;
    }
    within(
        "per_slice",
        per_slice as f64,
        1.0..=units as f64,
        "at least one, and no more than there are units of time",
    )?;
    let slices = units / per_slice;
    let mut sum = 0.0;
    for slice in 0..slices {
        let of_slice = slice * per_slice..(slice + 1) * per_slice;
        let shares: Vec<f64> = amounts.iter().map(|row| row[of_slice.clone()].iter().sum()).collect();
        sum += jain(&shares)?;
    }
    Ok(sum / slices as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn by_hand() {
        assert_eq!(jain(&[3.0, 3.0]), Ok(1.0));
        assert_eq!(jain(&[1.0, 0.0, 0.0, 0.0]), Ok(0.25));
        // (1+2+3)^2 / (3 * 14) = 36/42.
        assert!((jain(&[1.0, 2.0, 3.0]).unwrap() - 36.0 / 42.0).abs() < 1e-15);
        assert_eq!(jain(&[0.0, 0.0]), Ok(0.0));
        assert_eq!(jain(&[f64::MAX, f64::MAX]), Ok(1.0));
        assert_eq!(jain(&[f64::MIN_POSITIVE, 0.0]), Ok(0.5));
        assert!(jain(&[]).is_err() && jain(&[1.0, f64::NAN]).is_err() && jain(&[-1.0]).is_err());
        assert!(jain(&[f64::INFINITY]).is_err());
    }

    #[test]
    fn neither_scale_nor_order_matter_and_a_silent_flow_does() {
        let mut rng = fastrand::Rng::with_seed(1984);
        for n in 1..50 {
            let shares: Vec<f64> = (0..n).map(|_| rng.f64()).collect();
            let index = jain(&shares).unwrap();
            assert!((1.0 / f64::from(n) - 1e-12..=1.0 + 1e-12).contains(&index), "seed 1984, n {n}");
            let other: Vec<f64> = shares.iter().rev().map(|x| x * 1e9).collect();
            assert!((jain(&other).unwrap() - index).abs() < 1e-12, "seed 1984, n {n}");
            let with_one_more: Vec<f64> = shares.iter().copied().chain([0.0]).collect();
            let expected = index * f64::from(n) / f64::from(n + 1);
            assert!((jain(&with_one_more).unwrap() - expected).abs() < 1e-12, "seed 1984, n {n}");
        }
    }

    /// Two flows that take turns are fair over the whole run and as unfair as can be in each slice.
    #[test]
    fn turns_are_seen_in_slices() {
        let turns = |first: bool| -> Vec<f64> {
            (0..41).map(|s| f64::from(u8::from((s / 20 % 2 == 0) == first))).collect()
        };
        let amounts = [turns(true), turns(false)];
        assert_eq!(jain_of_slices(&amounts, 20), Ok(0.5));
        assert_eq!(jain_of_slices(&amounts, 40), Ok(1.0));
        // Slices [2000, 1000] and [2000, 0]: (0.9 + 0.5) / 2.
        assert!((jain_of_slices(&[vec![2000.0; 2], vec![1000.0, 0.0]], 1).unwrap() - 0.7).abs() < 1e-15);
        assert!(jain_of_slices(&amounts, 0).is_err() && jain_of_slices(&amounts, 42).is_err());
        assert!(jain_of_slices(&[], 1).is_err() && jain_of_slices(&[vec![1.0], vec![]], 1).is_err());
    }
}
