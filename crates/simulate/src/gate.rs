//! Bounds of the share of denied requests: `simulate --max-denied`.

use std::fmt::{self, Display, Formatter};

use serde::Serialize;
use thiserror::Error;

use crate::report::{Outcome, percent};

/// Parts of a percent that a bound can name: four decimals.
const UNITS: u64 = 10_000;

/// Share, in ten-thousandths of a percent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Share(u64);

/// Upper bound of the share of denied requests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Gate {
    /// Id of the route; `None`: all requests.
    route: Option<String>,
    max: Share,
}

/// Text that is not a [`Share`].
#[derive(Clone, Copy, Debug, Error)]
#[error("not a share such as 1%, 0.05% or 0, with at most 4 decimals")]
pub struct ShareError;

/// Text that is not a [`Gate`].
#[derive(Clone, Copy, Debug, Error)]
#[error("{0}, or of one route: checkout=0.1%")]
pub struct GateError(#[from] ShareError);

/// Result of a [`Gate`].
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct GateOutcome {
    /// Id of the route; `None`: all requests.
    pub route: Option<String>,
    /// Upper bound of the share, in percent.
    pub max_denied: f64,
    /// Requests that limiters denied.
    pub denied: u64,
    /// Requests that the simulation could decide.
    pub decided: u64,
    /// Other lines of the log: unreadable, of no route, or without the fields that decide. Of a bound of one route, its
    /// requests without these fields.
    pub undecided: u64,
    /// Share of the denied requests, in percent.
    pub share: f64,
    /// True if the share is within the bound. A simulation that decided no request has not shown that.
    pub passed: bool,
}

impl Share {
    /// Parses `1%`, or `0`. Another share has a `%`: `0.01` could be a hundredth or a percent of it.
    ///
    /// # Errors
    /// The text has another form, or the share is above 100 %.
    pub fn parse(text: &str) -> Result<Self, ShareError> {
        let number = match text.strip_suffix('%') {
            Some(number) => number.trim_end(),
            None if text == "0" => text,
            None => return Err(ShareError),
        };
        let (whole, decimals) = number.split_once('.').unwrap_or((number, "0"));
        let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        if !is_number(whole) || !is_number(decimals) || whole.len() > 3 || decimals.len() > 4 {
            return Err(ShareError);
        }
        let share: u64 = format!("{whole}{decimals:0<4}").parse().map_err(|_| ShareError)?;
        if share > 100 * UNITS { Err(ShareError) } else { Ok(Self(share)) }
    }

    /// Returns the share in percent.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "at most 1,000,000")]
    pub fn percent(self) -> f64 {
        self.0 as f64 / UNITS as f64
    }

    /// Returns the largest number that is at most this share of `whole`.
    #[must_use]
    pub fn of(self, whole: usize) -> usize {
        let part = whole as u128 * u128::from(self.0) / u128::from(100 * UNITS);
        usize::try_from(part).unwrap_or(usize::MAX)
    }
}

impl Gate {
    /// Parses `SHARE` or `ROUTE=SHARE`.
    ///
    /// # Errors
    /// The share is not valid, or the route is empty.
    pub fn parse(text: &str) -> Result<Self, GateError> {
        match text.rsplit_once('=') {
            Some(("", _)) => Err(ShareError)?,
            Some((route, share)) => Ok(Self { route: Some(route.to_owned()), max: Share::parse(share)? }),
            None => Ok(Self { route: None, max: Share::parse(text)? }),
        }
    }

    /// Returns the id of the route, if the bound is one of a route.
    pub fn route(&self) -> Option<&str> {
        self.route.as_deref()
    }

    /// Compares the bound with the result of a configuration, for a log with so many `unreadable` lines.
    pub fn judge(&self, outcome: &Outcome, unreadable: u64) -> GateOutcome {
        let routes = || outcome.routes.iter().filter(|route| self.route.as_ref().is_none_or(|id| route.route == *id));
        let undecided: u64 = routes().filter(|route| route.is_undecided()).map(|route| route.requests).sum();
        let unrouted = outcome.undetermined + outcome.unrouted;
        let (requests, denied, others): (u64, u64, u64) = match self.route {
            Some(_) => (routes().map(|route| route.requests).sum(), routes().map(|route| route.denied).sum(), 0),
            None => (outcome.requests - unrouted, outcome.denied, unrouted + unreadable),
        };
        let decided = requests - undecided;
        GateOutcome {
            route: self.route.clone(),
            max_denied: self.max.percent(),
            denied,
            decided,
            undecided: undecided + others,
            share: percent(denied, decided),
            passed: decided > 0
                && u128::from(denied) * u128::from(100 * UNITS) <= u128::from(decided) * u128::from(self.max.0),
        }
    }
}

impl Display for GateOutcome {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let Self { denied, decided, undecided, share, max_denied, .. } = self;
        match &self.route {
            Some(route) => write!(f, "route {}", route.escape_debug())?,
            None => write!(f, "all routes")?,
        }
        if *decided == 0 {
            return write!(f, ": no request of the log could be decided, at most {max_denied} % may be denied");
        }
        let relation = if self.passed { "not more" } else { "more" };
        write!(f, ": {denied} of {decided} requests denied ({share} %), {relation} than {max_denied} %")?;
        if *undecided > 0 {
            let share = percent(*undecided, decided.saturating_add(*undecided));
            write!(f, "; {undecided} others ({share} %) could not be decided")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn shares_have_a_percent_sign_and_at_most_four_decimals() {
        for (text, route, max) in [
            ("0", None, 0),
            ("0%", None, 0),
            ("1%", None, 10_000),
            ("0.5 %", None, 5_000),
            ("0.0001%", None, 1),
            ("100%", None, 1_000_000),
            ("orders=2.25%", Some("orders"), 22_500),
            ("a=b=0", Some("a=b"), 0),
        ] {
            let gate = Gate::parse(text).unwrap();
            assert_eq!((gate.route(), gate.max), (route, Share(max)), "{text}");
        }
        for text in
            ["", "1", "0.01", "%", ".5%", "1.%", "-1%", "100.0001%", "1000%", "0.00001%", "1e1%", "=1%", "a=", "a=1"]
        {
            assert!(Gate::parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn shares_are_compared_exactly() {
        let judged = |gate: &str, denied, requests, undetermined| {
            let outcome = Outcome { denied, requests, undetermined, ..Outcome::default() };
            Gate::parse(gate).unwrap().judge(&outcome, 0)
        };
        // 0.57 % of 10,000 is below 57 in floating point.
        assert!(judged("0.57%", 57, 10_000, 0).passed && !judged("0.57%", 58, 10_000, 0).passed);
        assert!(judged("0", 0, 1, 0).passed && !judged("0", 1, u64::MAX, 0).passed);
        assert!(judged("100%", u64::MAX, u64::MAX, 0).passed);
        let undetermined = judged("1%", 1, 100, 50);
        assert!(!undetermined.passed, "1 of 50 is 2 %");
        assert_eq!(
            undetermined.to_string(),
            "all routes: 1 of 50 requests denied (2 %), more than 1 %; 50 others (50 %) could not be decided"
        );
        assert!(!judged("1%", 0, 0, 0).passed && !judged("1%", 0, 5, 5).passed);
    }
}
