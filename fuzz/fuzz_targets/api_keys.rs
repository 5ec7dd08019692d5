//! Runs the target `api_keys` of `tests/fuzzing/targets/`.

#![no_main]

#[path = "../../tests/fuzzing/targets/api_keys.rs"]
mod api_keys;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| api_keys::run(bytes));
