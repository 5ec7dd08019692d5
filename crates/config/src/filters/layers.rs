//! Filters that look at answers, or bound what is asked: `SecureHeaders`, `RequestHeaderSize`,
//! `RemoveJsonAttributesResponseBody`, `LocalResponseCache`.

use std::time::Duration;

use tollgate_filters::secure_headers::SecureHeader;
use tollgate_filters::{local_response_cache, remove_json_attributes, request_header_size, secure_headers};

use crate::de::arg::Arg;
use crate::de::canonical;
use crate::de::spanned::Spanned;
use crate::de::units::{Size, Time, parse_size, parse_time};
use crate::de::values::{flag, header_name};
use crate::diagnostics::{Diagnostics, closest, reasons};
use crate::filters::entry::{Argument, Call, Entry};
use crate::filters::raw::{RawLocalResponseCache, RawNoCacheStrategy, RawSecureHeaders};
use crate::model::{Filter, ResponseCache};
use crate::yaml::Span;

/// Spring's default for `RequestHeaderSize`.
const DEFAULT_HEADER_SIZE: u64 = 16_000;
/// What is collected of a JSON body: four times what Spring's codecs take.
const DEFAULT_JSON_SIZE: u64 = 1024 * 1024;
/// Spring's default for `LocalResponseCache`.
const DEFAULT_TIME_TO_LIVE: Duration = Duration::from_secs(300);
/// Spring has no bound. This is enough for four thousand answers of the usual 16 KB.
const DEFAULT_CACHE_SIZE: u64 = 64 * 1024 * 1024;

pub(super) const ENTRIES: &[Entry] = &[
    Entry {
        name: "SecureHeaders",
        doc: "Adds the headers that make browsers careful, where the upstream did not set them.",
        args: &[
            Argument::new("enable", "Headers to add besides the usual ones: `permissions-policy`."),
            Argument::new("disable", "Headers not to add, by their names."),
            Argument::new("permissionsPolicy", "Value of `Permissions-Policy`, where that is enabled."),
            Argument::new("xssProtectionHeaderValue", "Value of `X-Xss-Protection`."),
            Argument::new("strictTransportSecurityHeaderValue", "Value of `Strict-Transport-Security`."),
            Argument::new("frameOptionsHeaderValue", "Value of `X-Frame-Options`."),
            Argument::new("contentTypeOptionsHeaderValue", "Value of `X-Content-Type-Options`."),
            Argument::new("referrerPolicyHeaderValue", "Value of `Referrer-Policy`."),
            Argument::new("contentSecurityPolicyHeaderValue", "Value of `Content-Security-Policy`."),
            Argument::new("downloadOptionsHeaderValue", "Value of `X-Download-Options`."),
            Argument::new("permittedCrossDomainPoliciesHeaderValue", "Value of `X-Permitted-Cross-Domain-Policies`."),
            Argument::new(
                "permissionPolicyHeaderValue",
                "Value of `Permissions-Policy`, unless `permissionsPolicy` has one.",
            ),
        ],
        check: secure_headers,
    },
    Entry {
        name: "RequestHeaderSize",
        doc: "Refuses requests with a larger header, its name and values together, with 431.",
        args: &[
            Argument::new("maxSize", "Bytes, or a size such as `16KB`. Default 16000."),
            Argument::new("errorHeaderName", "Where the client is told which. Default `errorMessage`."),
        ],
        check: request_header_size,
    },
    Entry {
        name: "RemoveJsonAttributesResponseBody",
        doc: "Takes attributes out of `application/json` answers; one that cannot be looked into is answered 500.",
        args: &[
            Argument::new("fieldList", "The attributes' names."),
            Argument::new(
                "deleteRecursively",
                "Whether they go at any depth, or from the outermost object alone. Default false.",
            ),
        ],
        check: remove_json_attributes,
    },
    Entry {
        name: "LocalResponseCache",
        doc: "Keeps answers to GET in memory, before all other filters.",
        args: &[
            Argument::new(
                "timeToLive",
                "How long an answer is fresh at most. Default `filter.local-response-cache.time-to-live`.",
            ),
            Argument::new("size", "Bytes that are kept. Default `filter.local-response-cache.size`."),
        ],
        check: response_cache,
    },
];

