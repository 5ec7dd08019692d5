//! `XForwardedRemoteAddr`: the client's address by `X-Forwarded-For`, as Spring's `XForwardedRemoteAddressResolver`
//! finds it.

use std::net::{IpAddr, SocketAddr};
use std::num::NonZeroUsize;

use http::{HeaderMap, HeaderName};

use super::address::Networks;

const X_FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");

#[derive(Clone, Debug)]
pub(super) struct Forwarded {
    pub(super) networks: Networks,
    /// Counted from the right, from 1.
    pub(super) max_trusted_index: NonZeroUsize,
}

// === impl Forwarded ===

impl Forwarded {
    pub(super) fn matches(&self, headers: &HeaderMap, peer: IpAddr) -> bool {
        self.client(headers, peer).is_some_and(|client| self.networks.contain(client))
    }

    /// The client's address; none where the entry in question is no address.
    pub(super) fn client(&self, headers: &HeaderMap, peer: IpAddr) -> Option<IpAddr> {
        let mut lines = headers.get_all(X_FORWARDED_FOR).iter();
        // Several lines may come from different hands, and nobody says in which order.
        let (Some(line), None) = (lines.next(), lines.next()) else { return Some(peer) };
        let line = line.to_str().ok()?;
        if line.trim().is_empty() {
            return Some(peer);
        }
        let from_the_right = self.max_trusted_index.get() - 1;
        let entry = line.rsplit(',').nth(from_the_right).or_else(|| line.split(',').next())?.trim();
        let with_port = || entry.parse::<SocketAddr>().ok().map(|address| address.ip());
        entry.parse().ok().or_else(with_port)
    }
}
