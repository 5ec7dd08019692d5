//! Values with a range, which their type names: the check, its message, the JSON Schema and the reference have it from there.

use std::time::Duration;

use serde::Deserialize;

use crate::de::spanned::Spanned;
use crate::de::units::{Number, Size, Time};
use crate::diagnostics::Diagnostics;

/// No upper bound of a [`Ranged`].
pub(crate) const UNBOUNDED: u64 = u64::MAX;

/// A value that must be from `MIN` to `MAX`; times in nanoseconds, sizes in bytes. It is read whatever it is, and checked by
/// [`within`](Spanned::within).
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(transparent)]
pub(crate) struct Ranged<T, const MIN: u64, const MAX: u64>(T);

/// A time above 0.
pub(crate) type PositiveTime = Ranged<Time, 1, UNBOUNDED>;

/// Type of values that can have a range.
pub(crate) trait Scale: Copy + PartialOrd {
    /// Number of units of a bound in a bare number.
    #[cfg(test)]
    const UNIT: u64 = 1;

    /// Returns the value of a bound.
    fn of_bound(bound: u64) -> Self;

    /// Describes a range: `from 1 to 10`, `at least 1`, `at most 10`.
    fn range(min: u64, max: u64) -> String;

    /// Describes a value outside its range: `found 0`.
    fn found(self) -> String;
}

// === impl Ranged ===

impl<T: Scale, const MIN: u64, const MAX: u64> Ranged<T, MIN, MAX> {
    /// Describes the range.
    pub(crate) fn range() -> String {
        T::range(MIN, MAX)
    }

    /// Returns the value, or the nearest bound.
    pub(crate) fn clamped(self) -> T {
        let (min, max) = (T::of_bound(MIN), T::of_bound(MAX));
        match self.0 {
            value if value < min => min,
            value if value > max && MAX != UNBOUNDED => max,
            value => value,
        }
    }

    /// Returns the value if it is outside the range.
    pub(crate) fn outside(self) -> Option<T> {
        (self.clamped() != self.0).then_some(self.0)
    }
}

impl<T: Scale, const MIN: u64, const MAX: u64> Spanned<Ranged<T, MIN, MAX>> {
    /// Returns the value, or the nearest bound. Reports a value outside the range of `key`.
    pub(crate) fn within(self, key: &str, diagnostics: &mut Diagnostics) -> T {
        if let Some(value) = self.value.outside() {
            let range = Ranged::<T, MIN, MAX>::range();
            diagnostics.error(self.span, format!("`{key}` must be {range}, {}", value.found()));
        }
        self.value.clamped()
    }
}

/// Returns a time above zero, or the default of `default_secs`; reports zero.
pub(crate) fn positive(
    time: Option<Spanned<PositiveTime>>,
    default_secs: u64,
    diagnostics: &mut Diagnostics,
) -> Duration {
    let default = Duration::from_secs(default_secs);
    time.map_or(default, |time| above_zero(time, "remove the key for the default", diagnostics))
}

/// Returns a time above zero; reports zero, with `help`.
pub(crate) fn above_zero<const MAX: u64>(
    time: Spanned<Ranged<Time, 1, MAX>>,
    help: &str,
    diagnostics: &mut Diagnostics,
) -> Duration {
    if time.value.0.0.is_zero() {
        diagnostics.error(time.span, format!("must be {}", PositiveTime::range())).help(help);
    }
    time.value.clamped().0
}

// === impl Scale ===

/// Describes a range of values from 0.
fn unsigned_range(min: u64, max: u64, bound: impl Fn(u64) -> String) -> String {
    match (min, max) {
        (0, max) => format!("at most {}", bound(max)),
        (min, UNBOUNDED) => format!("at least {}", bound(min)),
        (min, max) => format!("from {} to {}", bound(min), bound(max)),
    }
}

macro_rules! whole_scales {
    ($($type:ty)*) => {$(
        impl Scale for $type {
            fn of_bound(bound: u64) -> Self {
                Self::try_from(bound).unwrap_or(Self::MAX)
            }

            fn range(min: u64, max: u64) -> String {
                unsigned_range(min, max, |bound| bound.to_string())
            }

            fn found(self) -> String {
                format!("found {self}")
            }
        }
    )*};
}

