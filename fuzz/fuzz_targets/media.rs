//! Fuzzes the readers of fonts and images, and the scaling of images: none panics, and scaled images have the
//! sizes that pages state.

#![no_main]

use frontdesk_media::{FontMetrics, read_proportions, read_size, scale_down};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let _ = FontMetrics::read(bytes);
    read_proportions(bytes);
    let is_scaled = bytes.starts_with(&[0xff, 0xd8]) || bytes.starts_with(b"\x89PNG");
    // Larger images take too long for a fuzzer.
    let Some(size) = read_size(bytes)
        .filter(|size| is_scaled && size.width > 8 && size.width <= 512 && size.height <= 512)
    else {
        return;
    };
    let widths = [size.width - 1, size.width / 2, 1];
    for (width, scaled) in widths.into_iter().zip(scale_down(bytes, &widths).unwrap_or_default()) {
        let scaled = read_size(&scaled).expect("a scaled image has a size");
        assert_eq!(scaled, size.scaled_to(width), "the size of a scaled image");
    }
});
