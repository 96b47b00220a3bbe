//! H-PRM: permissions, each answered once, and never approved but by the hub.

use serde_json::{Value, json};

use crate::{
    case::Case,
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
    Case::spec("H-PRM-01", "permission.1", "what is asked is shown", shown_unchanged)
        .needs(NEEDS)
        .when("requests with plain, odd, empty and long texts")
        .then("tool, description and resource reach the hub unchanged"),
    Case::spec("H-PRM-02", "permission.2", "an approval", |t| decided(t, true))
        .needs(NEEDS)
        .when("the hub approves")
        .then("one response with the request's ids, `approved` is `true`"),
    Case::spec("H-PRM-03", "permission.4", "a denial", |t| decided(t, false))
        .needs(NEEDS)
        .when("the hub denies")
        .then("one response with the request's ids, `approved` is there and `false`"),
    Case::choice("H-PRM-04", "permission.3", "no one decides", unanswered::undecided)
        .needs(NEEDS)
        .when("the hub leaves requests unanswered; one turn is stopped later, the other ends by itself")
        .then("no approval, and one `approved: false` for each at the latest with its turn"),
    Case::spec("H-PRM-05", "permission.1", "two pending", several::two_pending)
        .needs(NEEDS)
        .when("two requests of one turn, answered in reverse and differently")
        .then("each gets its own answer"),
    Case::spec("H-PRM-06", "permission.1", "one id in two sessions", several::two_sessions)
        .needs(NEEDS)
        .when("two sessions ask under the same `request_id`; one is approved, one denied")
        .then("two requests for the hub, and each session its own answer"),
    Case::spec("H-PRM-07", "permission.4", "one id twice in a session", several::id_again)
        .should()
        .needs(NEEDS)
        .when("a `request_id` is used again after its approval, and another one while it is pending")
        .then("nothing is approved by an earlier answer; the pending one stands and is answered once"),
    Case::choice("H-PRM-08", "permission.2", "requests for no open session", refused::strangers)
        .needs(NEEDS)
        .when("requests for an id that was never opened, and for one that is closed")
        .then("no one is asked and nothing is answered"),
    Case::choice("H-PRM-09", "permission.2", "bad requests", refused::bad_requests)
        .needs(NEEDS)
        .when("requests without an id or a tool, and with wrong types there")
        .then("no one is asked, nothing is approved, the turn goes on"),
    Case::choice(
        "H-PRM-10",
        "permission.3",
        "pending at stop, close and crash",
        unanswered::settled_otherwise,
    )
    .should()
    .needs(NEEDS)
    .when(
        "while a request is pending the turn is stopped, the session closed, the process gone; \
                   then the hub approves",
    )
    .then("at stop one denial after the `stop`; after the close and the end nothing; no approval"),
    Case::derived("H-PRM-11", "permission.5", "a request holds nothing up", several::meanwhile)
        .needs(NEEDS)
        .when("while a request is pending its session and another one talk")
        .then("both are delivered meanwhile, and the other session's input too"),
    Case::choice("H-PRM-12", "permission.2", "a thousand requests", several::a_thousand)
        .should()
        .needs(NEEDS)
        .when("1,000 requests at once; the hub answers whatever reaches it")
        .then("another session is served; each request gets one answer, an approval only from the hub"),
    Case::choice("H-PRM-13", "permission.3", "a request outside a turn", unanswered::outside_a_turn)
        .needs(NEEDS)
        .when("a request after the end of a turn; one turn ends, another is stopped; then the hub approves")
        .then("nothing before the approval, which reaches the adapter once"),
    Case::choice("H-PRM-14", "permission.6", "requests that say too little", refused::incomplete)
        .needs(NEEDS)
        .when("requests without a description, a resource or both, and with wrong types there")
        .then("each reaches the hub with a description that names the tool, and gets the hub's answer"),
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
    t.expect_that(from, s, "the `permission.request` for the hub", |seen| {
        seen.kind() == "permission.request" && seen.text("resource") == resource
    })
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
    t.demand(
        got == wanted,
        format!("`approved` of {id} at the adapter: {wanted}"),
        got,
    )
}

/// Whether anything was approved below, for any session.
fn demand_no_approval(t: &Trial<'_>) -> Outcome {
    let approval = t.written().into_iter().find(|below| {
        below.seen.kind() == "permission.response"
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
        let request = json!(["ask", {"request_id":id,"tool":tool,"description":description,"resource":resource}]);
        let from = t.instruct(
            &s,
            &json!([request, answered(&id), ["say", "went on"], ["complete"]]),
        )?;
        let seen = t.expect(from, &s, "permission.request")?;
        for (member, wanted) in [
            ("tool", tool),
            ("description", description),
            ("resource", resource),
        ] {
            let got = seen.text(member);
            t.demand(
                got == wanted,
                format!("{member} {}", super::shown(wanted)),
                super::shown(got),
            )?;
        }
        t.send(answer_of(&s, &seen, true))?;
        t.demand_end(&s, from, "went on")?;
    }
    Ok(())
}

fn decided(t: &mut Trial<'_>, approved: bool) -> Outcome {
    let s = t.open()?;
    let token = t.token();
    let from = t.instruct(
        &s,
        &json!([
            ask("r-1", &token),
            answered("r-1"),
            ["say", "went on"],
            ["complete"]
        ]),
    )?;
    let request = asked(t, &s, from, &token)?;
    t.send(answer_of(&s, &request, approved))?;
    t.demand_end(&s, from, "went on")?;
    t.settle()?;
    demand_answers(t, &t.lower(&s)?, "r-1", &[approved])
}
