//! A store and a fabric within one process: for tests, which can break them as a network does.

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    fmt, io,
    sync::{Arc, Mutex},
    time::Duration,
};

use bytes::Bytes;
use futures_util::future::BoxFuture;
use tokio::{
    sync::{mpsc, oneshot, watch},
    time::timeout,
};

use crate::{
    fabric::{Address, Fabric, Letter, Reply, WAITING},
    lock,
    marks::Extent,
    store::{Change, NotKept, Space, Store, StoredMessage},
};

/// Number of messages per read.
const SLICE: usize = 16;

/// Limit of changes that wait for a watcher, which is cut off beyond it.
const CHANGES: usize = 4096;

/// Store and network that several hosts of one process share.
#[derive(Debug, Clone, Default)]
pub struct Memory(Arc<SharedMemory>);

#[derive(Default)]
struct SharedMemory {
    spaces: Mutex<HashMap<Space, Keys>>,
    inboxes: Mutex<HashMap<Address, mpsc::Sender<Letter>>>,
    cut: watch::Sender<HashSet<String>>,
    lost: Mutex<HashSet<String>>,
}

impl fmt::Debug for SharedMemory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Memory")
    }
}

#[derive(Debug, Default)]
struct Keys {
    /// Number of times that the space was lost.
    lost: u64,
    number: u64,
    keys: BTreeMap<String, Vec<StoredMessage>>,
    watchers: Vec<mpsc::Sender<Change>>,
}

impl Memory {
    /// The store and the fabric as one host has them.
    #[must_use]
    pub fn access_for(&self, host: &str) -> Access {
        Access {
            memory: self.clone(),
            host: host.to_owned(),
        }
    }

    /// Cuts a host off, as a network does: what it asks waits. `false` ends that.
    pub fn cut(&self, host: &str, is_cut: bool) {
        self.0.cut.send_modify(|cut| {
            if is_cut {
                cut.insert(host.to_owned())
            } else {
                cut.remove(host)
            };
        });
    }

    /// The answer to the next `put` of this host is lost.
    pub fn lose_answer(&self, host: &str) {
        lock(&self.0.lost).insert(host.to_owned());
    }

    /// Loses a whole space, as a server does whose disk is gone.
    pub fn lose(&self, space: Space) {
        if let Some(keys) = lock(&self.0.spaces).get_mut(&space) {
            *keys = Keys {
                lost: keys.lost + 1,
                ..Keys::default()
            };
        }
    }

    /// A copy of a space as it is now; see [`Memory::restore`].
    #[must_use]
    pub fn copy(&self, space: Space) -> Copy {
        let spaces = lock(&self.0.spaces);
        let (number, keys) = spaces
            .get(&space)
            .map(|keys| (keys.number, keys.keys.clone()))
            .unwrap_or_default();
        Copy {
            space,
            number,
            keys,
        }
    }

    /// Puts an older copy in the place of what a space has, as an operator does after a loss.
    pub fn restore(&self, copy: Copy) {
        let mut spaces = lock(&self.0.spaces);
        let keys = spaces.entry(copy.space).or_default();
        (keys.number, keys.keys) = (copy.number, copy.keys);
    }

    /// All that is kept under a key.
    #[must_use]
    pub fn all(&self, space: Space, key: &str) -> Vec<StoredMessage> {
        lock(&self.0.spaces)
            .get(&space)
            .and_then(|space| space.keys.get(key))
            .cloned()
            .unwrap_or_default()
    }

    fn put(&self, space: Space, key: &str, last: u64, bytes: Bytes) -> Result<u64, NotKept> {
        let mut spaces = lock(&self.0.spaces);
        let keys_of = spaces.entry(space).or_default();
        let there = keys_of.keys.entry(key.to_owned()).or_default();
        if there.last().map_or(0, |kept| kept.number) != last {
            return Err(NotKept::Other);
        }
        keys_of.number += 1;
        let kept = StoredMessage {
            number: keys_of.number,
            bytes,
        };
        if !space.keeps_all() {
            there.clear();
        }
        there.push(kept.clone());
        let change = Change {
            key: key.to_owned(),
            kept,
        };
        keys_of
            .watchers
            .retain(|changes| changes.try_send(change.clone()).is_ok());
        Ok(keys_of.number)
    }
}

/// Content of a space at one time.
#[derive(Debug)]
pub struct Copy {
    space: Space,
    number: u64,
    keys: BTreeMap<String, Vec<StoredMessage>>,
}

/// Access of a host to a [`Memory`].
#[derive(Debug, Clone)]
pub struct Access {
    memory: Memory,
    host: String,
}

impl Access {
    /// Waits while the host is cut off.
    async fn pass(&self) {
        let mut cut = self.memory.0.cut.subscribe();
        // Gone is not cut.
        let _ = cut.wait_for(|cut| !cut.contains(&self.host)).await;
    }

    fn is_cut(&self, host: &str) -> bool {
        self.memory.0.cut.borrow().contains(host)
    }
}

