//! Forwarded fields: the client's address as trusted proxies report it, and the fields set for the upstream.

mod client_ip;
mod prefix;
mod set;

pub use self::client_ip::{X_FORWARDED_FOR, client_ip};
pub use self::prefix::{OriginalPath, set_forwarded_prefix};
pub use self::set::{Hop, set_forwarded_headers};
