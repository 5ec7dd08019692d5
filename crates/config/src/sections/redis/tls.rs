//! `redis.tls`, Spring's `ssl`, and the scheme of the URL. All must agree, and no setting is ignored silently.

use tollgate_limiter::store::redis::{Authorities, ClientCertificate, KeyStoreFile, Servers, Tls};

use crate::de::{self, OptionalText, Spanned, Subtree, parse_flag};
use crate::diagnostics::{Diagnostics, Reported};
use crate::sections::redis::RawRedis;
use crate::sections::redis::servers::FoundServers;
use crate::sections::redis::url::{Transport, Url};
use crate::sections::tls::bundle::{self, Side};
use crate::sections::tls::files::{self, Files, KeyPair, Trusted, both_given};
use crate::sections::tls::store::StoreFile;
use crate::yaml::{Node, NodeKind, Span};

/// TLS by files, each in PEM.
#[section]
pub(crate) struct RawTls {
    /// Trusted CA certificates. Default: the system's trust store.
    #[cfg_attr(test, schemars(example = &"/etc/tollgate/ca.pem"))]
    ca: OptionalText,
    /// Client certificate of the gateway, with its chain.
    #[cfg_attr(test, schemars(example = &"/etc/tollgate/client.pem"))]
    cert: OptionalText,
    /// Private key of `cert`, not encrypted.
    #[cfg_attr(test, schemars(example = &"/etc/tollgate/client-key.pem"))]
    key: OptionalText,
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
#[section]
pub(crate) struct RawSsl {
    enabled: Option<Spanned<bool>>,
    bundle: OptionalText,
    /// Section `spring.ssl.bundle`, moved here by [`crate::spring::normalize`].
    bundles: Option<Subtree>,
}

/// TLS settings beside the URL.
#[derive(Debug)]
pub(super) enum TlsSettings {
    Nothing,
    Off(Span),
    On(Tls, Span),
}

/// Checks `tls` or `ssl`. Reports errors.
pub(super) fn settings(redis: &RawRedis, diagnostics: &mut Diagnostics) -> Result<TlsSettings, Reported> {
    match (&redis.tls, &redis.ssl) {
        (Some(tls), Some(ssl)) => Err(both_given(ssl.span, ("ssl", "tls"), tls.span, diagnostics)),
        (Some(tls), None) => match flag(tls) {
            Some(on) => Ok(on),
            None if matches!(tls.kind, NodeKind::Map(_)) => files(tls, diagnostics),
            None => report_wrong_type(tls, "`ca`, `cert` and `key`", diagnostics),
        },
        (None, Some(ssl)) => match flag(ssl) {
            Some(on) => Ok(on),
            None if matches!(ssl.kind, NodeKind::Map(_)) => self::ssl(ssl, diagnostics),
            None => report_wrong_type(ssl, "`enabled` and `bundle`", diagnostics),
        },
        (None, None) => Ok(TlsSettings::Nothing),
    }
}

fn report_wrong_type(node: &Node, keys: &str, diagnostics: &mut Diagnostics) -> Result<TlsSettings, Reported> {
    let message = format!("expected true, false or a map with {keys}, found {}", node.describe());
    Err(diagnostics.error(node.span, message).reported())
}

/// Reads plain `true` or `false`.
fn flag(node: &Node) -> Option<TlsSettings> {
    let is_on = node.scalar().and_then(parse_flag)?;
    Some(if is_on { TlsSettings::On(Tls::default(), node.span) } else { TlsSettings::Off(node.span) })
}

fn files(node: &Node, diagnostics: &mut Diagnostics) -> Result<TlsSettings, Reported> {
    let (raw, unknown) = de::read::<RawTls>(node, diagnostics);
    unknown.iter().for_each(|unknown| diagnostics.unknown_key(unknown));
    let files =
        Files { certificate: raw.cert, key: raw.key, trusted: raw.ca, names: files::CLIENT, ..Files::default() };
    Ok(TlsSettings::On(tls(&files, diagnostics)?, node.span))
}

fn ssl(node: &Node, diagnostics: &mut Diagnostics) -> Result<TlsSettings, Reported> {
    let (raw, unknown) = de::read::<RawSsl>(node, diagnostics);
    let mut result = Ok(());
    for unknown in &unknown {
        let message = format!("`ssl.{}` is not supported", unknown.path.join("."));
        result = Err(diagnostics
            .error(unknown.span.key(), message)
            .reported_with("`enabled` and `bundle`; remove it: ignoring it could weaken TLS"));
    }
    result?;
    match (raw.enabled, raw.bundle.spanned()) {
        (Some(Spanned { value: false, span }), bundle) => {
            if let Some(bundle) = bundle {
                diagnostics
                    .warn(bundle.span.key(), "`bundle` has no effect: `enabled: false` disables TLS")
                    .ineffective()
                    .help("remove one of the two");
            }
            Ok(TlsSettings::Off(span))
        }
        (_, Some(name)) => {
            let files = bundle::find(name, raw.bundles.as_deref(), Side::Client, diagnostics)?.files;
            Ok(TlsSettings::On(tls(&files, diagnostics)?, name.span))
        }
        (Some(enabled), None) => Ok(TlsSettings::On(Tls::default(), enabled.span)),
        (None, None) => Ok(TlsSettings::Nothing),
    }
}

/// Returns the paths of `files`, which are read once, so that errors are found at start; connections read them again.
fn tls(files: &Files, diagnostics: &mut Diagnostics) -> Result<Tls, Reported> {
    let store = |store: StoreFile| KeyStoreFile { path: store.path, password: store.password, alias: store.alias };
    let (trusted, pair) = (files.trusted(diagnostics), files.key_pair(diagnostics));
    let (trusted, pair) = (trusted?, pair?);
    trusted.as_ref().map(|trusted| trusted.read(diagnostics)).transpose()?;
    pair.as_ref().map(|pair| pair.read(diagnostics)).transpose()?;
    Ok(Tls {
        ca: trusted.map(|trusted| match trusted {
            Trusted::Pem(file) => Authorities::Pem(file.path),
            Trusted::Store(file) => Authorities::Store(store(file)),
        }),
        client: pair.map(|pair| match pair {
            KeyPair::Pem(certificate, key) => ClientCertificate::Pem { certificate: certificate.path, key: key.path },
            KeyPair::Store(file) => ClientCertificate::Store(store(file)),
        }),
    })
}

/// Returns the servers with their TLS settings. Reports contradictions.
pub(super) fn combine(
    servers: FoundServers,
    settings: TlsSettings,
    diagnostics: &mut Diagnostics,
) -> Result<(Servers, Option<Tls>), Reported> {
    let url = match servers {
        FoundServers::Sentinel(sentinel) => return Ok((Servers::Sentinel(sentinel), enabled(settings))),
        FoundServers::Cluster(nodes) => return Ok((Servers::Cluster(nodes), enabled(settings))),
        FoundServers::Url(url) => url,
    };
    let (at, message, help) = match (url.transport, settings) {
        (Transport::Tls, TlsSettings::Off(at)) => {
            (at, "`redis.url` begins with rediss://, but TLS is disabled here", "remove one of the two")
        }
        (Transport::Socket, TlsSettings::On(_, at)) => (at, "a unix socket has no TLS", "remove `tls`"),
        (Transport::Plain, TlsSettings::On(_, at)) if url.is_written => {
            (at, "TLS is enabled here, but `redis.url` begins with redis://", "write `rediss://`")
        }
        (Transport::Plain, TlsSettings::On(tls, _)) => return Ok((Servers::One(with_tls_scheme(&url)), Some(tls))),
        (Transport::Tls, TlsSettings::On(tls, _)) => return Ok((Servers::One(url.text), Some(tls))),
        (Transport::Tls, TlsSettings::Nothing) => return Ok((Servers::One(url.text), Some(Tls::default()))),
        (Transport::Plain | Transport::Socket, TlsSettings::Nothing | TlsSettings::Off(_)) => {
            return Ok((Servers::One(url.text), None));
        }
    };
    Err(diagnostics.error(at, message).reported_with(help))
}

fn enabled(settings: TlsSettings) -> Option<Tls> {
    match settings {
        TlsSettings::On(tls, _) => Some(tls),
        TlsSettings::Nothing | TlsSettings::Off(_) => None,
    }
}

/// Returns the same URL for TLS.
fn with_tls_scheme(url: &Url) -> String {
    let rest = url.text.split_once("://").map_or(url.text.as_str(), |(_, rest)| rest);
    format!("rediss://{rest}")
}
