//! Chooses the host of a new session, and the successor for a session without a host.

use std::{
    borrow::Borrow,
    collections::BTreeMap,
    hash::{DefaultHasher, Hash, Hasher},
};

use crate::row::{HostRow, SessionRow};

/// Requirements of a new session.
#[derive(Debug, Clone, Default)]
pub struct Needs {
    /// Agent. `None`: the default agent of the host that takes it.
    pub agent: Option<String>,
    /// Labels that the host must have.
    pub labels: BTreeMap<String, String>,
    /// The storage that the host must have.
    pub storage: Option<String>,
}

impl Needs {
    /// Returns true if a host may take such a session.
    #[must_use]
    pub fn fit(&self, host: &HostRow) -> bool {
        !host.is_draining
            && self
                .agent
                .as_ref()
                .is_none_or(|agent| host.agents.contains(agent))
            && self
                .storage
                .as_ref()
                .is_none_or(|storage| host.storage.contains(storage))
            && self
                .labels
                .iter()
                .all(|(name, value)| host.labels.get(name) == Some(value))
    }
}

/// Returns a number for a pair, the same on every host and in every version of the program.
///
/// FNV-1a, followed by the mixing of MurmurHash3. It is computed for each session and host, a
/// million times when a large host is gone, and need not resist attacks: a host that wants more
/// sessions can simply report a low load.
fn weight(session: &str, host: &str) -> u64 {
    let bytes = session.bytes().chain([0]).chain(host.bytes());
    let mut hash = bytes.fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3)
    });
    for factor in [0xff51_afd7_ed55_8ccd, 0xc4ce_b9fe_1a85_ec53] {
        hash = (hash ^ (hash >> 33)).wrapping_mul(factor);
    }
    hash ^ (hash >> 33)
}

/// The hosts to ask for a new session, in this order: of two that chance has chosen the one with
/// less to do, then the other, then the rest. Two are enough for an even spread, even while what is
/// known of loads is some seconds old.
#[must_use]
pub fn candidates<'a>(
    session: &str,
    needs: &Needs,
    hosts: impl IntoIterator<Item = &'a HostRow>,
) -> Vec<&'a HostRow> {
    let mut fit: Vec<_> = hosts.into_iter().filter(|host| needs.fit(host)).collect();
    fit.sort_by_cached_key(|host| weight(session, &host.host));
    if let [first, second, ..] = &mut *fit
        && load(second) < load(first)
    {
        std::mem::swap(first, second);
    }
    fit
}

/// Returns the load of a host. A turn weighs more than an idle session.
fn load(host: &HostRow) -> u64 {
    host.busy.saturating_mul(16).saturating_add(host.sessions)
}

/// Returns true if a host could take over a session.
#[must_use]
pub fn fits(host: &HostRow, row: &SessionRow) -> bool {
    host.digest == row.digest
        && Needs {
            storage: row.storage.clone(),
            ..Needs::default()
        }
        .fit(host)
}

/// The host that takes over a session, of those that could: each host finds the same one.
#[must_use]
pub fn survivor<'a>(session: &str, hosts: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    hosts
        .into_iter()
        .max_by_key(|host| (weight(session, host), *host))
}

/// The host that takes over a session whose host is gone, of those that are alive; `None` where none could.
#[must_use]
pub fn heir<'a>(row: &SessionRow, alive: impl IntoIterator<Item = &'a HostRow>) -> Option<&'a str> {
    survivor(
        &row.id,
        alive
            .into_iter()
            .filter(|host| fits(host, row))
            .map(|host| &*host.host),
    )
}

/// The host that looks for the sessions of one that is gone: each host finds the same one. Were all
/// to look, a cluster would read each of these sessions as often as it has hosts.
#[must_use]
pub fn finder<'a>(gone: &str, alive: impl IntoIterator<Item = &'a HostRow>) -> Option<&'a str> {
    survivor(
        gone,
        alive
            .into_iter()
            .filter(|host| !host.is_draining)
            .map(|host| &*host.host),
    )
}

