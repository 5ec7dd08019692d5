//! The steps from text to [`Config`](crate::Config).

use std::collections::{BTreeMap, HashSet};
use std::path::PathBuf;

use crate::check::{self, CheckInput};
use crate::diagnostics::{Diagnostics, DocumentId, Report, SourceFile, SourceText, UnknownKey};
use crate::locator::{self, Locator, Services};
use crate::model::Config;
use crate::rate_limiter::args::rule_names;
use crate::raw_config::{self, RawConfig};
use crate::source::command_line::CommandLine;
use crate::source::files::LoadError;
use crate::source::imports;
use crate::source::placeholder::Unresolved;
use crate::spec::Shortcut;
use crate::spring::names::KnownNames;
use crate::spring::read::{OwnNames, Tree};
use crate::switches::Switches;
use crate::yaml::{NodeKind, Span, Spans};
use crate::{de, filters, predicates as predicate_table, schema};

/// A valid configuration and its warnings.
#[derive(Clone, Debug)]
pub struct Loaded {
    /// The configuration.
    pub config: Config,
    /// Warnings and notes.
    pub notes: Report,
}

/// Reads and checks the files at `paths` and those of their profiles beside them, later files over earlier ones, with
/// placeholders from the environment, over which `command_line` wins. Without a path, the files are those of
/// `spring.config.location`, a property of the command line or a variable of the environment.
///
/// # Errors
/// A file cannot be read as UTF-8 text, or has errors.
pub fn load(paths: &[PathBuf], command_line: &CommandLine) -> Result<Loaded, LoadError> {
    load_and_check(paths, command_line, &mut |_, _| {})
}

/// Check of a valid configuration, which adds its diagnostics to those of the files.
pub type FurtherCheck<'c> = &'c mut dyn FnMut(&Config, &mut Diagnostics);

/// As [`load`]. `further_check` is called with a valid configuration.
///
/// # Errors
/// As [`load`].
pub fn load_and_check(
    paths: &[PathBuf],
    command_line: &CommandLine,
    further_check: FurtherCheck<'_>,
) -> Result<Loaded, LoadError> {
    let env = command_line.environment();
    tollgate_bounded_file::together(|| {
        let text = read(paths, command_line)?;
        let hooks = Hooks { further_check: Some(further_check), ..Hooks::default() };
        let parsed = parse_with_services(text, &Services::new(), &env, hooks);
        parsed.map(|(loaded, _)| loaded).map_err(LoadError::Invalid)
    })
}

/// Returns the configuration of `locator` with a route for each of `services`. Names that are no service's are left out.
/// The file is not read again. `command_line` is that of [`load`].
///
/// # Errors
/// The routes cannot be used together with those of the file.
pub fn load_with_services(
    locator: &Locator,
    services: &Services,
    command_line: &CommandLine,
) -> Result<Loaded, Report> {
    let env = command_line.environment();
    let parse = || parse_with_services(locator.text(), services, &env, Hooks::default());
    tollgate_bounded_file::together(parse).map(|(loaded, _)| loaded)
}

/// Reads the files at `paths`, or those that `command_line` or the environment names, with the properties of `command_line`.
pub(crate) fn read(paths: &[PathBuf], command_line: &CommandLine) -> Result<SourceText, LoadError> {
    let text = imports::read(paths, &command_line.environment())?;
    Ok(SourceText { properties: command_line.properties.clone(), ..text })
}

/// Checks `text`, named `file_name` in diagnostics: properties if the name ends in `.properties`. Placeholders, profiles and overrides come from `env`.
///
/// # Errors
/// All diagnostics of the text, if at least one is an error.
pub fn parse(file_name: &str, text: &str, env: &dyn Fn(&str) -> Option<String>) -> Result<Loaded, Report> {
    let text = SourceText::from(SourceFile::new(file_name, text));
    parse_with_services(text, &Services::new(), env, Hooks::default()).map(|(loaded, _)| loaded)
}

/// Facts about a configuration that `tollgate migrate` needs besides the configuration.
pub(crate) struct MigrationFacts {
    /// Settings without effect, and the reason of each.
    pub(crate) ineffective: BTreeMap<NodeArgument, String>,
    /// Numbers of the nodes of unknown keys.
    pub(crate) unknown: HashSet<u32>,
}

/// Number of a node, and of its argument; 0 for the whole node.
pub(crate) type NodeArgument = (u32, u8);

/// Functions that are called while a text is read.
#[derive(Default)]
pub(crate) struct Hooks<'h> {
    /// Takes the tree before its placeholders are resolved.
    pub(crate) inspect: Option<&'h mut dyn FnMut(&Tree)>,
    /// Checks a valid configuration further.
    pub(crate) further_check: Option<FurtherCheck<'h>>,
}