impl Store for Access {
    fn put(
        &self,
        space: Space,
        key: &str,
        last: u64,
        bytes: Bytes,
    ) -> BoxFuture<'static, Result<u64, NotKept>> {
        let this = self.clone();
        let key = key.to_owned();
        Box::pin(async move {
            this.pass().await;
            let put = this.memory.put(space, &key, last, bytes);
            if lock(&this.memory.0.lost).remove(&this.host) {
                return Err(NotKept::Unknown("the answer was lost".to_owned()));
            }
            put
        })
    }

    fn last(
        &self,
        space: Space,
        key: &str,
    ) -> BoxFuture<'static, Result<Option<StoredMessage>, String>> {
        let this = self.clone();
        let key = key.to_owned();
        Box::pin(async move {
            this.pass().await;
            Ok(this.memory.all(space, &key).pop())
        })
    }

    fn read(
        &self,
        space: Space,
        key: &str,
        behind: u64,
    ) -> BoxFuture<'static, Result<Vec<StoredMessage>, String>> {
        let this = self.clone();
        let key = key.to_owned();
        Box::pin(async move {
            this.pass().await;
            let all = this.memory.all(space, &key);
            Ok(all
                .into_iter()
                .filter(|kept| kept.number > behind)
                .take(SLICE)
                .collect())
        })
    }

    fn purge(&self, space: Space, session: &str) -> BoxFuture<'static, Result<(), String>> {
        let this = self.clone();
        let session = session.to_owned();
        Box::pin(async move {
            this.pass().await;
            let mut spaces = lock(&this.memory.0.spaces);
            let is_of = |key: &str| key.split('.').next() == Some(&session);
            spaces
                .entry(space)
                .or_default()
                .keys
                .retain(|key, _| !is_of(key));
            Ok(())
        })
    }

    fn list(&self, space: Space, prefix: &str) -> BoxFuture<'static, Result<Vec<Change>, String>> {
        let this = self.clone();
        let prefix = prefix.to_owned();
        Box::pin(async move {
            this.pass().await;
            let spaces = lock(&this.memory.0.spaces);
            let keys = spaces.get(&space).map(|space| &space.keys);
            let found = keys
                .into_iter()
                .flat_map(|keys| keys.range(prefix.clone()..));
            let last = |(key, kept): (&String, &Vec<StoredMessage>)| {
                let kept = kept.last().filter(|kept| !kept.bytes.is_empty())?.clone();
                Some(Change {
                    key: key.clone(),
                    kept,
                })
            };
            Ok(found
                .take_while(|(key, _)| key.starts_with(&prefix))
                .filter_map(last)
                .collect())
        })
    }

    fn watch(&self, space: Space) -> BoxFuture<'static, Result<mpsc::Receiver<Change>, String>> {
        let this = self.clone();
        Box::pin(async move {
            this.pass().await;
            let (changes, watched) = mpsc::channel(CHANGES);
            let mut spaces = lock(&this.memory.0.spaces);
            let keys_of = spaces.entry(space).or_default();
            for (key, kept) in &keys_of.keys {
                if let Some(kept) = kept.last() {
                    // There is room in a new one.
                    let _ = changes.try_send(Change {
                        key: key.clone(),
                        kept: kept.clone(),
                    });
                }
            }
            keys_of.watchers.push(changes);
            drop(spaces);
            let (passed, watching) = mpsc::channel(CHANGES);
            let mut watched = watched;
            tokio::spawn(async move {
                while let Some(change) = watched.recv().await {
                    this.pass().await;
                    if passed.send(change).await.is_err() {
                        return;
                    }
                }
            });
            Ok(watching)
        })
    }

    fn extent(&self, space: Space) -> BoxFuture<'static, Result<Option<Extent>, String>> {
        let this = self.clone();
        Box::pin(async move {
            this.pass().await;
            let spaces = lock(&this.memory.0.spaces);
            let extent = |keys: &Keys| Extent {
                made: keys.lost.to_string(),
                last: keys.number,
            };
            Ok(Some(
                spaces
                    .get(&space)
                    .map_or_else(|| extent(&Keys::default()), extent),
            ))
        })
    }

    fn most(&self) -> usize {
        1024
    }
}

impl Fabric for Access {
    fn listen(&self, at: &Address) -> BoxFuture<'static, io::Result<mpsc::Receiver<Letter>>> {
        let (letters, inbox) = mpsc::channel(WAITING);
        lock(&self.memory.0.inboxes).insert(at.clone(), letters);
        Box::pin(async move { Ok(inbox) })
    }

    fn send(
        &self,
        to: &Address,
        topic: &str,
        payload: Bytes,
    ) -> BoxFuture<'static, io::Result<()>> {
        let inbox = lock(&self.memory.0.inboxes).get(to).cloned();
        let is_lost = self.is_cut(&self.host) || self.is_cut(&to.host);
        let letter = Letter {
            topic: topic.to_owned(),
            payload,
            reply: None,
        };
        Box::pin(async move {
            if let Some(inbox) = inbox.filter(|_| !is_lost) {
                // One that is full loses it, as a network does.
                let _ = inbox.try_send(letter);
            }
            Ok(())
        })
    }

    fn request(
        &self,
        to: &Address,
        topic: &str,
        payload: Bytes,
        within: Duration,
    ) -> BoxFuture<'static, io::Result<Bytes>> {
        let inbox = lock(&self.memory.0.inboxes).get(to).cloned();
        let is_lost = self.is_cut(&self.host) || self.is_cut(&to.host);
        let topic = topic.to_owned();
        Box::pin(async move {
            let Some(inbox) = inbox else {
                return Err(io::ErrorKind::NotConnected.into());
            };
            let (answer, answered) = oneshot::channel();
            let reply = Reply::new(move |bytes| drop(answer.send(bytes)));
            let letter = Letter {
                topic,
                payload,
                reply: Some(reply),
            };
            let is_sent = !is_lost && inbox.try_send(letter).is_ok();
            let answered = timeout(within, async move {
                if is_sent {
                    answered
                        .await
                        .map_err(|_| io::ErrorKind::ConnectionReset.into())
                } else {
                    std::future::pending().await
                }
            });
            answered
                .await
                .unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))
        })
    }

    fn most(&self) -> usize {
        1024
    }
}
