//! `SecureHeaders`.

use tollgate_filters::secure_headers;
use tollgate_filters::secure_headers::SecureHeader;

use crate::de::Spanned;
use crate::diagnostics::{Diagnostics, Reported};
use crate::filters::for_all_routes::RawSecureHeaders;
use crate::filters::model::Filter;
use crate::filters::plain::PlainFilter;
use crate::filters::row::{Arguments, Entry, FilterInput};
use crate::spec::{Shortcut, Text};

/// Arguments of `SecureHeaders`.
#[arguments]
struct SecureHeadersArgs {
    /// Headers to add besides the default ones: `permissions-policy`.
    enable: Option<Vec<Spanned<String>>>,
    /// Names of headers not to add.
    disable: Option<Vec<Spanned<String>>>,
    /// Value of `Permissions-Policy`, if enabled.
    permissions_policy: Option<Spanned<Text>>,
    /// Value of `X-Xss-Protection`.
    xss_protection_header_value: Option<Text>,
    /// Value of `Strict-Transport-Security`.
    strict_transport_security_header_value: Option<Text>,
    /// Value of `X-Frame-Options`.
    frame_options_header_value: Option<Text>,
    /// Value of `X-Content-Type-Options`.
    content_type_options_header_value: Option<Text>,
    /// Value of `Referrer-Policy`.
    referrer_policy_header_value: Option<Text>,
    /// Value of `Content-Security-Policy`.
    content_security_policy_header_value: Option<Text>,
    /// Value of `X-Download-Options`.
    download_options_header_value: Option<Text>,
    /// Value of `X-Permitted-Cross-Domain-Policies`.
    permitted_cross_domain_policies_header_value: Option<Text>,
    /// Value of `Permissions-Policy`, unless `permissionsPolicy` has one.
    permission_policy_header_value: Option<Text>,
}

pub(super) const ENTRIES: &[Entry] = &[Entry {
    name: "SecureHeaders",
    doc: "Adds security headers to responses that do not have them.",
    args: Arguments::of::<SecureHeadersArgs>(Shortcut::Some(&[])),
    check: secure_headers,
}];

fn secure_headers(input: &FilterInput<'_>, diagnostics: &mut Diagnostics) -> Result<Filter, Reported> {
    let args: SecureHeadersArgs = input.read(diagnostics)?;
    let for_all = input.context.filter.secure_headers.as_ref().map(|spanned| &spanned.value);
    // Lists of a route replace those for all routes.
    let has_lists = args.enable.is_some() || args.disable.is_some() || args.permissions_policy.is_some();
    let (enable, disable) = match for_all.filter(|_| !has_lists) {
        Some(for_all) => (&for_all.enable, &for_all.disable),
        None => (&args.enable, &args.disable),
    };
    let [enabled, disabled] = [enable, disable].map(|names| headers(names.as_deref().unwrap_or_default(), diagnostics));
    let is_added =
        |header: &SecureHeader| (header.is_default() || enabled.contains(header)) && !disabled.contains(header);
    if let Some(policy) = args.permissions_policy.as_ref().filter(|_| !is_added(&SecureHeader::PermissionsPolicy)) {
        diagnostics
            .mistake(policy.span, "`permissionsPolicy` has no effect: `Permissions-Policy` is not enabled")
            .ineffective()
            .help("add `enable: permissions-policy`");
    }
    let default = RawSecureHeaders::default();
    let value = |header: SecureHeader| args.value(header, for_all.unwrap_or(&default));
    let headers = SecureHeader::ALL.into_iter().filter(is_added).map(|header| (header, value(header)));
    let settings = secure_headers::Settings::new(headers)
        .map_err(|error| input.refuse(&error, Some(&error.value), diagnostics))?;
    Ok(Filter::Plain(PlainFilter::SecureHeaders(settings)))
}

impl SecureHeadersArgs {
    /// Returns the value of `header`: that of the route, else that of all routes.
    fn value<'v>(&'v self, header: SecureHeader, all: &'v RawSecureHeaders) -> Option<&'v str> {
        let (of_route, of_all) = match header {
            SecureHeader::XssProtection => (&self.xss_protection_header_value, &all.xss_protection_header),
            SecureHeader::StrictTransportSecurity => {
                (&self.strict_transport_security_header_value, &all.strict_transport_security)
            }
            SecureHeader::FrameOptions => (&self.frame_options_header_value, &all.frame_options),
            SecureHeader::ContentTypeOptions => (&self.content_type_options_header_value, &all.content_type_options),
            SecureHeader::ReferrerPolicy => (&self.referrer_policy_header_value, &all.referrer_policy),
            SecureHeader::ContentSecurityPolicy => {
                (&self.content_security_policy_header_value, &all.content_security_policy)
            }
            SecureHeader::DownloadOptions => (&self.download_options_header_value, &all.download_options),
            SecureHeader::PermittedCrossDomainPolicies => {
                (&self.permitted_cross_domain_policies_header_value, &all.permitted_cross_domain_policies)
            }
            SecureHeader::PermissionsPolicy => match &self.permissions_policy {
                Some(policy) => return Some(&policy.value),
                None => (&self.permission_policy_header_value, &all.permissions_policy),
            },
        };
        let of_route = of_route.as_deref().filter(|value| !value.is_empty());
        of_route.or(of_all.as_ref().map(|value| value.value.as_str()))
    }
}

/// Returns the headers with the names `names`. Reports unknown ones.
fn headers(names: &[Spanned<String>], diagnostics: &mut Diagnostics) -> Vec<SecureHeader> {
    let names_of_all = SecureHeader::ALL.map(SecureHeader::as_str);
    let mut headers = Vec::new();
    for Spanned { value: name, span } in names {
        let name = name.trim();
        match SecureHeader::ALL.into_iter().find(|header| header.as_str().eq_ignore_ascii_case(name)) {
            Some(header) => headers.push(header),
            None => diagnostics
                .mistake(*span, format!("`{name}` is not a header of `SecureHeaders`"))
                .suggest(name, &names_of_all),
        }
    }
    headers
}
