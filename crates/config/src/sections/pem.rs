//! Certificates and keys in PEM files.

use std::path::PathBuf;

use crate::de::spanned::Spanned;
use crate::diagnostics::Diagnostics;
use crate::yaml::Span;

/// Returns the path of a PEM file after checking that it holds `what`.
pub(crate) fn file(file: &Spanned<String>, what: &str, diagnostics: &mut Diagnostics) -> Option<PathBuf> {
    let path = file.value.trim();
    let text = match std::fs::read(path) {
        Ok(bytes) => String::from_utf8_lossy(&bytes).into_owned(),
        Err(error) => {
            diagnostics
                .error(file.span, format!("cannot read {path}: {error}"))
                .help("a path starts at the working directory; the user that runs the gateway must be able to read it");
            return None;
        }
    };
    if text.contains("-----BEGIN ENCRYPTED PRIVATE KEY-----") || text.contains("Proc-Type: 4,ENCRYPTED") {
        diagnostics
            .error(file.span, format!("the key in {path} is encrypted, and there is no way to enter its password"))
            .help(format!("`openssl pkey -in {path} -out FILE` writes it in plain"));
        return None;
    }
    if !text.contains(&format!("{what}-----")) {
        diagnostics
            .error(file.span, format!("{path} holds no {} in PEM", what.to_lowercase()))
            .help(format!("its first line is like `-----BEGIN {what}-----`; `openssl` turns other formats into it"));
        return None;
    }
    Some(path.into())
}

/// Returns the file at a Spring resource location (`file:`, `classpath:`) after checking that it holds `what` in PEM.
pub(crate) fn located(text: &str, at: Span, what: &str, diagnostics: &mut Diagnostics) -> Option<PathBuf> {
    let path = location(text, at, diagnostics)?.to_owned();
    file(&Spanned { value: path, span: at }, what, diagnostics)
}

/// Returns the path of a Spring resource location (`file:`, `classpath:`).
pub(crate) fn location<'t>(text: &'t str, at: Span, diagnostics: &mut Diagnostics) -> Option<&'t str> {
    let text = text.trim();
    if text.contains("-----BEGIN") {
        diagnostics
            .error(at, "a certificate or key within the YAML cannot be read")
            .help("write it to a file and name that");
        return None;
    }
    if let Some(inside) = text.strip_prefix("classpath:") {
        diagnostics
            .error(at, format!("`{text}` is inside of a Java archive"))
            .help(format!("copy it out: `file:/etc/tollgate/{}`", inside.rsplit('/').next().unwrap_or(inside)));
        return None;
    }
    Some(text.strip_prefix("file:").map_or(text, |path| path.strip_prefix("//").unwrap_or(path)))
}
