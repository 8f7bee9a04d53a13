//! Fuzzes HTTP/1.1 connections: the fast path and the general path send the same responses, and close the
//! connection in the same cases.
//!
//! The input is a script for nearly valid requests (`compose`), or raw bytes after a first byte of zero.

#![no_main]

use std::cell::LazyCell;

use libfuzzer_sys::fuzz_target;

#[expect(dead_code, reason = "the tests use more of it")]
#[path = "../../tests/it/support/lanes.rs"]
mod lanes;

use lanes::{Lanes, compose};

thread_local! {
    static LANES: LazyCell<Lanes> = LazyCell::new(Lanes::new);
}

fuzz_target!(|input: &[u8]| {
    let pieces = match input {
        [0, bytes @ ..] => vec![bytes.to_vec()],
        script => compose(script),
    };
    let pieces: Vec<&[u8]> = pieces.iter().map(Vec::as_slice).collect();
    LANES.with(|lanes| lanes.answers_to(&pieces));
});
