//! Leases: takes, renews, loses and returns its own, and watches the leases of other hosts.

use std::sync::Arc;

use bytes::Bytes;
use tokio::{
    sync::watch,
    time::{Duration, sleep, timeout},
};
use trunkline_process::BootInstant;

use super::{JoinError, OnLease, SeenHost, SharedNode};
use crate::{
    blocking,
    lease::{Held, Terms},
    marks::Unsound,
    placement::jitter,
    row::{HostRow, Row},
    store::{NotKept, Space},
};

/// Delay before the next attempt after a renewal that was not acknowledged.
const AGAIN: Duration = Duration::from_millis(100);

/// Limit of hosts.
const HOSTS: usize = 1024;

/// Delay before a host retries a failed search for its own sessions, plus up to the same at random.
const OWN_AGAIN: Duration = Duration::from_secs(1);

/// Maximum interval between checks for hosts that are gone.
pub const LOOK: Duration = Duration::from_millis(200);

/// A lease that was taken.
#[derive(Debug)]
pub(super) struct First {
    held: Held,
    number: u64,
    beat: u64,
}

impl SharedNode {
    /// Returns the row of this host.
    pub(super) fn row(&self, beat: u64) -> HostRow {
        let owned = self
            .sessions()
            .map(|sessions| sessions.owned())
            .unwrap_or_default();
        HostRow {
            host: self.at.host.clone(),
            incarnation: self.at.incarnation.clone(),
            beat,
            ttl_ms: u64::try_from(self.terms.ttl.as_millis()).unwrap_or(u64::MAX),
            version: self.options.version.clone(),
            labels: self.options.labels.clone(),
            storage: self.options.storage.clone(),
            agents: self.options.agents.clone(),
            digest: self.options.digest.clone(),
            sessions: owned.len() as u64,
            busy: owned.iter().filter(|owned| owned.is_busy).count() as u64,
            is_draining: *self.is_draining.borrow(),
            is_over: false,
        }
    }

    /// Takes the lease of this host's name. One that another run holds is waited for.
    pub(super) async fn take_lease(
        self: Arc<Self>,
        on_lease: &OnLease,
    ) -> Result<First, JoinError> {
        let mut held = Held::new(self.terms);
        let mut before: Option<(u64, BootInstant)> = None;
        loop {
            let last = self
                .store
                .last(Space::Hosts, &self.at.host)
                .await
                .map_err(JoinError::Silent)?;
            let number = last.as_ref().map_or(0, |kept| kept.number);
            let row = last.as_ref().and_then(|kept| HostRow::parse(&kept.bytes));
            let is_held = |row: &HostRow| row.incarnation != self.at.incarnation && !row.is_over;
            if let Some(row) = row.filter(is_held) {
                let within = Terms { ttl: row.ttl() }.gone_after();
                match before {
                    Some((seen, since))
                        if seen == number
                            && BootInstant::now().saturating_duration_since(since) >= within => {}
                    Some((seen, _)) if seen == number => {
                        sleep(LOOK).await;
                        continue;
                    }
                    Some(_) => return Err(JoinError::Taken(self.at.host.clone())),
                    None => {
                        tracing::info!(
                            "the lease of an earlier run has not ended; waiting for {within:?}"
                        );
                        before = Some((number, BootInstant::now()));
                        continue;
                    }
                }
            }
            let row = self.row(1);
            let sent = BootInstant::now();
            match self
                .store
                .put(Space::Hosts, &self.at.host, number, row.to_bytes())
                .await
            {
                Ok(number) => {
                    held.renewed(sent);
                    // It takes sessions before the watch reports its lease.
                    self.view().hosts.insert(
                        self.at.host.clone(),
                        SeenHost {
                            row,
                            number,
                            at: sent,
                        },
                    );
                    self.lease.send_replace(held.until());
                    on_lease(held.until());
                    return Ok(First {
                        held,
                        number,
                        beat: 1,
                    });
                }
                // Looked at again: it may be this one's own.
                Err(NotKept::Other | NotKept::Unknown(_)) => {}
                Err(why @ (NotKept::Refused(_) | NotKept::Full(_))) => {
                    return Err(JoinError::Options(why.to_string()));
                }
            }
        }
    }

