//! `RequestRateLimiter`: arguments ([`args`]), checks, and the checked limiter ([`model`]).

pub(crate) mod access;
pub(crate) mod args;
pub(crate) mod check;
pub(crate) mod conditions;
pub(crate) mod context;
pub(crate) mod for_all_routes;
pub(crate) mod model;
pub(crate) mod naming;
mod plans;
mod rule;
mod rules;
pub(crate) mod shared_settings;
pub(crate) mod store;
#[cfg(test)]
mod tests;
pub(crate) mod value_enums;
pub(crate) mod when;

pub use self::conditions::{RouteConditions, When};
pub use self::model::{Atomicity, GatewayNumber, Limit, LockRetry, PlanResolver, Plans, RateLimiter, Rules, StoreKind};
pub use self::naming::{NamedLimit, Naming};
