//! Durations and sizes as people write them.

use std::time::Duration;

/// The longest duration that is taken: a century. Beyond it, sums of time would overflow.
const MAX_DURATION: Duration = Duration::from_secs(100 * 365 * 24 * 60 * 60);

/// Units of sizes, in bytes.
const UNITS: [(&str, u64); 9] = [
    ("B", 1),
    ("KB", 1_000),
    ("MB", 1_000_000),
    ("GB", 1_000_000_000),
    ("TB", 1_000_000_000_000),
    ("KiB", 1 << 10),
    ("MiB", 1 << 20),
    ("GiB", 1 << 30),
    ("TiB", 1 << 40),
];

/// Parses `30s`, `5m`, `1h30m`, `1.5h`, `250ms`, `0`.
pub(super) fn parse_duration(text: &str) -> Result<Duration, String> {
    let duration = humantime::parse_duration(&with_digits(text.trim())).map_err(|_| {
        format!(
            "`{}` is not a duration such as `30s` or `1h30m`",
            shown(text)
        )
    })?;
    bounded(duration)
}

/// A duration as Go takes it, `.5s` or `5.s`, with the digits that the library wants at a point.
fn with_digits(text: &str) -> String {
    let is_digit = |c: Option<char>| c.is_some_and(|c| c.is_ascii_digit());
    let mut full = String::with_capacity(text.len());
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        let before = is_digit(full.chars().next_back());
        let behind = is_digit(chars.peek().copied());
        let is_point = c == '.' && before != behind;
        full.extend((is_point && behind).then_some('0'));
        full.push(c);
        full.extend((is_point && before).then_some('0'));
    }
    full
}

/// A number of seconds.
pub(super) fn duration_of_seconds(seconds: f64) -> Result<Duration, String> {
    let duration = Duration::try_from_secs_f64(seconds)
        .map_err(|_| format!("{seconds} seconds are not a duration; write one such as `30s`"))?;
    bounded(duration)
}

fn bounded(duration: Duration) -> Result<Duration, String> {
    if duration > MAX_DURATION {
        Err("no duration above a century is taken".to_owned())
    } else {
        Ok(duration)
    }
}

/// Parses `512`, `64KiB`, `16 MiB`, `1.5GiB`, `10MB`; the case of the unit does not matter.
pub(super) fn parse_size(text: &str) -> Result<u64, String> {
    let trimmed = text.trim();
    let end = trimmed
        .find(|c: char| !c.is_ascii_digit() && c != '.')
        .unwrap_or(trimmed.len());
    let number = &trimmed[..end];
    let unit = trimmed[end..].trim();
    let fail = || {
        format!(
            "`{}` is not a size; write bytes as a number, or one such as `64KiB` or `16MiB`",
            shown(text)
        )
    };
    let factor = if unit.is_empty() {
        1
    } else {
        UNITS
            .iter()
            .find(|(name, _)| name.eq_ignore_ascii_case(unit))
            .map(|(_, factor)| *factor)
            .ok_or_else(fail)?
    };
    if let Ok(whole) = number.parse::<u64>() {
        return whole
            .checked_mul(factor)
            .ok_or_else(|| format!("`{}` is too large", shown(text)));
    }
    let number: f64 = number.parse().map_err(|_| fail())?;
    let bytes = number * factor as f64;
    // Above 2^53 a float skips whole numbers; such a size is written without a point.
    if bytes.fract() == 0.0 && bytes <= (1_u64 << 53) as f64 {
        Ok(bytes as u64)
    } else {
        Err(format!("`{}` is not a whole number of bytes", shown(text)))
    }
}

/// The text for a message: short, on one line.
pub(super) fn shown(text: &str) -> String {
    text.chars().take(60).flat_map(char::escape_debug).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_read_as_people_write_them() {
        for (text, millis) in [
            ("30s", 30_000),
            ("5m", 300_000),
            ("1h30m", 5_400_000),
            ("1h 30m", 5_400_000),
            ("250ms", 250),
            ("1.5s", 1_500),
            (".5s", 500),
            ("5.s", 5_000),
            ("1h.5m", 3_630_000),
            ("0", 0),
            ("0s", 0),
        ] {
            assert_eq!(
                parse_duration(text),
                Ok(Duration::from_millis(millis)),
                "{text}"
            );
        }
        for text in [
            "",
            "s",
            "30",
            "-1s",
            "1 fortnight",
            "1000y",
            ".",
            ".s",
            "1..5s",
        ] {
            assert!(parse_duration(text).is_err(), "{text}");
        }
        assert_eq!(duration_of_seconds(1.5), Ok(Duration::from_millis(1500)));
        for seconds in [-1.0, f64::NAN, f64::INFINITY, 1e30] {
            assert!(duration_of_seconds(seconds).is_err(), "{seconds}");
        }
    }

    #[test]
    fn sizes_are_read_as_people_write_them() {
        for (text, bytes) in [
            ("0", 0),
            ("512", 512),
            ("512B", 512),
            ("64KiB", 65_536),
            ("16 MiB", 16 << 20),
            ("10mb", 10_000_000),
            ("1.5KiB", 1536),
            ("8GiB", 8 << 30),
        ] {
            assert_eq!(parse_size(text), Ok(bytes), "{text}");
        }
        for text in [
            "",
            "MiB",
            "-1",
            "1.5",
            "1M",
            "1 XiB",
            "99999999999TiB",
            "1.2.3KiB",
            "1e3",
        ] {
            assert!(parse_size(text).is_err(), "{text}");
        }
    }
}
