//! Rewrites a Spring `application.yml` in our own form: `tollgate migrate`.
//!
//! The normalized tree of the file, placeholders unresolved, is rewritten node by node and printed. Implicit settings of
//! Spring become explicit ([`routes`]); settings without effect are dropped, with the reason as a comment.

mod comments;
mod placeholders;
mod print;
mod routes;

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use tollgate_limiter::store::redis::{Authorities, ClientCertificate};

use self::comments::Comments;
use self::print::{Item, Value};
use crate::de::canonical;
use crate::diagnostics::{Diagnostics, Report, Severity, SourceFile, SourceText};
use crate::load::{Hooks, Loaded, MigrationFacts, parse_with_services, read};
use crate::locator::Services;
use crate::model::Config;
use crate::source::command_line::CommandLine;
use crate::source::files::LoadError;
use crate::spring::read::Tree;
use crate::spring::translate::{Explicit, with_tls};
use crate::yaml::{Node, NodeKind, Span};

/// Sections of registries. An empty one has an effect: it enables the registry.
const REGISTRIES: [&str; 4] = ["consul", "eureka", "kubernetes", "nacos"];

/// Further sections in which empty maps have no effect and are left out.
const NAMES_NOTHING: [&str; 2] = ["discovery", "loadbalancer"];

/// Returns the value of a variable.
type Environment<'e> = &'e dyn Fn(&str) -> Option<String>;

/// A migrated file.
#[derive(Clone, Debug)]
pub struct Migrated {
    /// The new file.
    pub yaml: String,
    /// Warnings and notes about the old file.
    pub notes: Report,
    /// Diagnostics of the new file.
    pub new_notes: Report,
}

/// Returns `text` in our own form. Diagnostics name it `file_name`. Profiles are those that are active in `env`; placeholders
/// are kept.
///
/// # Errors
/// As [`parse`](crate::parse): a configuration with errors cannot be migrated.
pub fn migrate(file_name: &str, text: &str, env: &dyn Fn(&str) -> Option<String>) -> Result<Migrated, Report> {
    migrate_text(SourceText::from(SourceFile::new(file_name, text)), env, ("", env))
}

/// Returns the files at `paths` and those of their profiles beside them, as one file in our own form, which its diagnostics
/// name `new_name`. `command_line` is that of [`load`](crate::load); the new file is checked without it. Placeholders are kept.
///
/// # Errors
/// As [`load`](crate::load): a configuration with errors cannot be migrated.
pub fn migrate_files(paths: &[PathBuf], command_line: &CommandLine, new_name: &str) -> Result<Migrated, LoadError> {
    tollgate_bounded_file::together(|| {
        let text = read(paths, command_line)?;
        let new_env = |name: &str| std::env::var(name).ok();
        migrate_text(text, &command_line.environment(), (new_name, &new_env)).map_err(LoadError::Invalid)
    })
}

