//! `hystrix.command`: settings of the circuit breakers of Spring Cloud Gateway 2, as those of resilience4j.

use crate::tree::{Additions, is_empty, take};
use tollgate_document::yaml::{Node, NodeKind};

/// Settings of a command, and their places below `resilience4j`, in which `instances.NAME` follows the first step.
const MOVED: [(&[&str], &str, &str); 4] = [
    (&["execution", "isolation", "thread", "timeoutInMilliseconds"], "timelimiter", "timeout-duration"),
    (&["circuitBreaker", "requestVolumeThreshold"], "circuitbreaker", "minimum-number-of-calls"),
    (&["circuitBreaker", "errorThresholdPercentage"], "circuitbreaker", "failure-rate-threshold"),
    (&["circuitBreaker", "sleepWindowInMilliseconds"], "circuitbreaker", "wait-duration-in-open-state"),
];

/// Moves the settings of all commands to `resilience4j`; other settings of Hystrix stay.
pub(super) fn move_to_resilience4j(whole: &mut Node, result: &mut Node) {
    let Some(mut command) = take(whole, &["hystrix", "command"]) else { return };
    let NodeKind::Map(commands) = &mut command.kind else { return };
    let mut result = Additions::to(result);
    for (name, settings) in commands {
        let is_default = name == "default";
        let base: &[&str] = if is_default { &["configs", "default"] } else { &["instances", name.as_str()] };
        for (path, section, key) in MOVED {
            if let Some(mut value) = take(settings, path) {
                if path.last().is_some_and(|name| name.ends_with("InMilliseconds")) {
                    add_unit(&mut value);
                }
                let steps: Vec<&str> = ["resilience4j", section].iter().chain(base).copied().chain([key]).collect();
                result.add(&steps, value);
            }
        }
        if let Some(mut switch) = take(settings, &["execution", "timeout", "enabled"])
            && switch.scalar().is_some()
        {
            switch.kind = NodeKind::Scalar(switch.is_text("false").to_string());
            let steps: &[&str] = if is_default {
                &["resilience4j", "disable-time-limiter"]
            } else {
                &["resilience4j", "disable-time-limiter-map", name.as_str()]
            };
            result.add(steps, switch);
        }
    }
    let rest = take(whole, &["hystrix"]);
    // The remaining settings are reported as skipped.
    if let NodeKind::Map(entries) = &mut whole.kind
        && let Some(left) = [rest, Some(command)].into_iter().flatten().find(|node| !is_empty(node))
    {
        entries.push(("hystrix".to_owned(), left));
    }
}

/// Adds the unit that the name in Hystrix has, and the name in resilience4j lacks.
fn add_unit(value: &mut Node) {
    if let NodeKind::Scalar(text) = &mut value.kind
        && (text.ends_with('}') || text.parse::<u64>().is_ok())
    {
        text.push_str("ms");
    }
}
