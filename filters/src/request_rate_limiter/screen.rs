//! Before the store is asked: who is on a list, and what plan a request has.

use std::sync::Arc;

use bytes::Bytes;
use http::Request;

use super::access::AccessList;
use super::event::{Event, Finding};
use super::limit::PlanResolver;
use super::limiter::{Access, Answer, Limiter, Plans};
use crate::context::RequestContext;
use crate::key_resolver::{KeyBuf, KeyResolver};
use tollgate_limiter::plan::PlanLookup;

impl Limiter {
    pub(super) fn plan<B>(&self, plans: &Plans, request: &Request<B>) -> PlanLookup {
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

    /// The answer to those on one of the lists. Whoever is blocked is so though exempt.
    #[cold]
    pub(super) fn screen<B, R: From<Bytes>>(&self, access: &Access, request: &Request<B>) -> Option<Answer<R>> {
        let address = request.extensions().get::<RequestContext>().and_then(|context| context.client_ip);
        let is_on = |list: &AccessList, resolvers: &[KeyResolver]| {
            let mut buf = KeyBuf::new();
            list.has_address(address)
                || resolvers.iter().any(|key| key.resolve(request, &mut buf).is_some_and(|id| list.has_key(id)))
        };
        let report = |finding| self.tell(Event { rule: None, finding, source: None });
        if is_on(&access.block, &access.resolvers) {
            if access.enforced {
                report(Finding::Blocked);
                return Some(Answer::Refused(access.blocked.to_response(request)));
            }
            report(Finding::Observed);
            return Some(Answer::Passed(None));
        }
        // Exempt is who the limiter itself takes somebody for: what some rule counts besides may be the client's to choose.
        is_on(&access.exempt, &access.resolvers[..1]).then(|| {
            report(Finding::Exempt);
            Answer::Passed(None)
        })
    }
}
