//! Header fields that the gateway removes from requests and responses (RFC 9110 §7.6.1; Spring's
//! `RemoveHopByHopHeadersFilter`).

use http::StatusCode;
use http::header::{
    AUTHORIZATION, CONNECTION, CONTENT_LENGTH, CONTENT_TYPE, COOKIE, HOST, HeaderMap, HeaderName, HeaderValue, TE,
    TRANSFER_ENCODING, VIA,
};

use crate::http::fields::{has_token, has_underscore, is_forwarded};
use tollgate_config::{Config, Underscores};

/// Rules for the header fields of every request and response.
#[derive(Clone, Debug)]
pub struct HeaderPolicy {
    /// Handling of fields with an underscore in their name.
    pub underscores: Underscores,
    /// Spring's `filter.remove-hop-by-hop.headers`. It replaces the default list, except for the fields that framing
    /// requires to be removed.
    pub remove: Option<Vec<HeaderName>>,
    /// Value appended to `Via`.
    pub via: Option<HeaderValue>,
    /// Field that tells upstreams the id of an API key, and that no client may send.
    pub api_key_id: Option<HeaderName>,
}

impl HeaderPolicy {
    /// Returns the rules of `config`.
    #[must_use]
    pub fn of(config: &Config) -> Self {
        let forwarding = &config.forwarding;
        let (remove, via) = (forwarding.remove_hop_by_hop.clone(), forwarding.via.clone());
        let api_key_id = config.api_keys.as_ref().map(|keys| keys.settings.id_header.clone());
        Self { underscores: forwarding.underscores, remove, via, api_key_id }
    }

    /// Removes fields that a client may not send to an upstream. It runs before the route's filters, so that a
    /// `Connection` field cannot remove the fields they add. Only `trailers` remains of `TE`.
    pub fn clean_request(&self, headers: &mut HeaderMap) {
        let mut trailers = false;
        let mut removed: Vec<HeaderName> = Vec::new();
        for (name, value) in &*headers {
            if name == TE {
                trailers |= has_token(value, b"trailers");
            }
            let is_removed = self.is_hop_by_hop(name)
                || (self.underscores == Underscores::Drop && has_underscore(name))
                || name == http::header::EXPECT; // answered here: reading the body sends 100 Continue
            if is_removed && removed.last() != Some(name) {
                removed.push(name.clone());
            }
            if name == CONNECTION {
                add_connection_options(value, &mut removed);
            }
        }
        for name in removed.iter().chain(&self.api_key_id) {
            headers.remove(name);
        }
        if trailers {
            headers.insert(TE, HeaderValue::from_static("trailers"));
        }
        if let Some(via) = &self.via {
            headers.append(VIA, via.clone());
        }
    }

    /// Removes fields that an upstream may not send to a client.
    pub fn clean_response(&self, status: StatusCode, headers: &mut HeaderMap) {
        let mut removed: Vec<HeaderName> = Vec::new();
        let mut lengths = 0;
        for (name, value) in &*headers {
            if self.is_hop_by_hop(name) {
                removed.push(name.clone());
            }
            if name == CONTENT_LENGTH {
                lengths += 1;
                // hyper and h2 read `2, 2`, and two fields with 2, as 2, and the body has the length.
                if lengths > 1 || value.as_bytes().contains(&b',') {
                    removed.push(CONTENT_LENGTH);
                }
            }
            if name == TRANSFER_ENCODING {
                // If both are present, the chunks define the length (RFC 9112 §6.3), and this field may differ.
                removed.push(CONTENT_LENGTH);
            }
            if name == CONNECTION {
                add_connection_options(value, &mut removed);
            }
        }
        for name in removed {
            headers.remove(name);
        }
        if status == StatusCode::NO_CONTENT {
            headers.remove(CONTENT_LENGTH);
        }
    }

    fn is_hop_by_hop(&self, name: &HeaderName) -> bool {
        match name.as_str() {
            "connection" | "keep-alive" | "proxy-connection" | "transfer-encoding" | "upgrade" | "te" => true,
            "proxy-authenticate" | "proxy-authorization" | "x-application-context" if self.remove.is_none() => true,
            _ => self.remove.as_ref().is_some_and(|listed| listed.contains(name)),
        }
    }
}

