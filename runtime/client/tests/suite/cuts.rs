//! A dialogue whose connection breaks at each of its bytes.

use std::{
    collections::{HashSet, VecDeque},
    sync::{Arc, Mutex},
    time::Duration,
};

use tokio::time::timeout;
use trunkline_client::{
    Client, Event, EventBody, Events,
    protocol::{
        AdapterBody, PermissionResponse, RelayBody, RequestId, SessionStart, SessionUpdate, Status,
    },
};

use super::journal::{Cut, Journal, Journaled};

/// Reads events until one is of this kind.
async fn until(events: &mut Events, all: &mut Vec<Event>, is: impl Fn(&Event) -> bool) {
    loop {
        let event = events.next().await.unwrap().expect("the session has more");
        let found = is(&event);
        all.push(event);
        if found {
            return;
        }
    }
}

fn is_request(event: &Event) -> bool {
    matches!(
        event.body,
        EventBody::Adapter(AdapterBody::PermissionRequest(_))
    )
}

/// Everything a client does, once. Returns the events, and the bytes of both directions.
async fn talk(cuts: &[Cut]) -> (Vec<Event>, (usize, usize)) {
    let journal = Arc::new(Mutex::new(Journal::default()));
    let host = Journaled {
        journal: journal.clone(),
        cuts: cuts.iter().copied().collect::<VecDeque<_>>(),
    };
    let client = Client::connect(host).await.unwrap();
    let (session, mut events) = client.open(SessionStart::default()).await.unwrap();
    let mut all = Vec::new();

    let mut first = session.send("hello").await.unwrap();
    let mut second = session.send("again").await.unwrap();
    assert_eq!(
        first.end().await.unwrap().status_or_completed(),
        Status::Completed
    );
    assert!(second.accepted().await.unwrap().seq > first.accepted().await.unwrap().seq);

    let mut third = session.send("ask").await.unwrap();
    until(&mut events, &mut all, is_request).await;
    assert!(all.last().unwrap().awaits_answer);
    let approval = PermissionResponse::new(RequestId::new("r").unwrap(), true);
    session.answer_permission(approval).await.unwrap();
    third.end().await.unwrap();

    let mut fourth = session.send("wait").await.unwrap();
    let id = fourth.accepted().await.unwrap().turn_id;
    assert!(session.steer(id, "faster").await.unwrap().delivered);
    fourth.stop().await.unwrap();
    assert_eq!(fourth.end().await.unwrap().status, Some(Status::Stopped));

    let update = SessionUpdate {
        model: Some("m".to_owned()),
        ..SessionUpdate::default()
    };
    let info = session.update(update).await.unwrap();
    assert_eq!(info.model.as_deref(), Some("m"));
    session.close().await.unwrap();
    while let Some(event) = events.next().await.unwrap() {
        all.push(event);
    }
    let bytes = journal.lock().unwrap().bytes;
    client.close().await;

    let journal = journal.lock().unwrap();
    assert!(journal.is_closed && journal.updates >= 1);
    let lines: Vec<_> = journal.entries.iter().map(ToString::to_string).collect();
    let entries = all.iter().filter(|event| event.stamp.seq.is_some());
    let read: Vec<_> = entries.map(|event| event.line().to_owned()).collect();
    assert_eq!(read, lines, "each entry once, in order");
    let mut inputs = HashSet::new();
    for event in &all {
        if let EventBody::Relay(RelayBody::TurnBegin(begin)) = &event.body {
            assert!(inputs.insert(begin.message_id.clone()), "{begin:?}");
        }
    }
    assert_eq!(inputs.len(), 4, "each input once");
    (all, bytes)
}

async fn in_time(cuts: &[Cut], what: &str) -> (Vec<Event>, (usize, usize)) {
    timeout(Duration::from_secs(300), talk(cuts))
        .await
        .unwrap_or_else(|_| panic!("the client hangs, {what}"))
}

#[tokio::test(start_paused = true)]
async fn a_connection_that_breaks_at_any_byte_of_the_client_loses_and_doubles_nothing() {
    let (_, (read, _)) = in_time(&[], "uncut").await;
    assert!(read > 1000, "{read}");
    for at in 1..read {
        let cut = Cut {
            read: Some(at),
            written: None,
        };
        in_time(&[cut], &format!("cut after {at} bytes of the client")).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_connection_that_breaks_at_any_byte_of_the_host_loses_and_doubles_nothing() {
    let (_, (_, written)) = in_time(&[], "uncut").await;
    assert!(written > 1000, "{written}");
    for at in 0..written {
        let cut = Cut {
            read: None,
            written: Some(at),
        };
        in_time(&[cut], &format!("cut after {at} bytes of the host")).await;
    }
}

#[tokio::test(start_paused = true)]
async fn connections_that_break_one_after_another_lose_and_double_nothing() {
    for step in [150, 400, 700, 1100] {
        let cuts: Vec<_> = (1..8)
            .flat_map(|number| {
                [
                    Cut {
                        read: Some(number * step),
                        written: None,
                    },
                    Cut {
                        read: None,
                        written: Some(number * step),
                    },
                ]
            })
            .collect();
        in_time(&cuts, &format!("cut each {step} bytes")).await;
    }
}
