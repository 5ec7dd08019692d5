//! In Redis.
