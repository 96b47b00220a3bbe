//! The catalogue: every case of both sides, by family.

use crate::{case::Case, clauses::Side};

mod adapter;
mod corpus;
mod host;

/// The families of adapter cases, in the order of the catalogue.
static ADAPTER: &[&[Case]] = &[
    adapter::framing::CASES,
    adapter::messages::CASES,
    adapter::sessions::CASES,
    adapter::turns::CASES,
    adapter::stop::CASES,
    adapter::files::CASES,
    adapter::permission::CASES,
    adapter::lifecycle::CASES,
    adapter::back_pressure::CASES,
    adapter::security::CASES,
    adapter::properties::CASES,
    adapter::extensions::CASES,
];

/// The families of host cases, in the order of the catalogue.
static HOST: &[&[Case]] = &[
    host::framing::CASES,
    host::output::CASES,
    host::sessions::CASES,
    host::messages::CASES,
    host::turns::CASES,
    host::stop::CASES,
    host::permission::CASES,
    host::files::CASES,
    host::lifecycle::CASES,
    host::back_pressure::CASES,
    host::properties::CASES,
    host::extensions::agreement::CASES,
    host::extensions::turns::CASES,
    host::extensions::control::CASES,
    host::extensions::requests::CASES,
    host::extensions::fields::CASES,
    host::extensions::restart::CASES,
    host::relay::agent_ids::CASES,
    host::relay::start::CASES,
    host::relay::extended_relay::CASES,
    host::relay::core_only_relay::CASES,
    host::relay::end::CASES,
    host::relay::flow::CASES,
    host::relay::folders::CASES,
    host::journal::entries::CASES,
    host::journal::attach::CASES,
    host::journal::requests::CASES,
    host::journal::listeners::CASES,
    host::journal::inputs::CASES,
    host::journal::restart::CASES,
    host::journal::list::CASES,
    host::journal::edits::CASES,
];

/// All cases of a side.
pub(crate) fn of(side: Side) -> impl Iterator<Item = &'static Case> {
    let families = match side {
        Side::Adapter => ADAPTER,
        Side::Host => HOST,
    };
    families.iter().flat_map(|family| family.iter())
}

/// All cases.
pub(crate) fn all() -> impl Iterator<Item = &'static Case> {
    of(Side::Adapter).chain(of(Side::Host))
}

/// The case of an id.
pub(crate) fn find(id: &str) -> Option<&'static Case> {
    all().find(|case| case.id.eq_ignore_ascii_case(id))
}
