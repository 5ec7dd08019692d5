//! Where requests go.

use http::HeaderValue;

/// One server as connections are kept for it: two origins that differ in anything share no connection.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Origin {
    /// A host name or an address, without brackets.
    pub host: String,
    /// The port.
    pub port: u16,
    /// Both, as the `Host` field says it: without the port where that is the scheme's own.
    pub authority: HeaderValue,
}
