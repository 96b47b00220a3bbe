//! The end of one session, and of nothing else.

use crate::cases::prelude::*;

pub(super) fn opened_and_closed(t: &mut Trial) -> Outcome {
    for _ in 0..20 {
        let s = t.open()?;
        t.close(&s)?;
    }
    t.settle()?;
    let below = t.written();
    let ids = |kind: &str| -> HashSet<(u32, String)> {
        below
            .iter()
            .filter(|below| below.seen.kind() == kind)
            .map(|below| (below.process, below.seen.session().to_owned()))
            .collect()
    };
    let (starts, closes) = (ids("session.start"), ids("session.close"));
    let open = starts.difference(&closes).count();
    t.demand(
        open == 0,
        "every session that was started is closed",
        format!("{open} are not"),
    )
}
