//! Short texts of numbers, with at most six columns.

/// Formats bytes, such as `980`, `1.5K`, `12M`.
pub(super) fn bytes(bytes: u64) -> String {
    const UNITS: [&str; 5] = ["K", "M", "G", "T", "P"];
    if bytes < 1000 {
        return bytes.to_string();
    }
    let mut value = bytes as f64 / 1024.0;
    let mut unit = 0;
    while value >= 999.5 && unit + 1 < UNITS.len() {
        (value, unit) = (value / 1024.0, unit + 1);
    }
    let unit = UNITS[unit];
    // Rounded here, so that 9.96 becomes `10` and not `10.0`.
    if value < 9.95 {
        format!("{value:.1}{unit}")
    } else {
        format!("{value:.0}{unit}")
    }
}

/// Formats a number, such as `980`, `12k`.
pub(super) fn count(count: u64) -> String {
    match count {
        0..10_000 => count.to_string(),
        10_000..10_000_000 => format!("{}k", count / 1000),
        _ => format!("{}M", count / 1_000_000),
    }
}

/// Formats a time in milliseconds, such as `0.4s`, `59s`, `3m12s`, `4h07m`, `12d`.
pub(super) fn time(ms: u64) -> String {
    let seconds = ms / 1000;
    match seconds {
        0..10 => format!("{}.{}s", seconds, ms % 1000 / 100),
        10..60 => format!("{seconds}s"),
        60..3600 => format!("{}m{:02}s", seconds / 60, seconds % 60),
        3600..86_400 => format!("{}h{:02}m", seconds / 3600, seconds % 3600 / 60),
        _ => format!("{}d{:02}h", seconds / 86_400, seconds % 86_400 / 3600),
    }
}

/// Formats an optional number.
pub(super) fn or_dash(figure: Option<u64>, text: fn(u64) -> String) -> String {
    figure.map_or_else(|| "-".to_owned(), text)
}

/// Formats a rate; 0 becomes a dot, so that active rates are visible.
pub(super) fn flow(rate: Option<u64>) -> String {
    match rate {
        None | Some(0) => "·".to_owned(),
        Some(rate) => bytes(rate),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_short() {
        for (number, text) in [
            (0, "0"),
            (999, "999"),
            (1000, "1.0K"),
            (1536, "1.5K"),
            (10_189, "10K"),
            (1_047_000, "1.0M"),
            (12 << 20, "12M"),
            (u64::MAX, "16384P"),
        ] {
            assert_eq!(bytes(number), text);
        }
        for (number, text) in [
            (0, "0"),
            (9999, "9999"),
            (12_345, "12k"),
            (12_345_678, "12M"),
        ] {
            assert_eq!(count(number), text);
        }
        for (ms, text) in [
            (0, "0.0s"),
            (450, "0.4s"),
            (59_900, "59s"),
            (192_000, "3m12s"),
            (14_820_000, "4h07m"),
            (100_000_000, "1d03h"),
        ] {
            assert_eq!(time(ms), text);
        }
        assert_eq!(
            (or_dash(None, time), flow(Some(0)), flow(Some(2048))),
            ("-".into(), "·".into(), "2.0K".into())
        );
    }
}
