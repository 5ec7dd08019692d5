//! `tollgate explain FILE [METHOD] URL`: dry run of one request.

use std::io::{self, Write};
use std::net::{IpAddr, Ipv4Addr};
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;

use crate::cli::admin_client::{AdminClient, encoded, printable};
use crate::cli::admin_connection::TlsFiles;
use crate::cli::load::{self, Overlays, Profiles};
use crate::cli::report::warnings;
use crate::explain::model::Explanation;
use crate::explain::{DryRunRequest, explain};
use tollgate_config::CommandLine;

/// Words of notes about settings that are skipped.
const SKIPPED: &str = "are skipped: ";
/// Words of those about sections of the application that have a name of ours.
const OWN_SECTIONS: &str = "the application's own are skipped: ";

#[derive(Debug, Args)]
#[command(
    override_usage = "tollgate explain [OPTIONS] <FILE> [METHOD] <URL>\n       tollgate explain [OPTIONS] [METHOD] <URL> --live [HOST:PORT]"
)]
pub(super) struct Arguments {
    /// FILE: configuration (omit with --live; optional with --config). METHOD: such as POST (default: GET). URL: a path such as /orders/1?full=1, or a URL; its host becomes the Host field
    #[arg(value_names = ["FILE", "METHOD", "URL"], num_args = 1.., required = true)]
    request: Vec<String>,
    /// Header field (repeatable)
    #[arg(long, short = 'H', value_name = "NAME: VALUE")]
    header: Vec<String>,
    /// Address of the TCP peer
    #[arg(long, value_name = "IP", default_value_t = IpAddr::V4(Ipv4Addr::LOCALHOST))]
    peer: IpAddr,
    /// Query a running gateway; also show remaining tokens, endpoints and circuit breakers [default: 127.0.0.1:PORT with PORT from MANAGEMENT_SERVER_PORT, otherwise 9090]
    #[arg(long, value_name = "HOST:PORT", num_args = 0..=1)]
    #[expect(clippy::option_option, reason = "the form of clap for an option with an optional value")]
    live: Option<Option<String>>,
    #[command(flatten)]
    tls: TlsFiles,
    /// Print JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    overlays: Overlays,
    #[command(flatten)]
    profiles: Profiles,
}

impl Arguments {
    /// Returns true if `--live` is given.
    pub(super) fn is_live(&self) -> bool {
        self.live.is_some()
    }

    /// Returns true if the arguments name a configuration file.
    pub(super) fn names_files(&self) -> bool {
        self.request.len() > 2
            || matches!(&*self.request, [first, _] if is_file(first))
            || !self.overlays.files.is_empty()
    }
}

/// Prints the dry run to standard output, and notes about skipped sections of a Spring file to standard error.
///
/// The exit code is 0; 1 if the file has errors or the gateway does not respond; 2 if the file cannot be read or the
/// request is invalid.
pub(super) fn run(arguments: &Arguments, mut command_line: CommandLine) -> ExitCode {
    command_line.profiles.clone_from(&arguments.profiles.profiles);
    let fail = |code: u8, error: &dyn std::fmt::Display| {
        eprintln!("tollgate: {error}");
        ExitCode::from(code)
    };
    let overlays = &arguments.overlays;
    let get = "GET".to_owned();
    let has_files = !overlays.files.is_empty() || load::has_location(&command_line);
    let (files, method, url) = match (&*arguments.request, &arguments.live) {
        ([method, file, _], None) if is_method(method) && is_file(file) => {
            return fail(2, &format!("`{method}` is the method: write FILE, METHOD and URL in this order"));
        }
        ([file, url], None) if is_file(file) => (Some(overlays.over(Some(PathBuf::from(file)))), &get, url),
        ([method, _], Some(_)) if is_file(method) => {
            return fail(
                2,
                &format!(
                    "`{}` is not an HTTP method; with --live, write METHOD and URL without FILE",
                    printable(method)
                ),
            );
        }
        ([method, url], Some(_)) if overlays.files.is_empty() => (None, method, url),
        ([url], Some(_)) if overlays.files.is_empty() => (None, &get, url),
        ([method, url], None) if has_files => (Some(overlays.over(None)), method, url),
        ([url], None) if has_files => (Some(overlays.over(None)), &get, url),
        ([file, method, url], None) => (Some(overlays.over(Some(PathBuf::from(file)))), method, url),
        (_, Some(_)) => {
            return fail(2, &"--live uses the configuration of the running gateway: leave out FILE and --config");
        }
        (_, None) => return fail(2, &"expected FILE [METHOD] URL, or [METHOD] URL --live"),
    };
    let mut request = match DryRunRequest::new(method, url, &arguments.header) {
        Ok(request) => request,
        Err(error) => return fail(2, &error),
    };
    request.peer = arguments.peer;
    let explanation = match files {
        Some(files) => match tollgate_config::load(&files, &command_line) {
            Ok(loaded) => {
                eprint!("{}", loaded.notes.render_sections(load::wants_color()));
                let explanation = explain(&loaded.config, request);
                if explanation.as_ref().is_some_and(|explanation| explanation.route.is_none()) {
                    let others = loaded.notes.list().iter().filter(|note| !note.names_sections);
                    others.map(|note| note.text()).filter(|text| is_about_skipped(text)).for_each(|text| {
                        eprintln!("tollgate: {text}");
                    });
                }
                explanation
            }
            Err(error) => return load::report(&error),
        },
        None => match live(arguments, method, url) {
            Ok(explanation) => explanation,
            Err(error) => return fail(1, &error),
        },
    };
    let Some(explanation) = explanation else { return fail(1, &"cannot create the runtime of the dry run") };
    let text = if arguments.json {
        serde_json::to_string_pretty(&explanation).map(|json| json + "\n").unwrap_or_default()
    } else {
        explanation.to_string()
    };
    match io::stdout().lock().write_all(text.as_bytes()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::FAILURE,
    }
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
fn live(arguments: &Arguments, method: &str, url: &str) -> Result<Option<Explanation>, Box<dyn std::error::Error>> {
    let peer = arguments.peer;
    let mut path = format!("/api/explain?method={}&url={}&peer={peer}", encoded(method), encoded(url));
    for header in &arguments.header {
        path.push_str(&format!("&header={}", encoded(header)));
    }
    let client = AdminClient::at(arguments.live.clone().flatten(), &arguments.tls);
    let explanation: Explanation = serde_json::from_value(client.call("GET", &path, "", "passed-over")?)?;
    // The explanation is complete without the notes.
    if let Ok(config) = client.call("GET", "/api/config", "", "hash") {
        let wanted = if explanation.route.is_some() { OWN_SECTIONS } else { SKIPPED };
        let notes = warnings(&config);
        notes.lines().filter(|line| line.contains(wanted)).for_each(|line| eprintln!("{line}"));
    }
    Ok(Some(explanation))
}

/// Returns true for a message that names settings of a file that are skipped.
fn is_about_skipped(message: &str) -> bool {
    message.contains(SKIPPED)
}
