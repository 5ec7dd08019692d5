//! An explanation for a person.

use std::fmt::{self, Display, Formatter};

use crate::explain::{Counted, Explanation, Taken};

impl Display for Explanation {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        if let Some(reason) = &self.refused {
            return writeln!(f, "answered before routing: {reason}");
        }
        for route in &self.passed_over {
            writeln!(f, "not {}: {}, but {}", route.route, route.predicate, route.seen)?;
        }
        match &self.route {
            Some(route) => route.fmt(f),
            None => writeln!(f, "no route takes it: 404"),
        }
    }
}

impl Display for Taken {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        writeln!(f, "route {}: {}", self.id, self.predicates.join(", "))?;
        for (name, value) in &self.variables {
            writeln!(f, "  {{{name}}} = {value}")?;
        }
        for (number, met) in self.filters.iter().enumerate() {
            writeln!(f, "  {}. {}", number + 1, met.filter)?;
            met.counted.iter().try_for_each(|counted| counted.fmt(f))?;
        }
        if let Some(answered) = &self.answered {
            writeln!(f, "answered by a filter: {} ({})", answered.status, answered.reason)?;
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

impl Display for Counted {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        writeln!(f, "     {} `{}` takes {}: {}", self.scope, self.key_id, self.cost, self.rule)?;
        self.redis_keys.iter().try_for_each(|key| writeln!(f, "       in Redis: {key}"))
    }
}
