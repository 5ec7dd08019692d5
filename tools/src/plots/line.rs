//! A value by time.

/// Values, each from its time on.
#[derive(Clone, Debug, Default)]
pub(crate) struct Line(Vec<(u64, f64)>);

impl Line {
    /// The value from `at_ms` on, which is later than all before.
    pub(crate) fn push(&mut self, at_ms: u64, value: f64) {
        self.0.push((at_ms, value));
    }

    /// The same with other values.
    pub(crate) fn map(&self, value: impl Fn(f64) -> f64) -> Self {
        Self(self.0.iter().map(|(at_ms, before)| (*at_ms, value(*before))).collect())
    }

    /// The largest value.
    pub(crate) fn most(&self) -> f64 {
        self.0.iter().map(|(_, value)| *value).fold(0.0, f64::max)
    }

    /// Its corners when each value holds until the next one.
    pub(crate) fn steps(&self) -> Vec<(u64, f64)> {
        let mut corners: Vec<(u64, f64)> = Vec::new();
        for &(at_ms, value) in &self.0 {
            match corners.last() {
                Some(&(_, before)) if before == value => {}
                Some(&(_, before)) => corners.extend([(at_ms, before), (at_ms, value)]),
                None => corners.push((at_ms, value)),
            }
        }
        corners.extend(self.0.last());
        corners
    }

    /// Its corners when values are joined, except where the next one jumps up.
    pub(crate) fn slopes(&self) -> Vec<(u64, f64)> {
        let mut corners: Vec<(u64, f64)> = Vec::new();
        for &(at_ms, value) in &self.0 {
            if let Some(&(_, before)) = corners.last().filter(|(_, before)| value > *before + 0.2) {
                corners.push((at_ms, before));
            }
            if let [.., (a_ms, a), (b_ms, b)] = corners[..] {
                let on_line = a + (b - a) * (at_ms - a_ms) as f64 / ((b_ms - a_ms) as f64).max(1.0);
                if b_ms > a_ms && (on_line - value).abs() < 1e-6 {
                    corners.pop();
                }
            }
            corners.push((at_ms, value));
        }
        corners
    }
}
