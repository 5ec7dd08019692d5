//! Settings that apply to all rules of a limiter: key resolver, access lists and responses.

use std::sync::Arc;

use http::StatusCode;
use tollgate_filters::headers::{Families, HeaderNames};
use tollgate_filters::key_resolver::KeyResolver;
use tollgate_filters::request_rate_limiter::{ErrorBody, OnLimit, Settings, Template, TemplateError};

use crate::de::{Given, Spanned};
use crate::diagnostics::{Diagnostics, Reported};
use crate::rate_limiter::access;
use crate::rate_limiter::args::{BodyArgs, LimiterArgs};
use crate::rate_limiter::context::LimiterContext;
use crate::rate_limiter::rules::enforcement;
use crate::rate_limiter::value_enums::OnLimitArg;
use crate::spec::{Status, refusal};
use crate::yaml::Span;

/// Checks the settings that apply to all rules.
pub(super) fn settings(
    args: &LimiterArgs,
    context: &LimiterContext<'_>,
    diagnostics: &mut Diagnostics,
) -> Result<Settings, Reported> {
    let key_resolver = match args.key_resolver.checked() {
        Ok(texts) => {
            let texts = texts.map_or(&[][..], |texts| texts.value.items());
            context.key_resolvers.resolve_all(texts, diagnostics)
        }
        Err(reported) => Err(reported),
    };
    let (throws, default_status) = thrown(args, context, diagnostics)?;
    let status = status(&args.status_code, default_status, diagnostics);
    let empty_key_status = empty_key_status(args, context, diagnostics);
    let block_status = self::status(&args.block_status, StatusCode::FORBIDDEN, diagnostics);
    let error_body = error_body(args, context, diagnostics);
    let headers = header_names(args, context, diagnostics);
    let enforcement = enforcement(&args.mode, &args.enforce_percent, diagnostics);
    let on_limit = on_limit(args, throws, diagnostics);
    access::report_all_exempt(&args.exempt, diagnostics);
    let (exempt, block) = (access::list(&args.exempt, diagnostics), access::list(&args.block, diagnostics));
    let of_all = || context.key_resolvers.of_all().unwrap_or_else(KeyResolver::principal);
    Ok(Settings {
        key_resolver: context.with_preflights(key_resolver?.unwrap_or_else(of_all)),
        status: status?,
        deny_empty_key: args.deny_empty_key.or(context.settings.deny_empty_key.get())?,
        empty_key_status: empty_key_status?,
        headers: headers?,
        error_body: error_body?,
        error_format: args.error_format.or(context.error_format)?.into(),
        enforcement: enforcement?,
        would_deny_header: args.would_deny_header.or(false)?,
        exempt,
        block,
        block_status: block_status?,
        on_limit: on_limit?,
        ..Settings::default()
    })
}

/// Returns `throw-on-limit` and the status of denials that follows from it. Spring answers an exception without a
/// handler with 500.
fn thrown(
    args: &LimiterArgs,
    context: &LimiterContext<'_>,
    diagnostics: &mut Diagnostics,
) -> Result<(bool, StatusCode), Reported> {
    if !args.throw_on_limit.or(context.throw_on_limit)? {
        return Ok((false, StatusCode::TOO_MANY_REQUESTS));
    }
    if let Some(at) = args.throw_on_limit.span() {
        note_missing_handler(at, diagnostics);
    }
    Ok((true, StatusCode::INTERNAL_SERVER_ERROR))
}

/// Checks Spring's `filter.request-rate-limiter.throw-on-limit`, for all limiters.
pub(crate) fn throw_on_limit(throws: Option<Spanned<bool>>, diagnostics: &mut Diagnostics) -> bool {
    let Some(Spanned { value: true, span }) = throws else { return false };
    note_missing_handler(span, diagnostics);
    true
}

/// Notes that the gateway has no exception handlers.
fn note_missing_handler(at: Span, diagnostics: &mut Diagnostics) {
    diagnostics
        .note(at.key(), "`throw-on-limit` has no handler here: denied requests get 500, as in Spring without one")
        .help("`on-limit: forward:/path` reroutes them, `status-code` sets another status");
}

/// Returns the status of refusals, or `default` if absent. Reports one that is not an error status.
fn status(status: &Given<Status>, default: StatusCode, diagnostics: &mut Diagnostics) -> Result<StatusCode, Reported> {
    Ok(refusal(status.checked()?.copied(), default, diagnostics))
}

