//! Key resolvers of clients' addresses.

use std::net::IpAddr;
use std::sync::Arc;

#[cfg(feature = "request-rate-limiter")]
use http::Request;
use http::{Extensions, HeaderMap};
use ipnet::IpNet;

use super::extract::IpPrefixes;
use super::function::UserFn;
use super::resolver::{KeyResolver, Kind};
use crate::client_address;

impl KeyResolver {
    /// Resolves to the client's address, IPv4 in full and IPv6 by /64: that of the request's [`RequestContext`](crate::context::RequestContext), or that of axum's
    /// `ConnectInfo<SocketAddr>` with the feature `axum`, which in tests may be a `MockConnectInfo`.
    ///
    /// A request without either has no key: see [`requests_without_address`](crate::client_address::requests_without_address).
    #[must_use]
    pub fn client_ip() -> Self {
        Self(Kind::Ip(IpPrefixes::DEFAULT))
    }

    /// Resolves as [`client_ip`](Self::client_ip), behind trusted `proxies`: if the address is one of theirs, the client is the
    /// rightmost entry of `X-Forwarded-For` that is not.
    ///
    /// ```
    /// use tollgate_filters::key_resolver::KeyResolver;
    ///
    /// let client = KeyResolver::client_ip_behind(["10.0.0.0/8".parse()?, "fd00::/8".parse()?]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn client_ip_behind(proxies: impl IntoIterator<Item = IpNet>) -> Self {
        let proxies: Vec<IpNet> = proxies.into_iter().collect();
        let address = move |extensions: &Extensions, headers: &HeaderMap| {
            let peer = client_address::of_extensions(extensions)?;
            let is_trusted = |address| proxies.iter().any(|network| network.contains(&address));
            Some(client_address::client_address(peer, headers, is_trusted))
        };
        Self(Kind::IpFrom(UserFn(Arc::new(address)), IpPrefixes::DEFAULT))
    }

    /// Resolves to the client's address, as [`client_ip`](Self::client_ip), read from a request extension of the type `T`, such
    /// as tonic's `TcpConnectInfo`.
    ///
    /// ```
    /// # use std::net::{IpAddr, SocketAddr};
    /// # struct TcpConnectInfo { remote_addr: Option<SocketAddr> }
    /// use tollgate_filters::key_resolver::KeyResolver;
    ///
    /// let client = KeyResolver::ip_from(|peer: &TcpConnectInfo| peer.remote_addr.map(|address| address.ip()));
    /// ```
    #[must_use]
    pub fn ip_from<T, F, A>(address: F) -> Self
    where
        T: Send + Sync + 'static,
        F: Fn(&T) -> A + Send + Sync + 'static,
        A: Into<Option<IpAddr>>,
    {
        let address = move |extensions: &Extensions, _: &HeaderMap| {
            let peer_address = extensions.get::<T>().and_then(|peer| address(peer).into());
            peer_address.or_else(client_address::note_missing)
        };
        Self(Kind::IpFrom(UserFn(Arc::new(address)), IpPrefixes::DEFAULT))
    }

    /// Returns the client's address: as the key has it, otherwise that of [`client_ip`](Self::client_ip).
    #[cfg(feature = "request-rate-limiter")]
    pub(crate) fn address<B>(&self, request: &Request<B>) -> Option<IpAddr> {
        self.own_address(request).or_else(|| client_address::of_extensions(request.extensions()))
    }

    /// Returns the address that a function finds for the key.
    #[cfg(feature = "request-rate-limiter")]
    fn own_address<B>(&self, request: &Request<B>) -> Option<IpAddr> {
        match &self.0 {
            Kind::IpFrom(address, _) => (address.0)(request.extensions(), request.headers()),
            Kind::Composite(parts) => parts.iter().find_map(|part| part.own_address(request)),
            Kind::OrShared(resolver) | Kind::OrPreflight(resolver) => resolver.own_address(request),
            _ => None,
        }
    }

    /// Sets the prefix lengths of addresses: `v4` from 0 to 32 bits and `v6` from 0 to 128; larger numbers mean the full address.
    /// Resolvers without an address stay as they are.
    #[must_use]
    pub fn with_ip_prefixes(mut self, v4: u8, v6: u8) -> Self {
        self.change_parts(&|part| {
            if let Kind::Ip(prefixes) | Kind::IpFrom(_, prefixes) = part {
                *prefixes = IpPrefixes { v4, v6 };
            }
        });
        self
    }
}