/// Assigns sessions without a host to successors, by their ids. The others stay.
#[must_use]
pub fn shares<H: Borrow<HostRow>>(
    rows: Vec<SessionRow>,
    alive: &[H],
) -> BTreeMap<String, Vec<String>> {
    let mut shares = BTreeMap::<_, Vec<_>>::new();
    for row in rows {
        if let Some(heir) = heir(&row, alive.iter().map(Borrow::borrow)) {
            shares.entry(heir.to_owned()).or_default().push(row.id);
        }
    }
    shares
}

/// A moment within `0..most` for this host, so that all of them do not do the same at the same time.
#[must_use]
pub fn jitter(host: &str, turn: u64, most: std::time::Duration) -> std::time::Duration {
    let mut hasher = DefaultHasher::new();
    (host, turn).hash(&mut hasher);
    let part = u32::try_from(hasher.finish() % 1000).unwrap_or_default();
    most * part / 1000
}

#[cfg(test)]
mod tests {
    use super::*;

    fn host(name: &str, sessions: u64) -> HostRow {
        HostRow {
            host: name.to_owned(),
            incarnation: "1".to_owned(),
            beat: 1,
            ttl_ms: 3000,
            version: String::new(),
            labels: BTreeMap::new(),
            storage: Vec::new(),
            agents: vec!["x".to_owned()],
            digest: String::new(),
            sessions,
            busy: 0,
            is_draining: false,
            is_over: false,
        }
    }

    #[test]
    fn the_lesser_of_two_is_asked_first_and_the_others_behind() {
        let mut hosts: Vec<_> = (0..10).map(|n| host(&format!("h{n}"), 0)).collect();
        for n in 0..10_000 {
            let session = format!("s{n}");
            let chosen = candidates(&session, &Needs::default(), &hosts);
            assert_eq!(chosen.len(), 10);
            let name = chosen[0].host.clone();
            hosts
                .iter_mut()
                .find(|host| host.host == name)
                .unwrap()
                .sessions += 1;
        }
        let least = hosts.iter().map(|h| h.sessions).min();
        let most = hosts.iter().map(|h| h.sessions).max();
        assert!(least > Some(980) && most < Some(1020), "{least:?} {most:?}");
    }

    #[test]
    fn who_does_not_fit_is_not_asked() {
        let mut draining = host("a", 0);
        draining.is_draining = true;
        let mut labelled = host("b", 0);
        labelled.labels.insert("gpu".to_owned(), "yes".to_owned());
        labelled.storage.push("nfs".to_owned());
        let hosts = [draining, labelled, host("c", 0)];
        let names = |needs: &Needs| {
            let mut names: Vec<_> = candidates("s", needs, &hosts)
                .iter()
                .map(|h| h.host.clone())
                .collect();
            names.sort();
            names
        };
        assert_eq!(names(&Needs::default()), ["b", "c"]);
        let gpu = [("gpu".to_owned(), "yes".to_owned())].into();
        assert_eq!(
            names(&Needs {
                labels: gpu,
                ..Needs::default()
            }),
            ["b"]
        );
        assert_eq!(
            names(&Needs {
                storage: Some("nfs".to_owned()),
                ..Needs::default()
            }),
            ["b"]
        );
        assert_eq!(
            names(&Needs {
                agent: Some("y".to_owned()),
                ..Needs::default()
            }),
            [""; 0]
        );
    }

    #[test]
    fn every_host_finds_the_same_survivor_and_few_move_when_one_more_comes() {
        let three = ["a", "b", "c"];
        let of = |n: u32, hosts: &[&'static str]| survivor(&format!("s{n}"), hosts.iter().copied());
        let moved = (0..3000)
            .filter(|n| of(*n, &three) != of(*n, &["d", "c", "b", "a"]))
            .count();
        assert!((600..900).contains(&moved), "{moved}");
        let shares = three.map(|host| (0..3000).filter(|n| of(*n, &three) == Some(host)).count());
        assert!(
            shares.iter().all(|share| (900..1100).contains(share)),
            "{shares:?}"
        );
        assert_eq!(survivor("s", []), None);
    }
}
