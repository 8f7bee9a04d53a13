//! Measures the steps of serving a request and of loading a site: `cargo bench -p frontdesk-benches --bench
//! micro`, or `-- NAME` to run only some of the benchmarks.

#![allow(clippy::disallowed_methods, reason = "tests and benchmarks read clocks and wait")]

mod cases;

use std::path::Path;

use divan::{Bencher, black_box};
use frontdesk_config::Config;
use frontdesk_limits::MAX_QUOTA;
use frontdesk_site::WordList;
use frontdesk_site::link_resolution::{LinkCatalog, LinkOrigin};
use frontdesk_site::markdown;
use frontdesk_site::resources::{self, ResourceCache};
use frontdesk_typeset::highlight::Highlighter;

use cases::{CASES, Case, generated_site, limiter, lookup};

fn main() {
    divan::main();
}

#[divan::bench(args = CASES)]
fn request(bencher: Bencher, case: &Case) {
    let run = (case.prepare)();
    bencher.bench_local(run);
}

#[divan::bench]
fn path_lookup_among_2_000_pages(bencher: Bencher) {
    let run = lookup(generated_site(2_000));
    bencher.bench_local(run);
}

#[divan::bench]
fn limiter_allows_among_a_million_sources(bencher: Bencher) {
    let run = limiter(MAX_QUOTA, 1_000_000);
    bencher.bench_local(run);
}

/// Renders a 12 KB page with code. Only the first run unpacks the grammars.
#[divan::bench]
fn render_a_page_of_markdown(bencher: Bencher) {
    let source = std::fs::read_to_string(example_site().join("pages/developers.md")).expect("a page");
    let (_, body) = source.trim_start_matches("---").split_once("\n---\n").expect("front matter");
    let (catalog, highlighter) = (LinkCatalog::default(), Highlighter::default());
    let place = LinkOrigin { file: "pages/developers.md", path: "/developers/" };
    let earlier = markdown::HighlightCache::default();
    let words = WordList::english();
    bencher.bench_local(|| {
        markdown::render(black_box(body), 1, place, &catalog, &highlighter, &words, &earlier)
    });
}

#[divan::bench(sample_count = 10, sample_size = 1)]
fn load_the_example_site(bencher: Bencher) {
    let (config, faults) = Config::load(example_site(), std::iter::empty(), &[], None);
    assert!(faults.is_empty(), "{faults:?}");
    let config = config.with_base_url(None);
    let forms = resources::page_forms(&config.pages);
    bencher.bench_local(|| {
        let mut site =
            frontdesk_site::load(example_site(), &config.pages, &forms).site.expect("a valid site");
        ResourceCache::default().add_resources(&mut site, &config.pages, &config.resources);
        site
    });
}

fn example_site() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../site"))
}