    /// Renews the lease for as long as the node lives.
    pub(super) async fn renew(self: Arc<Self>, first: First, on_lease: OnLease) {
        let First {
            mut held,
            mut number,
            mut beat,
        } = first;
        let mut draining = self.is_draining.subscribe();
        loop {
            tokio::select! {
                () = sleep(self.terms.every()) => {}
                // The others learn of it at once.
                Ok(()) = draining.changed() => {}
                why = self.keeper.marks.until_lost() => {
                    tracing::error!("{why}");
                    self.lease.send_replace(None);
                    on_lease(None);
                    if !self.keeper.marks.is_whole(&*self.store).await {
                        return;
                    }
                    held = Held::new(self.terms);
                }
            }
            beat += 1;
            loop {
                let sent = BootInstant::now();
                let put = self.store.put(
                    Space::Hosts,
                    &self.at.host,
                    number,
                    self.row(beat).to_bytes(),
                );
                let put = timeout(self.terms.every(), put).await;
                if !matches!(put, Ok(Ok(_))) {
                    self.keeper.counters.renewals_failed.add(1);
                }
                match put {
                    Ok(Ok(kept)) => {
                        number = kept;
                        held.renewed(sent);
                        self.lease.send_replace(held.until());
                        on_lease(held.until());
                        break;
                    }
                    Ok(Err(why @ (NotKept::Refused(_) | NotKept::Full(_)))) => {
                        tracing::warn!("the lease was not renewed: {why}");
                    }
                    Err(_) | Ok(Err(NotKept::Unknown(_))) => {}
                    Ok(Err(NotKept::Other)) => match self.look(&held).await {
                        Ok(Some(at)) => {
                            number = at;
                            continue;
                        }
                        Ok(None) => {
                            self.lease.send_replace(None);
                            on_lease(None);
                            return;
                        }
                        Err(why) => tracing::debug!("the lease is not renewed: {why}"),
                    },
                }
                sleep(AGAIN + jitter(&self.at.host, beat, AGAIN)).await;
            }
        }
    }

    /// Looks as often as the lease is renewed whether the store is behind what this host has seen
    /// of it, and notes how far it has come.
    pub(super) async fn look_at_store(self: Arc<Self>) {
        let marks = &self.keeper.marks;
        loop {
            sleep(self.terms.every()).await;
            match marks.look(&*self.store).await {
                Ok(()) => {}
                // The lease ends.
                Err(Unsound::Lost(_)) => continue,
                Err(Unsound::Silent(why)) => {
                    tracing::debug!("how far the store has come is not known: {why}")
                }
            }
            let saved = {
                let marks = marks.clone();
                blocking(move || marks.save()).await
            };
            if let Err(why) = saved {
                tracing::warn!("how far the cluster's store has come was not written: {why}");
            }
        }
    }

    /// Returns the number behind which the next renewal goes, after one that failed. `None`: never
    /// again.
    async fn look(&self, held: &Held) -> Result<Option<u64>, String> {
        let last = self.store.last(Space::Hosts, &self.at.host).await?;
        let number = last.as_ref().map_or(0, |kept| kept.number);
        let row = last.as_ref().and_then(|kept| HostRow::parse(&kept.bytes));
        let is_own = row
            .as_ref()
            .is_none_or(|row| row.incarnation == self.at.incarnation);
        if is_own && row.as_ref().is_some_and(|row| !row.is_over) {
            // A renewal was kept whose answer was lost.
            return Ok(Some(number));
        }
        if held.is_good(BootInstant::now()) {
            if row.is_none() {
                // A message that is no row has no effect on the others, and no correct host has
                // written it.
                return Ok(Some(number));
            }
            // No correct host has written it. It ends with the lease, at the latest.
            return Err("another host has ended it".to_owned());
        }
        if !is_own {
            tracing::warn!(
                "another daemon has the name {} now; this one serves no more",
                self.at.host
            );
            return Ok(None);
        }
        // Ended by another host, which was right: another tenure begins.
        Ok(Some(number))
    }

    /// Ends the lease of a host that is gone. Whether it is over.
    pub(super) async fn end_lease(&self, host: &str) -> bool {
        let (seen, is_silent) = {
            let view = self.view();
            (
                view.hosts.get(host).cloned(),
                view.watch.is_gone(host, BootInstant::now()),
            )
        };
        if seen.as_ref().is_some_and(|seen| seen.row.is_over) {
            return true;
        }
        if !self.may_act() || host == self.at.host {
            return false;
        }
        if !is_silent {
            return self.is_over(host).await;
        }
        let (number, over) = match seen {
            Some(seen) => (
                seen.number,
                HostRow {
                    is_over: true,
                    ..seen.row
                },
            ),
            None => {
                // It was removed, or another writer has stored a message that is no row.
                let Ok(last) = self.store.last(Space::Hosts, host).await else {
                    return false;
                };
                if last
                    .as_ref()
                    .is_some_and(|kept| HostRow::parse(&kept.bytes).is_some())
                {
                    return false;
                }
                let row = HostRow {
                    is_over: true,
                    host: host.to_owned(),
                    incarnation: String::new(),
                    ..self.row(0)
                };
                (last.map_or(0, |kept| kept.number), row)
            }
        };
        match self
            .store
            .put(Space::Hosts, host, number, over.to_bytes())
            .await
        {
            Ok(number) => {
                tracing::warn!(host, "a host is gone; the others take over its sessions");
                self.saw(host, number, &over.to_bytes());
                true
            }
            Err(why) => {
                tracing::debug!(
                    host,
                    "the lease of a host that is silent was not ended: {why}"
                );
                self.is_over(host).await
            }
        }
    }

