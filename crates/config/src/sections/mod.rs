//! Sections of the file. Each folder or file has the raw struct of a section, its check and the checked struct.

pub(crate) mod config_files;
pub(crate) mod cors;
pub(crate) mod files;
pub(crate) mod forwarding;
pub(crate) mod http_client;
pub(crate) mod jwt;
pub(crate) mod logs;
pub(crate) mod management;
pub(crate) mod memory;
pub(crate) mod redis;
pub(crate) mod registries;
pub(crate) mod resilience;
pub(crate) mod scalars;
pub(crate) mod server;
pub(crate) mod tls;
pub(crate) mod upstreams;

use crate::diagnostics::{Diagnostics, Severity};
use crate::yaml::Span;

/// Reports those of Spring's keys in `section` that are given and have no effect here, each with its name and the reason.
fn no_effect(section: &str, keys: &[(Option<Span>, &str, &str)], diagnostics: &mut Diagnostics) {
    for (at, name, why) in keys {
        if let Some(at) = at {
            diagnostics.unused(Severity::Error, at.key(), format!("`{section}{name}` has no effect here")).help(*why);
        }
    }
}
