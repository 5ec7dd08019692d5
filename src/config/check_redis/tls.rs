//! `tls`, Spring's `ssl`, and what a URL's scheme says of it: all must agree, and nothing of it is ever left out quietly.

use std::path::PathBuf;

use tollgate_filters::limiter::store::redis::{Servers, Tls};

use super::servers::Found;
use super::url::{Kind, Url};
use crate::config::check::Nodes;
use crate::config::de;
use crate::config::definition::{Arg, flatten};
use crate::config::problem::{Sink, suggest};
use crate::config::raw_server::{RawRedis, RawSsl, RawTls};
use crate::config::spot::Spot;
use crate::config::yaml::{Kind as Yaml, Node, Origin};

/// What is said of TLS besides the URL.
#[derive(Debug)]
pub(super) enum Said {
    Nothing,
    Off(Origin),
    On(Tls, Origin),
}

/// Options of a bundle that say nothing which could be left undone.
const HARMLESS: [&str; 5] =
    ["reloadonupdate", "truststore.type", "keystore.type", "truststore.verifykeys", "keystore.verifykeys"];

/// What `tls` or `ssl` says; `None` when it cannot be kept, which `sink` then knows.
pub(super) fn said(redis: &RawRedis, nodes: &Nodes<'_>, sink: &mut Sink) -> Option<Said> {
    let node = |whole: Option<_>| whole.and_then(|whole| nodes.get(whole));
    match (node(redis.tls), node(redis.ssl)) {
        (Some(_), Some(ssl)) => {
            sink.error(ssl.origin.key(), "`ssl` and `tls` are both given").help("remove one of the two");
            None
        }
        (Some(tls), None) => match flag(tls) {
            Some(on) => Some(on),
            None if matches!(tls.kind, Yaml::Map(_)) => files(tls, sink),
            None => misfit(tls, "`ca`, `cert` and `key`", sink),
        },
        (None, Some(ssl)) => match flag(ssl) {
            Some(on) => Some(on),
            None if matches!(ssl.kind, Yaml::Map(_)) => self::ssl(ssl, nodes, sink),
            None => misfit(ssl, "`enabled` and `bundle`", sink),
        },
        (None, None) => Some(Said::Nothing),
    }
}

fn misfit(node: &Node, keys: &str, sink: &mut Sink) -> Option<Said> {
    sink.error(node.origin, format!("expected true, false or a map with {keys}, found {}", node.describe()));
    None
}

/// Plain `true` or `false`.
fn flag(node: &Node) -> Option<Said> {
    match node.scalar().map(|text| text.trim().to_ascii_lowercase()).as_deref() {
        Some("true" | "yes" | "on") => Some(Said::On(Tls::default(), node.origin)),
        Some("false" | "no" | "off") => Some(Said::Off(node.origin)),
        _ => None,
    }
}

fn files(node: &Node, sink: &mut Sink) -> Option<Said> {
    let (raw, unknown) = de::read::<RawTls>(node, sink);
    unknown.iter().for_each(|unknown| de::report_unknown(unknown, sink));
    // `${REDIS_CA:}` of an environment that says nothing.
    let given = |file: Option<Spot<String>>| file.filter(|file| !file.value.trim().is_empty());
    let (ca, cert, key) = (given(raw.ca), given(raw.cert), given(raw.key));
    let ca = ca.as_ref().map(|file| pem(file, "CERTIFICATE", sink));
    let client = match (&cert, &key) {
        (Some(cert), Some(key)) => Some((pem(cert, "CERTIFICATE", sink), pem(key, "PRIVATE KEY", sink))),
        (None, None) => None,
        (Some(at), None) | (None, Some(at)) => {
            sink.error(at.origin.key(), "`cert` and `key` go together: a certificate is of use to whoever has its key")
                .help("give both, or neither");
            return None;
        }
    };
    tls(ca, client).map(|tls| Said::On(tls, node.origin))
}

