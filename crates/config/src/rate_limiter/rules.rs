//! The rules of a limiter and of its plans: one, a list, or none if a plan applies to every request. A rule has a cost and an
//! enforcement.

use tollgate_filters::request_rate_limiter::{Cost, CostSource, Enforcement};
use tollgate_limiter::rule::{Rule, RuleShape};
use tollgate_limiter::store::MAX_CHECKS;

use crate::de::{Given, Spanned};
use crate::diagnostics::{Diagnostics, Reported};
use crate::rate_limiter::args::{LimiterArgs, ListedArgs, RuleArgs};
use crate::rate_limiter::context::LimiterContext;
use crate::rate_limiter::model::{Limit, Rules};
use crate::rate_limiter::naming::shown_name;
use crate::rate_limiter::rule::rule;
use crate::rate_limiter::value_enums::{CostArg, Mode};
use crate::rate_limiter::when::when;
use crate::spec::{MAX_COUNT, Percent};
use crate::yaml::Span;

/// Returns the limiter's own rules. Reports errors.
pub(super) fn rules(
    args: &LimiterArgs,
    at: Span,
    context: &LimiterContext<'_>,
    diagnostics: &mut Diagnostics,
) -> Result<Rules, Reported> {
    let own_field = args.rule.fields_of_file().next();
    if args.limits.is_given() || !args.plans.is_given() || own_field.is_some() && !args.default_plan.is_given() {
        let rules = one_or_list((&args.rule, &args.limits, &args.bucket), at, context, diagnostics)?;
        return Ok(match rules {
            // The bucket is that of the limiter.
            Rules::One(limit) if !args.plans.is_given() => Rules::One(Box::new(Limit { bucket: None, ..*limit })),
            rules => rules,
        });
    }
    match own_field {
        Some((_, rule_at)) => {
            let error = diagnostics.error(rule_at.key(), "the limiter's own rule never applies beside `default-plan`");
            Err(error.reported_with("remove one of the two"))
        }
        None if args.default_plan.is_given() => Ok(Rules::Several(Vec::new())),
        None => {
            let error = diagnostics.error(args.plans.span().unwrap_or(at), "no rule for requests without a plan");
            Err(error.reported_with("`default-plan: NAME`, or rules of the limiter's own beside `plans`"))
        }
    }
}

/// Returns the rules under `limits`, or the one rule beside it. Reports both.
pub(super) fn one_or_list(
    (rule, limits, bucket): (&RuleArgs, &Given<Vec<Given<ListedArgs>>>, &Given<String>),
    at: Span,
    context: &LimiterContext<'_>,
    diagnostics: &mut Diagnostics,
) -> Result<Rules, Reported> {
    let Some(limits) = limits.checked()? else {
        return single(rule, bucket, at, context, diagnostics).map(|limit| Rules::One(Box::new(limit)));
    };
    if let Some((field, at)) = rule.fields_of_file().next() {
        let message = format!("`{field}` cannot be beside `limits`: fields of rules belong into the list");
        return Err(diagnostics.error(at.key(), message).reported_with("move it to its rule"));
    }
    list(limits, context, diagnostics)
}

/// Returns the limit that `args`, found at `at`, describe.
fn single(
    args: &RuleArgs,
    bucket: &Given<String>,
    at: Span,
    context: &LimiterContext<'_>,
    diagnostics: &mut Diagnostics,
) -> Result<Limit, Reported> {
    let cost = cost(args, at, diagnostics);
    let rule = rule(args, at, diagnostics);
    let when = when(args, context, diagnostics);
    let (rule, cost, when) = (rule?, cost?, when?);
    let bucket = bucket.spanned().and_then(|bucket| shared_bucket(bucket, &rule, context, diagnostics).ok());
    let limit = Limit { rule, key_resolver: None, cost, enforcement: Enforcement::FULL, bucket, when };
    warn_of_impossible(args, at, &limit, diagnostics);
    Ok(limit)
}

