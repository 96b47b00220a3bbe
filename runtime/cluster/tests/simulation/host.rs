//! A host of the simulation. What it decides, and how often, is the program's; that it asks a
//! server for each step, and in which order, is as in `src/node/`.

use std::{
    cell::{Cell, RefCell},
    collections::{BTreeMap, HashSet},
    rc::Rc,
    task::{Poll, Waker},
    time::Duration,
};

use bytes::Bytes;
use futures_util::{
    StreamExt,
    future::{Either, select},
    stream,
};
use tokio::sync::Semaphore;
use trunkline_cluster::{
    lease::{Held, Terms, Watch},
    node::{AGAIN, AGAIN_MOST, AT_ONCE, LOOK},
    ownership::{self, HostFacts, Me, TakeRefusal},
    placement::{finder, jitter, shares},
    row::{HostRow, OwnershipState, Row, SessionRow},
    store::{Space, key_of},
    wire,
};
use trunkline_process::BootInstant;

use super::{World, rows};

/// Delay before the next attempt after a renewal that was not acknowledged.
const RENEWS_AGAIN: Duration = Duration::from_millis(100);

/// A host's row as another one saw it.
#[derive(Clone)]
struct Seen {
    row: Rc<HostRow>,
    number: u64,
}

pub(crate) struct Host {
    pub(crate) number: usize,
    world: Rc<World>,
    me: Me,
    terms: Terms,
    held: Cell<Held>,
    hosts: RefCell<BTreeMap<String, Seen>>,
    watch: RefCell<Watch>,
    /// The sessions that it serves, by their numbers.
    pub(crate) serves: RefCell<HashSet<u32>>,
    /// Time since which it is cut off; it serves its sessions until its lease has run out.
    pub(crate) cut: Cell<Option<BootInstant>>,
    changed: Cell<bool>,
    waits: Cell<Option<Waker>>,
    /// Sessions that it may take at the same time.
    takes: Semaphore,
}

impl Host {
    pub(crate) fn new(world: &Rc<World>, number: usize) -> Rc<Self> {
        let terms = world.scale.terms();
        Rc::new(Self {
            number,
            world: world.clone(),
            me: rows::me(&rows::name(number)),
            terms,
            held: Cell::new(Held::new(terms)),
            hosts: RefCell::default(),
            watch: RefCell::new(Watch::new(terms)),
            serves: RefCell::default(),
            cut: Cell::default(),
            changed: Cell::default(),
            waits: Cell::default(),
            takes: Semaphore::new(AT_ONCE),
        })
    }

    pub(crate) fn may_act(&self) -> bool {
        self.held.get().is_good(self.world.clock.now())
    }

    /// Starts its tasks, which run while it is connected.
    pub(crate) fn start(self: &Rc<Self>) {
        self.world.clock.spawn(self.clone().renew());
        self.world.clock.spawn(self.clone().take_over());
    }

    fn row(&self, beat: u64) -> HostRow {
        let sessions = self.serves.borrow().len() as u64;
        HostRow {
            beat,
            sessions,
            ..rows::host(&self.me, self.terms.ttl)
        }
    }

    async fn renew(self: Rc<Self>) {
        let server = &self.world.server;
        let clock = &self.world.clock;
        // All have begun at some moment.
        clock.sleep(self.world.chance(self.terms.every())).await;
        let mut beat = 0;
        let mut number = 0;
        loop {
            beat += 1;
            let row = self.row(beat);
            let sent = clock.now();
            match server
                .put(
                    &self.me.host,
                    Space::Hosts,
                    &self.me.host,
                    number,
                    row.to_bytes(),
                )
                .await
            {
                Ok(kept) => {
                    number = kept;
                    let was_lost = beat > 1 && !self.may_act();
                    let mut held = self.held.get();
                    held.renewed(sent);
                    self.held.set(held);
                    self.world.published(Rc::new(row), number);
                    if was_lost {
                        clock.spawn(self.clone().take_own());
                    }
                    clock.spawn(self.clone().guard(held.until()));
                    clock.sleep(self.terms.every()).await;
                }
                // It was ended, and another tenure begins; the program looks first, which is one
                // question more.
                Err(_) => {
                    if let Ok(Some(last)) = server
                        .last(&self.me.host, Space::Hosts, &self.me.host)
                        .await
                    {
                        number = last.number;
                    }
                    clock
                        .sleep(RENEWS_AGAIN + jitter(&self.me.host, beat, RENEWS_AGAIN))
                        .await;
                }
            }
            if self.cut.get().is_some() {
                return;
            }
        }
    }

    /// Stops serving when its lease has run out.
    async fn guard(self: Rc<Self>, until: Option<BootInstant>) {
        let Some(until) = until else { return };
        self.world.clock.until(until).await;
        if !self.may_act() {
            self.serves.borrow_mut().clear();
        }
    }

