//! Rates of the last two minutes, for the sparklines of a page that is opened.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use serde_json::{Value, json};

use crate::admin::events::rates::{Current, MAX_ROUTES, rounded};

/// Number of points of a line.
const POINTS: usize = 120;

/// Points of each line, the oldest first.
#[derive(Debug, Default)]
pub(super) struct History {
    all: Line,
    routes: BTreeMap<Arc<str>, Line>,
}

/// Requests and denials per second.
type Line = VecDeque<(f64, f64)>;

impl History {
    /// Adds the rates of one more second.
    pub(super) fn push(&mut self, current: &Current) {
        push(&mut self.all, (current.all.requests, current.all.denied));
        for (id, rates) in &current.routes {
            if self.routes.len() < MAX_ROUTES || self.routes.contains_key(id) {
                push(self.routes.entry(Arc::clone(id)).or_default(), (rates.requests, rates.denied));
            }
        }
    }

    /// Returns the points of all lines.
    pub(super) fn describe(&self) -> Value {
        let routes = self.routes.iter().map(|(id, line)| (id.to_string(), describe(line)));
        json!({"all": describe(&self.all), "routes": routes.collect::<serde_json::Map<_, _>>()})
    }
}

fn push(line: &mut Line, point: (f64, f64)) {
    if line.len() == POINTS {
        line.pop_front();
    }
    line.push_back(point);
}

fn describe(line: &Line) -> Value {
    let requests: Vec<Value> = line.iter().map(|(requests, _)| rounded(*requests)).collect();
    let denied: Vec<Value> = line.iter().map(|(_, denied)| rounded(*denied)).collect();
    json!({"requests": requests, "denied": denied})
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::admin::events::rates::RouteRates;

    #[test]
    fn lines_and_their_number_are_bounded() {
        let mut history = History::default();
        for second in 0..200_u32 {
            let rates = RouteRates { requests: f64::from(second), ..RouteRates::default() };
            let routes = (0..MAX_ROUTES + 10).map(|route| (format!("route-{route}").into(), rates.clone()));
            let routes: BTreeMap<Arc<str>, RouteRates> = routes.collect();
            history.push(&Current { all: rates, unrouted: 0.0, routes });
        }
        let described = history.describe();
        assert_eq!(described["routes"].as_object().map(serde_json::Map::len), Some(MAX_ROUTES));
        let points = described["all"]["requests"].as_array().cloned().unwrap_or_default();
        assert_eq!((points.len(), &points[0], &points[119]), (120, &json!(80), &json!(199)));
    }
}
