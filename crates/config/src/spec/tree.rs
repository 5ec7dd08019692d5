//! Arguments of a [`Spec`] as nodes, for the positioned deserializer.

use serde::de::DeserializeOwned;

use crate::de::fields::field_names;
use crate::de::{self, same_name};
use crate::diagnostics::{Diagnostics, Reported, UnknownKey};
use crate::spec::definition::{Arg, GENERATED, Spec};
use crate::yaml::{NameIndex, Node, NodeKind, Span};

/// Assignment of the values of a shortcut `Name=a,b` to the arguments, as Spring's `ShortcutType`.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Shortcut {
    /// One value per argument, in the order of the struct.
    All,
    /// One value for each of these arguments.
    Some(&'static [&'static str]),
    /// All values, whatever their names, to the first argument, a list. Others are given by their names.
    List,
    /// As [`List`](Self::List); a last `true` or `false` goes to the second argument, unless it is named.
    ListAndFlag,
    /// No shortcut: the long form of an example.
    None(&'static str),
}

impl Spec {
    /// Reads the arguments as a `T`. Reports values of the wrong type, and arguments that are unknown or missing.
    ///
    /// # Errors
    /// An error is reported.
    pub(crate) fn read<T: DeserializeOwned>(
        &self,
        shortcut: Shortcut,
        diagnostics: &mut Diagnostics,
    ) -> Result<T, Reported> {
        let tree = self.tree(shortcut, field_names::<T>(), diagnostics)?;
        let report_missing = |field: &str, diagnostics: &mut Diagnostics| {
            diagnostics.error(self.span, format!("`{}` needs the argument `{field}`", self.name)).reported()
        };
        de::read_struct(
            &tree,
            diagnostics,
            |unknown, diagnostics| self.report_unknown(unknown, diagnostics),
            report_missing,
        )
    }

    /// Reads `tree`, the arguments of this specification, as a `T` whose fields say if they are wrong.
    pub(crate) fn read_tree<T>(&self, tree: &Node, diagnostics: &mut Diagnostics) -> T
    where
        T: DeserializeOwned + Default,
    {
        let (value, unknown) = de::read::<T>(tree, diagnostics);
        unknown.iter().for_each(|unknown| self.report_unknown(unknown, diagnostics));
        value
    }

    /// Returns the arguments as one map. `fields` are the names of all arguments.
    ///
    /// Dotted names mean nested ones: `backoff.factor` is `factor` in `backoff`.
    ///
    /// # Errors
    /// A shortcut without a meaning is reported.
    pub(crate) fn tree(
        &self,
        shortcut: Shortcut,
        fields: &'static [&'static str],
        diagnostics: &mut Diagnostics,
    ) -> Result<Node, Reported> {
        let mut root = Node { span: self.span, kind: NodeKind::Map(Vec::new()) };
        let positions = match shortcut {
            Shortcut::All => fields,
            Shortcut::Some(names) => names,
            Shortcut::List => return Ok(self.gathered(fields, false)),
            Shortcut::ListAndFlag => return Ok(self.gathered(fields, true)),
            Shortcut::None(example) => {
                if let Some(arg) = self.args.iter().find(|arg| arg.name.is_none()) {
                    let message = format!("`{}` has no shortcut form", self.name);
                    let help = format!("write `name: {}` and `args: {example}`", self.name);
                    return Err(diagnostics.error(arg.span, message).reported_with(help));
                }
                &[]
            }
        };
        let mut names = NameIndex::exact();
        if let NodeKind::Map(entries) = &self.node.kind {
            nest(entries, positions, &mut root);
            return Ok(root);
        }
        for (position, arg) in self.args.iter().enumerate() {
            let Some(name) = positions.get(position) else {
                if positions.len() == fields.len() {
                    self.report_surplus(arg, positions.len(), diagnostics);
                } else {
                    self.report_no_position(arg, diagnostics);
                }
                break;
            };
            insert(&mut root, &steps(name), arg.node(), &mut names);
        }
        Ok(root)
    }

    /// Returns the arguments with all values in the first of `fields`, but for those that are named like another field.
    fn gathered(&self, fields: &[&str], has_flag: bool) -> Node {
        let mut entries: Vec<(String, Node)> = Vec::new();
        let mut items: Vec<Node> = Vec::new();
        let (list, others) = fields.split_first().unwrap_or((&"", &[]));
        for arg in &self.args {
            let name = arg.name.as_deref();
            match others.iter().find(|field| name.is_some_and(|name| same_name(field, name))) {
                Some(field) => entries.push(((*field).to_owned(), arg.node())),
                None => items.push(arg.node()),
            }
        }
        if has_flag
            && entries.is_empty()
            && let Some(flag) = items.pop_if(|last| last.scalar().is_some_and(|text| text.parse::<bool>().is_ok()))
        {
            entries.extend(others.first().map(|field| ((*field).to_owned(), flag)));
        }
        if !items.is_empty() {
            entries.push(((*list).to_owned(), Node { span: self.span, kind: NodeKind::Seq(items) }));
        }
        Node { span: self.span, kind: NodeKind::Map(entries) }
    }

    /// Reports a value of a shortcut that gives some arguments only.
    fn report_no_position(&self, arg: &Arg, diagnostics: &mut Diagnostics) {
        let (name, value) = (&self.name, &arg.value);
        diagnostics
            .mistake(arg.span, format!("the shortcut form of `{name}` has no argument for `{value}`"))
            .ineffective()
            .help(format!("use the long form for all arguments: `name: {name}` and `args:`"));
    }

    fn report_unknown(&self, unknown: &UnknownKey, diagnostics: &mut Diagnostics) {
        let path = unknown.path.join(".");
        let name = unknown.path.last().map_or("", String::as_str);
        let error = diagnostics.mistake(unknown.span.key(), format!("`{}` has no argument `{path}`", self.name));
        match unknown.fields {
            [] => error.help("it takes no arguments"),
            fields => error.suggest(name, fields),
        }
    }
}