/// Returns `empty-key-status`, which has a second name in Spring.
fn empty_key_status(
    args: &LimiterArgs,
    context: &LimiterContext<'_>,
    diagnostics: &mut Diagnostics,
) -> Result<StatusCode, Reported> {
    let (our_key, spring) = (&args.empty_key_status, &args.empty_key_status_code);
    if let (true, Some(twice)) = (our_key.is_given(), spring.span()) {
        diagnostics
            .error(twice.key(), "`empty-key-status-code` is another name of `empty-key-status`")
            .help("remove one");
    }
    let status_key = if spring.is_given() { spring } else { our_key };
    status(status_key, context.empty_key_status, diagnostics)
}

fn error_body(
    args: &LimiterArgs,
    context: &LimiterContext<'_>,
    diagnostics: &mut Diagnostics,
) -> Result<ErrorBody, Reported> {
    let word = args.error_body.or(context.settings.error_body.0)?;
    let Some(body) = args.body.checked()? else { return Ok(word.into()) };
    if let Some(at) = args.error_body.span() {
        let error = diagnostics.error(at.key(), "`body` and `error-body` exclude each other");
        return Err(error.reported_with("remove one of the two"));
    }
    template(body, diagnostics).map(|template| ErrorBody::Template(Arc::new(template)))
}

fn template(body: &Spanned<BodyArgs>, diagnostics: &mut Diagnostics) -> Result<Template, Reported> {
    let content_type = body.value.content_type.checked()?;
    let Some(text) = body.value.text.checked()? else {
        let help = "body: {content-type: application/json, text: '{\"error\": \"try again in {retry-after} s\"}'}";
        return Err(diagnostics.error(body.span, "`body` needs `text`").reported_with(help));
    };
    let value = content_type.map_or("text/plain; charset=utf-8", |value| value.value.as_str());
    Template::parse(value, &text.value).map_err(|error| match error {
        TemplateError::Placeholder(ref name) => {
            let near = diagnostics.closest(name, Template::placeholders());
            let near = near.map(|near| format!("did you mean `{{{near}}}`? ")).unwrap_or_default();
            let placeholders: Vec<String> = Template::placeholders().map(|name| format!("`{{{name}}}`")).collect();
            let help = format!(
                "{near}known are {}; with a space, as in `{{ x }}`, any other name is text",
                placeholders.join(", ")
            );
            diagnostics.error(text.span, error.to_string()).reported_with(help)
        }
        TemplateError::Unclosed(ref name) => {
            diagnostics.error(text.span, error.to_string()).reported_with(format!("write `{{{name}}}`"))
        }
        error => {
            let at = content_type.map_or(body.span, |value| value.span);
            diagnostics.error(at, error.to_string()).reported()
        }
    })
}

fn header_names(
    args: &LimiterArgs,
    context: &LimiterContext<'_>,
    diagnostics: &mut Diagnostics,
) -> Result<HeaderNames, Reported> {
    let mut headers = context.headers.clone();
    headers.include = args.include_headers.or(headers.include)?;
    for (given, header) in [
        (&args.remaining_header, &mut headers.remaining),
        (&args.replenish_rate_header, &mut headers.replenish_rate),
        (&args.burst_capacity_header, &mut headers.burst_capacity),
        (&args.requested_tokens_header, &mut headers.requested_tokens),
    ] {
        if let Some(name) = given.optional()? {
            *header = name.0;
        }
    }
    if let Some(names) = args.headers.checked()?.filter(|names| !names.value.items().is_empty()) {
        headers.families = families(names.value.items(), diagnostics)?;
    }
    Ok(headers)
}

/// Reads names of families of header fields, which may be separated by commas.
pub(crate) fn families(names: &[Spanned<String>], diagnostics: &mut Diagnostics) -> Result<Families, Reported> {
    let mut families = Families { spring: false, remaining: false, draft: false, legacy: false };
    for text in names {
        for name in text.value.split(',').map(str::trim) {
            match name {
                "spring" => families.spring = true,
                "remaining" => families.remaining = true,
                "draft" => families.draft = true,
                "legacy" => families.legacy = true,
                _ => {
                    let message = format!("expected spring, remaining, draft or legacy, found `{name}`");
                    let help = "headers: [spring, draft]; `include-headers: false` for none";
                    return Err(diagnostics.error(text.span, message).reported_with(help));
                }
            }
        }
    }
    Ok(families)
}

fn on_limit(args: &LimiterArgs, throws: bool, diagnostics: &mut Diagnostics) -> Result<OnLimit, Reported> {
    match args.on_limit.checked()? {
        None | Some(Spanned { value: OnLimitArg::Deny, .. }) => Ok(OnLimit::Refuse),
        Some(Spanned { value: OnLimitArg::Forward(path), span }) => {
            if throws && args.throw_on_limit.is_given() {
                diagnostics.warn(span.key(), "`on-limit` overrides `throw-on-limit`").help("remove `throw-on-limit`");
            }
            Ok(OnLimit::Forward(path.as_str().into()))
        }
    }
}
