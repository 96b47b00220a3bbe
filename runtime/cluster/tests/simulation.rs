//! The simulation of large clusters, with a small one: `cargo bench -p trunkline-cluster --bench
//! scale simulate` has the large one, and its table.

#![allow(
    clippy::unwrap_used,
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    reason = "tests, whose counts are small"
)]

#[path = "simulation/world.rs"]
mod world;

use std::time::Duration;

use self::world::{Scale, deaths, outage, spread, traffic};

const SCALE: Scale = Scale {
    hosts: 50,
    sessions: 2500,
    seed: 1,
    ttl: Duration::from_secs(30),
};

/// Far beyond what anything takes.
const LATE: Duration = Duration::from_secs(600);

#[test]
fn sessions_are_spread_evenly_even_by_loads_that_are_old() {
    let fresh = spread(SCALE, None);
    assert!(fresh.most - fresh.least <= 8.0, "{fresh:?}");
    // Five of each host's fifty come between two of its renewals.
    let old = spread(SCALE, Some(25.0));
    assert!(old.deviation < 0.1 && old.median >= 45.0, "{old:?}");
}

#[test]
fn the_sessions_of_hosts_that_die_have_one_owner_each_soon_after_their_leases() {
    let healed = deaths(SCALE, LATE);
    assert_eq!(
        (healed.sessions, healed.twice, healed.unserved),
        (250, 0, 0),
        "{healed:?}"
    );
    // A lease that was renewed just before, its second, and what is done then.
    assert!(healed.after.most < 35.0, "{healed:?}");
    assert!(
        healed.after_lease.median < 1.5 && healed.after_lease.most < 12.0,
        "{healed:?}"
    );
    assert!(
        healed.shares.most < 4.0 * healed.shares.median,
        "{healed:?}"
    );
    assert!(
        healed.server.sum().too_late == 0 && healed.server.longest < Duration::from_secs(5),
        "{healed:?}"
    );
}

#[test]
fn all_is_served_again_soon_after_the_server_is_back() {
    let returned = outage(SCALE, Duration::from_secs(60), LATE);
    assert_eq!((returned.twice, returned.unserved), (0, 0), "{returned:?}");
    assert!(returned.after.most < 40.0, "{returned:?}");
    assert_eq!(returned.server.sum().too_late, 0, "{returned:?}");
}

#[test]
fn a_renewal_goes_to_each_host_once() {
    let done = traffic(SCALE);
    assert_eq!((done.puts, done.out), (50, 50 * 50), "{done:?}");
    assert_eq!(done.asked(), 50, "nothing else is asked: {done:?}");
    assert!(
        (300..1000).contains(&(done.bytes_out / done.out)),
        "{done:?}"
    );
}

#[test]
fn two_runs_of_one_seed_are_the_same() {
    let run = |seed| {
        format!(
            "{:?}",
            deaths(
                Scale {
                    hosts: 20,
                    sessions: 1000,
                    seed,
                    ..SCALE
                },
                LATE
            )
        )
    };
    assert_eq!(run(7), run(7));
    assert_ne!(run(7), run(8));
}
