//! Why there is no connection.

use std::io;

use thiserror::Error;

use crate::upstream::proxy::ProxyError;
use crate::upstream::tls::TlsError;

/// Why there is no connection.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ConnectError {
    /// The name has no address.
    #[error("cannot resolve the upstream's name")]
    Resolve(#[source] io::Error),
    /// Nobody listens, or the way is barred.
    #[error("cannot connect to the upstream")]
    Connect(#[source] io::Error),
    /// Not within the connect timeout.
    #[error("the upstream did not accept the connection in time")]
    Timeout,
    /// The proxy on the way did not let it through.
    #[error("cannot connect through `httpclient.proxy`")]
    Proxy(#[source] ProxyError),
    /// No TLS.
    #[error("no TLS with the upstream")]
    Tls(#[source] TlsError),
    /// TLS was not set up within `handshake-timeout`.
    #[error("the upstream did not set up TLS in time")]
    TlsTimeout,
    /// The HTTP client refused the connection.
    #[error("cannot speak HTTP with the upstream")]
    Handshake(#[source] hyper::Error),
    /// All connections that `httpclient.pool.max-connections` allows were busy for `acquire-timeout`.
    #[error("all connections that `httpclient.pool.max-connections` allows this worker are in use")]
    Exhausted,
}
