use std::sync::Arc;

use serde_json::json;

use super::*;
use crate::{history::Intent, wire::Parsed};

/// A history of one session `u`, which is `l` below.
struct Story(Vec<Record>);

impl Story {
    fn begin() -> Self {
        let mut story = Self(Vec::new());
        story.host(
            PipePair::Upper,
            &json!({"type":"session.start","session_id":"u"}),
        );
        story.host(
            PipePair::Lower(1),
            &json!({"type":"session.start","session_id":"l"}),
        );
        let content = json!({"$stub":[],"as":"u"}).to_string();
        story.host(
            PipePair::Lower(1),
            &json!({"type":"user.input","session_id":"l","content":content}),
        );
        story
    }

    fn add(&mut self, link: PipePair, event: RecordedEvent) {
        let at = Duration::from_millis(self.0.len() as u64);
        self.0.push(Record { at, link, event });
    }

    fn host(&mut self, link: PipePair, message: &Value) -> &mut Self {
        let bytes = wire::line_of(message);
        let parsed = Arc::new(Parsed::parse(&bytes[..bytes.len() - 1]));
        self.add(
            link,
            RecordedEvent::Host {
                bytes: bytes.into(),
                parsed,
                intent: Intent::Valid,
            },
        );
        self
    }

    fn adapter(&mut self, link: PipePair, message: &Value) -> &mut Self {
        let bytes = message.to_string().into_bytes();
        let parsed = Arc::new(Parsed::parse(&bytes));
        self.add(
            link,
            RecordedEvent::Adapter {
                bytes: bytes.into(),
                parsed,
                ended: true,
                intent: Intent::Valid,
            },
        );
        self
    }

    fn stub(&mut self, content: &str) -> &mut Self {
        self.adapter(
            PipePair::Lower(1),
            &json!({"type":"output","session_id":"l","content":content}),
        )
    }

    fn hub(&mut self, content: &str) -> &mut Self {
        self.adapter(
            PipePair::Upper,
            &json!({"type":"output","session_id":"u","content":content}),
        )
    }

    fn fence(&mut self) -> &mut Self {
        let upto = self.0.len();
        self.add(PipePair::Upper, RecordedEvent::Note("fence".to_owned()));
        self.add(PipePair::Upper, RecordedEvent::Fence { upto });
        self
    }

    /// Grounds of the findings if the case was cut.
    fn grounds_if_cut(&self) -> Vec<EvidenceGround> {
        let mut judgement = OracleJudgement::default();
        judge(&self.0, HistoryEnd::Cut, &mut judgement);
        let findings = judgement.findings.iter();
        findings.map(|finding| finding.ground).collect()
    }

    fn faults(&self) -> usize {
        let mut judgement = OracleJudgement::default();
        judge(&self.0, HistoryEnd::AtRest, &mut judgement);
        judgement.findings.len()
    }
}

#[test]
fn the_same_text_in_other_pieces_is_delivered() {
    let mut story = Story::begin();
    story
        .stub("ab")
        .stub("")
        .stub("cd")
        .hub("a")
        .hub("bc")
        .hub("")
        .hub("d")
        .fence();
    assert_eq!(story.faults(), 0);
}

#[test]
fn what_is_lost_swapped_changed_or_invented_is_found() {
    for given in [
        &["a"][..],
        &["b", "a"],
        &["a", "B"],
        &["a", "b", "c"],
        &["b"],
        &["a", "a", "b"],
    ] {
        let mut story = Story::begin();
        story.stub("a").stub("b");
        for content in given {
            story.hub(content);
        }
        story.fence();
        assert_eq!(story.faults(), 1, "{given:?}");
    }
}

#[test]
fn what_came_after_the_last_fence_may_be_on_its_way() {
    let mut story = Story::begin();
    story.stub("a").hub("a").fence().stub("b");
    assert_eq!(story.faults(), 0);
    story.fence();
    assert_eq!(story.faults(), 1);
}

#[test]
fn a_close_drops_what_was_on_its_way_and_nothing_before() {
    let mut story = Story::begin();
    story.stub("a").stub("b").hub("a");
    story.host(
        PipePair::Lower(1),
        &json!({"type":"session.close","session_id":"l"}),
    );
    story.fence();
    assert_eq!(story.faults(), 0);
    let mut story = Story::begin();
    story.stub("a").stub("b").hub("b");
    story.host(
        PipePair::Lower(1),
        &json!({"type":"session.close","session_id":"l"}),
    );
    story.fence();
    assert_eq!(story.faults(), 1);
}

#[test]
fn what_is_said_after_the_close_goes_nowhere() {
    let mut story = Story::begin();
    story.host(
        PipePair::Lower(1),
        &json!({"type":"session.close","session_id":"l"}),
    );
    story.stub("late").hub("late").fence();
    assert_eq!(story.faults(), 1);
}

#[test]
fn system_is_left_out() {
    let mut story = Story::begin();
    story.adapter(
        PipePair::Upper,
        &json!({"type":"output","session_id":"u","channel":"system","content":"a file was refused"}),
    );
    story.fence();
    assert_eq!(story.faults(), 0);
}

#[test]
fn bursts_and_digests_stand_for_their_texts() {
    let long = "y".repeat(5_000);
    let burst = json!({"ev":"burst","from":1,"count":2,"size":10});
    let digest = json!({"ev":"out","bytes":5_100,"len":5_000,
        "sha256":Sha256::hash(long.as_bytes()).iter().map(|b| format!("{b:02x}")).collect::<String>()});
    for (given, faults) in [
        (["00000001xx00000002xx", &long], 0),
        (["00000001xx00000003xx", &long], 1),
    ] {
        let mut story = Story::begin();
        for summary in [&burst, &digest] {
            let message = json!({"type":"output","session_id":"l","content":"","$summary":summary});
            story.adapter(PipePair::Lower(1), &message);
        }
        story.hub(given[0]).hub(given[1]).fence();
        assert_eq!(story.faults(), faults);
    }
}

#[test]
fn the_rest_of_a_burst_may_be_missing_from_the_log_of_a_cut_case() {
    let burst = json!({"ev":"burst","from":1,"count":1,"size":10});
    let message = json!({"type":"output","session_id":"l","content":"","$summary":burst});
    let mut story = Story::begin();
    story.adapter(PipePair::Lower(1), &message);
    story.hub("00000001xx").hub("00000002xx");
    assert_eq!(story.grounds_if_cut(), [EvidenceGround::Late]);
    // Single outputs are logged before the next one is written.
    story.stub("a").hub("ab");
    assert_eq!(story.grounds_if_cut(), [EvidenceGround::Seen]);
}
