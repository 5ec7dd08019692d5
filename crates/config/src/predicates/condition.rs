//! Conditions as spec: a predicate, or several joined by `any`, `all` and `not`, which are our own.

use crate::de::same_name;
use crate::diagnostics::Diagnostics;
use crate::predicates::context::PredicateContext;
use crate::predicates::table::check;
use crate::spec::PredicateSpec;
use crate::spec::parse::Syntax;
use crate::yaml::{Kind, Node};
use tollgate_routing::Predicate;

/// One entry of `predicates`.
#[derive(Debug)]
pub(crate) enum Condition {
    /// A predicate.
    One(PredicateSpec),
    /// `any: […]`: one of these holds.
    Any(Vec<Self>),
    /// `all: […]`: all of these hold.
    All(Vec<Self>),
    /// `not: …`: this does not hold.
    Not(Box<Self>),
}

impl Condition {
    /// Reads one; `None` when it is beyond reading, which `sink` then knows.
    pub(crate) fn parse(node: &Node, syntax: &Syntax, diagnostics: &mut Diagnostics) -> Option<Self> {
        let Some((word, value)) = joining(node) else {
            return syntax.parse(node, diagnostics).map(Self::One);
        };
        if let Kind::Map(entries) = &node.kind
            && let Some((other, beside)) = entries.iter().find(|(key, _)| !same_name(key, word))
        {
            diagnostics
                .error(beside.span.key(), format!("`{other}` stands beside `{word}` in one entry"))
                .help("give each an entry of its own: `- ` before it");
            return None;
        }
        if diagnostics.is_spring {
            diagnostics.warn(value.span.key(), format!("`{word}` is Tollgate's own: Spring Cloud Gateway refuses it"));
        }
        match (word, &value.kind) {
            ("not", Kind::Seq(_)) => {
                diagnostics
                    .error(value.span, "`not` takes one condition, found a list")
                    .help("write `not: {any: […]}` where none of them may hold, `not: {all: […]}` where one may not");
                None
            }
            ("not", _) => Self::parse(value, syntax, diagnostics).map(|inner| Self::Not(Box::new(inner))),
            (_, Kind::Seq(items)) if !items.is_empty() => {
                // All are read, so that all that is wrong is told.
                let inner: Vec<Option<Self>> =
                    items.iter().map(|item| Self::parse(item, syntax, diagnostics)).collect();
                let inner = inner.into_iter().collect::<Option<Vec<Self>>>()?;
                Some(if word == "any" { Self::Any(inner) } else { Self::All(inner) })
            }
            _ => {
                let found =
                    if matches!(value.kind, Kind::Seq(_)) { "an empty one".to_owned() } else { value.describe() };
                diagnostics
                    .error(value.span, format!("expected a list of predicates, found {found}"))
                    .help(format!("write `{word}: [Path=/a/**, Host=b.example]`"));
                None
            }
        }
    }

    /// The predicate that it means; `None` when it cannot be used, which `sink` then knows.
    pub(crate) fn check(&self, context: &PredicateContext<'_>, diagnostics: &mut Diagnostics) -> Option<Predicate> {
        let mut all = |inner: &[Self]| {
            let checked: Vec<Option<Predicate>> = inner.iter().map(|one| one.check(context, diagnostics)).collect();
            checked.into_iter().collect::<Option<Vec<Predicate>>>()
        };
        match self {
            Self::One(spec) => check(spec, context, diagnostics),
            Self::Any(inner) => all(inner).map(Predicate::any),
            Self::All(inner) => all(inner).map(Predicate::all),
            Self::Not(inner) => inner.check(context, diagnostics).map(Predicate::negated),
        }
    }

    /// As its author wrote it, on one line.
    pub(crate) fn text(&self) -> String {
        let joined = |word: &str, inner: &[Self]| {
            let inner: Vec<String> = inner.iter().map(Self::text).collect();
            format!("{word}: [{}]", inner.join("; "))
        };
        match self {
            Self::One(spec) => spec.text.clone(),
            Self::Any(inner) => joined("any", inner),
            Self::All(inner) => joined("all", inner),
            Self::Not(inner) => format!("not: {}", inner.text()),
        }
    }
}

/// The word that makes `node` something else than a predicate, and what stands behind it.
fn joining(node: &Node) -> Option<(&'static str, &Node)> {
    let Kind::Map(entries) = &node.kind else { return None };
    ["any", "all", "not"].into_iter().find_map(|word| {
        let (_, value) = entries.iter().find(|(key, _)| same_name(key, word))?;
        Some((word, value))
    })
}
