//! Certificates and keys in PEM files.

use std::path::{Path, PathBuf};

use rustls::pki_types::pem::{Error, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tollgate_bounded_file::MAX_CERTIFICATE_BYTES;

use crate::de::Spanned;
use crate::diagnostics::{Diagnostics, Missing, Reported, Section};
use crate::sections::files;
use crate::yaml::Span;

/// Contents of a PEM file.
pub(crate) struct PemFile {
    pub(crate) path: PathBuf,
    pub(super) span: Span,
    bytes: Vec<u8>,
}

/// Reads the PEM file at `location`, which holds `what`. Reports errors.
pub(super) fn read(location: &Spanned<String>, what: &str, diagnostics: &mut Diagnostics) -> Result<PemFile, Reported> {
    let span = location.span;
    let path = path(location, diagnostics)?;
    let bytes = files::read(Path::new(path), MAX_CERTIFICATE_BYTES, format_args!("{path}"), span, diagnostics)?;
    let text = String::from_utf8_lossy(&bytes);
    if text.contains("-----BEGIN ENCRYPTED PRIVATE KEY-----") || text.contains("Proc-Type: 4,ENCRYPTED") {
        return Err(diagnostics
            .error(span, format!("the key in {path} is encrypted, and there is no way to enter its password"))
            .reported_with(format!("`openssl pkey -in {path} -out FILE` writes it in plain")));
    }
    if !text.contains(&format!("{what}-----")) {
        return Err(report_absent(what, Path::new(path), span, diagnostics));
    }
    Ok(PemFile { path: path.into(), span, bytes })
}

fn report_absent(what: &str, path: &Path, at: Span, diagnostics: &mut Diagnostics) -> Reported {
    diagnostics.error(at, format!("{} holds no {} in PEM", path.display(), what.to_lowercase())).reported_with(format!(
        "its first line is like `-----BEGIN {what}-----`; `openssl` turns other formats into it"
    ))
}

/// Returns the path of a file: a plain one, or a resource location of Spring (`file:`). Reports errors.
pub(super) fn path<'t>(location: &'t Spanned<String>, diagnostics: &mut Diagnostics) -> Result<&'t str, Reported> {
    let (text, at) = (location.value.trim(), location.span);
    if text.contains("-----BEGIN") {
        return Err(diagnostics
            .error(at, "a certificate or key within the YAML cannot be read")
            .reported_with("write it to a file and name that"));
    }
    if let Some(inside) = text.strip_prefix("classpath:") {
        let file = format!("file:/etc/tollgate/{}", inside.rsplit('/').next().unwrap_or(inside));
        let help = format!("copy it out: `{file}`");
        let comment = "copy it out of the application's archive".to_owned();
        // The name of the property is known once all are read.
        let missing = Missing { section: Section::Properties, name: String::new(), value: file, comment };
        let error = diagnostics.error(at, format!("`{text}` is inside of a Java archive"));
        return Err(error.missing(missing).reported_with(help));
    }
    Ok(text.strip_prefix("file:").map_or(text, |path| path.strip_prefix("//").unwrap_or(path)))
}

impl PemFile {
    /// Returns the certificates, at least one.
    pub(super) fn certificates(&self, diagnostics: &mut Diagnostics) -> Result<Vec<CertificateDer<'static>>, Reported> {
        let read: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&self.bytes).collect();
        let certificates = read.map_err(|error| self.invalid(&error, diagnostics))?;
        // Tools also write `BEGIN TRUSTED CERTIFICATE`, which is another format.
        if certificates.is_empty() {
            return Err(report_absent("CERTIFICATE", &self.path, self.span, diagnostics));
        }
        Ok(certificates)
    }

    /// Returns the key, and its PEM.
    pub(super) fn key(&self, diagnostics: &mut Diagnostics) -> Result<(PrivateKeyDer<'static>, Vec<u8>), Reported> {
        let key = PrivateKeyDer::from_pem_slice(&self.bytes).map_err(|error| self.invalid(&error, diagnostics))?;
        Ok((key, self.bytes.clone()))
    }

    fn invalid(&self, error: &Error, diagnostics: &mut Diagnostics) -> Reported {
        let error = match error {
            Error::MissingSectionEnd { .. } => "its last `-----END` line is absent".to_owned(),
            other => other.to_string(),
        };
        diagnostics
            .error(self.span, format!("{} is not valid PEM: {error}", self.path.display()))
            .reported_with("check that the file is complete and unchanged")
    }
}
