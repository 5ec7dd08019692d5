//! Sections of the file. Each folder or file has the raw struct of a section, its check and the checked struct.

pub(crate) mod access_log;
pub(crate) mod cors;
pub(crate) mod forwarding;
pub(crate) mod http_client;
pub(crate) mod jwt;
pub(crate) mod log;
pub(crate) mod management;
pub(crate) mod memory;
pub(crate) mod metering;
pub(crate) mod redis;
pub(crate) mod registries;
pub(crate) mod request_id;
pub(crate) mod resilience;
pub(crate) mod scalars;
pub(crate) mod server;
pub(crate) mod tls;
pub(crate) mod upstreams;

use crate::diagnostics::{Diagnostics, Severity};
use crate::yaml::Span;

/// Reports a setting of Spring's that has no effect, with the reason.
fn no_effect(at: Span, name: &str, why: &str, diagnostics: &mut Diagnostics) {
    diagnostics.unused(Severity::Error, at.key(), format!("`{name}` has no effect here")).help(why);
}
