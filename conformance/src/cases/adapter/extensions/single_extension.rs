//! Each extension without the others: what was not agreed on is folded down ([ext.3], [ext.5]).

use super::negotiation;
use crate::cases::prelude::*;

/// Every rich form that the probe can be made to send without an answer.
fn rich_forms(t: &Trial) -> Value {
    let event = |message: Value| json!(["event", message]);
    let all = [
        json!(["say", "an answer"]),
        json!(["say", "a remark", "system"]),
        event(json!({"type":"thinking","content":"well"})),
        event(json!({"type":"message","role":"assistant","content":"a whole message"})),
        event(json!({"type":"tool.start","tool_call_id":"c-1","tool":"Edit"})),
        event(json!({"type":"tool.update","tool_call_id":"c-1","content":"half"})),
        event(json!({"type":"tool.end","tool_call_id":"c-1","content":"done"})),
        event(json!({"type":"plan","entries":[{"content":"read","status":"pending"}]})),
        event(json!({"type":"progress","message":"on its way"})),
        event(json!({"type":"log","stream":"stderr","content":"a warning"})),
        event(
            json!({"type":"error","category":"overloaded","message":"trying again","fatal":false}),
        ),
        event(json!({"type":"custom","name":"conformance.note","data":{"a":1}})),
        event(json!({"type":"usage","input_tokens":3,"output_tokens":4,"scope":"turn"})),
        event(json!({"type":"context.usage","used_tokens":1,"total_tokens":9})),
        event(json!({"type":"compaction","trigger":"auto","pre_tokens":8})),
        event(json!({"type":"rate_limit","window":"hour","status":"allowed"})),
        event(json!({"type":"working"})),
        json!(["info", {"model":"model-1","native_session_id":"native-1","input_modes":["queue"]}]),
        json!(["file", "rich.txt", "text/plain", 8]),
        json!(["complete", {
            "status":"completed","summary":"all of it","num_turns":1,"usage":{"input_tokens":3},
            "native_session_id":"native-1","session_params":{"a":1}
        }]),
    ];
    all.into_iter()
        .filter(|step| step[0].as_str().is_some_and(|op| t.has_probe(&[op])))
        .collect()
}

pub(super) fn each(t: &mut Trial) -> Outcome {
    let forms = rich_forms(t);
    let probing = forms.as_array().is_some_and(|forms| !forms.is_empty());
    for name in t.extensions() {
        let s = t.agree_on(&[name])?;
        let from = negotiation::input(t, &s, &[name], "t-1")?;
        t.end_of(&s, from)?;
        if !probing {
            continue;
        }
        let from = match name {
            "turns" => t.probe_as(&s, "t-2", &forms)?,
            _ => t.probe(&s, &forms)?,
        };
        let turn = t.end_of(&s, from)?;
        Trial::supported(&turn.messages)?;
        if t.has_probe(&["say"]) {
            let text = turn.text();
            let has = text.contains("an answer");
            t.demand(
                has,
                format!("the answer as `output`, with `{name}` alone"),
                format!("{text:?}"),
            )?;
        }
        if t.has_probe(&["event"]) && name != "events" {
            let told = turn.on_channel("system");
            let has = told.contains("trying again");
            t.demand(
                has,
                format!("an error as `output` on `system`, with `{name}` alone"),
                format!("{told:?}"),
            )
            .hint("fold down what was not agreed on, message by message")?;
        }
    }
    // That nothing of the others was written is judged by O-SHAPE.
    t.settle()
}
