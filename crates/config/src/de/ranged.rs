//! Values with a range, which their type names: the check, its message, the JSON Schema and the reference have it from there.

use serde::de::{Deserialize, Deserializer, Error, Unexpected};

use crate::de::defaults::Unit;
use crate::de::units::{Number, Size, Time};

/// No upper bound of a [`Ranged`].
pub(crate) const UNBOUNDED: u64 = u64::MAX;

/// A value from `MIN` to `MAX`; times in nanoseconds, sizes in bytes. Any other value is an error of its key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Ranged<T, const MIN: u64, const MAX: u64>(T);

/// A time above 0.
pub type PositiveTime = Ranged<Time, 1, UNBOUNDED>;

/// Type of values that can have a range.
pub trait Scale: Unit + PartialOrd {
    /// Number of units of a bound in a bare number.
    #[cfg(test)]
    const UNIT: u64 = 1;

    /// Describes a range: `from 1 to 10`, `at least 1`, `at most 10`.
    fn range(min: u64, max: u64) -> String {
        match (min, max) {
            (0, max) => format!("at most {}", Self::describe(max)),
            (min, UNBOUNDED) => format!("at least {}", Self::describe(min)),
            (min, max) => format!("from {} to {}", Self::describe(min), Self::describe(max)),
        }
    }

    /// Describes a value outside its range: `found 0`.
    fn found(self) -> String;
}

// === impl Ranged ===

impl<T: Scale, const MIN: u64, const MAX: u64> Ranged<T, MIN, MAX> {
    /// Describes the range.
    pub(crate) fn range() -> String {
        T::range(MIN, MAX)
    }

    /// Returns the value nearest to `value`, and true if that is another one.
    pub(crate) fn nearest(value: T) -> (Self, bool) {
        let (min, max) = (T::of(MIN), T::of(MAX));
        match value {
            value if value < min => (Self(min), true),
            value if value > max && MAX != UNBOUNDED => (Self(max), true),
            value => (Self(value), false),
        }
    }

    /// Returns the value without its notation.
    pub fn get(self) -> T::Value {
        self.0.get()
    }
}

impl<T: Scale, const MIN: u64, const MAX: u64> Unit for Ranged<T, MIN, MAX> {
    type Value = T::Value;

    fn of(units: u64) -> Self {
        Self::nearest(T::of(units)).0
    }

    fn get(self) -> T::Value {
        self.0.get()
    }

    fn describe(units: u64) -> String {
        T::describe(units)
    }
}

impl<'de, T: Scale + Deserialize<'de>, const MIN: u64, const MAX: u64> Deserialize<'de> for Ranged<T, MIN, MAX> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let value = T::deserialize(deserializer)?;
        match Self::nearest(value) {
            (value, false) => Ok(value),
            (_, true) => Err(D::Error::invalid_value(Unexpected::Other(&value.found()), &Self::range().as_str())),
        }
    }
}

// === impl Scale ===

macro_rules! whole_scales {
    ($($type:ty)*) => {$(
        impl Scale for $type {
            fn found(self) -> String {
                format!("found {self}")
            }
        }
    )*};
}

whole_scales!(u8 u16 u32 usize);

impl Scale for Number {
    fn range(min: u64, max: u64) -> String {
        if max == UNBOUNDED { format!("at least {min}") } else { format!("from {min} to {max}") }
    }

    fn found(self) -> String {
        format!("found {}", self.0)
    }
}

impl Scale for Size {
    fn found(self) -> String {
        format!("got {} bytes", self.0)
    }
}

impl Scale for Time {
    #[cfg(test)]
    const UNIT: u64 = 1_000_000;

    fn range(min: u64, max: u64) -> String {
        let least = if min <= 1 { "longer than 0".to_owned() } else { format!("at least {}", Self::describe(min)) };
        if max == UNBOUNDED { least } else { format!("{least} and at most {}", Self::describe(max)) }
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
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_value_is_outside_its_range_from_the_first_value_beyond_a_bound() {
        for (value, nearest, is_outside) in [(0, 1, true), (1, 1, false), (10, 10, false), (11, 10, true)] {
            let (ranged, outside) = Ranged::<u32, 1, 10>::nearest(value);
            assert_eq!((ranged.get(), outside), (nearest, is_outside));
        }
        let weight = |value| Ranged::<Number, 0, 1>::nearest(Number(value)).1;
        assert_eq!([-0.01, 0.0, 1.0, 1.01].map(weight), [true, false, false, true]);
        let time = |time| PositiveTime::nearest(Time(time)).1;
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
