//! A large cluster with a clock that is made up: hosts decide by the program's own functions, the
//! server and the network are a model of their times.

pub(crate) mod clock;
pub(crate) mod host;
pub(crate) mod rows;
pub(crate) mod server;

use std::{
    cell::{Cell, RefCell},
    collections::{BTreeMap, BTreeSet, HashMap},
    rc::Rc,
    time::Duration,
};

use trunkline_cluster::{
    lease::Terms,
    placement::{Needs, candidates},
    row::{HostRow, Row, SessionRow},
    store::{Space, key_of},
};
use trunkline_process::BootInstant;

use self::{
    clock::Clock,
    host::Host,
    server::{Done, MEASURED, Server},
};

/// Bytes of a delivered renewal besides its row: subjects and headers, as measured.
const AROUND: u64 = 180;

/// Size of the simulation, and the seed of its random numbers.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Scale {
    pub(crate) hosts: usize,
    pub(crate) sessions: usize,
    pub(crate) seed: u64,
    pub(crate) ttl: Duration,
}

impl Scale {
    pub(crate) fn terms(&self) -> Terms {
        Terms { ttl: self.ttl }
    }
}

pub(crate) struct World {
    pub(crate) scale: Scale,
    pub(crate) clock: Clock,
    pub(crate) server: Server,
    hosts: RefCell<Vec<Rc<Host>>>,
    /// Current or last host of each session.
    owners: RefCell<Vec<usize>>,
    numbers: HashMap<String, u32>,
    random: Cell<u64>,
    /// When sessions came to a host.
    taken: RefCell<Vec<(u32, BootInstant)>>,
    /// When leases were ended by others.
    ended: RefCell<BTreeMap<String, BootInstant>>,
    /// Number of times that a host began to serve a session that another one still served.
    twice: Cell<u64>,
    /// The hosts that others may find gone, in order.
    pub(crate) cut: RefCell<Vec<String>>,
}

