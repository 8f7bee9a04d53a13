//! Fuzzes HTTP/1.1 connections: the fast path and the general path send the same responses, and close the
//! connection in the same cases.
//!
//! If the first byte is zero, the rest of the input is sent unchanged. Otherwise the input is a script from
//! which `compose` generates nearly valid requests.

#![no_main]

use std::cell::LazyCell;

use libfuzzer_sys::fuzz_target;

#[expect(dead_code, reason = "only the tests use the rest")]
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
