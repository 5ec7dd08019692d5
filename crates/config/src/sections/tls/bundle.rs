//! SSL bundles of Spring (`spring.ssl.bundle`): certificates and keys by name, in PEM or in stores.

use crate::de::{Spanned, canonical};
use crate::diagnostics::{Diagnostics, Reported};
use crate::sections::tls::files::{Files, Names};
use crate::spec::{Arg, flatten};
use crate::yaml::{Node, NodeKind, Span};

/// A bundle.
pub(crate) struct Bundle {
    pub(crate) files: Files,
    /// Enabled versions of TLS.
    pub(crate) protocols: Option<Vec<Spanned<String>>>,
}

/// Side of the connection that a bundle is for.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Side {
    Client,
    /// Also reads the versions of TLS.
    Server,
}

/// Assignment of a text to a setting of [`Files`].
type Setting = fn(&mut Files, Spanned<String>);

/// Bundles below one key of `spring.ssl.bundle`.
struct Kind {
    name: &'static str,
    settings: &'static [(&'static str, Setting)],
    /// Options without effect on security.
    harmless: &'static [&'static str],
    /// Read options, for messages.
    read: &'static str,
}

static KINDS: [Kind; 2] = [
    Kind {
        name: "pem",
        settings: &[
            ("keystore.certificate", |files, text| files.certificate = text.into()),
            ("keystore.privatekey", |files, text| files.key = text.into()),
            ("truststore.certificate", |files, text| files.trusted = text.into()),
        ],
        harmless: &["key.alias", "keystore.verifykeys", "truststore.verifykeys"],
        read: "`truststore.certificate`, `keystore.certificate` and `keystore.private-key`",
    },
    Kind {
        name: "jks",
        settings: &[
            ("keystore.location", |files, text| files.key_store.location = text.into()),
            ("keystore.password", |files, text| files.key_store.password = Some(text)),
            ("key.password", |files, text| files.key_store.key_password = Some(text)),
            ("key.alias", |files, text| files.key_store.alias = text.into()),
            ("truststore.location", |files, text| files.trust_store.location = text.into()),
            ("truststore.password", |files, text| files.trust_store.password = Some(text)),
        ],
        harmless: &["keystore.provider", "protocol", "truststore.provider"],
        read: "`keystore`, `truststore` and `key.alias`",
    },
];

/// Options of both kinds without effect on security.
const HARMLESS: [&str; 3] = ["keystore.type", "reloadonupdate", "truststore.type"];

const NAMES: Names = Names {
    certificate: "keystore.certificate",
    key: "keystore.private-key",
    key_store: "keystore.location",
    trusted: "truststore.certificate",
    trust_store: "truststore.location",
};

/// Returns the bundle `name`. Reports an unknown name, and unsupported options, so that no connection is less secure than its
/// configuration.
pub(crate) fn find(
    name: &Spanned<String>,
    bundles: Option<&Node>,
    side: Side,
    diagnostics: &mut Diagnostics,
) -> Result<Bundle, Reported> {
    let (kind, node) = bundle_node(name, bundles, diagnostics)?;
    let mut files = Files { names: NAMES, bundle: name.clone().into(), ..Files::default() };
    let mut options = Vec::new();
    flatten("", node, &mut options);
    for option in options {
        let key = canonical(option.name.as_deref().unwrap_or_default());
        if let Some((_, setting)) = kind.settings.iter().find(|(name, _)| *name == key) {
            setting(&mut files, Spanned { value: option.value, span: option.span });
        } else if side == Side::Server && key.starts_with("options.ciphers") {
            report_ciphers(option.span.key(), diagnostics);
        } else if !(HARMLESS.contains(&key.as_str())
            || kind.harmless.contains(&key.as_str())
            || side == Side::Server && key.starts_with("options.enabledprotocols"))
        {
            report_unsupported(&option, name, (kind, side), diagnostics);
        }
    }
    Ok(Bundle { files, protocols: protocols(node) })
}

/// Notes that `ciphers` selects nothing.
pub(super) fn report_ciphers(at: Span, diagnostics: &mut Diagnostics) {
    diagnostics
        .note(at, "`ciphers` has no effect: only suites with forward secrecy and AEAD are offered")
        .ineffective()
        .help("`enabled-protocols: [TLSv1.3]` narrows them further");
}

fn report_unsupported(option: &Arg, bundle: &str, (kind, side): (&Kind, Side), diagnostics: &mut Diagnostics) {
    let key = option.name.as_deref().unwrap_or_default();
    let of_server = if side == Side::Server { ", and `options.enabled-protocols`," } else { "" };
    diagnostics
        .error(option.span.key(), format!("`{key}` of the SSL bundle `{bundle}` cannot be kept"))
        .help(format!("of a bundle {}{of_server} are read", kind.read));
}

/// Returns the node of the bundle `name`. Reports an error if there is none.
fn bundle_node<'n>(
    name: &Spanned<String>,
    bundles: Option<&'n Node>,
    diagnostics: &mut Diagnostics,
) -> Result<(&'static Kind, &'n Node), Reported> {
    let bundle_name = name.as_str();
    let of_kind = |kind: &Kind| bundles.and_then(|bundles| bundles.get(kind.name));
    let mut bundles_of_name = KINDS.iter().filter_map(|kind| Some((kind, of_kind(kind)?.get(bundle_name)?)));
    match (bundles_of_name.next(), bundles_of_name.next()) {
        (Some(bundle), None) => return Ok(bundle),
        (Some(_), Some(_)) => {
            let text = format!("the SSL bundle `{bundle_name}` is given twice: below `pem` and below `jks`");
            return Err(diagnostics.error(name.span, text).reported_with("rename one of the two"));
        }
        (None, _) => {}
    }
    let names: Vec<&str> = KINDS
        .iter()
        .filter_map(|kind| match &of_kind(kind)?.kind {
            NodeKind::Map(entries) => Some(entries.iter().map(|(name, _)| name.as_str())),
            _ => None,
        })
        .flatten()
        .collect();
    let help = match names.is_empty() {
        true => format!("`spring.ssl.bundle.pem.{bundle_name}` says where its certificates are"),
        false => diagnostics.suggest(bundle_name, &names),
    };
    Err(diagnostics.error(name.span, format!("there is no SSL bundle `{bundle_name}`")).reported_with(help))
}

/// Returns the enabled versions of TLS: a list, or names on one line.
fn protocols(node: &Node) -> Option<Vec<Spanned<String>>> {
    let listed = node.step("options")?.step("enabled-protocols")?;
    let text = |node: &Node| node.scalar().map(|text| Spanned { value: text.to_owned(), span: node.span });
    if let NodeKind::Seq(items) = &listed.kind {
        return Some(items.iter().filter_map(text).collect());
    }
    let listed = text(listed)?;
    Some(listed.value.split(',').map(|name| Spanned { value: name.to_owned(), span: listed.span }).collect())
}
