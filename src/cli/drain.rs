//! `tollgate drain` and `tollgate breaker`: temporary changes of endpoints and circuit breakers of a running gateway.

use std::process::ExitCode;
use std::thread::sleep;
use std::time::Duration;

use clap::{Args, ValueEnum};
use serde_json::{Value, json};

use crate::cli::admin_client::{AdminClient, CallError, Target, encoded, table};
use crate::cli::report::{duration, heading, print, string};

/// Time between two looks at the requests in flight.
const POLL: Duration = Duration::from_millis(500);

/// Drain of an endpoint.
#[derive(Debug, Args)]
pub(super) struct Drain {
    /// Name of the upstream, as `status` prints it
    upstream: String,
    /// Endpoint, as `status` prints it
    endpoint: String,
    /// Duration of the drain, such as 15m
    #[arg(long = "for", value_name = "TIME", required_unless_present = "end")]
    time: Option<String>,
    /// Drain the last endpoint too: clients get 503
    #[arg(long)]
    allow_last: bool,
    /// Wait until the endpoint has no request in flight; the exit code is 1 if the drain ends before
    #[arg(long)]
    wait: bool,
    /// End the drain now
    #[arg(long, conflicts_with_all = ["time", "allow_last", "wait"])]
    end: bool,
    #[command(flatten)]
    target: Target,
}

/// Drains the endpoint or ends its drain, and prints the endpoints of the upstream. The exit code is 0, or 1 if the gateway
/// does not respond or refuses.
pub(super) fn run(drain: &Drain) -> ExitCode {
    let client = AdminClient::new(&drain.target);
    let upstream = drain.call(&client).and_then(|upstream| if drain.wait { drain.wait(&client) } else { Ok(upstream) });
    print(upstream.map(|upstream| (!drain.wait || drain.in_flight(&upstream) == Some(0), render(&upstream))))
}

impl Drain {
    /// Sends the change. Returns the upstream afterwards.
    fn call(&self, client: &AdminClient) -> Result<Value, CallError> {
        let path = format!("/api/upstreams/{}/drains/{}", encoded(&self.upstream), encoded(&self.endpoint));
        if self.end {
            return client.call("DELETE", &path, "", "endpoints");
        }
        let mut body = json!({"expires-in": self.time});
        if self.allow_last {
            body["allow-last"] = json!(true);
        }
        client.call("PUT", &path, &body.to_string(), "endpoints").map_err(in_options)
    }

    /// Waits until the endpoint has no request in flight, or is no longer drained. Returns the upstream.
    fn wait(&self, client: &AdminClient) -> Result<Value, CallError> {
        loop {
            let upstreams = client.call("GET", "/api/upstreams", "", "endpoints")?;
            let mut upstreams = upstreams.as_array().into_iter().flatten();
            let upstream = upstreams.find(|it| it["name"] == *self.upstream).cloned().unwrap_or_default();
            if self.in_flight(&upstream).is_none_or(|count| count == 0) {
                return Ok(upstream);
            }
            sleep(POLL);
        }
    }

    /// Returns the requests in flight at the endpoint; `None` if it is not drained.
    fn in_flight(&self, upstream: &Value) -> Option<u64> {
        let mut endpoints = upstream["endpoints"].as_array()?.iter();
        let endpoint = endpoints.find(|it| it["endpoint"] == *self.endpoint)?;
        endpoint["drained-for-ms"].as_u64()?;
        endpoint["in-flight"].as_u64()
    }
}

/// Replaces members of the body in the message by options.
fn in_options(error: CallError) -> CallError {
    match error {
        CallError::Refused { status, detail, has_token } => {
            let detail = detail.replace("\"allow-last\": true", "--allow-last");
            CallError::Refused { status, detail, has_token }
        }
        error => error,
    }
}

/// Returns the endpoints as a table.
fn render(upstream: &Value) -> String {
    let mut rows = vec![heading(["ENDPOINT", "STATE", "IN FLIGHT", "DRAINED FOR"])];
    for endpoint in upstream["endpoints"].as_array().into_iter().flatten() {
        let drained = &endpoint["drained-for-ms"];
        rows.push(vec![
            string(&endpoint["endpoint"]),
            string(&endpoint["state"]),
            endpoint["in-flight"].to_string(),
            if drained.is_null() { String::new() } else { duration(drained) },
        ]);
    }
    table(&rows, &[2])
}

/// Forced state of a circuit breaker.
#[derive(Debug, Args)]
pub(super) struct Breaker {
    /// Name of the circuit breaker, as `status` prints it
    name: String,
    /// Force this state
    #[arg(long, value_name = "STATE", requires = "time", required_unless_present = "end")]
    force: Option<ForcedState>,
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
enum ForcedState {
    /// No call reaches the upstream: clients get the fallback or 503
    Open,
    /// Every call reaches the upstream
    Closed,
}

/// Forces the state or ends the forced one, and prints the state. The exit code is 0, or 1 if the gateway does not respond
/// or refuses.
pub(super) fn force(breaker: &Breaker) -> ExitCode {
    let client = AdminClient::new(&breaker.target);
    let path = format!("/api/breakers/{}", encoded(&breaker.name));
    let response = match breaker.force {
        Some(state) => {
            let state = state.to_possible_value().map(|value| value.get_name().to_owned());
            let body = json!({"state": state, "expires-in": breaker.time});
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
