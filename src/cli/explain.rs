//! `tollgate explain [FILE] [METHOD] URL`: dry run of one request.

use std::net::{IpAddr, Ipv4Addr};
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;

use crate::cli::admin_client::{AdminClient, encoded, printable};
use crate::cli::admin_connection::TlsFiles;
use crate::cli::load::{self, Selection};
use crate::cli::report::{fail, json, usage, warnings, write};
use crate::explain::model::Explanation;
use crate::explain::{DryRunRequest, explain};
use tollgate_config::{CommandLine, Loaded};
use tollgate_proxy::http::client_certificate::{CertifiedClient, client_cert_value};

/// Words of notes about settings that are skipped.
const SKIPPED: &str = "are skipped: ";
/// Words of those about sections of the application that have a name of ours.
const OWN_SECTIONS: &str = "the application's own are skipped: ";

/// Value of `--live` without an address.
const DEFAULT_ADDRESS: &str = "";

#[derive(Debug, Args)]
#[command(
    override_usage = "tollgate explain [OPTIONS] [FILE] [METHOD] <URL>\n       tollgate explain [OPTIONS] [METHOD] <URL> --live [HOST:PORT]"
)]
pub(super) struct Arguments {
    /// FILE: configuration (omit with --live). METHOD: such as POST (default: GET). URL: a path such as /orders/1?full=1, or a URL; its host becomes the Host field
    #[arg(value_names = ["FILE", "METHOD", "URL"], num_args = 1.., required = true)]
    request: Vec<String>,
    /// Header field (repeatable)
    #[arg(long, short = 'H', value_name = "NAME: VALUE")]
    header: Vec<String>,
    /// Address of the TCP peer
    #[arg(long, value_name = "IP", default_value_t = IpAddr::V4(Ipv4Addr::LOCALHOST))]
    peer: IpAddr,
    /// Certificate of the client in PEM, as its TLS handshake would present it
    #[arg(long, value_name = "FILE")]
    client_cert: Option<PathBuf>,
    /// Query a running gateway; also show remaining tokens, endpoints and circuit breakers [default: 127.0.0.1:PORT with PORT from MANAGEMENT_SERVER_PORT, otherwise 9090]
    #[arg(long, value_name = "HOST:PORT", num_args = 0..=1, default_missing_value = DEFAULT_ADDRESS)]
    live: Option<String>,
    #[command(flatten)]
    tls: TlsFiles,
    /// Print JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    selection: Selection,
}

impl Arguments {
    /// Returns true if `--live` is given.
    pub(super) fn is_live(&self) -> bool {
        self.live.is_some()
    }

    /// Returns true if the arguments name a configuration file.
    pub(super) fn names_files(&self) -> bool {
        self.selection.names_files() || self.parts().is_ok_and(|(file, ..)| file.is_some())
    }

    /// Returns FILE, METHOD and URL.
    fn parts(&self) -> Result<(Option<PathBuf>, &str, &str), String> {
        match &*self.request {
            [url] => Ok((None, "GET", url)),
            [file, url] if is_file(file) && !self.is_live() => Ok((Some(file.into()), "GET", url)),
            [method, _] if is_file(method) => {
                let method = printable(method);
                Err(format!("`{method}` is not an HTTP method; with --live, write METHOD and URL without FILE"))
            }
            [method, url] => Ok((None, method, url)),
            [method, file, _] if is_method(method) && is_file(file) => {
                Err(format!("`{method}` is the method: write FILE, METHOD and URL in this order"))
            }
            [file, method, url] => Ok((Some(file.into()), method, url)),
            _ => Err("expected [FILE] [METHOD] URL, or [METHOD] URL --live".to_owned()),
        }
    }
}

/// Prints the dry run to standard output, and notes about skipped sections of a Spring file to standard error.
///
/// The exit code is 0; 1 if the file has errors or the gateway does not respond; 2 if the file cannot be read or the
/// request is invalid.
pub(super) fn run(arguments: &Arguments, command_line: CommandLine) -> Result<ExitCode, ExitCode> {
    let (file, method, url) = arguments.parts().map_err(usage)?;
    if arguments.is_live() && arguments.names_files() {
        return Err(usage("--live uses the configuration of the running gateway: leave out FILE and --config"));
    }
    let mut request = DryRunRequest::new(method, url, &arguments.header).map_err(usage)?;
    request.peer = arguments.peer;
    let mut certificate = None;
    if let Some(path) = &arguments.client_cert {
        certificate = CertificateDer::from_pem_file(path).ok();
        request.certificate = certificate.as_ref().and_then(|der| CertifiedClient::of(der));
        if request.certificate.is_none() {
            return Err(usage(format_args!("`{}` is no certificate in PEM", path.display())));
        }
    }
    let explanation = if arguments.is_live() {
        live(arguments, method, url, certificate.as_ref()).map_err(|error| fail(1, &error))?
    } else {
        let command_line = arguments.selection.with_profiles(command_line);
        let files = arguments.selection.files(file, &command_line)?;
        explained(&load::load(&files, &command_line)?, request)
    };
    let explanation = explanation.ok_or_else(|| fail(1, &"cannot create the runtime of the dry run"))?;
    Ok(write(&if arguments.json { json(&explanation) } else { explanation.to_string() }))
}

/// Returns the dry run of `request`. Prints the notes of the configuration about skipped sections, and about other skipped
/// settings if no route matches.
fn explained(loaded: &Loaded, request: DryRunRequest) -> Option<Explanation> {
    eprint!("{}", loaded.notes.render_sections(load::wants_color()));
    let explanation = explain(&loaded.config, &loaded.notes.secret_values(), request)?;
    if explanation.route.is_none() {
        let others = loaded.notes.list().iter().filter(|note| !note.names_sections);
        others.map(|note| note.text()).filter(|text| text.contains(SKIPPED)).for_each(|text| {
            eprintln!("tollgate: {text}");
        });
    }
    Some(explanation)
}

/// Returns true for the name of a file rather than of a method.
fn is_file(text: &str) -> bool {
    text.contains(['.', '/'])
}

/// Returns true for a word in capitals.
fn is_method(text: &str) -> bool {
    text.len() > 2 && text.bytes().all(|letter| letter.is_ascii_uppercase())
}

/// Returns the dry run of a running gateway.
fn live(
    arguments: &Arguments,
    method: &str,
    url: &str,
    certificate: Option<&CertificateDer<'_>>,
) -> Result<Option<Explanation>, Box<dyn std::error::Error>> {
    let peer = arguments.peer;
    let mut path = format!("/api/explain?method={}&url={}&peer={peer}", encoded(method), encoded(url));
    for header in &arguments.header {
        path.push_str(&format!("&header={}", encoded(header)));
    }
    if let Some(certificate) = certificate {
        path.push_str(&format!("&client-cert={}", encoded(&client_cert_value(certificate))));
    }
    let address = arguments.live.clone().filter(|address| address != DEFAULT_ADDRESS);
    let client = AdminClient::at(address, &arguments.tls);
    let explanation: Explanation = serde_json::from_value(client.call("GET", &path, "", "passed-over")?)?;
    // The explanation is complete without the notes.
    if let Ok(config) = client.call("GET", "/api/config", "", "hash") {
        let note_text = if explanation.route.is_some() { OWN_SECTIONS } else { SKIPPED };
        let notes = warnings(&config);
        notes.lines().filter(|line| line.contains(note_text)).for_each(|line| eprintln!("{line}"));
    }
    Ok(Some(explanation))
}
