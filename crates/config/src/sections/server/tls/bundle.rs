//! `spring.ssl.bundle`: certificates by name.

use crate::de::canonical;
use crate::de::spanned::Spanned;
use crate::diagnostics::Diagnostics;
use crate::sections::key_store::StoreBundle;
use crate::sections::server::tls::{KeyPair, Locations, Trusted, scalar};
use crate::sections::ssl_bundle::{self, Named};
use crate::spec::definition::flatten;
use crate::yaml::{Node, NodeKind};

/// Options of a bundle that can be ignored safely.
const HARMLESS: [&str; 6] =
    ["reloadonupdate", "truststore.type", "keystore.type", "truststore.verifykeys", "keystore.verifykeys", "key.alias"];

/// Reads the bundle `name`. Reports errors; `None` if it is unknown or cannot be used.
pub(super) fn find(name: &Spanned<String>, bundles: Option<&Node>, diagnostics: &mut Diagnostics) -> Option<Locations> {
    match ssl_bundle::named(name, bundles, diagnostics)? {
        Named::Pem(node) => Some(of_pem(node, name.value.trim(), diagnostics)),
        Named::Stores(node) => of_stores(node, name.value.trim(), diagnostics),
    }
}

fn of_pem(node: &Node, wanted: &str, diagnostics: &mut Diagnostics) -> Locations {
    let mut found = Locations::default();
    let (mut certificate, mut key) = (None, None);
    let mut options = Vec::new();
    flatten("", node, &mut options);
    for option in &options {
        let written = option.name.as_deref().unwrap_or_default();
        let location = Spanned { value: option.value.clone(), span: option.span };
        match canonical(written).as_str() {
            "truststore.certificate" => found.trusted = Some(Trusted::Pem(location)),
            "keystore.certificate" => certificate = Some(location),
            "keystore.privatekey" => key = Some(location),
            harmless if HARMLESS.contains(&harmless) => {}
            _ => {
                let supported = "`truststore.certificate`, `keystore.certificate`, `keystore.private-key`";
                option_of_connection(
                    &Spanned { value: written.to_owned(), span: option.span },
                    wanted,
                    supported,
                    diagnostics,
                );
            }
        }
    }
    found.key_pair = Some(KeyPair::Pem { certificate, key });
    found.protocols = protocols(node);
    found
}

fn of_stores(node: &Node, wanted: &str, diagnostics: &mut Diagnostics) -> Option<Locations> {
    let stores = StoreBundle::read(node, diagnostics);
    for option in &stores.others {
        option_of_connection(option, wanted, "`keystore`, `truststore`, `key.alias`", diagnostics);
    }
    let key_pair = stores.key?.map_or(KeyPair::Pem { certificate: None, key: None }, KeyPair::Store);
    Some(Locations { key_pair: Some(key_pair), trusted: stores.trust?.map(Trusted::Store), protocols: protocols(node) })
}

/// Reports an option of the connection that is not read.
fn option_of_connection(option: &Spanned<String>, wanted: &str, supported: &str, diagnostics: &mut Diagnostics) {
    let at = option.span.key();
    match canonical(&option.value).as_str() {
        name if name.starts_with("options.enabledprotocols") => {}
        name if name.starts_with("options.ciphers") => diagnostics
            .note(at, "`ciphers` has no effect: only suites with forward secrecy and AEAD are offered")
            .ineffective()
            .help("`enabled-protocols: [TLSv1.3]` narrows them further"),
        _ => diagnostics
            .error(at, format!("`{}` of the SSL bundle `{wanted}` is not supported", option.value))
            .help(format!("supported: {supported} and `options.enabled-protocols`")),
    }
}

/// Returns the enabled versions of TLS: a list, or names on one line.
fn protocols(node: &Node) -> Option<Vec<Spanned<String>>> {
    let listed = node.step("options")?.step("enabled-protocols")?;
    if let NodeKind::Seq(items) = &listed.kind {
        return Some(items.iter().filter_map(scalar).collect());
    }
    let listed = scalar(listed)?;
    let each = |name: &str| Spanned { value: name.to_owned(), span: listed.span };
    Some(listed.value.split(',').map(each).collect())
}
