//! Fuzzes the readers of fonts and images, and the scaling of images: none panics, and variants have the
//! sizes that pages state.

#![no_main]

use frontdesk::pages::fuzzing::{read_font, read_image};
use frontdesk::panics;
use libfuzzer_sys::fuzz_target;

fuzz_target!(
    // Scaling catches panics; the target reports them.
    init: panics::set_hook(|panic, _| {
        eprintln!("{panic}");
        std::process::abort();
    }),
    |bytes: &[u8]| {
        read_font(bytes);
        read_image(bytes);
    }
);