/// Returns the rules under `limits`.
fn list(
    limits: &Spanned<Vec<Given<ListedArgs>>>,
    context: &LimiterContext<'_>,
    diagnostics: &mut Diagnostics,
) -> Result<Rules, Reported> {
    let items = &limits.value;
    if items.is_empty() {
        let help = "limits: [{name: second, replenish-rate: 10, burst-capacity: 20}]";
        return Err(diagnostics.error(limits.span, "`limits` is empty").reported_with(help));
    }
    if items.len() > MAX_CHECKS {
        let at = items[MAX_CHECKS].span().unwrap_or(limits.span);
        let error = diagnostics.error(at, format!("a limiter has at most {MAX_CHECKS} rules, found {}", items.len()));
        return Err(
            error.reported_with("add a second `RequestRateLimiter` to the route, which is decided after this one")
        );
    }
    let mut rules: Vec<(Option<String>, Limit)> = Vec::with_capacity(items.len());
    let mut result = Ok(());
    let empty = Spanned { value: ListedArgs::default(), span: limits.span };
    for (position, item) in items.iter().enumerate() {
        let item = item.checked().map(|item| item.unwrap_or(&empty));
        let limit = item.and_then(|item| Ok((item, listed(&item.value, item.span, context, diagnostics)?)));
        match limit {
            Ok((item, (name, limit))) => {
                let shown = shown_name(name.as_deref(), position);
                report_repeats(&item.value, &shown, &limit, &rules, item.span, diagnostics);
                rules.push((name, limit));
            }
            Err(reported) => result = Err(reported),
        }
    }
    result.map(|()| Rules::Several(rules))
}

/// Reports a name or a bucket that a rule above has.
fn report_repeats(
    item: &ListedArgs,
    name: &str,
    limit: &Limit,
    above: &[(Option<String>, Limit)],
    at: Span,
    diagnostics: &mut Diagnostics,
) {
    if (0..).zip(above).any(|(position, (other, _))| shown_name(other.as_deref(), position) == name) {
        diagnostics
            .error(item.name.span().unwrap_or(at), format!("duplicate rule name `{name}`"))
            .help("give each rule its own name");
    }
    if let (Some(shared), Some(at)) = (&limit.bucket, item.bucket.span())
        && above.iter().any(|(_, other)| other.bucket.as_ref() == Some(shared))
    {
        diagnostics
            .error(at, format!("bucket `{shared}` belongs to a rule above: a request would be counted in it twice"))
            .help("give each rule of a list its own bucket");
    }
}

fn listed(
    item: &ListedArgs,
    at: Span,
    context: &LimiterContext<'_>,
    diagnostics: &mut Diagnostics,
) -> Result<(Option<String>, Limit), Reported> {
    let name = match item.name.checked()? {
        None => None,
        Some(name) => Some(identifier(&name.value, "a rule's name", name.span, diagnostics)?),
    };
    let key_resolver = item.key_resolver.checked().and_then(|texts| {
        let texts = texts.map_or(&[][..], |texts| texts.value.items());
        context.key_resolvers.resolve_all(texts, diagnostics)
    });
    let limit = single(&item.rule, &item.bucket, at, context, diagnostics);
    let enforcement = enforcement(&item.mode, &item.enforce_percent, diagnostics);
    let key_resolver = key_resolver?.map(|resolver| context.with_preflights(resolver));
    let limit = Limit { key_resolver, enforcement: enforcement?, ..limit? };
    Ok((name, limit))
}

/// Checks a name that becomes a part of a bucket's.
pub(super) fn identifier(
    text: &str,
    subject: &str,
    at: Span,
    diagnostics: &mut Diagnostics,
) -> Result<String, Reported> {
    let text = text.trim();
    let fits = text.starts_with(|c: char| c.is_ascii_alphabetic())
        && text.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-'));
    if !fits {
        let message = format!("{subject} must be a letter and then letters, digits, `-` and `_`, found `{text}`");
        return Err(diagnostics.error(at, message).reported());
    }
    Ok(text.to_owned())
}

