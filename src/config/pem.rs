//! Certificates and keys in PEM, at one of Spring's locations: a path, `file:`, or the text itself.

use rustls::pki_types::pem::{Error, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

use super::problem::Sink;
use super::spot::Spot;

/// The certificates at `location`, at least one; `None` when there are none, which `sink` then knows.
pub(crate) fn certificates(location: &Spot<String>, sink: &mut Sink) -> Option<Vec<CertificateDer<'static>>> {
    let (bytes, name) = read(location, sink)?;
    match CertificateDer::pem_slice_iter(&bytes).collect::<Result<Vec<_>, _>>() {
        Ok(found) if !found.is_empty() => Some(found),
        Ok(_) => {
            sink.error(location.origin, format!("{name} holds no certificate in PEM")).help(first_line("CERTIFICATE"));
            None
        }
        Err(error) => {
            sink.error(location.origin, format!("{name} is not valid PEM: {error}")).help(first_line("CERTIFICATE"));
            None
        }
    }
}

/// The private key at `location`; `None` when there is none that can be used, which `sink` then knows.
pub(crate) fn key(location: &Spot<String>, sink: &mut Sink) -> Option<PrivateKeyDer<'static>> {
    let (bytes, name) = read(location, sink)?;
    if is_encrypted(&bytes) {
        let file = if name.starts_with('/') { &name } else { "KEY.pem" };
        sink.error(
            location.origin,
            format!("the key in {name} is encrypted, and nobody is there to give its password"),
        )
        .help(format!("`openssl pkey -in {file} -out PLAIN.pem` writes it in plain"));
        return None;
    }
    match PrivateKeyDer::from_pem_slice(&bytes) {
        Ok(key) => Some(key),
        Err(Error::NoItemsFound) => {
            sink.error(location.origin, format!("{name} holds no private key in PEM")).help(first_line("PRIVATE KEY"));
            None
        }
        Err(error) => {
            sink.error(location.origin, format!("{name} is not valid PEM: {error}")).help(first_line("PRIVATE KEY"));
            None
        }
    }
}

fn is_encrypted(bytes: &[u8]) -> bool {
    let text = String::from_utf8_lossy(bytes);
    text.contains("-----BEGIN ENCRYPTED PRIVATE KEY-----") || text.contains("Proc-Type: 4,ENCRYPTED")
}

fn first_line(what: &str) -> String {
    format!("its first line is like `-----BEGIN {what}-----`; `openssl` turns other formats into it")
}

/// What stands at `location`, and what to call it.
fn read(location: &Spot<String>, sink: &mut Sink) -> Option<(Vec<u8>, String)> {
    let text = location.value.trim();
    if text.contains("-----BEGIN") {
        return Some((text.into(), "the text".to_owned()));
    }
    if let Some(inside) = text.strip_prefix("classpath:") {
        sink.error(location.origin, format!("`{text}` is inside of a Java archive"))
            .help(format!("copy it out: `file:/etc/tollgate/{}`", inside.rsplit('/').next().unwrap_or(inside)));
        return None;
    }
    if text.starts_with("base64:") {
        sink.error(location.origin, "PEM within `base64:` is not read").help("write it to a file and name that");
        return None;
    }
    let path = text.strip_prefix("file:").map_or(text, |path| path.strip_prefix("//").unwrap_or(path));
    match std::fs::read(path) {
        Ok(bytes) => Some((bytes, path.to_owned())),
        Err(error) => {
            sink.error(location.origin, format!("cannot read {path}: {error}"))
                .help("a path starts at the working directory; the user that runs the gateway must be able to read it");
            None
        }
    }
}
