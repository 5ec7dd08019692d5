//! Which fields end at the gateway, both ways (RFC 9110 §7.6.1; Spring's `RemoveHopByHopHeadersFilter`).

use http::header::{
    AUTHORIZATION, CONNECTION, CONTENT_LENGTH, CONTENT_TYPE, COOKIE, FORWARDED, HOST, HeaderMap, HeaderName,
    HeaderValue, TE, TRANSFER_ENCODING, UPGRADE, VIA,
};
use http::{StatusCode, Version};

use crate::gateway::sanitize::has_underscore;
use tollgate_config::Underscores;

/// What is done to the fields of every request and answer.
#[derive(Clone, Debug)]
pub struct Hygiene {
    /// Drop fields with an underscore in their name.
    pub underscores: Underscores,
    /// Spring's `filter.remove-hop-by-hop.headers`, which replaces the list of what is removed beside the fields that
    /// framing needs gone.
    pub remove: Option<Vec<HeaderName>>,
    /// What is added to `Via`.
    pub via: Option<HeaderValue>,
}

impl Hygiene {
    /// Removes what a client may not say to an upstream: before the route's filters run, so that no `Connection` field
    /// can name away what they add. Of `TE`, `trailers` alone stays.
    pub fn clean_request(&self, headers: &mut HeaderMap, keep_forwarded: bool) {
        let mut trailers = false;
        let mut doomed: Vec<HeaderName> = Vec::new();
        for (name, value) in &*headers {
            if name == TE {
                trailers |= has_token(value, b"trailers");
            }
            let ends = self.ends_here(name)
                || (!keep_forwarded && is_forwarded(name))
                || (self.underscores == Underscores::Drop && has_underscore(name))
                || name == http::header::EXPECT; // met here: reading the body sends 100 Continue
            if ends && doomed.last() != Some(name) {
                doomed.push(name.clone());
            }
            if name == CONNECTION {
                named_in(value, &mut doomed);
            }
        }
        for name in doomed {
            headers.remove(name);
        }
        if trailers {
            headers.insert(TE, HeaderValue::from_static("trailers"));
        }
        if let Some(via) = &self.via {
            headers.append(VIA, via.clone());
        }
    }

    /// Removes what an upstream may not say to a client.
    pub fn clean_response(&self, status: StatusCode, headers: &mut HeaderMap) {
        let mut doomed: Vec<HeaderName> = Vec::new();
        for (name, value) in &*headers {
            if self.ends_here(name) {
                doomed.push(name.clone());
            }
            if name == CONTENT_LENGTH && value.as_bytes().contains(&b',') {
                // `2, 2` was read as 2; the body knows its length.
                doomed.push(CONTENT_LENGTH);
            }
            if name == TRANSFER_ENCODING {
                // With both, the chunks are what was read (RFC 9112 §6.3): the length would lie to the client.
                doomed.push(CONTENT_LENGTH);
            }
            if name == CONNECTION {
                named_in(value, &mut doomed);
            }
        }
        for name in doomed {
            headers.remove(name);
        }
        if status == StatusCode::NO_CONTENT {
            headers.remove(CONTENT_LENGTH);
        }
    }

    fn ends_here(&self, name: &HeaderName) -> bool {
        match name.as_str() {
            "connection" | "keep-alive" | "proxy-connection" | "transfer-encoding" | "upgrade" | "te" => true,
            "proxy-authenticate" | "proxy-authorization" | "x-application-context" if self.remove.is_none() => true,
            _ => self.remove.as_ref().is_some_and(|listed| listed.contains(name)),
        }
    }
}

/// Whether `name` tells of proxies on the way.
fn is_forwarded(name: &HeaderName) -> bool {
    name == FORWARDED || name.as_str().starts_with("x-forwarded-")
}

/// Adds the fields that `Connection` names, except those that no one but us may take out of a message: a client must
/// not be able to strip what routing, framing or authentication stands on.
fn named_in(connection: &HeaderValue, doomed: &mut Vec<HeaderName>) {
    for token in connection.as_bytes().split(|byte| *byte == b',') {
        let token = token.trim_ascii();
        if token.eq_ignore_ascii_case(b"close") || token.eq_ignore_ascii_case(b"keep-alive") {
            continue;
        }
        let Ok(name) = HeaderName::from_bytes(token) else { continue };
        let essential = [HOST, CONTENT_LENGTH, CONTENT_TYPE, AUTHORIZATION, COOKIE, VIA].contains(&name);
        if !essential && !is_forwarded(&name) {
            doomed.push(name);
        }
    }
}

