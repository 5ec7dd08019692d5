//! Settings that all predicates of one file share.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::de::Spanned;
use crate::diagnostics::Diagnostics;
use crate::predicates::for_all_routes::{RawApiVersion, RawVersionUse};
use crate::raw_config::RawConfig;
use crate::spec::{Syntax, header_name};
use crate::switches::Switches;
use tollgate_routing::{ApiVersions, HostPort, Predicate, PredicateSettings, Version, VersionSource, normalize};

/// Settings that all predicates of one file share.
pub(crate) struct PredicateContext<'s> {
    /// Syntax of predicates.
    pub(crate) syntax: Syntax,
    /// Disabled predicates.
    pub(crate) switches: &'s Switches,
    /// `base-path`, with a leading `/` and without a trailing one.
    pub(super) base_path: Option<String>,
    /// `predicate.path.match-trailing-slash`.
    pub(super) ignores_trailing_slash: bool,
    /// `predicate.host.include-port`.
    pub(super) host_port: HostPort,
    /// Settings that rows of `tollgate-routing` read.
    pub(super) settings: PredicateSettings,
}

impl<'s> PredicateContext<'s> {
    /// Checks `base-path`, `predicate` and `api-version`.
    pub(crate) fn check(
        raw: &RawConfig,
        syntax: Syntax,
        switches: &'s Switches,
        diagnostics: &mut Diagnostics,
    ) -> Self {
        let RawConfig { base_path, predicate, api_version, .. } = raw;
        let base_path = base_path.as_ref().and_then(|base| self::base_path(base, diagnostics));
        let depth = base_path.as_deref().map_or(0, |base| base.matches('/').count());
        Self {
            syntax,
            switches,
            ignores_trailing_slash: predicate.path.match_trailing_slash.get(),
            host_port: match predicate.host.include_port {
                Some(false) => HostPort::Ignored,
                Some(true) => HostPort::Included,
                None => HostPort::Optional,
            },
            settings: PredicateSettings {
                trusts_proxies: raw.trusted_proxies.is_some(),
                versions: Arc::new(match api_version {
                    Some(raw) => versions(raw, depth, diagnostics),
                    // Without `api-version`, no request has a version. So `Version` never matches, as in Spring.
                    None => ApiVersions { required: true, ..ApiVersions::default() },
                }),
            },
            base_path,
        }
    }

    /// Returns the predicate of a route without `Path` if there is a base path.
    pub(crate) fn below_base(&self) -> Option<Predicate> {
        Predicate::path(&[format!("{}/**", self.base_path.as_ref()?)], false).ok()
    }
}

/// Returns true for a path that a request can have as it is, without patterns.
pub(crate) fn is_plain_path(path: &str) -> bool {
    let is_visible = path.bytes().all(|byte| byte.is_ascii_graphic());
    let is_normal = normalize(path).is_ok_and(|normal| normal == path);
    is_visible && is_normal && !path.contains(['{', '}', '*', '?', '#', ';', '%'])
}

fn base_path(base: &Spanned<String>, diagnostics: &mut Diagnostics) -> Option<String> {
    let text = base.value.trim().trim_end_matches('/');
    if text.is_empty() {
        return None;
    }
    let path = format!("/{}", text.trim_start_matches('/'));
    if is_plain_path(&path) {
        return Some(path);
    }
    diagnostics
        .error(base.span, format!("`{text}` is not a valid base path: it must be plain text"))
        .help("write a path such as `/api`");
    None
}

/// Checks `api-version`. `depth`: number of segments of the base path, which indexes do not include.
fn versions(raw: &Spanned<RawApiVersion>, depth: usize, diagnostics: &mut Diagnostics) -> ApiVersions {
    let RawApiVersion { r#use, default, required, supported, detect_supported } = &raw.value;
    let mut read = |text: &Spanned<String>| {
        let version = Version::parse(&text.value);
        if version.is_none() {
            diagnostics.error(text.span, format!("`{}` is not a version such as 1.3", text.value));
        }
        version
    };
    let default_version = default.as_ref().and_then(&mut read);
    let supported = supported.iter().flatten().filter_map(read).collect();
    if let Some(default) = default.as_ref().filter(|_| required.get()) {
        diagnostics
            .mistake(default.span, "`default` and `required: true` exclude each other")
            .help("remove one of them");
    }
    let sources = sources(r#use, depth, diagnostics);
    if sources.is_empty() {
        diagnostics.mistake(raw.span, "`api-version` has no source of versions").help("add `use: {header: X-Version}`");
    }
    // Spring has no strategy then, not even the default version: `Version` never matches.
    let has_strategy = !sources.is_empty();
    ApiVersions {
        default: default_version.filter(|_| has_strategy),
        required: required.get() || !has_strategy,
        sources,
        supported,
        detect_supported: detect_supported.get(),
    }
}

/// Returns the sources in Spring Boot's order.
fn sources(raw: &RawVersionUse, depth: usize, diagnostics: &mut Diagnostics) -> Vec<VersionSource> {
    let RawVersionUse { header, query_parameter, path_segment, media_type_parameter } = raw;
    let header = header.as_ref().and_then(|name| header_name(&name.value, name.span, diagnostics));
    let query = query_parameter.clone().filter(|name| !name.is_empty());
    let media_types: &BTreeMap<String, String> = media_type_parameter;
    let media_types = media_types.iter().map(|(media_type, parameter)| VersionSource::MediaType {
        media_type: media_type.clone(),
        parameter: parameter.clone(),
    });
    let first = header.map(VersionSource::Header).into_iter().chain(query.map(VersionSource::Query));
    let segment = path_segment.map(|index| VersionSource::PathSegment(index + depth));
    first.chain(segment).chain(media_types).collect()
}
