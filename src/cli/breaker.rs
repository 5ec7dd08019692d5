//! `tollgate breaker`: forces the state of a circuit breaker in a running gateway.

use std::process::ExitCode;

use clap::{Args, ValueEnum};
use serde_json::json;

use crate::cli::admin_client::{AdminClient, Target, encoded};
use crate::cli::report::{duration, print, string};

/// Forced state of a circuit breaker.
#[derive(Debug, Args)]
pub(super) struct Breaker {
    /// Name of the circuit breaker, as `status` prints it
    name: String,
    /// Force this state
    #[arg(long, value_name = "STATE", requires = "time", required_unless_present = "end")]
    force: Option<State>,
    /// Duration of the forced state, such as 15m
    #[arg(long = "for", value_name = "TIME")]
    time: Option<String>,
    /// End the forced state now
    #[arg(long, conflicts_with_all = ["force", "time"])]
    end: bool,
    #[command(flatten)]
    target: Target,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum State {
    /// No call reaches the upstream: clients get the fallback or 503
    Open,
    /// Every call reaches the upstream
    Closed,
}

impl State {
    fn as_str(self) -> &'static str {
        match self {
            Self::Open => "open",
            Self::Closed => "closed",
        }
    }
}

/// Forces the state or ends the forced one, and prints the state. The exit code is 0, or 1 if the gateway does not respond
/// or refuses.
pub(super) fn run(breaker: &Breaker) -> ExitCode {
    let client = AdminClient::new(&breaker.target);
    let path = format!("/api/breakers/{}", encoded(&breaker.name));
    let response = match breaker.force {
        Some(state) => {
            let body = json!({"state": state.as_str(), "expires-in": breaker.time});
            client.call("PUT", &path, &body.to_string(), "state")
        }
        None => client.call("DELETE", &path, "", "state"),
    };
    print(response.map(|breaker| {
        let (name, state, forced) = (string(&breaker["name"]), string(&breaker["state"]), &breaker["forced-for-ms"]);
        let rest = if forced.is_null() { String::new() } else { format!(", forced for {}", duration(forced)) };
        (true, format!("{name}: {state}{rest}\n"))
    }))
}
