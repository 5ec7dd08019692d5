//! The commands of `tollgate`, one file each.

pub mod check;
