//! H-PRM: permissions, each answered once, and never approved but by the hub.

use serde_json::{Value, json};

use super::{demand_answer, demand_unheard};
use crate::{
    case::Case,
    clauses::{Basis, Level, Side},
    needs::{Ability, Need},
    trial::{Lower, Seen, Session, Trial},
    verdict::{Outcome, Told},
};

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
        run: undecided,
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
        run: two_pending,
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
        run: two_sessions,
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
        run: id_again,
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
        run: strangers,
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
        run: bad_requests,
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
        run: settled_otherwise,
        ..Case::NEW
    },
    Case {
        id: "H-PRM-11",
        title: "a request holds nobody up",
        clause: "permission.5",
        needs: NEEDS,
        stimulus: "while a request is pending its session and another one talk",
        expected: "both are delivered meanwhile, and the other session's input too",
        run: meanwhile,
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
        run: a_thousand,
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

fn undecided(t: &mut Trial<'_>) -> Outcome {
    let (stopped, ended) = (t.open()?, t.open()?);
    let (first, second) = (t.token(), t.token());
    let from_stopped = t.instruct(&stopped, &json!([ask("r-1", &first)]))?;
    let from_ended = t.instruct(&ended, &json!([ask("r-2", &second), ["until", "asked"], ["complete"]]))?;
    asked(t, &stopped, from_stopped, &first)?;
    asked(t, &ended, from_ended, &second)?;
    t.cue("asked")?;
    t.end_of(&ended, from_ended)?;
    let (lower, lower_ended) = (t.lower(&stopped)?, t.lower(&ended)?);
    t.expect_told(from_ended, &lower_ended, "permission.response", t.bounds.patience)
        .hint("a request is denied at the end of its turn")?;
    // Longer than any patience that a host may have invented; there is no deadline that nobody configured.
    t.pass_time(std::time::Duration::from_millis(2_500));
    demand_no_approval(t)?;
    t.stop(&stopped)?;
    t.expect_told(from_stopped, &lower, "permission.response", t.bounds.patience)
        .hint("a request is denied at the stop of its turn")?;
    t.end_of(&stopped, from_stopped)?;
    t.settle()?;
    demand_answers(t, &lower, "r-1", &[false])?;
    demand_answers(t, &lower_ended, "r-2", &[false])
}

fn two_pending(t: &mut Trial<'_>) -> Outcome {
    let s = t.open()?;
    let (first, second) = (t.token(), t.token());
    let actions = json!([
        ask("r-1", &first),
        ask("r-2", &second),
        answered("r-2"),
        answered("r-1"),
        ["say", "went on"],
        ["complete"]
    ]);
    let from = t.instruct(&s, &actions)?;
    let (one, two) = (asked(t, &s, from, &first)?, asked(t, &s, from, &second)?);
    t.send(answer_of(&s, &two, false))?;
    t.send(answer_of(&s, &one, true))?;
    let turn = t.end_of(&s, from)?;
    demand_answer(t, &turn, "went on")?;
    let lower = t.lower(&s)?;
    demand_answers(t, &lower, "r-1", &[true])?;
    demand_answers(t, &lower, "r-2", &[false])
}

fn two_sessions(t: &mut Trial<'_>) -> Outcome {
    let (a, b) = (t.open()?, t.open()?);
    let (first, second) = (t.token(), t.token());
    let from_a = t.instruct(&a, &json!([ask("same", &first), answered("same"), ["complete"]]))?;
    let from_b = t.instruct(&b, &json!([ask("same", &second), answered("same"), ["complete"]]))?;
    let (of_a, of_b) = (asked(t, &a, from_a, &first)?, asked(t, &b, from_b, &second)?);
    t.send(answer_of(&a, &of_a, true))?;
    t.end_of(&a, from_a)?;
    t.send(answer_of(&b, &of_b, false))?;
    t.end_of(&b, from_b)?;
    t.settle()?;
    demand_answers(t, &t.lower(&a)?, "same", &[true])?;
    demand_answers(t, &t.lower(&b)?, "same", &[false])
        .hint("a pending request is known by its session and its id together")
}

fn id_again(t: &mut Trial<'_>) -> Outcome {
    let (s, pending) = (t.open()?, t.open()?);
    let (first, second) = (t.token(), t.token());
    let again =
        json!([ask("r-1", &first), answered("r-1"), ask("r-1", &second), answered("r-1"), ["complete"]]);
    let from = t.instruct(&s, &again)?;
    let one = asked(t, &s, from, &first)?;
    t.send(answer_of(&s, &one, true))?;
    let two = asked(t, &s, from, &second).hint("the second request was not shown to the hub")?;
    t.send(answer_of(&s, &two, false))?;
    t.end_of(&s, from)?;
    demand_answers(t, &t.lower(&s)?, "r-1", &[true, false])?;

    let (first, second) = (t.token(), t.token());
    let twice =
        json!([ask("r-2", &first), ask("r-2", &second), ["say", "both"], answered("r-2"), ["complete"]]);
    let from = t.instruct(&pending, &twice)?;
    let one = asked(t, &pending, from, &first)?;
    // The host has taken both when what follows them is there.
    t.expect(from, &pending, "output", t.bounds.patience)?;
    t.send(answer_of(&pending, &one, true))?;
    t.end_of(&pending, from)?;
    t.settle()?;
    demand_answers(t, &t.lower(&pending)?, "r-2", &[true])
}

fn strangers(t: &mut Trial<'_>) -> Outcome {
    let token = t.token();
    t.stub_script(&json!({"on":{"session.close":[ask("late", &token)]}}))?;
    let (closed, s) = (t.open()?, t.open()?);
    t.act(&closed, &json!([["complete"]]))?;
    let lower = t.lower(&closed)?;
    let from = t.close(&closed)?;
    t.expect_told(from, &lower, "session.close", t.bounds.patience)?;
    let turn = t.act(
        &s,
        &json!([["session", "never-opened", [ask("lost", &token)]], ["say", "mine"], ["complete"]]),
    )?;
    demand_answer(t, &turn, "mine")?;
    t.settle()?;
    demand_nobody_asked(t, &token)?;
    demand_no_approval(t)?;
    let lost = t
        .below()
        .iter()
        .any(|below| below.by == Side::Host && ["late", "lost"].contains(&below.seen.text("request_id")));
    t.demand(!lost, "no answer for a session that is not open", "a `permission.response`")
}

fn demand_nobody_asked(t: &Trial<'_>, token: &str) -> Outcome {
    let requests: Vec<Seen> =
        t.seen_from(0).into_iter().filter(|seen| seen.kind() == "permission.request").collect();
    match requests.iter().find(|seen| seen.text("resource").contains(token)) {
        None => demand_unheard(t, token),
        Some(seen) => t.fail("nobody is asked", format!("a `permission.request` in {:?}", seen.session())),
    }
}

fn bad_requests(t: &mut Trial<'_>) -> Outcome {
    let s = t.open()?;
    let token = t.token();
    let whole = json!({"request_id":"r-1","tool":"shell","description":"run it","resource":token});
    let mut actions = Vec::new();
    for (member, values) in [
        ("request_id", json!([null, 7, "", {"a":1}])),
        ("tool", json!([null, 7, ["shell"]])),
        ("description", json!([null, false])),
        ("resource", json!([null, {"path":token}])),
    ] {
        for value in values.as_array().into_iter().flatten() {
            let mut request = whole.clone();
            request["request_id"] = json!(format!("bad-{}", actions.len()));
            request[member].clone_from(value);
            actions.push(json!(["ask", request]));
        }
    }
    actions.push(json!(["say", "went on"]));
    actions.push(json!(["complete"]));
    let turn = t.act(&s, &json!(actions))?;
    demand_answer(t, &turn, "went on")?;
    t.settle()?;
    demand_no_approval(t)?;
    demand_nobody_asked(t, &token)
}

fn settled_otherwise(t: &mut Trial<'_>) -> Outcome {
    let (stopped, closed, crashed) = (t.open()?, t.open()?, t.open()?);
    let tokens = [t.token(), t.token(), t.token()];
    let mut pending = Vec::new();
    for (s, token) in [&stopped, &closed].into_iter().zip(&tokens) {
        let from = t.instruct(s, &json!([ask("r-1", token)]))?;
        pending.push((from, asked(t, s, from, token)?));
    }
    let (from, request) = &pending[0];
    let lower = t.lower(&stopped)?;
    t.stop(&stopped)?;
    t.send_deviant(answer_of(&stopped, request, true))?;
    t.end_of(&stopped, *from)?;
    let lower_closed = t.lower(&closed)?;
    t.close(&closed)?;
    t.send_deviant(answer_of(&closed, &pending[1].1, true))?;
    t.settle()?;
    demand_answers(t, &lower, "r-1", &[false])?;
    let kinds = |lower| -> Vec<String> {
        let below = t.below_of(lower).into_iter().filter(|below| below.by == Side::Host);
        below.map(|below| below.seen.kind().to_owned()).collect()
    };
    let told = kinds(&lower);
    let place = |kind: &str| told.iter().position(|told| told == kind);
    t.demand(place("stop") < place("permission.response"), "the `stop`, then the denial", told.join(", "))?;
    let told = kinds(&lower_closed);
    t.demand(
        told.last().is_some_and(|kind| kind == "session.close"),
        "nothing after `session.close`",
        told.join(", "),
    )?;

    let from = t.instruct(&crashed, &json!([ask("r-1", &tokens[2]), ["until", "asked"], ["exit", 0]]))?;
    let request = asked(t, &crashed, from, &tokens[2])?;
    t.cue("asked")?;
    t.end_of(&crashed, from)?;
    t.send_deviant(answer_of(&crashed, &request, true))?;
    t.settle()?;
    demand_no_approval(t)
}

fn meanwhile(t: &mut Trial<'_>) -> Outcome {
    let (s, other) = (t.open()?, t.open()?);
    t.act(&other, &json!([["complete"]]))?;
    let token = t.token();
    let actions = json!([ask("r-1", &token), ["say", "while it waits"], answered("r-1"), ["complete"]]);
    let from = t.instruct(&s, &actions)?;
    let request = asked(t, &s, from, &token)?;
    t.expect(from, &s, "output", t.bounds.patience)
        .hint("the output of a session waits for its own permission")?;
    let turn = t
        .act(&other, &json!([["say", "served"], ["complete"]]))
        .hint("a pending permission holds up other sessions")?;
    demand_answer(t, &turn, "served")?;
    t.send(answer_of(&s, &request, false))?;
    t.end_of(&s, from)?;
    Ok(())
}

fn a_thousand(t: &mut Trial<'_>) -> Outcome {
    const REQUESTS: usize = 1_000;
    let id = |n: usize| format!("r-{n}");
    let members = |n: usize| {
        json!({"type":"permission.request","request_id":id(n),"tool":"shell","description":"d",
            "resource":n.to_string()})
    };
    let all: Vec<Value> = (0..REQUESTS).map(members).collect();
    t.stub_script(&json!({"lists":{"all":[["many", all]]}}))?;
    let (s, other) = (t.open()?, t.open()?);
    t.act(&other, &json!([["complete"]]))?;
    let from = t.instruct(&s, &json!([["do", "all"], ["say", "all asked"]]))?;
    t.expect(from, &s, "output", t.bounds.patience.max(t.bounds.secs(5.0)))?;
    let turn = t.act(&other, &json!([["say", "served"], ["complete"]]))?;
    demand_answer(t, &turn, "served")?;
    let approve = |n: usize| n.is_multiple_of(2);
    let mut reached = 0;
    for seen in t.seen_from(from) {
        if seen.kind() == "permission.request" && seen.session() == s.id() {
            let number = seen.text("resource").parse().unwrap_or_default();
            t.send(answer_of(&s, &seen, approve(number)))?;
            reached += 1;
        }
    }
    t.note(format!("{reached} of {REQUESTS} requests reached the hub"));
    t.settle()?;
    let lower = t.lower(&s)?;
    let mut got: std::collections::HashMap<String, Vec<bool>> = std::collections::HashMap::new();
    for seen in t.told(&lower, "permission.response") {
        let approved = seen.get("approved") == Some(&Value::Bool(true));
        got.entry(seen.text("request_id").to_owned()).or_default().push(approved);
    }
    for n in 0..REQUESTS {
        let answers = got.remove(&id(n)).unwrap_or_default();
        t.demand(answers.len() == 1, format!("one answer to request {n}"), answers.len())?;
        t.demand(approve(n) || !answers[0], format!("no approval of request {n}"), "it is approved")?;
    }
    t.stop(&s)?;
    t.end_of(&s, from)?;
    Ok(())
}