/// The next of a row of numbers that look like chance: SplitMix64.
fn next(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mixed = (*state ^ (*state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

impl World {
    /// Hosts that hold their leases, each with its part of the sessions.
    fn begin(scale: Scale) -> Rc<Self> {
        let clock = Clock::default();
        let server = Server::new(&clock, MEASURED);
        let mut numbers = HashMap::new();
        for number in 0..scale.sessions {
            let row = rows::opened(number as u64, number % scale.hosts);
            let key = key_of(&row.id);
            server.fill(
                Space::Sessions,
                &SessionRow::index(&row.host, &key),
                "1".into(),
            );
            server.fill(Space::Sessions, &key, row.to_bytes());
            server.fill(Space::Journal, &key, rows::message(&row.id, 1));
            numbers.insert(row.id, number as u32);
        }
        let world = Rc::new(Self {
            scale,
            clock,
            server,
            hosts: RefCell::default(),
            owners: RefCell::new(
                (0..scale.sessions)
                    .map(|number| number % scale.hosts)
                    .collect(),
            ),
            numbers,
            random: Cell::new(scale.seed),
            taken: RefCell::default(),
            ended: RefCell::default(),
            twice: Cell::default(),
            cut: RefCell::default(),
        });
        let hosts: Vec<_> = (0..scale.hosts)
            .map(|number| Host::new(&world, number))
            .collect();
        for (number, owner) in world.owners.borrow().iter().enumerate() {
            hosts[*owner].serves.borrow_mut().insert(number as u32);
        }
        hosts.iter().for_each(Host::start);
        *world.hosts.borrow_mut() = hosts;
        // All have renewed twice.
        world.run_for(scale.terms().every() * 2);
        world
    }

    /// A part of a time, by chance.
    pub(crate) fn chance(&self, most: Duration) -> Duration {
        let mut state = self.random.get();
        let drawn = next(&mut state);
        self.random.set(state);
        most.mul_f64((drawn >> 11) as f64 / (1_u64 << 53) as f64)
    }

    fn run_for(&self, time: Duration) {
        let until = self.clock.now() + time;
        self.clock.run(|| self.clock.now() >= until);
    }

    pub(crate) fn number_of(&self, id: &str) -> u32 {
        self.numbers[id]
    }

    /// The host of this name, if letters reach it.
    pub(crate) fn connected(&self, name: &str) -> Option<Rc<Host>> {
        let hosts = self.hosts.borrow();
        hosts
            .iter()
            .find(|host| rows::name(host.number) == name && host.cut.get().is_none())
            .cloned()
    }

    /// A host's row was written, and goes out to all.
    pub(crate) fn published(self: &Rc<Self>, row: Rc<HostRow>, number: u64) {
        let world = self.clone();
        let bytes = row.to_bytes().len() as u64 + AROUND;
        let is_over = row.is_over;
        let hosts: Vec<_> = self
            .hosts
            .borrow()
            .iter()
            .filter(|host| host.cut.get().is_none())
            .cloned()
            .collect();
        let at = self.server.send(hosts.len() as u32, bytes);
        self.clock.spawn(async move {
            for (host, at) in hosts.into_iter().zip(at) {
                world
                    .clock
                    .until(at.max(world.server.back(&rows::name(host.number))))
                    .await;
                host.saw(&row, number);
                // A look changes nothing while all renew; each looks now and then all the same.
                if is_over || !world.cut.borrow().is_empty() {
                    host.wake();
                }
            }
        });
    }

    pub(crate) fn ended(&self, host: &str) {
        self.ended
            .borrow_mut()
            .entry(host.to_owned())
            .or_insert(self.clock.now());
    }

    pub(crate) fn forgotten(&self, name: &str) {
        self.hosts
            .borrow()
            .iter()
            .for_each(|host| host.forget(name));
    }

    /// A host serves a session from now on.
    pub(crate) fn serves(&self, host: &Host, session: u32) {
        let mut owners = self.owners.borrow_mut();
        let owner = &mut owners[session as usize];
        let before = self.hosts.borrow()[*owner].clone();
        if before.number != host.number {
            let was_served = before.serves.borrow_mut().remove(&session);
            self.twice
                .set(self.twice.get() + u64::from(was_served && before.may_act()));
        }
        *owner = host.number;
        host.serves.borrow_mut().insert(session);
        self.taken.borrow_mut().push((session, self.clock.now()));
    }

    /// Returns the number of sessions without a connected host that may act.
    fn unserved(&self) -> usize {
        let hosts = self.hosts.borrow();
        let serves = |host: &&Rc<Host>| host.cut.get().is_none() && host.may_act();
        self.scale.sessions
            - hosts
                .iter()
                .filter(serves)
                .map(|host| host.serves.borrow().len())
                .sum::<usize>()
    }
}

/// Counts, in ascending order.
#[derive(Debug)]
pub(crate) struct Spread {
    pub(crate) least: f64,
    pub(crate) median: f64,
    pub(crate) most: f64,
    /// The standard deviation, as a part of the mean.
    pub(crate) deviation: f64,
}

impl Spread {
    pub(crate) fn from_values(mut values: Vec<f64>) -> Self {
        values.sort_by(f64::total_cmp);
        let mean = values.iter().sum::<f64>() / values.len() as f64;
        let variance = values
            .iter()
            .map(|value| (value - mean).powi(2))
            .sum::<f64>()
            / values.len() as f64;
        Self {
            least: values[0],
            median: values[values.len() / 2],
            most: values[values.len() - 1],
            deviation: variance.sqrt() / mean,
        }
    }
}

/// Opens this many sessions a second on hosts that know each other's load from the last renewals,
/// and returns the sessions of each host. `None`: the hosts know the present load.
pub(crate) fn spread(scale: Scale, a_second: Option<f64>) -> Spread {
    let mut known: Vec<_> = (0..scale.hosts)
        .map(|number| rows::host(&rows::me(&rows::name(number)), scale.ttl))
        .collect();
    let mut loads = vec![0; scale.hosts];
    let between = scale.terms().every().as_secs_f64() / scale.hosts as f64;
    let mut renewals = 0;
    for number in 0..scale.sessions {
        let now = a_second.map(|a_second| number as f64 / a_second);
        while now.is_some_and(|now| renewals as f64 * between <= now) {
            known[renewals % scale.hosts].sessions = loads[renewals % scale.hosts];
            renewals += 1;
        }
        let id = rows::session(number as u64 ^ scale.seed << 32);
        let chosen: usize = candidates(&id, &Needs::default(), &known)[0].host[5..]
            .parse()
            .unwrap();
        loads[chosen] += 1;
        if now.is_none() {
            known[chosen].sessions += 1;
        }
    }
    Spread::from_values(loads.into_iter().map(|load| load as f64).collect())
}

/// Returns the cost of renewals: the server's work in ten idle seconds.
pub(crate) fn traffic(scale: Scale) -> Done {
    let world = World::begin(Scale {
        sessions: 0,
        ..scale
    });
    world.run_for(Duration::from_secs(20));
    let done = world.server.done.borrow();
    let from = done.len() - 12;
    done[from..from + 10]
        .iter()
        .fold(Done::default(), |sum, second| sum.with(second))
}

/// Outcome for the sessions of hosts that died.
#[derive(Debug)]
pub(crate) struct Healed {
    pub(crate) sessions: usize,
    /// From a host's death until each of its sessions had an owner, and from the end of its lease;
    /// in seconds.
    pub(crate) after: Spread,
    pub(crate) after_lease: Spread,
    /// Number of sessions that survivors took.
    pub(crate) shares: Spread,
    pub(crate) twice: u64,
    pub(crate) unserved: usize,
    pub(crate) server: Load,
}

/// Work of the server meanwhile.
#[derive(Debug)]
pub(crate) struct Load {
    /// In each second.
    pub(crate) seconds: Vec<Done>,
    /// The longest that something waited for its turn.
    pub(crate) longest: Duration,
}

impl Load {
    pub(crate) fn sum(&self) -> Done {
        self.seconds
            .iter()
            .fold(Done::default(), |sum, second| sum.with(second))
    }
}

impl World {
    /// Ends the simulation and returns the server's work.
    fn end(&self, since: BootInstant) -> Load {
        self.clock.end();
        let seconds = self
            .server
            .done
            .borrow()
            .iter()
            .skip((since.as_nanos() / 1_000_000_000) as usize)
            .copied()
            .collect();
        Load {
            seconds,
            longest: self.server.longest.get(),
        }
    }
}

/// Cuts off a tenth of the hosts at once: others receive nothing from them, and they serve until
/// their lease has run out.
pub(crate) fn deaths(scale: Scale, within: Duration) -> Healed {
    let world = World::begin(scale);
    let begun = world.clock.now();
    let mut state = scale.seed;
    let mut cut = BTreeSet::new();
    while cut.len() < scale.hosts.div_ceil(10) {
        cut.insert(next(&mut state) as usize % scale.hosts);
    }
    cut.iter()
        .for_each(|host| world.hosts.borrow()[*host].cut.set(Some(begun)));
    *world.cut.borrow_mut() = cut.into_iter().map(rows::name).collect();
    let of_gone: Vec<(u32, String)> = world
        .hosts
        .borrow()
        .iter()
        .filter(|host| host.cut.get().is_some())
        .flat_map(|host| {
            host.serves
                .borrow()
                .iter()
                .map(|session| (*session, rows::name(host.number)))
                .collect::<Vec<_>>()
        })
        .collect();
    let names: HashMap<_, _> = of_gone.into_iter().collect();
    let late = begun + within;
    world
        .clock
        .run(|| world.taken.borrow().len() >= names.len() || world.clock.now() > late);
    // Nothing is taken twice afterwards, either.
    world.run_for(AFTERWARDS);
    let taken = world.taken.borrow();
    let seconds =
        |from: BootInstant, at: BootInstant| at.saturating_duration_since(from).as_secs_f64();
    let mut shares = vec![0.0; scale.hosts];
    taken
        .iter()
        .for_each(|(session, _)| shares[world.owners.borrow()[*session as usize]] += 1.0);
    let survivors: Vec<_> = world
        .hosts
        .borrow()
        .iter()
        .filter(|host| host.cut.get().is_none())
        .map(|host| shares[host.number])
        .collect();
    Healed {
        sessions: names.len(),
        after: Spread::from_values(taken.iter().map(|(_, at)| seconds(begun, *at)).collect()),
        after_lease: Spread::from_values(
            taken
                .iter()
                .map(|(session, at)| seconds(world.ended.borrow()[&names[session]], *at))
                .collect(),
        ),
        shares: Spread::from_values(survivors),
        twice: world.twice.get(),
        unserved: world.unserved(),
        server: world.end(begun),
    }
}

/// Time to wait for unexpected events.
const AFTERWARDS: Duration = Duration::from_secs(3);

/// Outcome after the server was unavailable.
#[derive(Debug)]
pub(crate) struct Returned {
    /// From the server's return until each session was served, in seconds.
    pub(crate) after: Spread,
    pub(crate) twice: u64,
    pub(crate) unserved: usize,
    pub(crate) server: Load,
}

/// The server is away for a while, so that all leases run out.
pub(crate) fn outage(scale: Scale, away: Duration, within: Duration) -> Returned {
    let world = World::begin(scale);
    world.server.leave(away);
    let back = world.clock.now() + away;
    let late = back + within;
    world
        .clock
        .run(|| world.taken.borrow().len() >= scale.sessions || world.clock.now() > late);
    world.run_for(AFTERWARDS);
    Returned {
        after: Spread::from_values(
            world
                .taken
                .borrow()
                .iter()
                .map(|(_, at)| at.saturating_duration_since(back).as_secs_f64())
                .collect(),
        ),
        twice: world.twice.get(),
        unserved: world.unserved(),
        server: world.end(back),
    }
}
