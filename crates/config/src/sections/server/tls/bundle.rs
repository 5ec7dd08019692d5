//! `spring.ssl.bundle.pem`: certificates by name.

use crate::de::canonical;
use crate::de::spanned::Spanned;
use crate::diagnostics::Diagnostics;
use crate::sections::pem;
use crate::sections::server::tls::{Locations, scalar};
use crate::spec::definition::flatten;
use crate::yaml::Node;

/// Options of a bundle that can be ignored safely.
const HARMLESS: [&str; 6] =
    ["reloadonupdate", "truststore.type", "keystore.type", "truststore.verifykeys", "keystore.verifykeys", "key.alias"];

/// Reads the bundle `name`. Reports errors; `None` if it is unknown or cannot be used.
pub(super) fn find(name: &Spanned<String>, bundles: Option<&Node>, diagnostics: &mut Diagnostics) -> Option<Locations> {
    let node = pem::named(name, bundles, diagnostics)?;
    let wanted = name.value.trim();
    let mut found = Locations::default();
    let mut options = Vec::new();
    flatten("", node, &mut options);
    for option in &options {
        let written = option.name.as_deref().unwrap_or_default();
        let location = Spanned { value: option.value.clone(), span: option.span };
        match canonical(written).as_str() {
            "truststore.certificate" => found.trusted = Some(location),
            "keystore.certificate" => found.certificate = Some(location),
            "keystore.privatekey" => found.key = Some(location),
            name if name.starts_with("options.enabledprotocols") => {
                found.protocols.get_or_insert_default().push(location);
            }
            name if name.starts_with("options.ciphers") => {
                diagnostics.note(option.span.key(), "`ciphers` has no effect: only suites with forward secrecy and AEAD are offered").ineffective()
                    .help("`enabled-protocols: [TLSv1.3]` narrows them further");
            }
            harmless if HARMLESS.contains(&harmless) => {}
            _ => diagnostics
                .error(option.span.key(), format!("`{written}` of the SSL bundle `{wanted}` is not supported"))
                .help("supported: `truststore.certificate`, `keystore.certificate`, `keystore.private-key` and `options.enabled-protocols`"),
        }
    }
    // A list of versions on one line.
    let listed = node.at(&["options", "enabled-protocols"]).and_then(scalar);
    if let Some(listed) = listed {
        let each = |name: &str| Spanned { value: name.to_owned(), span: listed.span };
        found.protocols = Some(listed.value.split(',').map(each).collect());
    }
    Some(found)
}
