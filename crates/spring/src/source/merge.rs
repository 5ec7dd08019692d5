//! The merge of sources: later documents over earlier ones, `tollgate:` over Spring's sections, the environment over all.
//!
//! Maps are merged by key, and any other value replaces the one before, as in Spring. A list that is replaced loses its entries
//! without a word of its author, a limiter among them: [`Replaced`] reports the entries that are not repeated. Lists of addresses
//! are exempt, since they differ by environment.

use std::collections::{HashMap, HashSet};

use crate::Form;
use crate::source::dotted;
use crate::source::lost::{self, Kind, Lost};
use tollgate_document::diagnostics::Diagnostics;
use tollgate_document::yaml::{NameIndex, Node, NodeKind, Overridden, Span};

/// Remedy for a list that lacks entries.
const REPEAT: &str =
    "a later list or value takes the place of an earlier one, as in Spring: repeat the entries that must stay";

/// A source that is merged over others.
#[derive(Clone, Copy)]
pub struct Source {
    /// Form of the files.
    pub form: Form,
    /// True for a document of a profile, whose lists usually replace others.
    pub is_of_profile: bool,
}

/// Values that later sources have replaced.
#[derive(Default)]
pub struct Replaced(Vec<Replacement>);

struct Replacement {
    /// Dotted name.
    path: String,
    old: Node,
    /// Number of the node in its place.
    by: u32,
    /// True if the value is meant to replace the other one, as that of a profile.
    is_meant: bool,
}

impl Replaced {
    /// Merges `over` into `under` at `path`, whose names are `names`. Reports a text in place of a map, and a map in place of a text; a Spring file keeps
    /// both. An empty value does not replace a map, as in Spring.
    pub fn merge(
        &mut self,
        (under, names): (&mut Node, &mut NameIndex),
        mut over: Node,
        path: &str,
        source: Source,
        diagnostics: &mut Diagnostics,
    ) {
        if source.form == Form::Spring && dotted::keep_own_value(under, &mut over, names) {
            return;
        }
        match (&mut under.kind, over.kind) {
            (NodeKind::Map(entries), NodeKind::Map(more)) => {
                for (key, value) in more {
                    match names.find(entries, &key).and_then(|at| Some((at, entries.get_mut(at)?))) {
                        Some((at, (name, old))) => {
                            let path = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
                            self.merge((old, names.below(at)), value, &path, source, diagnostics);
                        }
                        None => entries.push((key, value)),
                    }
                }
            }
            (NodeKind::Map(entries), kind) if !entries.is_empty() && is_empty(&kind) => {}
            (_, kind) => {
                names.clear();
                let old = std::mem::replace(under, Node { span: over.span, kind });
                self.add(path, old, under, source.is_of_profile, diagnostics);
            }
        }
    }

    /// Adds `old`, which `new` has replaced.
    fn add(&mut self, path: &str, old: Node, new: &Node, is_of_profile: bool, diagnostics: &mut Diagnostics) {
        let is_map = |node: &Node| matches!(&node.kind, NodeKind::Map(entries) if !entries.is_empty());
        if is_map(&old) != is_map(new) && !is_empty(&old.kind) && !is_empty(&new.kind) {
            let words = |is_map: bool| if is_map { "a map of keys" } else { "a value" };
            let (now, before) = (words(is_map(new)), words(is_map(&old)));
            let help = diagnostics
                .warn(new.span, format!("`{path}` is {now} here, which replaces {before}"))
                .beside(" at", old.span);
            lost::name(&lost::limiters(&old, new), help)
                .help("a key has either a value or keys below it: write both in the same form");
        } else if lost::may_lose(Kind::of(path), &old, new) {
            self.0.push(Replacement { path: path.to_owned(), old, by: new.span.node, is_meant: is_of_profile });
        }
    }

    /// Adds a list of a merge key that another one overrides, if it has a limiter: all others are overridden on purpose.
    pub(super) fn add_overridden(&mut self, Overridden { key, list, by }: Overridden) {
        if lost::has_limiter(&list) {
            self.0.push(Replacement { path: key, old: list, by, is_meant: true });
        }
    }

