//! `jwt:`: verification of JSON Web Tokens.

#[cfg_attr(not(feature = "jwt"), path = "absent.rs")]
pub(crate) mod check;

use crate::de::{Given, Or, PositiveTime, Spanned, Texts, Time, secs};
#[cfg(test)]
use crate::sections::StringOrList;

/// Verification of JSON Web Tokens, for `jwt:CLAIM`.
#[section]
pub(crate) struct RawJwt {
    /// Key set (RFC 7517): a file's path, or `https://…`. A file is read with the configuration, a URL is fetched at start. Required.
    #[cfg_attr(test, schemars(example = &"https://id.example.com/jwks.json"))]
    pub(crate) jwks: Option<Spanned<String>>,
    /// Accepted signature algorithms, of `RS256`, `RS384`, `RS512`, `PS256`, `PS384`, `PS512`, `ES256`, `ES384`, `EdDSA`, `HS256`, `HS384` and `HS512`. Default: all except HS, since the shared secret also allows signing.
    #[cfg_attr(test, schemars(with = "Option<Vec<String>>", example = &["RS256", "ES256"]))]
    pub(crate) algorithms: Given<Vec<Spanned<String>>>,
    /// Accepted `iss`, or a list. Default: any.
    #[cfg_attr(test, schemars(with = "StringOrList", example = &"https://id.example.com"))]
    pub(crate) issuer: Texts,
    /// Accepted `aud`, or a list. Default: any.
    #[cfg_attr(test, schemars(with = "StringOrList", example = &"orders"))]
    pub(crate) audience: Texts,
    /// Allowed clock skew for `exp` and `nbf`. Default 60s, as in Spring Security.
    pub(crate) leeway: Option<Spanned<Time>>,
    /// Header with the token. Default `Authorization`, after `Bearer`.
    pub(crate) header: Option<Spanned<String>>,
    /// Cookie with the token, instead of a header. Default: none.
    #[cfg_attr(test, schemars(example = &"access_token"))]
    pub(crate) cookie: Option<Spanned<String>>,
    /// Interval at which the key set is read again. Default {}; an unknown key id triggers an earlier read.
    pub(crate) refresh: Or<PositiveTime, { secs(300) }>,
}
