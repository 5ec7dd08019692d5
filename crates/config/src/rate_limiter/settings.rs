//! Of whom, what the client is told, and who is let through: what is said once for all rules of a limiter.

use std::sync::Arc;

use http::StatusCode;
use ipnet::IpNet;
use tollgate_filters::headers::{Families, HeaderNames};
use tollgate_filters::key_resolver::KeyResolver;
use tollgate_filters::request_rate_limiter::{AccessList, ErrorBody, OnLimit, Settings, Template};

use crate::de::arg::Arg;
use crate::de::spanned::Spanned;
use crate::de::values::{flag, header_name, refusal_of};
use crate::diagnostics::Diagnostics;
use crate::rate_limiter::args::Section;
use crate::rate_limiter::limit::enforcement;
use crate::rate_limiter::limits::Limits;
use crate::rate_limiter::raw::RawEmptyKey;
use crate::sections::forwarding::trusted_proxies::network;
use crate::sections::key_resolvers::one_key_resolver;
use crate::yaml::Span;

/// Everything that is said once.
pub(super) fn settings(section: &Section<'_>, limits: &Limits<'_>, diagnostics: &mut Diagnostics) -> Option<Settings> {
    let key_resolver = if section.has("key-resolver") {
        key_resolver(section, limits, diagnostics)
    } else {
        Some(KeyResolver::principal())
    };
    let deny_empty_key = flag(section.get("deny-empty-key", diagnostics), limits.deny_empty_key, diagnostics);
    let (throws, default_status) = thrown(section, limits, diagnostics)?;
    let status = status(section, "status-code", default_status, diagnostics);
    let empty_key_status = status_named(section, ["empty-key-status", "empty-key-status-code"], limits, diagnostics);
    let block_status = self::status(section, "block-status", StatusCode::FORBIDDEN, diagnostics);
    let error_body = error_body(section, diagnostics);
    let headers = header_names(section, limits, diagnostics);
    let enforcement = enforcement(section, diagnostics);
    let tells_would_deny = flag(section.get("would-deny-header", diagnostics), false, diagnostics);
    let on_limit = on_limit(section, throws, diagnostics);
    let (exempt, block) = (access(section, "exempt", diagnostics), access(section, "block", diagnostics));
    Some(Settings {
        key_resolver: key_resolver?,
        status: status?,
        deny_empty_key: deny_empty_key?,
        empty_key_status: empty_key_status?,
        headers: headers?,
        error_body: error_body?,
        enforcement: enforcement?,
        tells_would_deny: tells_would_deny?,
        exempt,
        block,
        block_status: block_status?,
        on_limit: on_limit?,
        ..Settings::default()
    })
}

/// The resolver, or the list of them, under `key-resolver`.
pub(super) fn key_resolver(
    section: &Section<'_>,
    limits: &Limits<'_>,
    diagnostics: &mut Diagnostics,
) -> Option<KeyResolver> {
    let listed = section.texts("key-resolver");
    if listed.is_empty() {
        section.get("key-resolver", diagnostics);
        return None;
    }
    let parts: Vec<_> = listed.into_iter().map(|arg| one_key_resolver(arg, &limits.resolvers, diagnostics)).collect();
    parts.into_iter().collect::<Option<Vec<_>>>().map(KeyResolver::composite)
}

/// Spring's `throw-on-limit`, and the status of denials that follows from it: an exception that no handler catches is
/// rendered as 500.
fn thrown(section: &Section<'_>, limits: &Limits<'_>, diagnostics: &mut Diagnostics) -> Option<(bool, StatusCode)> {
    let arg = section.get("throw-on-limit", diagnostics);
    if !flag(arg, limits.throw_on_limit, diagnostics)? {
        return Some((false, StatusCode::TOO_MANY_REQUESTS));
    }
    if let Some(arg) = arg {
        tell_of_throwing(arg.span, diagnostics);
    }
    Some((true, StatusCode::INTERNAL_SERVER_ERROR))
}

/// Spring's `filter.request-rate-limiter.throw-on-limit`, for all limiters.
pub(crate) fn throw_on_limit(raw: &RawEmptyKey, diagnostics: &mut Diagnostics) -> bool {
    let Some(Spanned { value: true, span }) = raw.throw_on_limit else { return false };
    tell_of_throwing(span, diagnostics);
    true
}

/// Says that nobody here handles an exception.
fn tell_of_throwing(at: Span, diagnostics: &mut Diagnostics) {
    diagnostics
        .info(
            at.key(),
            "`throw-on-limit` has no handler here: denied requests are answered 500, as in Spring without one",
        )
        .help("`on-limit: forward:/path` sends them elsewhere, `status-code` answers another status");
}

fn status(section: &Section<'_>, name: &str, default: StatusCode, diagnostics: &mut Diagnostics) -> Option<StatusCode> {
    match section.get(name, diagnostics) {
        None => Some(default),
        Some(arg) => refusal_of(arg, diagnostics),
    }
}

/// Spring has two names for it.
fn status_named(
    section: &Section<'_>,
    names: [&str; 2],
    limits: &Limits<'_>,
    diagnostics: &mut Diagnostics,
) -> Option<StatusCode> {
    if let (true, Some(twice)) = (section.has(names[0]), section.first(names[1])) {
        diagnostics.error(twice.span.key(), format!("`{}` is given twice", names[0]));
    }
    let name = if section.has(names[1]) { names[1] } else { names[0] };
    status(section, name, limits.empty_key_status, diagnostics)
}

