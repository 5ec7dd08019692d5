//! Predicates on addresses.

use std::net::Ipv6Addr;
use std::num::NonZeroUsize;

use crate::diagnostics::Diagnostics;
use crate::predicates::entry::{Checked, PredicateInput, take_named};
use crate::spec::PredicateSpec;
use tollgate_routing::Predicate;

/// Checks `XForwardedRemoteAddr`.
pub(super) fn x_forwarded_remote_addr(input: &PredicateInput<'_>, diagnostics: &mut Diagnostics) -> Checked {
    let mut spec = input.spec.clone();
    let index = match take_named(&mut spec, "maxTrustedIndex") {
        None => NonZeroUsize::MIN,
        Some(arg) => {
            if diagnostics.is_spring {
                diagnostics
                    .warn(
                        arg.span.key(),
                        "Spring reads `maxTrustedIndex` as a source, which never matches; here it applies",
                    )
                    .help("in Spring it can only be set in Java");
            }
            let Ok(index) = arg.value.trim().parse() else {
                diagnostics
                    .error(arg.span, format!("`maxTrustedIndex` must be a number from 1, found `{}`", arg.value));
                return None;
            };
            index
        }
    };
    warn(&spec, diagnostics);
    if !input.context.trusts_proxies {
        diagnostics
            .warn(spec.span, "`XForwardedRemoteAddr` without `trusted-proxies`: any client can send `X-Forwarded-For`")
            .help("`trusted-proxies` names the proxies before this gateway; `RemoteAddr` compares the TCP peer");
    }
    let sources = PredicateInput { spec: &spec, ..*input }.list(diagnostics)?;
    Some(Predicate::x_forwarded_remote_addr(&sources, index))
}

/// Warns of IPv6 addresses, which Spring reads as networks.
pub(super) fn warn(spec: &PredicateSpec, diagnostics: &mut Diagnostics) {
    if !diagnostics.is_spring {
        return;
    }
    for arg in &spec.args {
        if arg.value.parse::<Ipv6Addr>().is_ok() {
            diagnostics
                .warn(
                    arg.span,
                    format!("Spring reads `{0}` as the network `{0}/32`; here it is one address", arg.value),
                )
                .help(format!("`{}/128` means one address in both", arg.value));
        }
    }
}
