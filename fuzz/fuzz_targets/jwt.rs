//! Runs the target `jwt` of `tests/fuzzing/targets/`.

#![no_main]

#[path = "../../tests/fuzzing/targets/jwt.rs"]
mod jwt;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| jwt::run(bytes));
