//! Configuration: YAML text to a checked [`Config`], with every problem at its line and column.
//!
//! The way of a file: `yaml` reads its text into nodes that remember their places, `unfold` brings Spring's shapes to
//! ours, `placeholder` resolves `${NAME}`, `de` fills the raw structs of `raw`, and `check` turns them into [`Config`].
//! Every step notes what is wrong and goes on, so that one run tells everything.

mod access;
mod advice;
mod check;
mod check_actuator;
mod check_caches;
mod check_concurrency;
mod check_cors;
mod check_edits;
mod check_forwarded;
#[cfg_attr(not(feature = "jwt"), path = "check_jwt_absent.rs")]
mod check_jwt;
mod check_key_resolver;
mod check_redis;
mod check_request_counter;
mod check_routes;
mod check_server;
mod check_target;
mod check_trusted;
mod comma_lists;
mod de;
mod definition;
mod dotted;
mod environment;
mod filters;
mod forward;
#[cfg(test)]
mod generated;
mod httpclient;
#[cfg(feature = "jwt")]
mod jwt;
mod limiter;
mod locate;
mod migrate;
mod model;
mod names;
mod pem;
mod placeholder;
mod predicates;
mod problem;
mod profiles;
mod properties;
mod raw;
mod raw_actuator;
mod raw_filters;
mod raw_forwarded;
mod raw_jwt;
mod raw_metrics;
mod raw_predicates;
mod raw_route;
mod raw_server;
mod raw_tls;
mod resilience;
mod schema;
mod server_tls;
mod spot;
mod status;
mod switches;
#[cfg(test)]
mod tests;
mod text;
mod unfold;
mod units;
mod upstreams;
mod values;
mod yaml;

use std::collections::HashSet;
use std::io;
use std::path::{Path, PathBuf};

use thiserror::Error;

pub use filters::{Argument, Entry as FilterEntry, filters};
#[cfg(feature = "jwt")]
pub use jwt::{Jwt, KeySource};
pub use migrate::{Migrated, migrate, migrate_file};
pub use model::*;
pub use predicates::{Entry as PredicateEntry, Takes, predicates};
pub use problem::{Problem, Problems, Severity};
pub use schema::schema;
pub use upstreams::{
    Balance, Dns, DnsQuery, Ejection, EndpointAddress, EndpointSource, HealthCheck, ListedEndpoint, Records, Statuses,
    Upstream,
};

use names::LATER_SETTINGS;
use problem::{Sink, closest};
use profiles::Profiles;
use switches::Switches;
use text::{Part, Text};
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

/// Reads and checks the file at `path` and those of its profiles beside it, with placeholders from the environment.
///
/// # Errors
/// A file cannot be read as UTF-8 text, or has errors.
pub fn load(path: &Path) -> Result<Loaded, LoadError> {
    load_for(path, None)
}

/// The same with `profiles` active, names with commas between, in place of those of the environment.
///
/// # Errors
/// A file cannot be read as UTF-8 text, or has errors.
pub fn load_for(path: &Path, profiles: Option<&str>) -> Result<Loaded, LoadError> {
    let env = |name: &str| match profiles {
        Some(profiles) if name == "SPRING_PROFILES_ACTIVE" => Some(profiles.to_owned()),
        _ => std::env::var(name).ok(),
    };
    let text = Text::of(text::read(path, &env)?);
    parse_text(text, &env, &mut |_| {}).map(|(loaded, _)| loaded).map_err(LoadError::Invalid)
}

/// Checks `text`, which problems call `file_name`, with placeholders, profiles and all that the environment overrides
/// from `env`.
///
/// # Errors
/// Every problem of the text, when at least one is an error.
pub fn parse(file_name: &str, text: &str, env: &dyn Fn(&str) -> Option<String>) -> Result<Loaded, Problems> {
    parse_text(Text::of(vec![Part::new(file_name, text)]), env, &mut |_| {}).map(|(loaded, _)| loaded)
}

/// Checks `text`. `written` is shown the tree before its placeholders are resolved, and all properties of the file.
fn parse_text(
    text: Text,
    env: &dyn Fn(&str) -> Option<String>,
    written: &mut dyn FnMut((&Node, &Node)),
) -> Result<(Loaded, Remains), Problems> {
    let mut sink = Sink::default();
    let (documents, mut places) = yaml::parse(&text.whole, &mut sink);
    if sink.has_errors() {
        return Err(sink.finish(text, &places));
    }
    sink.is_spring = unfold::is_spring(&documents);
    let documents = unfold::expand(documents, &mut places, &mut sink);
    let profiles = Profiles::of(&documents, env);
    let whole = unfold::join(documents, &profiles, env, &mut sink);
    let properties = whole.clone();
    let mut root = unfold::unfold(whole, &mut places, &mut sink);
    comma_lists::split(&mut root, &mut places);
    let mut groups = HashSet::new();
    placeholder::groups(&root, &mut groups);
    let lookup = |name: &str| {
        let from_environment = placeholder::in_environment(name, env).map(placeholder::Value::Literal);
        let random = || placeholder::random(name).map(placeholder::Value::Literal);
        let property = || property(&properties, name).map(placeholder::Value::Text);
        let group = || groups.contains(name).then(|| placeholder::Value::Literal(format!("${{{name}}}")));
        from_environment.or_else(random).or_else(property).or_else(group)
    };
    written((&root, &properties));
    let literal = environment::overlay(&mut root, env, &mut places, &mut sink);
    placeholder::resolve(&mut root, &lookup, &literal, &mut sink);
    let switches = Switches::take(&mut root, &mut sink);

    let (raw, unknown) = de::read::<raw::RawConfig>(&root, &mut sink);
    report_unknown(&unknown, &root, &mut sink);
    let config = check::check(&raw, &check::Nodes::new(&root), &switches, env, &mut sink);
    let failed = sink.has_errors();
    let idle = sink.idle();
    let problems = sink.finish(text, &places);
    let unknown = unknown.into_iter().map(|unknown| unknown.origin).collect();
    if failed { Err(problems) } else { Ok((Loaded { config, notes: problems }, Remains { places, idle, unknown })) }
}

/// What is left of a text once it is read.
struct Remains {
    /// Its places.
    places: yaml::Places,
    /// What does nothing, and why.
    idle: Vec<(yaml::Origin, String)>,
    /// Keys that nobody knows.
    unknown: Vec<yaml::Origin>,
}

/// A property of the file itself, as Spring's placeholders may name one: `server.port`, `hosts[0]`.
fn property(properties: &Node, name: &str) -> Option<String> {
    dotted::split(name).iter().try_fold(properties, |node, step| node.step(step))?.scalar().map(str::to_owned)
}

/// Keys that nobody knows: our mistakes, Spring's that will come, and those of Spring's that have nothing to do with us.
fn report_unknown(unknown: &[de::Unknown], root: &Node, sink: &mut Sink) {
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
        } else if let Some(instead) = upstreams::no_effect(&unknown.path).filter(|_| sink.is_spring) {
            let at = unknown.origin.key();
            sink.info(at, format!("`spring.cloud.{}` has no effect here", unknown.path.join("."))).help(instead);
        } else if sink.is_spring && properties::explain(unknown, root, sink) {
            continue;
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
