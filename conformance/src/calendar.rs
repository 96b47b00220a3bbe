//! Days and moments in UTC, for names of folders, reports and the end of an excuse.

use std::{
    fmt,
    str::FromStr,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

/// A day of the Gregorian calendar.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Day {
    year: u64,
    month: u64,
    day: u64,
}

impl Day {
    /// Today, in UTC.
    pub(crate) fn today() -> Self {
        Self::of(since_epoch().as_secs())
    }

    /// The day of a moment in seconds since 1970.
    pub(crate) fn of(seconds: u64) -> Self {
        // Civil date from days, by the era of 400 years that begins in March.
        let shifted = seconds / 86_400 + 719_468;
        let (era, of_era) = (shifted / 146_097, shifted % 146_097);
        let year_of_era = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
        let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
        let from_march = (5 * of_year + 2) / 153;
        let day = of_year - (153 * from_march + 2) / 5 + 1;
        let month = if from_march < 10 { from_march + 3 } else { from_march - 9 };
        Self { year: year_of_era + era * 400 + u64::from(month <= 2), month, day }
    }
}

impl fmt::Display for Day {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:04}-{:02}-{:02}", self.year, self.month, self.day)
    }
}

impl FromStr for Day {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let bad = || format!("`{text}` is no day; write it as 2027-01-31");
        let mut parts = text.split('-');
        let mut part = |digits: usize| {
            let part = parts.next().filter(|part| part.len() == digits)?;
            part.bytes().all(|byte| byte.is_ascii_digit()).then(|| part.parse::<u64>().ok())?
        };
        let (Some(year), Some(month), Some(day)) = (part(4), part(2), part(2)) else { return Err(bad()) };
        let leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
        let last = match month {
            2 => 28 + u64::from(leap),
            4 | 6 | 9 | 11 => 30,
            _ => 31,
        };
        if parts.next().is_some() || !(1..=12).contains(&month) || !(1..=last).contains(&day) {
            return Err(bad());
        }
        Ok(Self { year, month, day })
    }
}

/// A moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Moment {
    seconds: u64,
}

impl Moment {
    /// Now.
    pub(crate) fn now() -> Self {
        Self { seconds: since_epoch().as_secs() }
    }

    /// As the name of a folder: `2026-09-21T10-04-11`.
    pub(crate) fn folder_name(self) -> String {
        let (hour, minute, second) = self.time();
        format!("{}T{hour:02}-{minute:02}-{second:02}", Day::of(self.seconds))
    }

    fn time(self) -> (u64, u64, u64) {
        let rest = self.seconds % 86_400;
        (rest / 3_600, rest / 60 % 60, rest % 60)
    }
}

/// As RFC 3339 has it: `2026-09-21T10:04:11Z`.
impl fmt::Display for Moment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (hour, minute, second) = self.time();
        write!(f, "{}T{hour:02}:{minute:02}:{second:02}Z", Day::of(self.seconds))
    }
}

fn since_epoch() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_moment_is_a_date_and_a_time() {
        let name = |seconds| Moment { seconds }.folder_name();
        assert_eq!(name(951_782_399), "2000-02-28T23-59-59");
        assert_eq!(name(951_782_400), "2000-02-29T00-00-00");
        assert_eq!(name(1_789_985_051), "2026-09-21T10-04-11");
        assert_eq!(Moment { seconds: 1_789_985_051 }.to_string(), "2026-09-21T10:04:11Z");
    }

    #[test]
    fn a_day_is_read_strictly_and_days_are_ordered() {
        let day = |text: &str| text.parse::<Day>();
        assert_eq!(day("2026-09-21").unwrap(), Day::of(1_789_985_051));
        assert!(day("2026-12-31").unwrap() < day("2027-01-01").unwrap());
        assert!(day("2028-02-29").is_ok());
        for bad in
            ["2027-02-29", "2027-1-1", "2027-13-01", "2027-01-00", "+027-01-01", "2027-01-01-01", "soon", ""]
        {
            assert!(day(bad).is_err(), "{bad}");
        }
    }
}
