//! `tollgate reload`: reloads the configuration of a running gateway.

use std::process::ExitCode;

use crate::cli::admin_client::{AdminClient, Target};
use crate::cli::report::{print, short, string, warnings};

/// Reloads the configuration and prints warnings, or the problems as `tollgate check` does. The exit code is 0 if the
/// configuration was applied, otherwise 1.
pub(super) fn reload(target: &Target) -> ExitCode {
    let answer = AdminClient::new(target).call("POST", "/api/reload", "");
    print(answer.map(|answer| {
        let mut text = format!("configuration reloaded, hash {}\n", short(&answer["hash"]));
        for setting in answer["needs-restart"].as_array().into_iter().flatten() {
            text.push_str(&format!("{} takes effect after a restart\n", string(setting)));
        }
        (true, text + &warnings(&answer))
    }))
}
