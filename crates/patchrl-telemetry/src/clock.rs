//! The wall clock, the only one of the program.
//!
//! For stamps that people read; durations are measured with `Instant` by whoever
//! does the work. Nothing that decides a reward or a batch may ask here.
#![expect(clippy::disallowed_methods, reason = "the owner of the wall clock")]

use std::fmt;
use std::time::{SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};

/// A moment: milliseconds since 1970 in UTC.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Stamp(pub u64);

impl Stamp {
    /// Now. A clock set before 1970 reads as 1970.
    pub fn now() -> Self {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Self(u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
    }

    /// Seconds since 1970, as `TensorBoard` wants them.
    pub fn seconds(self) -> f64 {
        self.0 as f64 / 1000.0
    }

    /// `20261129-230127`: sorts by time and fits in a file name.
    pub fn compact(self) -> String {
        let (year, month, day, [hour, minute, second]) = self.civil();
        format!("{year:04}{month:02}{day:02}-{hour:02}{minute:02}{second:02}")
    }

    /// Days to year, month and day in the proleptic Gregorian calendar, after
    /// Howard Hinnant's `civil_from_days`: years begin in March, so that the leap
    /// day is the last one.
    fn civil(self) -> (u64, u64, u64, [u64; 3]) {
        let seconds = self.0 / 1000;
        let days = seconds / 86_400 + 719_468;
        let era = days / 146_097;
        let of_era = days % 146_097;
        let year = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
        let of_year = of_era - (365 * year + year / 4 - year / 100);
        let shifted = (5 * of_year + 2) / 153;
        let day = of_year - (153 * shifted + 2) / 5 + 1;
        let month = if shifted < 10 { shifted + 3 } else { shifted - 9 };
        let year = year + era * 400 + u64::from(month <= 2);
        (year, month, day, [seconds / 3600 % 24, seconds / 60 % 60, seconds % 60])
    }
}

impl fmt::Display for Stamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (year, month, day, [hour, minute, second]) = self.civil();
        write!(f, "{year:04}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02} UTC")
    }
}

#[cfg(test)]
mod tests {
    use super::Stamp;

    #[test]
    fn known_moments_read_as_the_calendar_says() {
        // From `date -u -d @SECONDS`.
        for (seconds, text) in [
            (0, "1970-01-01 00:00:00 UTC"),
            (951_782_400, "2000-02-29 00:00:00 UTC"),
            (1_709_251_199, "2024-02-29 23:59:59 UTC"),
            (4_102_444_800, "2100-01-01 00:00:00 UTC"),
        ] {
            assert_eq!(Stamp(seconds * 1000).to_string(), text);
        }
        assert_eq!(Stamp(951_782_400_000).compact(), "20000229-000000");
    }

    #[test]
    fn the_last_stamp_does_not_overflow() {
        assert!(Stamp(u64::MAX).to_string().ends_with("UTC"));
    }
}
