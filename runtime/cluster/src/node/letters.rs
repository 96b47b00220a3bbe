//! Letters of other hosts: connections and requests.

use std::{io, sync::Arc, time::Duration};

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use tokio::{
    io::DuplexStream,
    sync::{OwnedSemaphorePermit, mpsc},
};
use trunkline_gateway::ForwardedPrincipal;
use trunkline_protocol::SessionId;

use super::{SharedNode, take::NotTaken};
use crate::{
    fabric::{Address, Letter},
    lock,
    ownership::TakeRefusal,
    store::is_name,
    tunnel::{self, LETTERS, Way},
};

/// The topics.
const OPEN: &str = "open";
const PLACE: &str = "place";
const TAKE: &str = "take";
const INHERIT: &str = "inherit";
const DRAIN: &str = "drain";

/// Topic prefix of tunnels.
const TUNNEL: &str = "t.";

/// Timeouts of a reply: to a connection, a placement, a takeover.
const CONNECTS: Duration = Duration::from_secs(3);
const PLACES: Duration = Duration::from_millis(300);
const TAKES: Duration = Duration::from_secs(10);

/// Limit of tunnels that end at a host, and of bytes that wait in all of them.
const TUNNELS: usize = 16 * 1024;
pub(super) const WAIT: usize = 256 * 1024 * 1024;

/// Maximum length of a letter outside of tunnels, in bytes; limits of letters that are answered at
/// the same time, and of drains.
const ASKED: usize = 64 * 1024;
pub(super) const AT_ONCE: usize = 1024;
pub(super) const DRAINS: usize = 4;

/// Limit of waiting letters that assign sessions to a host.
pub(super) const INHERITS: usize = 64;

/// Opens a tunnel.
#[derive(Debug, Serialize, Deserialize)]
struct OpenTunnel {
    id: String,
    from: Address,
    who: ForwardedPrincipal,
}

/// Asks a host to have a session: a new one, or one that has no host.
#[derive(Debug, Serialize, Deserialize)]
struct Have {
    id: String,
    #[serde(default)]
    agent: Option<String>,
    #[serde(default)]
    relocates: bool,
}

/// Tells a host which sessions of one that is gone it takes over.
#[derive(Debug, Serialize, Deserialize)]
struct Inherit {
    ids: Vec<String>,
}

/// Asks a host to drain.
#[derive(Debug, Serialize, Deserialize)]
struct Drain {
    deadline_ms: u64,
}

/// Reply to a request.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum LetterReply {
    /// Done.
    Done,
    /// The id is taken.
    Exists,
    /// Not done, with the reason.
    Not(String),
}

impl LetterReply {
    fn to_bytes(&self) -> Bytes {
        Bytes::from(serde_json::to_vec(self).unwrap_or_default())
    }
}

impl SharedNode {
    /// Takes what comes, for as long as the node lives.
    pub(super) async fn letters(self: Arc<Self>, mut inbox: mpsc::Receiver<Letter>) {
        while let Some(letter) = inbox.recv().await {
            if letter.topic.starts_with(TUNNEL) {
                self.carry(&letter.topic, letter.payload);
                continue;
            }
            let this = self.clone();
            let topic = letter.topic;
            let payload = letter.payload;
            let (Some(reply), true) = (letter.reply, payload.len() <= ASKED) else {
                self.refuse(&topic, "it is too large, or wants no answer");
                continue;
            };
            let Ok(turn) = self.turns.clone().try_acquire_owned() else {
                self.refuse(&topic, "too many are answered");
                continue;
            };
            tokio::spawn(async move {
                let answer = this.asked(&topic, &payload).await.unwrap_or_else(|why| {
                    this.refuse(&topic, &why.to_string());
                    LetterReply::Not(format!("this cannot be read: {why}"))
                });
                reply.send(answer.to_bytes());
                drop(turn);
            });
        }
    }

    /// Notes that a letter is not answered, or only by that.
    fn refuse(&self, topic: &str, why: &str) {
        if self.keeper.counters.letters_refused.note() {
            // No topic is longer.
            let topic: String = topic.chars().take(16).collect();
            tracing::warn!(?topic, "a letter is refused: {why}");
        }
    }

    fn carry(&self, topic: &str, payload: Bytes) {
        let mut tunnels = lock(&self.tunnels);
        let held = match tunnels.get(topic) {
            // One that is behind loses a letter, which it notices.
            Some(letters) => self
                .hold(payload)
                .is_some_and(|payload| letters.try_send(payload).is_ok()),
            // What comes for one that has ended is late.
            None => false,
        };
        if !held {
            tunnels.remove(topic);
            self.keeper.counters.letters_dropped.add(1);
        }
    }

