//! Settings of older versions, at the places of later ones: `hystrix.command`, the circuit breakers of Spring Cloud Gateway 2;
//! `NAME.ribbon.listOfServers`, fixed servers of a service in Spring Cloud up to Hoxton; and the names of traces.

use crate::comma_lists::items;
use crate::tree::{Additions, add, find, is_empty, take};
use tollgate_document::yaml::key::same_name;
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

/// Registries. If the file uses one, lists of servers count only for services that name [`FIXED`].
const REGISTRIES: [&str; 4] = ["consul", "eureka", "kubernetes", "nacos"];
/// End of the class that reads the servers from the file.
const FIXED: &str = "ConfigurationBasedServerList";
/// Section of the instances.
const INSTANCES: [&str; 4] = ["discovery", "client", "simple", "instances"];

/// Moves the lists of servers to `result`. Other settings of Ribbon stay.
pub(super) fn move_servers(whole: &mut Node, result: &mut Node) {
    let has_registry = REGISTRIES.iter().any(|name| find(result, &[name]).is_some());
    let NodeKind::Map(sections) = &mut whole.kind else { return };
    let mut result = Additions::to(result);
    for (name, section) in sections.iter_mut() {
        let class = find(section, &["ribbon", "NIWSServerListClassName"]);
        let is_fixed = class.and_then(|node| node.scalar()).is_some_and(|name| name.trim().ends_with(FIXED));
        let is_secure = find(section, &["ribbon", "IsSecure"]).is_some_and(|node| node.is_text("true"));
        let instances_path = [&INSTANCES[..], &[name.as_str()]].concat();
        if has_registry && !is_fixed || result.has(&instances_path) {
            continue;
        }
        let Some(list) = take(section, &["ribbon", "listOfServers"]) else { continue };
        let Some(servers) = list.scalar() else { continue };
        let scheme = if is_secure { "https" } else { "http" };
        let instances = items(servers).into_iter().filter(|server| !server.is_empty()).map(|server| {
            let uri = if server.contains("://") { server.to_owned() } else { format!("{scheme}://{server}") };
            let uri = Node { span: list.span.again(), kind: NodeKind::Scalar(uri) };
            Node { span: list.span.again(), kind: NodeKind::Map(vec![("uri".to_owned(), uri)]) }
        });
        let kind = NodeKind::Seq(instances.collect());
        result.add(&instances_path, Node { kind, span: list.span });
    }
    let is_ribbon = |section: &Node| section.step("ribbon").is_some();
    sections.retain(|(name, section)| same_name(name, "spring") || !is_ribbon(section) || !is_empty(section));
}

/// Settings and their older names. Those of later ones win.
const RENAMED: [(&[&str], &[&str]); 4] = [
    (&["opentelemetry", "tracing", "export", "otlp"], &["otlp", "tracing"]),
    (&["tracing", "export", "enabled"], &["tracing", "enabled"]),
    (&["tracing", "export", "otlp", "enabled"], &["tracing", "enabled"]),
    (&["otlp", "tracing", "export", "enabled"], &["tracing", "enabled"]),
];

/// Renames the settings of traces in the section `management` of `root`.
pub(super) fn rename_traces(root: &mut Node) {
    let Some(management) = find(root, &["management"]) else { return };
    for (from, to) in RENAMED {
        let Some(value) = take(management, from) else { continue };
        // Sections without another setting go, too.
        for end in (1..from.len()).rev() {
            if find(management, &from[..end]).is_some_and(|section| is_empty(section)) {
                take(management, &from[..end]);
            }
        }
        add(management, to, value);
    }
}
