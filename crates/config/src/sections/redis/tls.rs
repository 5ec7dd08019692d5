//! `redis.tls`, Spring's `ssl`, and the scheme of the URL. All must agree, and no setting is ignored silently.

use serde::Deserialize;
use tollgate_limiter::store::redis::{Authorities, ClientCertificate, KeyStoreFile, Servers, Tls};

use crate::de;
use crate::de::nodes::Nodes;
use crate::de::spanned::{NodeRef, Spanned};
use crate::diagnostics::Diagnostics;
use crate::sections::key_store::StoreFile;
use crate::sections::pem;
use crate::sections::redis::RawRedis;
use crate::sections::redis::servers::FoundServers;
use crate::sections::redis::url::{Transport, Url};
use crate::sections::ssl_bundle::{self, Bundle, KeyPair, Trusted};
use crate::yaml::{Node, NodeKind, Span};

/// TLS by files, each in PEM.
#[derive(Debug, Default, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(default, rename_all = "kebab-case")]
pub(crate) struct RawTls {
    /// Trusted CA certificates. Default: the system's trust store.
    #[cfg_attr(test, schemars(example = &"/etc/tollgate/ca.pem"))]
    ca: Option<Spanned<String>>,
    /// Client certificate of the gateway, with its chain.
    #[cfg_attr(test, schemars(example = &"/etc/tollgate/client.pem"))]
    cert: Option<Spanned<String>>,
    /// Private key of `cert`, not encrypted.
    #[cfg_attr(test, schemars(example = &"/etc/tollgate/client-key.pem"))]
    key: Option<Spanned<String>>,
}

/// TLS by files, or on and off.
#[cfg(test)]
#[derive(schemars::JsonSchema)]
#[serde(untagged)]
#[expect(dead_code, reason = "describes a value in the schema that is read by hand")]
pub(crate) enum RawTlsOrFlag {
    /// By files.
    Files(RawTls),
    /// On, with the system's trust store, or off.
    Flag(bool),
}

/// Spring's TLS.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "kebab-case")]
pub(crate) struct RawSsl {
    enabled: Option<Spanned<bool>>,
    bundle: Option<Spanned<String>>,
    /// Section `spring.ssl.bundle`, moved here by [`crate::spring::normalize`].
    bundles: Option<NodeRef>,
}

/// TLS settings beside the URL.
#[derive(Debug)]
pub(super) enum TlsSettings {
    Nothing,
    Off(Span),
    On(Tls, Span),
}

/// Checks `tls` or `ssl`. Reports errors; `None` if it cannot be used.
pub(super) fn settings(redis: &RawRedis, nodes: &Nodes<'_>, diagnostics: &mut Diagnostics) -> Option<TlsSettings> {
    let node = |whole: Option<_>| whole.and_then(|node| nodes.get(node));
    match (node(redis.tls), node(redis.ssl)) {
        (Some(tls), Some(ssl)) => {
            diagnostics
                .error(ssl.span.key(), "`ssl` and `tls` are both given")
                .beside(", the other at", tls.span.key())
                .help("remove one of the two");
            None
        }
        (Some(tls), None) => match flag(tls) {
            Some(on) => Some(on),
            None if matches!(tls.kind, NodeKind::Map(_)) => files(tls, diagnostics),
            None => misfit(tls, "`ca`, `cert` and `key`", diagnostics),
        },
        (None, Some(ssl)) => match flag(ssl) {
            Some(on) => Some(on),
            None if matches!(ssl.kind, NodeKind::Map(_)) => self::ssl(ssl, nodes, diagnostics),
            None => misfit(ssl, "`enabled` and `bundle`", diagnostics),
        },
        (None, None) => Some(TlsSettings::Nothing),
    }
}

fn misfit(node: &Node, keys: &str, diagnostics: &mut Diagnostics) -> Option<TlsSettings> {
    diagnostics.error(node.span, format!("expected true, false or a map with {keys}, found {}", node.describe()));
    None
}

/// Reads plain `true` or `false`.
fn flag(node: &Node) -> Option<TlsSettings> {
    match node.scalar().map(|text| text.trim().to_ascii_lowercase()).as_deref() {
        Some("true" | "yes" | "on") => Some(TlsSettings::On(Tls::default(), node.span)),
        Some("false" | "no" | "off") => Some(TlsSettings::Off(node.span)),
        _ => None,
    }
}

fn files(node: &Node, diagnostics: &mut Diagnostics) -> Option<TlsSettings> {
    let (raw, unknown) = de::read::<RawTls>(node, diagnostics);
    unknown.iter().for_each(|unknown| diagnostics.unknown_key(unknown));
    // `${REDIS_CA:}` is empty in an environment without it.
    let given = |file: Option<Spanned<String>>| file.filter(|file| !file.value.trim().is_empty());
    let (ca, cert, key) = (given(raw.ca), given(raw.cert), given(raw.key));
    let ca = ca.as_ref().map(|file| pem::file(file, "CERTIFICATE", diagnostics));
    let client = match (&cert, &key) {
        (Some(cert), Some(key)) => {
            Some((pem::file(cert, "CERTIFICATE", diagnostics), pem::file(key, "PRIVATE KEY", diagnostics)))
        }
        (None, None) => None,
        (Some(at), None) | (None, Some(at)) => {
            diagnostics.error(at.span.key(), "`cert` and `key` are required together").help("give both, or neither");
            return None;
        }
    };
    Some(TlsSettings::On(tls(Bundle::of(ca, client)?), node.span))
}

