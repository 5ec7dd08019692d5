//! Key ids that a resolver can return: entries of lists and tables that no request has are mistakes.

use std::net::IpAddr;

use http::header::HOST;
use http::{Method, Request};

use super::buffer::KeyBuf;
use super::extract::{self, IpPrefixes};
use super::resolver::{KeyResolver, Kind};
use crate::client_certificate::CertificatePart;

impl KeyResolver {
    /// Returns true if it is a list without parts, or has one: no request has a key then.
    #[cfg(any(feature = "concurrency-limiter", feature = "request-rate-limiter"))]
    pub(crate) fn has_no_parts(&self) -> bool {
        match &self.0 {
            Kind::Composite(parts) => parts.is_empty() || parts.iter().any(Self::has_no_parts),
            Kind::OrShared(resolver) | Kind::OrPreflight(resolver) => resolver.has_no_parts(),
            _ => false,
        }
    }

    /// Returns false if no request has the key id `id`, such as `bob` for addresses of clients.
    #[must_use]
    pub fn can_return(&self, id: &[u8]) -> bool {
        match &self.0 {
            Kind::Ip(prefixes) | Kind::IpFrom(_, prefixes) => is_network(id, *prefixes),
            Kind::Path => std::str::from_utf8(id)
                .is_ok_and(|text| text.starts_with('/') && extract::path(text, &mut KeyBuf::new()) == id),
            Kind::Host => is_host(id),
            Kind::Method => Method::from_bytes(id).is_ok(),
            #[cfg(feature = "jwt")]
            Kind::Jwt(None, _) => id == b"token",
            #[cfg(feature = "jwt")]
            Kind::Jwt(Some(_), _) => !id.is_empty(),
            Kind::Header(_) | Kind::Credentials(_) | Kind::Query(_) | Kind::Cookie(_) => !id.is_empty(),
            Kind::Certificate(CertificatePart::Fingerprint) => extract::is_fingerprint(id),
            Kind::Certificate(_) | Kind::ApiKey(..) => !id.is_empty(),
            Kind::Variable(_) | Kind::Route | Kind::Principal | Kind::Function(_) => !id.is_empty(),
            Kind::Composite(parts) => is_composite(parts, id),
            Kind::OrShared(resolver) => id.is_empty() || resolver.can_return(id),
            Kind::OrPreflight(resolver) => extract::is_preflight_id(id) || resolver.can_return(id),
        }
    }
}

/// Returns true for the text of an address with `prefixes`.
fn is_network(id: &[u8], prefixes: IpPrefixes) -> bool {
    let text = std::str::from_utf8(id).unwrap_or_default();
    let address = text.split('/').next().unwrap_or_default().parse::<IpAddr>();
    let mut network = KeyBuf::new();
    address.is_ok_and(|address| {
        extract::network(address, prefixes, &mut network);
        network.as_bytes() == id
    })
}

fn is_host(id: &[u8]) -> bool {
    let mut host = KeyBuf::new();
    Request::builder().header(HOST, id).body(()).is_ok_and(|request| {
        extract::host(&request, &mut host);
        !id.is_empty() && host.as_bytes() == id
    })
}

/// Returns true for a list of the ids of `parts`, each behind its length.
fn is_composite(parts: &[KeyResolver], mut id: &[u8]) -> bool {
    for part in parts {
        let Some(colon) = id.iter().position(|byte| *byte == b':') else { return false };
        let length = std::str::from_utf8(&id[..colon]).ok().and_then(|digits| digits.parse::<usize>().ok());
        let Some((part_id, rest)) = length.and_then(|length| id[colon + 1..].split_at_checked(length)) else {
            return false;
        };
        if !part.can_return(part_id) {
            return false;
        }
        id = rest;
    }
    id.is_empty()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn an_id_is_possible_if_a_request_can_have_it() {
        let ip = ["10.0.0.1", "2001:db8::/64"];
        for (resolver, possible, impossible) in [
            (
                "ip",
                &ip[..],
                &["bob", "", "10.0.0.1:80", "[::1]", "::1", "2001:db8::1/64", "10.0.0.0/8", "010.0.0.1"][..],
            ),
            ("ip/24/128", &["10.0.0.0/24", "::1"], &["10.0.0.1", "10.0.0.1/24"]),
            ("path", &["/", "/a/b", "/caf%C3%A9"], &["a", "/a/", "/a;x", "/%61", ""]),
            ("host", &["a.example", "[::1]", "10.0.0.1"], &["A.example", "a.example.", "a:80", "a\nb", ""]),
            ("method", &["GET", "PURGE"], &["", "G T"]),
            ("header:x-key", &["bob", "Bearer  x"], &[""]),
            ("cookie:c", &["bob"], &[""]),
            ("route", &["orders"], &[""]),
        ] {
            let resolver = KeyResolver::parse(resolver).unwrap();
            for resolver in [resolver.clone(), resolver.clone().or_preflight()] {
                possible.iter().for_each(|id| assert!(resolver.can_return(id.as_bytes()), "{resolver}: {id}"));
                impossible.iter().for_each(|id| assert!(!resolver.can_return(id.as_bytes()), "{resolver}: {id}"));
            }
            assert!(resolver.or_shared().can_return(b""));
        }
    }

    #[test]
    fn an_id_of_a_list_has_all_parts() {
        let parts = ["ip", "header:x-key"].map(|part| KeyResolver::parse(part).unwrap());
        let list = KeyResolver::composite(parts.into());
        assert!(list.can_return(b"8:10.0.0.13:bob"));
        for id in ["bob", "8:10.0.0.1", "8:10.0.0.13:bobby", "3:bob8:10.0.0.1", "9:10.0.0.13:bob", "x:", ""] {
            assert!(!list.can_return(id.as_bytes()), "{id}");
        }
    }

    #[test]
    fn the_ids_of_preflights_are_possible() {
        let resolver = KeyResolver::parse("header:x-key").unwrap().or_preflight();
        let mut id = KeyBuf::new();
        extract::write_preflight_id("10.0.0.1".parse().unwrap(), &mut id);
        assert!(resolver.can_return(id.as_bytes()));
    }
}
