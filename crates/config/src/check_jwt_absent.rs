//! `jwt:` in a build without it.

use tollgate_filters::key_resolver::KeyResolver;

use super::check::Nodes;
use super::problem::Sink;
use super::raw_jwt::RawJwt;
use super::spot::Spot;
use super::yaml::Origin;

/// What `jwt:CLAIM` is bound to: nothing.
pub(crate) struct Tokens;

impl Tokens {
    pub(crate) fn check(raw: Option<&Spot<RawJwt>>, _: &Nodes<'_>, sink: &mut Sink) -> Self {
        if let Some(raw) = raw {
            sink.error(raw.origin.key(), "`jwt` needs a build with the feature `jwt`, which this one lacks")
                .help("build without `--no-default-features`, or with `--features jwt`");
        }
        Self
    }

    /// `resolver` as it is: a `jwt:CLAIM` was refused by name.
    #[expect(clippy::unused_self, reason = "the same shape as in a build with the feature")]
    pub(crate) fn bind(&self, resolver: KeyResolver, _: Origin, _: &mut Sink) -> KeyResolver {
        resolver
    }
}
