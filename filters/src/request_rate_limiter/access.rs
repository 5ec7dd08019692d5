//! Lists of exempt and blocked clients.

use std::collections::HashSet;
use std::net::IpAddr;

use http::Request;
use ipnet::IpNet;

use super::enforcement::Enforcement;
use super::limits::Settings;
use crate::context::Condition;
use crate::key_resolver::{KeyBuf, KeyResolver};
use crate::reply::Reply;

/// List of clients, by key id or network. A network contains a client by the address of the limiter's key, otherwise by that of
/// [`KeyResolver::client_ip`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AccessList {
    keys: HashSet<Box<[u8]>>,
    networks: Vec<IpNet>,
}

/// Lists of exempt and blocked clients of a limiter.
#[derive(Clone)]
pub(super) struct AccessControl {
    exempt: AccessList,
    block: AccessList,
    pub(super) blocked: Reply,
    /// False if the limiter only observes, and blocked requests pass.
    pub(super) enforced: bool,
    /// Every resolver of the limiter, its default first.
    resolvers: Vec<KeyResolver>,
}

/// List that contains a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Listed {
    Blocked,
    Exempt,
}

/// Check for refusals that do not depend on the rate: blocked clients, and requests without a key id.
///
/// A cache in front of a limiter runs this check before it responds. So only requests that the limiter could admit get a
/// stored response.
#[derive(Clone)]
pub struct IdentityCheck {
    access: Option<AccessControl>,
    /// Resolvers of enforced rules, with the conditions under which they apply.
    resolvers: Vec<(KeyResolver, Option<Condition>)>,
    /// True if each of them must find a key id.
    needs_key: bool,
}

// === impl AccessList ===

impl AccessList {
    /// Creates a list of key ids, as key resolvers return them, and networks.
    #[must_use]
    pub fn new(keys: impl IntoIterator<Item = String>, networks: Vec<IpNet>) -> Self {
        Self { keys: keys.into_iter().map(|key| key.into_bytes().into()).collect(), networks }
    }

    /// Adds the forms in which `resolvers` return the key ids of the list.
    pub fn add_normal_ids<'r>(&mut self, resolvers: impl Iterator<Item = &'r KeyResolver>) {
        for resolver in resolvers {
            let normal: Vec<Box<[u8]>> =
                self.keys.iter().map(|id| resolver.normal_id(id).into_owned().into()).collect();
            self.keys.extend(normal);
        }
    }

    /// Returns true if the list has no entry.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.keys.is_empty() && self.networks.is_empty()
    }

    /// Returns true if the list has networks.
    #[must_use]
    pub fn has_networks(&self) -> bool {
        !self.networks.is_empty()
    }

    /// Returns true if the list contains the client's address. An IPv4-mapped address counts as IPv4.
    pub(super) fn has_address(&self, address: Option<IpAddr>) -> bool {
        let Some(address) = address.filter(|_| self.has_networks()).map(|address| address.to_canonical()) else {
            return false;
        };
        self.networks.iter().any(|network| network.contains(&address))
    }

    /// Returns true if the list contains the key id.
    pub(super) fn has_key(&self, id: &[u8]) -> bool {
        self.keys.contains(id)
    }
}

// === impl AccessControl ===

impl AccessControl {
    /// Creates the lists of `settings`; `None` if both are empty. `rule_resolvers` are the resolvers that rules have
    /// instead of the limiter's.
    pub(super) fn new<'r>(
        rule_resolvers: impl Iterator<Item = &'r KeyResolver>,
        settings: &'r Settings,
    ) -> Option<Self> {
        if settings.exempt.is_empty() && settings.block.is_empty() {
            return None;
        }
        Some(Self {
            exempt: settings.exempt.clone(),
            block: settings.block.clone(),
            blocked: settings.error_body.refusal(settings.block_status, "blocked"),
            enforced: settings.enforcement.denies_any(),
            resolvers: distinct(std::iter::once(&settings.key_resolver).chain(rule_resolvers).cloned()),
        })
    }

    /// Returns the list that contains the client of `request`.
    pub(super) fn listed<B>(&self, request: &Request<B>) -> Option<Listed> {
        let reads_address = self.block.has_networks() || self.exempt.has_networks();
        let address = reads_address.then(|| self.resolvers.first()?.address(request)).flatten();
        let is_listed = |list: &AccessList, resolvers: &[KeyResolver]| {
            let mut buf = KeyBuf::new();
            list.has_address(address)
                || resolvers.iter().any(|key| key.resolve(request, &mut buf).is_some_and(|id| list.has_key(id)))
        };
        if is_listed(&self.block, &self.resolvers) {
            return Some(Listed::Blocked);
        }
        // Only the limiter's own key id makes a client exempt: clients may choose the key ids of single rules.
        is_listed(&self.exempt, &self.resolvers[..1]).then_some(Listed::Exempt)
    }
}

