//! Plain filters: those whose layer needs nothing but its settings. Stores, metrics and the route do not matter to it.
//!
//! A new one is a variant of [`PlainFilter`], an arm in each of its matches, and a row of [`ENTRIES`]: all in this
//! file. The gateway stacks plain filters with [`with_plain_layer!`](crate::with_plain_layer).

#![deny(clippy::wildcard_enum_match_arm)]

use http::StatusCode;
use http::header::HeaderName;
use tollgate_filters::key_resolver::KeyResolver;
use tollgate_filters::{
    fallback_headers, redirect_to, remove_json_attributes, request_header_size, require_key, secure_headers,
    set_status, verify_api_key,
};

use crate::de::{Flag, Spanned};
use crate::diagnostics::{Diagnostics, Reported, reasons};
use crate::filters::model::Filter;
use crate::filters::row::{Arguments, Entry, FilterInput};
use crate::spec::{FieldName, Shortcut, Status, Text, above_zero};

/// Four times the limit of Spring's codecs.
const DEFAULT_JSON_SIZE: u64 = 1024 * 1024;

/// Filter whose layer needs its settings only.
#[derive(Clone, Debug)]
pub enum PlainFilter {
    /// Refuses requests without a valid API key.
    ApiKey(verify_api_key::FilterSettings),
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

/// Responses that a filter gives in place of the filters behind it, other than refusals.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OwnResponses {
    /// None.
    #[default]
    None,
    /// To requests whose response it has kept.
    Cached,
    /// To every request.
    All,
}

/// Evaluates `$result` with `$layer` as the new tower layer of a [`PlainFilter`].
///
/// Each layer has a type of its own, so that a function could not return it.
#[macro_export]
macro_rules! with_plain_layer {
    ($filter:expr, $layer:ident => $result:expr) => {
        $crate::with_plain_layer! { $filter, $layer => $result;
            ApiKey: verify_api_key::ApiKeyLayer,
            FallbackHeaders: fallback_headers::FallbackHeadersLayer,
            RedirectTo: redirect_to::RedirectToLayer,
            RemoveJsonAttributes: remove_json_attributes::RemoveJsonAttributesLayer,
            RequestHeaderSize: request_header_size::RequestHeaderSizeLayer,
            RequireKey: require_key::RequireKeyLayer,
            SecureHeaders: secure_headers::SecureHeadersLayer,
            SetStatus: set_status::SetStatusLayer,
        }
    };
    ($filter:expr, $layer:ident => $result:expr; $($kind:ident: $module:ident::$type:ident,)*) => {
        match $filter {$(
            $crate::PlainFilter::$kind(settings) => {
                let $layer = ::tollgate_filters::$module::$type::new(settings.clone());
                $result
            }
        )*}
    };
}

impl PlainFilter {
    /// Returns true if it depends on upstreams' responses, and must distinguish them from the gateway's own.
    pub(super) fn acts_on_responses(&self) -> bool {
        match self {
            Self::RemoveJsonAttributes(_) | Self::SecureHeaders(_) | Self::SetStatus(_) => true,
            Self::ApiKey(_) | Self::FallbackHeaders(_) | Self::RedirectTo(_) => false,
            Self::RequestHeaderSize(_) | Self::RequireKey(_) => false,
        }
    }

    /// Returns the responses that it gives in place of the filters behind it.
    pub(super) fn own_responses(&self) -> OwnResponses {
        match self {
            Self::RedirectTo(_) => OwnResponses::All,
            Self::RemoveJsonAttributes(_) | Self::SecureHeaders(_) | Self::SetStatus(_) => OwnResponses::None,
            Self::ApiKey(_) | Self::FallbackHeaders(_) => OwnResponses::None,
            Self::RequestHeaderSize(_) | Self::RequireKey(_) => OwnResponses::None,
        }
    }

