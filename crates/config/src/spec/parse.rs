//! Text or map to [`Spec`].

use crate::de::canonical;
use crate::diagnostics::{Diagnostics, Reported};
use crate::spec::definition::{Arg, Spec};
use crate::yaml::{Node, NodeKind, Span};

/// Syntax of one kind of specification: predicates or filters.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Syntax {
    /// `predicate` or `filter`.
    pub(crate) noun: &'static str,
    /// A valid shortcut, for messages.
    pub(crate) example: &'static str,
    /// Accepts a shortcut without `=`.
    pub(crate) takes_bare_names: bool,
    /// Returns the form of any predicate or filter of Tollgate or Spring by its name.
    pub(crate) find: fn(&str) -> Option<NamedForm>,
}

/// Form of the arguments of a predicate or filter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NamedForm {
    /// Has a shortcut `Name=a,b`.
    Shortcut,
    /// Has named arguments only.
    Map,
}

impl Syntax {
    /// Reads one specification. Reports errors.
    pub(crate) fn parse<'n>(&self, node: &'n Node, diagnostics: &mut Diagnostics) -> Result<Spec<'n>, Reported> {
        match &node.kind {
            NodeKind::Scalar(text) => self.shortcut(text, node.span, diagnostics),
            NodeKind::Map(entries) => self.named(node, entries, diagnostics),
            _ => {
                let (noun, example, found) = (self.noun, self.example, node.describe());
                let message = format!("expected a {noun} such as `{example}`, found {found}");
                Err(diagnostics.error(node.span, message).reported())
            }
        }
    }

    /// Reads `Name=a,b`: splits at the first `=`, then at commas; trims the arguments and drops empty ones.
    pub(crate) fn shortcut<'n>(
        &self,
        text: &str,
        span: Span,
        diagnostics: &mut Diagnostics,
    ) -> Result<Spec<'n>, Reported> {
        let (name, args) = match text.split_once('=') {
            Some((name, args)) => (name.trim(), args),
            None if self.takes_bare_names => (text.trim(), ""),
            None => {
                let (noun, example) = (self.noun, self.example);
                let error = diagnostics.error(span, format!("expected `Name=args`, found `{text}`"));
                return Err(error.reported_with(format!(
                    "write a {noun} like `{example}`; within `[…]` quote it if it contains a comma"
                )));
            }
        };
        let args = args
            .split(',')
            .map(str::trim)
            .enumerate()
            .filter(|(_, arg)| !arg.is_empty())
            .map(|(position, arg)| Arg { name: None, value: arg.to_owned(), span: span.argument(position) })
            .collect();
        self.check_indentation(text, span, diagnostics);
        Ok(Spec { name: name.to_owned(), span, args, empty: Vec::new(), map: None, text: text.trim().to_owned() })
    }

    /// Reports an over-indented list item, which YAML appends to the item above it.
    fn check_indentation(&self, text: &str, span: Span, diagnostics: &mut Diagnostics) {
        let next = text.split(" - ").skip(1).find(|item| {
            let name = item.split(['=', ':']).next().unwrap_or_default().trim();
            name == "name" || (self.find)(name).is_some()
        });
        if let Some(next) = next {
            diagnostics
                .error(
                    span,
                    format!("`- {}` is indented too far: YAML reads it as part of the item above", next.trim()),
                )
                .help("indent both items equally");
        }
    }

    fn named<'n>(
        &self,
        node: &Node,
        entries: &'n [(String, Node)],
        diagnostics: &mut Diagnostics,
    ) -> Result<Spec<'n>, Reported> {
        if !entries.iter().any(|(key, _)| canonical(key) == "name") {
            self.report_name_as_key(entries, diagnostics)?;
        }
        let (mut name, mut args) = (None, None);
        for (key, value) in entries {
            match canonical(key).as_str() {
                "name" => name = value.scalar().map(|text| (text.trim().to_owned(), value.span)),
                "args" => match &value.kind {
                    NodeKind::Map(_) | NodeKind::Null => args = Some(value),
                    _ => report_not_a_map(value, diagnostics),
                },
                _ => {
                    let help = match diagnostics.closest(key, ["name", "args"]) {
                        Some(near) => format!("did you mean `{near}`?"),
                        None => "put arguments under `args:`".to_owned(),
                    };
                    diagnostics.mistake(value.span.key(), format!("unknown key `{key}`")).help(help);
                }
            }
        }
        let Some((name, span)) = name else {
            let error = diagnostics.error(node.span, format!("{} without a name", self.noun));
            return Err(error.reported_with(format!("write `{}`, or `name:` and `args:`", self.example)));
        };
        Ok(Spec::named(name, span, args))
    }

    /// Reports `Name: …` written for `Name=…` or `name: Name`.
    fn report_name_as_key(&self, entries: &[(String, Node)], diagnostics: &mut Diagnostics) -> Result<(), Reported> {
        let name_and_args = entries.iter().find_map(|(key, value)| Some((key, value, (self.find)(key)?)));
        let Some((key, value, form)) = name_and_args else { return Ok(()) };
        let message = format!("`{key}` cannot be a key: a {} is a text, or a map with `name`", self.noun);
        Err(diagnostics.error(value.span.key(), message).reported_with(match &value.kind {
            NodeKind::Scalar(text) if form == NamedForm::Shortcut => format!("write `- {key}={text}`"),
            _ => format!("write `- name: {key}` and its arguments under `args:`"),
        }))
    }
}

fn report_not_a_map(value: &Node, diagnostics: &mut Diagnostics) {
    let description = value.describe();
    let error = diagnostics.error(value.span, format!("expected a map of arguments, found {description}"));
    if description.contains(':') {
        error.help("put a space after the colon: `name: value`");
    }
}
