//! Dates of the Gregorian calendar as days since 1970.

/// Days from 1 January 1970 to a day of the Gregorian calendar, of a year from 1970 on; `month` and `day` count from 1.
///
/// # Panics
/// If `month` is not within 1 to 12.
#[must_use]
pub const fn days_since_1970(year: i64, month: usize, day: i64) -> i64 {
    const BEFORE: [i64; 12] = [0, 31, 59, 90, 120, 151, 181, 212, 243, 273, 304, 334];
    // Leap days of the years that are over by the end of February.
    let past = if month > 2 { year } else { year - 1 };
    let leap = past / 4 - past / 100 + past / 400 - 477;
    (year - 1970) * 365 + leap + BEFORE[month - 1] + day - 1
}

/// Year, month and day that are so many days from 1 January 1970 on; month and day count from 1.
#[must_use]
pub const fn date_of(days: i64) -> (i64, usize, i64) {
    // A year of the calendar is never longer, so the guess is never too early.
    let mut year = 1970 + days / 365;
    while days_since_1970(year, 1, 1) > days {
        year -= 1;
    }
    let mut month = 12;
    while days_since_1970(year, month, 1) > days {
        month -= 1;
    }
    (year, month, days - days_since_1970(year, month, 1) + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `date -ud 2024-02-29 +%s` and its like, less the seconds.
    #[test]
    fn days_by_hand() {
        for ((year, month, day), days) in [
            ((1970, 1, 1), 0),
            ((1972, 2, 29), 789),
            ((2000, 3, 1), 11_017),
            ((2024, 2, 29), 19_782),
            ((2100, 3, 1), 47_541),
        ] {
            assert_eq!(days_since_1970(year, month, day), days, "{year}-{month}-{day}");
            assert_eq!(date_of(days), (year, month, day));
        }
    }

    #[test]
    fn each_day_has_a_date() {
        for days in 0..60_000 {
            let (year, month, day) = date_of(days);
            assert!((1..=31).contains(&day) && days_since_1970(year, month, day) == days, "{days}");
        }
    }
}
