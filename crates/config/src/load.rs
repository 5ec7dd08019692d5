//! The steps from text to [`Config`](crate::Config).

use std::collections::HashSet;
use std::path::PathBuf;

use crate::check::{self, CheckInput};
use crate::de;
use crate::de::nodes::Nodes;
use crate::diagnostics::{Diagnostics, DocumentId, Report, SourceFile, SourceText, UnknownKey, closest};
use crate::locator::{self, Locator, Services};
use crate::model::Config;
use crate::raw::{self, RawConfig};
use crate::sections::upstreams;
use crate::source::command_line::{self, CommandLine};
use crate::source::documents::{self, Document};
use crate::source::dotted::property;
use crate::source::files::LoadError;
use crate::source::placeholder::{self, Unresolved as UnresolvedValue, Value};
use crate::source::{environment, host, imports, random};
use crate::spring::form::{self, Form};
use crate::spring::names::KnownNames;
use crate::spring::normalize::Normalized;
use crate::spring::{comma_lists, misspelled, normalize, properties, stand_ins, translate};
use crate::switches::Switches;
use crate::yaml::key::canonical;
use crate::yaml::{Node, Span};
use crate::{argument_names, filters, predicates as predicate_table};

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
    let env = command_line.environment();
    let text = read(paths, command_line)?;
    parse_text(text, &env, &mut |_| {}).map(|(loaded, _)| loaded).map_err(LoadError::Invalid)
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
    parse_with_services(locator.text(), services, &env, &mut |_| {}).map(|(loaded, _)| loaded)
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
    parse_text(SourceText::from(SourceFile::new(file_name, text)), env, &mut |_| {}).map(|(loaded, _)| loaded)
}

/// The tree of a file before its placeholders are resolved, for `tollgate migrate`.
#[derive(Clone, Copy)]
pub(crate) struct Unresolved<'n> {
    /// Sections of the gateway's own form.
    pub(crate) root: &'n Node,
    /// All properties of the file, as its author named them.
    pub(crate) properties: &'n Node,
}

/// Facts about a configuration that `tollgate migrate` needs besides the configuration.
pub(crate) struct MigrationFacts {
    /// Settings without effect, and the reason of each.
    pub(crate) ineffective: Vec<(Span, String)>,
    /// Unknown keys.
    pub(crate) unknown: Vec<Span>,
    /// See [`Normalized`].
    pub(crate) ignores_trailing_slash: bool,
    /// Form of the file.
    pub(crate) form: Form,
}

