//! Fields that no trailer section may have. Recipients that merge trailers into the head would take them for checked fields
//! of the head (RFC 9110 §6.5.1).

use http::HeaderMap;
use http::header::HeaderName;
use tollgate_config::Underscores;

use crate::http::fields::{has_underscore, is_forwarded};

/// Removes from the trailers of a client what its head may not have either: fields of proxies, and, unless they are allowed,
/// names with underscores.
pub fn clean_client_trailers(trailers: &mut HeaderMap, underscores: Underscores) {
    remove(trailers, |name| {
        is_forbidden(name) || is_forwarded(name) || (underscores != Underscores::Allow && has_underscore(name))
    });
}

/// Removes from the trailers of an upstream the fields that no trailers may have.
pub fn clean_upstream_trailers(trailers: &mut HeaderMap) {
    remove(trailers, is_forbidden);
}

fn remove(trailers: &mut HeaderMap, is_removed: impl Fn(&HeaderName) -> bool) {
    let removed: Vec<HeaderName> = trailers.keys().filter(|name| is_removed(name)).cloned().collect();
    for name in removed {
        trailers.remove(name);
    }
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
        for name in ["grpc-status", "x_user", "x-forwarded-for", "forwarded", "host", "connection", "x-sum"] {
            trailers.append(HeaderName::from_static(name), HeaderValue::from_static("1"));
        }
        clean(&mut trailers);
        trailers.keys().map(ToString::to_string).collect()
    }

    #[test]
    fn trailers_have_no_field_that_a_head_may_not_have() {
        assert_eq!(cleaned(|trailers| clean_client_trailers(trailers, Underscores::Drop)), ["grpc-status", "x-sum"]);
        let allowed = cleaned(|trailers| clean_client_trailers(trailers, Underscores::Allow));
        assert_eq!(allowed, ["grpc-status", "x_user", "x-sum"]);
    }

    #[test]
    fn trailers_of_upstreams_keep_their_own_fields() {
        let names = cleaned(clean_upstream_trailers);
        assert_eq!(names, ["grpc-status", "x_user", "x-forwarded-for", "forwarded", "x-sum"]);
    }
}
