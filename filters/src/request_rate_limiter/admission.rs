//! Steps before the store decides: access lists and plans.

use std::sync::Arc;

use bytes::Bytes;
use http::Request;

use super::access::AccessList;
use super::event::{VerdictEvent, VerdictKind};
use super::limit::PlanResolver;
use super::limiter::{AccessControl, Limiter, PlanTable};
use super::outcome::Action;
use crate::context::RequestContext;
use crate::key_resolver::{KeyBuf, KeyResolver};
use tollgate_limiter::plan::PlanLookup;

impl Limiter {
    pub(super) fn plan<B>(&self, plans: &PlanTable, request: &Request<B>) -> PlanLookup {
        let mut buf = KeyBuf::new();
        let key = match &plans.resolver {
            PlanResolver::Request(resolver) => resolver,
            PlanResolver::Table(_) | PlanResolver::Source(_) => &self.key_resolver,
        };
        let Some(id) = key.resolve(request, &mut buf) else { return PlanLookup::Ready(None) };
        let text = std::str::from_utf8(id).ok();
        match &plans.resolver {
            PlanResolver::Request(_) => PlanLookup::Ready(text.map(Arc::from)),
            PlanResolver::Table(table) => {
                PlanLookup::Ready(text.and_then(|id| table.get(id)).map(|name| Arc::from(name.as_str())))
            }
            PlanResolver::Source(source) => source.plan(id),
        }
    }

    /// Decides requests of listed clients. A client on both lists is blocked.
    #[cold]
    pub(super) fn check_access<B, R: From<Bytes>>(
        &self,
        access: &AccessControl,
        request: &Request<B>,
    ) -> Option<Action<R>> {
        let notify = |kind| self.notify(VerdictEvent { rule: None, kind, source: None });
        Some(match access.listed(request)? {
            Listed::Blocked if access.enforced => {
                notify(VerdictKind::Blocked);
                Action::Refuse(access.blocked.to_response(request))
            }
            Listed::Blocked => {
                notify(VerdictKind::Observed);
                Action::Forward(None)
            }
            Listed::Exempt => {
                notify(VerdictKind::Exempt);
                Action::Forward(None)
            }
        })
    }
}

/// List that contains a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Listed {
    Blocked,
    Exempt,
}

impl AccessControl {
    /// Returns the list that contains the client of `request`.
    pub(super) fn listed<B>(&self, request: &Request<B>) -> Option<Listed> {
        let address = request.extensions().get::<RequestContext>().and_then(|context| context.client_ip);
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
