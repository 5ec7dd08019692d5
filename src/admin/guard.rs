//! Checks of admin requests: the name under which a browser reached the port, and the sender of a change.

use std::net::IpAddr;

use http::header::{HOST, ORIGIN};
use http::uri::Authority;
use http::{HeaderMap, HeaderName, HeaderValue, Uri};
use thiserror::Error;
use tollgate_config::OuterOrigin;

/// Field that browsers add to each request.
const FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

/// Refusal of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub(super) enum GuardError {
    #[error(
        "`Host` must be localhost, a loopback address, or the host of `management.server.origin`: the admin port listens on a \
         loopback address"
    )]
    Host,
    #[error("changes from pages of another origin are refused")]
    Origin,
}

/// Checks the host of a request to the admin port on `address`, which a proxy may serve at `outer`.
///
/// A page can point its own name at a loopback address (DNS rebinding) and then reads what the port serves. The name
/// stays in `Host`.
pub(super) fn check_host(
    address: IpAddr,
    outer: Option<&OuterOrigin>,
    uri: &Uri,
    headers: &HeaderMap,
) -> Result<(), GuardError> {
    if !address.is_loopback() {
        return Ok(());
    }
    let mut hosts = headers.get_all(HOST).iter();
    let (host, second) = (hosts.next(), hosts.next());
    let is_outer = |authority: &Authority| outer.is_some_and(|outer| outer.has_host(authority.host()));
    let is_allowed = |authority: &Authority| is_loopback(authority.host()) || is_outer(authority);
    let in_header = match host {
        // HTTP/1.0 clients, which are no browsers.
        None => true,
        Some(host) => Authority::try_from(host.as_bytes()).is_ok_and(|host| is_allowed(&host)),
    };
    if in_header && second.is_none() && uri.authority().is_none_or(is_allowed) { Ok(()) } else { Err(GuardError::Host) }
}

/// Checks that a change does not come from a page of another origin than this port, or than the proxy at `outer`. Such a page
/// needs no token on a loopback address.
pub(super) fn check_change(outer: Option<&OuterOrigin>, headers: &HeaderMap) -> Result<(), GuardError> {
    let mut origins = headers.get_all(ORIGIN).iter();
    let is_own = match (origins.next(), origins.next()) {
        (None, _) => true,
        (Some(origin), None) => match outer {
            Some(outer) if outer.is(origin.as_bytes()) => true,
            // A page that reached the proxy without TLS is another origin.
            Some(outer) if names_host(headers.get(HOST), outer) => false,
            _ => is_own_origin(origin, headers.get(HOST)),
        },
        (Some(_), Some(_)) => false,
    };
    let is_same_site = headers.get_all(FETCH_SITE).iter().all(|site| site == "same-origin" || site == "none");
    if is_own && is_same_site { Ok(()) } else { Err(GuardError::Origin) }
}

/// Returns true if `origin` is a page of this port: its host and port are those of the request.
fn is_own_origin(origin: &HeaderValue, host: Option<&HeaderValue>) -> bool {
    let (Ok(origin), Some(Ok(host))) = (origin.to_str(), host.map(HeaderValue::to_str)) else { return false };
    let authority = origin.strip_prefix("http://").or_else(|| origin.strip_prefix("https://"));
    authority.is_some_and(|authority| authority.eq_ignore_ascii_case(host))
}

/// Returns true if `host`, the field, names the host of `outer`.
fn names_host(host: Option<&HeaderValue>, outer: &OuterOrigin) -> bool {
    let authority = host.and_then(|host| Authority::try_from(host.as_bytes()).ok());
    authority.is_some_and(|authority| outer.has_host(authority.host()))
}

fn is_loopback(host: &str) -> bool {
    let host = host.strip_suffix('.').unwrap_or(host);
    let host = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
    host.eq_ignore_ascii_case("localhost")
        || host.parse::<IpAddr>().is_ok_and(|address| address.to_canonical().is_loopback())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::net::Ipv4Addr;

    use super::*;

    fn host(hosts: &[&str], uri: &str) -> bool {
        let mut headers = HeaderMap::new();
        for host in hosts {
            headers.append(HOST, host.parse().unwrap());
        }
        check_host(Ipv4Addr::LOCALHOST.into(), None, &uri.parse().unwrap(), &headers).is_ok()
    }

    #[test]
    fn only_names_of_this_host_reach_a_loopback_port() {
        for good in ["localhost", "LOCALHOST:9090", "127.0.0.1:1", "127.1.2.3", "[::1]:9090", "[::ffff:127.0.0.1]"] {
            assert!(host(&[good], "/metrics"), "{good}");
        }
        for bad in ["evil.example", "localhost.evil.example", "10.0.0.1", "127.0.0.1.nip.io", "", "a b", "[::2]"] {
            assert!(!host(&[bad], "/metrics"), "{bad}");
        }
        assert!(host(&[], "/metrics"), "HTTP/1.0");
        assert!(!host(&["localhost", "localhost"], "/"));
        assert!(!host(&["localhost"], "http://evil.example/"));
        assert_eq!(check_host(Ipv4Addr::UNSPECIFIED.into(), None, &Uri::default(), &HeaderMap::new()), Ok(()));
    }

    #[test]
    fn changes_come_from_no_page_of_another_origin() {
        let checked = |fields: &[(HeaderName, &str)]| {
            let mut headers = HeaderMap::from_iter([(HOST, "localhost:9090".parse().unwrap())]);
            for (name, value) in fields {
                headers.append(name, value.parse().unwrap());
            }
            check_change(None, &headers)
        };
        assert_eq!(checked(&[]), Ok(()), "no browser");
        assert_eq!(checked(&[(ORIGIN, "http://localhost:9090"), (FETCH_SITE, "same-origin")]), Ok(()));
        for origin in ["http://localhost", "http://localhost:8080", "http://evil.example", "null", "localhost:9090", ""]
        {
            assert_eq!(checked(&[(ORIGIN, origin)]), Err(GuardError::Origin), "{origin}");
        }
        let twice = [(ORIGIN, "http://localhost:9090"), (ORIGIN, "http://localhost:9090")];
        assert_eq!(checked(&twice), Err(GuardError::Origin));
        for site in ["cross-site", "same-site", "x"] {
            assert_eq!(checked(&[(FETCH_SITE, site)]), Err(GuardError::Origin), "{site}");
        }
    }
}
