//! The route table: routes in order, of which the first that matches takes the request.

mod coverage;
mod index;

#[cfg(test)]
mod tests;

pub use self::coverage::covering_routes;
use self::index::Index;
use crate::decision::{Decision, Undecided};
use crate::predicate::Predicate;
use crate::predicate::weight::assign_shares;
use crate::request::{RequestView, Variables};

/// Routes in their final order. The first route that matches takes the request: all of its predicates hold.
///
/// A look-up costs one map access for each of the path's first segments and of the host's last labels, as far as routes
/// use them. It tests the predicates of the routes found there, and of no others.
#[derive(Debug)]
pub struct RouteTable<T> {
    routes: Vec<(Vec<Predicate>, T)>,
    index: Index,
}

/// One route of a [`RouteTable`].
#[derive(Debug)]
pub struct RouteEntry<'t, T> {
    /// The value that the table stores for the route.
    pub value: &'t T,
    /// The route's position in the table, from 0.
    pub index: usize,
    /// The route's predicates.
    pub predicates: &'t [Predicate],
}

/// The result of testing one route, for `explain`.
#[derive(Debug)]
pub struct Evaluation<'t, T> {
    /// The route.
    pub route: RouteEntry<'t, T>,
    /// The decision on its predicates.
    pub decision: Decision,
    /// The reason why the route does not match, or is undecided; `None` if it matches.
    pub mismatch: Option<Mismatch<'t>>,
}

/// The reason why a route does not match a request.
#[derive(Debug)]
pub struct Mismatch<'t> {
    /// The first predicate that does not hold.
    pub predicate: &'t Predicate,
    /// The request's values that the predicate read (see [`Predicate::observe`]).
    pub observed: String,
}

// === impl RouteTable ===

impl<T> RouteTable<T> {
    /// Creates a table of routes in their final order. A route without predicates matches every request.
    ///
    /// Assigns each `Weight` predicate its share of its group, which is valid in this table only.
    #[must_use]
    pub fn new(mut routes: Vec<(Vec<Predicate>, T)>) -> Self {
        assign_shares(routes.iter_mut().map(|(predicates, _)| Predicate::weights_mut(predicates)));
        let index = Index::new(routes.iter().map(|(predicates, _)| predicates.as_slice()));
        Self { routes, index }
    }

    /// Returns the first route that matches. Its predicates are tested in order, up to the first that does not hold.
    ///
    /// # Errors
    /// Returns an error if a route before the first match is undecided. A later route must not take the request: it may
    /// lack the limits of the undecided one.
    pub fn find(&self, request: &RequestView<'_>) -> Result<Option<RouteEntry<'_, T>>, Undecided> {
        let mut candidates = self.index.candidates(request);
        // By reference: a loop copies the iterator that it owns.
        for index in &mut candidates {
            let Some((predicates, value)) = self.routes.get(index) else { continue };
            match Decision::all(predicates.iter().map(|predicate| predicate.decide(request))) {
                Decision::Yes => return Ok(Some(RouteEntry { value, index, predicates })),
                Decision::No => {}
                Decision::Undecided => return Err(Undecided),
            }
        }
        Ok(None)
    }

    /// Tests the routes in order, up to the first that matches or is undecided, without the index. Returns one evaluation
    /// for each.
    pub fn explain<'t>(&'t self, request: &RequestView<'_>) -> Vec<Evaluation<'t, T>> {
        let mut evaluations = Vec::new();
        for (index, (predicates, value)) in self.routes.iter().enumerate() {
            let decision = Decision::all(predicates.iter().map(|predicate| predicate.decide(request)));
            let failed = predicates.iter().find(|predicate| predicate.decide(request) == decision);
            let failed = failed.filter(|_| decision != Decision::Yes);
            let mismatch = failed.map(|predicate| Mismatch { predicate, observed: predicate.observe(request) });
            evaluations.push(Evaluation { route: RouteEntry { value, index, predicates }, decision, mismatch });
            if decision != Decision::No {
                break;
            }
        }
        evaluations
    }

    /// Returns the routes in order.
    pub fn iter(&self) -> impl Iterator<Item = (&[Predicate], &T)> {
        self.routes.iter().map(|(predicates, value)| (predicates.as_slice(), value))
    }

    /// Returns the route at a position.
    #[must_use]
    pub fn get(&self, index: usize) -> Option<(&[Predicate], &T)> {
        self.routes.get(index).map(|(predicates, value)| (predicates.as_slice(), value))
    }

    /// Returns the number of routes.
    #[must_use]
    pub fn len(&self) -> usize {
        self.routes.len()
    }

    /// Returns true if the table has no routes.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.routes.is_empty()
    }
}

// === impl RouteEntry ===

impl<T> Clone for RouteEntry<'_, T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for RouteEntry<'_, T> {}

impl<T> RouteEntry<'_, T> {
    /// Computes the variables of the route's `Path` and `Host` predicates. If two have the same name, the later
    /// predicate's value is kept.
    #[must_use]
    pub fn variables(&self, request: &RequestView<'_>) -> Variables {
        let mut variables = Variables::new();
        for predicate in self.predicates {
            predicate.capture_variables(request, &mut variables);
        }
        variables
    }
}
