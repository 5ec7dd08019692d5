//! The documents of a configuration: dotted keys expanded, those of the active profiles joined into one tree.

use std::collections::HashMap;

use crate::Form;
use crate::source::merge::{Replaced, Source};
use crate::source::profiles::{Profiles, condition};
use crate::source::{Env, dotted, files, import_reports};
use tollgate_document::diagnostics::{Diagnostics, DocumentId, Format, SourceFile, SourceText};
use tollgate_document::java_properties::{self, BadEscape};
use tollgate_document::yaml::{self, Bytes, NameIndex, Node, NodeKind, Parsed, Problem, Span};

/// Environment variable with properties as JSON.
pub const JSON: &str = "SPRING_APPLICATION_JSON";

/// A document with its position among the files.
pub struct Document {
    /// Its file and number.
    pub id: DocumentId,
    /// True if it is of the file of a profile.
    pub is_of_profile: bool,
    /// Profile that the name of its file tells, such as `prod` of `application-prod.yml`.
    pub profile: Option<String>,
    /// Its root.
    pub node: Node,
}

impl Document {
    /// Returns its root, and the profile that the name of its file tells.
    pub(super) fn with_profile(&self) -> (&Node, Option<&str>) {
        (&self.node, self.profile.as_deref())
    }
}

/// Parses the files of `text` and returns their documents, later ones over earlier ones. Reports syntax errors, and adds the
/// lists of merge keys that others have `replaced`.
pub fn read(text: &SourceText, replaced: &mut Replaced, diagnostics: &mut Diagnostics) -> Vec<Document> {
    let mut documents = Vec::new();
    for file in 0..text.files.len() {
        documents.extend(read_file(text, file, replaced, diagnostics));
    }
    diagnostics.root = documents.first().map_or(Span::ROOT, |document: &Document| document.node.span);
    let positions: HashMap<DocumentId, usize> = text.documents.iter().enumerate().map(|(at, id)| (*id, at)).collect();
    if !positions.is_empty() {
        documents.retain(|document| positions.contains_key(&document.id));
        documents.sort_by_key(|document| positions.get(&document.id));
    }
    documents
}

/// Parses one file of `text`, as [`read`] does.
pub fn read_file(
    text: &SourceText,
    file: usize,
    replaced: &mut Replaced,
    diagnostics: &mut Diagnostics,
) -> Vec<Document> {
    let Some(source) = text.files.get(file) else { return Vec::new() };
    let Parsed { documents, problems, warnings, overridden, .. } = parse(source, file);
    diagnostics.add_syntax_errors(problems);
    diagnostics.add_syntax_warnings(warnings);
    overridden.into_iter().for_each(|list| replaced.add_overridden(list));
    if source.format == Format::Properties {
        report_utf8(&documents, diagnostics);
    }
    let (is_of_profile, profile) = (source.is_of_profile, files::profile(&source.name));
    let document = |(number, node)| {
        let id = DocumentId { file, number };
        Document { id, is_of_profile, profile: profile.map(str::to_owned), node }
    };
    documents.into_iter().enumerate().map(document).collect()
}

fn parse(source: &SourceFile, file: usize) -> Parsed {
    match &source.format {
        Format::Value(key) => {
            let span = Span::new(file, Bytes::new(0..source.text.len()));
            let value = Node { span: span.again(), kind: NodeKind::Scalar(source.text.clone()) };
            let node = Node { span, kind: NodeKind::Map(vec![(key.clone(), value)]) };
            Parsed { documents: vec![node], ..Parsed::default() }
        }
        // Properties of the command line are added as one document.
        Format::Argument => Parsed::default(),
        Format::Yaml => yaml::parse(&source.text, file),
        Format::Json => yaml::parse_json(&source.text, file),
        Format::Properties => match java_properties::read(&source.text, file) {
            Ok(parsed) => parsed,
            Err(BadEscape(at)) => {
                let problem = Problem {
                    at: Span::new(file, Bytes::new(at..at)),
                    message: "`\\u` needs four hexadecimal digits behind it".to_owned(),
                    help: Some("a backslash itself is written `\\\\`".to_owned()),
                    first: None,
                };
                Parsed { problems: vec![problem], ..Parsed::default() }
            }
        },
    }
}

