//! H-PRM: permissions, each answered once, and never approved but by the hub.

use serde_json::{Value, json};

use super::demand_answer;
use crate::{
    case::Case,
    clauses::{Basis, Level, Side},
    needs::{Ability, Need},
    trial::{Lower, Seen, Session, Trial},
    verdict::Outcome,
};

mod refused;
mod several;
mod unanswered;

const NEEDS: &[Need] = &[Need::Ability(Ability::Permissions)];

/// The family.
pub(in crate::cases) static CASES: &[Case] = &[
    Case {
        id: "H-PRM-01",
        title: "what is asked is shown",
        clause: "permission.1",
        basis: Basis::Spec,
        needs: NEEDS,
        stimulus: "requests with plain, odd, empty and long texts",
        expected: "tool, description and resource reach the hub unchanged",
        run: shown_unchanged,
        ..Case::NEW
    },
    Case {
        id: "H-PRM-02",
        title: "an approval",
        clause: "permission.2",
        basis: Basis::Spec,
        needs: NEEDS,
        stimulus: "the hub approves",
        expected: "one response with the request's ids, `approved` is `true`",
        run: |t| decided(t, true),
        ..Case::NEW
    },
    Case {
        id: "H-PRM-03",
        title: "a denial",
        clause: "permission.4",
        basis: Basis::Spec,
        needs: NEEDS,
        stimulus: "the hub denies",
        expected: "one response with the request's ids, `approved` is there and `false`",
        run: |t| decided(t, false),
        ..Case::NEW
    },
    Case {
        id: "H-PRM-04",
        title: "nobody decides",
        clause: "permission.3",
        basis: Basis::Choice,
        needs: NEEDS,
        stimulus: "the hub leaves requests unanswered; one turn is stopped later, the other ends by itself",
        expected: "no approval, and one `approved: false` for each at the latest with its turn",
        run: unanswered::undecided,
        ..Case::NEW
    },
    Case {
        id: "H-PRM-05",
        title: "two pending",
        clause: "permission.1",
        basis: Basis::Spec,
        needs: NEEDS,
        stimulus: "two requests of one turn, answered in reverse and differently",
        expected: "each gets its own answer",
        run: several::two_pending,
        ..Case::NEW
    },
    Case {
        id: "H-PRM-06",
        title: "one id in two sessions",
        clause: "permission.1",
        basis: Basis::Spec,
        needs: NEEDS,
        stimulus: "two sessions ask under the same `request_id`; one is approved, one denied",
        expected: "two requests for the hub, and each session its own answer",
        run: several::two_sessions,
        ..Case::NEW
    },
    Case {
        id: "H-PRM-07",
        title: "one id twice in a session",
        clause: "permission.4",
        level: Level::Should,
        basis: Basis::Spec,
        needs: NEEDS,
        stimulus: "a `request_id` is used again after its approval, and another one while it is pending",
        expected: "nothing is approved by an earlier answer; the pending one stands and is answered once",
        run: several::id_again,
        ..Case::NEW
    },
    Case {
        id: "H-PRM-08",
        title: "requests of nobody's session",
        clause: "permission.2",
        basis: Basis::Choice,
        needs: NEEDS,
        stimulus: "requests for an id that was never opened, and for one that is closed",
        expected: "nobody is asked and nothing is answered",
        run: refused::strangers,
        ..Case::NEW
    },
    Case {
        id: "H-PRM-09",
        title: "bad requests",
        clause: "permission.2",
        basis: Basis::Choice,
        needs: NEEDS,
        stimulus: "requests without an id, a tool, a description, a resource, and with wrong types",
        expected: "nobody is asked, nothing is approved, the turn goes on",
        run: refused::bad_requests,
        ..Case::NEW
    },
    Case {
        id: "H-PRM-10",
        title: "pending at stop, close and crash",
        clause: "permission.3",
        level: Level::Should,
        basis: Basis::Choice,
        needs: NEEDS,
        stimulus: "while a request is pending the turn is stopped, the session closed, the process gone; \
                   then the hub approves",
        expected: "at stop one denial after the `stop`; after the close and the end nothing; no approval",
        run: unanswered::settled_otherwise,
        ..Case::NEW
    },
    Case {
        id: "H-PRM-11",
        title: "a request holds nobody up",
        clause: "permission.5",
        needs: NEEDS,
        stimulus: "while a request is pending its session and another one talk",
        expected: "both are delivered meanwhile, and the other session's input too",
        run: several::meanwhile,
        ..Case::NEW
    },
    Case {
        id: "H-PRM-12",
        title: "a thousand requests",
        clause: "permission.2",
        level: Level::Should,
        basis: Basis::Choice,
        needs: NEEDS,
        stimulus: "1,000 requests at once; the hub answers whatever reaches it",
        expected: "another session is served; each request gets one answer, an approval only from the hub",
        run: several::a_thousand,
        ..Case::NEW
    },
];

