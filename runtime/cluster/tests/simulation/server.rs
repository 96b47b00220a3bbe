//! A server with the latencies of a real one: a store in memory behind a queue.

use std::{
    cell::{Cell, RefCell},
    time::Duration,
};

use bytes::Bytes;
use futures_util::FutureExt;
use trunkline_cluster::{
    memory::{Access, Memory},
    nats,
    store::{Change, NotKept, Space, Store, StoredMessage},
};
use trunkline_process::BootInstant;

use super::clock::Clock;

/// Time of each operation of the server. Operations run one after the other.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Costs {
    /// From a host to the server, and back.
    pub(crate) way: Duration,
    pub(crate) put: Duration,
    /// The last one of a key, or a slice of a journal.
    pub(crate) last: Duration,
    /// A list, and each row of it.
    pub(crate) list: Duration,
    pub(crate) listed: Duration,
    /// A renewal, for each host that it goes to.
    pub(crate) out: Duration,
}

/// Times on one core of a server of version 2.15, by `rates` and `watchers` of the benchmark; the
/// network latency is a guess, for machines of one site.
pub(crate) const MEASURED: Costs = Costs {
    way: Duration::from_micros(250),
    put: Duration::from_micros(30),
    last: Duration::from_micros(75),
    list: Duration::from_micros(500),
    listed: Duration::from_micros(50),
    out: Duration::from_micros(13),
};

/// Timeout of a reply.
const ANSWER: Duration = Duration::from_secs(5);

/// Work of the server in one second.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Done {
    pub(crate) puts: u64,
    /// Number of these that were too late.
    pub(crate) in_vain: u64,
    /// Number of requests without a reply in time.
    pub(crate) too_late: u64,
    pub(crate) lasts: u64,
    pub(crate) lists: u64,
    pub(crate) listed: u64,
    pub(crate) out: u64,
    pub(crate) bytes_out: u64,
}

impl Done {
    pub(crate) fn with(self, other: &Self) -> Self {
        Self {
            puts: self.puts + other.puts,
            in_vain: self.in_vain + other.in_vain,
            too_late: self.too_late + other.too_late,
            lasts: self.lasts + other.lasts,
            lists: self.lists + other.lists,
            listed: self.listed + other.listed,
            out: self.out + other.out,
            bytes_out: self.bytes_out + other.bytes_out,
        }
    }

    /// Returns the number of requests.
    pub(crate) fn asked(&self) -> u64 {
        self.puts + self.lasts + self.lists + self.too_late
    }
}

pub(crate) struct Server {
    clock: Clock,
    store: Access,
    costs: Costs,
    /// When it has done what it was asked so far.
    free: Cell<BootInstant>,
    /// From when until when it is away.
    away: Cell<Option<(BootInstant, BootInstant)>>,
    /// For each second.
    pub(crate) done: RefCell<Vec<Done>>,
    /// The longest that anything had to wait.
    pub(crate) longest: Cell<Duration>,
}

/// A store in memory answers at once.
fn at_once<T>(answer: impl Future<Output = T>) -> T {
    answer.now_or_never().unwrap()
}

impl Server {
    pub(crate) fn new(clock: &Clock, costs: Costs) -> Self {
        Self {
            clock: clock.clone(),
            store: Memory::default().access_for("server"),
            costs,
            free: Cell::new(clock.now()),
            away: Cell::new(None),
            done: RefCell::default(),
            longest: Cell::default(),
        }
    }

    /// Makes it unavailable for a while.
    pub(crate) fn leave(&self, time: Duration) {
        self.away
            .set(Some((self.clock.now(), self.clock.now() + time)));
    }

    pub(crate) fn count(&self, count: impl FnOnce(&mut Done)) {
        let mut done = self.done.borrow_mut();
        let second = (self.clock.now().as_nanos() / 1_000_000_000) as usize;
        if done.len() <= second {
            done.resize(second + 1, Done::default());
        }
        count(&mut done[second]);
    }

