//! Addresses that Spring reads as networks.

use std::net::Ipv6Addr;

use super::super::definition::Written;
use super::super::problem::Sink;

/// Points out what Spring takes for more than it says.
pub(super) fn warn(written: &Written, sink: &mut Sink) {
    if !sink.is_spring {
        return;
    }
    for arg in &written.args {
        if arg.value.parse::<Ipv6Addr>().is_ok() {
            sink.warn(
                arg.origin,
                format!("Spring reads `{0}` as the network `{0}/32`; here it is one address", arg.value),
            )
            .help(format!("`{}/128` means one address in both", arg.value));
        }
    }
}
