//! Names of upstreams in `tollgate check`: the resolver of the system is asked for each.

use std::collections::HashSet;
use std::io;
use std::net::IpAddr;
use std::time::Duration;

use futures_util::future::join_all;
use tokio::time::{Instant, timeout_at};

use crate::cli::connect::{Problem, report};
use tollgate_config::{Config, Diagnostics, EndpointSource, Route, Target};
use tollgate_proxy::upstream::proxy::applies_to;

/// Time for all names.
const TIMEOUT: Duration = Duration::from_secs(2);
/// Advice for a name that is known elsewhere.
const ADVICE: &str = "correct the name; `--offline` skips this check where names of the gateway's network are unknown";

/// Host of an upstream, with the first port at which the file names it.
type Name = (String, u16);

/// Looks up each name of an upstream that the gateway would look up. Adds a warning for each without an address.
pub(super) fn check(config: &Config, diagnostics: &mut Diagnostics) {
    let names = names(config);
    if names.is_empty() {
        return;
    }
    let look_up = |host: String| async move { tokio::net::lookup_host((host, 0)).await.map(drop) };
    report(problems(names, look_up), diagnostics);
}

/// Returns the names that the gateway resolves itself, each once. Services of `lb://` have names in registries or in DNS, and
/// `httpclient.proxy` resolves the names of its upstreams.
fn names(config: &Config) -> Vec<Name> {
    let mut seen = HashSet::new();
    let proxy = config.http_client.proxy.as_deref();
    let hosts = config.routes.iter().flat_map(hosts);
    let names = hosts.filter(|&(host, _)| {
        host.parse::<IpAddr>().is_err() && !proxy.is_some_and(|proxy| applies_to(proxy, host)) && seen.insert(host)
    });
    names.map(|(host, port)| (host.to_owned(), port)).collect()
}

/// Returns the hosts and ports that a route names.
fn hosts(route: &Route) -> Vec<(&str, u16)> {
    match &route.uri {
        Target::Http { host, port, .. } => vec![(host.trim_matches(['[', ']']), *port)],
        Target::Balanced { upstream, .. } => match &upstream.endpoints {
            EndpointSource::Listed(list) => {
                list.iter().map(|endpoint| (endpoint.address.host.as_str(), endpoint.address.port)).collect()
            }
            EndpointSource::Dns(_) | EndpointSource::Registries(_) => Vec::new(),
        },
        Target::Echo | Target::Forward(_) | Target::Nowhere => Vec::new(),
    }
}

/// Looks up all names within [`TIMEOUT`]. Names without a reply are one problem.
async fn problems<F>(names: Vec<Name>, look_up: impl Fn(String) -> F) -> Vec<Problem>
where
    F: Future<Output = io::Result<()>>,
{
    let deadline = Instant::now() + TIMEOUT;
    let lookups = join_all(names.iter().map(|(host, _)| timeout_at(deadline, look_up(host.clone())))).await;
    let problem = |(host, port), message| Problem { host, port, message, help: Some(ADVICE.to_owned()) };
    let (mut problems, mut silent) = (Vec::new(), Vec::new());
    for (name, lookup) in names.into_iter().zip(lookups) {
        match lookup {
            Ok(Ok(())) => {}
            Ok(Err(error)) => {
                let message = format!("`{}` has no address: {error}", name.0);
                problems.push(problem(name, message));
            }
            Err(_) => silent.push(name),
        }
    }
    let count = silent.len();
    if let Some(name) = silent.into_iter().next() {
        let others = if count == 1 { String::new() } else { format!(" and {} more", count - 1) };
        let message = format!("no reply from the resolver about `{}`{others} within {TIMEOUT:?}", name.0);
        problems.push(problem(name, message));
    }
    problems
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::future::pending;

    use super::*;

    fn config(yaml: &str) -> Config {
        tollgate_config::parse("test.yaml", yaml, &|_| None).unwrap().config
    }

    #[test]
    fn names_are_those_that_the_gateway_resolves_itself() {
        let yaml = "
upstreams:
  listed: {endpoints: ['http://one:80', 'http://10.0.0.1:80', 'http://two:81']}
  found: {dns: {name: in-dns}}
routes:
- {id: a, uri: 'http://three', predicates: [Path=/a]}
- {id: b, uri: 'https://three', predicates: [Path=/b]}
- {id: c, uri: 'http://[::1]:8080', predicates: [Path=/c]}
- {id: d, uri: 'lb://listed', predicates: [Path=/d]}
- {id: e, uri: 'lb://found', predicates: [Path=/e]}
- {id: f, uri: 'echo:', predicates: [Path=/f]}
";
        let expected = [("three", 80), ("one", 80), ("two", 81)].map(|(host, port)| (host.to_owned(), port));
        assert_eq!(names(&config(yaml)), expected);
        let proxy = "httpclient: {proxy: {host: proxy, port: 3128, non-proxy-hosts-pattern: 'two'}}\n";
        assert_eq!(names(&config(&format!("{proxy}{yaml}"))), [("two".to_owned(), 81)]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_resolver_that_does_not_reply_takes_two_seconds_for_all_names() {
        let start = Instant::now();
        let look_up = |host: String| async move {
            match host.as_str() {
                "known" => Ok(()),
                "unknown" => Err(io::Error::other("no such name")),
                _ => pending().await,
            }
        };
        let names = ["silent", "known", "unknown", "mute", "still"].map(|host| (host.to_owned(), 80)).to_vec();
        let problems = problems(names, look_up).await;
        assert_eq!(start.elapsed().as_secs(), 2);
        let found: Vec<_> = problems.iter().map(|problem| (problem.host.as_str(), problem.message.as_str())).collect();
        let expected = [
            ("unknown", "`unknown` has no address: no such name"),
            ("silent", "no reply from the resolver about `silent` and 2 more within 2s"),
        ];
        assert_eq!(found, expected);
    }
}
