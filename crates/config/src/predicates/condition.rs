//! Conditions: a predicate, or several joined by `any`, `all` and `not`, which Spring does not have.

use crate::de::same_name;
use crate::diagnostics::{Diagnostics, Reported};
use crate::predicates::context::PredicateContext;
use crate::predicates::table::check;
use crate::spec::{PredicateSpec, Syntax};
use crate::yaml::{Node, NodeKind};
use tollgate_routing::Predicate;

/// One entry of `predicates`.
#[derive(Debug)]
pub(crate) enum Condition<'n> {
    /// A predicate.
    One(PredicateSpec<'n>),
    /// `any: […]`: at least one matches.
    Any(Vec<Self>),
    /// `all: […]`: all match.
    All(Vec<Self>),
    /// `not: …`: the condition does not match.
    Not(Box<Self>),
}

impl<'n> Condition<'n> {
    /// Reads an entry of `predicates`. Reports errors.
    pub(crate) fn parse(node: &'n Node, syntax: &Syntax, diagnostics: &mut Diagnostics) -> Result<Self, Reported> {
        let Some((word, value)) = joining(node) else {
            return syntax.parse(node, diagnostics).map(Self::One);
        };
        if let NodeKind::Map(entries) = &node.kind
            && let Some((other, beside)) = entries.iter().find(|(key, _)| !same_name(key, word))
        {
            let error = diagnostics.error(beside.span.key(), format!("`{other}` and `{word}` are in one entry"));
            return Err(error.reported_with("give each its own entry: put `- ` before it"));
        }
        match (word, &value.kind) {
            ("not", NodeKind::Seq(_)) => {
                let error = diagnostics.error(value.span, "`not` takes one condition, found a list");
                Err(error
                    .reported_with("write `not: {any: […]}` if none may match, `not: {all: […]}` if not all may match"))
            }
            ("not", _) => Self::parse(value, syntax, diagnostics).map(|inner| Self::Not(Box::new(inner))),
            (_, NodeKind::Seq(items)) if !items.is_empty() => {
                // All are read, so that all errors are reported.
                let inner: Vec<_> = items.iter().map(|item| Self::parse(item, syntax, diagnostics)).collect();
                let inner = inner.into_iter().collect::<Result<Vec<Self>, _>>()?;
                Ok(if word == "any" { Self::Any(inner) } else { Self::All(inner) })
            }
            _ => {
                let found =
                    if matches!(value.kind, NodeKind::Seq(_)) { "an empty one".to_owned() } else { value.describe() };
                let error = diagnostics.error(value.span, format!("expected a list of predicates, found {found}"));
                Err(error.reported_with(format!("write `{word}: [Path=/a/**, Host=b.example]`")))
            }
        }
    }

    /// Returns the checked predicate. Reports errors.
    pub(crate) fn check(
        &self,
        context: &PredicateContext<'_>,
        diagnostics: &mut Diagnostics,
    ) -> Result<Predicate, Reported> {
        let mut all = |inner: &[Self]| {
            let checked: Vec<_> = inner.iter().map(|one| one.check(context, diagnostics)).collect();
            checked.into_iter().collect::<Result<Vec<Predicate>, _>>()
        };
        match self {
            Self::One(spec) => check(spec, context, diagnostics),
            Self::Any(inner) => all(inner).map(Predicate::any),
            Self::All(inner) => all(inner).map(Predicate::all),
            Self::Not(inner) => inner.check(context, diagnostics).map(Predicate::negated),
        }
    }

    /// Returns the source text on one line, with each predicate as `show` writes it.
    pub(crate) fn text(&self, show: &dyn Fn(&PredicateSpec<'n>) -> String) -> String {
        let joined = |word: &str, inner: &[Self]| {
            let inner: Vec<String> = inner.iter().map(|condition| condition.text(show)).collect();
            format!("{word}: [{}]", inner.join("; "))
        };
        match self {
            Self::One(spec) => show(spec),
            Self::Any(inner) => joined("any", inner),
            Self::All(inner) => joined("all", inner),
            Self::Not(inner) => format!("not: {}", inner.text(show)),
        }
    }
}

/// Returns the joining word of `node` with its value; `None` for a predicate.
fn joining(node: &Node) -> Option<(&'static str, &Node)> {
    let NodeKind::Map(entries) = &node.kind else { return None };
    ["any", "all", "not"].into_iter().find_map(|word| {
        let (_, value) = entries.iter().find(|(key, _)| same_name(key, word))?;
        Some((word, value))
    })
}
