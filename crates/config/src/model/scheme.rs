//! Schemes of upstreams.

/// How an HTTP server is spoken to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Scheme {
    /// Over a plain connection: `http` and `ws`.
    Http,
    /// Over TLS: `https` and `wss`.
    Https,
}

impl Scheme {
    /// As URIs have it.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Http => "http",
            Self::Https => "https",
        }
    }

    /// Where its servers listen unless they say otherwise.
    #[must_use]
    pub fn default_port(self) -> u16 {
        match self {
            Self::Http => 80,
            Self::Https => 443,
        }
    }
}
