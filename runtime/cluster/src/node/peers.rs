//! Locations of sessions and connections to their hosts, for a gateway.

use std::{io, time::Duration};

use futures_util::future::BoxFuture;
use trunkline_gateway::{ForwardedPrincipal, HostPhase, HostState, Peers, SessionLocation, Stream};
use trunkline_process::BootInstant;
use trunkline_protocol::SessionId;

use super::{Node, SharedNode, letters::LetterReply, take::NotTaken};
use crate::{
    ownership::TakeRefusal,
    placement::{Needs, candidates, heir},
    row::{HostRow, OwnershipState, SessionRow},
};

impl SharedNode {
    /// Returns the location of a session. For a session that this host is handing over, waits for
    /// the new one.
    async fn locate(&self, id: &SessionId) -> SessionLocation {
        // Their sender is this one's.
        let _ = self
            .leaving
            .subscribe()
            .wait_for(|leaving| !leaving.contains(id))
            .await;
        if self.serves(id) {
            return SessionLocation::Here;
        }
        let unavailable = |host: &str, why: String| SessionLocation::Unavailable {
            host: host.to_owned(),
            why,
        };
        if let Some(why) = self.keeper.marks.lost() {
            return unavailable(&self.at.host, why);
        }
        let row = match self.read(id).await {
            Ok(Some(read)) => read.row,
            Ok(None) => return SessionLocation::Unknown,
            Err(why) => {
                return unavailable(
                    &self.at.host,
                    format!("the cluster's store does not answer: {why}"),
                );
            }
        };
        let is_ours = row.host == self.at.host;
        match row.state {
            OwnershipState::Removed => return SessionLocation::Unknown,
            OwnershipState::Owned if !is_ours && !self.is_silent(&row.host) => {
                return SessionLocation::There(row.host);
            }
            OwnershipState::Owned | OwnershipState::Free => {}
        }
        if !self.knows(&row.host) {
            // Nothing is known of it, and from now on that is watched.
            self.view().watch.saw_none(&row.host, BootInstant::now());
        }
        self.bring(id, &row).await
    }

    fn knows(&self, host: &str) -> bool {
        self.view().hosts.contains_key(host)
    }

    /// Has a session that is without a host taken over, by the host that all agree on.
    async fn bring(&self, id: &SessionId, row: &SessionRow) -> SessionLocation {
        let unavailable = |why: String| SessionLocation::Unavailable {
            host: row.host.clone(),
            why,
        };
        let alive = self.alive();
        // A returned host has priority, because its files are there. A draining host has just
        // released it.
        let back = alive.iter().find(|host| host.host == row.host);
        let first = back.filter(|host| !host.is_draining || row.state != OwnershipState::Free);
        let Some(to) = first.map(|host| &*host.host).or_else(|| heir(row, &alive)) else {
            let storage = row
                .storage
                .as_deref()
                .map(|storage| format!(" with the storage {storage}"));
            let anew = match heir_without_files(row, &alive) {
                Some(_) => {
                    let id = &row.id;
                    format!(
                        ", or have another host begin it anew by `trunkline sessions attach {id} --relocate`"
                    )
                }
                None => String::new(),
            };
            return unavailable(format!(
                "no host{} that has the same configuration is up; start {}{anew}",
                storage.unwrap_or_default(),
                row.host,
            ));
        };
        if to == self.at.host {
            return match self.take(id, false).await {
                Ok(()) | Err(NotTaken::Kept(TakeRefusal::Own)) => SessionLocation::Here,
                Err(NotTaken::Unknown | NotTaken::Kept(TakeRefusal::Removed)) => {
                    SessionLocation::Unknown
                }
                Err(NotTaken::Kept(TakeRefusal::Alive(host))) if self.knows(&host) => {
                    SessionLocation::There(host)
                }
                Err(NotTaken::Kept(TakeRefusal::Alive(_))) => unavailable(
                    "its host is gone, and is waited for until its lease has ended".to_owned(),
                ),
                Err(why) => unavailable(why.to_string()),
            };
        }
        match self.take_at(to, id, false).await {
            Ok(LetterReply::Done) => SessionLocation::There(to.to_owned()),
            Ok(LetterReply::Not(why)) => unavailable(why),
            Ok(LetterReply::Exists) => unavailable("its host is not certain".to_owned()),
            Err(why) => unavailable(format!("{to} does not answer: {why}")),
        }
    }

    /// Has a session taken over whose files stay behind, by the host that all agree on, which is given.
    async fn relocate(&self, id: &SessionId) -> Result<String, String> {
        let Some(read) = self.read(id).await? else {
            return Err(NotTaken::Unknown.to_string());
        };
        let alive = self.alive();
        let none = || "no host that has the same configuration takes further sessions".to_owned();
        let to = heir_without_files(&read.row, &alive).ok_or_else(none)?;
        match self.take_at(to, id, true).await {
            Ok(LetterReply::Done) => Ok(to.to_owned()),
            Ok(LetterReply::Not(why)) => Err(why),
            Ok(LetterReply::Exists) => Err(format!("the answer of {to} has no meaning here")),
            Err(why) => Err(format!("{to} does not answer: {why}")),
        }
    }

