//! The organisation's policies.

use trunkline_host::config::{AgentConfig, Config, Organisation};

use super::report::{Check, Code};

/// The policies that count, and what is reported of them.
pub(super) fn find(config: &Config) -> (Vec<Organisation>, Vec<Check>) {
    match Organisation::of_this_machine(config.policy.as_deref()) {
        Ok(policies) => {
            let told = |policy: &Organisation| {
                Check::new(Code::PolicyApplied, policy.path().to_string_lossy())
            };
            let told = policies.iter().map(told).collect();
            (policies, told)
        }
        Err(error) => {
            let check = Check::new(Code::PolicyUnreadable, format!("failed to {error}"))
                .hint("correct the policy, or `runtime.policy`; no agent is run before");
            (Vec::new(), vec![check])
        }
    }
}

/// Applies them to an agent: what they took, or that they forbid it.
pub(super) fn narrow(
    policies: &[Organisation],
    agent: &mut AgentConfig,
) -> Result<Vec<Check>, Vec<Check>> {
    let mut checks = Vec::new();
    for policy in policies {
        let by = format!("policy {}", policy.path().display());
        match policy.narrow(agent) {
            Ok(said) => {
                checks.extend(
                    said.iter()
                        .map(|said| Check::new(Code::PolicyNarrowed, said).detail(&by)),
                );
            }
            Err(error) => {
                let refused =
                    Check::new(Code::PolicyRefused, format!("failed to {error}")).detail(by);
                return Err(vec![
                    refused.hint("change the agent's entry to what the policy allows"),
                ]);
            }
        }
    }
    Ok(checks)
}