/// An action that asks under an id; its resource is the token by which the hub knows it.
fn ask(id: &str, resource: &str) -> Value {
    json!(["ask", {"request_id":id,"tool":"shell","description":"run it","resource":resource}])
}

fn answered(id: &str) -> Value {
    json!(["wait", "permission.response", id])
}

/// The request of a resource, as the hub is given it.
fn asked(t: &Trial<'_>, s: &Session, from: usize, resource: &str) -> Outcome<Seen> {
    let wanted = |seen: &Seen| {
        seen.kind() == "permission.request" && seen.session() == s.id() && seen.text("resource") == resource
    };
    match t.wait(from, t.bounds.patience, wanted) {
        Some(seen) => Ok(seen),
        None => t.late("the `permission.request` for the hub", t.what_came(from, s)),
    }
}

/// What the hub says to a request, under the id that it was given.
fn answer_of(s: &Session, request: &Seen, approved: bool) -> Value {
    let id = request.text("request_id");
    json!({"type":"permission.response","session_id":s.id(),"request_id":id,"approved":approved})
}

/// The answers at the adapter: `true`, `false`, or whatever else stands there.
fn answers(t: &Trial<'_>, lower: &Lower, id: &str) -> Vec<Value> {
    t.told(lower, "permission.response")
        .iter()
        .filter(|seen| seen.text("request_id") == id)
        .map(|seen| seen.get("approved").cloned().unwrap_or(json!("absent")))
        .collect()
}

fn demand_answers(t: &Trial<'_>, lower: &Lower, id: &str, wanted: &[bool]) -> Outcome {
    let (got, wanted) = (json!(answers(t, lower, id)), json!(wanted));
    t.demand(got == wanted, format!("`approved` of {id} at the adapter: {wanted}"), got)
}

/// Whether anything was approved below, whoever it was for.
fn demand_no_approval(t: &Trial<'_>) -> Outcome {
    let approval = t.below().into_iter().find(|below| {
        below.by == Side::Host
            && below.seen.kind() == "permission.response"
            && below.seen.get("approved") == Some(&Value::Bool(true))
    });
    match approval {
        None => Ok(()),
        Some(below) => t.fail(
            "nothing is approved: the hub approved nothing",
            format!("`approved: true` for {:?}", below.seen.text("request_id")),
        ),
    }
}

fn shown_unchanged(t: &mut Trial<'_>) -> Outcome {
    let s = t.open()?;
    // Short enough for the stub to log it as it stands.
    let long = "r".repeat(3_000);
    let texts = [
        ["Bash", "Delete old logs", "rm -r logs"],
        [
            "mcp__a.b/\u{e9}",
            "line one\nline two\t\"quoted\" \\",
            "caf\u{e9} \u{65e5}\u{672c} \u{1f600}\u{2028}",
        ],
        ["Write", "", ""],
        ["Fetch", "<b>&amp;</b> {not} $a %template", &long],
    ];
    for (n, [tool, description, resource]) in texts.into_iter().enumerate() {
        let id = format!("r-{n}");
        let request =
            json!(["ask", {"request_id":id,"tool":tool,"description":description,"resource":resource}]);
        let from = t.instruct(&s, &json!([request, answered(&id), ["say", "went on"], ["complete"]]))?;
        let seen = t.expect(from, &s, "permission.request", t.bounds.patience)?;
        for (member, wanted) in [("tool", tool), ("description", description), ("resource", resource)] {
            let got = seen.text(member);
            t.demand(got == wanted, format!("{member} {}", super::shown(wanted)), super::shown(got))?;
        }
        t.send(answer_of(&s, &seen, true))?;
        let turn = t.end_of(&s, from)?;
        demand_answer(t, &turn, "went on")?;
    }
    Ok(())
}

fn decided(t: &mut Trial<'_>, approved: bool) -> Outcome {
    let s = t.open()?;
    let token = t.token();
    let from =
        t.instruct(&s, &json!([ask("r-1", &token), answered("r-1"), ["say", "went on"], ["complete"]]))?;
    let request = asked(t, &s, from, &token)?;
    t.send(answer_of(&s, &request, approved))?;
    let turn = t.end_of(&s, from)?;
    demand_answer(t, &turn, "went on")?;
    t.settle()?;
    demand_answers(t, &t.lower(&s)?, "r-1", &[approved])
}
