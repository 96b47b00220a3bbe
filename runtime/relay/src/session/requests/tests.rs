use trunkline_protocol::RequestId;

use super::{HubInformed, Requests, SETTLED};

fn id(text: &str) -> RequestId {
    RequestId::new(text).unwrap()
}

#[test]
fn withdrawn_requests_are_forgotten_after_a_bound_and_their_ids_are_never_given_again() {
    let mut requests = Requests::default();
    let mut given = std::collections::HashSet::new();
    let rounds = 4 * SETTLED;
    for round in 0..rounds {
        // The adapter uses four ids again and again, one of them in the form of the relay's own.
        let own = id(["r", "r~1", "q", "q~4096"][round % 4]);
        assert!(
            given.insert(requests.ask(&own, None, ())),
            "the hub may still answer the first of this id"
        );
        assert!(requests.withdraw(&own, HubInformed::No).is_some());
        assert!(requests.pending.len() <= SETTLED && requests.settled.len() <= SETTLED);
    }
    assert!(requests.hub_ids.is_empty());
    for hub in given {
        assert_eq!(
            requests.answered(&hub),
            None,
            "a late answer answers nothing"
        );
    }
    assert!(requests.pending.is_empty());
}

#[test]
fn a_request_of_the_same_id_as_a_settled_one_is_answered_by_its_own_name() {
    let mut requests = Requests::default();
    let own = id("r");
    let first = requests.ask(&own, None, 1);
    requests.withdraw(&own, HubInformed::No);
    let second = requests.ask(&own, None, 2);
    assert_eq!(first, own);
    assert_eq!(
        (requests.answered(&first), requests.answered(&second)),
        (None, Some(2))
    );
    assert_eq!(requests.ask(&own, None, 3), own, "both are gone");
    assert_eq!(requests.withdraw(&own, HubInformed::Yes), Some(own));
}
