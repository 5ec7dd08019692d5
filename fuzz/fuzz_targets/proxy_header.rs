//! Runs the target `proxy_header` of `tests/fuzzing/targets/`.

#![no_main]
#![allow(dead_code)] // the other targets

#[path = "../../tests/fuzzing/targets/mod.rs"]
mod targets;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| targets::proxy_header::run(bytes));
