//! Check of a request's client without its rate: block list and key ids.

use http::Request;

use super::admission::Listed;
use super::enforcement::Enforcement;
use super::limiter::AccessControl;
use super::settings::Settings;
use crate::key_resolver::KeyResolver;

/// Check for refusals that do not depend on the rate: blocked clients, and requests without a key id.
///
/// A cache in front of a limiter runs this check before it responds. So only requests that the limiter could admit get a
/// stored response.
#[derive(Clone)]
pub struct IdentityCheck {
    access: Option<AccessControl>,
    /// Resolvers of enforced rules.
    resolvers: Vec<KeyResolver>,
    /// True if each of them must find a key id.
    needs_key: bool,
}

impl IdentityCheck {
    /// Creates the check of a limiter with `settings` and `rules`: those of every plan, each with its own resolver if it
    /// has one.
    pub fn new<'r>(
        settings: &Settings,
        rules: impl Iterator<Item = (Option<&'r KeyResolver>, Enforcement)> + Clone,
    ) -> Self {
        let access = AccessControl::new(rules.clone().filter_map(|(resolver, _)| resolver), settings);
        let mut resolvers = Vec::new();
        let enforced = rules.filter(|(_, enforcement)| enforcement.and(settings.enforcement).denies_any());
        for resolver in enforced.map(|(resolver, _)| resolver.unwrap_or(&settings.key_resolver)) {
            if !resolvers.contains(resolver) {
                resolvers.push(resolver.clone());
            }
        }
        Self { access, resolvers, needs_key: settings.deny_empty_key }
    }

    /// Returns true if the limiter can refuse `request` only because of its rate. With plans, the request must have the
    /// key ids of all of them.
    #[must_use]
    pub fn passes<B>(&self, request: &Request<B>) -> bool {
        match self.access.as_ref().map(|access| (access, access.listed(request))) {
            Some((access, Some(Listed::Blocked))) => return !access.enforced,
            Some((_, Some(Listed::Exempt))) => return true,
            Some((_, None)) | None => {}
        }
        self.resolvers.iter().all(|resolver| resolver.identifies(request, self.needs_key))
    }
}

impl std::fmt::Debug for IdentityCheck {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("IdentityCheck").field("resolvers", &self.resolvers).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use http::StatusCode;

    use super::*;
    use crate::request_rate_limiter::AccessList;

    fn request(key: Option<&str>) -> Request<()> {
        let request = Request::builder();
        key.map_or(Request::builder(), |key| request.header("x-key", key)).body(()).unwrap()
    }

    fn settings() -> Settings {
        Settings {
            key_resolver: KeyResolver::parse("header:x-key").unwrap(),
            block: AccessList::new(["foe".to_owned()], Vec::new()),
            exempt: AccessList::new(["friend".to_owned()], Vec::new()),
            block_status: StatusCode::FORBIDDEN,
            ..Settings::default()
        }
    }

    fn passes(settings: &Settings, rules: &[(Option<&str>, Enforcement)]) -> [bool; 4] {
        let rules: Vec<_> =
            rules.iter().map(|(text, mode)| (text.map(|text| KeyResolver::parse(text).unwrap()), *mode)).collect();
        let check = IdentityCheck::new(settings, rules.iter().map(|(resolver, mode)| (resolver.as_ref(), *mode)));
        [None, Some("ada"), Some("foe"), Some("friend")].map(|key| check.passes(&request(key)))
    }

    #[test]
    fn blocked_clients_and_missing_keys_do_not_pass() {
        let full = Enforcement::FULL;
        assert_eq!(passes(&settings(), &[(None, full)]), [false, true, false, true]);
        // A rule with a key of its own; an exempt client needs none.
        assert_eq!(passes(&settings(), &[(Some("header:x-tenant"), full)]), [false, false, false, true]);
        assert_eq!(passes(&settings(), &[(Some("method"), full)]), [true, true, false, true]);
        let share = Settings { enforcement: Enforcement::Keys(1), ..settings() };
        assert_eq!(passes(&share, &[(None, full)]), [false, true, false, true]);
    }

    #[test]
    fn requests_that_no_rule_refuses_pass() {
        assert_eq!(passes(&settings(), &[(None, Enforcement::OBSERVE)]), [true, true, false, true]);
        let shared = Settings { deny_empty_key: false, ..settings() };
        assert_eq!(passes(&shared, &[(None, Enforcement::FULL)]), [true, true, false, true]);
        let observing = Settings { enforcement: Enforcement::OBSERVE, ..settings() };
        assert_eq!(passes(&observing, &[(None, Enforcement::FULL)]), [true; 4]);
    }
}
