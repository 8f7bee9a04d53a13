//! Measures how long generated sites take to load, reload and encode, and how much memory they need:
//! `cargo bench -p frontdesk-benches --bench load`.
//!
//! `-- --pages 10,100,1000` sets the numbers of pages, and `--rounds 3` the number of rounds. Each figure is
//! the minimum of all rounds. `--json` prints a line of JSON for each size. `--encode` also measures the
//! quick encodings. Each size runs in a new process, so that its memory can be measured.
//!
//! For the comparison with site generators (`bench/src/suites/loading/generators.rs`), `--write FOLDER` with
//! `--pages 2000` only writes the pages, and `--load FOLDER` loads a folder once and prints its figures.

#![allow(clippy::disallowed_methods, reason = "tests and benchmarks read clocks and wait")]
#![expect(clippy::print_stdout, reason = "a benchmark prints its figures")]

use std::fmt::Write as _;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

use frontdesk_site::resources::{ResourceCache, ResourceOptions};
use frontdesk_site::{ConversionCache, LoadCache, PagesOptions, Site};
use serde_json::{Value, json};

const PAGES: &str = "10,100,1000,2000,10000";

/// How long to wait before a first load. The loader does not reuse files that changed within the last two
/// seconds, but the files of most sites are older.
const AGE: Duration = Duration::from_millis(3_100);

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let value = |name: &str| {
        let at = arguments.iter().position(|argument| argument == name)?;
        arguments.get(at + 1).map(String::as_str)
    };
    let has = |name: &str| arguments.iter().any(|argument| argument == name);
    let rounds: usize = value("--rounds").map_or(3, |rounds| rounds.parse().expect("a number"));
    if let Some(folder) = value("--write") {
        generate(Path::new(folder), value("--pages").expect("--pages").parse().expect("a number"));
        std::thread::sleep(AGE);
        return;
    }
    if let Some(folder) = value("--load") {
        let (site, (wall, cpu)) = load(Path::new(folder), &mut caches(), None);
        let (bodies, peak) = (mebibytes(site.size()), memory("VmHWM:"));
        println!(
            "{}",
            json!({ "bodies_mib": bodies, "load_ms": wall, "load_cpu_ms": cpu, "peak_mib": peak })
        );
        return;
    }
    if let Some(pages) = value("--one") {
        println!("{}", measure(pages.parse().expect("a number"), rounds, has("--encode")));
        return;
    }
    if !has("--json") {
        println!(
            "wall-clock / CPU time in milliseconds, minimum of {rounds} rounds; memory in MiB, including bodies; \
             peak: of the first load"
        );
        print!("{:>7} {:>7} {:>7} {:>7}", "pages", "bodies", "peak", "memory");
        for what in MEASUREMENTS {
            print!(" {what:>15}");
        }
        println!();
    }
    for pages in value("--pages").unwrap_or(PAGES).split(',') {
        let mut one = Command::new(std::env::current_exe().expect("this program"));
        one.args(["--one", pages, "--rounds", &rounds.to_string()]);
        if has("--encode") {
            one.arg("--encode");
        }
        let output = one.output().expect("this program runs");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let line = String::from_utf8(output.stdout).expect("text");
        if has("--json") {
            print!("{line}");
            continue;
        }
        let figures: Value = serde_json::from_str(&line).expect("figures");
        let of = |name: &str| figures[name].as_f64().map_or("-".to_owned(), |figure| format!("{figure:.1}"));
        print!("{pages:>7} {:>7} {:>7} {:>7}", of("bodies_mib"), of("peak_mib"), of("memory_mib"));
        for what in MEASUREMENTS {
            print!(" {:>15}", format!("{} / {}", of(&format!("{what}_ms")), of(&format!("{what}_cpu_ms"))));
        }
        println!();
    }
}

/// Loads a site with this number of pages, and reloads it after edits, reusing unchanged files as a server
/// does.
fn measure(pages: usize, rounds: usize, encode: bool) -> Value {
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path();
    generate(folder, pages);
    std::thread::sleep(AGE);
    let mut quickest = [(f64::INFINITY, f64::INFINITY); 7];
    let (mut peak, mut end) = (None, (0, 0.0));
    for round in 0..rounds {
        let mut previous = caches();
        let mut note = |at: usize, (wall, cpu): (f64, f64)| {
            quickest[at] = (quickest[at].0.min(wall), quickest[at].1.min(cpu));
        };
        let (site, took) = load(folder, &mut previous, None);
        note(0, took);
        peak.get_or_insert_with(|| memory("VmHWM:"));
        if encode {
            let began = Clock::now();
            site.compress(usize::MAX, None);
            note(6, began.elapsed());
        }
        let (site, took) = load(folder, &mut previous, Some(site));
        note(1, took);
        let page = if pages > 1 { "pages/p1.md" } else { "pages/index.md" };
        edit(folder, page, |text| {
            text.replacen("\n## Section 0", &format!("\nEdited {round}.\n\n## Section 0"), 1)
        });
        let (site, took) = load(folder, &mut previous, Some(site));
        note(2, took);
        edit(folder, page, |text| text.replacen("title: ", "title: New ", 1));
        let (site, took) = load(folder, &mut previous, Some(site));
        note(3, took);
        std::fs::write(
            folder.join("pages/added.md"),
            format!("---\ntitle: Added {round}\ndescription: New.\n---\nNew.\n"),
        )
        .expect("a file");
        let (site, took) = load(folder, &mut previous, Some(site));
        note(4, took);
        std::fs::remove_file(folder.join("pages/added.md")).expect("the added page");
        std::fs::create_dir_all(folder.join("theme")).expect("a folder");
        let template =
            "{% extends \"base.html\" %}{% block main %}<main>{{ page.html }}</main>{% endblock %}";
        std::fs::write(folder.join("theme/page.html"), format!("{template}<!-- {round} -->"))
            .expect("a file");
        let (site, took) = load(folder, &mut previous, Some(site));
        note(5, took);
        std::fs::remove_file(folder.join("theme/page.html")).expect("the template");
        let (site, _) = load(folder, &mut previous, Some(site));
        end = (site.size(), memory("VmRSS:"));
    }
    let mut figures = json!({
        "bench": "load",
        "pages": pages,
        "bodies_mib": mebibytes(end.0),
        "peak_mib": peak,
        "memory_mib": end.1,
    });
    for ((wall, cpu), what) in quickest.into_iter().zip(MEASUREMENTS) {
        if wall.is_finite() {
            figures[format!("{what}_ms")] = json!(wall);
            figures[format!("{what}_cpu_ms")] = json!(cpu);
        }
    }
    figures
}