    /// Finds a host for a new session.
    async fn find_host(
        &self,
        id: &SessionId,
        agent: Option<&str>,
    ) -> Result<SessionLocation, String> {
        let needs = Needs {
            agent: agent.map(str::to_owned),
            ..Needs::default()
        };
        let alive = self.alive();
        let mut why = match agent {
            Some(agent) => format!("no host that is up serves the agent {agent}"),
            None => "no host takes further sessions".to_owned(),
        };
        for host in candidates(id.as_str(), &needs, &alive) {
            let answer = if host.host == self.at.host {
                match self.take_new(id, agent).await {
                    Ok(true) => return Ok(SessionLocation::Here),
                    Ok(false) => LetterReply::Exists,
                    Err(why) => LetterReply::Not(why),
                }
            } else {
                match self.place_at(&host.host, id, agent).await {
                    Ok(answer) => answer,
                    Err(error) => {
                        LetterReply::Not(format!("{} does not answer: {error}", host.host))
                    }
                }
            };
            match answer {
                LetterReply::Done => return Ok(SessionLocation::There(host.host.clone())),
                // Its host reports that it exists.
                LetterReply::Exists => {
                    return match self.locate(id).await {
                        SessionLocation::Unknown => Err("the id was used before".to_owned()),
                        place => Ok(place),
                    };
                }
                LetterReply::Not(because) => why = because,
            }
        }
        Err(why)
    }

    fn states(&self) -> Vec<HostState> {
        let view = self.view();
        let now = BootInstant::now();
        let state = |host: &String| {
            let seen = view.hosts.get(host)?;
            let row = &seen.row;
            let is_this = *host == self.at.host;
            let state = match () {
                () if row.is_over || !is_this && view.watch.is_gone(host, now) => HostPhase::Lost,
                () if row.is_draining => HostPhase::Draining,
                () => HostPhase::Up,
            };
            Some(HostState {
                id: host.clone(),
                is_this,
                state,
                load: None,
                sessions: row.sessions,
                labels: row.labels.clone(),
                agents: row.agents.clone(),
                storage: row.storage.clone(),
                version: Some(row.version.clone()),
                heard_ms: Some(
                    u64::try_from(now.saturating_duration_since(seen.at).as_millis())
                        .unwrap_or(u64::MAX),
                ),
            })
        };
        view.hosts.keys().filter_map(state).collect()
    }
}

/// The host that takes over a session whose files stay behind.
fn heir_without_files<'a>(row: &SessionRow, alive: &'a [HostRow]) -> Option<&'a str> {
    heir(
        &SessionRow {
            storage: None,
            ..row.clone()
        },
        alive,
    )
}

impl Peers for Node {
    fn locate<'a>(&'a self, id: &'a SessionId) -> BoxFuture<'a, SessionLocation> {
        Box::pin(self.shared.locate(id))
    }

    fn place<'a>(
        &'a self,
        id: &'a SessionId,
        agent: Option<&'a str>,
    ) -> BoxFuture<'a, Result<SessionLocation, String>> {
        Box::pin(self.shared.find_host(id, agent))
    }

    fn connect<'a>(
        &'a self,
        host: &'a str,
        who: ForwardedPrincipal,
    ) -> BoxFuture<'a, io::Result<Box<dyn Stream>>> {
        Box::pin(async move {
            let stream = self.shared.connect(host, who).await?;
            Ok(Box::new(stream) as Box<dyn Stream>)
        })
    }

    fn hosts(&self) -> Vec<HostState> {
        self.shared.states()
    }

    fn drain<'a>(
        &'a self,
        host: Option<&'a str>,
        deadline: Duration,
    ) -> BoxFuture<'a, Result<(), String>> {
        Box::pin(async move {
            match host.filter(|host| *host != self.shared.at.host) {
                None => self.shared.begin_drain(deadline),
                Some(host) if self.shared.knows(host) && self.shared.is_silent(host) => {
                    Err(format!("the host {host} is lost, and hands nothing over"))
                }
                Some(host) => {
                    self.drain_other(host, deadline)
                        .await
                        .map_err(|error| match error.kind() {
                            io::ErrorKind::NotFound => error.to_string(),
                            _ => format!("the host {host} does not answer: {error}"),
                        })
                }
            }
        })
    }

    fn relocate<'a>(&'a self, id: &'a SessionId) -> BoxFuture<'a, Result<String, String>> {
        Box::pin(self.shared.relocate(id))
    }

    fn counters(&self) -> Vec<(&'static str, u64)> {
        self.shared.keeper.counters.all()
    }

    fn moved(&self, id: &SessionId, host: &str) -> BoxFuture<'static, ()> {
        let _ = id;
        let shared = self.shared.clone();
        let host = host.to_owned();
        Box::pin(async move {
            let run = |shared: &SharedNode| {
                shared
                    .view()
                    .hosts
                    .get(&host)
                    .map(|seen| seen.row.incarnation.clone())
            };
            let before = run(&shared);
            let mut changed = shared.changed.subscribe();
            // When a session moves in order, its host notifies the subscribers.
            while run(&shared) == before && !shared.is_silent(&host) {
                SharedNode::change(&mut changed).await;
            }
        })
    }
}
