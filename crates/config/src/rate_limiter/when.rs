//! `when` of a rule, and the warnings of conditions that no request of the route can meet, or all of them do.

use std::sync::Arc;

use tollgate_routing::{Predicate, RequestPart};

use crate::de::same_name;
use crate::diagnostics::{Diagnostics, Reported};
use crate::predicates::condition::Condition;
use crate::rate_limiter::Naming;
use crate::rate_limiter::args::RuleArgs;
use crate::rate_limiter::conditions::When;
use crate::rate_limiter::context::LimiterContext;
use crate::rate_limiter::model::RateLimiter;
use crate::spec::{Audience, FilterSpec};
use crate::yaml::{Node, NodeKind, Span};

/// Upper bound of the values under one `when`: its predicates are compared with each other, and with those of the route.
const MAX_WEIGHT: usize = 1_000;

/// Returns the condition under `when`; `None` without one. Reports errors.
pub(super) fn when(
    args: &RuleArgs,
    context: &LimiterContext<'_>,
    diagnostics: &mut Diagnostics,
) -> Result<Option<Arc<When>>, Reported> {
    let Some(when) = args.when.checked()? else { return Ok(None) };
    let nodes = match &when.value.kind {
        NodeKind::Seq(items) if !items.is_empty() => items.as_slice(),
        NodeKind::Scalar(text) if !text.trim().is_empty() => std::slice::from_ref(&*when.value),
        NodeKind::Map(entries) if !entries.is_empty() => {
            let message = format!("`when` must be a list of predicates, found {}", when.value.describe());
            return Err(diagnostics
                .error(when.span, message)
                .reported_with("put `- ` before it, or write `when: [Method=POST]`"));
        }
        _ => return Err(empty(when.span, diagnostics)),
    };
    if when.value.weight() > MAX_WEIGHT {
        let error =
            diagnostics.error(when.span, format!("`when` is too long: at most {MAX_WEIGHT} values are possible"));
        return Err(error.reported_with("one pattern may stand for many paths: `Path=/search/**`"));
    }
    // All are read, so that all errors are reported.
    let read: Vec<_> = nodes.iter().map(|node| predicate(node, context, diagnostics)).collect();
    let (predicates, texts): (Vec<_>, Vec<_>) = read.into_iter().collect::<Result<Vec<_>, _>>()?.into_iter().unzip();
    if Predicate::exclude(&predicates, &predicates) {
        diagnostics
            .warn(when.span, "the rule never applies: no request matches all predicates of its `when`")
            .help("`when: [{any: […]}]` applies if one of them matches");
    }
    Ok(Some(Arc::new(When { predicates: predicates.into(), texts: texts.into() })))
}

/// Reports each `when` without a value, which otherwise would apply to every request.
pub(super) fn report_empty(spec: &FilterSpec<'_>, diagnostics: &mut Diagnostics) {
    let is_when = |name: &str| same_name(name.rsplit('.').next().unwrap_or(name), "when");
    for arg in spec.empty.iter().filter(|arg| arg.name.as_deref().is_some_and(is_when)) {
        empty(arg.span, diagnostics);
    }
}

fn empty(at: Span, diagnostics: &mut Diagnostics) -> Reported {
    let error = diagnostics.error(at, "`when` is empty");
    error.reported_with("`when: [Method=POST]`; without `when` the rule applies to every request")
}

/// Returns the predicate in `node`, with its text for each audience.
fn predicate(
    node: &Node,
    context: &LimiterContext<'_>,
    diagnostics: &mut Diagnostics,
) -> Result<(Predicate, [String; 2]), Reported> {
    let condition = Condition::parse(node, &context.predicates.syntax, diagnostics)?;
    let predicate = condition.check(context.predicates, diagnostics)?;
    if predicate.reads().contains(&RequestPart::Random) {
        let error = diagnostics.error(node.span, "`Weight` selects among routes: a rule has no share of requests");
        return Err(error.reported_with("`enforce-percent: 10` enforces the rule for a share of the keys"));
    }
    let texts = [Audience::Shell, Audience::Network];
    Ok((predicate, texts.map(|audience| condition.text(&|spec| spec.masked_text(audience)))))
}

/// Warns of rules of a limiter at `at` whose conditions no request of its route meets, or all of them. `predicates` are
/// those of the route.
pub(crate) fn warn_of_constant(
    limiter: &RateLimiter,
    (route, predicates): (&Arc<str>, &[Predicate]),
    at: Span,
    diagnostics: &mut Diagnostics,
) {
    for named in (Naming { route, number: 1, limiter }).all() {
        let Some(when) = &named.limit.when else { continue };
        let rule = match (&named.name, named.plan) {
            (Some(name), Some(plan)) => format!("rule `{name}` of plan `{plan}`"),
            (Some(name), None) => format!("rule `{name}`"),
            (None, Some(plan)) => format!("the rule of plan `{plan}`"),
            (None, None) => "the limiter".to_owned(),
        };
        let text = when.text(Audience::Shell);
        if Predicate::exclude(&when.predicates, predicates) {
            diagnostics
                .warn(at, format!("{rule} never applies: no request of route `{route}` matches `when: {text}`"))
                .help("change `when`, or move the rule to the route of these requests");
        } else if Predicate::all_imply(predicates, &when.predicates) {
            diagnostics
                .warn(at, format!("`when: {text}` of {rule} has no effect: every request of route `{route}` matches"))
                .ineffective()
                .help("remove it");
        }
    }
}