/// Copies `entries` into the map `root`, keys such as `a.b` and `a[0]` as nested nodes. Names that Spring generates for
/// values of a shortcut are those of `positions`.
fn nest(entries: &[(String, Node)], positions: &[&str], root: &mut Node) {
    let mut names = NameIndex::exact();
    for (position, (key, value)) in entries.iter().enumerate() {
        let key = match positions.get(position) {
            Some(name) if key.starts_with(GENERATED) => name,
            _ => key.as_str(),
        };
        let mut node = Node { span: value.span, kind: value.kind.clone() };
        match &value.kind {
            NodeKind::Map(inner) => {
                node.kind = NodeKind::Map(Vec::new());
                nest(inner, &[], &mut node);
            }
            NodeKind::Seq(items) => node.kind = NodeKind::Seq(items.iter().map(nested).collect()),
            NodeKind::Null | NodeKind::Scalar(_) => {}
        }
        insert(root, &steps(key), node, &mut names);
    }
}

fn nested(item: &Node) -> Node {
    let NodeKind::Map(entries) = &item.kind else { return item.clone() };
    let mut node = Node { span: item.span, kind: NodeKind::Map(Vec::new()) };
    nest(entries, &[], &mut node);
    node
}

/// Highest index that makes a list longer than its items; items beyond it are appended.
const MAX_GAP: usize = 1_000;

/// One step of a dotted name.
enum Step<'k> {
    Key(&'k str),
    /// `[n]`
    Item(usize),
}

/// Splits `a.b[0].c`. A key that is not made of names and numbers is one step.
fn steps(key: &str) -> Vec<Step<'_>> {
    let mut steps = Vec::new();
    for part in key.split('.') {
        let (name, items) = part.split_at(part.find('[').unwrap_or(part.len()));
        let index = |item: &str| item.strip_suffix(']')?.parse().ok().map(Step::Item);
        let items: Option<Vec<Step<'_>>> = items.split('[').skip(1).map(index).collect();
        match items {
            Some(items) if !name.is_empty() && !name.contains(':') => {
                steps.push(Step::Key(name));
                steps.extend(items);
            }
            _ => return vec![Step::Key(key)],
        }
    }
    steps
}

/// Puts `node` below `root` at the end of `steps`, merging it with the nodes that earlier keys made. `names` are those of
/// `root`.
fn insert(root: &mut Node, steps: &[Step<'_>], node: Node, names: &mut NameIndex) {
    let [step, rest @ ..] = steps else {
        match (&mut root.kind, node.kind) {
            (NodeKind::Map(into), NodeKind::Map(entries)) => into.extend(entries),
            (NodeKind::Seq(into), NodeKind::Seq(items)) => into.extend(items),
            (kind, new) => {
                names.clear();
                *kind = new;
            }
        }
        return;
    };
    match step {
        Step::Key(name) => {
            if !matches!(root.kind, NodeKind::Map(_)) {
                names.clear();
                root.kind = NodeKind::Map(Vec::new());
            }
            let NodeKind::Map(entries) = &mut root.kind else { return };
            // A plain key that is there already stays twice, for the deserializer to report.
            let is_merged = !rest.is_empty() || is_branch(&node);
            let known = if is_merged { names.find(entries, name) } else { None };
            let at = known.unwrap_or_else(|| {
                entries.push(((*name).to_owned(), blank(node.span)));
                entries.len() - 1
            });
            insert(&mut entries[at].1, rest, node, names.below(at));
        }
        Step::Item(index) => {
            if !matches!(root.kind, NodeKind::Seq(_)) {
                names.clear();
                root.kind = NodeKind::Seq(Vec::new());
            }
            let NodeKind::Seq(items) = &mut root.kind else { return };
            let at = if *index < MAX_GAP { *index } else { items.len() };
            while items.len() <= at {
                items.push(blank(node.span));
            }
            insert(&mut items[at], rest, node, names.below(at));
        }
    }
}

fn is_branch(node: &Node) -> bool {
    matches!(node.kind, NodeKind::Map(_) | NodeKind::Seq(_))
}

fn blank(span: Span) -> Node {
    Node { span, kind: NodeKind::Null }
}