/// Returns true if a response over HTTP/1.1 has no transfer coding, or exactly one: `chunked`. Others would have to be
/// decoded (RFC 9112 §6.1).
pub(super) fn has_known_coding(headers: &HeaderMap) -> bool {
    // Comparing the few names of a head costs less than a look-up.
    let mut codings = headers.iter().filter(|(name, _)| *name == TRANSFER_ENCODING).map(|(_, value)| value);
    match codings.next() {
        None => true,
        Some(coding) => coding.as_bytes().trim_ascii().eq_ignore_ascii_case(b"chunked") && codings.next().is_none(),
    }
}

/// Adds the fields that `Connection` names, except those that routing, framing or authentication depend on: a client
/// must not be able to remove them.
fn add_connection_options(connection: &HeaderValue, removed: &mut Vec<HeaderName>) {
    for token in connection.as_bytes().split(|byte| *byte == b',') {
        let token = token.trim_ascii();
        if token.eq_ignore_ascii_case(b"close") || token.eq_ignore_ascii_case(b"keep-alive") {
            continue;
        }
        let Ok(name) = HeaderName::from_bytes(token) else { continue };
        let essential = [HOST, CONTENT_LENGTH, CONTENT_TYPE, AUTHORIZATION, COOKIE, VIA].contains(&name);
        if !essential && !is_forwarded(&name) {
            removed.push(name);
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn policy() -> HeaderPolicy {
        HeaderPolicy {
            underscores: Underscores::Drop,
            remove: None,
            via: Some(HeaderValue::from_static("1.1 tollgate")),
            api_key_id: None,
        }
    }

    fn fields(list: &[(&'static str, &str)]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (name, value) in list {
            headers.append(*name, value.parse().unwrap());
        }
        headers
    }

    fn names(headers: &HeaderMap) -> Vec<&str> {
        headers.keys().map(HeaderName::as_str).collect()
    }

    #[test]
    fn hop_by_hop_fields_and_those_named_in_connection_are_removed() {
        let mut headers = fields(&[
            ("host", "a"),
            ("connection", "close, x-secret, Host, Content-Length, x-forwarded-for"),
            ("connection", "x-other"),
            ("keep-alive", "timeout=5"),
            ("te", "trailers, deflate;q=0.5"),
            ("proxy-authorization", "Basic x"),
            ("x-secret", "1"),
            ("x-other", "1"),
            ("content-length", "3"),
            ("x_user", "root"),
            ("expect", "100-continue"),
            ("accept", "*/*"),
        ]);
        policy().clean_request(&mut headers);
        assert_eq!(names(&headers).len(), 5, "{headers:?}");
        assert_eq!(headers["te"], "trailers");
        for kept in ["host", "content-length", "accept", "via"] {
            assert!(headers.contains_key(kept), "{kept}");
        }
    }

    #[test]
    fn a_response_with_length_and_chunks_keeps_neither_field() {
        let mut headers = fields(&[("transfer-encoding", "chunked"), ("content-length", "3"), ("set-cookie", "a")]);
        headers.append("set-cookie", HeaderValue::from_static("b"));
        policy().clean_response(StatusCode::OK, &mut headers);
        assert_eq!(headers.get_all("set-cookie").iter().collect::<Vec<_>>(), ["a", "b"]);
        assert_eq!(headers.len(), 2);
    }

    #[test]
    fn one_chunked_is_the_only_known_transfer_coding() {
        for (codings, expected) in [
            (&[][..], true),
            (&["chunked"], true),
            (&[" Chunked\t"], true),
            (&["gzip, chunked"], false),
            (&["chunked, gzip"], false),
            (&["chunked", "chunked"], false),
            (&["chunked, chunked"], false),
            (&["identity"], false),
            (&["x-chunked"], false),
            (&[""], false),
        ] {
            let headers = fields(&codings.iter().map(|coding| ("transfer-encoding", *coding)).collect::<Vec<_>>());
            assert_eq!(has_known_coding(&headers), expected, "{codings:?}");
        }
    }

    #[test]
    fn the_list_of_spring_replaces_the_default() {
        let remove = Some(vec![HeaderName::from_static("x-inner")]);
        let rules = HeaderPolicy { remove, ..policy() };
        let mut headers = fields(&[("x-inner", "1"), ("proxy-authorization", "x"), ("connection", "close")]);
        rules.clean_request(&mut headers);
        assert_eq!(names(&headers), ["proxy-authorization", "via"]);
    }
}
