//! `config`, and the files that settings name: certificates, keys, passwords, tokens and key sets.

use std::fmt;
use std::path::Path;

use tollgate_bounded_file::MAX_SECRET_BYTES;

use crate::de::{Flag, Spanned};
use crate::diagnostics::{Diagnostics, Reported};
use crate::yaml::Span;

/// Help for a file that cannot be read.
pub(crate) const UNREADABLE: &str =
    "name a file that the gateway's user can read; relative paths start at the working directory";

/// Files of the configuration.
#[section(Clone)]
pub struct ConfigFiles {
    /// Reloads the configuration when a file that it has read changes: its own files, imports, certificates, keys, passwords, tokens and key sets.
    pub watch: Flag<true>,
}

/// Returns the bytes of the file at `path`, at most `max_bytes`. Reports errors at `at`, which name it by `name`.
pub(crate) fn read(
    path: &Path,
    max_bytes: usize,
    name: fmt::Arguments<'_>,
    at: Span,
    diagnostics: &mut Diagnostics,
) -> Result<Vec<u8>, Reported> {
    tollgate_bounded_file::read(path, max_bytes)
        .map_err(|error| diagnostics.error(at, format!("cannot read {name}: {error}")).reported_with(UNREADABLE))
}

/// Returns the content of a file without the final line break. `what` names the file in messages.
pub(crate) fn secret(file: &Spanned<String>, what: &str, diagnostics: &mut Diagnostics) -> Result<String, Reported> {
    let path = file.value.trim();
    let bytes = read(Path::new(path), MAX_SECRET_BYTES, format_args!("the {what} {path}"), file.span, diagnostics)?;
    let Ok(text) = String::from_utf8(bytes) else {
        return Err(diagnostics.error(file.span, format!("the {what} {path} is not UTF-8")).reported());
    };
    let secret = text.trim_end_matches(['\r', '\n']);
    if secret.is_empty() {
        return Err(diagnostics.error(file.span, format!("the {what} {path} is empty")).reported());
    }
    diagnostics.mask_content(file.span, secret);
    Ok(secret.to_owned())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::process::Command;
    use std::time::{Duration, Instant};

    use crate::load::parse;

    /// Settings that name a file, each with the bound of its file. `FILE` stands for the path.
    const SETTINGS: [(&str, &str); 14] = [
        ("server.ssl: {certificate: FILE, certificate-private-key: FILE}", "16 MiB"),
        ("server.ssl: {key-store: FILE, key-store-password: changeit}", "16 MiB"),
        ("management.server: {port: 0, ssl: {certificate: FILE, certificate-private-key: FILE}}", "16 MiB"),
        ("httpclient.tls: {ca: FILE}", "16 MiB"),
        ("httpclient.tls: {cert: FILE, key: FILE}", "16 MiB"),
        ("httpclient.ssl: {key-store: FILE, key-store-password: changeit}", "16 MiB"),
        ("consul: {host: localhost, tls: {ca: FILE}}", "16 MiB"),
        ("redis: {host: localhost, tls: {ca: FILE}}", "16 MiB"),
        ("redis: {host: localhost, password-file: FILE}", "64 KiB"),
        ("redis: {sentinel: {master: m, nodes: 'localhost:1', password-file: FILE}}", "64 KiB"),
        ("management: {tokens: [{name: ops, role: read, token-file: FILE}]}", "64 KiB"),
        ("jwt: {jwks: FILE}", "1 MiB"),
        ("api-keys: {file: FILE}", "256 MiB"),
        ("kubernetes: {client: {service-account-namespace-path: FILE}}", "64 KiB"),
    ];

    fn report(setting: &str, path: &str) -> String {
        let route = "routes: [{id: a, uri: 'echo:', predicates: [Path=/**]}]";
        let text = format!("{}\n{route}\n", setting.replace("FILE", path));
        parse("a.yaml", &text, &|_| None).map_or_else(|report| report.to_string(), |_| String::new())
    }

    #[test]
    fn no_setting_reads_more_than_its_bound_or_waits_for_a_pipe() {
        let folder = tempfile::tempdir().unwrap();
        let pipe = folder.path().join("pipe");
        assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
        for (setting, bound) in SETTINGS {
            let report_of = |path| {
                let started = Instant::now();
                let report = report(setting, path);
                assert!(started.elapsed() < Duration::from_secs(5), "{setting}");
                report
            };
            let endless = report_of("/dev/zero");
            assert!(endless.contains(&format!(": it has more than {bound}")), "{setting}: {endless}");
            let silent = report_of(pipe.to_str().unwrap());
            assert!(silent.contains(": it is an empty pipe to which no process writes"), "{setting}: {silent}");
        }
    }
}
