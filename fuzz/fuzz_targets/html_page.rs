//! Fuzzes the conversion of HTML pages to Markdown.

#![no_main]

use frontdesk_convert::{Options, Selector, convert, parse_url};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    let (html, _) = frontdesk_convert::decode_html(input);
    let url = parse_url("https://www.example.com/a/").ok();
    let options = Options { url, ..Options::default() };
    let plain = convert(&html, &options);
    assert!(plain.markdown.len() <= 5 * html.len() + 100_000, "the Markdown is much longer than the page");
    assert!(!plain.markdown.contains('\0'), "NUL is not valid in Markdown");
    assert_eq!(convert(&html, &options), plain, "the conversion is deterministic");
    let boilerplate = plain.link_blocks.iter().flatten().copied().collect();
    let without = convert(&html, &Options { boilerplate, ..options.clone() });
    assert_eq!(without.link_blocks, plain.link_blocks, "the places of blocks are those before the removal");
    convert(&html, &Options { article: true, ..options.clone() });
    // Use the first line of the input as a selector.
    if let Ok(main) = Selector::parse(html.lines().next().unwrap_or_default()) {
        convert(&html, &Options { main: Some(main), ..options });
    }
});
