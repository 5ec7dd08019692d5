//! The limiter's own rules: one, a list, or none if a plan applies to every request.

use crate::diagnostics::Diagnostics;
use crate::rate_limiter::args::{LimiterArgs, RuleArgs};
use crate::rate_limiter::context::LimiterContext;
use crate::rate_limiter::limit;
use crate::rate_limiter::model::{Limit, Rules};
use crate::yaml::{Node, NodeKind, Span};

/// Reports `limits` and `plans` that are empty or of another shape. Returns true if there are none.
pub(super) fn check_shapes(tree: &Node, diagnostics: &mut Diagnostics) -> bool {
    let is_empty = |node: &Node| match &node.kind {
        NodeKind::Null => true,
        NodeKind::Seq(items) => items.is_empty(),
        NodeKind::Map(entries) => entries.is_empty(),
        NodeKind::Scalar(_) => false,
    };
    let limits = "limits: [{name: second, replenish-rate: 10, burst-capacity: 20}]";
    for (name, example) in [("limits", limits), ("plans", "plans: {free: {replenish-rate: 1, burst-capacity: 5}}")] {
        if let Some(node) = tree.step(name).filter(|node| is_empty(node)) {
            diagnostics.error(node.span, format!("`{name}` is empty")).help(example);
            return false;
        }
    }
    let Some(node) = tree.step("limits") else { return true };
    let stray = match &node.kind {
        NodeKind::Seq(items) => items.iter().find(|item| !matches!(item.kind, NodeKind::Map(_) | NodeKind::Null)),
        _ => Some(node),
    };
    if let Some(stray) = stray {
        diagnostics.error(stray.span, "`limits` must be a list of maps").help(limits);
    }
    stray.is_none()
}

/// Returns the limiter's own rules. Reports errors.
pub(super) fn rules(
    args: &LimiterArgs,
    at: Span,
    context: &LimiterContext<'_>,
    diagnostics: &mut Diagnostics,
) -> Option<Rules> {
    let rule = args.rule();
    if let Some(limits) = args.limits.checked().ok()? {
        report_fields_beside_limits(&rule, diagnostics)?;
        return limit::list(limits, context, diagnostics);
    }
    if !args.plans.is_given() {
        let limit = limit::single(&rule, &args.bucket, at, context, diagnostics)?;
        return Some(Rules::One(Box::new(Limit { bucket: None, ..limit })));
    }
    match (own_field(&rule), args.default_plan.is_given()) {
        (Some((_, own)), true) => {
            diagnostics
                .error(own.key(), "the limiter's own rule never applies beside `default-plan`")
                .help("remove one of the two");
            None
        }
        (Some(_), false) => {
            let limit = limit::single(&rule, &args.bucket, at, context, diagnostics)?;
            Some(Rules::One(Box::new(limit)))
        }
        (None, true) => Some(Rules::Several(Vec::new())),
        (None, false) => {
            diagnostics
                .error(args.plans.span().unwrap_or(at), "no rule for requests without a plan")
                .help("`default-plan: NAME`, or rules of the limiter's own beside `plans`");
            None
        }
    }
}

/// Reports a field of a rule beside a list of rules.
pub(super) fn report_fields_beside_limits(rule: &RuleArgs, diagnostics: &mut Diagnostics) -> Option<()> {
    let Some((field, at)) = own_field(rule) else { return Some(()) };
    diagnostics
        .error(at.key(), format!("`{field}` cannot be beside `limits`: fields of rules belong into the list"))
        .help("move it to its rule");
    None
}

/// Returns the first field of a rule that the file has.
fn own_field(rule: &RuleArgs) -> Option<(String, Span)> {
    rule.places().into_iter().find_map(|(field, span)| Some((field, span?)))
}
