//! The steps from texts to a tree of our own form.

use std::cell::Cell;
use std::collections::HashSet;

use crate::Form;
use crate::detect;
use crate::normalize::{self, Normalized};
use crate::source::Env;
use crate::source::documents::{self, Document};
use crate::source::dotted::Properties;
use crate::source::expansion::{Budget, Lookup, Value};
use crate::source::merge::Replaced;
use crate::source::placeholder::{self, Resolution};
use crate::source::{command_line, computed, environment, numbers};
use crate::translate::{self, Explicit};
use crate::{comma_lists, misspelled, properties, stand_ins};
use tollgate_document::diagnostics::{Diagnostics, Format, Severity, SourceText, UnknownKey};
use tollgate_document::yaml::key::canonical;
use tollgate_document::yaml::{NameIndex, Node};

/// Names of our own form.
pub struct OwnNames<'n> {
    /// Sections at the top level.
    pub sections: &'n [&'n str],
    /// Returns true for the name of a filter.
    pub is_filter: &'n dyn Fn(&str) -> bool,
    /// Arguments of predicates and filters.
    pub arguments: &'n [&'static str],
}

/// A configuration as a tree of our own form.
#[derive(Clone)]
pub struct Tree {
    /// Sections of our own form.
    pub root: Node,
    /// All properties of the files, as their authors named them.
    pub properties: Node,
    /// Form of the files.
    pub form: Form,
    /// True if the routes stand under the root that Spring Cloud Gateway reads up to 4.3. There a `/` at the end of a
    /// path is ignored unless `matchTrailingSlash` is false.
    ignores_trailing_slash: bool,
    /// First file whose values the environment cannot override.
    first_final: Option<usize>,
}

impl Tree {
    /// Reads `text`. Placeholders stay. `None` if the files cannot be parsed.
    pub fn read(
        text: &mut SourceText,
        names: &OwnNames<'_>,
        env: Env<'_>,
        diagnostics: &mut Diagnostics,
    ) -> Option<Self> {
        let mut replaced = Replaced::default();
        let mut documents = documents::read(text, &mut replaced, diagnostics);
        let number_in_files = documents.len();
        let form = add_properties(&mut documents, text, names.sections, env, diagnostics);
        let first_final = documents.get(number_in_files).map(|document| document.id.file);
        if diagnostics.has_errors() {
            return None;
        }
        diagnostics.mistakes = match form {
            Form::Own => Severity::Error,
            Form::Spring => Severity::Warning,
        };
        for document in documents.iter_mut().filter(|_| form == Form::Spring) {
            let file = text.files.get(document.id.file).filter(|file| file.format == Format::Yaml);
            file.into_iter().for_each(|file| numbers::resolve(&mut document.node, &file.text));
        }
        let documents = documents::expand(documents, form, diagnostics);
        let profiles = documents::profiles(&documents, env);
        let properties = documents::join(documents, text, &profiles, (form, env), &mut replaced, diagnostics);
        let Normalized { mut root, ignores_trailing_slash } =
            normalize::normalize(properties.clone(), form, names.sections, replaced, diagnostics);
        comma_lists::split(&mut root);
        stand_ins::apply(&mut root, form, names.is_filter, diagnostics);
        Some(Self { root, properties, form, ignores_trailing_slash, first_final })
    }

