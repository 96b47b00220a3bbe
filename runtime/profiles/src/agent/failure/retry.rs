//! Times for a retry in agents' texts.

use std::{
    sync::LazyLock,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use regex::{Captures, Regex, RegexBuilder};

const MINUTE: Duration = Duration::from_secs(60);
const DAY: Duration = Duration::from_secs(86_400);
const SOONEST: Duration = MINUTE;
const LATEST: Duration = Duration::from_secs(7 * 86_400);

/// Maximum lag of a clock behind the one of the text.
const SKEW: Duration = Duration::from_secs(120);

/// Between the soonest and the latest time.
pub(super) fn clamp(time: SystemTime, now: SystemTime) -> SystemTime {
    time.clamp(now + SOONEST, now + LATEST)
}

/// Returns the time in a text, unchanged: as seconds since 1970, as RFC 3339, as a wait, or as a
/// time of day.
pub(super) fn time(text: &str, now: SystemTime) -> Option<SystemTime> {
    epoch(text)
        .or_else(|| rfc3339(text))
        .or_else(|| wait(text, now))
        .or_else(|| clock(text, now))
}

/// `"resetsAt":1764000000`, `limit reached|1764000000`.
fn epoch(text: &str) -> Option<SystemTime> {
    static EPOCH: LazyLock<Regex> = LazyLock::new(|| {
        regex(r#"(?:resets?_?at["'\s:=]{1,4}|limit reached\|)([0-9]{10})([0-9]{3})?\b"#)
    });
    let seconds: u64 = EPOCH.captures(text)?.get(1)?.as_str().parse().ok()?;
    UNIX_EPOCH.checked_add(Duration::from_secs(seconds))
}

/// `reset at 2026-05-26T20:35:00Z`.
fn rfc3339(text: &str) -> Option<SystemTime> {
    static STAMP: LazyLock<Regex> = LazyLock::new(|| {
        regex(
            r#"(?:resets?|retry|again)[\w -]{0,20}["'\s:=]{0,4}([0-9]{4}-[0-9]{2}-[0-9]{2})[T ]([0-9]{2}:[0-9]{2}:[0-9]{2})(?:\.[0-9]+)?(?:Z|\+00:?00| UTC)"#,
        )
    });
    let found = STAMP.captures(text)?;
    humantime::parse_rfc3339(&format!("{}T{}Z", &found[1], &found[2])).ok()
}

/// `retry after 30 seconds`, `try again in 1h 20m`, `retry-after: 5`, `retryDelay: "34.5s"`, `reset
/// after 2h3m5s`.
fn wait(text: &str, now: SystemTime) -> Option<SystemTime> {
    static WAIT: LazyLock<Regex> = LazyLock::new(|| {
        regex(
            r#"(?:retry[ _-]?after(?:[ _-]?seconds)?|retry[ _-]?delay|retry in|again in|again after|wait(?: for)?|resets? (?:after|in))["'\s:=]{0,5}((?:about |approximately |another |at least )?)((?:[0-9]{1,7}(?:\.[0-9]{1,9})?\s*(?:days?|d|hours?|hrs?|h|milliseconds?|ms|minutes?|mins?|m|seconds?|secs?|s)?\b?[\s,]*(?:and\s+)?)+)"#,
        )
    });
    static PART: LazyLock<Regex> = LazyLock::new(|| {
        regex(
            r"([0-9]{1,7}(?:\.[0-9]{1,9})?)\s*(milliseconds?|ms|days?|d|hours?|hrs?|h|minutes?|mins?|m|seconds?|secs?|s)?",
        )
    });
    let found = WAIT.captures(text)?;
    let mut seconds = 0.0_f64;
    for part in PART.captures_iter(found.get(2)?.as_str()).take(4) {
        let number: f64 = part[1].parse().ok()?;
        let unit = part
            .get(2)
            .map_or("s", |unit| unit.as_str())
            .to_ascii_lowercase();
        seconds += number
            * match unit.as_str() {
                _ if unit.starts_with("mil") || unit == "ms" => 0.001,
                _ if unit.starts_with('d') => 86_400.0,
                _ if unit.starts_with('h') => 3_600.0,
                _ if unit.starts_with('m') => 60.0,
                _ => 1.0,
            };
    }
    now.checked_add(Duration::try_from_secs_f64(seconds).ok()?)
}

/// Reads `resets 3pm (UTC)`, `resets May 14, 5pm (UTC)`, `try again at 8:35 PM`, `try again at May
/// 26th, 2026 8:35 PM`. A time of day without a date is the next one, in UTC without a zone. Other
/// zones are not supported.
fn clock(text: &str, now: SystemTime) -> Option<SystemTime> {
    static CLOCK: LazyLock<Regex> = LazyLock::new(|| {
        regex(
            r"(?:resets?(?: at| on)?|again at|again on|available at|until)[:\s]+(?:(?P<month>jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)[a-z]*\.?\s+(?P<day>[0-9]{1,2})(?:st|nd|rd|th)?(?:,?\s+(?P<year>[0-9]{4}))?,?\s+(?:at\s+)?)?(?P<hour>[0-9]{1,2})(?::(?P<minute>[0-9]{2}))?\s*(?P<half>am|pm)?\b(?:\s*\((?P<zone>[a-z_/+-]{1,40})\))?",
        )
    });
    let found = CLOCK.captures(text)?;
    let number = |name: &str| {
        found
            .name(name)
            .and_then(|digits| digits.as_str().parse::<u64>().ok())
    };
    let is_utc =
        |zone: &str| ["utc", "gmt", "z", "etc/utc"].contains(&zone.to_ascii_lowercase().as_str());
    if found
        .name("zone")
        .is_some_and(|zone| !is_utc(zone.as_str()))
    {
        return None;
    }
    // A bare number is not a time of day.
    if found.name("minute").is_none() && found.name("half").is_none() {
        return None;
    }
    let hour = hour_of_day(
        number("hour")?,
        found.name("half").map(|half| half.as_str()),
    )?;
    let minute = number("minute").unwrap_or(0);
    if minute > 59 {
        return None;
    }
    let of_day = Duration::from_secs(hour * 3_600 + minute * 60);
    match month(&found) {
        None => {
            let midnight = UNIX_EPOCH + Duration::from_secs(since_epoch(now) / 86_400 * 86_400);
            let today = midnight + of_day;
            Some(if today + SKEW < now {
                today + DAY
            } else {
                today
            })
        }
        Some(month) => {
            let day = number("day")?;
            let this_year = year_of(now)?;
            let at = |year| Some(date(year, month, day)? + of_day);
            match number("year") {
                Some(year) => at(year),
                None => at(this_year)
                    .filter(|time| *time + LATEST >= now)
                    .or_else(|| at(this_year + 1)),
            }
        }
    }
}

fn hour_of_day(hour: u64, half: Option<&str>) -> Option<u64> {
    match half.map(str::to_ascii_lowercase).as_deref() {
        Some("am") if (1..=12).contains(&hour) => Some(hour % 12),
        Some("pm") if (1..=12).contains(&hour) => Some(hour % 12 + 12),
        None if hour < 24 => Some(hour),
        _ => None,
    }
}

fn month(found: &Captures<'_>) -> Option<u64> {
    const MONTHS: [&str; 12] = [
        "jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec",
    ];
    let name = found.name("month")?.as_str().to_ascii_lowercase();
    let at = MONTHS.iter().position(|month| *month == name)?;
    u64::try_from(at).ok().map(|at| at + 1)
}

fn date(year: u64, month: u64, day: u64) -> Option<SystemTime> {
    humantime::parse_rfc3339(&format!("{year:04}-{month:02}-{day:02}T00:00:00Z")).ok()
}

fn year_of(time: SystemTime) -> Option<u64> {
    humantime::format_rfc3339_seconds(time)
        .to_string()
        .get(..4)?
        .parse()
        .ok()
}

fn since_epoch(time: SystemTime) -> u64 {
    time.duration_since(UNIX_EPOCH)
        .map_or(0, |since| since.as_secs())
}

fn regex(pattern: &str) -> Regex {
    #[expect(clippy::expect_used, reason = "constants, compiled in every test")]
    RegexBuilder::new(pattern)
        .case_insensitive(true)
        .build()
        .expect("a constant")
}
