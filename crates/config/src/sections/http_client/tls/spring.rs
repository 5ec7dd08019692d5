//! Spring's `httpclient.ssl`.

use std::time::Duration;

use serde::Deserialize;

use crate::de;
use crate::de::nodes::Nodes;
use crate::de::ranged::{PositiveTime, positive};
use crate::de::spanned::{NodeRef, Spanned};
use crate::de::units::Time;
use crate::diagnostics::Diagnostics;
use crate::sections::http_client::no_effect;
use crate::sections::http_client::tls::files::{authorities, identity};
use crate::sections::http_client::tls::{Tls, Trust};
use crate::sections::key_store::StoreSettings;
use crate::sections::pem;
use crate::sections::ssl_bundle::{self, Bundle, KeyPair, Trusted};
use crate::yaml::{Node, Span};

/// Spring's TLS to upstreams.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "kebab-case")]
pub(crate) struct RawClientSsl {
    use_insecure_trust_manager: Option<Spanned<bool>>,
    trusted_x509_certificates: Vec<Spanned<String>>,
    ssl_bundle: Option<Spanned<String>>,
    #[serde(alias = "handshake-timeout-millis")]
    handshake_timeout: Option<Spanned<PositiveTime>>,
    #[serde(alias = "close-notify-flush-timeout-millis")]
    close_notify_flush_timeout: Option<Spanned<Time>>,
    #[serde(alias = "close-notify-read-timeout-millis")]
    close_notify_read_timeout: Option<Spanned<Time>>,
    default_configuration_type: Option<NodeRef>,
    key_store: Option<Spanned<String>>,
    key_store_type: Option<NodeRef>,
    key_store_provider: Option<NodeRef>,
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
    for (kind, name) in [(raw.key_store_type, "key-store-type"), (raw.key_store_provider, "key-store-provider")] {
        if let Some(kind) = kind {
            no_effect(kind.0, &format!("ssl.{name}"), "the type of a store is read from its contents", diagnostics);
        }
    }
    let patience = raw.handshake_timeout.map(|time| positive(Some(time), 10, diagnostics));
    (kept(&raw, nodes, diagnostics), patience)
}

/// Applies Spring's precedence: a bundle replaces all other settings, and certificates win over the insecure trust manager.
fn kept(raw: &RawClientSsl, nodes: &Nodes<'_>, diagnostics: &mut Diagnostics) -> Option<Tls> {
    let store = StoreSettings {
        location: raw.key_store.clone(),
        password: raw.key_store_password.clone(),
        key_password: raw.key_password.clone(),
        alias: None,
    };
    let Some(key_store) = store.file(diagnostics)? else {
        store.report_without_location("key-store", diagnostics);
        return trusting(raw, nodes, diagnostics);
    };
    let Some(bundle) = raw.ssl_bundle.as_ref().filter(|name| !name.value.trim().is_empty()) else {
        let identity = identity(&KeyPair::Store(key_store.clone()), key_store.span(), diagnostics)?;
        return Some(Tls { identity: Some(identity), ..trusting(raw, nodes, diagnostics)? });
    };
    diagnostics
        .error(bundle.span, "`key-store` and `ssl-bundle` are both given")
        .beside(", the other at", key_store.span().key())
        .help("remove one of the two");
    None
}

/// Reads trusted certificates, and a bundle.
fn trusting(raw: &RawClientSsl, nodes: &Nodes<'_>, diagnostics: &mut Diagnostics) -> Option<Tls> {
    let insecure = raw.use_insecure_trust_manager.filter(|on| on.value);
    if let Some(name) = raw.ssl_bundle.as_ref().filter(|name| !name.value.trim().is_empty()) {
        let bundles = raw.bundles.and_then(|node| nodes.get(node));
        let bundle = ssl_bundle::bundle(name, bundles, diagnostics)?;
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
        trusted.extend(authorities(&Trusted::Pem(path), location.span, diagnostics)?);
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
        Some(ca) => Trust::Authorities(authorities(ca, at, diagnostics)?),
        None => Trust::System,
    };
    let identity = match &bundle.identity {
        Some(pair) => Some(identity(pair, at, diagnostics)?),
        None => None,
    };
    Some(Tls { trust, identity, ..Tls::default() })
}