/// Returns the name of a shared bucket. Warns if another limiter shares it under another rule.
fn shared_bucket(
    bucket: &Spanned<String>,
    rule: &Rule,
    context: &LimiterContext<'_>,
    diagnostics: &mut Diagnostics,
) -> Result<String, Reported> {
    let name = identifier(&bucket.value, "`bucket`", bucket.span, diagnostics)?;
    let mut buckets = context.limiter_buckets.borrow_mut();
    match buckets.get(&name) {
        Some(other_rule) if other_rule != rule => diagnostics
            .warn(bucket.span, format!("bucket `{name}` is shared with a limiter of another rule"))
            .help("give all limiters of a bucket the same rule: each decides by its own rule on the common count"),
        Some(_) => {}
        None => drop(buckets.insert(name.clone(), rule.clone())),
    }
    Ok(name)
}

/// Returns the enforcement that `mode` and `enforce-percent` describe.
pub(super) fn enforcement(
    mode: &Given<Mode>,
    percent: &Given<Percent>,
    diagnostics: &mut Diagnostics,
) -> Result<Enforcement, Reported> {
    let mode = mode.or(Mode::Enforce)?;
    let Some(percent) = percent.checked()? else {
        return Ok(match mode {
            Mode::Enforce => Enforcement::FULL,
            Mode::Observe => Enforcement::OBSERVE,
            Mode::Off => Enforcement::Off,
        });
    };
    if mode != Mode::Enforce {
        let error = diagnostics.error(percent.span.key(), "`enforce-percent` applies to `mode: enforce` only");
        return Err(error.reported_with("remove one of the two"));
    }
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "between 0 and 10,000")]
    Ok(Enforcement::PerTenThousand((percent.value.0 * 100.0).round() as u16))
}

/// Returns the cost that `cost`, `requested-tokens` and `max-cost` describe.
fn cost(args: &RuleArgs, at: Span, diagnostics: &mut Diagnostics) -> Result<Cost, Reported> {
    let tokens = args.requested_tokens.optional()?.map(|tokens| tokens.0);
    let max = args.max_cost.optional()?.map_or(MAX_COUNT, |max| max.0);
    let mut cost = Cost { source: CostSource::Fixed, tokens: tokens.unwrap_or(1), max };
    match args.cost.checked()? {
        None => {}
        Some(Spanned { value: CostArg::Source(source), .. }) => cost.source = source.clone(),
        Some(Spanned { value: CostArg::Tokens(number), span }) => {
            cost.tokens = *number;
            if tokens.is_some() {
                diagnostics
                    .error(span.key(), "`cost` as a number and `requested-tokens` mean the same")
                    .help("remove one");
            }
        }
    }
    if cost.tokens == 0 {
        let (field, place) = match tokens {
            Some(_) => ("requested-tokens", args.requested_tokens.span()),
            None => ("cost", args.cost.span()),
        };
        let message = format!("`{field}` must be at least 1, got 0");
        return Err(diagnostics.error(place.unwrap_or(at), message).reported());
    }
    let max_at = args.max_cost.span().unwrap_or(at);
    if cost.tokens > max {
        let message = format!("`max-cost` is below the {} tokens that a request takes", cost.tokens);
        return Err(diagnostics.error(max_at, message).reported());
    }
    if args.max_cost.is_given() && !cost.varies() {
        diagnostics
            .warn(max_at, "`max-cost` has no effect: every request takes the same")
            .ineffective()
            .help("remove it");
    }
    Ok(cost)
}

/// Warns of a limit under which every request is denied.
fn warn_of_impossible(args: &RuleArgs, at: Span, limit: &Limit, diagnostics: &mut Diagnostics) {
    let Some(message) = limit.denies_all() else { return };
    let field = limit.capacity_field();
    let place = args.fields_of_file().find(|(name, _)| *name == field);
    let warning = diagnostics.warn(place.map_or(at, |(_, at)| at), message);
    if limit.rule.capacity() > 0 {
        let cost = match args.cost.value() {
            Some(CostArg::Tokens(_)) => "cost",
            Some(CostArg::Source(_)) | None => "requested-tokens",
        };
        warning.help(match limit.rule.shape() {
            RuleShape::Pace { capacity, .. } => format!(
                "lower `{cost}` to at most {capacity}, or raise `max-wait`, and `max-queue` if it is set: a request waits \
                 for its tokens at the rate"
            ),
            _ => format!("raise `{field}` to at least `{cost}`"),
        });
    }
}
