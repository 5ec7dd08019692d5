//! Key stores and trust stores of Java in PKCS#12, by `key-store`, `trust-store` or a bundle of `spring.ssl.bundle.jks`.

#[cfg(test)]
mod tests;

use std::fmt;
use std::path::PathBuf;

use tollgate_key_store::{Identity, KeyStoreError};

use crate::de;
use crate::de::spanned::Spanned;
use crate::diagnostics::Diagnostics;
use crate::sections::pem;
use crate::spec::definition::flatten;
use crate::yaml::{Node, Span};

/// Settings of a store, as they are written.
#[derive(Debug, Default)]
pub(crate) struct StoreSettings {
    pub(crate) location: Option<Spanned<String>>,
    pub(crate) password: Option<Spanned<String>>,
    pub(crate) key_password: Option<Spanned<String>>,
    pub(crate) alias: Option<Spanned<String>>,
}

/// A store with its password.
#[derive(Clone)]
pub(crate) struct StoreFile {
    pub(crate) path: PathBuf,
    pub(crate) password: String,
    pub(crate) alias: Option<String>,
    span: Span,
}

/// Stores of a bundle; `Some(None)` is an absent store, and `None` one that cannot be used.
pub(crate) struct StoreBundle {
    pub(crate) key: Option<Option<StoreFile>>,
    pub(crate) trust: Option<Option<StoreFile>>,
    /// Names of options of the connection.
    pub(crate) others: Vec<Spanned<String>>,
}

impl StoreSettings {
    /// Returns the file, if there is one. Reports errors; the outer `None` is an error.
    #[expect(clippy::option_option, reason = "the outer one tells an error from an absent store")]
    pub(crate) fn file(&self, diagnostics: &mut Diagnostics) -> Option<Option<StoreFile>> {
        let Some(location) = self.location.as_ref().filter(|location| !location.value.trim().is_empty()) else {
            return Some(None);
        };
        let path = pem::location(&location.value, location.span, diagnostics)?;
        let text = |given: &Option<Spanned<String>>| given.as_ref().map(|given| given.value.clone());
        let password = text(&self.password).unwrap_or_default();
        if let Some(other) = self.key_password.as_ref().filter(|other| other.value != password) {
            diagnostics
                .error(other.span, "the password of the key is not the password of its store, which is not supported")
                .help(format!(
                    "`keytool -importkeystore -srckeystore {path} -destkeystore FILE.p12` writes a store with one password"
                ));
            return None;
        }
        let alias = text(&self.alias).map(|alias| alias.trim().to_owned()).filter(|alias| !alias.is_empty());
        Some(Some(StoreFile { path: path.into(), password, alias, span: location.span }))
    }

    /// Reports settings that have no effect without a store.
    pub(crate) fn report_without_location(&self, store: &str, diagnostics: &mut Diagnostics) {
        for at in [&self.password, &self.key_password, &self.alias].into_iter().flatten() {
            diagnostics.mistake(at.span.key(), format!("this has no effect without `{store}`")).help("remove it");
        }
    }
}

impl StoreFile {
    /// Reads the private key with its certificates. Reports errors.
    pub(crate) fn identity(&self, diagnostics: &mut Diagnostics) -> Option<Identity> {
        let read = tollgate_key_store::read(&self.path)
            .and_then(|store| tollgate_key_store::identity(&store, &self.password, self.alias.as_deref()));
        read.map_err(|error| self.report(&error, diagnostics)).ok()
    }

    /// Reads the trusted certificates, each in DER. Reports errors.
    pub(crate) fn certificates(&self, diagnostics: &mut Diagnostics) -> Option<Vec<Vec<u8>>> {
        let read = tollgate_key_store::read(&self.path)
            .and_then(|store| tollgate_key_store::certificates(&store, &self.password));
        read.map_err(|error| self.report(&error, diagnostics)).ok()
    }

    /// Returns the place of the store in the configuration.
    pub(crate) fn span(&self) -> Span {
        self.span
    }

    fn report(&self, error: &KeyStoreError, diagnostics: &mut Diagnostics) {
        let path = self.path.display();
        let help = match error {
            KeyStoreError::Unreadable(_) => {
                "a path starts at the working directory; the user that runs the gateway must be able to read it"
                    .to_owned()
            }
            KeyStoreError::JavaFormat(_) => {
                format!(
                    "`keytool -importkeystore -srckeystore {path} -destkeystore {path}.p12 -deststoretype PKCS12` converts it"
                )
            }
            KeyStoreError::WrongPassword if self.password.is_empty() => "set the password of the store".to_owned(),
            KeyStoreError::WrongPassword => format!("`keytool -list -keystore {path}` tries a password"),
            KeyStoreError::SeveralKeys { aliases } => format!("select one by its alias: {}", aliases.join(", ")),
            KeyStoreError::UnknownAlias { aliases, .. } => format!("aliases of its keys: {}", aliases.join(", ")),
            KeyStoreError::NotPkcs12 => {
                "stores are PKCS#12; a file in PEM is named by the keys for certificates".to_owned()
            }
            _ => format!("`keytool -list -v -keystore {path}` shows what it has"),
        };
        diagnostics.error(self.span, format!("cannot use the store {path}: {error}")).help(help);
    }
}

impl StoreBundle {
    /// Reads a bundle of `spring.ssl.bundle.jks`. Reports errors.
    pub(crate) fn read(node: &Node, diagnostics: &mut Diagnostics) -> Self {
        let (mut key, mut trust, mut others) = (StoreSettings::default(), StoreSettings::default(), Vec::new());
        let mut options = Vec::new();
        flatten("", node, &mut options);
        for option in options {
            let name = option.name.unwrap_or_default();
            let value = Some(Spanned { value: option.value, span: option.span });
            match de::canonical(&name).as_str() {
                "keystore.location" => key.location = value,
                "keystore.password" => key.password = value,
                "key.password" => key.key_password = value,
                "key.alias" => key.alias = value,
                "truststore.location" => trust.location = value,
                "truststore.password" => trust.password = value,
                "keystore.type"
                | "truststore.type"
                | "keystore.provider"
                | "truststore.provider"
                | "reloadonupdate"
                | "protocol" => {}
                _ => others.push(Spanned { value: name, span: option.span }),
            }
        }
        Self { key: key.file(diagnostics), trust: trust.file(diagnostics), others }
    }
}

impl fmt::Debug for StoreFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StoreFile").field("path", &self.path).field("alias", &self.alias).finish_non_exhaustive()
    }
}