    /// A renewal of a host comes in.
    pub(crate) fn saw(&self, row: &Rc<HostRow>, number: u64) {
        let now = self.world.clock.now();
        let mut hosts = self.hosts.borrow_mut();
        if hosts
            .get(&row.host)
            .is_some_and(|seen| seen.number > number)
        {
            return;
        }
        let mut watch = self.watch.borrow_mut();
        if row.host == self.me.host && !row.is_over {
            watch.heard_own(now);
        }
        watch.saw(&row.host, number, self.terms, now);
        match hosts.get_mut(&row.host) {
            Some(seen) => {
                *seen = Seen {
                    row: row.clone(),
                    number,
                }
            }
            None => drop(hosts.insert(
                row.host.clone(),
                Seen {
                    row: row.clone(),
                    number,
                },
            )),
        }
    }

    /// A host is forgotten of which nothing is left.
    pub(crate) fn forget(&self, host: &str) {
        self.hosts.borrow_mut().remove(host);
        self.watch.borrow_mut().forget(host);
    }

    /// Something has changed that may be of use.
    pub(crate) fn wake(&self) {
        self.changed.set(true);
        if let Some(waits) = self.waits.take() {
            waits.wake();
        }
    }

    async fn change(&self) {
        let woken = std::future::poll_fn(|context| {
            if self.changed.take() {
                Poll::Ready(())
            } else {
                self.waits.set(Some(context.waker().clone()));
                Poll::Pending
            }
        });
        match select(woken, self.world.clock.sleep(LOOK)).await {
            Either::Left(_) | Either::Right(_) => {}
        }
    }

    fn alive(&self) -> Vec<Rc<HostRow>> {
        let watch = self.watch.borrow();
        let now = self.world.clock.now();
        let is_silent = |host: &str| host != self.me.host && watch.is_gone(host, now);
        let hosts = self.hosts.borrow();
        let rows = hosts.values().map(|seen| &seen.row);
        rows.filter(|row| !row.is_over && !is_silent(&row.host))
            .cloned()
            .collect()
    }

    /// The hosts that are gone, of all or of those that may be.
    fn gone(&self, of_all: bool) -> Vec<String> {
        let watch = self.watch.borrow();
        let now = self.world.clock.now();
        let hosts = self.hosts.borrow();
        let is_gone = |seen: &&Seen| seen.row.is_over || watch.is_gone(&seen.row.host, now);
        let name = |seen: &Seen| seen.row.host.clone();
        if of_all {
            return hosts.values().filter(is_gone).map(name).collect();
        }
        self.world
            .cut
            .borrow()
            .iter()
            .filter_map(|host| hosts.get(host))
            .filter(is_gone)
            .map(name)
            .collect()
    }

    async fn take_over(self: Rc<Self>) {
        let mut looks = BTreeMap::<String, (BootInstant, Duration)>::new();
        let mut turns = 0_usize;
        while self.cut.get().is_none() {
            self.change().await;
            // The program looks at all hosts each time. Here as many of a large world are looked at
            // as of a small one.
            turns += 1;
            let of_all = turns.is_multiple_of(self.world.scale.hosts.div_ceil(50).pow(2));
            if !self.may_act() {
                continue;
            }
            for host in self.gone(of_all) {
                let look = looks.get(&host).copied();
                let is_due = look.is_none_or(|(at, wait)| self.world.clock.since(at) >= wait);
                let is_finder = || {
                    let alive = self.alive();
                    finder(&host, alive.iter().map(|host| &**host)) == Some(&*self.me.host)
                };
                if !is_due || !is_finder() || !self.end_lease(&host).await {
                    continue;
                }
                let wait = look.map_or(AGAIN, |(_, wait)| AGAIN_MOST.min(wait * 2));
                looks.insert(host.clone(), (self.world.clock.now(), wait));
                self.find(&host).await;
            }
        }
    }

    async fn end_lease(&self, host: &str) -> bool {
        let seen = self.hosts.borrow().get(host).cloned();
        let Some(seen) = seen else { return false };
        if seen.row.is_over {
            return true;
        }
        let is_silent = self.watch.borrow().is_gone(host, self.world.clock.now());
        if !self.may_act() || host == self.me.host {
            return false;
        }
        if !is_silent {
            return self.is_over(host).await;
        }
        let over = HostRow {
            is_over: true,
            ..(*seen.row).clone()
        };
        let put = self.world.server.put(
            &self.me.host,
            Space::Hosts,
            host,
            seen.number,
            over.to_bytes(),
        );
        let Ok(number) = put.await else {
            return self.is_over(host).await;
        };
        self.world.ended(host);
        self.saw(&Rc::new(over.clone()), number);
        self.world.published(Rc::new(over), number);
        true
    }

    /// Another host has ended it, and the news of that is on its way.
    async fn is_over(&self, host: &str) -> bool {
        let last = self
            .world
            .server
            .last(&self.me.host, Space::Hosts, host)
            .await;
        let Ok(Some(kept)) = last else { return false };
        let Some(row) = HostRow::parse(&kept.bytes) else {
            return false;
        };
        let is_over = row.is_over;
        if is_over {
            self.saw(&Rc::new(row), kept.number);
        }
        is_over
    }

