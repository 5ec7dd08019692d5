//! Addresses that Spring reads as networks.

use std::net::Ipv6Addr;

use crate::diagnostics::Diagnostics;
use crate::spec::PredicateSpec;

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