    /// When a host is connected again that was cut off with all others.
    pub(crate) fn back(&self, host: &str) -> BootInstant {
        let Some((mut at, back)) = self.away.get() else {
            return self.clock.now();
        };
        for attempt in 1.. {
            if at >= back {
                break;
            }
            at = at + nats::again(host, attempt);
        }
        at
    }

    /// Waits until the server has done what takes so long; `false` where there is no answer.
    async fn work(&self, host: &str, takes: Duration) -> bool {
        let back = self.back(host);
        if back > self.clock.now() + ANSWER {
            self.clock.sleep(ANSWER).await;
            return false;
        }
        let arrives = back.max(self.clock.now()) + self.costs.way;
        let done = self.free.get().max(arrives) + takes;
        self.free.set(done);
        self.longest.set(
            self.longest
                .get()
                .max(done.saturating_duration_since(arrives)),
        );
        if done > self.clock.now() + ANSWER {
            // It does the work nevertheless, in vain.
            self.count(|done| done.too_late += 1);
            self.clock.sleep(ANSWER).await;
            return false;
        }
        self.clock.until(done).await;
        true
    }

    async fn answers<T>(&self, answer: T) -> T {
        self.clock.sleep(self.costs.way).await;
        answer
    }

    pub(crate) async fn put(
        &self,
        host: &str,
        space: Space,
        key: &str,
        last: u64,
        bytes: Bytes,
    ) -> Result<u64, NotKept> {
        if !self.work(host, self.costs.put).await {
            return Err(NotKept::Unknown("it is away".to_owned()));
        }
        let put = at_once(self.store.put(space, key, last, bytes));
        self.count(|done| {
            done.puts += 1;
            done.in_vain += u64::from(put.is_err());
        });
        self.answers(put).await
    }

    pub(crate) async fn last(
        &self,
        host: &str,
        space: Space,
        key: &str,
    ) -> Result<Option<StoredMessage>, String> {
        if !self.work(host, self.costs.last).await {
            return Err("it is away".to_owned());
        }
        let last = at_once(self.store.last(space, key));
        self.count(|done| done.lasts += 1);
        self.answers(last).await
    }

    pub(crate) async fn read(
        &self,
        host: &str,
        space: Space,
        key: &str,
        behind: u64,
    ) -> Result<Vec<StoredMessage>, String> {
        if !self.work(host, self.costs.last).await {
            return Err("it is away".to_owned());
        }
        let read = at_once(self.store.read(space, key, behind));
        self.count(|done| done.lasts += 1);
        self.answers(read).await
    }

    pub(crate) async fn list(
        &self,
        host: &str,
        space: Space,
        prefix: &str,
    ) -> Result<Vec<Change>, String> {
        let rows = at_once(self.store.list(space, prefix))?;
        if !self
            .work(
                host,
                self.costs.list + self.costs.listed * rows.len() as u32,
            )
            .await
        {
            return Err("it is away".to_owned());
        }
        self.count(|done| {
            done.lists += 1;
            done.listed += rows.len() as u64;
        });
        self.answers(Ok(rows)).await
    }

    /// Stores a message before time begins.
    pub(crate) fn fill(&self, space: Space, key: &str, bytes: Bytes) -> u64 {
        at_once(self.store.put(space, key, 0, bytes)).unwrap()
    }

    /// When a renewal of so many bytes is with each host that it goes to.
    pub(crate) fn send(&self, hosts: u32, bytes: u64) -> impl Iterator<Item = BootInstant> + use<> {
        let begun = self.free.get().max(self.clock.now());
        let Costs { out, way, .. } = self.costs;
        self.free.set(begun + out * hosts);
        self.count(|done| {
            done.out += u64::from(hosts);
            done.bytes_out += bytes * u64::from(hosts);
        });
        (1..=hosts).map(move |number| begun + out * number + way)
    }
}
