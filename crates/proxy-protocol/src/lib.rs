//! Headers of the PROXY protocol, versions 1 and 2.
//!
//! A load balancer that passes TCP through sends the client's address in such a header, before all other bytes of a connection.
//! [`parse`] reads it from the bytes that have arrived, without allocation. The specification is `doc/proxy-protocol.txt` of
//! HAProxy.
//!
//! ```
//! use tollgate_proxy_protocol::parse;
//!
//! let bytes = b"PROXY TCP4 192.0.2.7 10.0.0.1 4711 443\r\nGET / HTTP/1.1\r\n";
//! let header = parse(bytes)?.expect("it is complete");
//! assert_eq!(header.source, "192.0.2.7:4711".parse().ok());
//! assert!(bytes[header.length..].starts_with(b"GET "));
//! # Ok::<(), tollgate_proxy_protocol::HeaderError>(())
//! ```

mod address;
mod v1;
mod v2;

use std::net::SocketAddr;

use thiserror::Error;

/// Longest header in bytes: the bound of version 2. Version 1 has at most 107.
pub const MAX_BYTES: usize = v2::MAX_BYTES;

/// A complete header.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Header<'b> {
    /// Bytes of the header. The client's own bytes follow.
    pub length: usize,
    /// Client address. IPv4-mapped addresses are IPv4. `None`: the header names no TCP client, such as that of a health check.
    pub source: Option<SocketAddr>,
    /// Id of the connection (`PP2_TYPE_UNIQUE_ID`), any bytes, at most 128.
    pub unique_id: Option<&'b [u8]>,
    /// Id of the VPC endpoint in AWS by which the client came (`PP2_SUBTYPE_AWS_VPCE_ID`), any bytes.
    pub vpc_endpoint_id: Option<&'b [u8]>,
}

/// Reason for which bytes are no header.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum HeaderError {
    /// The first bytes belong to another protocol.
    #[error("no header")]
    Missing,
    /// The header exceeds 107 bytes in version 1, or [`MAX_BYTES`] in version 2.
    #[error("too long")]
    TooLong,
    /// The header violates the specification.
    #[error("malformed: {0}")]
    Malformed(&'static str),
    /// The CRC32C differs.
    #[error("wrong checksum")]
    Checksum,
}

/// Parses the header at the start of `bytes`. Returns `None` if it may be complete with further bytes.
///
/// # Errors
/// No further bytes can complete a header.
pub fn parse(bytes: &[u8]) -> Result<Option<Header<'_>>, HeaderError> {
    if bytes.starts_with(v2::SIGNATURE) {
        v2::parse(bytes)
    } else if bytes.starts_with(v1::PREFIX) {
        v1::parse(bytes)
    } else if v1::PREFIX.starts_with(bytes) || v2::SIGNATURE.starts_with(bytes) {
        Ok(None)
    } else {
        Err(HeaderError::Missing)
    }
}

#[cfg(test)]
mod tests;
