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
    host::frm::CASES,
    host::out::CASES,
    host::ses::CASES,
    host::msg::CASES,
    host::trn::CASES,
    host::stp::CASES,
    host::prm::CASES,
    host::fil::CASES,
    host::lif::CASES,
    host::flw::CASES,
    host::prop::CASES,
    host::ext::agreement::CASES,
    host::ext::turns::CASES,
    host::ext::control::CASES,
    host::ext::asks::CASES,
    host::ext::fields::CASES,
    host::ext::restart::CASES,
    host::rly::names::CASES,
    host::rly::start::CASES,
    host::rly::told::CASES,
    host::rly::told_core::CASES,
    host::rly::end::CASES,
    host::rly::flow::CASES,
    host::rly::folders::CASES,
];

/// All cases of a side.
pub fn of(side: Side) -> impl Iterator<Item = &'static Case> {
    let families = match side {
        Side::Adapter => ADAPTER,
        Side::Host => HOST,
    };
    families.iter().flat_map(|family| family.iter())
}

/// All cases.
pub fn all() -> impl Iterator<Item = &'static Case> {
    of(Side::Adapter).chain(of(Side::Host))
}

/// The case of an id.
pub fn find(id: &str) -> Option<&'static Case> {
    all().find(|case| case.id.eq_ignore_ascii_case(id))
}
