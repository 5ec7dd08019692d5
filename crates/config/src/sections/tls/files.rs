//! Certificates with their keys, and trusted certificates: in PEM files or in stores.

use std::path::{Display, Path};

use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use rustls::crypto::aws_lc_rs;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use rustls::sign::CertifiedKey;
use rustls::{InconsistentKeys, RootCertStore};

use crate::de::{OptionalText, Spanned};
use crate::diagnostics::{Diagnostics, Reported};
use crate::sections::tls::pem::{self, PemFile};
use crate::sections::tls::store::{Store, StoreFile};
use crate::yaml::Span;

/// Files of one side of a connection, as they are written.
#[derive(Default)]
pub(crate) struct Files {
    /// PEM file with a certificate and its chain.
    pub(crate) certificate: OptionalText,
    /// PEM file with its key.
    pub(crate) key: OptionalText,
    /// Store with both.
    pub(crate) key_store: Store,
    /// PEM file with trusted certificates.
    pub(crate) trusted: OptionalText,
    /// Store with trusted certificates.
    pub(crate) trust_store: Store,
    pub(crate) names: Names,
    /// Name of the bundle that has the files, if one has them.
    pub(crate) bundle: OptionalText,
}

/// Keys of the files in a section, for messages.
#[derive(Clone, Copy, Default)]
pub(crate) struct Names {
    pub(crate) certificate: &'static str,
    pub(crate) key: &'static str,
    pub(crate) key_store: &'static str,
    pub(crate) trusted: &'static str,
    pub(crate) trust_store: &'static str,
}

/// Names in `tls` of a client, a registry and Redis.
pub(crate) const CLIENT: Names =
    Names { certificate: "cert", key: "key", key_store: "key-store", trusted: "ca", trust_store: "trust-store" };

/// Trusted certificates.
pub(crate) enum Trusted {
    Pem(PemFile),
    Store(StoreFile),
}

/// A certificate with its key.
pub(crate) enum KeyPair {
    Pem(PemFile, PemFile),
    Store(StoreFile),
}

impl Files {
    /// Returns the certificate with its key, if there is one. Reports errors.
    pub(crate) fn key_pair(&self, diagnostics: &mut Diagnostics) -> Result<Option<KeyPair>, Reported> {
        let store = self.key_store.file(self.names.key_store, diagnostics)?;
        match (store, self.certificate.spanned(), self.key.spanned()) {
            (None, None, None) => Ok(None),
            (Some(store), None, None) => Ok(Some(KeyPair::Store(store))),
            (Some(store), Some(pem), _) | (Some(store), None, Some(pem)) => {
                Err(both_given(pem.span, (self.names.certificate, self.names.key_store), store.span, diagnostics))
            }
            (None, Some(certificate), Some(key)) => {
                let certificate = pem::read(certificate, "CERTIFICATE", diagnostics);
                let key = pem::read(key, "PRIVATE KEY", diagnostics);
                Ok(Some(KeyPair::Pem(certificate?, key?)))
            }
            (None, Some(alone), None) => Err(self.report_alone(alone, true, diagnostics)),
            (None, None, Some(alone)) => Err(self.report_alone(alone, false, diagnostics)),
        }
    }

    /// Reports a certificate without its key, or a key without its certificate.
    fn report_alone(&self, alone: &Spanned<String>, has_certificate: bool, diagnostics: &mut Diagnostics) -> Reported {
        let Names { certificate, key, .. } = self.names;
        if let Some(bundle) = self.bundle.spanned() {
            let (has, lacks) = if has_certificate { (certificate, key) } else { (key, certificate) };
            let name = &bundle.value;
            diagnostics.error(bundle.span, format!("the SSL bundle `{name}` has a `{has}` and no `{lacks}`")).reported()
        } else {
            diagnostics
                .error(alone.span.key(), format!("`{certificate}` and `{key}` are required together"))
                .reported_with("give both, or neither")
        }
    }

    /// Returns the trusted certificates, if they are given. Reports errors.
    pub(crate) fn trusted(&self, diagnostics: &mut Diagnostics) -> Result<Option<Trusted>, Reported> {
        let store = self.trust_store.file(self.names.trust_store, diagnostics)?;
        match (store, self.trusted.spanned()) {
            (None, None) => Ok(None),
            (Some(store), None) => Ok(Some(Trusted::Store(store))),
            (None, Some(file)) => pem::read(file, "CERTIFICATE", diagnostics).map(|file| Some(Trusted::Pem(file))),
            (Some(store), Some(pem)) => {
                Err(both_given(pem.span, (self.names.trusted, self.names.trust_store), store.span, diagnostics))
            }
        }
    }
}

/// Reports two keys of which only one may be given.
pub(crate) fn both_given(at: Span, names: (&str, &str), other: Span, diagnostics: &mut Diagnostics) -> Reported {
    diagnostics
        .error(at.key(), format!("`{}` and `{}` are both given", names.0, names.1))
        .beside(", the other at", other.key())
        .reported_with("remove one of the two")
}