/// The measurements: the first load; reloads with no change, with a changed body, with a changed title in the
/// navigation, with an added page, and with a changed template; and the quick encodings.
const MEASUREMENTS: [&str; 7] = ["load", "again", "body", "title", "added", "template", "encode"];

/// The results of the last load, as a server keeps them.
type Caches = (LoadCache, ResourceCache);

/// No results yet. As in a server, the pages of a large site are kept on disk.
fn caches() -> Caches {
    let folder = std::env::temp_dir();
    let conversions = Arc::new(ConversionCache::new(folder.join("frontdesk-bench-conversions")));
    (LoadCache::new(conversions, &[folder]), ResourceCache::default())
}

/// Loads the site. Returns the site, and the time until it could replace the previous one.
fn load(folder: &Path, (pages, resources): &mut Caches, last: Option<Site>) -> (Site, (f64, f64)) {
    let options = PagesOptions {
        title: "Generated".into(),
        language: "en".into(),
        base_url: "https://www.example.com".into(),
        ..PagesOptions::default()
    };
    let began = Clock::now();
    let loaded = pages.load(folder, &options, &[]);
    let mut site = loaded.site.unwrap_or_else(|| panic!("{:?}", loaded.faults));
    resources.add_resources(&mut site, &options, &ResourceOptions::default());
    if let Some(last) = &last {
        site.adopt(last);
    }
    let took = began.elapsed();
    drop(last);
    (site, took)
}

/// The start of a measurement, in wall-clock time and CPU time of this process. On a busy machine, only the
/// CPU time is meaningful.
struct Clock {
    wall: Instant,
    cpu: f64,
}

impl Clock {
    fn now() -> Self {
        Self { wall: Instant::now(), cpu: cpu() }
    }

    /// Elapsed wall-clock time and CPU time, in milliseconds.
    fn elapsed(&self) -> (f64, f64) {
        (self.wall.elapsed().as_secs_f64() * 1_000.0, cpu() - self.cpu)
    }
}

fn cpu() -> f64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    Duration::try_from(time).unwrap_or_default().as_secs_f64() * 1_000.0
}

fn mebibytes(bytes: usize) -> f64 {
    f64::from(u32::try_from(bytes >> 10).unwrap_or(u32::MAX)) / 1024.0
}

/// Resident memory in MiB: `VmRSS:` now, `VmHWM:` the peak since the start.
fn memory(field: &str) -> f64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix(field)).unwrap_or_default();
    let kibibytes: u32 = line.trim().trim_end_matches(" kB").parse().unwrap_or_default();
    f64::from(kibibytes) / 1024.0
}

fn edit(folder: &Path, file: &str, change: impl Fn(String) -> String) {
    let text = std::fs::read_to_string(folder.join(file)).expect("a file");
    let changed = change(text.clone());
    assert_ne!(text, changed, "the edit changes something");
    std::fs::write(folder.join(file), changed).expect("a writable file");
}

/// Generates pages of about 8 KB of Markdown each, with headings, links, tables and highlighted code.
fn generate(folder: &Path, pages: usize) {
    let words =
        ["agent", "policy", "call", "session", "sandbox", "approval", "digest", "ledger", "boundary", "host"];
    let mut state: usize = 7;
    let mut next = |most: usize| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % most
    };
    std::fs::create_dir_all(folder.join("pages")).expect("a folder");
    for page in 0..pages {
        let mut text = format!(
            "---\ntitle: Page {page}\ndescription: Generated page number {page}.\nupdated: 2026-01-01\n{}---\n",
            // Put one page into the navigation, so that a change to its title changes every page.
            if page == 1 { "nav: 1\n" } else { "" },
        );
        for section in 0..6 {
            write!(text, "\n## Section {section}\n").expect("a string");
            for _ in 0..4 {
                let prose: Vec<&str> = (0..45).map(|_| words[next(words.len())]).collect();
                let to = 1 + next(pages.saturating_sub(1).max(1));
                write!(text, "\n{}, and [more](/p{to}/#section-1).\n", prose.join(" ")).expect("a string");
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