    /// Returns the key that requests need.
    pub(super) fn key_resolver(&self) -> Option<&KeyResolver> {
        match self {
            Self::ApiKey(settings) => Some(settings.resolver()),
            Self::RequireKey(settings) => Some(&settings.key_resolver),
            Self::FallbackHeaders(_) | Self::RedirectTo(_) | Self::RemoveJsonAttributes(_) => None,
            Self::RequestHeaderSize(_) | Self::SecureHeaders(_) | Self::SetStatus(_) => None,
        }
    }

    /// Returns the names of the request's header fields that it sets.
    pub(super) fn set_headers(&self) -> Vec<&HeaderName> {
        match self {
            Self::FallbackHeaders(names) => {
                vec![&names.execution_type, &names.execution_message, &names.root_type, &names.root_message]
            }
            Self::ApiKey(settings) => vec![&settings.keys().id_header],
            Self::RedirectTo(_) | Self::RemoveJsonAttributes(_) | Self::RequestHeaderSize(_) => Vec::new(),
            Self::RequireKey(_) | Self::SecureHeaders(_) | Self::SetStatus(_) => Vec::new(),
        }
    }
}

/// Arguments of `FallbackHeaders`.
#[arguments]
struct FallbackHeadersArgs {
    /// Header with the exception. Default `Execution-Exception-Type`.
    execution_exception_type_header_name: Option<FieldName>,
    /// Header with its message. Default `Execution-Exception-Message`.
    execution_exception_message_header_name: Option<FieldName>,
    /// Header with its root cause. Default `Root-Cause-Exception-Type`.
    root_cause_exception_type_header_name: Option<FieldName>,
    /// Header with the message of the root cause. Default `Root-Cause-Exception-Message`.
    root_cause_exception_message_header_name: Option<FieldName>,
}

/// Arguments of `RedirectTo`.
#[arguments]
struct RedirectToArgs {
    /// A 3xx status, by number or name.
    status: Spanned<Status>,
    /// Target, exactly as in `Location`.
    url: Spanned<Text>,
    /// Appends the query of the request.
    include_request_params: Flag<false>,
}

/// Arguments of `RemoveJsonAttributesResponseBody`.
#[arguments]
struct RemoveJsonAttributesArgs {
    /// Names of the attributes.
    field_list: Vec<Spanned<Text>>,
    /// Removes them at any depth, not only from the outermost object.
    delete_recursively: Flag<false>,
}

/// Arguments of `RequireToken`.
#[arguments]
struct RequireTokenArgs {
    /// Status of refused requests, a 4xx one. Default 401.
    status: Option<Spanned<Status>>,
    /// Claim that the token must have, not empty. Default: none, and every valid token passes.
    claim: Option<Spanned<Text>>,
}

/// Argument of `SetStatus`.
#[arguments]
struct SetStatusArgs {
    /// Status by number or name.
    status: Status,
}

/// Rows of plain filters. Those whose checks are long have files of their own.
pub(super) const ENTRIES: &[Entry] = &[
    Entry {
        name: "FallbackHeaders",
        doc: "Adds request headers that tell a circuit breaker's fallback about the failure.",
        args: Arguments::of::<FallbackHeadersArgs>(Shortcut::Some(&[])),
        check: fallback_headers,
    },
    Entry {
        name: "RedirectTo",
        doc: "Responds with a redirect and does not call the upstream.",
        args: Arguments::of::<RedirectToArgs>(Shortcut::All),
        check: redirect_to,
    },
    Entry {
        name: "RemoveJsonAttributesResponseBody",
        doc: "Removes attributes from responses of the type `application/json` or `…+json`; if the body cannot be parsed, the response is 500.",
        args: Arguments::of::<RemoveJsonAttributesArgs>(Shortcut::ListAndFlag),
        check: remove_json_attributes,
    },
    Entry {
        name: "RequireToken",
        doc: "Refuses requests without a valid JSON Web Token, which `jwt` verifies.",
        args: Arguments::of::<RequireTokenArgs>(Shortcut::All),
        check: require_token,
    },
    Entry {
        name: "SetStatus",
        doc: "Replaces the status of the upstream's response.",
        args: Arguments::of::<SetStatusArgs>(Shortcut::All),
        check: set_status,
    },
];

