//! What gets no answer: messages that could not be understood, and names kept for later ([msg.4], [relay.3]).

use crate::cases::prelude::*;

/// Sessions to try it in: one without extensions, and one with all that the adapter has.
fn sessions(t: &mut Trial) -> Outcome<Vec<(Session, bool)>> {
    let core = t.open()?;
    t.quick_turn(&core)?;
    let mut all = vec![(core, false)];
    let known = t.extensions();
    if !known.is_empty() {
        let rich = t.agree_on(&known)?;
        all.push((rich, known.contains(&"turns")));
    }
    // What an adapter says of its own accord at the start has come by then.
    t.settle()?;
    Ok(all)
}

fn ordinary_turn(t: &mut Trial, s: &Session, turns: bool) -> Outcome {
    let quick = t.quick();
    let from = if turns {
        t.input_as(s, "t-last", &quick)?
    } else {
        t.input(s, quick)?
    };
    t.end_of(s, from)?;
    Ok(())
}

pub(super) fn bad_messages(t: &mut Trial) -> Outcome {
    for (s, turns) in sessions(t)? {
        let id = s.id();
        let bad = [
            json!({"session_id":id,"content":"no type"}),
            json!({"type":7,"session_id":id}),
            json!({"type":"user.input","content":"no session"}),
            json!({"type":"user.input","session_id":7,"content":"a number"}),
            json!({"type":"user.input","session_id":id,"content":["a","list"]}),
            json!({"type":"permission.response","session_id":id,"approved":true}),
            json!({"type":"input.response","session_id":id,"values":{}}),
            json!({"type":"file.input","session_id":id,"file_name":"a"}),
            json!({"type":"stop","session_id":{}}),
            json!({"type":"sessions.list","session_id":""}),
        ];
        t.demand_unanswered(&s, "no answer to messages that are bad", |t| {
            bad.iter()
                .try_for_each(|message| t.send_deviant(message.clone()).map(drop))
        })
        .hint("drop what is bad, and say nothing of it on stdout")?;
        ordinary_turn(t, &s, turns)?;
    }
    Ok(())
}