impl Trusted {
    /// Reads the certificates, at least one. Reports errors.
    pub(crate) fn read(&self, diagnostics: &mut Diagnostics) -> Result<Vec<CertificateDer<'static>>, Reported> {
        let (certificates, path) = match self {
            Self::Pem(file) => (file.certificates(diagnostics)?, &file.path),
            Self::Store(store) => {
                (store.certificates(diagnostics)?.into_iter().map(CertificateDer::from).collect(), &store.path)
            }
        };
        let ends = certificates.iter().filter_map(validity).map(|[_, end]| end);
        if let Some(end) = ends.max().filter(|end| *end <= Timestamp::now()) {
            diagnostics
                .warn(self.span(), format!("the certificates in {} expired, the last one at {end}", path.display()))
                .help("add a valid one: no certificate that they have issued is accepted");
        }
        for certificate in &certificates {
            let added = RootCertStore::empty().add(certificate.clone());
            added.map_err(|error| report_unusable(path.display(), &error, self.span(), diagnostics))?;
        }
        Ok(certificates)
    }

    pub(super) fn span(&self) -> Span {
        match self {
            Self::Pem(file) => file.span,
            Self::Store(store) => store.span,
        }
    }
}

impl KeyPair {
    /// Reads a certificate with its key, which is also returned in PEM. Reports errors.
    pub(crate) fn read(&self, diagnostics: &mut Diagnostics) -> Result<(CertifiedKey, Vec<u8>), Reported> {
        match self {
            Self::Pem(certificate, key) => {
                let (chain, private) = (certificate.certificates(diagnostics), key.key(diagnostics));
                let (private, pem) = private?;
                let places = [(certificate.path.as_path(), certificate.span), (key.path.as_path(), key.span)];
                Ok((certified(chain?, private, places, diagnostics)?, pem))
            }
            Self::Store(store) => {
                let identity = store.identity(diagnostics)?;
                let pem = identity.key_pem().into_bytes();
                let chain = identity.chain.into_iter().map(CertificateDer::from).collect();
                let private = PrivatePkcs8KeyDer::from(identity.key).into();
                Ok((certified(chain, private, [(&store.path, store.span); 2], diagnostics)?, pem))
            }
        }
    }
}

/// Checks that the key belongs to the certificate. The places are those of the certificate and of the key.
fn certified(
    chain: Vec<CertificateDer<'static>>,
    private: PrivateKeyDer<'static>,
    [certificate, key]: [(&Path, Span); 2],
    diagnostics: &mut Diagnostics,
) -> Result<CertifiedKey, Reported> {
    let (path, key_path) = (certificate.0.display(), key.0.display());
    if let Some(leaf) = chain.first() {
        warn_of_expiry(leaf, certificate, diagnostics);
    }
    let private = aws_lc_rs::default_provider().key_provider.load_private_key(private).map_err(|error| {
        diagnostics
            .error(key.1, format!("the key in {key_path} cannot be used: {error}"))
            .reported_with("supported: RSA from 2048 bits, ECDSA on P-256, P-384 or P-521, and Ed25519")
    })?;
    let certified = CertifiedKey::new(chain, private);
    match certified.keys_match() {
        Ok(()) | Err(rustls::Error::InconsistentKeys(InconsistentKeys::Unknown)) => Ok(certified),
        Err(rustls::Error::InconsistentKeys(InconsistentKeys::KeyMismatch)) => {
            let error =
                diagnostics.error(key.1, format!("the key in {key_path} does not fit the certificate in {path}"));
            Err(error.reported_with(
                "`openssl x509 -pubkey -noout -in CERT` and `openssl pkey -pubout -in KEY` must print the same",
            ))
        }
        Err(error) => Err(report_unusable(path, &error, certificate.1, diagnostics)),
    }
}

/// Seconds before the end of a certificate in which it is reported: 14 days.
const EXPIRES_SOON: i64 = 14 * 24 * 60 * 60;

const RENEW: &str = "renew it: the gateway serves the new one without a restart";

/// Returns the begin and the end of the validity of a certificate.
fn validity(certificate: &CertificateDer<'_>) -> Option<[Timestamp; 2]> {
    let time = |text: String| {
        let time = DateTime::strptime("%Y%m%d%H%M%SZ", text).ok()?;
        TimeZone::UTC.to_timestamp(time).ok()
    };
    let [begin, end] = tollgate_key_store::validity(certificate)?.map(time);
    Some([begin?, end?])
}

/// Warns of a certificate that is not valid yet, has expired, or expires within [`EXPIRES_SOON`].
fn warn_of_expiry(leaf: &CertificateDer<'_>, (path, at): (&Path, Span), diagnostics: &mut Diagnostics) {
    let (Some([begin, end]), now) = (validity(leaf), Timestamp::now()) else { return };
    let (words, help) = match end.duration_since(now).as_secs() {
        _ if begin > now => (format!("is not valid before {begin}"), "clients refuse it until then"),
        ..=0 => (format!("expired at {end}"), RENEW),
        secs if secs < EXPIRES_SOON => (format!("expires at {end}"), RENEW),
        _ => return,
    };
    diagnostics.warn(at, format!("the certificate in {} {words}", path.display())).help(help);
}

/// Reports a certificate that cannot be used.
fn report_unusable(path: Display<'_>, error: &rustls::Error, at: Span, diagnostics: &mut Diagnostics) -> Reported {
    diagnostics
        .error(at, format!("a certificate in {path} cannot be used: {error}"))
        .reported_with("`openssl x509 -in FILE -noout -text` shows a certificate")
}
