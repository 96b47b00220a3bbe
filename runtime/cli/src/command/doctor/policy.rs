//! The organisation's policies.

use trunkline_host::config::{AgentConfig, Config, Organisation};

use super::report::{Check, CheckCode};

/// Reads the policies that apply, and reports them.
pub(super) fn find(config: &Config) -> (Vec<Organisation>, Vec<Check>) {
    match Organisation::of_this_machine(config.policy.as_deref()) {
        Ok(policies) => {
            let told = |policy: &Organisation| {
                Check::new(CheckCode::PolicyApplied, policy.path().to_string_lossy())
            };
            let told = policies.iter().map(told).collect();
            (policies, told)
        }
        Err(error) => {
            let check = Check::new(CheckCode::PolicyUnreadable, format!("failed to {error}"))
                .hint("correct the policy, or `runtime.policy`; no agent runs until then");
            (Vec::new(), vec![check])
        }
    }
}

/// Applies the policies to an agent. Reports the removed rights, or the refusal.
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
                        .map(|said| Check::new(CheckCode::PolicyNarrowed, said).detail(&by)),
                );
            }
            Err(error) => {
                let refused =
                    Check::new(CheckCode::PolicyRefused, format!("failed to {error}")).detail(by);
                return Err(vec![
                    refused.hint("change the agent's entry to what the policy allows"),
                ]);
            }
        }
    }
    Ok(checks)
}
