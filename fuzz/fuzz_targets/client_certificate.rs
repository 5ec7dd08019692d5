//! Runs the target `client_certificate` of `tests/fuzzing/targets/`.

#![no_main]
#![allow(dead_code)] // the other targets

#[path = "../../tests/fuzzing/targets/mod.rs"]
mod targets;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| targets::client_certificate::run(bytes));
