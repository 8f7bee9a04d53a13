//! How long a site of 2,000 generated pages takes to load, and how long its encodings take: `cargo bench --bench load`.

#![expect(clippy::print_stdout, reason = "a benchmark prints its figures")]

use std::fmt::Write as _;
use std::path::Path;
use std::time::Instant;

use frontdesk::pages::{self, Options};

const PAGES: usize = 2_000;
const ROUNDS: usize = 5;

fn main() {
    let folder = tempfile::tempdir().expect("a folder");
    generate(folder.path());
    let options = Options {
        title: "Generated".into(),
        language: "en".into(),
        base_url: "https://www.example.com".into(),
        ..Options::default()
    };
    for round in 1..=ROUNDS {
        let began = Instant::now();
        let loaded = pages::load(folder.path(), &options, &[]);
        let site = loaded.site.unwrap_or_else(|| panic!("{:?}", loaded.faults));
        let load = began.elapsed();
        site.compress(usize::MAX);
        let compressed = began.elapsed().saturating_sub(load);
        println!(
            "round {round}: {} pages, {} KiB: loaded in {load:.0?}, encoded in {compressed:.0?}",
            site.page_count(),
            site.size() / 1024
        );
    }
}

/// About 8 KB of Markdown a page: headings, prose with links, a table, highlighted code.
fn generate(folder: &Path) {
    let words =
        ["agent", "policy", "call", "session", "sandbox", "approval", "digest", "ledger", "boundary", "host"];
    let mut state: usize = 7;
    let mut next = |most: usize| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % most
    };
    std::fs::create_dir(folder.join("pages")).expect("a folder");
    for page in 0..PAGES {
        let mut text = format!(
            "---\ntitle: Page {page}\ndescription: Generated page number {page}.\nupdated: 2026-01-01\n---\n"
        );
        for section in 0..6 {
            write!(text, "\n## Section {section}\n").expect("a string");
            for _ in 0..4 {
                let prose: Vec<&str> = (0..45).map(|_| words[next(words.len())]).collect();
                write!(text, "\n{}, and [more](/p{}/#section-1).\n", prose.join(" "), 1 + next(PAGES - 1))
                    .expect("a string");
            }
            if section % 2 == 0 {
                write!(text, "\n```rust\nfn main() {{\n    let answer = {page}; // why\n    println!(\"{{answer}}\");\n}}\n```\n").expect("a string");
            } else {
                text.push_str("\n| Call | Answer |\n| --- | --- |\n| read | allow |\n| write | ask |\n");
            }
        }
        let name = if page == 0 { "index.md".to_owned() } else { format!("p{page}.md") };
        std::fs::write(folder.join("pages").join(name), text).expect("a file");
    }
}
