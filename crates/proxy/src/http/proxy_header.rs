//! Facts of the PROXY header with which a client connection began.

use tollgate_proxy_protocol::{Header, HeaderError};

/// PROXY header of a connection.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct ProxyHeader {
    /// True if the peer's address is that of the header.
    pub names_client: bool,
    /// Id of the connection at the load balancer.
    pub unique_id: Option<Box<[u8]>>,
    /// Id of the VPC endpoint in AWS by which the client came.
    pub vpc_endpoint_id: Option<Box<[u8]>>,
}

tollgate_limiter::labelled! {
    /// Reason for which a connection is closed before its first request.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum HeaderFailure {
        /// The header was not complete in time.
        Timeout = "timeout",
        /// The first bytes are no header.
        Missing = "missing",
        /// The header exceeds its bound.
        TooLong = "too-long",
        /// The header violates the specification, or the connection ended within it.
        Malformed = "malformed",
        /// The checksum of the header is wrong.
        Checksum = "checksum",
    }
}

// === impl ProxyHeader ===

impl From<&Header<'_>> for ProxyHeader {
    fn from(header: &Header<'_>) -> Self {
        Self {
            names_client: header.source.is_some(),
            unique_id: header.unique_id.map(Box::from),
            vpc_endpoint_id: header.vpc_endpoint_id.map(Box::from),
        }
    }
}

impl From<HeaderError> for HeaderFailure {
    fn from(error: HeaderError) -> Self {
        match error {
            HeaderError::Missing => Self::Missing,
            HeaderError::TooLong => Self::TooLong,
            HeaderError::Malformed(_) => Self::Malformed,
            HeaderError::Checksum => Self::Checksum,
        }
    }
}