fn fallback_headers(input: &FilterInput<'_>, diagnostics: &mut Diagnostics) -> Result<Filter, Reported> {
    let args: FallbackHeadersArgs = input.read(diagnostics)?;
    let default = fallback_headers::HeaderNames::default();
    let or = |name: Option<FieldName>, default| name.map_or(default, |name| name.0);
    let names = fallback_headers::HeaderNames {
        execution_type: or(args.execution_exception_type_header_name, default.execution_type),
        execution_message: or(args.execution_exception_message_header_name, default.execution_message),
        root_type: or(args.root_cause_exception_type_header_name, default.root_type),
        root_message: or(args.root_cause_exception_message_header_name, default.root_message),
    };
    Ok(Filter::Plain(PlainFilter::FallbackHeaders(names)))
}

fn redirect_to(input: &FilterInput<'_>, diagnostics: &mut Diagnostics) -> Result<Filter, Reported> {
    let RedirectToArgs { status, url, include_request_params } = input.read(diagnostics)?;
    let code = status.value.0;
    if !code.is_redirection() {
        let message = format!("`RedirectTo` needs a 3xx status, found `{}`", code.as_u16());
        return Err(diagnostics.error(status.span, message).reported());
    }
    redirect_to::Settings::new(code, &url.value, include_request_params.get())
        .map_err(|error| diagnostics.error(url.span, reasons(&error)).reported())
        .map(|settings| Filter::Plain(PlainFilter::RedirectTo(settings)))
}

fn remove_json_attributes(input: &FilterInput<'_>, diagnostics: &mut Diagnostics) -> Result<Filter, Reported> {
    let args: RemoveJsonAttributesArgs = input.read(diagnostics)?;
    if let Some(name) = args.field_list.iter().find(|name| name.value.contains(',')) {
        diagnostics
            .warn(name.span, format!("`{}` is one attribute name, as in Spring", &*name.value))
            .help("write several as a list: `fieldList: [a, b]`");
    }
    let size = &input.context.filter.remove_json_attributes_response_body.max_size;
    let max_bytes = usize::try_from(above_zero(size.as_ref(), DEFAULT_JSON_SIZE, diagnostics)).unwrap_or(usize::MAX);
    let names: Vec<String> = args.field_list.into_iter().map(|name| name.value.0).collect();
    let settings = remove_json_attributes::Settings::new(names, args.delete_recursively.get(), max_bytes);
    Ok(Filter::Plain(PlainFilter::RemoveJsonAttributes(settings)))
}

fn require_token(input: &FilterInput<'_>, diagnostics: &mut Diagnostics) -> Result<Filter, Reported> {
    let RequireTokenArgs { status, claim } = input.read(diagnostics)?;
    let code = status.map_or(StatusCode::UNAUTHORIZED, |status| status.value.0);
    if let Some(status) = status.filter(|_| !code.is_client_error()) {
        let message = format!("`RequireToken` needs a 4xx status, found `{}`", code.as_u16());
        return Err(diagnostics.error(status.span, message).reported());
    }
    let limiters = &input.context.limiters;
    let key_resolver = match claim {
        Some(claim) => limiters.key_resolvers.resolve(&format!("jwt:{}", &*claim.value), claim.span, diagnostics)?,
        None => limiters.key_resolvers.any_token(input.spec.span, diagnostics)?,
    };
    let key_resolver = limiters.with_preflights(key_resolver);
    Ok(Filter::Plain(PlainFilter::RequireKey(require_key::Settings::new(key_resolver, code))))
}

fn set_status(input: &FilterInput<'_>, diagnostics: &mut Diagnostics) -> Result<Filter, Reported> {
    let SetStatusArgs { status } = input.read(diagnostics)?;
    let header = input.context.original_status_header.clone();
    Ok(Filter::Plain(PlainFilter::SetStatus(set_status::Settings::new(status.0, header))))
}
