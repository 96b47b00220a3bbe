//! Facts about this process from the system.

use std::fs;

/// Returns this process's memory in bytes, if the system reports it.
pub(super) fn resident_bytes() -> Option<u64> {
    let statm = fs::read_to_string("/proc/self/statm").ok()?;
    let pages: u64 = statm.split_whitespace().nth(1)?.parse().ok()?;
    Some(pages * rustix::param::page_size() as u64)
}

/// Returns the number of child processes, if the system reports it.
pub(super) fn count_children() -> Option<usize> {
    let own = std::process::id();
    let processes = fs::read_dir("/proc").ok()?.filter_map(Result::ok);
    let parents = processes.filter_map(|entry| {
        entry.file_name().to_str()?.parse::<u32>().ok()?;
        parse_parent(&fs::read_to_string(entry.path().join("stat")).ok()?)
    });
    Some(parents.filter(|parent| *parent == own).count())
}

/// Returns the parent of a running process from its `stat`: the second field after the name, which
/// may contain anything.
fn parse_parent(stat: &str) -> Option<u32> {
    let (_, rest) = stat.rsplit_once(')')?;
    let mut fields = rest.split_whitespace();
    let state = fields.next()?;
    fields.next()?.parse().ok().filter(|_| state != "Z")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_parent_is_found_behind_any_name() {
        assert_eq!(parse_parent("12 (a) b (c)) S 34 12 12 0"), Some(34));
        assert_eq!(parse_parent("12 (gone) Z 34 12 12 0"), None);
        assert_eq!(parse_parent("12"), None);
    }
}
