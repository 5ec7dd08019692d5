//! Configurations through the libraries: `migrate` beside `explain`, and changed files through the whole path.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod corpus;
mod migrate;
mod mutations;
