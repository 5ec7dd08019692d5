//! `tollgate explain FILE METHOD URL`: dry run of one request.

use std::io::{self, Write};
use std::net::{IpAddr, Ipv4Addr};
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use http::header::HOST;
use http::request::Parts;
use http::{HeaderValue, Request};

use crate::cli::load::{self, Profiles};
use crate::explain::{DryRunRequest, explain};

#[derive(Debug, Args)]
pub(super) struct Arguments {
    /// Configuration file
    file: PathBuf,
    /// Method, such as GET
    method: String,
    /// Path such as /orders/1?full=1, or a URL; its host becomes the Host field
    url: String,
    /// Header field (repeatable)
    #[arg(long, short = 'H', value_name = "NAME: VALUE")]
    header: Vec<String>,
    /// Address of the peer
    #[arg(long, value_name = "IP", default_value_t = IpAddr::V4(Ipv4Addr::LOCALHOST))]
    peer: IpAddr,
    /// Print JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    profiles: Profiles,
}

/// Prints the dry run to standard output. The exit code is 0; 1 if the file has errors; 2 if it cannot be read or the
/// request is invalid.
pub(super) fn run(arguments: &Arguments) -> ExitCode {
    let head = match head(arguments) {
        Ok(head) => head,
        Err(error) => {
            eprintln!("tollgate: {error}");
            return ExitCode::from(2);
        }
    };
    let loaded = match tollgate_config::load_for(&arguments.file, arguments.profiles.profiles.as_deref()) {
        Ok(loaded) => loaded,
        Err(error) => return load::report(&error),
    };
    let explanation = explain(&loaded.config, DryRunRequest { head, peer: arguments.peer, chance: fastrand::u64(..) });
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

/// Builds the request head. Adds `Host: localhost` if neither the URL nor the fields have a host.
fn head(arguments: &Arguments) -> Result<Parts, String> {
    let Arguments { method, url, header, .. } = arguments;
    let mut request = Request::builder().method(method.as_str()).uri(url);
    for field in header {
        let Some((name, value)) = field.split_once(':') else {
            return Err(format!("invalid header field `{field}`: write `Name: value`"));
        };
        request = request.header(name.trim(), value.trim());
    }
    let request = request.body(()).map_err(|error| format!("invalid request `{method} {url}`: {error}"))?;
    let mut head = request.into_parts().0;
    if !head.headers.contains_key(HOST) && head.uri.authority().is_none() {
        head.headers.insert(HOST, HeaderValue::from_static("localhost"));
    }
    Ok(head)
}