fn secure_headers(call: &Call<'_>, diagnostics: &mut Diagnostics) -> Option<Filter> {
    if let Some(arg) = call.written.args.iter().find(|arg| arg.name.is_none()) {
        diagnostics
            .mistake(arg.span, "`SecureHeaders` takes no arguments in its short form")
            .help("write `name: SecureHeaders` and `args: {disable: x-frame-options}`");
        return None;
    }
    let written = call.written.with_joined_lists();
    let names: [&str; 12] = std::array::from_fn(|at| call.args.get(at).map_or("", |argument| argument.name));
    let [enable, disable, permissions, values @ ..] = written.bind(names, diagnostics);
    let global = call.settings.raw.secure_headers.as_ref().map(|spot| &spot.value);
    let (mut enabled, mut disabled) = (Vec::new(), Vec::new());
    let texts = |arg: Option<&Arg>| -> Vec<(String, Span)> {
        let each =
            |arg: &Arg| -> Vec<_> { arg.value.split(',').map(|name| (name.trim().to_owned(), arg.span)).collect() };
        arg.map(each).unwrap_or_default()
    };
    // What a route says replaces what holds for all.
    if enable.is_some() || disable.is_some() || permissions.is_some() {
        enabled.extend(texts(enable));
        disabled.extend(texts(disable));
    } else if let Some(global) = global {
        let spots = |list: &Option<Vec<Spanned<String>>>| -> Vec<_> {
            list.iter().flatten().map(|name| (name.value.trim().to_owned(), name.span)).collect()
        };
        enabled.extend(spots(&global.enable));
        disabled.extend(spots(&global.disable));
    }
    let [enabled, disabled] = [enabled, disabled].map(|names| headers(&names, diagnostics));
    let is_added =
        |header: &SecureHeader| (header.is_default() || enabled.contains(header)) && !disabled.contains(header);
    if let Some(arg) = permissions.filter(|_| !is_added(&SecureHeader::PermissionsPolicy)) {
        diagnostics
            .mistake(arg.span, "`permissionsPolicy` has no effect: `Permissions-Policy` is not enabled")
            .ineffective()
            .help("add `enable: permissions-policy`");
    }
    let value = |header: SecureHeader| {
        let own = values[header as usize].filter(|arg| !arg.value.is_empty());
        let own = permissions.filter(|_| header == SecureHeader::PermissionsPolicy).or(own);
        own.map(|arg| arg.value.as_str()).or_else(|| global.and_then(|global| of_all(global, header)))
    };
    let headers = SecureHeader::ALL.into_iter().filter(is_added).map(|header| (header, value(header)));
    let complain = |error| {
        let message = reasons(&error);
        diagnostics.error(written.quoted_in(&message), message);
    };
    secure_headers::Settings::new(headers).map_err(complain).ok().map(Filter::SecureHeaders)
}

/// The headers that `names` name.
fn headers(names: &[(String, Span)], diagnostics: &mut Diagnostics) -> Vec<SecureHeader> {
    let known = SecureHeader::ALL.map(SecureHeader::name);
    let mut headers = Vec::new();
    for (name, span) in names.iter().filter(|(name, _)| !name.is_empty()) {
        match SecureHeader::ALL.into_iter().find(|header| header.name().eq_ignore_ascii_case(name)) {
            Some(header) => headers.push(header),
            None => diagnostics.mistake(*span, format!("`{name}` is none of the headers of `SecureHeaders`")).help(
                match closest(name, known) {
                    Some(near) => format!("did you mean `{near}`?"),
                    None => format!("they are {}", known.join(", ")),
                },
            ),
        }
    }
    headers
}

fn of_all(global: &RawSecureHeaders, header: SecureHeader) -> Option<&str> {
    let value = match header {
        SecureHeader::XssProtection => &global.xss_protection_header,
        SecureHeader::StrictTransportSecurity => &global.strict_transport_security,
        SecureHeader::FrameOptions => &global.frame_options,
        SecureHeader::ContentTypeOptions => &global.content_type_options,
        SecureHeader::ReferrerPolicy => &global.referrer_policy,
        SecureHeader::ContentSecurityPolicy => &global.content_security_policy,
        SecureHeader::DownloadOptions => &global.download_options,
        SecureHeader::PermittedCrossDomainPolicies => &global.permitted_cross_domain_policies,
        SecureHeader::PermissionsPolicy => &global.permissions_policy,
    };
    value.as_ref().map(|value| value.value.as_str())
}

fn request_header_size(call: &Call<'_>, diagnostics: &mut Diagnostics) -> Option<Filter> {
    let [size, name] = call.bind(diagnostics);
    let max_bytes = match size {
        None => DEFAULT_HEADER_SIZE,
        Some(arg) => parse_size(&arg.value).map_err(|message| diagnostics.error(arg.span, message)).ok()?,
    };
    let settings = request_header_size::Settings::new(max_bytes);
    let Some(arg) = name else { return Some(Filter::RequestHeaderSize(settings)) };
    if diagnostics.is_spring && arg.name.is_none() {
        diagnostics
            .warn(arg.span, format!("Spring ignores the second argument of `{}`; here it holds", call.written.text))
            .help("for the same meaning in both write `name: RequestHeaderSize` and `args: {errorHeaderName: …}`");
    }
    let name = header_name(&arg.value, arg.span, diagnostics)?;
    Some(Filter::RequestHeaderSize(settings.error_header(name)))
}