/// Returns `text` as a new file, which is checked as `new_name` and with `new_env`.
fn migrate_text(
    text: SourceText,
    env: Environment<'_>,
    (new_name, new_env): (&str, Environment<'_>),
) -> Result<Migrated, Report> {
    let mut written = None;
    let mut keep = |tree: &Tree| written = Some(tree.clone());
    let hooks = Hooks { inspect: Some(&mut keep), ..Hooks::default() };
    let (Loaded { config, notes }, facts) = parse_with_services(text.clone(), &Services::new(), env, hooks)?;
    let Some(mut tree) = written else { return Err(notes) };
    let explicit = tree.translate(&mut Diagnostics::default());
    let Tree { mut root, properties, .. } = tree;
    placeholders::inline_properties(&mut root, &properties);
    use_our_names(&mut root);
    let comments = Comments::of(&text, root.span);
    let default_filters = match root.get("default-filters").map(|node| &node.kind) {
        Some(NodeKind::Seq(filters)) => filters.len(),
        _ => 0,
    };
    let rewriting = Rewriting { facts: &facts, explicit, comments, config: &config, default_filters };
    let root = rewriting.root(root);
    let names: Vec<&str> = text.files.iter().map(|file| file.name.as_str()).collect();
    let mut yaml = head(&names, &notes);
    print::print(&root, &mut yaml);
    let (yaml, new_notes) = comments::accept(yaml, new_name, new_env);
    Ok(Migrated { yaml, notes, new_notes })
}

/// Returns the comment at the top: the source, and the diagnostics of `check`.
fn head(file_names: &[&str], notes: &Report) -> String {
    let mut head = format!("# Made by `tollgate migrate` from {}.\n", file_names.join(", "));
    let has_several_files = file_names.len() > 1;
    if !notes.is_empty() {
        let files = if has_several_files { "these files" } else { "that file" };
        let _ = writeln!(head, "#\n# What `tollgate check` says of {files}:");
    }
    for note in notes.list() {
        let word = if note.severity == Severity::Warning { "warning: " } else { "" };
        let place = match (note.line, notes.file_name(note.file)) {
            (0, _) => String::new(),
            (line, name) if has_several_files => format!("{name}:{line}: "),
            (line, _) => format!("line {line}: "),
        };
        // Writing to a String cannot fail.
        let _ = writeln!(head, "# - {place}{word}{}", note.text());
    }
    head
}

/// State of a rewrite from nodes to printed items.
struct Rewriting<'r> {
    facts: &'r MigrationFacts,
    /// Keys that the translation has added.
    explicit: Explicit,
    comments: Comments,
    config: &'r Config,
    /// Number of default filters.
    default_filters: usize,
}

impl Rewriting<'_> {
    fn root(&self, root: Node) -> Item {
        let NodeKind::Map(entries) = root.kind else { return Item::plain(Value::Null) };
        let mut sections = Vec::with_capacity(entries.len());
        for (key, node) in entries {
            // The stand-ins are in the lists of filters.
            if self.ineffective(node.span).is_some() || key == "filter-beans" {
                continue;
            }
            let mut item = match key.as_str() {
                "routes" => self.routes(node),
                "default-filters" => self.filters(node, false),
                "redis" => self.redis(node),
                _ => self.item(node),
            };
            if NAMES_NOTHING.contains(&key.as_str()) || REGISTRIES.contains(&key.as_str()) {
                item.drop_empty_maps();
            }
            if item.is_gone() && REGISTRIES.contains(&key.as_str()) {
                // The section alone enables the registry.
                item.value = Value::Map(Vec::new());
            } else if item.is_gone() {
                if item.notes.is_empty() {
                    continue;
                }
                item.value = Value::Absent;
            }
            item.is_section = true;
            sections.push((key, item));
        }
        Item::plain(Value::Map(sections))
    }

    /// Copies a node without settings that have no effect.
    fn item(&self, node: Node) -> Item {
        let mut item = self.empty_item(node.span);
        item.value = match node.kind {
            NodeKind::Null => Value::Null,
            NodeKind::Scalar(text) => Value::Scalar(text),
            NodeKind::Seq(nodes) => Value::Seq(nodes.into_iter().map(|node| self.item(node)).collect()),
            NodeKind::Map(entries) => {
                let mut kept = Vec::with_capacity(entries.len());
                for (key, node) in entries {
                    match self.ineffective(node.span) {
                        None => kept.push((key, self.item(node))),
                        Some(why) => item.left_out(&key, &why),
                    }
                }
                Value::Map(kept)
            }
        };
        item
    }

    /// Returns an item without a value, with the author's comments.
    fn empty_item(&self, span: Span) -> Item {
        let mut item = Item::plain(Value::Null);
        item.notes.extend(self.comments.take(span));
        item.notes.extend(self.explicit.reason(span).map(str::to_owned));
        item
    }

    /// Returns the reason if the setting at `span` has no effect.
    fn ineffective(&self, span: Span) -> Option<String> {
        let reason = self.facts.ineffective.get(&(span.node, 0)).cloned();
        reason.or_else(|| self.facts.unknown.contains(&span.node).then(|| "has no meaning here".to_owned()))
    }

    /// Rewrites `redis`, with Spring's TLS bundle as files.
    fn redis(&self, node: Node) -> Item {
        let mut item = self.item(node);
        let Some(redis) = &self.config.redis else { return item };
        let Value::Map(entries) = &mut item.value else { return item };
        // Our own form needs both the scheme and `tls`.
        if let Some((_, Item { value: Value::Scalar(url), .. })) = entries.iter_mut().find(|(key, _)| key == "url")
            && redis.settings.tls.is_some()
        {
            *url = with_tls(url);
        }
        let Some(at) = entries.iter().position(|(key, _)| key == "ssl") else { return item };
        let Some(tls) = &redis.settings.tls else {
            entries.remove(at);
            return item;
        };
        let ca = match &tls.ca {
            Some(Authorities::Store(_)) => return item, // `tls` has no key stores; `ssl` with its bundle is read here, too
            Some(Authorities::Pem(path)) => Some(path),
            None => None,
        };
        let client = match &tls.client {
            Some(ClientCertificate::Store(_)) => return item,
            Some(ClientCertificate::Pem { certificate, key }) => Some((certificate, key)),
            None => None,
        };
        entries.remove(at);
        let path = |path: &Path| Item::plain(Value::Scalar(path.display().to_string()));
        let client = client.into_iter().flat_map(|(cert, key)| [("cert", cert), ("key", key)]);
        let files: Vec<_> = ca.into_iter().map(|ca| ("ca", ca)).chain(client).collect();
        let mut made = if files.is_empty() {
            Item::plain(Value::Scalar("true".to_owned()))
        } else {
            Item::plain(Value::Map(files.into_iter().map(|(name, file)| (name.to_owned(), path(file))).collect()))
        };
        made.note("Was `ssl`, with a bundle of `spring.ssl.bundle`.");
        entries.insert(at, ("tls".to_owned(), made));
        item
    }
}

