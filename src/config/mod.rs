//! Configuration: YAML text to a checked [`Config`], with every problem at its line and column.
//!
//! The way of a file: `yaml` reads its text into nodes that remember their places, `unfold` brings Spring's shapes to
//! ours, `placeholder` resolves `${NAME}`, `de` fills the raw structs of `raw`, and `check` turns them into [`Config`].
//! Every step notes what is wrong and goes on, so that one run tells everything.

mod access;
mod advice;
mod check;
mod check_concurrency;
mod check_edits;
#[cfg_attr(not(feature = "jwt"), path = "check_jwt_absent.rs")]
mod check_jwt;
mod check_key_resolver;
mod check_predicates;
mod check_redis;
mod check_request_counter;
mod check_routes;
mod check_server;
mod check_target;
mod check_trusted;
mod de;
mod definition;
mod dotted;
mod filters;
#[cfg(test)]
mod generated;
mod httpclient;
#[cfg(feature = "jwt")]
mod jwt;
mod limiter;
mod locate;
mod model;
mod names;
mod pem;
mod placeholder;
mod problem;
mod raw;
mod raw_jwt;
mod raw_route;
mod raw_server;
mod schema;
mod spot;
mod status;
mod switches;
#[cfg(test)]
mod tests;
mod unfold;
mod units;
mod upstreams;
mod values;
mod yaml;

use std::io;
use std::path::{Path, PathBuf};

use thiserror::Error;

pub use filters::{Argument, Entry as FilterEntry, filters};
#[cfg(feature = "jwt")]
pub use jwt::{Jwt, KeySource};
pub use model::*;
pub use problem::{Problem, Problems, Severity};
pub use schema::schema;
pub use upstreams::{
    Balance, Dns, DnsQuery, Ejection, EndpointAddress, EndpointSource, HealthCheck, ListedEndpoint, Records, Statuses,
    Upstream,
};

use names::{LATER_SETTINGS, no_effect};
use problem::{Sink, closest};
use switches::Switches;
use yaml::Node;

/// A configuration that can be used, and what its author should know of it.
#[derive(Clone, Debug)]
pub struct Loaded {
    /// The configuration.
    pub config: Config,
    /// Warnings and infos.
    pub notes: Problems,
}

/// Why a file gave no configuration.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum LoadError {
    /// It could not be read.
    #[error("cannot read {path}", path = path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// It has errors.
    #[error("{0}")]
    Invalid(Problems),
}

impl LoadError {
    /// All that is wrong, for a person: one line for a file that cannot be read, each problem with its excerpt otherwise.
    #[must_use]
    pub fn render(&self, color: bool) -> String {
        match self {
            Self::Unreadable { path, source } => format!("tollgate: cannot read {}: {source}\n", path.display()),
            Self::Invalid(problems) => problems.render(color),
        }
    }
}

/// Reads and checks the file at `path`, with placeholders from the environment.
///
/// # Errors
/// The file cannot be read as UTF-8 text, or has errors.
pub fn load(path: &Path) -> Result<Loaded, LoadError> {
    let text =
        std::fs::read_to_string(path).map_err(|source| LoadError::Unreadable { path: path.to_owned(), source })?;
    parse(&path.display().to_string(), &text, &|name| std::env::var(name).ok()).map_err(LoadError::Invalid)
}

/// Checks `text`, which problems call `file_name`, with placeholders, `SERVER_PORT`, `MANAGEMENT_SERVER_PORT` and
/// `SPRING_PROFILES_ACTIVE` from `env`.
///
/// # Errors
/// Every problem of the text, when at least one is an error.
pub fn parse(file_name: &str, text: &str, env: &dyn Fn(&str) -> Option<String>) -> Result<Loaded, Problems> {
    // A byte order mark is no part of the text.
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let mut sink = Sink::default();
    let (documents, mut places) = yaml::parse(text, &mut sink);
    if sink.has_errors() {
        return Err(sink.finish(file_name, text, &places));
    }
    sink.is_spring = unfold::is_spring(&documents);
    let profiles: Vec<String> =
        env("SPRING_PROFILES_ACTIVE").unwrap_or_default().split(',').map(|name| name.trim().to_owned()).collect();
    let whole = unfold::join(documents, &profiles, &mut places, &mut sink);
    let properties = whole.clone();
    let mut root = unfold::unfold(whole, &mut sink);
    let lookup = |name: &str| {
        let from_environment = placeholder::in_environment(name, env).map(placeholder::Value::Literal);
        from_environment.or_else(|| property(&properties, name).map(placeholder::Value::Text))
    };
    placeholder::resolve(&mut root, &lookup, &mut sink);
    let switches = Switches::take(&mut root, &mut sink);

    let (raw, unknown) = de::read::<raw::RawConfig>(&root, &mut sink);
    report_unknown(&unknown, &mut sink);
    let config = check::check(&raw, &check::Nodes::new(&root), &switches, env, &mut sink);
    let failed = sink.has_errors();
    let problems = sink.finish(file_name, text, &places);
    if failed { Err(problems) } else { Ok(Loaded { config, notes: problems }) }
}

/// A property of the file itself, as Spring's placeholders may name one.
fn property(properties: &Node, name: &str) -> Option<String> {
    name.split('.').try_fold(properties, |node, key| node.get(key))?.scalar().map(str::to_owned)
}

/// Keys that nobody knows: our mistakes, Spring's that will come, and those of Spring's that have nothing to do with us.
fn report_unknown(unknown: &[de::Unknown], sink: &mut Sink) {
    let mut skipped = Vec::new();
    for unknown in unknown {
        let path: Vec<String> = unknown.path.iter().map(|key| key.to_ascii_lowercase()).collect();
        let path = path.join(".");
        let is_later = LATER_SETTINGS
            .iter()
            .any(|later| path == *later || path.strip_prefix(later).is_some_and(|rest| rest.starts_with('.')));
        if is_later {
            sink.mistake(
                unknown.origin.key(),
                format!("`{}` is not supported yet and has no effect", unknown.path.join(".")),
            )
            .help("remove it");
        } else if let Some(instead) = no_effect(&unknown.path).filter(|_| sink.is_spring) {
            let at = unknown.origin.key();
            sink.info(at, format!("`spring.data.{}` has no effect here", unknown.path.join("."))).help(instead);
        } else if let Some(instead) = upstreams::no_effect(&unknown.path).filter(|_| sink.is_spring) {
            let at = unknown.origin.key();
            sink.info(at, format!("`spring.cloud.{}` has no effect here", unknown.path.join("."))).help(instead);
        } else if sink.is_spring
            && closest(unknown.path.last().map_or("", String::as_str), unknown.fields.iter().copied()).is_none()
            && ["server", "management", "redis", "httpclient"].contains(&path.split('.').next().unwrap_or_default())
        {
            skipped.push((unknown.path.join("."), unknown.origin));
        } else {
            de::report_unknown(unknown, sink);
        }
    }
    unfold::report_skipped(&skipped, sink);
}
