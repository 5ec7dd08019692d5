//! Spring's SSL bundles: certificates and keys by name, in PEM or in key stores.

use std::path::PathBuf;

use crate::de;
use crate::de::spanned::Spanned;
use crate::diagnostics::{Diagnostics, suggest};
use crate::sections::key_store::{StoreBundle, StoreFile};
use crate::sections::pem::located;
use crate::spec::definition::flatten;
use crate::yaml::{Node, NodeKind};

/// Certificates of one side of a TLS connection.
#[derive(Debug, Default)]
pub(crate) struct Bundle {
    /// CA certificates; `None` for the trust store of the system.
    pub(crate) ca: Option<Trusted>,
    /// Certificate chain and private key.
    pub(crate) identity: Option<KeyPair>,
}

/// File of trusted certificates.
#[derive(Debug)]
pub(crate) enum Trusted {
    /// In PEM.
    Pem(PathBuf),
    /// Trust store.
    Store(StoreFile),
}

/// Files of a certificate and its key.
#[derive(Debug)]
pub(crate) enum KeyPair {
    /// Certificate and key in PEM.
    Pem(PathBuf, PathBuf),
    /// Key store.
    Store(StoreFile),
}

impl Bundle {
    /// Joins PEM files; `Some(None)` is a file that could not be used.
    pub(crate) fn of(
        ca: Option<Option<PathBuf>>,
        identity: Option<(Option<PathBuf>, Option<PathBuf>)>,
    ) -> Option<Self> {
        let ca = match ca {
            Some(file) => Some(Trusted::Pem(file?)),
            None => None,
        };
        let identity = match identity {
            Some((cert, key)) => Some(KeyPair::Pem(cert?, key?)),
            None => None,
        };
        Some(Self { ca, identity })
    }
}

/// Options of a bundle without effect on security.
const HARMLESS: [&str; 5] =
    ["reloadonupdate", "truststore.type", "keystore.type", "truststore.verifykeys", "keystore.verifykeys"];

/// SSL bundle of a configuration.
#[derive(Clone, Copy)]
pub(crate) enum Named<'n> {
    /// Bundle of `spring.ssl.bundle.pem`.
    Pem(&'n Node),
    /// Bundle of `spring.ssl.bundle.jks`, with key stores.
    Stores(&'n Node),
}

/// Returns the SSL bundle `name`. Reports an error if there is none.
pub(crate) fn named<'n>(
    name: &Spanned<String>,
    bundles: Option<&'n Node>,
    diagnostics: &mut Diagnostics,
) -> Option<Named<'n>> {
    let wanted = name.value.trim();
    let of_kind = |kind: &str| bundles.and_then(|bundles| bundles.get(kind));
    if let Some(found) = of_kind("pem").and_then(|bundles| bundles.get(wanted)) {
        return Some(Named::Pem(found));
    }
    if let Some(found) = of_kind("jks").and_then(|bundles| bundles.get(wanted)) {
        return Some(Named::Stores(found));
    }
    let known: Vec<&str> = ["pem", "jks"]
        .into_iter()
        .filter_map(|kind| match &of_kind(kind)?.kind {
            NodeKind::Map(entries) => Some(entries.iter().map(|(name, _)| name.as_str())),
            _ => None,
        })
        .flatten()
        .collect();
    diagnostics.error(name.span, format!("there is no SSL bundle `{wanted}`")).help(if known.is_empty() {
        format!("`spring.ssl.bundle.pem.{wanted}` says where its certificates are")
    } else {
        suggest(wanted, &known)
    });
    None
}

/// Returns the files of the SSL bundle `name`. Unsupported options are errors, so that no connection is less secure than
/// its configuration.
pub(crate) fn bundle(name: &Spanned<String>, bundles: Option<&Node>, diagnostics: &mut Diagnostics) -> Option<Bundle> {
    let wanted = name.value.trim();
    let node = match named(name, bundles, diagnostics)? {
        Named::Pem(node) => node,
        Named::Stores(node) => {
            let stores = StoreBundle::read(node, diagnostics);
            if let Some(unsupported) = stores.others.first() {
                diagnostics
                    .error(
                        unsupported.span.key(),
                        format!("`{}` of the SSL bundle `{wanted}` cannot be kept", unsupported.value),
                    )
                    .help("of a bundle `keystore`, `truststore` and `key.alias` are read");
                return None;
            }
            let (ca, identity) = (stores.trust?, stores.key?);
            return Some(Bundle { ca: ca.map(Trusted::Store), identity: identity.map(KeyPair::Store) });
        }
    };
    let mut options = Vec::new();
    flatten("", node, &mut options);
    let (mut ca, mut cert, mut key) = (None, None, None);
    let mut is_kept = true;
    for option in &options {
        let option_name = option.name.as_deref().unwrap_or_default();
        match de::canonical(option_name).as_str() {
            "truststore.certificate" => ca = Some(located(&option.value, option.span, "CERTIFICATE", diagnostics)),
            "keystore.certificate" => cert = Some(located(&option.value, option.span, "CERTIFICATE", diagnostics)),
            "keystore.privatekey" => key = Some(located(&option.value, option.span, "PRIVATE KEY", diagnostics)),
            harmless if HARMLESS.contains(&harmless) => {}
            _ => {
                diagnostics.error(option.span.key(), format!("`{option_name}` of the SSL bundle `{wanted}` cannot be kept"))
                    .help("of a bundle `truststore.certificate`, `keystore.certificate` and `keystore.private-key` are read");
                is_kept = false;
            }
        }
    }
    let client = match (cert, key) {
        (None, None) => None,
        (Some(cert), Some(key)) => Some((cert, key)),
        (cert, _) => {
            let (has, lacks) =
                if cert.is_some() { ("certificate", "private-key") } else { ("private-key", "certificate") };
            diagnostics.error(
                name.span,
                format!("the SSL bundle `{wanted}` has a `keystore.{has}` and no `keystore.{lacks}`"),
            );
            return None;
        }
    };
    Bundle::of(ca, client).filter(|_| is_kept)
}