/// Renames the keys of the schema to kebab-case, throughout `root`.
fn use_our_names(root: &mut Node) {
    let schema = crate::schema::schema();
    rename(root, &schema, &schema);
}

fn rename(node: &mut Node, at: &serde_json::Value, schema: &serde_json::Value) {
    let alternatives = parts(at, schema);
    match &mut node.kind {
        NodeKind::Map(entries) => {
            for (key, child) in entries {
                let property = alternatives.iter().find_map(|part| {
                    let mut properties = part["properties"].as_object()?.iter();
                    properties.find(|(name, _)| canonical(name) == canonical(key))
                });
                if let Some((name, at)) = property {
                    name.clone_into(key);
                    rename(child, at, schema);
                } else if let Some(any) = alternatives.iter().find_map(|part| part.get("additionalProperties")) {
                    rename(child, any, schema);
                }
            }
        }
        NodeKind::Seq(items) => {
            if let Some(at) = alternatives.iter().find_map(|part| part.get("items")) {
                items.iter_mut().for_each(|item| rename(item, at, schema));
            }
        }
        NodeKind::Null | NodeKind::Scalar(_) => {}
    }
}

/// Returns the alternatives of a schema; follows references.
fn parts<'s>(at: &'s serde_json::Value, schema: &'s serde_json::Value) -> Vec<&'s serde_json::Value> {
    if let Some(target) = at["$ref"].as_str().and_then(|path| schema.pointer(path.trim_start_matches('#'))) {
        return parts(target, schema);
    }
    match at["anyOf"].as_array() {
        Some(alternatives) => alternatives.iter().flat_map(|part| parts(part, schema)).collect(),
        None => vec![at],
    }
}
