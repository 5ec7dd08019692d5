//! `spring.ssl.bundle.pem`: certificates by name.

use super::{Locations, spot};
use crate::de::canonical;
use crate::definition::flatten;
use crate::pem;
use crate::problem::Sink;
use crate::spot::Spot;
use crate::yaml::Node;

/// Options of a bundle that say nothing which could be left undone.
const HARMLESS: [&str; 6] =
    ["reloadonupdate", "truststore.type", "keystore.type", "truststore.verifykeys", "keystore.verifykeys", "key.alias"];

/// What the bundle `name` says; `None` when there is no such bundle, or it cannot be kept, which `sink` then knows.
pub(super) fn find(name: &Spot<String>, bundles: Option<&Node>, sink: &mut Sink) -> Option<Locations> {
    let node = pem::named(name, bundles, sink)?;
    let wanted = name.value.trim();
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
