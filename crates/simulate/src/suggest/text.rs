//! Suggestions as YAML: the figures are comments, the limits are routes that `check` accepts.

use std::fmt::{self, Display, Formatter, Write as _};

use super::{RouteSuggestion, SuggestedLimit, Suggestions};

impl Display for Suggestions {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let mut head = format!("{} lines", self.input.lines);
        if let (Some(from), Some(to)) = (&self.from, &self.to) {
            write!(head, " from {from} to {to}")?;
        }
        writeln!(head)?;
        write!(head, "{}", self.input)?;
        for (count, text) in [
            (self.unrouted, "requests match no route"),
            (self.undetermined, "requests are not measured, since the log lacks what decides on their route or limits"),
            (
                self.without_key,
                "requests are not measured, since no limiter finds its key, such as an IP address, in them",
            ),
        ] {
            if count > 0 {
                writeln!(head, "{count} {text}")?;
            }
        }
        for note in &self.notes {
            writeln!(head, "route {}: {}", note.route, note.text)?;
        }
        writeln!(head, "A client is touched if at least one of its requests would have been denied.")?;
        writeln!(head, "`uri` and `predicates` are placeholders: copy `filters` to your routes. Then")?;
        writeln!(head, "`tollgate simulate FILE LOG` shows the requests that they deny.")?;
        head.lines().try_for_each(|line| writeln!(f, "# {line}"))?;
        if self.routes.is_empty() {
            return writeln!(f, "routes: []");
        }
        writeln!(f, "routes:")?;
        let mut written_routes: Vec<&str> = Vec::new();
        for route in &self.routes {
            if written_routes.contains(&route.route.as_str()) {
                continue;
            }
            written_routes.push(&route.route);
            let id = plain(&route.route);
            let path = if self.routes.iter().all(|other| other.route == route.route) {
                String::new()
            } else {
                format!("/{id}")
            };
            writeln!(f, "- id: \"{id}\"\n  uri: \"echo:\"\n  predicates: [\"Path={path}/**\"]\n  filters:")?;
            self.routes.iter().filter(|other| other.route == route.route).try_for_each(|key| key.fmt(f))?;
        }
        Ok(())
    }
}

impl Display for RouteSuggestion {
    /// Writes the first limit as a filter, and the others as comments.
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let (key, requests, clients) = (self.key.escape_debug(), self.requests, self.clients);
        writeln!(f, "  # route {}, key {key}: {requests} requests of {clients} clients", self.route.escape_debug())?;
        if self.unmeasured > 0 {
            writeln!(f, "  # {} requests of further clients are not measured", self.unmeasured)?;
        }
        for (at, limit) in self.limits.iter().enumerate() {
            let SuggestedLimit { touched, touched_share, top, .. } = limit;
            let names = top.iter().map(|client| format!("{} (needs {})", client.key.escape_debug(), client.needs));
            let names = names.collect::<Vec<_>>().join(", ");
            writeln!(
                f,
                "  # touches {touched} of {clients} clients ({touched_share} %), at most {} %",
                limit.max_touched
            )?;
            if *touched > 0 {
                let more = touched - top.len().min(*touched);
                let more = if more > 0 { format!(", and {more} more") } else { String::new() };
                writeln!(f, "  #   by the burst that they need: {names}{more}")?;
            }
            let key = resolver(&self.key);
            let period = if limit.period == "1s" { String::new() } else { format!(" period: {},", limit.period) };
            let (rate, burst, comment) = (limit.replenish_rate, limit.burst_capacity, if at == 0 { "" } else { "# " });
            writeln!(
                f,
                "  {comment}- {{name: RequestRateLimiter, args: {{key-resolver: {key}, replenish-rate: {rate},{period} \
                 burst-capacity: {burst}}}}}"
            )?;
        }
        Ok(())
    }
}

/// Returns a key resolver as YAML: a list if it has several parts.
pub(super) fn resolver(key: &str) -> String {
    let parts: Vec<_> = key.split(',').map(|part| serde_json::Value::from(part.trim()).to_string()).collect();
    if let [one] = parts.as_slice() { one.clone() } else { format!("[{}]", parts.join(", ")) }
}

/// Returns an id with the characters that a path and a bucket name can have.
fn plain(id: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    id.chars().map(|c| if is_plain(c) { c } else { '-' }).collect()
}