/// Checks `text`. If placeholders lack values, it is checked again with examples of them, for all other parts that are
/// missing: one overlay has all of them. The `hooks` see `text` as it is.
pub(crate) fn parse_with_services(
    text: SourceText,
    services: &Services,
    env: &dyn Fn(&str) -> Option<String>,
    hooks: Hooks<'_>,
) -> Result<(Loaded, MigrationFacts), Report> {
    let mut filled = text.clone();
    let mut report = match parse_once(text, services, env, hooks) {
        Err(report) if report.lacks_properties() => report,
        // Errors of the locator's routes are found before a registry names a service.
        Ok(read) if services.is_empty() && read.0.config.locator.is_some() => {
            return parse_once(filled, &locator::example(), env, Hooks::default()).map(|_| read);
        }
        result => return result,
    };
    let file = filled.files.len();
    filled.files.push(SourceFile::new("overlay.yaml", &report.overlay(&[], None).unwrap_or_default()));
    if !filled.documents.is_empty() {
        filled.documents.push(DocumentId { file, number: 0 });
    }
    match parse_once(filled, services, env, Hooks::default()) {
        Ok((loaded, _)) => report.add_missing(&loaded.notes),
        Err(next) => report.add_missing(&next),
    }
    Err(report)
}

fn parse_once(
    text: SourceText,
    services: &Services,
    env: &dyn Fn(&str) -> Option<String>,
    hooks: Hooks<'_>,
) -> Result<(Loaded, MigrationFacts), Report> {
    tollgate_java_regex::together(|| parse_tree(text, services, env, hooks))
}

fn parse_tree(
    mut text: SourceText,
    services: &Services,
    env: &dyn Fn(&str) -> Option<String>,
    hooks: Hooks<'_>,
) -> Result<(Loaded, MigrationFacts), Report> {
    let mut diagnostics = Diagnostics::default();
    diagnostics.has_acceptances = text.has_acceptances();
    diagnostics.is_word = Some(schema::is_word);
    let arguments = argument_names();
    let own_names = OwnNames { sections: raw_config::sections(), is_filter: &is_filter, arguments: &arguments };
    let Some(mut tree) = Tree::read(&mut text, &own_names, env, &mut diagnostics) else {
        return Err(diagnostics.finish(text));
    };
    if let Some(inspect) = hooks.inspect {
        inspect(&tree);
    }
    let unresolved = tree.resolve(&own_names, env, &mut diagnostics);
    let routes = tree.root.step("routes").map(|routes| &routes.kind);
    let means_no_routes = matches!(routes, Some(NodeKind::Seq(list)) if list.is_empty());
    let located = locator::add_routes(&mut tree.root, services, &mut diagnostics);
    // Those of a locator are meant to come.
    let means_no_routes = means_no_routes && located.is_none();
    tree.translate(&mut diagnostics);
    let names = KnownNames::new(predicate_table::names().collect(), filters::names());
    let switches = Switches::take(&mut tree.root, &names, &mut diagnostics);

    let (raw, unknown) = de::read::<RawConfig>(&tree.root, &mut diagnostics);
    tree.report_unknown(&unknown, &mut diagnostics);
    let (root, properties) = (&tree.root, &tree.properties);
    let input = CheckInput { root, properties, unresolved: &unresolved, switches: &switches, means_no_routes };
    let mut config = check::check(raw, &input, env, &mut diagnostics);
    // The services of a file without registries are known.
    config.locator = located.filter(|_| !config.registries.is_empty()).map(|metadata| Locator::new(&text, metadata));
    let ineffective = diagnostics.ineffective();
    report_unresolved(unresolved, (&unknown, &ineffective), &mut diagnostics);
    diagnostics.name_missing(&tree.properties);
    if let Some(further_check) = hooks.further_check.filter(|_| !diagnostics.has_errors()) {
        further_check(&config, &mut diagnostics);
    }
    let notes = diagnostics.finish(text);
    let failed = notes.has_errors();
    let unknown = unknown.into_iter().map(|unknown| unknown.span);
    let unknown = unknown.filter(|span| span.argument == 0).map(|span| span.node).collect();
    // Of several reasons, the first one counts.
    let ineffective = ineffective.into_iter().rev().map(|(at, why)| ((at.node, at.argument), why)).collect();
    if failed { Err(notes) } else { Ok((Loaded { config, notes }, MigrationFacts { ineffective, unknown })) }
}

/// Reports placeholders without a value, unless their keys are unknown or without effect.
fn report_unresolved(
    unresolved: Vec<Unresolved>,
    (unknown, ineffective): (&[UnknownKey], &[(Span, String)]),
    diagnostics: &mut Diagnostics,
) {
    let unused = unknown.iter().map(|unknown| unknown.span).chain(ineffective.iter().map(|(span, _)| *span));
    let unused = Spans::of(unused);
    for value in unresolved {
        if !unused.contain(value.at) {
            value.report(diagnostics);
        }
    }
}

/// Returns true if the gateway has a filter `name`.
fn is_filter(name: &str) -> bool {
    filters::filters().any(|filter| filter.name == name)
}

/// Returns the names of the arguments of predicates and filters.
fn argument_names() -> Vec<&'static str> {
    let mut names: Vec<&str> = PREFIXED.iter().chain(rule_names()).copied().collect();
    names
        .extend(predicate_table::predicates().iter().flat_map(|entry| entry.args.iter().map(|argument| argument.name)));
    for filter in filters::filters() {
        names.extend((filter.args.names)());
        if let Shortcut::Some(positions) = filter.args.shortcut {
            names.extend(positions);
        }
    }
    names.sort_unstable();
    names.dedup();
    names
}

/// Arguments of `RequestRateLimiter` under Spring's prefix.
const PREFIXED: [&str; 3] =
    ["redis-rate-limiter.replenishRate", "redis-rate-limiter.burstCapacity", "redis-rate-limiter.requestedTokens"];