fn ssl(node: &Node, nodes: &Nodes<'_>, diagnostics: &mut Diagnostics) -> Option<TlsSettings> {
    let (raw, unknown) = de::read::<RawSsl>(node, diagnostics);
    for unknown in &unknown {
        let name = unknown.path.join(".");
        diagnostics
            .error(unknown.span.key(), format!("`ssl.{name}` is not supported"))
            .help("`enabled` and `bundle`; remove it: ignoring it could weaken TLS");
    }
    if !unknown.is_empty() {
        return None;
    }
    let bundle = raw.bundle.as_ref().filter(|name| !name.value.trim().is_empty());
    match (raw.enabled, bundle) {
        (Some(Spanned { value: false, span }), bundle) => {
            if let Some(bundle) = bundle {
                diagnostics
                    .warn(bundle.span.key(), "`bundle` has no effect: `enabled: false` disables TLS")
                    .ineffective()
                    .help("remove one of the two");
            }
            Some(TlsSettings::Off(span))
        }
        (_, Some(name)) => {
            let bundles = raw.bundles.and_then(|node| nodes.get(node));
            let bundle = ssl_bundle::bundle(name, bundles, diagnostics)?;
            check_stores(&bundle, diagnostics)?;
            Some(TlsSettings::On(tls(bundle), name.span))
        }
        (Some(enabled), None) => Some(TlsSettings::On(Tls::default(), enabled.span)),
        (None, None) => Some(TlsSettings::Nothing),
    }
}

/// Reads the stores of a bundle once, so that errors are found at start. Connections read them again.
fn check_stores(bundle: &Bundle, diagnostics: &mut Diagnostics) -> Option<()> {
    if let Some(Trusted::Store(store)) = &bundle.ca {
        store.certificates(diagnostics)?;
    }
    if let Some(KeyPair::Store(store)) = &bundle.identity {
        store.identity(diagnostics)?;
    }
    Some(())
}

fn tls(bundle: Bundle) -> Tls {
    let store = |store: StoreFile| KeyStoreFile { path: store.path, password: store.password, alias: store.alias };
    Tls {
        ca: bundle.ca.map(|ca| match ca {
            Trusted::Pem(path) => Authorities::Pem(path),
            Trusted::Store(file) => Authorities::Store(store(file)),
        }),
        client: bundle.identity.map(|pair| match pair {
            KeyPair::Pem(certificate, key) => ClientCertificate::Pem { certificate, key },
            KeyPair::Store(file) => ClientCertificate::Store(store(file)),
        }),
    }
}

/// Returns the servers with their TLS settings. Reports contradictions.
pub(super) fn combine(
    found: FoundServers,
    settings: TlsSettings,
    diagnostics: &mut Diagnostics,
) -> Option<(Servers, Option<Tls>)> {
    let url = match found {
        FoundServers::Sentinel(sentinel) => return Some((Servers::Sentinel(sentinel), enabled(settings))),
        FoundServers::Cluster(nodes) => return Some((Servers::Cluster(nodes), enabled(settings))),
        FoundServers::Url(url) => url,
    };
    match (url.transport, settings) {
        (Transport::Tls, TlsSettings::Off(at)) => {
            diagnostics
                .error(at, "`redis.url` begins with rediss://, but TLS is disabled here")
                .help("remove one of the two");
            None
        }
        (Transport::Socket, TlsSettings::On(_, at)) => {
            diagnostics.error(at, "a unix socket has no TLS").help("remove `tls`");
            None
        }
        (Transport::Plain, TlsSettings::On(_, at)) if url.is_written => {
            diagnostics
                .error(at, "TLS is enabled here, but `redis.url` begins with redis://")
                .help("write `rediss://`");
            None
        }
        (Transport::Plain, TlsSettings::On(tls, _)) => Some((Servers::One(secure(&url)), Some(tls))),
        (Transport::Tls, TlsSettings::Nothing) => Some((Servers::One(url.text), Some(Tls::default()))),
        (Transport::Tls, settings @ TlsSettings::On(..)) => Some((Servers::One(url.text), enabled(settings))),
        (Transport::Plain | Transport::Socket, TlsSettings::Nothing | TlsSettings::Off(_)) => {
            Some((Servers::One(url.text), None))
        }
    }
}

fn enabled(settings: TlsSettings) -> Option<Tls> {
    match settings {
        TlsSettings::On(tls, _) => Some(tls),
        TlsSettings::Nothing | TlsSettings::Off(_) => None,
    }
}

/// Returns the same URL for TLS.
fn secure(url: &Url) -> String {
    let rest = url.text.split_once("://").map_or(url.text.as_str(), |(_, rest)| rest);
    format!("rediss://{rest}")
}
