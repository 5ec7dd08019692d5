//! `trusted-proxies`: a list of addresses and networks, or Spring's one regular expression.

use std::net::IpAddr;

use ipnet::IpNet;
use regex::RegexBuilder;

use super::model::TrustedProxies;
use super::problem::Sink;
use super::yaml::{Kind, Node};

/// Largest compiled expression in bytes.
const REGEX_SIZE_LIMIT: usize = 1 << 20;

/// Reads the node; absent means nobody.
pub(crate) fn trusted_proxies(node: Option<&Node>, sink: &mut Sink) -> TrustedProxies {
    let Some(node) = node else { return TrustedProxies::Nobody };
    match &node.kind {
        Kind::Null => TrustedProxies::Nobody,
        Kind::Seq(items) => TrustedProxies::Networks(items.iter().filter_map(|item| listed(item, sink)).collect()),
        Kind::Scalar(text) => match text.split(',').map(network).collect::<Option<Vec<_>>>() {
            Some(networks) => TrustedProxies::Networks(networks),
            // No address has a `/` in it: this was to be a network.
            None if text.contains('/') => {
                sink.error(
                    node.origin,
                    format!("expected addresses and networks such as `10.0.0.0/8`, found {}", node.describe()),
                );
                TrustedProxies::Nobody
            }
            None => pattern(text, node, sink),
        },
        Kind::Map(_) => {
            sink.error(node.origin, "expected a list of addresses and networks, found a map")
                .help("write `trusted-proxies: [10.0.0.0/8, 192.0.2.7]`");
            TrustedProxies::Nobody
        }
    }
}

fn listed(item: &Node, sink: &mut Sink) -> Option<IpNet> {
    let found = item.scalar().and_then(network);
    if found.is_none() {
        sink.error(
            item.origin,
            format!("expected an address or a network such as `10.0.0.0/8`, found {}", item.describe()),
        );
    }
    found
}

/// An address or a network.
pub(crate) fn network(text: &str) -> Option<IpNet> {
    let text = text.trim();
    text.parse().ok().or_else(|| text.parse::<IpAddr>().ok().map(IpNet::from))
}

/// Spring's `trusted-proxies` is a Java expression that must match the peer's whole address.
fn pattern(text: &str, node: &Node, sink: &mut Sink) -> TrustedProxies {
    match RegexBuilder::new(&format!("^(?:{text})$")).size_limit(REGEX_SIZE_LIMIT).build() {
        Ok(regex) => {
            if regex.is_match("not an address") {
                sink.warn(node.origin, "this trusts every peer: anybody can forge their address")
                    .help("list your proxies: `trusted-proxies: [10.0.0.0/8]`");
            }
            TrustedProxies::Pattern(regex)
        }
        Err(error) => {
            let reason = error.to_string();
            let reason = reason.lines().last().unwrap_or_default().trim_start_matches("error: ").to_owned();
            sink.error(node.origin, format!("neither a network nor a regular expression: {reason}"))
                .help("list your proxies: `trusted-proxies: [10.0.0.0/8]`");
            TrustedProxies::Nobody
        }
    }
}