    /// The bytes, with room for them until they are dropped; `None` where there is none.
    fn hold(&self, bytes: Bytes) -> Option<Bytes> {
        struct HeldBytes(
            Bytes,
            #[expect(dead_code, reason = "gives the room back")] OwnedSemaphorePermit,
        );
        impl AsRef<[u8]> for HeldBytes {
            fn as_ref(&self) -> &[u8] {
                &self.0
            }
        }
        let len = u32::try_from(bytes.len()).ok()?;
        let room = self.room.clone().try_acquire_many_owned(len).ok()?;
        Some(Bytes::from_owner(HeldBytes(bytes, room)))
    }

    async fn asked(
        self: &Arc<Self>,
        topic: &str,
        payload: &[u8],
    ) -> Result<LetterReply, serde_json::Error> {
        Ok(match topic {
            OPEN => self.opened(serde_json::from_slice(payload)?),
            PLACE => self.placed(serde_json::from_slice(payload)?).await,
            TAKE => self.taken(serde_json::from_slice(payload)?).await,
            INHERIT => self.inherit(serde_json::from_slice(payload)?),
            DRAIN => {
                let Drain { deadline_ms } = serde_json::from_slice(payload)?;
                match self.begin_drain(Duration::from_millis(deadline_ms)) {
                    Ok(()) => LetterReply::Done,
                    Err(why) => LetterReply::Not(why),
                }
            }
            _ => {
                self.refuse(topic, "this version does not know what is asked");
                LetterReply::Not("this version does not know what is asked".to_owned())
            }
        })
    }

    fn opened(self: &Arc<Self>, open: OpenTunnel) -> LetterReply {
        let Some(door) = self.door.get() else {
            return LetterReply::Not("this host is not up yet".to_owned());
        };
        // They become subjects.
        if ![&open.id, &open.from.host, &open.from.incarnation]
            .into_iter()
            .all(|name| is_name(name))
        {
            self.refuse(OPEN, "its names cannot be");
            return LetterReply::Not("the names of the connection cannot be".to_owned());
        }
        let Some(letters) = self.tunnel(&open.id, 'a') else {
            return LetterReply::Not(
                "too many connections of other hosts are open, or this one is".to_owned(),
            );
        };
        let way = Way {
            fabric: self.fabric.clone(),
            to: open.from,
            topic: topic(&open.id, 'o'),
        };
        tokio::spawn(door(tunnel::open(way, letters), open.who));
        LetterReply::Done
    }

    /// Returns the receiver for the letters of a tunnel. `None` if there are too many, or if it
    /// exists.
    fn tunnel(&self, id: &str, side: char) -> Option<mpsc::Receiver<Bytes>> {
        let (letters, inbox) = mpsc::channel(LETTERS);
        let mut tunnels = lock(&self.tunnels);
        // Those that have ended are forgotten, now and then.
        if tunnels.len().is_multiple_of(64) || tunnels.len() >= TUNNELS {
            tunnels.retain(|_, letters| !letters.is_closed());
        }
        let topic = topic(id, side);
        if tunnels.len() >= TUNNELS
            || tunnels
                .get(&topic)
                .is_some_and(|letters| !letters.is_closed())
        {
            return None;
        }
        tunnels.insert(topic, letters);
        Some(inbox)
    }

    async fn placed(&self, have: Have) -> LetterReply {
        let Ok(id) = SessionId::new(&have.id) else {
            return LetterReply::Not("no session has this id".to_owned());
        };
        if *self.is_draining.borrow() {
            return LetterReply::Not("this host takes no further sessions".to_owned());
        }
        match self.take_new(&id, have.agent.as_deref()).await {
            Ok(true) => LetterReply::Done,
            Ok(false) => LetterReply::Exists,
            Err(why) => LetterReply::Not(why),
        }
    }

    async fn taken(&self, have: Have) -> LetterReply {
        match SessionId::new(&have.id) {
            Ok(id) => self.take_here(&id, have.relocates).await,
            Err(_) => LetterReply::Not("no session has this id".to_owned()),
        }
    }

    async fn take_here(&self, id: &SessionId, relocates: bool) -> LetterReply {
        match self.take(id, relocates).await {
            Ok(()) | Err(NotTaken::Kept(TakeRefusal::Own)) => LetterReply::Done,
            Err(why) => LetterReply::Not(why.to_string()),
        }
    }

