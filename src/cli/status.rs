//! `tollgate status`, `health` and `reload`: state and configuration of a running gateway.

use std::process::ExitCode;
use std::time::Duration;

use serde_json::Value;

use crate::cli::admin_client::{AdminClient, CallError, Target, printable, printable_lines, table};
use crate::cli::report::{fail, print, short_hash, string, warnings};

/// Prints the state. The exit code is 0 if the gateway is ready, otherwise 1.
pub(super) fn status(target: &Target) -> ExitCode {
    let client = AdminClient::new(target);
    let parts = || -> Result<(bool, String), CallError> {
        let ready = client.check_ready();
        let is_ready = ready.is_ok();
        let readiness = match ready {
            Ok(()) => "ready".to_owned(),
            Err(CallError::Refused { detail, .. }) => format!("not ready: {detail}"),
            Err(error) => return Err(error),
        };
        let config = client.call("GET", "/api/config", "", "hash")?;
        let upstreams = client.call("GET", "/api/upstreams", "", "endpoints")?;
        let breakers = client.call("GET", "/api/breakers", "", "state")?;
        Ok((is_ready, render(&readiness, &config, &upstreams, &breakers)))
    };
    print(parts())
}

/// Returns an RFC 3339 time without its fractional seconds.
fn whole_seconds(time: &str) -> String {
    time.split_once('.').map_or_else(|| time.to_owned(), |(seconds, _)| format!("{seconds}Z"))
}

/// Describes the store of the limits, and the state of Redis.
fn store(redis: &Value) -> String {
    if redis.is_null() {
        return "memory".to_owned();
    }
    let details = &redis["details"];
    let state = format!(
        "redis {}, {} of {} workers connected",
        string(&redis["status"]).to_lowercase(),
        details["connected"],
        details["workers"]
    );
    match details["error"].as_str().filter(|_| redis["status"] != "UP") {
        Some(error) => format!("{state}: {}", printable(error)),
        None => state,
    }
}

/// Describes a registry: its address, its last response, and its failure since then.
fn registry(registry: &Value) -> String {
    let response = match registry["age-seconds"].as_u64() {
        Some(age) => format!("responded {age}s ago"),
        None => "has not responded".to_owned(),
    };
    let error = registry["error"].as_str().map_or_else(String::new, |error| format!(": {}", printable(error)));
    format!("{}, {response}{error}", printable(registry["server"].as_str().unwrap_or_default()))
}

/// Describes an endpoint: its state, and its failures since the last success.
fn endpoint(endpoint: &Value) -> String {
    let state = format!("{} {}", string(&endpoint["endpoint"]), string(&endpoint["state"]));
    let (failures, last) = (endpoint["consecutive-failures"].as_u64().unwrap_or_default(), &endpoint["last-failure"]);
    if let Some(error) = endpoint["check-error"].as_str() {
        return format!("{state}, health check: {}", printable(error));
    }
    if failures == 0 {
        return state;
    }
    let at = whole_seconds(&string(&last["at"]));
    format!("{state}, {failures} failed in a row, last at {at}: {}", string(&last["error"]))
}

fn render(readiness: &str, config: &Value, upstreams: &Value, breakers: &Value) -> String {
    let file = config["file"].as_str().map_or_else(|| "built in".to_owned(), printable);
    let routes = match config["routes"].as_u64() {
        Some(1) => "1 route".to_owned(),
        _ => format!("{} routes", config["routes"]),
    };
    let mut rows = vec![
        vec!["gateway".to_owned(), format!("tollgate {}, {readiness}", string(&config["version"]))],
        vec!["config".to_owned(), format!("{file}, {routes}, hash {}", short_hash(&config["hash"]))],
        vec![
            "loaded".to_owned(),
            format!(
                "{}, reloads: {} applied, {} failed",
                whole_seconds(&string(&config["loaded-at"])),
                config["reloads"],
                config["failed-reloads"]
            ),
        ],
    ];
    let further: Vec<_> = config["further-files"].as_array().into_iter().flatten().map(string).collect();
    if !further.is_empty() {
        rows.insert(2, vec!["also read".to_owned(), further.join(", ")]);
    }
    if let Some(since) = config["reload-since"].as_str() {
        rows.push(vec!["reload".to_owned(), format!("in progress since {}", whole_seconds(&printable(since)))]);
    }
    let refused = &config["refused-reload"];
    if !refused.is_null() {
        let at = whole_seconds(&string(&refused["at"]));
        rows.push(vec!["refused".to_owned(), format!("{at}, the running configuration stays in use; reasons below")]);
    }
    let settings: Vec<String> = config["needs-restart"].as_array().into_iter().flatten().map(string).collect();
    if !settings.is_empty() {
        rows.push(vec!["restart".to_owned(), format!("needed for {}", settings.join(", "))]);
    }
    if config["access-log-misplaced"] == true {
        let text = "the access log could not be opened again: lines go to a file that was moved; the log says why";
        rows.push(vec!["access log".to_owned(), text.to_owned()]);
    }
    rows.push(vec!["store".to_owned(), store(&config["redis"])]);
    for registry in config["registries"].as_array().into_iter().flatten() {
        rows.push(vec![format!("registry {}", string(&registry["kind"])), self::registry(registry)]);
    }
    for upstream in upstreams.as_array().into_iter().flatten() {
        let endpoints = upstream["endpoints"].as_array().into_iter().flatten();
        let mut name = format!("upstream {}", string(&upstream["name"]));
        let states: Vec<String> = endpoints.map(endpoint).collect();
        // Failures make long texts: if one endpoint has some, each gets its own line.
        let lines = if states.iter().any(|state| state.contains(": ")) { states } else { vec![states.join(", ")] };
        for line in lines {
            rows.push(vec![std::mem::take(&mut name), line]);
        }
    }
    for breaker in breakers.as_array().into_iter().flatten() {
        rows.push(vec![format!("breaker {}", string(&breaker["name"])), string(&breaker["state"])]);
    }
    let reasons = refused["detail"].as_str().map_or_else(String::new, |detail| printable_lines(detail) + "\n");
    table(&rows, &[]) + &reasons + &warnings(config)
}

/// Timeout for connecting and for the response.
const HEALTH_TIMEOUT: Duration = Duration::from_secs(2);

/// Queries the readiness of a gateway.
pub(super) fn health(target: &Target) -> ExitCode {
    match AdminClient::new(target).with_timeout(HEALTH_TIMEOUT).check_ready() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error @ CallError::Refused { .. }) => fail(1, &format!("not ready: {error}")),
        Err(error) => fail(1, &error),
    }
}

/// Reloads the configuration, and prints its warnings, or its errors in the format of `tollgate check`. The exit code is 0
/// if the gateway uses the new configuration, otherwise 1.
pub(super) fn reload(target: &Target) -> ExitCode {
    let response = AdminClient::new(target).call("POST", "/api/reload", "", "hash");
    print(response.map(|response| {
        let mut text = format!("configuration reloaded, hash {}\n", short_hash(&response["hash"]));
        for setting in response["needs-restart"].as_array().into_iter().flatten() {
            text.push_str(&format!("{} takes effect after a restart\n", string(setting)));
        }
        (true, text + &warnings(&response))
    }))
}