fn error_body(section: &Section<'_>, diagnostics: &mut Diagnostics) -> Option<ErrorBody> {
    let word = section.word("error-body", &["problem", "empty"], diagnostics).ok()?;
    let body = section.map("body");
    let Some(first) = section.first("body") else {
        return Some(match word {
            Some(1) => ErrorBody::Empty,
            None if diagnostics.is_spring => ErrorBody::Empty,
            _ => ErrorBody::Problem,
        });
    };
    if let Some(twice) = section.first("error-body") {
        diagnostics.error(twice.span.key(), "`body` and `error-body` exclude each other").help("remove one of the two");
        return None;
    }
    body.check_names("`body`", &["content-type", "text"], diagnostics);
    let Some(text) = body.get("text", diagnostics) else {
        diagnostics
            .error(first.span, "`body` needs `text`")
            .help("body: {content-type: application/json, text: '{\"error\": \"try again in {retry-after} s\"}'}");
        return None;
    };
    let content_type = body.get("content-type", diagnostics);
    let value = content_type.map_or("text/plain; charset=utf-8", |arg| arg.value.as_str());
    let template = Template::parse(value, &text.value);
    if template.is_none() {
        let at = content_type.map_or(first.span, |arg| arg.span);
        diagnostics.error(at, format!("`{value}` cannot be a `Content-Type`"));
    }
    template.map(|template| ErrorBody::Template(Arc::new(template)))
}

fn header_names(section: &Section<'_>, limits: &Limits<'_>, diagnostics: &mut Diagnostics) -> Option<HeaderNames> {
    let mut headers = limits.headers.clone();
    headers.include = flag(section.get("include-headers", diagnostics), headers.include, diagnostics)?;
    for (name, header) in [
        ("remaining-header", &mut headers.remaining),
        ("replenish-rate-header", &mut headers.replenish_rate),
        ("burst-capacity-header", &mut headers.burst_capacity),
        ("requested-tokens-header", &mut headers.requested_tokens),
    ] {
        if let Some(arg) = section.get(name, diagnostics) {
            *header = header_name(&arg.value, arg.span, diagnostics)?;
        }
    }
    if section.has("headers") {
        let texts = section.texts("headers");
        headers.families = families(texts.iter().map(|arg| (arg.value.as_str(), arg.span)), diagnostics)?;
    }
    Some(headers)
}

/// Families of header fields by name.
pub(crate) fn families<'t>(
    names: impl Iterator<Item = (&'t str, crate::yaml::Span)>,
    diagnostics: &mut Diagnostics,
) -> Option<Families> {
    let mut families = Families { spring: false, draft: false, legacy: false };
    for (text, at) in names {
        for name in text.split(',').map(str::trim) {
            match name {
                "spring" => families.spring = true,
                "draft" => families.draft = true,
                "legacy" => families.legacy = true,
                _ => {
                    diagnostics
                        .error(at, format!("expected spring, draft or legacy, found `{name}`"))
                        .help("headers: [spring, draft]; `include-headers: false` for none");
                    return None;
                }
            }
        }
    }
    Some(families)
}

/// Key ids and networks. What reads as an address is one; `key:` before it makes it a key id.
fn access(section: &Section<'_>, name: &str, diagnostics: &mut Diagnostics) -> AccessList {
    let texts: Vec<&Arg> = section.texts(name);
    if texts.is_empty() && section.has(name) {
        section.get(name, diagnostics);
    }
    let (mut keys, mut networks): (Vec<String>, Vec<IpNet>) = (Vec::new(), Vec::new());
    for arg in texts {
        let text = arg.value.trim();
        if let Some(found) = network(text) {
            networks.push(found.trunc());
        } else if let Some((address, _)) = text.split_once('/').filter(|(address, _)| network(address).is_some()) {
            diagnostics
                .error(arg.span, format!("`{text}` is no network: its prefix does not fit `{address}`"))
                .help("`10.0.0.0/8`, `2001:db8::/32`; `key:…` for a key that looks like one");
        } else {
            keys.push(text.strip_prefix("key:").unwrap_or(text).to_owned());
        }
    }
    AccessList::new(keys, networks)
}

fn on_limit(section: &Section<'_>, throws: bool, diagnostics: &mut Diagnostics) -> Option<OnLimit> {
    let Some(arg) = section.get("on-limit", diagnostics) else { return Some(OnLimit::Refuse) };
    let text = arg.value.trim();
    if text == "deny" {
        return Some(OnLimit::Refuse);
    }
    let path = text.strip_prefix("forward:").map(str::trim).filter(|path| path.starts_with('/'));
    let path = path.and_then(|path| tollgate_routing::normalize(path).ok());
    let Some(path) = path.filter(|path| !path.contains(['?', '#'])) else {
        diagnostics
            .error(arg.span, format!("expected `forward:/path`, found `{text}`"))
            .help("the path of a route of this file; the query stays");
        return None;
    };
    if throws && section.has("throw-on-limit") {
        diagnostics.warn(arg.span.key(), "`on-limit` leaves nothing for `throw-on-limit` to do").help("remove that");
    }
    Some(OnLimit::Forward(path.into()))
}