/// A file that could not be used is `Some(None)`.
fn tls(ca: Option<Option<PathBuf>>, client: Option<(Option<PathBuf>, Option<PathBuf>)>) -> Option<Tls> {
    let ca = match ca {
        Some(file) => Some(file?),
        None => None,
    };
    let client = match client {
        Some((cert, key)) => Some((cert?, key?)),
        None => None,
    };
    Some(Tls { ca, client })
}

/// The path of a PEM file that holds `what`.
fn pem(file: &Spot<String>, what: &str, sink: &mut Sink) -> Option<PathBuf> {
    let path = file.value.trim();
    let text = match std::fs::read(path) {
        Ok(bytes) => String::from_utf8_lossy(&bytes).into_owned(),
        Err(error) => {
            sink.error(file.origin, format!("cannot read {path}: {error}"))
                .help("a path starts at the working directory; the user that runs the gateway must be able to read it");
            return None;
        }
    };
    if text.contains("-----BEGIN ENCRYPTED PRIVATE KEY-----") || text.contains("Proc-Type: 4,ENCRYPTED") {
        sink.error(file.origin, format!("the key in {path} is encrypted, and nobody is there to give its password"))
            .help(format!("`openssl pkey -in {path} -out FILE` writes it in plain"));
        return None;
    }
    if !text.contains(&format!("{what}-----")) {
        sink.error(file.origin, format!("{path} holds no {} in PEM", what.to_lowercase()))
            .help(format!("its first line is like `-----BEGIN {what}-----`; `openssl` turns other formats into it"));
        return None;
    }
    Some(path.into())
}

fn ssl(node: &Node, nodes: &Nodes<'_>, sink: &mut Sink) -> Option<Said> {
    let (raw, unknown) = de::read::<RawSsl>(node, sink);
    for unknown in &unknown {
        let name = unknown.path.join(".");
        sink.error(unknown.origin.key(), format!("`ssl.{name}` is no setting that can be kept"))
            .help("`enabled` and `bundle`; TLS with less than was asked for would be no answer");
    }
    if !unknown.is_empty() {
        return None;
    }
    let bundle = raw.bundle.as_ref().filter(|name| !name.value.trim().is_empty());
    match (raw.enabled, bundle) {
        (Some(Spot { value: false, origin }), bundle) => {
            if let Some(bundle) = bundle {
                sink.warn(bundle.origin.key(), "`bundle` does nothing: `enabled: false` switches TLS off")
                    .help("remove one of the two");
            }
            Some(Said::Off(origin))
        }
        (_, Some(name)) => {
            let bundles = raw.bundles.and_then(|whole| nodes.get(whole));
            self::bundle(name, bundles, sink).map(|tls| Said::On(tls, name.origin))
        }
        (Some(enabled), None) => Some(Said::On(Tls::default(), enabled.origin)),
        (None, None) => Some(Said::Nothing),
    }
}

