//! Conditions of rules: `when`, and the bits of the conditions of a route.

use std::sync::Arc;

use http::Method;
use tollgate_filters::context::Condition;
use tollgate_routing::{Decision, Predicate, RequestView, Undecided};

use crate::rate_limiter::model::{Limit, RateLimiter};
use crate::spec::Audience;

/// Condition under which a rule applies to a request, as it was routed.
#[derive(Clone, Debug)]
pub struct When {
    /// Predicates, which must all match.
    pub predicates: Box<[Predicate]>,
    /// The predicates as in the file, for [`Audience::Shell`] and [`Audience::Network`].
    pub(super) texts: Box<[[String; 2]]>,
}

/// The different conditions of a route's rules, each with a bit of its own.
#[derive(Clone, Debug, Default)]
pub struct RouteConditions(Box<[Arc<When>]>);

// === impl When ===

impl When {
    /// Returns the text of each predicate as in the file, with values masked that `audience` may not see.
    pub fn texts(&self, audience: Audience) -> impl Iterator<Item = &str> {
        self.texts.iter().map(move |[shell, network]| match audience {
            Audience::Shell => shell.as_str(),
            Audience::Network => network.as_str(),
        })
    }

    /// Returns the texts of the predicates on one line.
    pub fn text(&self, audience: Audience) -> String {
        self.texts(audience).collect::<Vec<_>>().join(", ")
    }

    /// Returns true if it certainly holds for no request of `method`.
    pub(crate) fn excludes_method(&self, method: &Method) -> bool {
        let of_method = Predicate::method(&[method.to_string()]);
        of_method.is_ok_and(|of_method| Predicate::exclude(&self.predicates, &[of_method]))
    }

    /// Returns the text and the value of the first predicate that does not match `request`; `None` if the condition holds.
    pub fn mismatch(&self, request: &RequestView<'_>, audience: Audience) -> Option<(&str, String)> {
        let mut parts = self.predicates.iter().zip(self.texts(audience));
        let (predicate, text) = parts.find(|(predicate, _)| !predicate.matches(request))?;
        Some((text, predicate.observe(request)))
    }
}

// === impl RouteConditions ===

impl RouteConditions {
    /// Returns the conditions of the rules of `limiters`, which are those of a route.
    pub fn of<'l>(limiters: impl Iterator<Item = &'l RateLimiter>) -> Self {
        let mut all: Vec<Arc<When>> = Vec::new();
        for when in limiters.flat_map(RateLimiter::limits).filter_map(|limit| limit.when.as_ref()) {
            if !all.iter().any(|other| is_same(other, when)) {
                all.push(Arc::clone(when));
            }
        }
        Self(all.into())
    }

    /// Returns the number of conditions.
    pub(crate) fn count(&self) -> usize {
        self.0.len()
    }

    /// Returns the condition of a rule of the route; `None` if it applies to every request.
    pub fn of_rule(&self, limit: &Limit) -> Option<Condition> {
        let when = limit.when.as_ref()?;
        Condition::at(self.0.iter().position(|other| is_same(other, when))?)
    }

    /// Decides the conditions for a request as it was routed, and returns a bit for each that holds.
    ///
    /// # Errors
    /// A regular expression takes too long for this request.
    #[inline]
    pub fn decide(&self, request: &RequestView<'_>) -> Result<u64, Undecided> {
        let mut bits = 0;
        for (position, when) in self.0.iter().enumerate() {
            match Decision::all(when.predicates.iter().map(|predicate| predicate.decide(request))) {
                Decision::Yes => bits |= Condition::at(position).map_or(0, Condition::bit),
                Decision::No => {}
                Decision::Undecided => return Err(Undecided),
            }
        }
        Ok(bits)
    }
}

fn is_same(one: &Arc<When>, other: &Arc<When>) -> bool {
    Arc::ptr_eq(one, other) || one.predicates == other.predicates
}
