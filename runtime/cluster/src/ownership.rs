//! Decides which host may have a session, by its row and the hosts that count as gone.

use crate::row::{MOST_EPOCH, OwnershipState, SessionRow};

/// A host that wants a session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Me {
    /// Name.
    pub host: String,
    /// Id of its run.
    pub incarnation: String,
    /// The storages that it has.
    pub storage: Vec<String>,
    /// Of its agents' configuration and policy.
    pub digest: String,
}

/// Reason why a session is not taken.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TakeRefusal {
    /// This host has it already.
    #[error("this host has it already")]
    Own,
    /// The owner is alive, or not certainly gone.
    #[error("the host {0} has it, and is waited for until its lease has ended")]
    Alive(String),
    /// The session was removed.
    #[error("it was removed")]
    Removed,
    /// The files are on a storage of another host that this host does not have.
    #[error("its files are on the storage {storage} of the host {host}")]
    Elsewhere {
        /// The host that had it last.
        host: String,
        /// The storage.
        storage: String,
    },
    /// The other host opened it under another configuration.
    #[error("the host {0} opened it under another configuration")]
    Differs(String),
    /// The epoch cannot rise: no correct host has counted so far.
    #[error(
        "its epoch cannot rise, so another program than a host has written it; begin another session"
    )]
    Spent,
}

/// The row of a new session.
#[must_use]
pub fn opened(me: &Me, id: &str, agent: Option<&str>, storage: Option<String>) -> SessionRow {
    SessionRow {
        id: id.to_owned(),
        host: me.host.clone(),
        incarnation: me.incarnation.clone(),
        epoch: 1,
        state: OwnershipState::Owned,
        agent: agent.map(str::to_owned),
        storage,
        digest: me.digest.clone(),
        anew: None,
    }
}

/// Facts of the host that wants a session, beside the row.
#[derive(Debug, Clone, Copy, Default)]
pub struct HostFacts {
    /// The epoch of its last entry; 0: there is none.
    pub last_epoch: u64,
    /// True if its files may stay behind.
    pub relocates: bool,
    /// True if this host serves it now.
    pub serves: bool,
}

/// Returns the row with which a host takes over a session. `is_gone` returns true for a host that
/// has certainly stopped.
///
/// # Errors
/// The reason why it may not.
pub fn taken(
    row: &SessionRow,
    me: &Me,
    known: HostFacts,
    is_gone: impl Fn(&str) -> bool,
) -> Result<SessionRow, TakeRefusal> {
    let is_own = row.host == me.host;
    match row.state {
        OwnershipState::Removed => return Err(TakeRefusal::Removed),
        OwnershipState::Free => {}
        OwnershipState::Owned if is_own && row.incarnation == me.incarnation && known.serves => {
            return Err(TakeRefusal::Own);
        }
        // An earlier run of this host, which has ended: this one has its lease. Or this one, which
        // had lost its lease.
        OwnershipState::Owned if is_own => {}
        OwnershipState::Owned if is_gone(&row.host) => {}
        OwnershipState::Owned => return Err(TakeRefusal::Alive(row.host.clone())),
    }
    if row.digest != me.digest && !is_own {
        return Err(TakeRefusal::Differs(row.host.clone()));
    }
    let stays = row
        .storage
        .as_ref()
        .filter(|storage| !known.relocates && !me.storage.contains(storage));
    if let Some(storage) = stays {
        return Err(TakeRefusal::Elsewhere {
            host: row.host.clone(),
            storage: storage.clone(),
        });
    }
    let last_epoch = row.epoch.max(known.last_epoch);
    if last_epoch >= MOST_EPOCH {
        return Err(TakeRefusal::Spent);
    }
    let moved = row
        .storage
        .as_ref()
        .is_some_and(|storage| !me.storage.contains(storage));
    let epoch = last_epoch + 1;
    Ok(SessionRow {
        host: me.host.clone(),
        incarnation: me.incarnation.clone(),
        epoch,
        state: OwnershipState::Owned,
        // One who took it so and ended before the record had it leaves that to the next.
        anew: if moved {
            Some(epoch)
        } else {
            row.anew.filter(|anew| *anew > known.last_epoch)
        },
        storage: if moved {
            me.storage.first().cloned()
        } else {
            row.storage.clone()
        },
        digest: me.digest.clone(),
        ..row.clone()
    })
}

/// The row of a session that its owner lets go, in order.
#[must_use]
pub fn freed(row: &SessionRow) -> SessionRow {
    SessionRow {
        state: OwnershipState::Free,
        ..row.clone()
    }
}