    /// Returns true if another host has ended a lease, even if the change has not arrived yet.
    async fn is_over(&self, host: &str) -> bool {
        let Ok(Some(kept)) = self.store.last(Space::Hosts, host).await else {
            return false;
        };
        let is_over =
            HostRow::parse(&kept.bytes).is_some_and(|row| row.is_over && row.host == host);
        if is_over {
            self.saw(host, kept.number, &kept.bytes);
        }
        is_over
    }

    /// Watches the leases of all hosts.
    pub(super) async fn watch(self: Arc<Self>) {
        loop {
            match self.store.watch(Space::Hosts).await {
                Ok(mut changes) => {
                    while let Some(change) = changes.recv().await {
                        self.saw(&change.key, change.kept.number, &change.kept.bytes);
                    }
                }
                Err(why) => tracing::debug!("the leases are not watched: {why}"),
            }
            sleep(AGAIN + jitter(&self.at.host, 0, AGAIN)).await;
        }
    }

    fn saw(&self, host: &str, number: u64, bytes: &Bytes) {
        let now = BootInstant::now();
        let mut view = self.view();
        let is_late = view
            .hosts
            .get(host)
            .is_some_and(|seen| seen.number > number);
        let row = HostRow::parse(bytes).filter(|row| row.host == host);
        if row.is_none() && !bytes.is_empty() && self.keeper.counters.rows_refused.note() {
            tracing::warn!(
                ?host,
                "a row of hosts was written by no host, and is refused"
            );
        }
        match row {
            _ if is_late => {}
            Some(_) if view.hosts.len() >= HOSTS && !view.hosts.contains_key(host) => {
                if self.keeper.counters.rows_refused.note() {
                    tracing::warn!(
                        host,
                        "more than {HOSTS} hosts have rows; this one is not seen"
                    );
                }
            }
            Some(row) => {
                if row.incarnation == self.at.incarnation && !row.is_over {
                    view.watch.heard_own(now);
                }
                view.watch.saw(host, number, Terms { ttl: row.ttl() }, now);
                // Any host may report that another host's lease is over.
                let at = view
                    .hosts
                    .get(host)
                    .filter(|_| row.is_over)
                    .map_or(now, |seen| seen.at);
                view.hosts
                    .insert(host.to_owned(), SeenHost { row, number, at });
            }
            None => {
                view.watch.forget(host);
                view.hosts.remove(host);
            }
        }
        drop(view);
        self.note_change();
    }

    /// Lets all sessions go when the lease runs out, and takes them again when it is held again.
    pub(super) async fn guard(self: Arc<Self>) {
        let mut lease = self.lease.subscribe();
        loop {
            let until = *lease.borrow_and_update();
            let left = until.map(|until| until.saturating_duration_since(BootInstant::now()));
            let Some(left) = left.filter(|left| !left.is_zero()) else {
                self.lose();
                // Until it is held again, which it may never be.
                if lease.wait_for(|held| *held > until).await.is_err() {
                    return;
                }
                let mut tries = 0;
                while let Err(why) = self.clone().take_own().await {
                    tracing::warn!("the sessions of this host are not its own again: {why}");
                    if !self.may_act() {
                        break;
                    }
                    tries += 1;
                    sleep(OWN_AGAIN + jitter(&self.at.host, tries, OWN_AGAIN)).await;
                }
                continue;
            };
            tokio::select! {
                () = sleep(left) => {}
                changed = lease.changed() => if changed.is_err() { return },
            }
        }
    }

    /// Stops serving.
    fn lose(&self) {
        let Some(sessions) = self.sessions() else {
            return;
        };
        let owned = sessions.owned();
        tracing::warn!(
            sessions = owned.len(),
            "the lease has run out: this host serves its sessions no more"
        );
        for owned in owned {
            self.keeper.end(&owned.id);
            sessions.release(&owned.id);
        }
    }

    /// Gives the lease back: what this host still has may be taken.
    pub(super) async fn give_back(&self) {
        let Ok(Some(kept)) = self.store.last(Space::Hosts, &self.at.host).await else {
            return;
        };
        if HostRow::parse(&kept.bytes).is_some_and(|row| row.incarnation == self.at.incarnation) {
            let over = HostRow {
                is_over: true,
                sessions: 0,
                busy: 0,
                ..self.row(0)
            };
            // In vain, it runs out.
            let _ = self
                .store
                .put(Space::Hosts, &self.at.host, kept.number, over.to_bytes())
                .await;
        }
    }

    /// Resolves when something has changed among the hosts, or some time has passed.
    pub(super) async fn change(changed: &mut watch::Receiver<u64>) {
        // Gone is changed.
        let _ = timeout(LOOK, changed.changed()).await;
    }
}
