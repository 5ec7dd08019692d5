//! Step functions of time.

/// Values, each valid from its time on.
#[derive(Clone, Debug, Default)]
pub(crate) struct Line(Vec<(u64, f64)>);

impl Line {
    /// Appends a value from `at_ms` on, later than all others.
    pub(crate) fn push(&mut self, at_ms: u64, value: f64) {
        self.0.push((at_ms, value));
    }

    /// Applies `value` to all values.
    pub(crate) fn map(&self, value: impl Fn(f64) -> f64) -> Self {
        Self(self.0.iter().map(|(at_ms, before)| (*at_ms, value(*before))).collect())
    }

    /// Returns the largest value.
    pub(crate) fn max(&self) -> f64 {
        self.0.iter().map(|(_, value)| *value).fold(0.0, f64::max)
    }

    /// Returns the corners of a step function.
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

    /// Returns the corners of joined values, with vertical lines where a value jumps up.
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
