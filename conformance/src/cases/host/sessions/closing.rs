//! The end of one session, and of nothing else.

use super::super::demand_unheard;
use crate::cases::prelude::*;

pub(super) fn after_the_close(t: &mut Trial) -> Outcome {
    let token = t.token();
    let late = json!([
        ["say", token],
        ["complete"],
        ["delay", 10],
        ["say", token],
        ["delay", 490],
        ["say", token],
        ["delay", 700],
        ["say", token],
        ["complete"]
    ]);
    t.stub_script(&json!({"lists":{"late":late},"on":{"session.close":[["do", "late"]]}}))?;
    let s = t.open_known()?;
    let lower = t.lower(&s)?;
    let from = t.close(&s)?;
    t.expect_told(from, &lower, "session.close")?;
    t.pass_time(Duration::from_millis(700));
    let other = t.open()?;
    t.act(
        &other,
        &json!([["delay", 900], ["say", "mine"], ["complete"]]),
    )?;
    t.settle()?;
    demand_unheard(t, &token)?;
    t.demand_ends_now(&s, 1)
}

pub(super) fn nothing_after_close(t: &mut Trial) -> Outcome {
    let s = t.open()?;
    let ask = json!(["ask", {"request_id":"r-1","tool":"shell","description":"d","resource":"r"}]);
    let from = t.instruct(&s, &json!([ask]))?;
    t.expect(from, &s, "permission.request")?;
    let lower = t.lower(&s)?;
    t.close(&s)?;
    let id = s.id().to_owned();
    for late in [
        json!({"type":"user.input","session_id":id,"content":"late"}),
        json!({"type":"stop","session_id":id}),
        json!({"type":"permission.response","session_id":id,"request_id":"r-1","approved":true}),
        json!({"type":"file.input","session_id":id,"file_name":"x","file_mime_type":"text/plain","file_path":"/dev/null"}),
    ] {
        t.send_deviant(late)?;
    }
    t.settle()?;
    let told: Vec<String> = t
        .below_of(&lower)
        .into_iter()
        .filter(|below| below.by == Side::Host)
        .map(|below| below.seen.kind().to_owned())
        .collect();
    let last = told.last().map_or("nothing", String::as_str);
    let closes = told.iter().filter(|kind| *kind == "session.close").count();
    t.demand(
        last == "session.close" && closes == 1,
        "`session.close` last and once",
        told.join(", "),
    )
}

pub(super) fn other_goes_on(t: &mut Trial) -> Outcome {
    let (a, b) = (t.open_known()?, t.open_known()?);
    let before = t.lower(&b)?;
    let from = t.instruct(&b, &json!([["delay", 400], ["say", "still"], ["complete"]]))?;
    t.close(&a)?;
    t.demand_end(&b, from, "still")?;
    t.demand_served(&b, "here")?;
    let after = t.lower(&b)?;
    t.demand(
        before == after,
        "the same process and id",
        format!("{before:?}, then {after:?}"),
    )
}

pub(super) fn closed_twice(t: &mut Trial) -> Outcome {
    let s = t.open_known()?;
    let lower = t.lower(&s)?;
    t.close(&s)?;
    t.tell_deviant(&s, "session.close", &json!({}))?;
    t.settle()?;
    let closes = t.told(&lower, "session.close").len();
    t.demand(closes == 1, "one `session.close` at the adapter", closes)
}

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
