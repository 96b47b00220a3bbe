//! Numbers that say what they mean, and failures of a known kind ([ext.4], [ext.6]).

use crate::{cases::prelude::*, model};

/// The category that an error names, if it names one.
fn category(error: Option<&Value>) -> Option<Value> {
    error?
        .get("category")
        .filter(|category| !category.is_null())
        .cloned()
}

fn known(t: &Trial, category: Option<Value>, of: &str) -> Outcome {
    let Some(category) = category else {
        return Ok(());
    };
    let listed = category.as_str().is_some_and(model::is_category);
    t.demand(listed, format!("a category of the list in {of}"), &category)
        .hint("what has no name there is `other`; the agent's own word goes into `code`")
}

pub(super) fn categories(t: &mut Trial) -> Outcome {
    let s = t.agree_on(&["turns"])?;
    let from = match (t.has_probe(&["fail"]), t.subject.recipes.error.clone()) {
        (true, _) => t.probe_as(&s, "t-1", &json!([["fail", "asked to fail"]]))?,
        (false, Some(error)) => t.input_as(&s, "t-1", &error)?,
        (false, None) => return t.skip("recipe `error` or probe operation `fail`"),
    };
    let end = t.end_of(&s, from)?.end;
    known(t, category(end.get("error")), "`error` of `turn.complete`")?;
    if t.extensions().contains(&"events") && t.has_probe(&["event"]) {
        let s = t.agree_on(&["events"])?;
        let error =
            json!({"type":"error","category":"overloaded","message":"trying again","fatal":false});
        let turn = t.probe_turn(&s, &json!([["event", error]]))?;
        let errors: Vec<&Seen> = turn
            .messages
            .iter()
            .filter(|seen| seen.kind() == "error")
            .collect();
        t.demand(!errors.is_empty(), "the `error` of the script", "none")
            .under("ext.5")?;
        for error in errors {
            known(t, error.get("category").cloned(), "`error`")?;
        }
    }
    t.settle()
}
