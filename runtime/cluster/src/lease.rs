//! Leases: guarantees of the holder, and conclusions of a watcher.
//!
//! Both sides use only their own clock and count from conservative moments: the holder from
//! *sending* the renewal that was acknowledged, the watcher from *seeing* the renewal, which is
//! later. So the holder has stopped before the watcher takes over, if both clocks run at the same
//! rate within a second per lease.
//!
//! A renewal may be delayed for long, or be seen late. So a host that concludes that another is
//! gone first ends its lease: it writes the end behind the last renewal that it saw. If this
//! succeeds, no later renewal was stored, and none will be.

use std::{collections::BTreeMap, time::Duration};

use trunkline_process::BootInstant;

/// Duration of a lease, and the times derived from it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Terms {
    /// Duration of a lease from its renewal.
    pub ttl: Duration,
}

/// Time that a watcher waits after a lease has run out.
const GRACE: Duration = Duration::from_secs(1);

/// Maximum of a lease's time that its holder leaves unused, so that its adapters end within the
/// lease.
const MARGIN: Duration = Duration::from_secs(2);

/// Limit of watched hosts, including those of which only sessions are left.
const WATCHED: usize = 4096;

impl Terms {
    /// The shortest lease.
    pub const LEAST: Duration = Duration::from_secs(1);

    /// Maximum duration: for this time the sessions of a dead host stay unserved.
    pub const MOST: Duration = Duration::from_secs(24 * 60 * 60);

    /// Returns the renewal interval.
    #[must_use]
    pub fn every(self) -> Duration {
        self.ttl / 3
    }

    /// When a holder stops whose renewal of that moment was the last to be acknowledged.
    #[must_use]
    pub fn good_until(self, sent: BootInstant) -> BootInstant {
        sent + (self.ttl - MARGIN.min(self.ttl / 4))
    }

    /// Returns the time for which a lease must be unchanged before its holder counts as gone.
    #[must_use]
    pub fn gone_after(self) -> Duration {
        self.ttl + GRACE
    }
}

/// The holder's side of a lease.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Held {
    terms: Terms,
    until: Option<BootInstant>,
}

impl Held {
    /// A lease that is not held yet.
    #[must_use]
    pub fn new(terms: Terms) -> Self {
        Self { terms, until: None }
    }

    /// A renewal was acknowledged that was sent at this moment.
    pub fn renewed(&mut self, sent: BootInstant) {
        self.until = self.until.max(Some(self.terms.good_until(sent)));
    }

    /// Until when the host may act; `None` where it may not.
    #[must_use]
    pub fn until(&self) -> Option<BootInstant> {
        self.until
    }

    /// Returns true if the host may act.
    #[must_use]
    pub fn is_good(&self, now: BootInstant) -> bool {
        self.until.is_some_and(|until| now < until)
    }
}

/// The last observation of a lease.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct LeaseObservation {
    /// 0 if the row has vanished, which by itself proves nothing.
    revision: u64,
    since: BootInstant,
    terms: Terms,
}

/// The watcher's side of all leases.
///
/// The host's own lease shows whether changes arrive at all: its renewals return the same way as
/// those of others. While they do not, no host counts as gone; when they do again, all times start
/// anew.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Watch {
    seen: BTreeMap<String, LeaseObservation>,
    /// When a renewal of the own lease came back last.
    heard: Option<BootInstant>,
    /// Terms of the host's own lease.
    terms: Terms,
}

impl Watch {
    /// Creates a watcher that has seen nothing yet.
    #[must_use]
    pub fn new(terms: Terms) -> Self {
        Self {
            seen: BTreeMap::new(),
            heard: None,
            terms,
        }
    }

    /// A renewal of the own lease came back.
    pub fn heard_own(&mut self, now: BootInstant) {
        if !self.hears(now) {
            self.seen.values_mut().for_each(|seen| seen.since = now);
        }
        self.heard = Some(now);
    }

    /// Returns true if changes of others arrive.
    #[must_use]
    pub fn hears(&self, now: BootInstant) -> bool {
        // Two of three renewals: less than that time without the one that a host may just not have sent.
        self.heard
            .is_some_and(|heard| now.saturating_duration_since(heard) < self.terms.every() * 2)
    }

    /// Saw a lease at this revision.
    pub fn saw(&mut self, host: &str, revision: u64, terms: Terms, now: BootInstant) {
        let is_full = self.seen.len() >= WATCHED;
        match self.seen.get_mut(host) {
            Some(seen) if seen.revision == revision => seen.terms = terms,
            Some(seen) => {
                *seen = LeaseObservation {
                    revision,
                    since: now,
                    terms,
                }
            }
            // Of more than there can be nothing is concluded.
            None if is_full => {}
            None => drop(self.seen.insert(
                host.to_owned(),
                LeaseObservation {
                    revision,
                    since: now,
                    terms,
                },
            )),
        }
    }

