//! Certificates and keys: PEM files, by name or by one of Spring's SSL bundles.

use std::path::PathBuf;

use crate::de;
use crate::de::spanned::Spanned;
use crate::diagnostics::{Diagnostics, suggest};
use crate::spec::definition::flatten;
use crate::yaml::{Node, NodeKind, Span};

/// Certificate files of one side of a TLS connection.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Bundle {
    /// CA certificates; `None` for the trust store of the system.
    pub(crate) ca: Option<PathBuf>,
    /// Certificate chain and private key.
    pub(crate) identity: Option<(PathBuf, PathBuf)>,
}

impl Bundle {
    /// Joins files; `Some(None)` is a file that could not be used.
    pub(crate) fn of(
        ca: Option<Option<PathBuf>>,
        identity: Option<(Option<PathBuf>, Option<PathBuf>)>,
    ) -> Option<Self> {
        let ca = match ca {
            Some(file) => Some(file?),
            None => None,
        };
        let identity = match identity {
            Some((cert, key)) => Some((cert?, key?)),
            None => None,
        };
        Some(Self { ca, identity })
    }
}

/// Options of a bundle without effect on security.
const HARMLESS: [&str; 5] =
    ["reloadonupdate", "truststore.type", "keystore.type", "truststore.verifykeys", "keystore.verifykeys"];

/// Returns the path of a PEM file after checking that it holds `what`.
pub(crate) fn file(file: &Spanned<String>, what: &str, diagnostics: &mut Diagnostics) -> Option<PathBuf> {
    let path = file.value.trim();
    let text = match std::fs::read(path) {
        Ok(bytes) => String::from_utf8_lossy(&bytes).into_owned(),
        Err(error) => {
            diagnostics
                .error(file.span, format!("cannot read {path}: {error}"))
                .help("a path starts at the working directory; the user that runs the gateway must be able to read it");
            return None;
        }
    };
    if text.contains("-----BEGIN ENCRYPTED PRIVATE KEY-----") || text.contains("Proc-Type: 4,ENCRYPTED") {
        diagnostics
            .error(file.span, format!("the key in {path} is encrypted, and there is no way to enter its password"))
            .help(format!("`openssl pkey -in {path} -out FILE` writes it in plain"));
        return None;
    }
    if !text.contains(&format!("{what}-----")) {
        diagnostics
            .error(file.span, format!("{path} holds no {} in PEM", what.to_lowercase()))
            .help(format!("its first line is like `-----BEGIN {what}-----`; `openssl` turns other formats into it"));
        return None;
    }
    Some(path.into())
}

/// Returns the SSL bundle `name`. Reports an error if there is none in PEM.
pub(crate) fn named<'n>(
    name: &Spanned<String>,
    bundles: Option<&'n Node>,
    diagnostics: &mut Diagnostics,
) -> Option<&'n Node> {
    let wanted = name.value.trim();
    let of_kind = |kind: &str| bundles.and_then(|bundles| bundles.get(kind));
    let found = of_kind("pem").and_then(|bundles| bundles.get(wanted));
    if found.is_none() {
        if of_kind("jks").and_then(|bundles| bundles.get(wanted)).is_some() {
            diagnostics.error(name.span, format!("the SSL bundle `{wanted}` is a Java key store, which Tollgate cannot read")).help(format!(
                "`openssl pkcs12 -in STORE.p12 -nodes -out FILE.pem` writes it as PEM: name that under `spring.ssl.bundle.pem.{wanted}`"
            ));
        } else {
            let known: Vec<&str> = match of_kind("pem").map(|pem| &pem.kind) {
                Some(NodeKind::Map(entries)) => entries.iter().map(|(name, _)| name.as_str()).collect(),
                _ => Vec::new(),
            };
            diagnostics.error(name.span, format!("there is no SSL bundle `{wanted}`")).help(if known.is_empty() {
                format!("`spring.ssl.bundle.pem.{wanted}` says where its certificates are")
            } else {
                suggest(wanted, &known)
            });
        }
    }
    found
}

/// Returns the files of the SSL bundle `name`. Unsupported options are errors, so that no connection is less secure than
/// its configuration.
pub(crate) fn bundle(name: &Spanned<String>, bundles: Option<&Node>, diagnostics: &mut Diagnostics) -> Option<Bundle> {
    let node = named(name, bundles, diagnostics)?;
    let wanted = name.value.trim();
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

/// Returns the file at a Spring resource location (`file:`, `classpath:`).
pub(crate) fn located(text: &str, at: Span, what: &str, diagnostics: &mut Diagnostics) -> Option<PathBuf> {
    let text = text.trim();
    if text.contains("-----BEGIN") {
        diagnostics
            .error(at, "a certificate or key within the YAML cannot be read")
            .help("write it to a file and name that");
        return None;
    }
    if let Some(inside) = text.strip_prefix("classpath:") {
        diagnostics
            .error(at, format!("`{text}` is inside of a Java archive"))
            .help(format!("copy it out: `file:/etc/tollgate/{}`", inside.rsplit('/').next().unwrap_or(inside)));
        return None;
    }
    let path = text.strip_prefix("file:").map_or(text, |path| path.strip_prefix("//").unwrap_or(path));
    file(&Spanned { value: path.to_owned(), span: at }, what, diagnostics)
}
