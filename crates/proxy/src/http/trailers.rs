//! Fields that no trailer section may have. Recipients that merge trailers into the head would take them for checked fields
//! of the head (RFC 9110 §6.5.1).

use std::collections::HashSet;

use http::HeaderMap;
use http::header::HeaderName;
use tollgate_config::{Config, Underscores};

use crate::http::fields::{has_underscore, is_forwarded, remove_fields};

/// Rules for the trailers of clients.
#[derive(Clone, Debug)]
pub struct TrailerRules {
    /// Treatment of field names with underscores.
    underscores: Underscores,
    /// Fields of the head that routes read, set or remove: a key, a plan, a header of a predicate or a filter.
    checked: HashSet<HeaderName>,
}

impl TrailerRules {
    /// Returns the rules of `config`.
    #[must_use]
    pub fn of(config: &Config) -> Self {
        Self { underscores: config.forwarding.underscores, checked: config.request_headers() }
    }

    /// Removes from the trailers of a client what its head may not have either, and the fields that the gateway has checked
    /// or set in the head. Names with underscores stay if they are allowed.
    pub fn clean(&self, trailers: &mut HeaderMap) {
        remove_fields(trailers, |name| {
            is_forbidden(name)
                || is_forwarded(name)
                || self.checked.contains(name)
                || (self.underscores != Underscores::Allow && has_underscore(name))
        });
    }
}

/// Removes from the trailers of an upstream the fields that no trailers may have.
pub fn clean_upstream_trailers(trailers: &mut HeaderMap) {
    remove_fields(trailers, is_forbidden);
}

/// Returns true for fields of the connection, of framing, routing, authentication and the content's format.
fn is_forbidden(name: &HeaderName) -> bool {
    matches!(
        name.as_str(),
        "authorization"
            | "cache-control"
            | "connection"
            | "content-encoding"
            | "content-length"
            | "content-range"
            | "content-type"
            | "cookie"
            | "expect"
            | "host"
            | "keep-alive"
            | "max-forwards"
            | "proxy-authenticate"
            | "proxy-authorization"
            | "proxy-connection"
            | "set-cookie"
            | "te"
            | "trailer"
            | "transfer-encoding"
            | "upgrade"
            | "via"
            | "www-authenticate"
    )
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    fn cleaned(clean: impl Fn(&mut HeaderMap)) -> Vec<String> {
        let mut trailers = HeaderMap::new();
        for name in ["grpc-status", "x_user", "x-forwarded-for", "forwarded", "host", "connection", "x-key", "x-sum"] {
            trailers.append(HeaderName::from_static(name), HeaderValue::from_static("1"));
        }
        clean(&mut trailers);
        trailers.keys().map(ToString::to_string).collect()
    }

    #[test]
    fn trailers_have_no_field_that_a_head_may_not_have_or_that_was_checked_there() {
        let rules = |underscores| TrailerRules { underscores, checked: [HeaderName::from_static("x-key")].into() };
        assert_eq!(cleaned(|trailers| rules(Underscores::Drop).clean(trailers)), ["grpc-status", "x-sum"]);
        assert_eq!(cleaned(|trailers| rules(Underscores::Allow).clean(trailers)), ["grpc-status", "x_user", "x-sum"]);
    }

    #[test]
    fn trailers_of_upstreams_keep_their_own_fields() {
        let names = cleaned(clean_upstream_trailers);
        assert_eq!(names, ["grpc-status", "x_user", "x-forwarded-for", "forwarded", "x-sum", "x-key"]);
    }
}