    async fn rows_of(&self, host: &str) -> Vec<SessionRow> {
        let server = &self.world.server;
        let prefix = SessionRow::index(host, "");
        let Ok(found) = server.list(&self.me.host, Space::Sessions, &prefix).await else {
            return Vec::new();
        };
        let rows = stream::iter(found).map(|change| {
            let key = change.key[prefix.len()..].to_owned();
            async move {
                let kept = server
                    .last(&self.me.host, Space::Sessions, &key)
                    .await
                    .ok()
                    .flatten();
                let row = kept.and_then(|kept| SessionRow::parse(&kept.bytes));
                if row
                    .as_ref()
                    .is_none_or(|row| row.host != host || row.state == OwnershipState::Removed)
                {
                    self.forget_session(host, &key).await;
                    return None;
                }
                row
            }
        });
        rows.buffer_unordered(AT_ONCE)
            .filter_map(std::future::ready)
            .collect()
            .await
    }

    async fn forget_session(&self, host: &str, key: &str) {
        let server = &self.world.server;
        let index = SessionRow::index(host, key);
        if let Ok(Some(kept)) = server.last(&self.me.host, Space::Sessions, &index).await
            && !kept.bytes.is_empty()
        {
            let _ = server
                .put(
                    &self.me.host,
                    Space::Sessions,
                    &index,
                    kept.number,
                    Bytes::new(),
                )
                .await;
        }
    }

    /// Finds the sessions of a host that is gone, and assigns them to their successors.
    async fn find(&self, host: &str) {
        let rows = self.rows_of(host).await;
        if rows.is_empty() {
            let number = self.hosts.borrow().get(host).map(|seen| seen.number);
            if let Some(number) = number {
                let put =
                    self.world
                        .server
                        .put(&self.me.host, Space::Hosts, host, number, Bytes::new());
                if put.await.is_ok() {
                    self.world.forgotten(host);
                }
            }
            return;
        }
        for (heir, ids) in shares(rows, &self.alive()) {
            if let Some(heir) = self.world.connected(&heir) {
                self.world
                    .clock
                    .spawn(async move { heir.take_all(ids).await });
            }
        }
    }

    async fn take_all(&self, ids: Vec<String>) {
        let taken = stream::iter(ids).map(|id| async move {
            let Ok(_turn) = self.takes.acquire().await else {
                return;
            };
            if !self.serves.borrow().contains(&self.world.number_of(&id)) {
                drop(self.take(&id).await);
            }
        });
        taken.buffer_unordered(AT_ONCE).collect().await
    }

    /// Takes its own sessions again.
    async fn take_own(self: Rc<Self>) {
        let rows = self.rows_of(&self.me.host).await;
        self.take_all(rows.into_iter().map(|row| row.id).collect())
            .await;
    }

    async fn take(&self, id: &str) -> Result<(), String> {
        let server = &self.world.server;
        let me = &*self.me.host;
        let key = key_of(id);
        let number = self.world.number_of(id);
        loop {
            if !self.may_act() {
                return Err("this host has lost its lease".to_owned());
            }
            let kept = server
                .last(me, Space::Sessions, &key)
                .await?
                .ok_or("there is none")?;
            let row = SessionRow::parse(&kept.bytes).ok_or("there is none")?;
            let last = server.last(me, Space::Journal, &key).await?;
            let last_epoch = last
                .and_then(|kept| Some(wire::head(&kept.bytes).ok()?.0.epoch))
                .unwrap_or(0);
            let serves = self.serves.borrow().contains(&number);
            let known = HostFacts {
                last_epoch,
                relocates: false,
                serves,
            };
            let is_gone = row.host != me && self.end_lease(&row.host).await;
            let taken = match ownership::taken(&row, &self.me, known, |_| is_gone) {
                Ok(taken) => taken,
                Err(TakeRefusal::Own) => return Ok(()),
                Err(why) => return Err(format!("{why:?}")),
            };
            self.note_own(&key).await;
            if server
                .put(me, Space::Sessions, &key, kept.number, taken.to_bytes())
                .await
                .is_err()
            {
                continue;
            }
            if row.host != me {
                self.forget_session(&row.host, &key).await;
            }
            // What happened so far is copied, and the first entry of the new epoch is kept behind it.
            let mut last = 0;
            while let Some(kept) = server.read(me, Space::Journal, &key, last).await?.last() {
                last = kept.number;
            }
            let first = rows::message(id, taken.epoch);
            if server
                .put(me, Space::Journal, &key, last, first)
                .await
                .is_ok()
            {
                self.world.serves(self, number);
                return Ok(());
            }
        }
    }

    async fn note_own(&self, key: &str) {
        let server = &self.world.server;
        let index = SessionRow::index(&self.me.host, key);
        if server
            .put(&self.me.host, Space::Sessions, &index, 0, "1".into())
            .await
            .is_ok()
        {
            return;
        }
        let last = server
            .last(&self.me.host, Space::Sessions, &index)
            .await
            .ok()
            .flatten();
        if let Some(last) = last.filter(|last| last.bytes.is_empty()) {
            let _ = server
                .put(
                    &self.me.host,
                    Space::Sessions,
                    &index,
                    last.number,
                    "1".into(),
                )
                .await;
        }
    }
}
