//! `jwt:`: verification of JSON Web Tokens.

#[cfg_attr(not(feature = "jwt"), path = "absent.rs")]
pub(crate) mod check;
#[cfg(feature = "jwt")]
pub(crate) mod model;
pub(crate) mod raw;
