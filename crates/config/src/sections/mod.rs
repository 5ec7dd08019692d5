//! Sections of the file. Each folder or file has the struct of a section, its check, and the values that the check makes of it.

pub(crate) mod api_keys;
pub(crate) mod cors;
pub(crate) mod files;
pub(crate) mod forwarding;
pub(crate) mod http_client;
pub(crate) mod jwt;
pub(crate) mod logs;
pub(crate) mod management;
pub(crate) mod memory;
mod path_settings;
pub(crate) mod proxy_protocol;
pub(crate) mod redis;
pub(crate) mod registries;
pub(crate) mod resilience;
pub(crate) mod response_fields;
pub(crate) mod server;
pub(crate) mod tls;
pub(crate) mod upstreams;

use std::fmt;

use http::Uri;
use serde::Deserialize;

use crate::diagnostics::{Diagnostics, Severity};
use crate::yaml::Span;

/// A value that `Debug` does not show, so that it cannot appear in logs.
#[derive(Clone, Default, PartialEq, Eq, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(inline))]
#[serde(transparent)]
pub struct Secret<T = String>(#[cfg_attr(test, schemars(with = "Option<String>"))] pub T);

impl<T> fmt::Debug for Secret<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("****")
    }
}

/// Reports those of Spring's keys in `section` that are given and have no effect here, each with its name and the reason.
fn no_effect(section: &str, keys: &[(Option<Span>, &str, &str)], diagnostics: &mut Diagnostics) {
    for (at, name, why) in keys {
        if let Some(at) = at {
            diagnostics.unused(Severity::Error, at.key(), format!("`{section}{name}` has no effect here")).help(*why);
        }
    }
}

/// Returns the port in an environment variable, if it is set. Reports an invalid one.
pub(crate) fn port_from(
    variable: &str,
    env: &dyn Fn(&str) -> Option<String>,
    diagnostics: &mut Diagnostics,
) -> Option<u16> {
    let text = env(variable).filter(|text| !text.is_empty())?;
    let port = text.parse().ok();
    if port.is_none() {
        diagnostics
            .error_nowhere(format!(
                "the environment variable {variable} must be a port from 0 to 65535, found `{text}`"
            ))
            .help(format!("unset {variable} or set it to a port"));
    }
    port
}

/// Notes that the value at `at` names the server of `uri`.
fn add_server(uri: &Uri, at: Span, diagnostics: &mut Diagnostics) {
    let port = uri.port_u16().unwrap_or(if uri.scheme_str() == Some("https") { 443 } else { 80 });
    diagnostics.servers.add(uri.host().unwrap_or_default().trim_matches(['[', ']']), port, at);
}

/// One text or a list of texts.
#[cfg(test)]
#[derive(schemars::JsonSchema)]
#[serde(untagged)]
#[expect(dead_code, reason = "describes a value in the schema that is read by hand")]
pub(crate) enum StringOrList {
    /// One.
    One(String),
    /// Several.
    Several(Vec<String>),
}

/// A text, or a number or flag that is read as text.
#[cfg(test)]
#[derive(schemars::JsonSchema)]
#[serde(untagged)]
#[expect(dead_code, reason = "describes a value in the schema that is read as text")]
pub(crate) enum Scalar {
    /// A text.
    Text(String),
    /// A number.
    Number(f64),
    /// A flag.
    Flag(bool),
}
