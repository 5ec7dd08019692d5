//! Plots of the limiters' decisions. The binaries of this package draw them and generate load for Redis:
//!
//! | Binary | Purpose |
//! |---|---|
//! | `plot-limiters` | draws the pictures in `docs/limiters/` |
//! | `redis-load` | compares ways of calling Redis: throughput, latency, processor time |
//! | `redis-scripts` | measures processor time and memory of each script |
//! | `redis-worst-case` | measures the longest call of each script |

pub mod error;
pub mod plots;
pub mod redis_server;
