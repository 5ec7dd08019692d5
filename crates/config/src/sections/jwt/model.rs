//! Checked settings of `jwt`.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use http::Uri;
use tokio::sync::Notify;
use tollgate_filters::jwt::Verifier;

/// Verification of tokens, and the source of keys.
#[derive(Clone, Debug)]
pub struct Jwt {
    /// Source of the key set.
    pub keys: KeySource,
    /// Interval at which it is read again.
    pub refresh: Duration,
    /// Verifier that the key resolvers of this configuration share. It has the keys of a file from the start, those of a
    /// server once they are fetched.
    pub verifier: Arc<Verifier>,
    /// Notified when a token names an unknown key.
    pub wanted: Arc<Notify>,
}

/// Source of a key set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KeySource {
    /// A file.
    File(PathBuf),
    /// A server, by an absolute `http` or `https` URI.
    Server(Uri),
}

// The query is omitted, since it may contain a secret.
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