fn remove_json_attributes(call: &Call<'_>, diagnostics: &mut Diagnostics) -> Option<Filter> {
    let written = call.written;
    let is_flag = |arg: &&Arg| arg.name.as_deref().is_some_and(|name| canonical(name) == "deleterecursively");
    let (names, recursively) = match written.args.iter().find(is_flag) {
        None => written.gather_with_flag(diagnostics)?,
        Some(arg) => {
            if diagnostics.is_spring && written.args.last().is_some_and(|last| !is_flag(&last)) {
                diagnostics
                    .warn(arg.span.key(), "Spring takes the last argument for the flag, whatever its name")
                    .help("write `deleteRecursively` behind `fieldList`");
            }
            let names: Vec<_> = written.args.iter().filter(|arg| !is_flag(arg)).map(|arg| arg.value.clone()).collect();
            if names.is_empty() {
                diagnostics.error(written.span, format!("`{}` needs the argument `fieldList`", written.name));
                return None;
            }
            (names, Some(flag(Some(arg), false, diagnostics)?))
        }
    };
    if let Some(arg) = written.args.iter().find(|arg| arg.value.contains(',')) {
        diagnostics
            .warn(arg.span, format!("`{}` is the name of one attribute here, as in Spring", arg.value))
            .help("write several as a list: `fieldList: [a, b]`");
    }
    let size = &call.settings.raw.remove_json_attributes_response_body.max_size;
    let max_bytes = usize::try_from(above_zero(size.as_ref(), DEFAULT_JSON_SIZE, diagnostics)).unwrap_or(usize::MAX);
    let settings = remove_json_attributes::Settings::new(names, recursively.unwrap_or(false), max_bytes);
    Some(Filter::RemoveJsonAttributes(settings))
}

fn response_cache(call: &Call<'_>, diagnostics: &mut Diagnostics) -> Option<Filter> {
    let [time_to_live, size] = call.bind(diagnostics);
    let raw = &call.settings.raw.local_response_cache;
    if diagnostics.is_spring && raw.enabled != Some(true) {
        diagnostics.warn(
            call.written.span,
            "Spring knows `LocalResponseCache` only with `filter.local-response-cache.enabled: true`; here it works",
        )
        .help("with that, routes without a cache of their own share one");
    }
    let mut cache = cache_for_all(raw, diagnostics);
    cache.is_shared = false;
    if let Some(arg) = time_to_live {
        let time = parse_time(&arg.value).map_err(|message| diagnostics.error(arg.span, message)).ok()?;
        let time = Spanned { value: Time(time), span: arg.span };
        cache.settings = settings(raw, Some(time), diagnostics);
    }
    if let Some(arg) = size {
        let size = parse_size(&arg.value).map_err(|message| diagnostics.error(arg.span, message)).ok()?;
        cache.max_bytes = above_zero(Some(&Spanned { value: Size(size), span: arg.span }), 0, diagnostics);
    } else if diagnostics.is_spring && raw.size.is_none() {
        diagnostics
            .info(call.written.span, "the cache holds up to 64 MB; Spring's has no bound unless it has a `size`");
    }
    Some(Filter::LocalResponseCache(cache))
}

/// The cache that routes share which have none of their own.
pub(crate) fn cache_for_all(raw: &RawLocalResponseCache, diagnostics: &mut Diagnostics) -> ResponseCache {
    ResponseCache {
        settings: settings(raw, raw.time_to_live, diagnostics),
        max_bytes: above_zero(raw.size.as_ref(), DEFAULT_CACHE_SIZE, diagnostics),
        is_shared: true,
        identity: 0,
    }
}

fn settings(
    raw: &RawLocalResponseCache,
    time: Option<Spanned<Time>>,
    diagnostics: &mut Diagnostics,
) -> local_response_cache::Settings {
    if let Some(time) = time.filter(|time| time.value.0 < Duration::from_secs(1)) {
        diagnostics
            .error(time.span, "must be at least a second: `max-age` counts in seconds")
            .help("remove the filter to keep nothing");
    }
    let renews = matches!(raw.request.no_cache_strategy, Some(RawNoCacheStrategy::UpdateCacheEntry));
    let time_to_live = time.map_or(DEFAULT_TIME_TO_LIVE, |time| time.value.0);
    local_response_cache::Settings::new(time_to_live).no_cache_renews(renews)
}

fn above_zero(size: Option<&Spanned<Size>>, default: u64, diagnostics: &mut Diagnostics) -> u64 {
    let Some(size) = size else { return default };
    if size.value.0 == 0 {
        diagnostics.error(size.span, "must be more than 0 bytes");
    }
    size.value.0
}
