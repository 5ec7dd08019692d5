//! Plain filters: those whose layer needs nothing but its settings. Stores, metrics and the route do not matter to it.
//!
//! A new one is a variant of [`PlainFilter`], an arm in each of its two matches, and a row of [`ENTRIES`]: all in this
//! file. The gateway stacks plain filters with [`with_plain_layer!`](crate::with_plain_layer).

use http::StatusCode;
use http::header::HeaderName;
use tollgate_filters::{
    fallback_headers, redirect_to, remove_json_attributes, request_header_size, require_key, secure_headers, set_status,
};

use crate::diagnostics::{Diagnostics, reasons};
use crate::filters::entry::{Arguments, Entry, FilterInput};
use crate::filters::model::Filter;
use crate::spec::argument::{Argument, ArgumentType};
use crate::spec::values::{flag, header_name, status_of};

/// Filter whose layer needs its settings only.
#[derive(Clone, Debug)]
pub enum PlainFilter {
    /// Adds headers about the failure to requests of a fallback.
    FallbackHeaders(fallback_headers::HeaderNames),
    /// Responds with a redirect.
    RedirectTo(redirect_to::Settings),
    /// Removes attributes from JSON responses.
    RemoveJsonAttributes(remove_json_attributes::Settings),
    /// Refuses headers that are too large.
    RequestHeaderSize(request_header_size::Settings),
    /// Refuses requests without a key.
    RequireKey(require_key::Settings),
    /// Adds security headers to responses.
    SecureHeaders(secure_headers::Settings),
    /// Replaces the status of responses.
    SetStatus(set_status::Settings),
}

/// Evaluates `$result` with `$layer` as the new tower layer of a [`PlainFilter`].
///
/// Each layer has a type of its own, so that a function could not return it.
#[macro_export]
macro_rules! with_plain_layer {
    ($filter:expr, $layer:ident => $result:expr) => {
        match $filter {
            $crate::PlainFilter::FallbackHeaders(names) => {
                let $layer = ::tollgate_filters::fallback_headers::FallbackHeadersLayer::new(names.clone());
                $result
            }
            $crate::PlainFilter::RedirectTo(settings) => {
                let $layer = ::tollgate_filters::redirect_to::RedirectToLayer::new(settings.clone());
                $result
            }
            $crate::PlainFilter::RemoveJsonAttributes(settings) => {
                let $layer =
                    ::tollgate_filters::remove_json_attributes::RemoveJsonAttributesLayer::new(settings.clone());
                $result
            }
            $crate::PlainFilter::RequestHeaderSize(settings) => {
                let $layer = ::tollgate_filters::request_header_size::RequestHeaderSizeLayer::new(settings.clone());
                $result
            }
            $crate::PlainFilter::RequireKey(settings) => {
                let $layer = ::tollgate_filters::require_key::RequireKeyLayer::new(settings.clone());
                $result
            }
            $crate::PlainFilter::SecureHeaders(settings) => {
                let $layer = ::tollgate_filters::secure_headers::SecureHeadersLayer::new(settings.clone());
                $result
            }
            $crate::PlainFilter::SetStatus(settings) => {
                let $layer = ::tollgate_filters::set_status::SetStatusLayer::new(settings.clone());
                $result
            }
        }
    };
}

impl PlainFilter {
    /// Returns true if it depends on upstreams' responses, and must distinguish them from the gateway's own.
    pub(super) fn acts_on_responses(&self) -> bool {
        match self {
            Self::RemoveJsonAttributes(_) | Self::SecureHeaders(_) | Self::SetStatus(_) => true,
            Self::FallbackHeaders(_) | Self::RedirectTo(_) | Self::RequestHeaderSize(_) | Self::RequireKey(_) => false,
        }
    }
}

