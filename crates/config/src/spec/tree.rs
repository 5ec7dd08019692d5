//! Arguments of a [`Spec`] as nodes, for the positioned deserializer.

use crate::de;
use crate::diagnostics::Diagnostics;
use crate::diagnostics::UnknownKey;
use crate::spec::definition::Spec;
use crate::yaml::{NameIndex, Node, NodeKind, Span};

impl Spec {
    /// Reads the arguments as a `T`, positional ones by the order of `positions`. Reports values of the wrong type,
    /// unknown arguments, and positional arguments beyond `positions`.
    ///
    /// Dotted names mean nested ones: `backoff.factor` is `factor` in `backoff`.
    pub(crate) fn read<T>(&self, positions: &[&str], diagnostics: &mut Diagnostics) -> T
    where
        T: serde::de::DeserializeOwned + Default,
    {
        let tree = self.tree(positions, diagnostics);
        self.read_tree(&tree, diagnostics)
    }

    /// Reads `tree`, the arguments of this specification, as a `T`. Reports what [`Spec::read`] does.
    pub(crate) fn read_tree<T>(&self, tree: &Node, diagnostics: &mut Diagnostics) -> T
    where
        T: serde::de::DeserializeOwned + Default,
    {
        let (value, unknown) = de::read::<T>(tree, diagnostics);
        unknown.iter().for_each(|unknown| self.report_unknown(unknown, diagnostics));
        value
    }

    /// Returns the arguments as one map, positional ones by the order of `positions`.
    pub(crate) fn tree(&self, positions: &[&str], diagnostics: &mut Diagnostics) -> Node {
        let mut root = Node { span: self.span, kind: NodeKind::Map(Vec::new()) };
        if let NodeKind::Map(entries) = &self.node.kind {
            nest(entries, &mut root);
            return root;
        }
        let mut names = NameIndex::exact();
        for (position, arg) in self.args.iter().enumerate() {
            let Some(name) = positions.get(position) else {
                let message = format!("the shortcut form of `{}` has no argument for `{}`", self.name, arg.value);
                diagnostics
                    .mistake(arg.span, message)
                    .ineffective()
                    .help(format!("use the long form for all arguments: `name: {}` and `args:`", self.name));
                continue;
            };
            let node = Node { span: arg.span, kind: NodeKind::Scalar(arg.value.clone()) };
            insert(&mut root, &steps(name), node, &mut names);
        }
        root
    }

    fn report_unknown(&self, unknown: &UnknownKey, diagnostics: &mut Diagnostics) {
        let path = unknown.path.join(".");
        let name = unknown.path.last().map_or("", String::as_str);
        diagnostics
            .mistake(unknown.span.key(), format!("`{}` has no argument `{path}`", self.name))
            .suggest(name, unknown.fields);
    }
}

/// Copies `entries` into the map `root`, keys such as `a.b` and `a[0]` as nested nodes.
fn nest(entries: &[(String, Node)], root: &mut Node) {
    let mut names = NameIndex::exact();
    for (key, value) in entries {
        let mut node = Node { span: value.span, kind: value.kind.clone() };
        match &value.kind {
            NodeKind::Map(inner) => {
                node.kind = NodeKind::Map(Vec::new());
                nest(inner, &mut node);
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
    nest(entries, &mut node);
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
