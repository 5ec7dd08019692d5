//! Client of an admin connection.

use std::fmt;
use std::net::IpAddr;

use tollgate_config::Management;
use tollgate_proxy::http::certificate::CertificateNames;

/// Client of an admin connection.
#[derive(Clone, Debug)]
pub(super) enum Peer {
    /// Process on this host that may open the Unix socket.
    Socket,
    /// Client of the port.
    Port {
        /// Its address.
        client: IpAddr,
        /// Names of its certificate, which the handshake has verified.
        certificate: Option<CertificateNames>,
    },
    /// Client of the port for traffic.
    Traffic,
}

impl Peer {
    /// Returns true if the client must show a token or a certificate on a port at `address`.
    pub(super) fn needs_identity(&self, address: IpAddr, management: &Management) -> bool {
        matches!(self, Self::Port { .. }) && port_needs_identity(address, management)
    }

    /// Returns the names of the client's certificate.
    pub(super) fn certificate(&self) -> Option<&CertificateNames> {
        match self {
            Self::Socket | Self::Traffic => None,
            Self::Port { certificate, .. } => certificate.as_ref(),
        }
    }
}

/// Returns true if clients of a port at `address` must show a token or a certificate.
#[must_use]
pub fn port_needs_identity(address: IpAddr, management: &Management) -> bool {
    !address.is_loopback() || management.tls.as_ref().is_some_and(|tls| tls.identifies_clients)
}

impl fmt::Display for Peer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Socket => f.write_str("unix"),
            Self::Port { client, .. } => client.fmt(f),
            Self::Traffic => f.write_str("traffic"),
        }
    }
}
