//! `tollgate status` and `tollgate reload`: the state of a running gateway, and the reload of its configuration.

use std::io::{self, Write};
use std::process::ExitCode;

use serde_json::Value;

use crate::cli::admin_client::{AdminClient, CallError, Target, printable, table};

/// Prints the state. The exit code is 0 if the gateway is ready, otherwise 1.
pub(super) fn status(target: &Target) -> ExitCode {
    let client = AdminClient::new(target);
    let parts = || -> Result<(bool, String), CallError> {
        let ready = client.call("GET", "/health/ready", "");
        let is_ready = ready.is_ok();
        let readiness = match ready {
            Ok(_) => "ready".to_owned(),
            Err(CallError::Refused { detail, .. }) => format!("not ready: {detail}"),
            Err(error) => return Err(error),
        };
        let config = client.call("GET", "/api/config", "")?;
        let upstreams = client.call("GET", "/api/upstreams", "")?;
        let breakers = client.call("GET", "/api/breakers", "")?;
        Ok((is_ready, render(&readiness, &config, &upstreams, &breakers)))
    };
    print(parts())
}

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

fn print(result: Result<(bool, String), CallError>) -> ExitCode {
    match result {
        Ok((is_good, text)) => {
            let written = io::stdout().lock().write_all(text.as_bytes());
            ExitCode::from(u8::from(!is_good || written.is_err()))
        }
        Err(error) => {
            eprintln!("tollgate: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Returns a time of RFC 3339 without the fraction of its second.
fn whole_seconds(time: &str) -> String {
    time.split_once('.').map_or_else(|| time.to_owned(), |(seconds, _)| format!("{seconds}Z"))
}

fn render(readiness: &str, config: &Value, upstreams: &Value, breakers: &Value) -> String {
    let file = config["file"].as_str().map_or_else(|| "built in".to_owned(), printable);
    let routes = match config["routes"].as_u64() {
        Some(1) => "1 route".to_owned(),
        _ => format!("{} routes", config["routes"]),
    };
    let mut rows = vec![
        vec!["gateway".to_owned(), format!("tollgate {}, {readiness}", string(&config["version"]))],
        vec!["config".to_owned(), format!("{file}, {routes}, hash {}", short(&config["hash"]))],
        vec![
            "loaded".to_owned(),
            format!(
                "{}, {} reloads, {} failed",
                whole_seconds(&string(&config["loaded-at"])),
                config["reloads"],
                config["failed-reloads"]
            ),
        ],
    ];
    for upstream in upstreams.as_array().into_iter().flatten() {
        let endpoints = upstream["endpoints"].as_array().into_iter().flatten();
        let states =
            endpoints.map(|endpoint| format!("{} {}", string(&endpoint["endpoint"]), string(&endpoint["state"])));
        rows.push(vec![format!("upstream {}", string(&upstream["name"])), states.collect::<Vec<_>>().join(", ")]);
    }
    for breaker in breakers.as_array().into_iter().flatten() {
        rows.push(vec![format!("breaker {}", string(&breaker["name"])), string(&breaker["state"])]);
    }
    table(&rows, &[]) + &warnings(config)
}

/// Returns the warnings and notes of a configuration, one a line.
fn warnings(config: &Value) -> String {
    let lines = config["warnings"].as_array().into_iter().flatten().map(|warning| {
        let [severity, file, message] = ["severity", "file", "message"].map(|name| string(&warning[name]));
        format!("{file}:{}:{}: {severity}: {message}\n", warning["line"], warning["column"])
    });
    lines.collect()
}

fn string(value: &Value) -> String {
    printable(value.as_str().unwrap_or_default())
}

/// First digits of a hash.
fn short(hash: &Value) -> String {
    string(hash).chars().take(12).collect()
}
