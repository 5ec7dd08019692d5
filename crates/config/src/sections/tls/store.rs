//! Key stores and trust stores in PKCS#12.

use std::path::PathBuf;

use tollgate_key_store::{Identity, KeyStoreError};

use crate::de::{OptionalText, Spanned};
use crate::diagnostics::{Diagnostics, Reported};
use crate::sections::files;
use crate::sections::tls::pem;
use crate::yaml::Span;

/// Settings of a store, as they are written.
#[derive(Default)]
pub(crate) struct Store {
    pub(crate) location: OptionalText,
    pub(crate) password: Option<Spanned<String>>,
    pub(crate) key_password: Option<Spanned<String>>,
    pub(crate) alias: OptionalText,
}

/// A store with its password.
pub(crate) struct StoreFile {
    pub(crate) path: PathBuf,
    pub(crate) password: String,
    pub(crate) alias: Option<String>,
    pub(super) span: Span,
}

impl Store {
    /// Returns the file, if there is one. Reports errors, and settings without effect if the key `name` is absent.
    pub(super) fn file(&self, name: &str, diagnostics: &mut Diagnostics) -> Result<Option<StoreFile>, Reported> {
        let Some(location) = self.location.spanned() else {
            let others = [self.password.as_ref(), self.key_password.as_ref(), self.alias.spanned()];
            // A blank location is that of an unset variable.
            let is_absent = !self.location.is_given();
            for other in others.into_iter().flatten().filter(|other| is_absent && !other.trim().is_empty()) {
                diagnostics.mistake(other.span.key(), format!("this has no effect without `{name}`")).help("remove it");
            }
            return Ok(None);
        };
        let path = pem::path(location, diagnostics)?;
        let password = self.password.as_ref().map(|password| password.value.clone()).unwrap_or_default();
        // An empty password is Spring's default and means that there is none.
        let is_other = |other: &&Spanned<String>| !other.value.is_empty() && other.value != password;
        if let Some(other) = self.key_password.as_ref().filter(is_other) {
            return Err(diagnostics
                .error(other.span, "the password of the key is not the password of its store, which is not supported")
                .reported_with(format!(
                    "`keytool -importkeystore -srckeystore {path} -destkeystore FILE.p12` writes a store with one password"
                )));
        }
        let alias = self.alias.get().map(str::to_owned);
        Ok(Some(StoreFile { path: path.into(), password, alias, span: location.span }))
    }
}

impl StoreFile {
    /// Reads the private key with its certificates. Reports errors.
    pub(super) fn identity(&self, diagnostics: &mut Diagnostics) -> Result<Identity, Reported> {
        tollgate_key_store::read(&self.path)
            .and_then(|store| tollgate_key_store::identity(&store, &self.password, self.alias.as_deref()))
            .map_err(|error| self.report(&error, diagnostics))
    }

    /// Reads the trusted certificates, each in DER. Reports errors.
    pub(super) fn certificates(&self, diagnostics: &mut Diagnostics) -> Result<Vec<Vec<u8>>, Reported> {
        tollgate_key_store::read(&self.path)
            .and_then(|store| tollgate_key_store::certificates(&store, &self.password))
            .map_err(|error| self.report(&error, diagnostics))
    }

    fn report(&self, error: &KeyStoreError, diagnostics: &mut Diagnostics) -> Reported {
        let path = self.path.display();
        let help = match error {
            KeyStoreError::Unreadable(_) => files::UNREADABLE.to_owned(),
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
        diagnostics.error(self.span, format!("cannot use the store {path}: {error}")).reported_with(help)
    }
}
