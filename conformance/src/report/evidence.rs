//! The evidence of failures: one folder a run, in it one folder a case.

use std::{
    fs, io,
    path::{Path, PathBuf},
    time::{SystemTime, UNIX_EPOCH},
};

use super::Run;
use crate::{
    history::{Event, write_transcript},
    run::CaseResult,
    verdict::Verdict,
};

/// Whether a verdict leaves evidence.
pub(super) fn worth_keeping(verdict: Verdict) -> bool {
    !matches!(verdict, Verdict::Pass | Verdict::Skip)
}

/// Writes what shows the failures of a run; `None` when nothing failed or nothing could be written.
pub(super) fn keep(run: &Run<'_>) -> Option<PathBuf> {
    let results = run.plan.results.as_deref()?;
    let kept: Vec<&CaseResult> = run.results.iter().filter(|result| worth_keeping(result.verdict)).collect();
    if kept.is_empty() {
        return None;
    }
    let since = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    let folder = results.join(stamp(since));
    match write_all(&folder, &kept) {
        Ok(()) => Some(folder),
        Err(error) => {
            anstream::eprintln!(
                "warning: the evidence could not be written to {}: {error}",
                folder.display()
            );
            None
        }
    }
}

fn write_all(folder: &Path, kept: &[&CaseResult]) -> io::Result<()> {
    for result in kept {
        let folder = folder.join(result.case.id);
        fs::create_dir_all(&folder)?;
        let mut transcript = io::BufWriter::new(fs::File::create(folder.join("transcript.jsonl"))?);
        write_transcript(&result.records, &mut transcript)?;
        let mut stderr = Vec::new();
        for record in &result.records {
            if let Event::Stderr(bytes) = &record.event {
                stderr.extend_from_slice(bytes);
            }
        }
        fs::write(folder.join("stderr.txt"), stderr)?;
    }
    Ok(())
}

/// Seconds since 1970 as `2026-09-21T10-04-11`.
fn stamp(seconds: u64) -> String {
    let (days, rest) = (seconds / 86_400, seconds % 86_400);
    // Civil date from days, by the era of 400 years that begins in March.
    let shifted = days + 719_468;
    let (era, of_era) = (shifted / 146_097, shifted % 146_097);
    let year_of_era = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * of_year + 2) / 153;
    let day = of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    let year = year_of_era + era * 400 + u64::from(month <= 2);
    format!("{year:04}-{month:02}-{day:02}T{:02}-{:02}-{:02}", rest / 3_600, rest / 60 % 60, rest % 60)
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_stamp_is_a_date() {
        assert_eq!(super::stamp(951_782_399), "2000-02-28T23-59-59");
        assert_eq!(super::stamp(951_782_400), "2000-02-29T00-00-00");
        assert_eq!(super::stamp(1_789_985_051), "2026-09-21T10-04-11");
    }
}
