//! The organisation's policies.

use trunkline_host::config::{AgentConfig, Config, Organisation};

use super::report::{CheckCode, DoctorCheck};

/// Reads the policies that apply, and reports them.
pub(super) fn find_policies(config: &Config) -> (Vec<Organisation>, Vec<DoctorCheck>) {
    match Organisation::of_this_machine(config.policy.as_deref()) {
        Ok(policies) => {
            let told = |policy: &Organisation| {
                CheckCode::PolicyApplied.check(policy.path().to_string_lossy())
            };
            let told = policies.iter().map(told).collect();
            (policies, told)
        }
        Err(error) => {
            let check = CheckCode::PolicyUnreadable
                .check(format!("failed to {error}"))
                .hint("correct the policy, or `runtime.policy`; no agent runs until then");
            (Vec::new(), vec![check])
        }
    }
}

/// Applies the policies to an agent. Reports the removed rights, or the refusal.
pub(super) fn apply_policies(
    policies: &[Organisation],
    agent: &mut AgentConfig,
) -> Result<Vec<DoctorCheck>, Vec<DoctorCheck>> {
    let mut checks = Vec::new();
    for policy in policies {
        let by = format!("policy {}", policy.path().display());
        match policy.narrow(agent) {
            Ok(said) => {
                checks.extend(
                    said.iter()
                        .map(|said| CheckCode::PolicyNarrowed.check(said).detail(&by)),
                );
            }
            Err(error) => {
                let refused = CheckCode::PolicyRefused
                    .check(format!("failed to {error}"))
                    .detail(by);
                return Err(vec![
                    refused.hint("change the agent's entry to what the policy allows"),
                ]);
            }
        }
    }
    Ok(checks)
}
