//! Checks that outlive the request.

use crate::key::BucketKey;
use crate::rule::Rule;
use crate::store::Check;

/// A [`Check`] that owns its key and rule.
pub(crate) struct OwnedCheck {
    scope: Box<str>,
    id: Box<[u8]>,
    pub(crate) rule: Rule,
    pub(crate) cost: u64,
}

impl OwnedCheck {
    pub(crate) fn of(check: &Check<'_>) -> Self {
        let Check { key, rule, cost } = *check;
        Self { scope: key.scope.into(), id: key.id.into(), rule: rule.clone(), cost }
    }

    pub(crate) fn check(&self) -> Check<'_> {
        Check { key: BucketKey { scope: &self.scope, id: &self.id }, rule: &self.rule, cost: self.cost }
    }
}
