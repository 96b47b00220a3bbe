//! A-SES: sessions ([session.3] to [session.7]).

use crate::cases::CaseRun;

mod closing;
pub(in crate::cases) mod many;

pub(in crate::cases) static RUNS: &[CaseRun] = &[
    ("A-SES-02", many::tokens),
    ("A-SES-04", many::numbers),
    ("A-SES-10", closing::one_of_two),
    ("A-SES-11", closing::the_last),
    ("A-SES-13", many::cycles),
    ("A-SES-14", many::two_hundred),
];
