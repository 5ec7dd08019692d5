//! Requests to switch protocols.

use std::any::Any;
use std::fmt::Debug;
use std::sync::Arc;

use http::HeaderValue;

/// Request to switch protocols. A request extension, present only on such requests.
#[derive(Clone, Debug)]
pub struct Upgrade {
    /// Requested protocol.
    pub protocol: HeaderValue,
    /// Client connection that becomes the tunnel.
    pub host: Arc<dyn TunnelHost>,
}

/// Client connection that can become a tunnel.
pub trait TunnelHost: Debug + Send + Sync {
    /// Turns the connection into a tunnel, which counts as an open connection until the returned guard is dropped.
    fn open_tunnel(&self) -> Box<dyn Any>;
}
