//! `tollgate explain FILE METHOD URL`: what would become of a request, and why.

use std::io::{self, Write};
use std::net::{IpAddr, Ipv4Addr};
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use http::header::HOST;
use http::request::Parts;
use http::{HeaderValue, Request};

use crate::explain::{Asked, explain};
use tollgate_config::LoadError;

#[derive(Debug, Args)]
pub(super) struct Arguments {
    /// The configuration
    file: PathBuf,
    /// The method, such as GET
    method: String,
    /// The target: a path such as /orders/1?full=1, or a URL, whose host is then asked for
    url: String,
    /// A header field; may be given again
    #[arg(long, short = 'H', value_name = "NAME: VALUE")]
    header: Vec<String>,
    /// The address of the peer
    #[arg(long, value_name = "IP", default_value_t = IpAddr::V4(Ipv4Addr::LOCALHOST))]
    peer: IpAddr,
    /// Print JSON, for tools
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    profiles: crate::cli::Profiles,
}

/// Explains the request to standard output. The exit code is 0, 1 when the file has errors, 2 when it cannot be read or
/// the request is none.
pub(super) fn run(arguments: &Arguments) -> ExitCode {
    let head = match head(arguments) {
        Ok(head) => head,
        Err(problem) => {
            eprintln!("tollgate: {problem}");
            return ExitCode::from(2);
        }
    };
    let loaded = match tollgate_config::load_for(&arguments.file, arguments.profiles.profiles.as_deref()) {
        Ok(loaded) => loaded,
        Err(error) => {
            eprint!("{}", error.render(crate::cli::wants_color()));
            return ExitCode::from(if matches!(error, LoadError::Invalid(_)) { 1 } else { 2 });
        }
    };
    let explanation = explain(&loaded.config, Asked { head, peer: arguments.peer, chance: fastrand::u64(..) });
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

/// The request's head, with a `Host` where neither URL nor fields name one.
fn head(arguments: &Arguments) -> Result<Parts, String> {
    let Arguments { method, url, header, .. } = arguments;
    let mut request = Request::builder().method(method.as_str()).uri(url);
    for field in header {
        let Some((name, value)) = field.split_once(':') else {
            return Err(format!("`{field}` is no header field: write `Name: value`"));
        };
        request = request.header(name.trim(), value.trim());
    }
    let request = request.body(()).map_err(|error| format!("`{method} {url}` is no request: {error}"))?;
    let mut head = request.into_parts().0;
    if !head.headers.contains_key(HOST) && head.uri.authority().is_none() {
        head.headers.insert(HOST, HeaderValue::from_static("localhost"));
    }
    Ok(head)
}
