//! Raw settings of predicates.

use std::collections::BTreeMap;

use crate::de::{Flag, Spanned};
#[cfg(test)]
use crate::sections::Scalar;

/// Settings of predicates on all routes.
#[section]
pub(crate) struct RawPredicateSettings {
    /// The predicate `Host`.
    pub(crate) host: RawHostPredicate,
    /// The predicate `Path`.
    pub(crate) path: RawPathPredicate,
}

/// The predicate `Path`.
#[section]
pub(crate) struct RawPathPredicate {
    /// Default of the argument `matchTrailingSlash`, which ignores a `/` at the end of a path. Default {}; true for the routes of Spring Cloud Gateway up to 4.3.
    pub(crate) match_trailing_slash: Flag<false>,
}

/// The predicate `Host`.
#[section]
pub(crate) struct RawHostPredicate {
    /// Includes the port of `Host`, as in Spring: `**.a.org` does not match `www.a.org:8080`, `**.a.org:*` does. `false` ignores the port. Default: a pattern without a port matches any port; in Spring files true.
    pub(crate) include_port: Option<bool>,
}

/// API versions, for the predicate `Version`.
#[section]
pub(crate) struct RawApiVersion {
    /// Sources of the requested version; the first one with a value is used.
    pub(crate) r#use: RawVersionUse,
    /// Version of requests without one. Default: none, and every `Version` matches.
    #[serde(alias = "default-version")]
    #[cfg_attr(test, schemars(with = "Option<Scalar>"))]
    pub(crate) default: Option<Spanned<String>>,
    /// Requires a version: without one no `Version` matches.
    pub(crate) required: Flag<false>,
    /// Supported versions; other versions match only a `Version` that names them. Default: any.
    #[cfg_attr(test, schemars(with = "Option<Vec<Scalar>>"))]
    pub(crate) supported: Option<Vec<Spanned<String>>>,
    /// Lets a `Version` match the version that it names even if it is not in `supported`.
    pub(crate) detect_supported: Flag<true>,
}

/// Sources of the requested version.
#[section]
pub(crate) struct RawVersionUse {
    /// Header name. Default: none.
    pub(crate) header: Option<Spanned<String>>,
    /// Name of a query parameter. Default: none.
    pub(crate) query_parameter: Option<String>,
    /// 0-based index of a path segment after `base-path`. Default: none.
    pub(crate) path_segment: Option<usize>,
    /// Parameter name by media type (`*`: any) in `Accept` and `Content-Type`; quote a type with dots `"[…]"`. Default: none.
    pub(crate) media_type_parameter: BTreeMap<String, String>,
}
