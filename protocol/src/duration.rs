//! Durations as people read them.

use std::time::Duration;

/// Formats a duration for people: `250 ms`, `3 s`, `1 min 30 s`, `2 h`.
#[must_use]
pub fn format_duration(time: Duration) -> String {
    let seconds = time.as_secs();
    let millis = time.subsec_millis();
    match seconds {
        0 if millis > 0 => format!("{millis} ms"),
        0..60 if millis > 0 => format!("{} s", time.as_millis() as f64 / 1000.0),
        0..60 => format!("{seconds} s"),
        60..3600 if seconds.is_multiple_of(60) => format!("{} min", seconds / 60),
        60..3600 => format!("{} min {} s", seconds / 60, seconds % 60),
        _ if seconds % 3600 < 60 => format!("{} h", seconds / 3600),
        _ => format!("{} h {} min", seconds / 3600, seconds % 3600 / 60),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_duration_has_its_unit_after_a_space_and_at_most_two_parts() {
        for (millis, text) in [
            (0, "0 s"),
            (250, "250 ms"),
            (2_500, "2.5 s"),
            (3_000, "3 s"),
            (60_000, "1 min"),
            (90_500, "1 min 30 s"),
            (7_200_000, "2 h"),
            (7_260_000, "2 h 1 min"),
        ] {
            assert_eq!(format_duration(Duration::from_millis(millis)), text);
        }
    }
}
