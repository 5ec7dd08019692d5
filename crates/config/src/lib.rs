//! Configuration: YAML text to a checked [`Config`], with every problem at its line and column.
//!
//! The way of a file: `yaml` reads its text into nodes that remember their places, `unfold` brings Spring's shapes to
//! ours, `placeholder` resolves `${NAME}`, `de` fills the raw structs of `raw`, and `check` turns them into [`Config`].
//! Every step notes what is wrong and goes on, so that one run tells everything.

mod advice;
mod check;
pub(crate) mod concurrency_limiter;
mod de;
pub(crate) mod diagnostics;
mod filters;
#[cfg(test)]
mod generated;
pub(crate) mod key_resolvers;
mod migrate;
mod model;
mod pem;
mod predicates;
pub(crate) mod rate_limiter;
mod raw;
pub(crate) mod request_counter;
pub mod routes;
mod schema;
pub mod sections;
pub mod source;
mod spec;
pub mod spring;
#[cfg(test)]
mod tests;
mod yaml;

use std::collections::HashSet;
use std::io;
use std::path::{Path, PathBuf};

use thiserror::Error;

pub use crate::diagnostics::{Diagnostic, Report, Severity};
#[cfg(feature = "jwt")]
pub use crate::sections::jwt::model::{Jwt, KeySource};
pub use crate::sections::upstreams::{
    Balance, Dns, DnsQuery, Ejection, EndpointAddress, EndpointSource, HealthCheck, ListedEndpoint, Records, Statuses,
    Upstream,
};
pub use filters::{Argument, ArgumentDoc, ArgumentType, Arguments, Entry as FilterEntry, filters};
pub use migrate::{Migrated, migrate, migrate_file};
pub use model::*;
pub use predicates::{Entry as PredicateEntry, ShortcutType, predicates};
pub use schema::schema;

use crate::diagnostics::{Diagnostics, closest};
use crate::source::profiles::Profiles;
use crate::source::text::{Part, Text};
use crate::spring::names::LATER_SETTINGS;
use crate::spring::switches::Switches;
use yaml::Node;

/// A configuration that can be used, and what its author should know of it.
#[derive(Clone, Debug)]
pub struct Loaded {
    /// The configuration.
    pub config: Config,
    /// Warnings and infos.
    pub notes: Report,
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
    Invalid(Report),
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
    let text = Text::of(crate::source::text::read(path, &env)?);
    parse_text(text, &env, &mut |_| {}).map(|(loaded, _)| loaded).map_err(LoadError::Invalid)
}

/// Checks `text`, which problems call `file_name`, with placeholders, profiles and all that the environment overrides
/// from `env`.
///
/// # Errors
/// Every problem of the text, when at least one is an error.
pub fn parse(file_name: &str, text: &str, env: &dyn Fn(&str) -> Option<String>) -> Result<Loaded, Report> {
    parse_text(Text::of(vec![Part::new(file_name, text)]), env, &mut |_| {}).map(|(loaded, _)| loaded)
}

