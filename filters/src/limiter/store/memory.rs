//! In this process.