fn distinct<T: PartialEq>(all: impl Iterator<Item = T>) -> Vec<T> {
    let mut distinct = Vec::new();
    for item in all {
        if !distinct.contains(&item) {
            distinct.push(item);
        }
    }
    distinct
}

// === impl IdentityCheck ===

impl IdentityCheck {
    /// Creates the check of a limiter with `settings` and `rules`: those of every plan, each with its own resolver and its
    /// condition if it has one.
    pub fn new<'r>(
        settings: &'r Settings,
        rules: impl Iterator<Item = (Option<&'r KeyResolver>, Enforcement, Option<Condition>)> + Clone,
    ) -> Self {
        let access = AccessControl::new(rules.clone().filter_map(|(resolver, ..)| resolver), settings);
        let enforced = rules.filter(|(_, enforcement, _)| enforcement.and(settings.enforcement).denies_any());
        let resolvers = distinct(
            enforced.map(|(resolver, _, condition)| (resolver.unwrap_or(&settings.key_resolver).clone(), condition)),
        );
        Self { access, resolvers, needs_key: settings.deny_empty_key }
    }

    /// Returns true if the limiter can refuse `request` only because of its rate. With plans, the request must have the
    /// key ids of all of their rules that apply to it.
    #[must_use]
    pub fn passes<B>(&self, request: &Request<B>) -> bool {
        match self.access.as_ref().map(|access| (access, access.listed(request))) {
            Some((access, Some(Listed::Blocked))) => return !access.enforced,
            Some((_, Some(Listed::Exempt))) => return true,
            Some((_, None)) | None => {}
        }
        let mut applying = self.resolvers.iter().filter(|(_, condition)| condition.is_none_or(|it| it.holds(request)));
        applying.all(|(resolver, _)| resolver.identifies(request, self.needs_key))
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

    #[test]
    fn addresses_match_networks_and_keys_match_exactly() {
        let list = AccessList::new(["ada".to_owned()], vec!["10.0.0.0/8".parse().unwrap()]);
        let at = |text: &str| list.has_address(Some(text.parse().unwrap()));
        assert_eq!([at("10.1.2.3"), at("::ffff:10.1.2.3"), at("11.0.0.1"), at("::1")], [true, true, false, false]);
        assert!(!list.has_address(None));
        assert_eq!([list.has_key(b"ada"), list.has_key(b"Ada"), list.has_key(b"10.1.2.3")], [true, false, false]);
    }

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
        let check = IdentityCheck::new(settings, rules.iter().map(|(resolver, mode)| (resolver.as_ref(), *mode, None)));
        [None, Some("ada"), Some("foe"), Some("friend")].map(|key| check.passes(&request(key)))
    }

    #[test]
    fn blocked_clients_and_missing_keys_do_not_pass() {
        let full = Enforcement::FULL;
        assert_eq!(passes(&settings(), &[(None, full)]), [false, true, false, true]);
        // A rule with a key of its own; an exempt client needs none.
        assert_eq!(passes(&settings(), &[(Some("header:x-tenant"), full)]), [false, false, false, true]);
        assert_eq!(passes(&settings(), &[(Some("method"), full)]), [true, true, false, true]);
        let share = Settings { enforcement: Enforcement::PerTenThousand(1), ..settings() };
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