/// Warns of values that are probably UTF-8, since files of properties are ISO-8859-1 in Spring Boot.
fn report_utf8(documents: &[Node], diagnostics: &mut Diagnostics) {
    let entries = documents.iter().filter_map(|document| document.entries());
    let is_utf8 = |text: &str| {
        let bytes: Option<Vec<u8>> = text.chars().map(|c| u8::try_from(u32::from(c)).ok()).collect();
        !text.is_ascii() && bytes.is_some_and(|bytes| String::from_utf8(bytes).is_ok())
    };
    for (_, value) in entries.flatten().filter(|(_, value)| value.scalar().is_some_and(is_utf8)) {
        diagnostics
            .warn(value.span, "the value is UTF-8, but Spring Boot reads files of properties as ISO-8859-1")
            .help("write escapes such as `\\u00e9`, or use YAML");
    }
}

/// Returns the properties of `SPRING_APPLICATION_JSON`, which win over the files and the other variables.
pub fn read_json(
    text: &mut SourceText,
    env: &dyn Fn(&str) -> Option<String>,
    diagnostics: &mut Diagnostics,
) -> Vec<Document> {
    let Some(json) = json(env) else { return Vec::new() };
    let file = text.files.len();
    let source = SourceFile { name: JSON.to_owned(), text: json, format: Format::Json, is_of_profile: false };
    let Parsed { documents, problems, .. } = parse(&source, file);
    diagnostics.add_syntax_errors(problems);
    text.files.push(source);
    let id = DocumentId { file, number: 0 };
    documents.into_iter().map(|node| Document { id, is_of_profile: false, profile: None, node }).collect()
}

/// Returns the value of [`JSON`], if there is one.
pub fn json(env: &dyn Fn(&str) -> Option<String>) -> Option<String> {
    env(JSON).filter(|json| !json.trim().is_empty())
}

/// Expands the dotted keys of the documents. Reports documents that are not maps of sections.
pub fn expand(documents: Vec<Document>, form: Form, diagnostics: &mut Diagnostics) -> Vec<Document> {
    let mut expanded = Vec::with_capacity(documents.len());
    for document in documents.into_iter().filter(|document| !matches!(document.node.kind, NodeKind::Null)) {
        let node = dotted::expand(document.node, form, diagnostics);
        if matches!(node.kind, NodeKind::Map(_)) {
            expanded.push(Document { node, ..document });
        } else {
            diagnostics
                .error(node.span, format!("expected a map of sections, found {}", node.describe()))
                .help("a smallest file is `routes: [{id: all, uri: \"echo:\", predicates: [Path=/**]}]`");
        }
    }
    expanded
}

/// Returns the active profiles, which the documents name that do not belong to a profile themselves.
pub fn profiles(documents: &[Document], env: &dyn Fn(&str) -> Option<String>) -> Profiles {
    let plain: Vec<&Node> =
        documents.iter().filter(|document| !document.is_of_profile).map(|document| &document.node).collect();
    Profiles::of(&plain, env)
}

/// Values of one precedence.
struct Layer {
    node: Node,
    names: NameIndex,
    is_of_profile: bool,
}

