//! Raw TLS settings of the listener.

use schemars::JsonSchema;
use serde::Deserialize;

use crate::de::spanned::{NodeRef, Spanned};
use crate::sections::scalars::StringOrList;

/// TLS with clients. A reload reads its files again.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default, rename_all = "kebab-case")]
pub(crate) struct RawServerSsl {
    /// Enables TLS. Default true if the section is there.
    pub(crate) enabled: Option<bool>,
    /// File in PEM with the gateway's certificate and its chain.
    pub(crate) certificate: Option<Spanned<String>>,
    /// File in PEM with the key of `certificate`, not encrypted.
    pub(crate) certificate_private_key: Option<Spanned<String>>,
    /// File in PEM with the CA certificates for client certificates.
    pub(crate) trust_certificate: Option<Spanned<String>>,
    /// Client certificates: `none`, `want` (optional) or `need` (required). Default `none`.
    pub(crate) client_auth: Option<Spanned<RawClientAuth>>,
    /// `TLSv1.2`, `TLSv1.3` or both. Default both.
    #[schemars(with = "Option<StringOrList>")]
    pub(crate) enabled_protocols: Option<Vec<Spanned<String>>>,
    /// Name of a bundle of `spring.ssl.bundle.pem`, instead of files.
    #[schemars(skip)]
    pub(crate) bundle: Option<Spanned<String>>,
    /// Bundles by the name that a client requests (SNI).
    #[schemars(skip)]
    pub(crate) server_name_bundles: Option<Vec<RawServerName>>,
    /// Section `spring.ssl.bundle`, moved here by [`crate::spring::normalize`].
    #[schemars(skip)]
    pub(crate) bundles: Option<NodeRef>,
}

/// Use of client certificates.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum RawClientAuth {
    /// Not requested.
    None,
    /// Requested; a client may have none, but a certificate must be valid.
    Want,
    /// Required.
    Need,
}

/// Bundle for a name that clients request (SNI).
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "kebab-case")]
pub(crate) struct RawServerName {
    pub(crate) server_name: Option<Spanned<String>>,
    pub(crate) bundle: Option<Spanned<String>>,
}
