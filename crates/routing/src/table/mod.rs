//! The routes in order, and the first that takes a request.

mod index;
mod keys;

#[cfg(test)]
mod tests;

use self::index::Index;
use super::predicate::{Predicate, share_out};
use super::request::{RequestView, Variables};

/// Routes in their final order: the first whose predicates all hold takes the request.
///
/// Finding it costs a map look-up for each of the path's first segments and of the host's last labels, as far as the
/// routes ask for them, and then the predicates of those routes only that agree with both.
#[derive(Debug)]
pub struct RouteTable<T> {
    routes: Vec<(Vec<Predicate>, T)>,
    index: Index,
}

/// The route that takes a request.
#[derive(Debug)]
pub struct Found<'t, T> {
    /// What the table holds for the route.
    pub value: &'t T,
    /// The route's place in the table, from 0.
    pub index: usize,
    /// The route's predicates.
    pub predicates: &'t [Predicate],
}

/// A route that was tried.
#[derive(Debug)]
pub struct Tried<'t, T> {
    /// The route.
    pub route: Found<'t, T>,
    /// Why it does not take the request; `None`: it does.
    pub refusal: Option<Refusal<'t>>,
}

/// Why a route does not take a request.
#[derive(Debug)]
pub struct Refusal<'t> {
    /// The first predicate that does not hold.
    pub predicate: &'t Predicate,
    /// What it saw (see [`Predicate::seen`]).
    pub seen: String,
}

// === impl RouteTable ===

impl<T> RouteTable<T> {
    /// A table of these routes, which are in their final order. A route without predicates takes everything. `Weight`
    /// predicates are given their share of their group, which is theirs in this table alone.
    #[must_use]
    pub fn new(mut routes: Vec<(Vec<Predicate>, T)>) -> Self {
        share_out(routes.iter_mut().map(|(predicates, _)| predicates.as_mut_slice()));
        let index = Index::new(routes.iter().map(|(predicates, _)| predicates.as_slice()));
        Self { routes, index }
    }

    /// The first route whose predicates all hold. They are asked in their order, up to the first that does not.
    #[must_use]
    pub fn find(&self, request: &RequestView<'_>) -> Option<Found<'_, T>> {
        self.index.candidates(request).find_map(|index| {
            let (predicates, value) = self.routes.get(index)?;
            let all_match = predicates.iter().all(|predicate| predicate.matches(request));
            all_match.then_some(Found { value, index, predicates })
        })
    }

    /// Every route up to the one that takes the request, in order, with the reason of each that does not. All of them,
    /// whatever the index says: this is for people.
    pub fn explain<'t>(&'t self, request: &RequestView<'_>) -> Vec<Tried<'t, T>> {
        let mut tried = Vec::new();
        for (index, (predicates, value)) in self.routes.iter().enumerate() {
            let refusal = predicates.iter().find(|predicate| !predicate.matches(request));
            let refusal = refusal.map(|predicate| Refusal { predicate, seen: predicate.seen(request) });
            let takes = refusal.is_none();
            tried.push(Tried { route: Found { value, index, predicates }, refusal });
            if takes {
                break;
            }
        }
        tried
    }

    /// The routes in order.
    pub fn iter(&self) -> impl Iterator<Item = (&[Predicate], &T)> {
        self.routes.iter().map(|(predicates, value)| (predicates.as_slice(), value))
    }

    /// The number of routes.
    #[must_use]
    pub fn len(&self) -> usize {
        self.routes.len()
    }

    /// Whether there is no route.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.routes.is_empty()
    }
}

// === impl Found ===

impl<T> Clone for Found<'_, T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Found<'_, T> {}

impl<T> Found<'_, T> {
    /// The variables of the route's `Path` and `Host` predicates, computed now; a later predicate's replaces an earlier
    /// one's of the same name.
    #[must_use]
    pub fn variables(&self, request: &RequestView<'_>) -> Variables {
        let mut variables = Variables::new();
        for predicate in self.predicates {
            predicate.variables(request, &mut variables);
        }
        variables
    }
}