/// The files of the SSL bundle `name`. Whatever it says that cannot be done is an error: a connection that is less
/// secure than its configuration reads is worse than none.
fn bundle(name: &Spot<String>, bundles: Option<&Node>, sink: &mut Sink) -> Option<Tls> {
    let wanted = name.value.trim();
    let of_kind = |kind: &str| bundles.and_then(|bundles| bundles.get(kind));
    let Some(node) = of_kind("pem").and_then(|bundles| bundles.get(wanted)) else {
        if of_kind("jks").and_then(|bundles| bundles.get(wanted)).is_some() {
            sink.error(name.origin, format!("the SSL bundle `{wanted}` is a Java key store, which Tollgate cannot read")).help(format!(
                "`openssl pkcs12 -in STORE.p12 -nodes -out FILE.pem` writes it as PEM: name that under `spring.ssl.bundle.pem.{wanted}`"
            ));
        } else {
            let known: Vec<&str> = match of_kind("pem").map(|pem| &pem.kind) {
                Some(Yaml::Map(entries)) => entries.iter().map(|(name, _)| name.as_str()).collect(),
                _ => Vec::new(),
            };
            sink.error(name.origin, format!("there is no SSL bundle `{wanted}`")).help(if known.is_empty() {
                format!("`spring.ssl.bundle.pem.{wanted}` says where its certificates are")
            } else {
                suggest(wanted, &known)
            });
        }
        return None;
    };
    let mut options = Vec::new();
    flatten("", node, &mut options);
    let (mut ca, mut cert, mut key) = (None, None, None);
    let mut is_kept = true;
    for option in &options {
        let option_name = option.name.as_deref().unwrap_or_default();
        match de::canonical(option_name).as_str() {
            "truststore.certificate" => ca = Some(located(option, "CERTIFICATE", sink)),
            "keystore.certificate" => cert = Some(located(option, "CERTIFICATE", sink)),
            "keystore.privatekey" => key = Some(located(option, "PRIVATE KEY", sink)),
            harmless if HARMLESS.contains(&harmless) => {}
            _ => {
                sink.error(option.origin.key(), format!("`{option_name}` of the SSL bundle `{wanted}` cannot be kept"))
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
            sink.error(
                name.origin,
                format!("the SSL bundle `{wanted}` has a `keystore.{has}` and no `keystore.{lacks}`"),
            );
            return None;
        }
    };
    tls(ca, client).filter(|_| is_kept)
}

/// The file at one of Spring's locations.
fn located(option: &Arg, what: &str, sink: &mut Sink) -> Option<PathBuf> {
    let text = option.value.trim();
    if text.contains("-----BEGIN") {
        sink.error(option.origin, "a certificate or key within the YAML cannot be read")
            .help("write it to a file and name that");
        return None;
    }
    if let Some(inside) = text.strip_prefix("classpath:") {
        sink.error(option.origin, format!("`{text}` is inside of a Java archive"))
            .help(format!("copy it out: `file:/etc/tollgate/{}`", inside.rsplit('/').next().unwrap_or(inside)));
        return None;
    }
    let path = text.strip_prefix("file:").map_or(text, |path| path.strip_prefix("//").unwrap_or(path));
    pem(&Spot { value: path.to_owned(), origin: option.origin }, what, sink)
}

/// The servers with what holds for TLS, when all that is said agrees.
pub(super) fn agree(found: Found, said: Said, sink: &mut Sink) -> Option<(Servers, Option<Tls>)> {
    let url = match found {
        Found::Sentinel(sentinel) => return Some((Servers::Sentinel(sentinel), on(said))),
        Found::Cluster(nodes) => return Some((Servers::Cluster(nodes), on(said))),
        Found::Url(url) => url,
    };
    match (url.kind, said) {
        (Kind::Tls, Said::Off(at)) => {
            sink.error(at, "`redis.url` begins with rediss://, which is TLS, and here it is switched off")
                .help("remove one of the two");
            None
        }
        (Kind::Socket, Said::On(_, at)) => {
            sink.error(at, "a unix socket has no TLS").help("remove `tls`");
            None
        }
        (Kind::Plain, Said::On(_, at)) if url.is_written && !sink.is_spring => {
            sink.error(at, "TLS is asked for, and `redis.url` begins with redis://, which is none")
                .help("write `rediss://`");
            None
        }
        (Kind::Plain, Said::On(tls, _)) => Some((Servers::One(secure(&url)), Some(tls))),
        (Kind::Tls, Said::Nothing) => Some((Servers::One(url.text), Some(Tls::default()))),
        (Kind::Tls, said @ Said::On(..)) => Some((Servers::One(url.text), on(said))),
        (Kind::Plain | Kind::Socket, Said::Nothing | Said::Off(_)) => Some((Servers::One(url.text), None)),
    }
}

fn on(said: Said) -> Option<Tls> {
    match said {
        Said::On(tls, _) => Some(tls),
        Said::Nothing | Said::Off(_) => None,
    }
}

/// The same URL for TLS.
fn secure(url: &Url) -> String {
    let rest = url.text.split_once("://").map_or(url.text.as_str(), |(_, rest)| rest);
    format!("rediss://{rest}")
}
