//! Checks of admin requests: the name under which a browser reached the port, and the sender of a change.

use std::net::IpAddr;

use http::header::{HOST, ORIGIN};
use http::uri::Authority;
use http::{HeaderMap, HeaderName, Uri};
use thiserror::Error;

/// Field that browsers add to each request.
const FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

/// Refusal of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub(super) enum GuardError {
    #[error("`Host` must be localhost or a loopback address: the admin port listens on a loopback address")]
    Host,
    #[error("changes from browser pages are refused")]
    Browser,
    #[error("write endpoints are served on loopback addresses only: set `management.server.address: 127.0.0.1`")]
    NotLoopback,
}

/// Checks the host of a request to the admin port on `address`.
///
/// A page can point its own name at a loopback address (DNS rebinding) and then reads what the port serves. The name
/// stays in `Host`.
pub(super) fn check_host(address: IpAddr, uri: &Uri, headers: &HeaderMap) -> Result<(), GuardError> {
    if !address.is_loopback() {
        return Ok(());
    }
    let mut hosts = headers.get_all(HOST).iter();
    let (host, second) = (hosts.next(), hosts.next());
    let is_allowed = |authority: &Authority| is_loopback(authority.host());
    let in_header = match host {
        // HTTP/1.0 clients, which are no browsers.
        None => true,
        Some(host) => Authority::try_from(host.as_bytes()).is_ok_and(|host| is_allowed(&host)),
    };
    if in_header && second.is_none() && uri.authority().is_none_or(is_allowed) { Ok(()) } else { Err(GuardError::Host) }
}

/// Checks that a change comes from this host, and not from a page in a browser.
pub(super) fn check_change(address: IpAddr, headers: &HeaderMap) -> Result<(), GuardError> {
    if !address.is_loopback() {
        return Err(GuardError::NotLoopback);
    }
    if headers.contains_key(ORIGIN) || headers.contains_key(FETCH_SITE) {
        return Err(GuardError::Browser);
    }
    Ok(())
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
        check_host(Ipv4Addr::LOCALHOST.into(), &uri.parse().unwrap(), &headers).is_ok()
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
        assert_eq!(check_host(Ipv4Addr::UNSPECIFIED.into(), &Uri::default(), &HeaderMap::new()), Ok(()));
    }

    #[test]
    fn changes_need_a_loopback_port_and_no_browser() {
        let local = Ipv4Addr::LOCALHOST.into();
        let with = |name: HeaderName| HeaderMap::from_iter([(name, "x".parse().unwrap())]);
        assert_eq!(check_change(local, &HeaderMap::new()), Ok(()));
        assert_eq!(check_change(Ipv4Addr::UNSPECIFIED.into(), &HeaderMap::new()), Err(GuardError::NotLoopback));
        assert_eq!(check_change(local, &with(ORIGIN)), Err(GuardError::Browser));
        assert_eq!(check_change(local, &with(FETCH_SITE)), Err(GuardError::Browser));
    }
}