/// Rows of plain filters. Those whose checks are long have files of their own.
pub(super) const ENTRIES: &[Entry] = &[
    Entry {
        name: "FallbackHeaders",
        doc: "Adds request headers that tell a circuit breaker's fallback about the failure.",
        args: Arguments::Listed(&[
            header_argument(
                "executionExceptionTypeHeaderName",
                "Header with the exception. Default `Execution-Exception-Type`.",
            ),
            header_argument(
                "executionExceptionMessageHeaderName",
                "Header with its message. Default `Execution-Exception-Message`.",
            ),
            header_argument(
                "rootCauseExceptionTypeHeaderName",
                "Header with its root cause. Default `Root-Cause-Exception-Type`.",
            ),
            header_argument(
                "rootCauseExceptionMessageHeaderName",
                "Header with the message of the root cause. Default `Root-Cause-Exception-Message`.",
            ),
        ]),
        check: fallback_headers,
    },
    Entry {
        name: "RedirectTo",
        doc: "Responds with a redirect and does not call the upstream.",
        args: Arguments::Listed(&[
            Argument::new("status", "A 3xx status, by number or name.").of(ArgumentType::Status),
            Argument::new("url", "Target, exactly as in `Location`."),
            Argument::new("includeRequestParams", "Appends the query of the request. Default false.")
                .of(ArgumentType::Flag),
        ]),
        check: redirect_to,
    },
    Entry {
        name: "RequireToken",
        doc: "Refuses requests without a valid JSON Web Token, which `jwt` verifies.",
        args: Arguments::Listed(&[
            Argument::new("status", "Status of refused requests, a 4xx one. Default 401.").of(ArgumentType::Status),
            Argument::new(
                "claim",
                "Claim that the token must have, not empty. Default: none, and every valid token passes.",
            ),
        ]),
        check: require_token,
    },
    Entry {
        name: "SetStatus",
        doc: "Replaces the status of the upstream's response.",
        args: Arguments::Listed(&[Argument::new("status", "Status by number or name.").of(ArgumentType::Status)]),
        check: set_status,
    },
];

const fn header_argument(name: &'static str, doc: &'static str) -> Argument {
    Argument::new(name, doc).of(ArgumentType::HeaderName)
}

fn fallback_headers(input: &FilterInput<'_>, diagnostics: &mut Diagnostics) -> Option<Filter> {
    if let Some(arg) = input.spec.args.iter().find(|arg| arg.name.is_none()) {
        diagnostics
            .mistake(arg.span, format!("the shortcut form of `FallbackHeaders` has no argument for `{}`", arg.value))
            .help("use the long form for all arguments: `name: FallbackHeaders` and `args:`");
        return Some(Filter::Plain(PlainFilter::FallbackHeaders(fallback_headers::HeaderNames::default())));
    }
    let found: [_; 4] = input.arguments(diagnostics);
    let mut names = fallback_headers::HeaderNames::default();
    let fields: [&mut HeaderName; 4] =
        [&mut names.execution_type, &mut names.execution_message, &mut names.root_type, &mut names.root_message];
    for (arg, field) in found.into_iter().zip(fields) {
        if let Some(arg) = arg {
            *field = header_name(&arg.value, arg.span, diagnostics)?;
        }
    }
    Some(Filter::Plain(PlainFilter::FallbackHeaders(names)))
}

fn redirect_to(input: &FilterInput<'_>, diagnostics: &mut Diagnostics) -> Option<Filter> {
    let spec = input.spec;
    let [status, url, params] = input.arguments(diagnostics);
    let (status, url) = (spec.required(status, "status", diagnostics)?, spec.required(url, "url", diagnostics)?);
    let code = status_of(status, diagnostics)?;
    if !code.is_redirection() {
        diagnostics.error(status.span, format!("`RedirectTo` needs a 3xx status, found `{}`", status.value));
        return None;
    }
    redirect_to::Settings::new(code, &url.value, flag(params, false, diagnostics)?)
        .map_err(|error| diagnostics.error(url.span, reasons(&error)))
        .ok()
        .map(|settings| Filter::Plain(PlainFilter::RedirectTo(settings)))
}

fn require_token(input: &FilterInput<'_>, diagnostics: &mut Diagnostics) -> Option<Filter> {
    let [status, claim] = input.arguments(diagnostics);
    let code = match status {
        Some(status) => status_of(status, diagnostics)?,
        None => StatusCode::UNAUTHORIZED,
    };
    if let Some(status) = status.filter(|_| !code.is_client_error()) {
        diagnostics.error(status.span, format!("`RequireToken` needs a 4xx status, found `{}`", status.value));
        return None;
    }
    let limiters = &input.context.limiters;
    let key_resolver = match claim {
        Some(claim) => limiters.key_resolvers.resolve(&format!("jwt:{}", claim.value), claim.span, diagnostics)?,
        None => limiters.key_resolvers.any_token(input.spec.span, diagnostics)?,
    };
    let key_resolver = limiters.with_preflights(key_resolver);
    Some(Filter::Plain(PlainFilter::RequireKey(require_key::Settings { key_resolver, status: code })))
}

fn set_status(input: &FilterInput<'_>, diagnostics: &mut Diagnostics) -> Option<Filter> {
    let [status] = input.arguments(diagnostics);
    let status = status_of(input.spec.required(status, "status", diagnostics)?, diagnostics)?;
    let header = input.context.original_status_header.clone();
    Some(Filter::Plain(PlainFilter::SetStatus(set_status::Settings::new(status, header))))
}
