//! `key-store` and `trust-store` of a client: PKCS#12 stores instead of PEM files.

use crate::de::spanned::{NodeRef, Spanned};
use crate::diagnostics::Diagnostics;
use crate::sections::http_client::no_effect;
use crate::sections::http_client::tls::{Identity, RawClientTls, Trust, files};
use crate::sections::key_store::{StoreFile, StoreSettings};
use crate::sections::ssl_bundle::{KeyPair, Trusted};
use crate::yaml::Span;

/// Returns the key store and the trust store, if given, or `None` after an error.
pub(super) fn read(
    raw: &RawClientTls,
    diagnostics: &mut Diagnostics,
) -> Option<(Option<StoreFile>, Option<StoreFile>)> {
    let types: [(Option<NodeRef>, &str); 2] =
        [(raw.key_store_type, "key-store-type"), (raw.trust_store_type, "trust-store-type")];
    for (kind, name) in types {
        if let Some(kind) = kind {
            no_effect(kind.0, name, "the type of a store is read from its contents", diagnostics);
        }
    }
    let key = StoreSettings {
        location: raw.key_store.clone(),
        password: raw.key_store_password.clone(),
        // An empty password is Spring's default and means that there is none.
        key_password: raw.key_password.clone().filter(|password| !password.value.is_empty()),
        alias: raw.key_alias.clone(),
    };
    let trust = StoreSettings {
        location: raw.trust_store.clone(),
        password: raw.trust_store_password.clone(),
        ..StoreSettings::default()
    };
    let stores = (key.file(diagnostics)?, trust.file(diagnostics)?);
    for (settings, store, name) in [(&key, &stores.0, "key-store"), (&trust, &stores.1, "trust-store")] {
        if store.is_none() && settings.location.is_none() {
            settings.report_without_location(name, diagnostics);
        }
    }
    Some(stores)
}

/// Reads the CA certificates of a trust store. Reports an error if `ca` or `insecure` is also given.
pub(super) fn trust(
    store: StoreFile,
    ca: Option<&Spanned<String>>,
    insecure: Option<Spanned<bool>>,
    diagnostics: &mut Diagnostics,
) -> Option<Trust> {
    let at = store.span();
    let other = ca.map(|ca| ("ca", ca.span)).or(insecure.filter(|on| on.value).map(|on| ("insecure", on.span)));
    if let Some((name, span)) = other {
        report_both(span, name, ("trust-store", at), diagnostics);
        return None;
    }
    files::authorities(&Trusted::Store(store), at, diagnostics).map(Trust::Authorities)
}

/// Reads the client certificate of a key store. Reports an error if `pem` (`cert` or `key`) is also given.
pub(super) fn identity(
    store: StoreFile,
    pem: Option<&Spanned<String>>,
    diagnostics: &mut Diagnostics,
) -> Option<Identity> {
    let at = store.span();
    if let Some(pem) = pem {
        report_both(pem.span, "cert", ("key-store", at), diagnostics);
        return None;
    }
    files::identity(&KeyPair::Store(store), at, diagnostics)
}

fn report_both(at: Span, name: &str, (store, other): (&str, Span), diagnostics: &mut Diagnostics) {
    diagnostics
        .error(at.key(), format!("`{name}` and `{store}` are both given"))
        .beside(", the other at", other.key())
        .help("remove one of the two");
}