    /// Applies the environment: its overrides of all but the final files, then the placeholders in all other values. A
    /// placeholder is looked up in the environment, among the random values, the properties of the file and of the machine,
    /// and the groups of its regular expressions. Returns the values whose placeholders have no value.
    pub fn resolve(
        &mut self,
        names: &OwnNames<'_>,
        env: Env<'_>,
        diagnostics: &mut Diagnostics,
    ) -> Vec<placeholder::Unresolved> {
        let Self { root, properties, form, first_final, .. } = self;
        let mut groups = HashSet::new();
        placeholder::groups(root, &mut groups);
        let (has_lookups, properties) = (Cell::new(false), Properties::of(properties));
        let lookup = |name: &str| {
            has_lookups.set(true);
            let from_environment = placeholder::in_environment(name, env).map(Value::Literal);
            let random = || computed::random(name).map(Value::Literal);
            let property = || properties.text(name).map(Value::Text);
            let group = || groups.contains(name).then(|| Value::Literal(format!("${{{name}}}")));
            let of_host = || computed::of_machine(name).map(Value::Literal);
            from_environment.or_else(random).or_else(property).or_else(of_host).or_else(group)
        };
        let literal =
            environment::overlay(root, env, (names.sections, names.arguments), (*form, *first_final), diagnostics);
        let budget = Budget::default();
        let lookup = Lookup::new(&lookup, &budget);
        let mut resolution = Resolution::new(*form, &lookup, &literal, &groups);
        resolution.resolve(root, diagnostics);
        let unresolved = resolution.unresolved;
        if has_lookups.get() || !literal.is_empty() {
            diagnostics.mask_resolved(root, lookup.replaced());
        }
        unresolved
    }

    /// Makes Spring's defaults explicit. Returns the keys that were added.
    pub fn translate(&mut self, diagnostics: &mut Diagnostics) -> Explicit {
        match self.form {
            Form::Own => Explicit::default(),
            Form::Spring => translate::translate(&mut self.root, self.ignores_trailing_slash, diagnostics),
        }
    }

    /// Reports unknown keys: mistakes, Spring properties with a replacement here, and Spring properties that are skipped.
    pub fn report_unknown(&self, unknown: &[UnknownKey], diagnostics: &mut Diagnostics) {
        let (mut skipped, mut index) = (Vec::new(), NameIndex::exact());
        for key in unknown {
            let path: Vec<&str> = key.path.iter().map(String::as_str).collect();
            let name = path.last().copied().unwrap_or_default();
            // In our own form, a name like one of ours is a misspelling of it.
            let is_misspelled = self.form == Form::Own
                && !properties::names(&path, path.len())
                && diagnostics.closest(name, key.fields.iter().copied()).is_some();
            // Anchors that other settings repeat, as in files of Docker Compose.
            let is_extension = self.form == Form::Own && path.len() == 1 && name.starts_with("x-");
            if is_extension && !is_misspelled {
                continue;
            }
            if !is_misspelled && properties::explain(key, &self.root, &mut index, diagnostics) {
                continue;
            }
            let meant = match (self.form, key.path.as_slice()) {
                (Form::Own, [name]) => misspelled::meaning(name),
                (Form::Spring, _) if properties::is_springs(key, diagnostics) => {
                    skipped.push((key.path.join("."), key.span));
                    continue;
                }
                (Form::Spring, [name]) if diagnostics.closest(&canonical(name), ["webflux"]).is_some() => {
                    Some("spring.cloud.gateway.server.webflux")
                }
                _ => None,
            };
            match (meant, key.path.as_slice()) {
                (Some(meant), [name]) => {
                    let help = format!("did you mean `{meant}`?");
                    diagnostics.mistake(key.span.key(), format!("unknown key `{name}`")).help(help);
                }
                _ => diagnostics.unknown_key(key),
            }
        }
        normalize::report_skipped(&skipped, diagnostics);
    }
}

/// Adds the properties of `SPRING_APPLICATION_JSON` and of the command line, and returns the form of the whole.
fn add_properties(
    documents: &mut Vec<Document>,
    text: &mut SourceText,
    sections: &[&str],
    env: Env<'_>,
    diagnostics: &mut Diagnostics,
) -> Form {
    let of_files = detect::of_files(documents.iter().map(|document| &document.node), sections);
    let json = match of_files {
        Some(Form::Own) => Vec::new(),
        Some(Form::Spring) | None => documents::read_json(text, env, diagnostics),
    };
    let form = of_files.unwrap_or_else(|| {
        let names = text.properties.iter().map(|(name, _)| name.as_str());
        detect::of_properties(names, json.iter().map(|document| &document.node), env)
    });
    match form {
        Form::Own => detect::report_ignored(env, diagnostics),
        Form::Spring => {
            detect::report_mixed(documents, text, sections, diagnostics);
            documents.extend(json);
        }
    }
    command_line::add(documents, text, form == Form::Own, diagnostics);
    form
}
