//! A rule with what a request takes of it and whether it denies; alone, or in a list.

use tollgate_filters::key_resolver::KeyResolver;
use tollgate_filters::request_rate_limiter::{Cost, CostSource, Enforcement};
use tollgate_limiter::rule::{MOST, Rule};
use tollgate_limiter::store::MAX_CHECKS;

use crate::de::units::parse_size;
use crate::de::values::header_name;
use crate::diagnostics::Diagnostics;
use crate::model::{Limit, Rules};
use crate::rate_limiter::args::Section;
use crate::rate_limiter::limits::Limits;
use crate::rate_limiter::rule::{FIELDS, rule};
use crate::rate_limiter::settings;
use crate::yaml::Span;

/// What every rule takes besides the fields of its algorithm.
pub(super) const OF_EVERY_RULE: [&str; 3] = ["requested-tokens", "cost", "max-cost"];

/// What a rule in a list takes besides.
const OF_LISTED: [&str; 5] = ["name", "key-resolver", "bucket", "mode", "enforce-percent"];

/// The rule of a section that has one of its own.
pub(super) fn single(
    section: &Section<'_>,
    span: Span,
    limits: &Limits<'_>,
    diagnostics: &mut Diagnostics,
) -> Option<Limit> {
    let cost = cost(section, span, diagnostics);
    let rule = rule(section, span, diagnostics);
    let (rule, cost) = (rule?, cost?);
    impossible(section, span, &rule, &cost, diagnostics);
    let bucket = bucket(section, &rule, limits, diagnostics);
    Some(Limit { rule, key_resolver: None, cost, enforcement: Enforcement::FULL, bucket })
}

/// The list under `limits`.
pub(super) fn list(
    section: &Section<'_>,
    span: Span,
    limits: &Limits<'_>,
    diagnostics: &mut Diagnostics,
) -> Option<Rules> {
    let items = section.items("limits", diagnostics);
    let known: Vec<&str> = OF_LISTED.into_iter().chain(FIELDS).chain(OF_EVERY_RULE).collect();
    let mut rules: Vec<(String, Limit)> = Vec::with_capacity(items.len());
    let mut is_whole = !items.is_empty();
    if items.len() > MAX_CHECKS {
        let at = items[MAX_CHECKS].at(span);
        diagnostics
            .error(at, format!("a limiter has at most {MAX_CHECKS} rules, found {}", items.len()))
            .help("a second `RequestRateLimiter` on the route takes more, decided after these");
        return None;
    }
    for (position, item) in items.iter().enumerate() {
        item.check_names("a rule", &known, diagnostics);
        let Some((name, limit)) = listed(item, position, span, limits, diagnostics) else {
            is_whole = false;
            continue;
        };
        if rules.iter().any(|(other, _)| *other == name) {
            let at = item.first("name").map_or(item.at(span), |arg| arg.span);
            diagnostics
                .error(at, format!("a rule of the name `{name}` stands above"))
                .help("give each rule its own name");
        }
        if let (Some(shared), Some(arg)) = (&limit.bucket, item.first("bucket"))
            && rules.iter().any(|(_, other)| other.bucket.as_ref() == Some(shared))
        {
            diagnostics
                .error(
                    arg.span,
                    format!("bucket `{shared}` is that of a rule above: a request would be counted in it twice"),
                )
                .help("give each rule of a list a bucket of its own");
        }
        rules.push((name, limit));
    }
    is_whole.then_some(Rules::Several(rules))
}

fn listed(
    item: &Section<'_>,
    position: usize,
    span: Span,
    limits: &Limits<'_>,
    diagnostics: &mut Diagnostics,
) -> Option<(String, Limit)> {
    let name = match item.get("name", diagnostics) {
        None => format!("rule{}", position + 1),
        Some(arg) => named(&arg.value, "a rule's name", arg.span, diagnostics)?,
    };
    let key_resolver: Option<Option<KeyResolver>> =
        if item.has("key-resolver") { settings::key_resolver(item, limits, diagnostics).map(Some) } else { Some(None) };
    let limit = single(item, span, limits, diagnostics);
    let enforcement = enforcement(item, diagnostics);
    let limit = Limit { key_resolver: key_resolver?, enforcement: enforcement?, ..limit? };
    Some((name, limit))
}

/// A name that can stand in a bucket's.
pub(super) fn named(text: &str, what: &str, at: Span, diagnostics: &mut Diagnostics) -> Option<String> {
    let text = text.trim();
    let fits = text.starts_with(|c: char| c.is_ascii_alphabetic())
        && text.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-'));
    if !fits {
        diagnostics.error(
            at,
            format!("{what} must begin with a letter and go on with letters, digits, `-` and `_`, found `{text}`"),
        );
    }
    fits.then(|| text.to_owned())
}

/// The shared bucket that a section names; a warning where it is shared under another rule.
fn bucket(section: &Section<'_>, rule: &Rule, limits: &Limits<'_>, diagnostics: &mut Diagnostics) -> Option<String> {
    let arg = section.get("bucket", diagnostics)?;
    let name = named(&arg.value, "`bucket`", arg.span, diagnostics)?;
    let mut buckets = limits.buckets.borrow_mut();
    match buckets.get(&name) {
        Some(known) if known != rule => diagnostics
            .warn(arg.span, format!("bucket `{name}` is shared with a limiter of another rule"))
            .help("give all that share a bucket the same rule: each request is decided by its own, on what all spent"),
        Some(_) => {}
        None => drop(buckets.insert(name.clone(), rule.clone())),
    }
    Some(name)
}