/// Merges the documents that `profiles` select, later ones over earlier ones. Those of a folder are joined before.
pub fn join(
    documents: Vec<Document>,
    text: &SourceText,
    profiles: &Profiles,
    (form, env): (Form, Env<'_>),
    replaced: &mut Replaced,
    diagnostics: &mut Diagnostics,
) -> Node {
    import_reports::environment(&text.imports, diagnostics);
    let mut skipped = Vec::new();
    let counts: Vec<bool> = documents
        .iter()
        .map(|document| profiles.accept(document.with_profile(), env, &mut skipped, diagnostics))
        .collect();
    if let Some((_, first)) = skipped.first() {
        let conditions: Vec<&str> = skipped.iter().map(|(condition, _)| condition.as_str()).collect();
        diagnostics
            .note(first.span, format!("documents for other profiles are skipped: {}", conditions.join("; ")))
            .help(format!(
                "active is `{}`; `--profile` or SPRING_PROFILES_ACTIVE says so",
                profiles.names().join(", ")
            ));
    }
    let mut layers: Vec<Layer> = Vec::new();
    // Positions of the layers that join the parts of a folder.
    let mut of_folders: HashMap<usize, usize> = HashMap::new();
    for (document, _) in documents.into_iter().zip(counts).filter(|(_, counts)| *counts) {
        let is_of_profile = document.is_of_profile || condition(&document.node).is_some();
        import_reports::document(&document.node, document.id, &text.imports, diagnostics);
        let folder = text.folder_of(document.id.file).filter(|_| !is_of_profile);
        let position = folder.map_or(layers.len(), |folder| *of_folders.entry(folder).or_insert(layers.len()));
        match layers.get_mut(position) {
            Some(layer) => join_part(&mut layer.node, &mut layer.names, document.node, "", diagnostics),
            None => layers.push(Layer { node: document.node, names: NameIndex::relaxed(), is_of_profile }),
        }
    }
    let mut layers = layers.into_iter();
    let Some(Layer { node: mut whole, mut names, .. }) = layers.next() else {
        return Node { span: diagnostics.root, kind: NodeKind::Map(Vec::new()) };
    };
    for Layer { node, is_of_profile, .. } in layers {
        replaced.merge((&mut whole, &mut names), node, "", Source { form, is_of_profile }, diagnostics);
    }
    whole
}

/// Key that each part may have: imports are read with their part.
const IMPORT: &str = "spring.config.import";

/// Adds the values of another part to those at `path`, whose index is `names`: maps by key, and the routes behind those of the
/// parts before. Reports keys with two values.
fn join_part(node: &mut Node, names: &mut NameIndex, more: Node, path: &str, diagnostics: &mut Diagnostics) {
    match (&mut node.kind, more.kind) {
        (NodeKind::Map(entries), NodeKind::Map(others)) => {
            // Anchors count within their file.
            let is_extension = |key: &str| path.is_empty() && key.starts_with("x-");
            for (key, value) in others.into_iter().filter(|(key, _)| !is_extension(key)) {
                match names.find(entries, &key).and_then(|at| Some((at, entries.get_mut(at)?))) {
                    Some((at, (name, earlier))) => {
                        let path = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
                        join_part(earlier, names.below(at), value, &path, diagnostics);
                    }
                    None => entries.push((key, value)),
                }
            }
        }
        (NodeKind::Seq(routes), NodeKind::Seq(others)) if is_routes(path) => routes.extend(others),
        (_, NodeKind::Null) => {}
        (kind @ NodeKind::Null, other) => {
            *kind = other;
            node.span = more.span;
        }
        (kind, other) if path == IMPORT || is_same(kind, &other) => {}
        _ => {
            diagnostics
                .error(more.span.key(), format!("`{path}` has another value here than"))
                .beside(" at", node.span.key())
                .help("files of a folder are parts of one configuration, and none wins over another: set the key in one of them");
        }
    }
}

/// Returns true for the path of a list of routes.
fn is_routes(path: &str) -> bool {
    path == "routes" || path.ends_with(".routes") && ["spring.", "tollgate."].iter().any(|root| path.starts_with(root))
}

fn is_same(a: &NodeKind, b: &NodeKind) -> bool {
    match (a, b) {
        (NodeKind::Scalar(a), NodeKind::Scalar(b)) => a == b,
        (NodeKind::Seq(a), NodeKind::Seq(b)) => {
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| is_same(&a.kind, &b.kind))
        }
        (NodeKind::Map(a), NodeKind::Map(b)) => {
            let is_same_entry =
                |((a, of_a), (b, of_b)): (&(String, Node), &(String, Node))| a == b && is_same(&of_a.kind, &of_b.kind);
            a.len() == b.len() && a.iter().zip(b).all(is_same_entry)
        }
        (a, b) => matches!((a, b), (NodeKind::Null, NodeKind::Null)),
    }
}