/// The row of a session that is removed: its id is not used again.
#[must_use]
pub fn removed(row: &SessionRow) -> SessionRow {
    SessionRow {
        state: OwnershipState::Removed,
        ..row.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn me(host: &str, incarnation: &str, storage: &[&str]) -> Me {
        let storage = storage.iter().map(|&id| id.to_owned()).collect();
        Me {
            host: host.to_owned(),
            incarnation: incarnation.to_owned(),
            storage,
            digest: "d".to_owned(),
        }
    }

    #[test]
    fn only_one_who_is_gone_loses_a_session() {
        let a = me("a", "1", &[]);
        let b = me("b", "1", &[]);
        let row = opened(&a, "s", Some("x"), None);
        let known = HostFacts::default();
        let serves = HostFacts {
            serves: true,
            ..known
        };
        assert_eq!(taken(&row, &a, serves, |_| true), Err(TakeRefusal::Own));
        assert_eq!(
            taken(&row, &a, known, |_| false).unwrap().epoch,
            2,
            "it had let it go"
        );
        assert_eq!(
            taken(&row, &b, known, |_| false),
            Err(TakeRefusal::Alive("a".to_owned()))
        );
        let gone = |host: &str| host == "a";
        let taken_over = taken(&row, &b, known, gone).unwrap();
        assert_eq!((&*taken_over.host, taken_over.epoch), ("b", 2));
        assert_eq!(
            taken(&taken_over, &a, known, gone),
            Err(TakeRefusal::Alive("b".to_owned()))
        );
        assert!(taken(&freed(&row), &b, known, |_| false).is_ok());
        assert_eq!(
            taken(&removed(&row), &b, known, gone),
            Err(TakeRefusal::Removed)
        );
        assert!(
            taken(&row, &me("a", "2", &[]), known, |_| false).is_ok(),
            "the host's next run"
        );
    }

    #[test]
    fn an_epoch_is_above_that_of_the_row_and_of_the_last_entry() {
        let a = me("a", "1", &[]);
        let row = SessionRow {
            epoch: 4,
            ..opened(&a, "s", None, None)
        };
        let epoch = |last| {
            taken(
                &row,
                &me("a", "2", &[]),
                HostFacts {
                    last_epoch: last,
                    ..HostFacts::default()
                },
                |_| false,
            )
            .unwrap()
            .epoch
        };
        assert_eq!(
            (epoch(0), epoch(4), epoch(9)),
            (5, 5, 10),
            "a restored row is behind"
        );
        let most = |last_epoch| {
            taken(
                &row,
                &a,
                HostFacts {
                    last_epoch,
                    ..HostFacts::default()
                },
                |_| true,
            )
        };
        assert_eq!(most(MOST_EPOCH - 1).unwrap().epoch, MOST_EPOCH);
        assert_eq!(
            (most(MOST_EPOCH), most(u64::MAX)),
            (Err(TakeRefusal::Spent), Err(TakeRefusal::Spent))
        );
    }

    #[test]
    fn a_session_goes_where_its_files_are_unless_somebody_says_otherwise() {
        let a = me("a", "1", &["nfs"]);
        let b = me("b", "1", &[]);
        let c = me("c", "1", &["nfs"]);
        let row = opened(&a, "s", None, Some("nfs".to_owned()));
        let elsewhere = TakeRefusal::Elsewhere {
            host: "a".to_owned(),
            storage: "nfs".to_owned(),
        };
        let known = HostFacts::default();
        assert_eq!(taken(&row, &b, known, |_| true), Err(elsewhere));
        assert!(taken(&row, &c, known, |_| true).is_ok());
        let relocates = HostFacts {
            relocates: true,
            ..known
        };
        let anew = taken(&row, &b, relocates, |_| true).unwrap();
        assert_eq!((&anew.storage, anew.anew), (&None, Some(2)));
        assert_eq!(
            taken(&row, &c, relocates, |_| true).unwrap().anew,
            None,
            "its files are there"
        );
        // If the first owner has not reported it, the next one does; it is never reported twice.
        let next = |last_epoch| {
            taken(
                &anew,
                &c,
                HostFacts {
                    last_epoch,
                    ..known
                },
                |_| true,
            )
            .unwrap()
            .anew
        };
        assert_eq!((next(1), next(2), next(3)), (Some(2), None, None));
        let other = Me {
            digest: "e".to_owned(),
            ..c
        };
        assert_eq!(
            taken(&row, &other, known, |_| true),
            Err(TakeRefusal::Differs("a".to_owned()))
        );
    }
}
