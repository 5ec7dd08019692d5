//! Spring's `httpclient.ssl`.

use crate::de::{self, NodeRef, OptionalText, Or, PositiveTime, Spanned, Subtree, Time, secs};
use crate::diagnostics::{Diagnostics, Reported};
use crate::sections::no_effect;
use crate::sections::tls::bundle::{self, Side};
use crate::sections::tls::client::{self, OF_CONTENTS, Tls, Trust, identity, report_unverified};
use crate::sections::tls::files::{self, Files, both_given};
use crate::sections::tls::store::Store;
use crate::yaml::Node;

/// Timeout for the TLS handshake with an upstream.
pub(crate) type HandshakeTimeout = Or<PositiveTime, { secs(10) }>;

/// Spring's TLS to upstreams.
#[section]
pub(crate) struct RawClientSsl {
    use_insecure_trust_manager: Option<Spanned<bool>>,
    trusted_x509_certificates: Option<Spanned<Vec<Spanned<String>>>>,
    ssl_bundle: OptionalText,
    #[serde(alias = "handshake-timeout-millis")]
    handshake_timeout: HandshakeTimeout,
    #[serde(alias = "close-notify-flush-timeout-millis")]
    close_notify_flush_timeout: Option<Spanned<Time>>,
    #[serde(alias = "close-notify-read-timeout-millis")]
    close_notify_read_timeout: Option<Spanned<Time>>,
    default_configuration_type: Option<NodeRef>,
    key_store: OptionalText,
    key_store_type: Option<NodeRef>,
    key_store_provider: Option<NodeRef>,
    key_store_password: Option<Spanned<String>>,
    key_password: Option<Spanned<String>>,
    /// Section `spring.ssl.bundle`, moved here by [`crate::spring::normalize`].
    bundles: Option<Subtree>,
}

/// Checks `ssl`. Returns the settings and the handshake timeout.
pub(crate) fn check(node: &Node, diagnostics: &mut Diagnostics) -> (Option<Tls>, HandshakeTimeout) {
    let (raw, unknown) = de::read::<RawClientSsl>(node, diagnostics);
    for unknown in &unknown {
        let name = unknown.path.join(".");
        diagnostics
            .error(unknown.span.key(), format!("`ssl.{name}` is not supported"))
            .help("remove it: ignoring it could weaken TLS");
    }
    let at_once = "connections are closed without waiting";
    let keys = [
        (raw.close_notify_flush_timeout.map(|time| time.span), "close-notify-flush-timeout", at_once),
        (raw.close_notify_read_timeout.map(|time| time.span), "close-notify-read-timeout", at_once),
        (
            raw.default_configuration_type.map(|at| at.0),
            "default-configuration-type",
            "protocols are negotiated by ALPN",
        ),
        (raw.key_store_type.map(|at| at.0), "key-store-type", OF_CONTENTS),
        (raw.key_store_provider.map(|at| at.0), "key-store-provider", OF_CONTENTS),
    ];
    no_effect("ssl.", &keys, diagnostics);
    let handshake_timeout = raw.handshake_timeout;
    (settings(raw, diagnostics).ok(), handshake_timeout)
}

/// Applies Spring's precedence: a bundle replaces all other settings, and certificates win over the insecure trust manager.
fn settings(raw: RawClientSsl, diagnostics: &mut Diagnostics) -> Result<Tls, Reported> {
    let insecure = raw.use_insecure_trust_manager.filter(|on| on.value);
    let key_store = Store {
        location: raw.key_store,
        password: raw.key_store_password,
        key_password: raw.key_password,
        alias: OptionalText::default(),
    };
    let Some(name) = raw.ssl_bundle.spanned() else {
        let files = Files { key_store, names: files::CLIENT, ..Files::default() };
        let identity = identity(&files, diagnostics)?;
        let locations = raw.trusted_x509_certificates.map(|locations| locations.value).unwrap_or_default();
        let trust = trust(&locations, insecure, diagnostics)?;
        return Ok(Tls { trust, identity, ..Tls::default() });
    };
    if let Some(store) = key_store.file(files::CLIENT.key_store, diagnostics)? {
        return Err(both_given(name.span, ("key-store", "ssl-bundle"), store.span, diagnostics));
    }
    let files = bundle::find(name, raw.bundles.as_deref(), Side::Client, diagnostics)?.files;
    let trusted = raw.trusted_x509_certificates.filter(|locations| !locations.value.is_empty());
    for at in insecure.map(|on| on.span).into_iter().chain(trusted.map(|locations| locations.span)) {
        diagnostics.mistake(at.key(), "this has no effect beside `ssl-bundle`").help("remove it");
    }
    let (trust, identity) = (client::trust(&files, diagnostics), identity(&files, diagnostics));
    Ok(Tls { trust: trust?, identity: identity?, ..Tls::default() })
}

/// Reads `trusted-x509-certificates`.
fn trust(
    locations: &[Spanned<String>],
    insecure: Option<Spanned<bool>>,
    diagnostics: &mut Diagnostics,
) -> Result<Trust, Reported> {
    let mut trusted = Vec::new();
    for location in locations {
        let files = Files { trusted: OptionalText::from(location.clone()), ..Files::default() };
        if let Trust::Authorities(certificates) = client::trust(&files, diagnostics)? {
            trusted.extend(certificates);
        }
    }
    Ok(match (trusted.is_empty(), insecure) {
        (true, None) => Trust::System,
        (true, Some(on)) => {
            report_unverified(on.span, "`trusted-x509-certificates`", diagnostics);
            Trust::AnyCertificate
        }
        (false, insecure) => {
            if let Some(on) = insecure {
                diagnostics
                    .mistake(on.span.key(), "this has no effect beside `trusted-x509-certificates`")
                    .help("remove one of the two");
            }
            Trust::Authorities(trusted)
        }
    })
}
