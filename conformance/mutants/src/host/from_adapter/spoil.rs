//! Faults of a broken host in lines that concern no session.

use trunkline_conformance_mutants::json::session_named_in;

use crate::message::Message;
use crate::relay::Relay;
use crate::schema::ExtensionSet;
use crate::switches::{Mutant::*, broken};

impl Relay {
    pub(super) fn spoil_by_noise(&mut self, number: u64, bytes: &[u8]) {
        let Some(process) = self.processes.get(&number) else {
            return;
        };
        if broken(NoiseFatal) || broken(BannerFatal) && !process.spoke {
            process.signal(nix::sys::signal::Signal::SIGKILL);
        }
        let ids: Vec<String> = process.wire.values().cloned().collect();
        let told = broken(NoiseTold) || broken(BlankReported) && bytes.is_empty();
        for id in ids {
            let text = String::from_utf8_lossy(bytes).into_owned();
            self.with(&id, |relay, session| {
                if told {
                    relay.report(session, "protocol", &text);
                } else if broken(NoiseToldCore) && session.hub == ExtensionSet::CORE {
                    relay.say_text(session, "stdout", &text);
                }
            });
        }
    }

    pub(super) fn spoil_by_bad(&self, number: u64, bytes: &[u8]) {
        let text = String::from_utf8_lossy(bytes);
        if let Some(process) = self.processes.get(&number)
            && (broken(BadRequestApproved) || broken(BadRequestDenied))
            && text.contains("permission.request")
            && let Some(session) = session_named_in(bytes)
        {
            let id = text
                .split_once("\"request_id\"")
                .and_then(|(_, rest)| rest.split('"').nth(1).map(str::to_owned))
                .unwrap_or_default();
            let answer = Message::down("permission.response", &session)
                .with("request_id", &id)
                .with_raw(
                    "approved",
                    if broken(BadRequestApproved) {
                        "true"
                    } else {
                        "false"
                    },
                );
            process.stdin.push(answer.encode(ExtensionSet::CORE));
        }
    }

    pub(super) fn spoil_by_stranger(&mut self, number: u64, message: &Message) {
        if let Some(process) = self.processes.get(&number)
            && broken(UnknownRequestApproved)
            && let Some(id) = message.raw("request_id")
        {
            let answer = Message::down("permission.response", &message.session)
                .with_raw("request_id", id)
                .with_raw("approved", "true");
            process.stdin.push(answer.encode(ExtensionSet::CORE));
        }
        if broken(ClosedIdDelivered)
            && let Some((key, hub)) = self.forgotten.get(&message.session)
        {
            self.hub.push(*key, message.encode(*hub));
        }
    }
}
