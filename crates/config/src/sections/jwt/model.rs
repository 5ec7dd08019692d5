//! `jwt:`, checked.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use http::Uri;
use tokio::sync::Notify;
use tollgate_filters::jwt::Verifier;

/// Which tokens count, and where the keys come from.
#[derive(Clone, Debug)]
pub struct Jwt {
    /// Where the key set is read.
    pub keys: KeySource,
    /// Time after which it is read again.
    pub refresh: Duration,
    /// What the key resolvers of this configuration ask. It has the keys of a file from the start, those of a server
    /// once they are fetched.
    pub verifier: Arc<Verifier>,
    /// Told when a token names a key that the set lacks.
    pub wanted: Arc<Notify>,
}

/// Where a key set is read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KeySource {
    /// A file.
    File(PathBuf),
    /// A server: an absolute URI, `http` or `https`.
    Server(Uri),
}

/// Without a query, which may hold a secret.
impl fmt::Display for KeySource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(path) => path.display().fmt(f),
            Self::Server(uri) => {
                let (scheme, authority) = (uri.scheme_str().unwrap_or_default(), uri.authority());
                write!(f, "{scheme}://{}{}", authority.map_or("", |authority| authority.as_str()), uri.path())
            }
        }
    }
}
