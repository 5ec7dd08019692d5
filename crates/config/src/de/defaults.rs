//! Values with a default, which their type names: the check, the JSON Schema and the reference have it from there.
//!
//! The text of a key says where its default stands: `Default {}, as in Spring.` Without that, `Default …` is added at its end.

use std::net::{IpAddr, Ipv6Addr};
use std::num::{NonZeroU32, NonZeroUsize};
use std::time::Duration;

use serde::{Deserialize, Deserializer};

use crate::de::units::{Address, Number, Size, Time, Timeout};

/// A value, or `DEFAULT`: times in nanoseconds, sizes in bytes, addresses as the last 64 bits of IPv6.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Or<T: Unit, const DEFAULT: u64>(T::Value);

/// A flag, or `DEFAULT`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Flag<const DEFAULT: bool>(bool);

/// A word, or the default one of its type.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Word<T>(pub T);

/// Returns the nanoseconds of `seconds`.
pub(crate) const fn secs(seconds: u64) -> u64 {
    millis(seconds * 1_000)
}

/// Returns the nanoseconds of `milliseconds`.
pub(crate) const fn millis(milliseconds: u64) -> u64 {
    milliseconds * 1_000_000
}

/// All addresses of this host, of IPv4 and IPv6.
pub(crate) const ALL_ADDRESSES: u64 = 0;

/// Type of values that a number can name: as a default, or as a bound of a [`Ranged`](crate::Ranged).
pub trait Unit: Copy {
    /// The value without its notation.
    type Value: Copy;

    /// Returns the value that `units` name.
    fn of(units: u64) -> Self;

    /// Returns the value without its notation.
    fn get(self) -> Self::Value;

    /// Describes the value that `units` name: `64KB`, `5s`.
    fn describe(units: u64) -> String;
}

impl<T: Unit, const DEFAULT: u64> Or<T, DEFAULT> {
    /// Creates the setting of `value`.
    pub fn new(value: T::Value) -> Self {
        Self(value)
    }

    /// Returns the value without its notation.
    pub fn get(self) -> T::Value {
        self.0
    }
}

impl<T: Unit, const DEFAULT: u64> Default for Or<T, DEFAULT> {
    fn default() -> Self {
        Self(T::of(DEFAULT).get())
    }
}

// Each is read as an `Option`, so that serde takes the default for an argument that is absent.

impl<'de, T: Unit + Deserialize<'de>, const DEFAULT: u64> Deserialize<'de> for Or<T, DEFAULT> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let value = Option::<T>::deserialize(deserializer)?;
        Ok(value.map_or_else(Self::default, |value| Self(value.get())))
    }
}

impl<'de, const DEFAULT: bool> Deserialize<'de> for Flag<DEFAULT> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Option::deserialize(deserializer).map(|flag| Self(flag.unwrap_or(DEFAULT)))
    }
}

impl<'de, T: Default + Deserialize<'de>> Deserialize<'de> for Word<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Option::deserialize(deserializer).map(|word| Self(word.unwrap_or_default()))
    }
}

impl<const DEFAULT: bool> Flag<DEFAULT> {
    /// Returns the flag.
    pub fn get(self) -> bool {
        self.0
    }
}

impl<const DEFAULT: bool> Default for Flag<DEFAULT> {
    fn default() -> Self {
        Self(DEFAULT)
    }
}

// === impl Unit ===

macro_rules! numbers {
    ($($type:ty: $of:expr;)*) => {$(
        impl Unit for $type {
            type Value = Self;

            fn of(units: u64) -> Self {
                $of(units)
            }

            fn get(self) -> Self {
                self
            }

            fn describe(units: u64) -> String {
                units.to_string()
            }
        }
    )*};
}

numbers! {
    u8: |units| Self::try_from(units).unwrap_or(Self::MAX);
    u16: |units| Self::try_from(units).unwrap_or(Self::MAX);
    u32: |units| Self::try_from(units).unwrap_or(Self::MAX);
    usize: |units| Self::try_from(units).unwrap_or(Self::MAX);
    i32: |units| Self::try_from(units).unwrap_or(Self::MAX);
    NonZeroU32: |units| Self::new(u32::of(units)).unwrap_or(Self::MIN);
    NonZeroUsize: |units| Self::new(usize::of(units)).unwrap_or(Self::MIN);
}

impl Unit for Number {
    type Value = f64;

    fn of(units: u64) -> Self {
        Self(units as f64)
    }

    fn get(self) -> f64 {
        self.0
    }

    fn describe(units: u64) -> String {
        units.to_string()
    }
}

impl Unit for Size {
    type Value = usize;

    fn of(bytes: u64) -> Self {
        Self(bytes)
    }

    fn get(self) -> usize {
        usize::try_from(self.0).unwrap_or(usize::MAX)
    }

    fn describe(bytes: u64) -> String {
        match bytes {
            bytes if bytes.is_multiple_of(1 << 20) => format!("{}MB", bytes >> 20),
            bytes if bytes.is_multiple_of(1 << 10) => format!("{}KB", bytes >> 10),
            bytes => bytes.to_string(),
        }
    }
}

impl Unit for Time {
    type Value = Duration;

    fn of(nanos: u64) -> Self {
        Self(Duration::from_nanos(nanos))
    }

    fn get(self) -> Duration {
        self.0
    }

    fn describe(nanos: u64) -> String {
        let time = Duration::from_nanos(nanos);
        // `75s` reads better than `1m 15s`.
        let is_short = time.subsec_nanos() == 0 && time.as_secs() < 120;
        if is_short { format!("{}s", time.as_secs()) } else { humantime::format_duration(time).to_string() }
    }
}

impl Unit for Address {
    type Value = IpAddr;

    fn of(bits: u64) -> Self {
        Self(IpAddr::V6(Ipv6Addr::from_bits(bits.into())))
    }

    fn get(self) -> IpAddr {
        self.0
    }

    fn describe(bits: u64) -> String {
        format!("`{}`", Self::of(bits).0)
    }
}

impl Unit for Timeout {
    type Value = Option<Duration>;

    fn of(nanos: u64) -> Self {
        Self(Some(Duration::from_nanos(nanos)))
    }

    fn get(self) -> Option<Duration> {
        self.0
    }

    fn describe(nanos: u64) -> String {
        Time::describe(nanos)
    }
}

/// Schemas of optional values, with the description of their defaults.
#[cfg(test)]
mod schema {
    use super::{Flag, Or, Unit, Word};

    macro_rules! schema_with_default {
        ([$($generics:tt)*] $type:ty, $value:ty, $default:expr) => {
            impl<$($generics)*> schemars::JsonSchema for $type {
                fn inline_schema() -> bool {
                    true
                }

                fn schema_name() -> std::borrow::Cow<'static, str> {
                    <Option<$value>>::schema_name()
                }

                fn json_schema(generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
                    let mut schema = generator.subschema_for::<Option<$value>>();
                    schema.insert("x-default".to_owned(), $default.into());
                    schema
                }
            }
        };
    }

    schema_with_default!([T: Unit + schemars::JsonSchema, const DEFAULT: u64] Or<T, DEFAULT>, T, T::describe(DEFAULT));
    schema_with_default!([const DEFAULT: bool] Flag<DEFAULT>, bool, DEFAULT.to_string());
    schema_with_default!([T: Default + serde::Serialize + schemars::JsonSchema] Word<T>, T, {
        let word = serde_json::to_value(T::default()).unwrap_or_default();
        format!("`{}`", word.as_str().unwrap_or_default())
    });
}