    /// Returns the current address of a host.
    fn address(&self, host: &str) -> io::Result<Address> {
        let seen = self
            .view()
            .hosts
            .get(host)
            .map(|seen| seen.row.incarnation.clone());
        let incarnation = seen.ok_or_else(|| {
            io::Error::new(
                io::ErrorKind::NotFound,
                format!("no host {host} is in the cluster"),
            )
        })?;
        Ok(Address {
            host: host.to_owned(),
            incarnation,
        })
    }

    async fn ask(
        &self,
        host: &str,
        topic: &str,
        what: &impl Serialize,
        within: Duration,
    ) -> io::Result<LetterReply> {
        let to = self.address(host)?;
        let payload = Bytes::from(serde_json::to_vec(what)?);
        let answer = self.fabric.request(&to, topic, payload, within).await?;
        Ok(serde_json::from_slice(&answer)?)
    }

    /// A connection to the gateway of another host.
    pub(super) async fn connect(
        &self,
        host: &str,
        who: ForwardedPrincipal,
    ) -> io::Result<DuplexStream> {
        let id = uuid::Uuid::new_v4().simple().to_string();
        let full = || io::Error::other("too many connections to other hosts are open");
        let letters = self.tunnel(&id, 'o').ok_or_else(full)?;
        let to = self.address(host)?;
        let way = Way {
            fabric: self.fabric.clone(),
            to,
            topic: topic(&id, 'a'),
        };
        let open = OpenTunnel {
            id,
            from: self.at.clone(),
            who,
        };
        match self.ask(host, OPEN, &open, CONNECTS).await? {
            LetterReply::Done => Ok(tunnel::open(way, letters)),
            LetterReply::Not(why) => Err(io::Error::other(why)),
            LetterReply::Exists => Err(io::ErrorKind::InvalidData.into()),
        }
    }

    /// Asks a host to have a new session.
    pub(super) async fn place_at(
        &self,
        host: &str,
        id: &SessionId,
        agent: Option<&str>,
    ) -> io::Result<LetterReply> {
        let have = Have {
            id: id.as_str().to_owned(),
            agent: agent.map(str::to_owned),
            relocates: false,
        };
        self.ask(host, PLACE, &have, PLACES).await
    }

    /// Has a host, or this one, take over a session.
    pub(super) async fn take_at(
        &self,
        host: &str,
        id: &SessionId,
        relocates: bool,
    ) -> io::Result<LetterReply> {
        if host == self.at.host {
            return Ok(self.take_here(id, relocates).await);
        }
        let have = Have {
            id: id.as_str().to_owned(),
            agent: None,
            relocates,
        };
        self.ask(host, TAKE, &have, TAKES).await
    }

    /// Takes sessions over, one after the other; the answer does not wait for that.
    fn inherit(self: &Arc<Self>, Inherit { ids }: Inherit) -> LetterReply {
        let Ok(turn) = self.inherits.clone().try_acquire_owned() else {
            return LetterReply::Not("too many sessions wait to be taken over here".to_owned());
        };
        let this = self.clone();
        tokio::spawn(async move {
            this.take_all(ids).await;
            drop(turn);
        });
        LetterReply::Done
    }

    /// Tells a host, or this one, which sessions it takes over. In vain, they are looked for again.
    pub(super) async fn bequeath(self: Arc<Self>, heir: String, ids: Vec<String>) {
        let most = self.fabric.most().min(ASKED) / 2;
        // Of one that is written with escapes, too.
        let size_of = |id: &String| id.len() * 6 + 3;
        let mut left = ids.into_iter().peekable();
        while left.peek().is_some() {
            let mut ids = Vec::new();
            let mut size = 0;
            while let Some(id) = left.next_if(|id| ids.is_empty() || size + size_of(id) <= most) {
                size += size_of(&id);
                ids.push(id);
            }
            let letter = Inherit { ids };
            let answer = if heir == self.at.host {
                Ok(self.inherit(letter))
            } else {
                self.ask(&heir, INHERIT, &letter, CONNECTS).await
            };
            if !matches!(answer, Ok(LetterReply::Done)) {
                tracing::debug!(
                    heir,
                    ?answer,
                    "sessions of a host that is gone are not taken over yet"
                );
                return;
            }
        }
    }

    /// Asks a host to drain.
    pub(super) async fn drain_at(&self, host: &str, deadline: Duration) -> io::Result<LetterReply> {
        let deadline_ms = u64::try_from(deadline.as_millis()).unwrap_or(u64::MAX);
        self.ask(host, DRAIN, &Drain { deadline_ms }, CONNECTS)
            .await
    }
}

fn topic(id: &str, side: char) -> String {
    format!("{TUNNEL}{id}.{side}")
}
