//! `SecureHeaders`.

use tollgate_filters::secure_headers;
use tollgate_filters::secure_headers::SecureHeader;

use crate::de::spanned::Spanned;
use crate::diagnostics::{Diagnostics, closest, reasons};
use crate::filters::entry::{Arguments, Entry, FilterInput};
use crate::filters::model::Filter;
use crate::filters::plain::PlainFilter;
use crate::filters::raw::RawSecureHeaders;
use crate::spec::argument::{Argument, ArgumentType};
use crate::spec::definition::Arg;
use crate::yaml::Span;

pub(super) const ENTRIES: &[Entry] = &[Entry {
    name: "SecureHeaders",
    doc: "Adds security headers to responses that do not have them.",
    args: Arguments::Listed(&[
        Argument::new("enable", "Headers to add besides the default ones: `permissions-policy`.")
            .of(ArgumentType::List),
        Argument::new("disable", "Names of headers not to add.").of(ArgumentType::List),
        Argument::new("permissionsPolicy", "Value of `Permissions-Policy`, if enabled."),
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
    ]),
    check: secure_headers,
}];

fn secure_headers(input: &FilterInput<'_>, diagnostics: &mut Diagnostics) -> Option<Filter> {
    if let Some(arg) = input.spec.args.iter().find(|arg| arg.name.is_none()) {
        diagnostics
            .mistake(arg.span, "`SecureHeaders` takes no arguments in its shortcut form")
            .help("write `name: SecureHeaders` and `args: {disable: x-frame-options}`");
        return None;
    }
    let spec = input.spec.with_joined_lists();
    let names: [&str; 12] = std::array::from_fn(|at| input.args.get(at).map_or("", |argument| argument.name));
    let [enable, disable, permissions, values @ ..] = spec.arguments(names, diagnostics);
    let global = input.context.filter.secure_headers.as_ref().map(|spanned| &spanned.value);
    let (mut enabled, mut disabled) = (Vec::new(), Vec::new());
    let texts = |arg: Option<&Arg>| -> Vec<(String, Span)> {
        let each =
            |arg: &Arg| -> Vec<_> { arg.value.split(',').map(|name| (name.trim().to_owned(), arg.span)).collect() };
        arg.map(each).unwrap_or_default()
    };
    // Lists of a route replace those for all routes.
    if enable.is_some() || disable.is_some() || permissions.is_some() {
        enabled.extend(texts(enable));
        disabled.extend(texts(disable));
    } else if let Some(global) = global {
        let items = |list: &Option<Vec<Spanned<String>>>| -> Vec<_> {
            list.iter().flatten().map(|name| (name.value.trim().to_owned(), name.span)).collect()
        };
        enabled.extend(items(&global.enable));
        disabled.extend(items(&global.disable));
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
        diagnostics.error(spec.quoted_in(&message), message);
    };
    let settings = secure_headers::Settings::new(headers).map_err(complain).ok()?;
    Some(Filter::Plain(PlainFilter::SecureHeaders(settings)))
}

/// Returns the headers with the names `names`. Reports unknown ones.
fn headers(names: &[(String, Span)], diagnostics: &mut Diagnostics) -> Vec<SecureHeader> {
    let known = SecureHeader::ALL.map(SecureHeader::name);
    let mut headers = Vec::new();
    for (name, span) in names.iter().filter(|(name, _)| !name.is_empty()) {
        match SecureHeader::ALL.into_iter().find(|header| header.name().eq_ignore_ascii_case(name)) {
            Some(header) => headers.push(header),
            None => diagnostics.mistake(*span, format!("`{name}` is not a header of `SecureHeaders`")).help(
                match closest(name, known) {
                    Some(near) => format!("did you mean `{near}`?"),
                    None => format!("known here: {}", known.join(", ")),
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
