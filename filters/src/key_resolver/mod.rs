//! Key resolvers: the id under which a request is counted, as Spring Cloud Gateway's `KeyResolver`.
//!
//! | Text | Key id |
//! |---|---|
//! | `ip` | the client's address, as [`KeyResolver::client_ip`] has it; IPv4 in full, IPv6 by /64, IPv4-mapped as IPv4 |
//! | `ip/V4/V6` | the same, by its first V4 or V6 bits: `ip/24/56` |
//! | `header:NAME` | the value of the header; of `Authorization`, with the scheme as in `Bearer` and one space behind it |
//! | `query:NAME` | the value of the query parameter, decoded |
//! | `cookie:NAME` | the value of the cookie |
//! | `path` | the request's path without parameters (`;x`), after the edits of earlier filters |
//! | `path:{var}` | a URI template variable of the matched route, decoded |
//! | `host` | the requested host, in lower case without port |
//! | `method` | the request's method |
//! | `route` | the id of the matched route: one bucket for all its clients |
//! | `jwt:CLAIM` | a claim of the request's verified JSON Web Token; `a.b` is the member `b` of the claim `a` (feature `jwt`) |
//! | `tls:san-uri` | a name of the client's certificate, or its digest: also `san-dns`, `san-email`, `subject-cn`, `fingerprint-sha256` |
//! | `principal` | the user that an authenticating filter established |
//! | `api-key` | the id of the request's verified API key, behind [`IdentifyLayer`](crate::verify_api_key) (feature `verify-api-key`) |
//!
//! Other keys come from a function: [`KeyResolver::from_fn`] and [`KeyResolver::ip_from`]. Behind proxies, the client's address is
//! [`KeyResolver::client_ip_behind`].
//!
//! Values are decoded, so that a client cannot get a fresh bucket by encoding the same value differently. The scheme of
//! credentials ignores case, so `bearer x` and `BEARER  x` have the id of `Bearer x`: see [`KeyResolver::normal_id`]. If
//! the value is missing or empty, the request has no key id, and the limiter's `deny-empty-key` decides.
//!
//! A header, parameter, cookie or name of a certificate that occurs twice with different values gives no key id. Limiters always refuse such a
//! request, even if they allow requests without a key id: an upstream may read the other value. This holds for `header:NAME` and for
//! [`Fields::get`] in a function alike. [`KeyFields`] removes repetitions instead.
//!
//! Two differences from Spring: there, empty strings share one bucket, and the literal `____EMPTY_KEY__` counts as
//! missing, which lets a client opt out. Here, that literal is a key like any other.
//!
//! ```
//! use http::Request;
//! use tollgate_filters::key_resolver::{KeyBuf, KeyResolver};
//!
//! let resolver = KeyResolver::parse("header:X-User")?;
//! let request = Request::builder().header("x-user", "ada").body(())?;
//! assert_eq!(resolver.resolve(&request, &mut KeyBuf::new()), Some(&b"ada"[..]));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod address;
mod api_key;
mod buffer;
mod credentials;
mod extract;
mod function;
mod key_fields;
mod parse;
mod possible;
mod resolver;
mod sources;

pub use self::buffer::KeyBuf;
#[cfg(feature = "verify-api-key")]
pub(crate) use self::extract::is_preflight;
pub use self::function::{Fields, Key, RequestHead};
pub use self::key_fields::KeyFields;
pub use self::parse::KeyResolverError;
pub use self::resolver::KeyResolver;
pub use self::sources::KeySource;

/// Handling of requests without a key id, such as a request without an API key.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MissingKey {
    /// They share one bucket.
    #[default]
    Share,
    /// They pass without a limit.
    Allow,
    /// They are refused: 403.
    Deny,
}
