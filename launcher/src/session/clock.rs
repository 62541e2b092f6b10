//! Points in time as sessions record them: milliseconds since the Unix epoch, shown in UTC.

use std::time::{SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};

/// A point in time, in milliseconds since the Unix epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Moment(u64);

impl Moment {
    /// Now.
    #[must_use]
    pub fn now() -> Self {
        let since = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default();
        Self(u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
    }

    /// The moment so many milliseconds after the Unix epoch.
    #[must_use]
    pub const fn from_millis(millis: u64) -> Self {
        Self(millis)
    }

    /// As `20261129-191500`.
    #[must_use]
    pub fn compact(self) -> String {
        let [year, month, day, hour, minute, second] = self.fields();
        format!("{year:04}{month:02}{day:02}-{hour:02}{minute:02}{second:02}")
    }

    /// As `2026-11-29 19:15:00`.
    #[must_use]
    pub fn readable(self) -> String {
        let [year, month, day, hour, minute, second] = self.fields();
        format!("{year:04}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02}")
    }

    fn fields(self) -> [u64; 6] {
        let seconds = self.0 / 1000;
        let [year, month, day] = civil(seconds / 86_400);
        [
            year,
            month,
            day,
            seconds / 3600 % 24,
            seconds / 60 % 60,
            seconds % 60,
        ]
    }
}

/// The Gregorian date so many days after 1970-01-01, counting in eras of 400 years (146,097 days)
/// that begin on 1 March, so that the leap day is the last of its year.
const fn civil(days: u64) -> [u64; 3] {
    let shifted = days + 719_468;
    let era = shifted / 146_097;
    let day_of_era = shifted % 146_097;
    let year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * from_march + 2) / 5 + 1;
    let month = if from_march < 10 {
        from_march + 3
    } else {
        from_march - 9
    };
    let year = year_of_era + era * 400 + if month <= 2 { 1 } else { 0 };
    [year, month, day]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shows_known_moments() {
        let shown = |seconds: u64| Moment::from_millis(seconds * 1000).readable();
        assert_eq!(shown(0), "1970-01-01 00:00:00");
        assert_eq!(shown(951_782_400), "2000-02-29 00:00:00");
        assert_eq!(shown(1_709_251_199), "2024-02-29 23:59:59");
        assert_eq!(shown(4_107_542_400), "2100-03-01 00:00:00");
    }
}
