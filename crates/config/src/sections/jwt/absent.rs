//! `jwt:` in a build without the feature `jwt`.

use tollgate_filters::key_resolver::KeyResolver;

use crate::de::Spanned;
use crate::diagnostics::{Diagnostics, Reported};
use crate::sections::jwt::RawJwt;
use crate::yaml::Span;

/// Verifier of tokens: none.
pub(crate) struct Tokens;

impl Tokens {
    pub(crate) fn check(raw: Option<&Spanned<RawJwt>>, diagnostics: &mut Diagnostics) -> Self {
        if let Some(raw) = raw {
            diagnostics
                .error(raw.span.key(), "`jwt` needs a build with the feature `jwt`, which this one lacks")
                .help("build without `--no-default-features`, or with `--features jwt`");
        }
        Self
    }

    /// Reports that tokens cannot be verified.
    #[expect(clippy::unused_self, reason = "the same shape as in a build with the feature")]
    pub(crate) fn any(&self, at: Span, diagnostics: &mut Diagnostics) -> Result<KeyResolver, Reported> {
        let error = diagnostics.error(at, "`RequireToken` needs the feature `jwt`, which this build lacks");
        Err(error.reported_with("build without `--no-default-features`, or with `--features jwt`"))
    }

    /// Returns `resolver` unchanged: `jwt:CLAIM` is refused by its name.
    #[expect(clippy::unused_self, reason = "the same shape as in a build with the feature")]
    pub(crate) fn bind(&self, resolver: KeyResolver, _: Span, _: &mut Diagnostics) -> KeyResolver {
        resolver
    }
}