/// Checks `text`. `written` is shown the tree before its placeholders are resolved, and all properties of the file.
fn parse_text(
    text: Text,
    env: &dyn Fn(&str) -> Option<String>,
    written: &mut dyn FnMut((&Node, &Node)),
) -> Result<(Loaded, Remains), Report> {
    let mut diagnostics = Diagnostics::default();
    let (documents, mut places) = yaml::parse(&text.whole, &mut diagnostics);
    if diagnostics.has_errors() {
        return Err(diagnostics.finish(text, &places));
    }
    diagnostics.is_spring = crate::spring::normalize::is_spring(&documents);
    let documents = crate::spring::normalize::expand(documents, &mut places, &mut diagnostics);
    let profiles = Profiles::of(&documents, env);
    let whole = crate::spring::normalize::join(documents, &profiles, env, &mut diagnostics);
    let properties = whole.clone();
    let mut root = crate::spring::normalize::unfold(whole, &mut places, &mut diagnostics);
    crate::de::comma_lists::split(&mut root, &mut places);
    let mut groups = HashSet::new();
    crate::source::placeholder::groups(&root, &mut groups);
    let lookup = |name: &str| {
        let from_environment =
            crate::source::placeholder::in_environment(name, env).map(crate::source::placeholder::Value::Literal);
        let random = || crate::source::placeholder::random(name).map(crate::source::placeholder::Value::Literal);
        let property = || property(&properties, name).map(crate::source::placeholder::Value::Text);
        let group =
            || groups.contains(name).then(|| crate::source::placeholder::Value::Literal(format!("${{{name}}}")));
        from_environment.or_else(random).or_else(property).or_else(group)
    };
    written((&root, &properties));
    let literal = crate::source::environment::overlay(&mut root, env, &mut places, &mut diagnostics);
    crate::source::placeholder::resolve(&mut root, &lookup, &literal, &mut diagnostics);
    let switches = Switches::take(&mut root, &mut diagnostics);

    let (raw, unknown) = de::read::<raw::RawConfig>(&root, &mut diagnostics);
    report_unknown(&unknown, &root, &mut diagnostics);
    let config = check::check(&raw, &check::Nodes::new(&root), &switches, env, &mut diagnostics);
    let failed = diagnostics.has_errors();
    let idle = diagnostics.ineffective();
    let problems = diagnostics.finish(text, &places);
    let unknown = unknown.into_iter().map(|unknown| unknown.span).collect();
    if failed { Err(problems) } else { Ok((Loaded { config, notes: problems }, Remains { places, idle, unknown })) }
}

/// What is left of a text once it is read.
struct Remains {
    /// Its places.
    places: yaml::Places,
    /// What does nothing, and why.
    idle: Vec<(yaml::Span, String)>,
    /// Keys that nobody knows.
    unknown: Vec<yaml::Span>,
}

/// A property of the file itself, as Spring's placeholders may name one: `server.port`, `hosts[0]`.
fn property(properties: &Node, name: &str) -> Option<String> {
    crate::source::dotted::split(name)
        .iter()
        .try_fold(properties, |node, step| node.step(step))?
        .scalar()
        .map(str::to_owned)
}

/// Keys that nobody knows: our mistakes, Spring's that will come, and those of Spring's that have nothing to do with us.
fn report_unknown(unknown: &[de::Unknown], root: &Node, diagnostics: &mut Diagnostics) {
    let mut skipped = Vec::new();
    for unknown in unknown {
        let path: Vec<String> = unknown.path.iter().map(|key| key.to_ascii_lowercase()).collect();
        let path = path.join(".");
        let is_later = LATER_SETTINGS
            .iter()
            .any(|later| path == *later || path.strip_prefix(later).is_some_and(|rest| rest.starts_with('.')));
        if is_later {
            diagnostics
                .mistake(
                    unknown.span.key(),
                    format!("`{}` is not supported yet and has no effect", unknown.path.join(".")),
                )
                .help("remove it");
        } else if let Some(instead) =
            crate::sections::upstreams::no_effect(&unknown.path).filter(|_| diagnostics.is_spring)
        {
            let at = unknown.span.key();
            diagnostics.info(at, format!("`spring.cloud.{}` has no effect here", unknown.path.join("."))).help(instead);
        } else if diagnostics.is_spring && crate::spring::properties::explain(unknown, root, diagnostics) {
            continue;
        } else if diagnostics.is_spring
            && closest(unknown.path.last().map_or("", String::as_str), unknown.fields.iter().copied()).is_none()
            && ["server", "management", "redis", "httpclient"].contains(&path.split('.').next().unwrap_or_default())
        {
            skipped.push((unknown.path.join("."), unknown.span));
        } else {
            de::report_unknown(unknown, diagnostics);
        }
    }
    crate::spring::normalize::report_skipped(&skipped, diagnostics);
}
