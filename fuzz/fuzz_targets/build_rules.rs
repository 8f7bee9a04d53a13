//! Fuzzes the rules of a build (`_redirects` and `_headers`), and the paths that they apply to.

#![no_main]

use frontdesk_site::fuzzing::read_rules;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| read_rules(text));
