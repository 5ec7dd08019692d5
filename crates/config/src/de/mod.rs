//! A serde `Deserializer` over the nodes of the tree that reports every error in one run.
//!
//! Names are relaxed as Spring's are ([`canonical`]). A scalar is read as the type of its field. An unknown key is
//! collected, not fatal. If a value has the wrong type, its error is reported, and everything is read again with this node
//! absent. So one run reports all errors.
//!
//! The types of keys are names of this module: `crate::de::{Or, Ranged, Spanned}`.

mod access;
mod argument_value;
mod defaults;
mod deserializer;
mod error;
mod ranged;
mod read;
mod spanned;
mod status;
mod subtree;
mod units;

pub(crate) use crate::de::argument_value::{Given, NamedEntries, Texts};
pub(crate) use crate::de::defaults::{ALL_ADDRESSES, millis, secs};
pub use crate::de::defaults::{Flag, Or, Unit, Word};
pub(crate) use crate::de::error::with_help;
pub(crate) use crate::de::ranged::UNBOUNDED;
pub use crate::de::ranged::{PositiveTime, Ranged, Scale};
pub(crate) use crate::de::read::{field_names, read, read_struct, warn_of_bare_millis};
pub(crate) use crate::de::spanned::NodeRef;
pub use crate::de::spanned::{OptionalText, Spanned};
pub(crate) use crate::de::status::parse_status;
pub(crate) use crate::de::subtree::{Metadata, Subtree};
pub use crate::de::units::{Address, Number, Seconds, Size, Time, Timeout};
pub(crate) use crate::de::units::{
    LEAST_BARE_MILLIS, bare_millis, described_by, parse_flag, parse_size, parse_time, parse_timeout, read_by, read_text,
};
pub(crate) use crate::yaml::key::{canonical, same_name};

/// Name of the newtype for a value with its span, and for a span alone: [`Spanned`], [`NodeRef`].
pub(crate) const SPANNED: &str = "$tollgate::Spanned";
/// Name of the newtype of an argument that may be wrong: see [`Given`].
pub(crate) const GIVEN: &str = "$tollgate::Given";
/// Name of the newtype of times, whose bare numbers are milliseconds.
pub(crate) const TIME: &str = "$tollgate::Time";
/// Name of enums with YAML shapes as variants: `scalar`, `seq` and `map`.
pub(crate) const SHAPE: &str = "$tollgate::Shape";

/// Name of the field of a struct that is read from the same map as the struct itself, a struct too.
pub(crate) const SAME_MAP: &str = "$tollgate::SameMap";
