//! Pure decisions: a rule, a state, the time. No clock, no I/O.

pub mod token_bucket;