/// Whether it denies: `mode` and `enforce-percent`.
pub(super) fn enforcement(section: &Section<'_>, diagnostics: &mut Diagnostics) -> Option<Enforcement> {
    // YAML 1.1 writes `off` for false.
    let mode = section.word("mode", &["enforce", "observe", "off", "false"], diagnostics).ok()?.unwrap_or(0);
    let Some(arg) = section.get("enforce-percent", diagnostics) else {
        return Some([Enforcement::FULL, Enforcement::OBSERVE, Enforcement::Off][mode.min(2)]);
    };
    if mode != 0 {
        diagnostics
            .error(arg.span.key(), "`enforce-percent` goes with `mode: enforce` alone")
            .help("remove one of the two");
        return None;
    }
    let percent = arg.value.trim().trim_end_matches('%').trim().parse::<f64>().ok();
    let Some(percent) = percent.filter(|percent| (0.0..=100.0).contains(percent)) else {
        diagnostics
            .error(arg.span, format!("`enforce-percent` must be a number from 0 to 100, found `{}`", arg.value))
            .help("steps of 0.01 count; keys are chosen by their hash, always the same ones");
        return None;
    };
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "between 0 and 10,000")]
    Some(Enforcement::Keys((percent * 100.0).round() as u16))
}

/// What a request takes: `cost`, `requested-tokens` and `max-cost`.
fn cost(section: &Section<'_>, span: Span, diagnostics: &mut Diagnostics) -> Option<Cost> {
    let tokens = section.number("requested-tokens", diagnostics).ok()?;
    let most = section.number("max-cost", diagnostics).ok()?.unwrap_or(MOST);
    let written = section.get("cost", diagnostics);
    let mut cost = Cost { source: CostSource::Fixed, tokens: tokens.unwrap_or(1), most };
    if let Some(arg) = written {
        let text = arg.value.trim();
        let (kind, rest) = text.split_once([':', '/']).unwrap_or((text, ""));
        cost.source = match (kind.trim(), rest.trim()) {
            ("header", name) if !name.is_empty() => {
                CostSource::RequestHeader(header_name(name, arg.span, diagnostics)?)
            }
            ("response-header", name) if !name.is_empty() => {
                CostSource::ResponseHeader(header_name(name, arg.span, diagnostics)?)
            }
            ("body-bytes", unit) => CostSource::RequestBody { unit: bytes(unit, arg.span, diagnostics)? },
            ("response-body-bytes", unit) => CostSource::ResponseBody { unit: bytes(unit, arg.span, diagnostics)? },
            _ => {
                cost.tokens = section.number("cost", &mut Diagnostics::default()).ok().flatten().or_else(|| {
                    diagnostics
                        .error(arg.span, format!("`cost` must be a number or say where one stands, found `{text}`"))
                        .help("`header:NAME`, `response-header:NAME`, `body-bytes/1KB` or `response-body-bytes/1KB`");
                    None
                })?;
                if tokens.is_some() {
                    diagnostics
                        .error(arg.span.key(), "`cost` as a number and `requested-tokens` mean the same")
                        .help("remove one");
                }
                CostSource::Fixed
            }
        };
    }
    let at = |name: &str| section.first(name).map_or(section.at(span), |arg| arg.span);
    if cost.tokens == 0 {
        let field = if tokens.is_some() { "requested-tokens" } else { "cost" };
        diagnostics.error(at(field), format!("`{field}` must be at least 1, got 0"));
        return None;
    }
    if cost.tokens > most {
        diagnostics
            .error(at("max-cost"), format!("`max-cost` is below the {} tokens that a request takes", cost.tokens));
        return None;
    }
    if section.has("max-cost") && !cost.varies() {
        diagnostics
            .warn(at("max-cost"), "`max-cost` does nothing: every request takes the same")
            .ineffective()
            .help("remove it");
    }
    Some(cost)
}

/// Bytes a token.
fn bytes(unit: &str, at: Span, diagnostics: &mut Diagnostics) -> Option<u64> {
    match parse_size(if unit.is_empty() { "1" } else { unit }) {
        Ok(0) => diagnostics.error(at, "a token must stand for at least 1 byte"),
        Ok(unit) => return Some(unit),
        Err(message) => diagnostics.error(at, message),
    };
    None
}

/// Warns of rules that nobody ever passes.
fn impossible(section: &Section<'_>, span: Span, rule: &Rule, cost: &Cost, diagnostics: &mut Diagnostics) {
    let is_bucket = matches!(rule, Rule::TokenBucket(_) | Rule::Gcra(_));
    let field = if is_bucket { "burst-capacity" } else { "limit" };
    let at = section.first(field).map_or(section.at(span), |arg| arg.span);
    let most = rule.capacity();
    if most == 0 {
        diagnostics.warn(at, format!("`{field}: 0` denies every request"));
    } else if cost.tokens > most {
        let holds = if is_bucket { "the bucket holds" } else { "the limit is" };
        diagnostics
            .warn(at, format!("no request can ever pass: each takes {} tokens, {holds} {most}", cost.tokens))
            .help(format!("raise `{field}` to at least `requested-tokens`"));
    }
}