whole_scales!(u8 u16 u32 usize);

impl Scale for Number {
    fn of_bound(bound: u64) -> Self {
        Self(bound as f64)
    }

    fn range(min: u64, max: u64) -> String {
        if max == UNBOUNDED { format!("at least {min}") } else { format!("from {min} to {max}") }
    }

    fn found(self) -> String {
        format!("found {}", self.0)
    }
}

impl Scale for Size {
    fn of_bound(bound: u64) -> Self {
        Self(bound)
    }

    fn range(min: u64, max: u64) -> String {
        unsigned_range(min, max, |bound| match bound {
            bound if bound.is_multiple_of(1 << 20) => format!("{}MB", bound >> 20),
            bound if bound.is_multiple_of(1 << 10) => format!("{}KB", bound >> 10),
            bound => bound.to_string(),
        })
    }

    fn found(self) -> String {
        format!("got {} bytes", self.0)
    }
}

impl Scale for Time {
    #[cfg(test)]
    const UNIT: u64 = 1_000_000;

    fn of_bound(bound: u64) -> Self {
        Self(Duration::from_nanos(bound))
    }

    fn range(min: u64, max: u64) -> String {
        let shown = |bound| humantime::format_duration(Duration::from_nanos(bound));
        let least = if min <= 1 { "longer than 0".to_owned() } else { format!("at least {}", shown(min)) };
        if max == UNBOUNDED { least } else { format!("{least} and at most {}", shown(max)) }
    }

    fn found(self) -> String {
        format!("found {}", humantime::format_duration(self.0))
    }
}

#[cfg(test)]
impl<T: Scale + schemars::JsonSchema, const MIN: u64, const MAX: u64> schemars::JsonSchema for Ranged<T, MIN, MAX> {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> std::borrow::Cow<'static, str> {
        format!("{} {}", T::schema_name(), Self::range()).into()
    }

    fn json_schema(generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
        let mut schema = T::json_schema(generator);
        schema.insert("minimum".to_owned(), MIN.div_ceil(T::UNIT).into());
        if MAX != UNBOUNDED {
            schema.insert("maximum".to_owned(), (MAX / T::UNIT).into());
        }
        schema.insert("x-range".to_owned(), Self::range().into());
        schema
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_outside_its_range_from_the_first_value_beyond_a_bound() {
        type Headers = Ranged<u32, 1, 10>;
        for (value, outside, clamped) in [(0, true, 1), (1, false, 1), (10, false, 10), (11, true, 10)] {
            assert_eq!(
                (Headers::outside(Ranged(value)).is_some(), Headers::clamped(Ranged(value))),
                (outside, clamped)
            );
        }
        let weight = |value| Ranged::<Number, 0, 1>(Number(value)).outside().is_some();
        assert_eq!([-0.01, 0.0, 1.0, 1.01].map(weight), [true, false, false, true]);
        let time = |time| PositiveTime::outside(Ranged(Time(time))).is_some();
        assert_eq!([Duration::ZERO, Duration::from_nanos(1), Duration::MAX].map(time), [true, false, false]);
    }

    #[test]
    fn a_range_is_described_in_the_unit_of_its_values() {
        assert_eq!(Ranged::<usize, 1, 10_000>::range(), "from 1 to 10000");
        assert_eq!(Ranged::<u8, 0, 100>::range(), "at most 100");
        assert_eq!(Ranged::<Number, 0, 1>::range(), "from 0 to 1");
        assert_eq!(Ranged::<Number, 1, UNBOUNDED>::range(), "at least 1");
        assert_eq!(Ranged::<Size, 1024, { 16 << 20 }>::range(), "from 1KB to 16MB");
        assert_eq!(PositiveTime::range(), "longer than 0");
        assert_eq!(Ranged::<Time, 1, 600_000_000_000>::range(), "longer than 0 and at most 10m");
    }
}
