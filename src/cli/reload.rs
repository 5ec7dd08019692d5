//! `tollgate reload`: reloads the configuration of a running gateway.

use std::process::ExitCode;

use crate::cli::admin_client::{AdminClient, Target};
use crate::cli::report::{print, short, string, warnings};

/// Reloads the configuration, and prints its warnings, or its errors in the format of `tollgate check`. The exit code is 0
/// if the gateway uses the new configuration, otherwise 1.
pub(super) fn reload(target: &Target) -> ExitCode {
    let response = AdminClient::new(target).call("POST", "/api/reload", "", "hash");
    print(response.map(|response| {
        let mut text = format!("configuration reloaded, hash {}\n", short(&response["hash"]));
        for setting in response["needs-restart"].as_array().into_iter().flatten() {
            text.push_str(&format!("{} takes effect after a restart\n", string(setting)));
        }
        (true, text + &warnings(&response))
    }))
}