    /// Reports the entries that values within `root` lack and their predecessors had, and forgets these.
    pub fn report(&mut self, root: &Node, diagnostics: &mut Diagnostics) {
        if self.0.is_empty() {
            return;
        }
        // The last value in a row of replacements counts.
        let mut last: HashMap<u32, u32> = HashMap::new();
        for Replacement { old, by, .. } in self.0.iter().rev() {
            last.insert(old.span.node, last.get(by).copied().unwrap_or(*by));
        }
        let mut by_number = HashMap::new();
        find(root, &last.values().copied().collect(), &mut by_number);
        let mut groups: HashMap<u32, usize> = HashMap::new();
        let mut replaced: Vec<(&Node, Vec<Replacement>)> = Vec::new();
        for one in std::mem::take(&mut self.0) {
            let by = last.get(&one.old.span.node).copied().unwrap_or(one.by);
            match (by_number.get(&by), groups.get(&by)) {
                (None, _) => self.0.push(one),
                (Some(_), Some(group)) => replaced[*group].1.push(one),
                (Some(new), None) => {
                    groups.insert(by, replaced.len());
                    replaced.push((new, vec![one]));
                }
            }
        }
        replaced.iter().for_each(|(new, by_it)| report_one(new, by_it, diagnostics));
    }
}

fn find<'n>(node: &'n Node, wanted: &HashSet<u32>, by_number: &mut HashMap<u32, &'n Node>) {
    if wanted.contains(&node.span.node) {
        by_number.insert(node.span.node, node);
    }
    match &node.kind {
        NodeKind::Map(entries) => entries.iter().for_each(|(_, value)| find(value, wanted, by_number)),
        NodeKind::Seq(items) => items.iter().for_each(|item| find(item, wanted, by_number)),
        NodeKind::Null | NodeKind::Scalar(_) => {}
    }
}

fn report_one(new: &Node, replaced: &[Replacement], diagnostics: &mut Diagnostics) {
    let Some(Replacement { path, old, is_meant, .. }) = replaced.last() else { return };
    let lost = lost::entries(Kind::of(path), replaced.iter().map(|one| &one.old), new);
    let is_meant = *is_meant || lost::is_empty(new);
    let word = if matches!(old.kind, NodeKind::Seq(_)) { "list" } else { "value" };
    let message = format!("`{path}` here replaces the {word}");
    report_lost(&lost, (path, is_meant), (new.span.key(), message, Some(old.span.key())), diagnostics);
}

/// Reports that the variables of the environment that begin with `prefix` replace the list `old` at `path` by `new`.
pub(super) fn report_environment(path: &str, prefix: &str, (old, new): (&Node, &Node), diagnostics: &mut Diagnostics) {
    let kind = Kind::of(path);
    if lost::may_lose(kind, old, new) {
        let lost = lost::entries(kind, std::iter::once(old), new);
        let message = format!("the environment, `{prefix}_…`, replaces the whole list `{path}`, as in Spring");
        report_lost(&lost, (path, false), (old.span.key(), message, None), diagnostics);
    }
}

/// Warns of the entries that are `lost` at `path`. A list that is meant to replace another is noted, unless it loses a limiter.
fn report_lost(
    lost: &[Lost],
    (path, is_meant): (&str, bool),
    (at, message, old): (Span, String, Option<Span>),
    diagnostics: &mut Diagnostics,
) {
    if lost.is_empty() {
        return;
    }
    let is_meant = is_meant && !lost.iter().any(|lost| lost.is_limiter);
    let mut help = diagnostics.warn_unless(is_meant, at, message);
    if let Some(old) = old {
        help = help.beside(" at", old);
    }
    let more = match Kind::of(path) {
        Kind::Routes => "; `tollgate: {routes: […]}` adds routes, or replaces those of the same id",
        Kind::Components | Kind::Addresses | Kind::Other => "",
    };
    lost::name(lost, help).help(format!("{REPEAT}{more}"));
}

/// Reports that `new`, a route below `tollgate`, takes the place of the route `old` with the same `id`.
pub(crate) fn report_route(id: &str, old: &Node, new: &Node, diagnostics: &mut Diagnostics) {
    let lost = lost::limiters(old, new);
    let message = format!("the route `{id}` of `tollgate.routes` takes the place of the one");
    let help = diagnostics.warn_unless(lost.is_empty(), new.span, message).beside(" at", old.span);
    lost::name(&lost, help).help(
        "routes of `tollgate.routes` with other ids are added behind those of the files; for both routes, write another `id`",
    );
}

fn is_empty(kind: &NodeKind) -> bool {
    match kind {
        NodeKind::Null => true,
        NodeKind::Scalar(text) => text.trim().is_empty(),
        NodeKind::Map(entries) => entries.is_empty(),
        NodeKind::Seq(_) => false,
    }
}
