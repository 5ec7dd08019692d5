//! Checked TLS settings of a client.

use std::fmt;

/// TLS to an upstream. Equal settings share connections.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Tls {
    /// Trusted certificates.
    pub trust: Trust,
    /// Client certificate of the gateway.
    pub identity: Option<Identity>,
    /// Name that the upstream's certificate must have, also sent as SNI; `None`: the target's host.
    pub server_name: Option<String>,
    /// Oldest accepted version.
    pub min_version: TlsVersion,
}

/// A version of TLS.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum TlsVersion {
    /// RFC 5246.
    #[default]
    Tls12,
    /// RFC 8446.
    Tls13,
}

/// Trusted certificates.
#[derive(Clone, Default, PartialEq, Eq, Hash)]
pub enum Trust {
    /// Certificates signed by the system's trusted CAs.
    #[default]
    System,
    /// Certificates signed by these CAs, each in DER.
    Authorities(Vec<Vec<u8>>),
    /// All certificates.
    AnyCertificate,
}

/// A certificate with its chain, and its key, in DER.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Identity {
    /// The certificate, then its chain.
    pub chain: Vec<Vec<u8>>,
    /// Private key in PEM, which names its type.
    pub key: Vec<u8>,
}

impl fmt::Debug for Trust {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::System => f.write_str("System"),
            Self::Authorities(all) => write!(f, "Authorities({})", all.len()),
            Self::AnyCertificate => f.write_str("AnyCertificate"),
        }
    }
}

impl fmt::Debug for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Identity(…)")
    }
}
