//! `trusted-proxies`: a list of addresses and networks, or Spring's one regular expression.

use std::net::{IpAddr, SocketAddr};

use ipnet::IpNet;
use regex::RegexBuilder;
use tollgate_routing::network;

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
        NodeKind::Scalar(text) if text.trim().is_empty() => TrustedProxies::None,
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

/// Returns true for a text that would be a key or an expression by mistake, such as `203.0.113.300`, `10.0.0.1-10.0.0.9` and
/// `10.0.*.*`: with the digits and signs of addresses alone.
pub(crate) fn looks_like_address(text: &str) -> bool {
    let is_of = |signs: &str| text.chars().all(|c| c.is_ascii_digit() || signs.contains(c));
    let is_v4 = text.starts_with(|c: char| c.is_ascii_digit()) && is_of(".*-/ ") && text.matches('.').count() > 1;
    let is_v6 = text.contains("::") && text.chars().all(|c| c.is_ascii_hexdigit() || ":.*-/% ".contains(c));
    is_v4 || is_v6
}

/// Returns true for a text without the signs of expressions that is the text of no address, such as `localhost`.
fn matches_no_address(text: &str) -> bool {
    let is_plain = !text.contains(['\\', '*', '+', '?', '(', '[', '{', '|', '^', '$']);
    let is_address = || text.bytes().all(|byte| byte.is_ascii_hexdigit() || b".:".contains(&byte));
    let in_brackets = text.starts_with('[') && text.trim_matches(['[', ']']).parse::<IpAddr>().is_ok();
    in_brackets || text.parse::<SocketAddr>().is_ok() || is_plain && (looks_like_address(text) || !is_address())
}

/// Returns the last line of an error of a regular expression, which says what is wrong.
pub(crate) fn regex_reason(error: &regex::Error) -> String {
    error.to_string().lines().last().unwrap_or_default().trim_start_matches("error: ").to_owned()
}

/// Compiles Spring's `trusted-proxies`: a Java regular expression that must match the peer's whole address.
fn pattern(text: &str, node: &Node, diagnostics: &mut Diagnostics) -> TrustedProxies {
    if matches_no_address(text) {
        diagnostics
            .mistake(node.span, format!("no peer has the address `{text}`"))
            .help("list your proxies: `trusted-proxies: [10.0.0.0/8]`");
    }
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
