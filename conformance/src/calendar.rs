//! Days and moments in UTC, for names of folders, reports and the end of an excuse.

use std::{fmt, str::FromStr};

use jiff::{Timestamp, civil::Date, tz::TimeZone};

/// A day of the Gregorian calendar.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Day(Date);

impl Day {
    /// Today, in UTC.
    pub(crate) fn today() -> Self {
        Self::from_timestamp(Timestamp::now())
    }

    fn from_timestamp(moment: Timestamp) -> Self {
        Self(moment.to_zoned(TimeZone::UTC).date())
    }
}

impl fmt::Display for Day {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl FromStr for Day {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        // jiff reads more forms than the one that is written here.
        let date = text
            .parse::<Date>()
            .ok()
            .filter(|date| date.to_string() == text);
        date.map(Self)
            .ok_or_else(|| format!("`{text}` is not a day; write it as 2027-01-31"))
    }
}

/// A moment, in whole seconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Moment(Timestamp);

impl Moment {
    /// Now.
    pub(crate) fn now() -> Self {
        Self(Timestamp::now())
    }

    /// As the name of a folder: `2026-09-21T10-04-11`.
    pub(crate) fn folder_name(self) -> String {
        self.0.strftime("%Y-%m-%dT%H-%M-%S").to_string()
    }
}

/// As RFC 3339 has it: `2026-09-21T10:04:11Z`.
impl fmt::Display for Moment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.strftime("%Y-%m-%dT%H:%M:%SZ").fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_moment_is_a_date_and_a_time() {
        let moment = |seconds| Moment(Timestamp::from_second(seconds).unwrap());
        let name = |seconds| moment(seconds).folder_name();
        assert_eq!(name(951_782_399), "2000-02-28T23-59-59");
        assert_eq!(name(951_782_400), "2000-02-29T00-00-00");
        assert_eq!(name(1_789_985_051), "2026-09-21T10-04-11");
        assert_eq!(moment(1_789_985_051).to_string(), "2026-09-21T10:04:11Z");
    }

    #[test]
    fn a_day_is_read_strictly_and_days_are_ordered() {
        let day = |text: &str| text.parse::<Day>();
        assert_eq!(
            day("2026-09-21").unwrap(),
            Day::from_timestamp(Timestamp::from_second(1_789_985_051).unwrap())
        );
        assert!(day("2026-12-31").unwrap() < day("2027-01-01").unwrap());
        assert!(day("2028-02-29").is_ok());
        for bad in [
            "2027-02-29",
            "2027-1-1",
            "2027-13-01",
            "2027-01-00",
            "+027-01-01",
            "2027-01-01-01",
            "soon",
            "",
        ] {
            assert!(day(bad).is_err(), "{bad}");
        }
    }
}
