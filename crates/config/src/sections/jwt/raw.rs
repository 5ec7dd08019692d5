//! `jwt:` as typed.

use schemars::JsonSchema;
use serde::Deserialize;

use crate::de::spanned::{NodeRef, Spanned};
use crate::de::units::Time;
use crate::sections::scalars::StringOrList;

/// JSON Web Tokens: what `jwt:CLAIM` believes.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default, rename_all = "kebab-case")]
pub(crate) struct RawJwt {
    /// The key set (RFC 7517): a file's path, or `https://…`. A file is read with this one; from a server keys are fetched at the start. Required.
    #[schemars(example = &"https://id.example.com/jwks.json")]
    pub(crate) jwks: Option<Spanned<String>>,
    /// Signature algorithms that are accepted, out of `RS256`, `RS384`, `RS512`, `PS256`, `PS384`, `PS512`, `ES256`, `ES384`, `EdDSA`, `HS256`, `HS384` and `HS512`. Default: all but HS, with which whoever verifies can sign.
    #[schemars(example = &["RS256", "ES256"])]
    pub(crate) algorithms: Option<Vec<Spanned<String>>>,
    /// The `iss` that a token must have, or several to choose from. Default: any.
    #[schemars(with = "StringOrList", example = &"https://id.example.com")]
    pub(crate) issuer: Option<NodeRef>,
    /// The `aud` that a token must name, or several to choose from. Default: any.
    #[schemars(with = "StringOrList", example = &"orders")]
    pub(crate) audience: Option<NodeRef>,
    /// By how much clocks may differ: added to `exp`, taken off `nbf`. Default 60s, as Spring Security's.
    pub(crate) leeway: Option<Spanned<Time>>,
    /// The header that carries the token. Default `Authorization`, behind `Bearer`.
    pub(crate) header: Option<Spanned<String>>,
    /// The cookie that carries the token, in place of a header. Default: none.
    #[schemars(example = &"access_token")]
    pub(crate) cookie: Option<Spanned<String>>,
    /// Time after which the key set is read again. Default 5m; a key that it lacks is looked for earlier.
    pub(crate) refresh: Option<Spanned<Time>>,
}
