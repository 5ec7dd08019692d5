//! Folder with the account and the certificates. Files are replaced in one step and are readable by their owner only.

use std::fs;
use std::io::{self, Write};
use std::path::Path;

use instant_acme::AccountCredentials;
use rustls::client::verify_server_name;
use rustls::crypto::aws_lc_rs;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::server::ParsedCertificate;
use rustls::sign::CertifiedKey;
use tempfile::NamedTempFile;
use tollgate_bounded_file::{MAX_CERTIFICATE_BYTES, read};
use tollgate_config::Acme;
use tollgate_transport::certificate::{Validity, validity};

/// Account at the ACME server.
const ACCOUNT: &str = "account.json";

/// Returns the validity of the certificate of `domain`; `None` without a usable one.
pub(crate) fn stored(acme: &Acme, domain: &str) -> Option<Validity> {
    let pem = read(&acme.file(domain), MAX_CERTIFICATE_BYTES).ok()?;
    check(&pem, domain).ok()
}

/// Checks that `pem` has a certificate for `domain` with its key. Returns its validity.
pub(crate) fn check(pem: &[u8], domain: &str) -> Result<Validity, String> {
    let chain =
        CertificateDer::pem_slice_iter(pem).collect::<Result<Vec<_>, _>>().map_err(|error| error.to_string())?;
    let key = PrivateKeyDer::from_pem_slice(pem).map_err(|error| error.to_string())?;
    let certified = CertifiedKey::from_der(chain, key, &aws_lc_rs::default_provider());
    let certified = certified.map_err(|error| error.to_string())?;
    let leaf = certified.end_entity_cert().map_err(|error| error.to_string())?;
    let name = ServerName::try_from(domain).map_err(|error| error.to_string())?;
    let verified = ParsedCertificate::try_from(leaf).and_then(|leaf| verify_server_name(&leaf, &name));
    verified.map_err(|error| error.to_string())?;
    validity(leaf).ok_or_else(|| "it has no validity".to_owned())
}

/// Returns the account at the server of the configuration, if there is one.
pub(crate) fn account(acme: &Acme) -> Option<AccountCredentials> {
    let text = read(&acme.storage().join(ACCOUNT), MAX_CERTIFICATE_BYTES).ok()?;
    let account: serde_json::Value = serde_json::from_slice(&text).ok()?;
    let is_of_server = account.get("directory").and_then(|url| url.as_str()) == Some(acme.directory());
    is_of_server.then(|| serde_json::from_value(account).ok())?
}

/// Writes the account.
pub(crate) fn keep_account(acme: &Acme, account: &AccountCredentials) -> io::Result<()> {
    write(&acme.storage().join(ACCOUNT), &serde_json::to_vec(account)?)
}

/// Writes the certificate of `domain` with its key.
pub(crate) fn keep(acme: &Acme, domain: &str, pem: &str) -> io::Result<()> {
    write(&acme.file(domain), pem.as_bytes())
}

/// Makes sure that files can be written, before anything is asked of the server.
pub(crate) fn prepare(acme: &Acme) -> io::Result<()> {
    create_folder(acme.storage())?;
    NamedTempFile::new_in(acme.storage()).map(drop)
}

/// Creates the folder, for its owner only. One that exists keeps its mode.
fn create_folder(path: &Path) -> io::Result<()> {
    let mut builder = fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(path)
}

/// Replaces the file in one step. A temporary file has the mode 0600.
fn write(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let folder = path.parent().unwrap_or(Path::new("."));
    let mut file = NamedTempFile::new_in(folder)?;
    file.write_all(bytes)?;
    file.as_file().sync_all()?;
    file.persist(path).map_err(|error| error.error)?;
    fs::File::open(folder)?.sync_all()
}
