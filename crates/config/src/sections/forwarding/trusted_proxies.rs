//! `trusted-proxies`: a list of addresses and networks, or Spring's one regular expression.

use std::net::IpAddr;

use ipnet::IpNet;
use regex::RegexBuilder;

use crate::diagnostics::Diagnostics;
use crate::sections::forwarding::TrustedProxies;
use crate::yaml::{Node, NodeKind};

/// Largest compiled expression in bytes.
const REGEX_SIZE_LIMIT: usize = 1 << 20;

/// Reads the node; absent means no proxies.
pub(crate) fn trusted_proxies(node: Option<&Node>, diagnostics: &mut Diagnostics) -> TrustedProxies {
    let Some(node) = node else { return TrustedProxies::None };
    match &node.kind {
        NodeKind::Null => TrustedProxies::None,
        NodeKind::Seq(items) => {
            TrustedProxies::Networks(items.iter().filter_map(|item| listed(item, diagnostics)).collect())
        }
        NodeKind::Scalar(text) => match text.split(',').map(network).collect::<Option<Vec<_>>>() {
            Some(networks) => TrustedProxies::Networks(networks),
            // Only networks contain `/`.
            None if text.contains('/') => {
                diagnostics.error(
                    node.span,
                    format!("expected addresses and networks such as `10.0.0.0/8`, found {}", node.describe()),
                );
                TrustedProxies::None
            }
            None => pattern(text, node, diagnostics),
        },
        NodeKind::Map(_) => {
            diagnostics
                .error(node.span, "expected a list of addresses and networks, found a map")
                .help("write `trusted-proxies: [10.0.0.0/8, 192.0.2.7]`");
            TrustedProxies::None
        }
    }
}

fn listed(item: &Node, diagnostics: &mut Diagnostics) -> Option<IpNet> {
    let listed_network = item.scalar().and_then(network);
    if listed_network.is_none() {
        diagnostics.error(
            item.span,
            format!("expected an address or a network such as `10.0.0.0/8`, found {}", item.describe()),
        );
    }
    listed_network
}

/// Parses an address or a network.
pub(crate) fn network(text: &str) -> Option<IpNet> {
    let text = text.trim();
    text.parse().ok().or_else(|| text.parse::<IpAddr>().ok().map(IpNet::from))
}

/// Returns the last line of an error of a regular expression, which says what is wrong.
pub(crate) fn regex_reason(error: &regex::Error) -> String {
    error.to_string().lines().last().unwrap_or_default().trim_start_matches("error: ").to_owned()
}

/// Compiles Spring's `trusted-proxies`: a Java regular expression that must match the peer's whole address.
fn pattern(text: &str, node: &Node, diagnostics: &mut Diagnostics) -> TrustedProxies {
    match RegexBuilder::new(&format!("^(?:{text})$")).size_limit(REGEX_SIZE_LIMIT).build() {
        Ok(regex) => {
            if regex.is_match("not an address") {
                diagnostics
                    .warn(node.span, "this trusts every peer: clients can forge their address")
                    .help("list your proxies: `trusted-proxies: [10.0.0.0/8]`");
            }
            TrustedProxies::Pattern(regex)
        }
        Err(error) => {
            let reason = regex_reason(&error);
            diagnostics
                .error(node.span, format!("neither a network nor a regular expression: {reason}"))
                .help("list your proxies: `trusted-proxies: [10.0.0.0/8]`");
            TrustedProxies::None
        }
    }
}
