//! `spring.ssl.bundle.pem`: certificates by name.

use super::{Locations, spot};
use crate::config::de::canonical;
use crate::config::definition::flatten;
use crate::config::problem::{Sink, suggest};
use crate::config::spot::Spot;
use crate::config::yaml::{Kind, Node};

/// Options of a bundle that say nothing which could be left undone.
const HARMLESS: [&str; 6] =
    ["reloadonupdate", "truststore.type", "keystore.type", "truststore.verifykeys", "keystore.verifykeys", "key.alias"];

/// What the bundle `name` says; `None` when there is no such bundle, or it cannot be kept, which `sink` then knows.
pub(super) fn find(name: &Spot<String>, bundles: Option<&Node>, sink: &mut Sink) -> Option<Locations> {
    let wanted = name.value.trim();
    let of_kind = |kind: &str| bundles.and_then(|bundles| bundles.get(kind));
    let Some(node) = of_kind("pem").and_then(|bundles| bundles.get(wanted)) else {
        if of_kind("jks").and_then(|bundles| bundles.get(wanted)).is_some() {
            sink.error(name.origin, format!("the SSL bundle `{wanted}` is a Java key store, which Tollgate cannot read")).help(format!(
                "`openssl pkcs12 -in STORE.p12 -nodes -out FILE.pem` writes it as PEM: name that under `spring.ssl.bundle.pem.{wanted}`"
            ));
            return None;
        }
        let known: Vec<&str> = match of_kind("pem").map(|pem| &pem.kind) {
            Some(Kind::Map(entries)) => entries.iter().map(|(name, _)| name.as_str()).collect(),
            _ => Vec::new(),
        };
        sink.error(name.origin, format!("there is no SSL bundle `{wanted}`")).help(if known.is_empty() {
            format!("`spring.ssl.bundle.pem.{wanted}` says where its certificates are")
        } else {
            suggest(wanted, &known)
        });
        return None;
    };
    let mut found = Locations::default();
    let mut options = Vec::new();
    flatten("", node, &mut options);
    for option in &options {
        let written = option.name.as_deref().unwrap_or_default();
        let location = Spot { value: option.value.clone(), origin: option.origin };
        match canonical(written).as_str() {
            "truststore.certificate" => found.trusted = Some(location),
            "keystore.certificate" => found.certificate = Some(location),
            "keystore.privatekey" => found.key = Some(location),
            name if name.starts_with("options.enabledprotocols") => {
                found.protocols.get_or_insert_default().push(location);
            }
            name if name.starts_with("options.ciphers") => {
                sink.info(option.origin.key(), "`ciphers` has no effect: only suites with forward secrecy and AEAD are offered")
                    .help("`enabled-protocols: [TLSv1.3]` narrows them further");
            }
            harmless if HARMLESS.contains(&harmless) => {}
            _ => sink
                .error(option.origin.key(), format!("`{written}` of the SSL bundle `{wanted}` cannot be kept"))
                .help("of a bundle `truststore.certificate`, `keystore.certificate`, `keystore.private-key` and `options.enabled-protocols` are read"),
        }
    }
    // A list of versions on one line.
    let listed = node.at(&["options", "enabled-protocols"]).and_then(spot);
    if let Some(listed) = listed {
        let each = |name: &str| Spot { value: name.to_owned(), origin: listed.origin };
        found.protocols = Some(listed.value.split(',').map(each).collect());
    }
    Some(found)
}