/// Checks `text`. `inspect` is called with the tree before its placeholders are resolved.
pub(crate) fn parse_text(
    text: SourceText,
    env: &dyn Fn(&str) -> Option<String>,
    inspect: &mut dyn FnMut(Unresolved<'_>),
) -> Result<(Loaded, MigrationFacts), Report> {
    parse_with_services(text, &Services::new(), env, inspect)
}

/// Checks `text`. If placeholders lack values, it is checked again with examples of them, for all other parts that are
/// missing: one overlay has all of them.
fn parse_with_services(
    text: SourceText,
    services: &Services,
    env: &dyn Fn(&str) -> Option<String>,
    inspect: &mut dyn FnMut(Unresolved<'_>),
) -> Result<(Loaded, MigrationFacts), Report> {
    let mut filled = text.clone();
    let mut report = match parse_once(text, services, env, inspect) {
        Err(report) if report.lacks_properties() => report,
        // Errors of the locator's routes are found before a registry names a service.
        Ok(read) if services.is_empty() && read.0.config.locator.is_some() => {
            return parse_once(filled, &locator::example(), env, &mut |_| {}).map(|_| read);
        }
        result => return result,
    };
    let file = filled.files.len();
    filled.files.push(SourceFile::new("overlay.yaml", &report.overlay(&[], None).unwrap_or_default()));
    if !filled.documents.is_empty() {
        filled.documents.push(DocumentId { file, number: 0 });
    }
    match parse_once(filled, services, env, &mut |_| {}) {
        Ok((loaded, _)) => report.add_missing(&loaded.notes),
        Err(next) => report.add_missing(&next),
    }
    Err(report)
}

fn parse_once(
    mut text: SourceText,
    services: &Services,
    env: &dyn Fn(&str) -> Option<String>,
    inspect: &mut dyn FnMut(Unresolved<'_>),
) -> Result<(Loaded, MigrationFacts), Report> {
    let mut diagnostics = Diagnostics::default();
    diagnostics.has_acceptances = text.has_acceptances();
    let mut documents = documents::read(&text, &mut diagnostics);
    let number_in_files = documents.len();
    let form = add_properties(&mut documents, &mut text, env, &mut diagnostics);
    let first_final = documents.get(number_in_files).map(|document| document.id.file);
    if diagnostics.has_errors() {
        return Err(diagnostics.finish(text));
    }
    diagnostics.is_spring = form == Form::Spring;
    diagnostics.has_other_readers = form == Form::Spring;
    let documents = documents::expand(documents, &mut diagnostics);
    let profiles = documents::profiles(&documents, env);
    let properties = documents::join(documents, &text.imports, &profiles, env, &mut diagnostics);
    let Normalized { mut root, ignores_trailing_slash } =
        normalize::normalize(properties.clone(), raw::sections(), &mut diagnostics);
    comma_lists::split(&mut root);
    stand_ins::apply(&mut root, &is_filter, &mut diagnostics);
    inspect(Unresolved { root: &root, properties: &properties });
    let unresolved = resolve(&mut root, (&properties, first_final), env, &mut diagnostics);
    let names = KnownNames::new(predicate_table::names().collect(), filters::names());
    let located = locator::add_routes(&mut root, services, &mut diagnostics);
    if form == Form::Spring {
        translate::translate(&mut root, &mut diagnostics);
    }
    let switches = Switches::take(&mut root, &names, &mut diagnostics);

    let (raw, unknown) = de::read::<RawConfig>(&root, &mut diagnostics);
    report_unknown(&unknown, &root, &mut diagnostics);
    let nodes = Nodes::new(&root);
    let properties = &properties;
    let input = CheckInput { nodes: &nodes, properties, switches: &switches, ignores_trailing_slash };
    let mut config = check::check(&raw, &input, env, &mut diagnostics);
    // The services of a file without registries are known.
    config.locator = located.filter(|_| !config.registries.is_empty()).map(|metadata| Locator::new(&text, metadata));
    let ineffective = diagnostics.ineffective();
    report_unresolved(unresolved, (&unknown, &ineffective), &mut diagnostics);
    let notes = diagnostics.finish(text);
    let failed = notes.has_errors();
    let unknown = unknown.into_iter().map(|unknown| unknown.span).collect();
    if failed {
        Err(notes)
    } else {
        Ok((Loaded { config, notes }, MigrationFacts { ineffective, unknown, ignores_trailing_slash, form }))
    }
}

/// Adds the properties of `SPRING_APPLICATION_JSON` and of the command line, and returns the form of the whole.
fn add_properties(
    documents: &mut Vec<Document>,
    text: &mut SourceText,
    env: &dyn Fn(&str) -> Option<String>,
    diagnostics: &mut Diagnostics,
) -> Form {
    let of_files = form::of_files(documents.iter().map(|document| &document.node), raw::sections());
    let json = match of_files {
        Some(Form::Own) => Vec::new(),
        Some(Form::Spring) | None => documents::read_json(text, env, diagnostics),
    };
    let form = of_files.unwrap_or_else(|| {
        let names = text.properties.iter().map(|(name, _)| name.as_str());
        form::of_properties(names, json.iter().map(|document| &document.node), env)
    });
    match form {
        Form::Own => form::report_ignored(env, diagnostics),
        Form::Spring => documents.extend(json),
    }
    command_line::add(documents, text, form == Form::Own, diagnostics);
    form
}

/// Applies the environment: its overrides of all but the files from `first_final` on, then the placeholders in all other
/// values. A placeholder is looked up in the environment, among the random values, the properties of the file and of the
/// machine, and the groups of its regular expressions.
fn resolve(
    root: &mut Node,
    (properties, first_final): (&Node, Option<usize>),
    env: &dyn Fn(&str) -> Option<String>,
    diagnostics: &mut Diagnostics,
) -> Vec<UnresolvedValue> {
    let mut groups = HashSet::new();
    placeholder::groups(root, &mut groups);
    let lookup = |name: &str| {
        let from_environment = placeholder::in_environment(name, env).map(Value::Literal);
        let random = || random::value(name).map(Value::Literal);
        let property = || property(properties, name).map(Value::Text);
        let group = || groups.contains(name).then(|| Value::Literal(format!("${{{name}}}")));
        let of_host = || host::value(name).map(Value::Literal);
        from_environment.or_else(random).or_else(property).or_else(of_host).or_else(group)
    };
    let literal = environment::overlay(root, env, &argument_names::all(), first_final, diagnostics);
    let mut unresolved = Vec::new();
    placeholder::resolve(root, &lookup, &literal, &mut unresolved, diagnostics);
    unresolved
}

/// Reports placeholders without a value, unless their keys are unknown or without effect.
fn report_unresolved(
    unresolved: Vec<UnresolvedValue>,
    (unknown, ineffective): (&[UnknownKey], &[(Span, String)]),
    diagnostics: &mut Diagnostics,
) {
    let unused = unknown.iter().map(|unknown| unknown.span).chain(ineffective.iter().map(|(span, _)| *span));
    let unused: Vec<Span> = unused.collect();
    for value in unresolved {
        if !unused.iter().any(|above| above.contains(value.at)) {
            value.report(diagnostics);
        }
    }
}

/// Returns true if the gateway has a filter `name`.
fn is_filter(name: &str) -> bool {
    filters::filters().any(|filter| filter.name == name)
}

/// Reports unknown keys: mistakes, Spring properties with a replacement here, and Spring properties that are skipped.
fn report_unknown(unknown: &[UnknownKey], root: &Node, diagnostics: &mut Diagnostics) {
    let mut skipped = Vec::new();
    for unknown in unknown {
        if let [name] = unknown.path.as_slice()
            && let Some(meant) = misspelled::meaning(name).filter(|_| !diagnostics.is_spring)
        {
            let help = format!("did you mean `{meant}`?");
            diagnostics.mistake(unknown.span.key(), format!("unknown key `{name}`")).help(help);
        } else if !diagnostics.is_spring {
            de::report_unknown(unknown, diagnostics);
        } else if let Some(instead) = upstreams::spring::no_effect(&unknown.path) {
            diagnostics
                .note(unknown.span.key(), format!("`spring.cloud.{}` has no effect here", unknown.path.join(".")))
                .ineffective()
                .help(instead);
        } else if properties::explain(unknown, root, diagnostics) {
            continue;
        } else if properties::is_springs(unknown) {
            skipped.push((unknown.path.join("."), unknown.span));
        } else if let [name] = unknown.path.as_slice()
            && closest(&canonical(name), ["webflux"]).is_some()
        {
            diagnostics
                .mistake(unknown.span.key(), format!("unknown key `{name}`"))
                .help("did you mean `spring.cloud.gateway.server.webflux`?");
        } else {
            de::report_unknown(unknown, diagnostics);
        }
    }
    normalize::report_skipped(&skipped, diagnostics);
}
