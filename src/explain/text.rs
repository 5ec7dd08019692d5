//! Explanations as text.

use std::fmt::{self, Display, Formatter};

use crate::explain::{CountedKey, Explanation, MatchedRoute};

impl Display for Explanation {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        if let Some(reason) = &self.refused {
            return writeln!(f, "refused before routing: {reason}");
        }
        for route in &self.passed_over {
            writeln!(f, "skipped {}: {} does not match: {}", route.route, route.predicate, route.seen)?;
        }
        match &self.route {
            Some(route) => route.fmt(f),
            None => writeln!(f, "no route matches: 404"),
        }
    }
}

impl Display for MatchedRoute {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        writeln!(f, "route {}: {}", self.id, self.predicates.join(", "))?;
        for (name, value) in &self.variables {
            writeln!(f, "  {{{name}}} = {value}")?;
        }
        for (number, trace) in self.filters.iter().enumerate() {
            writeln!(f, "  {}. {}", number + 1, trace.filter)?;
            trace.counted.iter().try_for_each(|counted| counted.fmt(f))?;
        }
        if let Some(answered) = &self.answered {
            writeln!(f, "response of a filter: {} ({})", answered.status, answered.reason)?;
        }
        let Some(forwarded) = &self.forwarded else { return Ok(()) };
        writeln!(f, "forwarded: {} {}", forwarded.method, forwarded.url)?;
        for (name, values) in &forwarded.headers {
            for value in values {
                writeln!(f, "  {name}: {value}")?;
            }
        }
        Ok(())
    }
}

impl Display for CountedKey {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        writeln!(f, "     {} key `{}`, cost {}: {}", self.scope, self.key_id, self.cost, self.rule)?;
        self.redis_keys.iter().try_for_each(|key| writeln!(f, "       Redis key: {key}"))
    }
}
