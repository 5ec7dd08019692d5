//! The limiter's own rules: one, a list, or none if a plan applies to every request.

use crate::diagnostics::{Diagnostics, Reported};
use crate::rate_limiter::args::{LimiterArgs, RuleArgs};
use crate::rate_limiter::context::LimiterContext;
use crate::rate_limiter::limit;
use crate::rate_limiter::model::{Limit, Rules};
use crate::yaml::{Node, NodeKind, Span};

/// Reports `limits` and `plans` that are empty or of another shape.
pub(super) fn check_shapes(tree: &Node, diagnostics: &mut Diagnostics) -> Result<(), Reported> {
    let is_empty = |node: &Node| match &node.kind {
        NodeKind::Null => true,
        NodeKind::Seq(items) => items.is_empty(),
        NodeKind::Map(entries) => entries.is_empty(),
        NodeKind::Scalar(_) => false,
    };
    let limits = "limits: [{name: second, replenish-rate: 10, burst-capacity: 20}]";
    for (name, example) in [("limits", limits), ("plans", "plans: {free: {replenish-rate: 1, burst-capacity: 5}}")] {
        if let Some(node) = tree.step(name).filter(|node| is_empty(node)) {
            return Err(diagnostics.error(node.span, format!("`{name}` is empty")).reported_with(example));
        }
    }
    let Some(node) = tree.step("limits") else { return Ok(()) };
    let stray = match &node.kind {
        NodeKind::Seq(items) => items.iter().find(|item| !matches!(item.kind, NodeKind::Map(_) | NodeKind::Null)),
        _ => Some(node),
    };
    match stray {
        Some(stray) => Err(diagnostics.error(stray.span, "`limits` must be a list of maps").reported_with(limits)),
        None => Ok(()),
    }
}

/// Returns the limiter's own rules. Reports errors.
pub(super) fn rules(
    args: &LimiterArgs,
    at: Span,
    context: &LimiterContext<'_>,
    diagnostics: &mut Diagnostics,
) -> Result<Rules, Reported> {
    let rule = args.rule();
    if let Some(limits) = args.limits.checked()? {
        report_fields_beside_limits(&rule, diagnostics)?;
        return limit::list(limits, context, diagnostics);
    }
    if !args.plans.is_given() {
        let limit = limit::single(&rule, &args.bucket, at, context, diagnostics)?;
        return Ok(Rules::One(Box::new(Limit { bucket: None, ..limit })));
    }
    match (own_field(&rule), args.default_plan.is_given()) {
        (Some((_, own)), true) => {
            let error = diagnostics.error(own.key(), "the limiter's own rule never applies beside `default-plan`");
            Err(error.reported_with("remove one of the two"))
        }
        (Some(_), false) => {
            let limit = limit::single(&rule, &args.bucket, at, context, diagnostics)?;
            Ok(Rules::One(Box::new(limit)))
        }
        (None, true) => Ok(Rules::Several(Vec::new())),
        (None, false) => {
            let error = diagnostics.error(args.plans.span().unwrap_or(at), "no rule for requests without a plan");
            Err(error.reported_with("`default-plan: NAME`, or rules of the limiter's own beside `plans`"))
        }
    }
}

/// Reports a field of a rule beside a list of rules.
pub(super) fn report_fields_beside_limits(rule: &RuleArgs, diagnostics: &mut Diagnostics) -> Result<(), Reported> {
    let Some((field, at)) = own_field(rule) else { return Ok(()) };
    let message = format!("`{field}` cannot be beside `limits`: fields of rules belong into the list");
    Err(diagnostics.error(at.key(), message).reported_with("move it to its rule"))
}

/// Returns the first field of a rule that the file has.
fn own_field(rule: &RuleArgs) -> Option<(String, Span)> {
    rule.places().into_iter().find_map(|(field, span)| Some((field, span?)))
}
