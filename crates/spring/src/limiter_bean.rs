//! Rate limiters of an application: `rate-limiter: "#{@myLimiter}"` of a `RequestRateLimiter`.

use crate::source::dotted;
use tollgate_document::diagnostics::{Missing, Section};
use tollgate_document::yaml::key::same_name;
use tollgate_document::yaml::{Node, NodeKind};

/// Filter with such a bean.
const FILTER: &str = "RequestRateLimiter";
/// Spring's own bean.
const OWN: &str = "redisRateLimiter";

/// Returns the bean that `text` names, unless it is Spring's own: `#{@myLimiter}`.
pub fn name(text: &str) -> Option<&str> {
    let name = text.trim().strip_prefix("#{")?.strip_suffix('}')?.trim();
    let name = name.strip_prefix('@').unwrap_or(name);
    let is_name = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    (!name.is_empty() && name != OWN && name.chars().all(is_name)).then_some(name)
}

/// Returns the bean of `filter`, which has the name `filter_name`.
pub(super) fn of(filter_name: &str, filter: &Node) -> Option<String> {
    let bean = filter.step("args").filter(|_| filter_name == FILTER)?.step("rate-limiter")?;
    bean.scalar().and_then(name).map(str::to_owned)
}

/// Puts `stand_in` in place of the bean of `filter`. If both are the same filter, the other arguments stay.
pub(super) fn replace(filter: &mut Node, stand_in: Node) {
    let is_limiter = |node: &Node| node.step("name").unwrap_or(node).scalar().is_some_and(|name| name.trim() == FILTER);
    if !is_limiter(&stand_in) {
        *filter = stand_in;
        return;
    }
    let NodeKind::Map(fields) = &mut filter.kind else { return };
    let Some((_, args)) = fields.iter_mut().find(|(key, _)| same_name(key, "args")) else { return };
    if let NodeKind::Map(args) = &mut args.kind {
        args.retain(|(key, _)| !same_name(key, "ratelimiter"));
    }
    if let Some(args_of_stand_in) = stand_in.step("args") {
        dotted::merge(args, args_of_stand_in.clone());
    }
}

/// Returns the proposal for the bean `name`. `has_numbers` is true if the arguments beside it have a rate.
pub fn missing(name: &str, has_numbers: bool) -> Missing {
    let (value, comment) = if has_numbers {
        (format!("{{use: {FILTER}}}"), "the numbers beside it count, if the bean is a RedisRateLimiter")
    } else {
        (
            format!("{{use: {FILTER}, args: {{redis-rate-limiter: {{replenishRate: 10, burstCapacity: 20}}}}}}"),
            "example numbers: write those of the bean; or `skip`, which admits every request",
        )
    };
    Missing { section: Section::FilterBeans, name: name.to_owned(), value, comment: comment.to_owned() }
}