    /// Saw that there is no lease.
    pub fn saw_none(&mut self, host: &str, now: BootInstant) {
        let terms = self.seen.get(host).map_or(self.terms, |seen| seen.terms);
        self.saw(host, 0, terms, now);
    }

    /// Returns true if the holder has stopped, unless a stored renewal was not seen: the lease can
    /// be ended.
    #[must_use]
    pub fn is_gone(&self, host: &str, now: BootInstant) -> bool {
        let is_silent = |seen: &LeaseObservation| {
            now.saturating_duration_since(seen.since) >= seen.terms.gone_after()
        };
        self.hears(now) && self.seen.get(host).is_some_and(is_silent)
    }

    /// Forgets a host whose lease and sessions are gone.
    pub fn forget(&mut self, host: &str) {
        self.seen.remove(host);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TERMS: Terms = Terms {
        ttl: Duration::from_secs(3),
    };

    fn at(ms: u64) -> BootInstant {
        BootInstant::from_nanos(ms * 1_000_000)
    }

    #[test]
    fn a_holder_stops_by_the_renewal_it_sent_and_not_by_its_answer() {
        let mut held = Held::new(TERMS);
        assert!(!held.is_good(at(0)));
        held.renewed(at(1000));
        assert!(held.is_good(at(3249)));
        assert!(!held.is_good(at(3250)));
        // An answer that comes late and is of an earlier one takes nothing back.
        held.renewed(at(500));
        assert!(held.is_good(at(3249)));
    }

    /// Returns a watcher that receives all changes, from `now` on.
    fn hearing(terms: Terms, now: BootInstant) -> Watch {
        let mut watch = Watch::new(terms);
        watch.heard_own(now);
        watch
    }

    #[test]
    fn one_who_watches_waits_longer_than_the_holder_may_act() {
        for ttl in [1, 2, 3, 8, 30, 300] {
            let terms = Terms {
                ttl: Duration::from_secs(ttl),
            };
            let sent = at(0);
            let seen = at(0);
            let mut watch = hearing(terms, seen);
            watch.saw("a", 1, terms, seen);
            let stops = terms.good_until(sent);
            assert!(
                terms.every() < stops.saturating_duration_since(sent),
                "there is time for a second renewal"
            );
            let mut now = seen;
            while !watch.is_gone("a", now) {
                now = now + Duration::from_millis(10);
                watch.heard_own(now);
            }
            assert_eq!(now, seen + terms.gone_after(), "{ttl}");
            assert!(now > stops + GRACE);
        }
    }

    #[test]
    fn what_was_not_heard_does_not_count() {
        let mut watch = Watch::new(TERMS);
        watch.saw("a", 7, TERMS, at(0));
        assert!(!watch.is_gone("a", at(100_000)), "it hears nothing");
        for ms in (100_000..104_000).step_by(1000) {
            watch.heard_own(at(ms));
            assert!(!watch.is_gone("a", at(ms)));
        }
        watch.saw("a", 7, TERMS, at(103_999));
        assert!(
            watch.is_gone("a", at(104_000)),
            "the same revision is no sign of life"
        );
        assert!(
            !watch.is_gone("a", at(105_000)),
            "the own renewals do not come back any more"
        );
        watch.heard_own(at(110_000));
        assert!(
            !watch.is_gone("a", at(110_001)),
            "all count anew after a silence"
        );
    }

    #[test]
    fn who_hears_no_more_finds_that_out_before_anyone_counts_as_gone() {
        for (ttl, own, other) in [(3, 0, 1), (3, 999, 0), (30, 9_000, 1), (1, 300, 333)] {
            let terms = Terms {
                ttl: Duration::from_secs(ttl),
            };
            // Both renew in time; from `cut` on nothing arrives.
            let every = u64::try_from(terms.every().as_millis()).unwrap();
            let cut = 50 * every;
            let mut watch = Watch::new(terms);
            for ms in 0..cut + 20 * every {
                if ms < cut && ms % every == own % every {
                    watch.heard_own(at(ms));
                }
                if ms < cut && ms % every == other % every {
                    watch.saw("a", ms, terms, at(ms));
                }
                assert!(!watch.is_gone("a", at(ms)), "{ttl} {ms}");
            }
        }
    }

    #[test]
    fn a_lease_that_vanished_proves_nothing_until_its_time_is_up() {
        let mut watch = Watch::new(TERMS);
        let mut is_gone = Vec::new();
        for ms in (0..12_000).step_by(500) {
            watch.heard_own(at(ms));
            match ms {
                0 => watch.saw("a", 7, TERMS, at(ms)),
                3000.. => watch.saw_none("a", at(ms)),
                _ => {}
            }
            is_gone.push((ms, watch.is_gone("a", at(ms))));
            assert!(!watch.is_gone("b", at(ms)), "nothing is known of it");
        }
        assert_eq!(
            is_gone.iter().find(|(_, is)| *is).map(|(ms, _)| *ms),
            Some(7000)
        );
    }
}
