//! Spring's `httpclient.ssl`.

use std::path::Path;
use std::time::Duration;

use serde::Deserialize;

use crate::de;
use crate::de::nodes::Nodes;
use crate::de::spanned::{NodeRef, Spanned};
use crate::de::units::{Time, positive};
use crate::diagnostics::Diagnostics;
use crate::sections::http_client::no_effect;
use crate::sections::http_client::tls::files::{authorities, identity};
use crate::sections::http_client::tls::{Tls, Trust};
use crate::sections::pem;
use crate::sections::pem::Bundle;
use crate::yaml::{Node, Span};

/// Spring's TLS to upstreams.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "kebab-case")]
pub(crate) struct RawClientSsl {
    use_insecure_trust_manager: Option<Spanned<bool>>,
    trusted_x509_certificates: Vec<Spanned<String>>,
    ssl_bundle: Option<Spanned<String>>,
    #[serde(alias = "handshake-timeout-millis")]
    handshake_timeout: Option<Spanned<Time>>,
    #[serde(alias = "close-notify-flush-timeout-millis")]
    close_notify_flush_timeout: Option<Spanned<Time>>,
    #[serde(alias = "close-notify-read-timeout-millis")]
    close_notify_read_timeout: Option<Spanned<Time>>,
    default_configuration_type: Option<NodeRef>,
    key_store: Option<Spanned<String>>,
    key_store_type: Option<Spanned<String>>,
    key_store_provider: Option<Spanned<String>>,
    key_store_password: Option<Spanned<String>>,
    key_password: Option<Spanned<String>>,
    /// Section `spring.ssl.bundle`, moved here by [`crate::spring::normalize`].
    bundles: Option<NodeRef>,
}

/// Checks `ssl`. Returns the settings and the handshake timeout.
pub(super) fn check(node: &Node, nodes: &Nodes<'_>, diagnostics: &mut Diagnostics) -> (Option<Tls>, Option<Duration>) {
    let (raw, unknown) = de::read::<RawClientSsl>(node, diagnostics);
    for unknown in &unknown {
        let name = unknown.path.join(".");
        diagnostics
            .error(unknown.span.key(), format!("`ssl.{name}` is not supported"))
            .help("remove it: ignoring it could weaken TLS");
    }
    for (time, name) in [
        (raw.close_notify_flush_timeout, "close-notify-flush-timeout"),
        (raw.close_notify_read_timeout, "close-notify-read-timeout"),
    ] {
        if let Some(time) = time {
            no_effect(time.span, &format!("ssl.{name}"), "connections are closed without waiting", diagnostics);
        }
    }
    if let Some(kind) = raw.default_configuration_type {
        no_effect(kind.0, "ssl.default-configuration-type", "protocols are negotiated by ALPN", diagnostics);
    }
    let patience = raw.handshake_timeout.map(|time| positive(Some(time), 10, diagnostics));
    (kept(&raw, nodes, diagnostics), patience)
}

/// Applies Spring's precedence: a bundle replaces all other settings, and certificates win over the insecure trust manager.
fn kept(raw: &RawClientSsl, nodes: &Nodes<'_>, diagnostics: &mut Diagnostics) -> Option<Tls> {
    if let Some(store) = raw.key_store.as_ref().filter(|store| !store.value.trim().is_empty()) {
        key_store(store, raw.key_store_type.as_ref(), diagnostics);
        return None;
    }
    for (at, name) in [
        (raw.key_store_type.as_ref().map(|text| text.span), "key-store-type"),
        (raw.key_store_provider.as_ref().map(|text| text.span), "key-store-provider"),
        (raw.key_store_password.as_ref().map(|text| text.span), "key-store-password"),
        (raw.key_password.as_ref().map(|text| text.span), "key-password"),
    ] {
        if let Some(at) = at {
            diagnostics.mistake(at.key(), format!("`{name}` has no effect without `key-store`")).help("remove it");
        }
    }
    let insecure = raw.use_insecure_trust_manager.filter(|on| on.value);
    if let Some(name) = raw.ssl_bundle.as_ref().filter(|name| !name.value.trim().is_empty()) {
        let bundles = raw.bundles.and_then(|node| nodes.get(node));
        let bundle = pem::bundle(name, bundles, diagnostics)?;
        if insecure.is_some() || !raw.trusted_x509_certificates.is_empty() {
            diagnostics
                .mistake(name.span.key(), "the other settings of `ssl` have no effect beside `ssl-bundle`")
                .help("remove them");
        }
        return of_bundle(&bundle, name.span, diagnostics);
    }
    let mut trusted = Vec::new();
    for location in raw.trusted_x509_certificates.iter().filter(|location| !location.value.trim().is_empty()) {
        let path = pem::located(&location.value, location.span, "CERTIFICATE", diagnostics)?;
        trusted.extend(authorities(&path, location.span, diagnostics)?);
    }
    let trust = match (trusted.is_empty(), insecure) {
        (false, Some(on)) => {
            diagnostics
                .mistake(on.span.key(), "this has no effect beside `trusted-x509-certificates`")
                .help("remove one of the two");
            Trust::Authorities(trusted)
        }
        (false, None) => Trust::Authorities(trusted),
        (true, Some(on)) => {
            super::unchecked(on.span, "`trusted-x509-certificates`", diagnostics);
            Trust::AnyCertificate
        }
        (true, None) => Trust::System,
    };
    Some(Tls { trust, ..Tls::default() })
}

fn of_bundle(bundle: &Bundle, at: Span, diagnostics: &mut Diagnostics) -> Option<Tls> {
    let trust = match &bundle.ca {
        Some(path) => Trust::Authorities(authorities(path, at, diagnostics)?),
        None => Trust::System,
    };
    let identity = match &bundle.identity {
        Some((cert, key)) => Some(identity(cert, key, at, diagnostics)?),
        None => None,
    };
    Some(Tls { trust, identity, ..Tls::default() })
}

fn key_store(store: &Spanned<String>, kind: Option<&Spanned<String>>, diagnostics: &mut Diagnostics) {
    let path = store.value.trim().trim_start_matches("classpath:").trim_start_matches("file:");
    let is_pkcs12 = kind.is_some_and(|kind| kind.value.trim().eq_ignore_ascii_case("PKCS12"))
        || Path::new(path).extension().is_some_and(|end| end == "p12" || end == "pfx");
    let (first, from) = if is_pkcs12 {
        (String::new(), path.to_owned())
    } else {
        let command = format!(
            "`keytool -importkeystore -srckeystore {path} -destkeystore client.p12 -deststoretype PKCS12`, then "
        );
        (command, "client.p12".to_owned())
    };
    diagnostics.error(store.span, format!("`{path}` is a Java key store, which Tollgate cannot read")).help(format!(
        "{first}`openssl pkcs12 -in {from} -nodes -out client.pem` writes it as PEM: name that in \
         `httpclient.tls.cert` and `.key`, or in a bundle under `spring.ssl.bundle.pem` and `ssl-bundle`"
    ));
}
