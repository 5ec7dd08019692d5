//! TLS towards clients as typed.

use schemars::JsonSchema;
use serde::Deserialize;

use crate::de::spanned::{NodeRef, Spanned};
use crate::sections::scalars::StringOrList;

/// TLS towards clients. Its files are read again on a reload.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default, rename_all = "kebab-case")]
pub(crate) struct RawServerSsl {
    /// Whether it is on. Default true, where anything of it is given.
    pub(crate) enabled: Option<bool>,
    /// The gateway's certificate, its chain behind it: a file in PEM.
    pub(crate) certificate: Option<Spanned<String>>,
    /// The key of `certificate`, not encrypted: a file in PEM.
    pub(crate) certificate_private_key: Option<Spanned<String>>,
    /// The certificates of the authorities that sign clients' certificates: a file in PEM.
    pub(crate) trust_certificate: Option<Spanned<String>>,
    /// Whether a client shows a certificate: `none`, `want` or `need`. Default `none`.
    pub(crate) client_auth: Option<Spanned<RawClientAuth>>,
    /// `TLSv1.2`, `TLSv1.3` or both. Default both.
    #[schemars(with = "Option<StringOrList>")]
    pub(crate) enabled_protocols: Option<Vec<Spanned<String>>>,
    /// A bundle of `spring.ssl.bundle.pem`, in place of files.
    #[schemars(skip)]
    pub(crate) bundle: Option<Spanned<String>>,
    /// Bundles by the name that a client asks for.
    #[schemars(skip)]
    pub(crate) server_name_bundles: Option<Vec<RawServerName>>,
    /// What stands under `spring.ssl.bundle`, put here by [`crate::spring::normalize`].
    #[schemars(skip)]
    pub(crate) bundles: Option<NodeRef>,
}

/// Whether a client shows a certificate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum RawClientAuth {
    /// It is not asked.
    None,
    /// It is asked, and may have none; what it shows must be good.
    Want,
    /// It is refused without one.
    Need,
}

/// A bundle for the name that a client asks for.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "kebab-case")]
pub(crate) struct RawServerName {
    pub(crate) server_name: Option<Spanned<String>>,
    pub(crate) bundle: Option<Spanned<String>>,
}
