//! The table of the simulation.

use std::{thread, time::Duration};

use crate::world::{Load, Scale, Spread, deaths, outage, server::Done, spread, traffic};

/// Timeout for an event that may never happen.
const LATE: Duration = Duration::from_secs(600);

/// A part of it, by its name.
type Row = (&'static str, fn(Scale));

pub(crate) const ROWS: [Row; 4] = [
    ("spread", spreads),
    ("traffic", renewals),
    ("deaths", dies),
    ("outage", is_away),
];

fn line(what: &str, spread: &Spread) {
    println!(
        "  {what}: least {:.1}, median {:.1}, most {:.1}; standard deviation {:.1} %",
        spread.least,
        spread.median,
        spread.most,
        spread.deviation * 100.0
    );
}

fn load(load: &Load) {
    let peak = load.seconds.iter().map(Done::asked).max().unwrap_or(0);
    println!(
        "  the server: {peak} questions in a second at most, the longest waited {:.1?}; {:?}",
        load.longest,
        load.sum()
    );
}

fn head(scale: Scale, what: &str) {
    println!(
        "{} hosts, {} sessions, lease of {:?}: {what}",
        scale.hosts, scale.sessions, scale.ttl
    );
}

fn spreads(scale: Scale) {
    head(
        scale,
        "sessions of a host, each placed by what is known of the others",
    );
    // Of those that each host gets, so many come between two of its renewals.
    let rates = [None, Some(0.01), Some(0.1), Some(1.0)];
    let a_second = |part: f64| part * scale.sessions as f64 / scale.terms().every().as_secs_f64();
    let spreads = thread::scope(|scope| {
        rates
            .map(|rate| scope.spawn(move || spread(scale, rate.map(a_second))))
            .map(|spread| spread.join().unwrap())
    });
    for (rate, spread) in rates.iter().zip(&spreads) {
        match rate {
            None => line("as it is", spread),
            Some(part) => line(&format!("{:.0} opened a second", a_second(*part)), spread),
        }
    }
}

fn renewals(scale: Scale) {
    println!("renewals, a second:");
    for hosts in [10, 100, 1000] {
        let done = traffic(Scale { hosts, ..scale });
        println!(
            "  {hosts} hosts: {:.1} in, {:.0} out ({:.2} MB), into each host {:.1} ({:.1} KB)",
            done.puts as f64 / 10.0,
            done.out as f64 / 10.0,
            done.bytes_out as f64 / 1e7,
            done.out as f64 / 10.0 / hosts as f64,
            done.bytes_out as f64 / 1e4 / hosts as f64,
        );
    }
}

fn dies(scale: Scale) {
    let healed = deaths(scale, LATE);
    head(
        scale,
        &format!(
            "a tenth of the hosts dies, with {} sessions",
            healed.sessions
        ),
    );
    line("seconds until one has an owner", &healed.after);
    line("of that, behind the end of the lease", &healed.after_lease);
    line("sessions that a survivor took", &healed.shares);
    println!(
        "  served twice {}, by none {}",
        healed.twice, healed.unserved
    );
    load(&healed.server);
}

fn is_away(scale: Scale) {
    let returned = outage(scale, Duration::from_secs(60), LATE);
    head(scale, "the server is away for a minute");
    line(
        "seconds from its return until one is served",
        &returned.after,
    );
    println!(
        "  served twice {}, by none {}",
        returned.twice, returned.unserved
    );
    load(&returned.server);
}
