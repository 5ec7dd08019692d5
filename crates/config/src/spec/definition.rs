//! One predicate or filter as specified.

use crate::de::{canonical, same_name};
use crate::diagnostics::{Diagnostics, Reported};
use crate::yaml::{Node, NodeKind, Span};

/// Prefix of the names that Spring gives to positional arguments in its own listings.
pub(super) const GENERATED: &str = "_genkey_";

/// One predicate or filter, its arguments as text.
#[derive(Clone, Debug)]
pub(crate) struct Spec<'n> {
    pub(crate) name: String,
    /// Place of the name.
    pub(crate) span: Span,
    /// Arguments with a value, nested ones by dotted names.
    pub(crate) args: Vec<Arg>,
    /// Arguments without a value: null, an empty list or an empty map. They count as absent.
    pub(crate) empty: Vec<Arg>,
    /// The map of named arguments in the tree of the file; `None` for a shortcut, and without arguments.
    pub(super) map: Option<&'n Node>,
    /// Source text on one line.
    pub(crate) text: String,
}

/// One argument. The shortcut form has positions instead of names.
#[derive(Clone, Debug)]
pub(crate) struct Arg {
    pub(crate) name: Option<String>,
    pub(crate) value: String,
    pub(crate) span: Span,
}

impl Arg {
    /// Returns the value as a node.
    pub(super) fn node(&self) -> Node {
        Node { span: self.span, kind: NodeKind::Scalar(self.value.clone()) }
    }
}

/// Appends the scalars below `node` to `into`, named `a.b` and `a[0]` as Spring names them.
pub(crate) fn flatten(prefix: &str, node: &Node, into: &mut Vec<Arg>) {
    flatten_into(prefix, node, into, &mut Vec::new());
}

fn flatten_into(prefix: &str, node: &Node, into: &mut Vec<Arg>, empty: &mut Vec<Arg>) {
    let arg = |value: String| Arg { name: Some(prefix.to_owned()), value, span: node.span };
    match &node.kind {
        NodeKind::Scalar(text) => into.push(arg(text.clone())),
        NodeKind::Seq(items) if !items.is_empty() => {
            for (index, item) in items.iter().enumerate() {
                flatten_into(&format!("{prefix}[{index}]"), item, into, empty);
            }
        }
        NodeKind::Map(entries) if !entries.is_empty() => {
            for (key, value) in entries {
                let name = if prefix.is_empty() { key.clone() } else { format!("{prefix}.{key}") };
                flatten_into(&name, value, into, empty);
            }
        }
        NodeKind::Null | NodeKind::Seq(_) | NodeKind::Map(_) => empty.push(arg(node.describe())),
    }
}

impl<'n> Spec<'n> {
    /// Creates the specification `name` with the map `args`.
    pub(super) fn named(name: String, span: Span, args: Option<&'n Node>) -> Self {
        let (mut flat, mut empty) = (Vec::new(), Vec::new());
        if let Some(node) = args {
            flatten_into("", node, &mut flat, &mut empty);
        }
        let listed: Vec<String> =
            flat.iter().map(|arg| format!("{}={}", arg.name.as_deref().unwrap_or_default(), arg.value)).collect();
        let text = format!("{name}{{{}}}", listed.join(", "));
        empty.retain(|arg: &Arg| arg.name.as_deref() != Some(""));
        Self { name, span, args: flat, empty, map: args, text }
    }

    /// Returns the argument of each field, positional ones by the order of `fields`. Reports all other arguments.
    pub(crate) fn arguments<'w, const N: usize>(
        &'w self,
        fields: [&str; N],
        diagnostics: &mut Diagnostics,
    ) -> [Option<&'w Arg>; N] {
        let mut by_field = [None; N];
        self.check_empty(&fields, diagnostics);
        for (position, arg) in self.args.iter().enumerate() {
            let field = match &arg.name {
                None => (position < N).then_some(position),
                Some(name) => {
                    let generated = (name.starts_with(GENERATED) && position < N).then_some(position);
                    fields.iter().position(|field| same_name(field, name)).or(generated)
                }
            };
            match (field, &arg.name) {
                (Some(field), _) => by_field[field] = Some(arg),
                (None, Some(name)) => {
                    self.report_unknown_arg(arg, name, &fields, diagnostics);
                }
                (None, None) => {
                    self.report_surplus(arg, N, diagnostics);
                    return by_field;
                }
            }
        }
        by_field
    }

    /// Reports a value of a shortcut beyond its `count` arguments.
    pub(super) fn report_surplus(&self, arg: &Arg, count: usize, diagnostics: &mut Diagnostics) {
        let (name, value) = (&self.name, &arg.value);
        let takes = match count {
            0 => "no argument".to_owned(),
            1 => "1 argument".to_owned(),
            _ => format!("{count} arguments"),
        };
        let message = format!("`{name}` takes {takes}; `{value}` is one too many");
        diagnostics.mistake(arg.span, message).ineffective().help(match count {
            0 => format!("write `{name}` without arguments"),
            _ => "a value with a comma needs the long form: `name:` and `args:`".to_owned(),
        });
    }

    /// Reports values `#{…}`, which Spring evaluates as expressions.
    pub(crate) fn refuse_expressions(&self, diagnostics: &mut Diagnostics) -> Result<(), Reported> {
        let mut result = Ok(());
        for arg in &self.args {
            let text = arg.value.trim();
            if text.starts_with("#{") && text.ends_with('}') {
                let message = format!("`{text}` is a Java expression of Spring's, which Tollgate cannot evaluate");
                let help = "write the value itself, or `${NAME}` for an environment variable";
                result = Err(diagnostics.error(arg.span, message).reported_with(help));
            }
        }
        result
    }

    /// Reports arguments that are unknown and have no value.
    pub(crate) fn check_empty(&self, known: &[&str], diagnostics: &mut Diagnostics) {
        for arg in &self.empty {
            let name = arg.name.as_deref().unwrap_or_default();
            let name = name.split('[').next().unwrap_or(name);
            if !known.iter().any(|field| canonical(field) == canonical(name)) {
                self.report_unknown_arg(arg, name, known, diagnostics);
            }
        }
    }

    fn report_unknown_arg(&self, arg: &Arg, name: &str, known: &[&str], diagnostics: &mut Diagnostics) {
        let known: Vec<&str> = known.iter().copied().filter(|field| !field.is_empty()).collect();
        let help = diagnostics.mistake(arg.span.key(), format!("`{}` has no argument `{name}`", self.name));
        if known.is_empty() {
            help.help("it takes no arguments");
        } else {
            help.suggest(name, &known);
        }
    }

    /// Returns all values, in order, without regard to names: Spring's `GATHER_LIST`. Reports an error if there are none.
    pub(crate) fn gather(&self, diagnostics: &mut Diagnostics) -> Result<Vec<String>, Reported> {
        if self.args.is_empty() {
            let message = format!("`{}` needs at least one argument", self.name);
            return Err(diagnostics.error(self.span, message).reported());
        }
        Ok(self.args.iter().map(|arg| arg.value.clone()).collect())
    }

    /// Returns the place of the argument with this value, else of the specification.
    pub(crate) fn place_of(&self, value: Option<&str>) -> Span {
        let with_value = self.args.iter().find(|arg| value.is_some_and(|value| arg.value.trim() == value.trim()));
        match (with_value, self.args.as_slice()) {
            (Some(arg), _) => arg.span,
            (None, [only]) => only.span,
            _ => self.span,
        }
    }
}
