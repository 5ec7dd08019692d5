//! x

pub mod routing;