/// Whether a comma-separated list holds `token`, whatever its case and parameters.
#[must_use]
pub fn has_token(list: &HeaderValue, token: &[u8]) -> bool {
    list.as_bytes().split(|byte| *byte == b',').any(|item| {
        let item = item.split(|byte| *byte == b';').next().unwrap_or_default();
        item.trim_ascii().eq_ignore_ascii_case(token)
    })
}

/// The protocol that an HTTP/1.1 request asks to switch to, if it is one that is tunnelled: `websocket`, and others
/// but `h2c`, which would smuggle requests past every filter.
#[must_use]
pub fn upgrade_of(version: Version, headers: &HeaderMap) -> Option<HeaderValue> {
    if version != Version::HTTP_11 {
        return None;
    }
    let protocol = headers.get(UPGRADE)?;
    let asked = headers.get_all(CONNECTION).iter().any(|value| has_token(value, b"upgrade"));
    let tunnelled = !has_token(protocol, b"h2c") && !has_token(protocol, b"h2");
    (asked && tunnelled).then(|| protocol.clone())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn hygiene() -> Hygiene {
        Hygiene { underscores: Underscores::Drop, remove: None, via: Some(HeaderValue::from_static("1.1 tollgate")) }
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
    fn hop_by_hop_fields_and_those_named_in_connection_end_here() {
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
        hygiene().clean_request(&mut headers, false);
        assert_eq!(names(&headers).len(), 5, "{headers:?}");
        assert_eq!(headers["te"], "trailers");
        for kept in ["host", "content-length", "accept", "via"] {
            assert!(headers.contains_key(kept), "{kept}");
        }
    }

    #[test]
    fn forwarded_fields_pass_only_from_a_trusted_peer() {
        let given =
            fields(&[("x-forwarded-for", "1.2.3.4"), ("forwarded", "for=1.2.3.4"), ("x-forwarded-prefix", "/a")]);
        let mut untrusted = given.clone();
        hygiene().clean_request(&mut untrusted, false);
        assert_eq!(names(&untrusted), ["via"]);
        let mut trusted = given;
        hygiene().clean_request(&mut trusted, true);
        assert_eq!(trusted.len(), 4);
    }

    #[test]
    fn an_answer_with_a_length_and_chunks_keeps_neither() {
        let mut headers = fields(&[("transfer-encoding", "chunked"), ("content-length", "3"), ("set-cookie", "a")]);
        headers.append("set-cookie", HeaderValue::from_static("b"));
        hygiene().clean_response(StatusCode::OK, &mut headers);
        assert_eq!(headers.get_all("set-cookie").iter().collect::<Vec<_>>(), ["a", "b"]);
        assert_eq!(headers.len(), 2);
    }

    #[test]
    fn springs_own_list_replaces_the_default_one() {
        let remove = Some(vec![HeaderName::from_static("x-inner")]);
        let rules = Hygiene { remove, ..hygiene() };
        let mut headers = fields(&[("x-inner", "1"), ("proxy-authorization", "x"), ("connection", "close")]);
        rules.clean_request(&mut headers, false);
        assert_eq!(names(&headers), ["proxy-authorization", "via"]);
    }

    #[test]
    fn websocket_is_tunnelled_and_h2c_never() {
        let ask = |protocol: &str| fields(&[("connection", "keep-alive, Upgrade"), ("upgrade", protocol)]);
        assert!(upgrade_of(Version::HTTP_11, &ask("websocket")).is_some());
        assert!(upgrade_of(Version::HTTP_11, &ask("h2c")).is_none());
        assert!(upgrade_of(Version::HTTP_11, &ask("websocket, h2c")).is_none());
        assert!(upgrade_of(Version::HTTP_10, &ask("websocket")).is_none());
        assert!(upgrade_of(Version::HTTP_11, &fields(&[("upgrade", "websocket")])).is_none());
    }
}
