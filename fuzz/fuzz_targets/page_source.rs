//! Fuzzes the rendering of Markdown pages: it never panics, and the Markdown keeps the text of the source.

#![no_main]

use std::sync::LazyLock;

use frontdesk_process::panics;
use frontdesk_site::WordList;
use frontdesk_site::link_resolution::{LinkCatalog, LinkOrigin};
use frontdesk_site::markdown::{HighlightCache, render};
use frontdesk_typeset::highlight::Highlighter;
use libfuzzer_sys::fuzz_target;

static HIGHLIGHTER: LazyLock<Highlighter> = LazyLock::new(Highlighter::default);
static WORDS: LazyLock<WordList> = LazyLock::new(WordList::english);

fuzz_target!(
    // The library that converts formulas panics on some; these panics are caught. All others end the process.
    init: panics::set_hook(|panic, _| {
        eprintln!("{panic}");
        std::process::abort();
    }),
    |source: &str| {
        let catalog = LinkCatalog {
            base_url: "https://www.example.com".into(),
            pages: [("pages/a.md".to_owned(), "/a/".to_owned())].into_iter().collect(),
            assets: [("/assets/a.png".to_owned(), "/assets/a.0a1b2c3d4e.png".to_owned())].into_iter().collect(),
            ..LinkCatalog::default()
        };
        let place = LinkOrigin { file: "pages/here.md", path: "/here/" };
        let rendered = render(source, 1, place, &catalog, &HIGHLIGHTER, &WORDS, &HighlightCache::default());
        let lines = source.split(['\r', '\n']).count();
        for warning in &rendered.facts.warnings {
            assert!((1..=lines + 1).contains(&warning.line), "{warning:?}");
        }
        assert!(rendered.html.len() <= 200 * source.len() + 10_000, "the HTML is much longer than the source");
    }
);
