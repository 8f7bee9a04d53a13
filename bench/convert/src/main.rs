//! Compares frontdesk's HTML-to-Markdown converter with others, on pages built by site generators.
//!
//! `frontdesk-bench-convert FILE.tsv... [FILE.jsonl...]` reads lists written by
//! `tests/generators/roundtrip.py`. Each line names an HTML file and the file with its Markdown source,
//! separated by a tab. The program prints the machine, a table of the megabytes of HTML that each converter
//! processes per second of CPU time (median of the rounds), and the F1 scores of the Markdown blocks compared
//! with the source.
//!
//! Each line of a `.jsonl` file is a page of the Web Content eXtraction Benchmark (WCXB) with `html`, `url`,
//! `type` and `main_content`. For these pages, the program prints the same speeds, the speed of frontdesk's
//! extraction of articles, and the F1 scores of its words by type of page.
//!
//! Of pages with the same HTML, only the first is measured: the others would be in the processor's caches.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fs;
use std::hint::black_box;

use anyhow::{Context as _, Result, ensure};
use frontdesk_convert::{Options, parse_url};
use regex::Regex;
use rustix::time::{ClockId, clock_gettime};

const ROUNDS: usize = 5;

/// Elements that surround the content of a page. htmd and mdream omit them only on request.
const SURROUNDING: [&str; 5] = ["nav", "header", "footer", "aside", "form"];

struct Page {
    html: String,
    source: String,
}

type Convert = fn(&str) -> String;

const PROGRAMS: [(&str, Convert); 4] = [
    ("frontdesk", frontdesk),
    ("htmd 0.5.6", htmd),
    ("html-to-markdown-rs 3.19.1", html_to_markdown),
    ("mdream 2.0.3", mdream),
];

fn main() -> Result<()> {
    let (foreign, lists): (Vec<_>, Vec<_>) =
        std::env::args().skip(1).partition(|file| file.rsplit('.').next() == Some("jsonl"));
    ensure!(
        !lists.is_empty() || !foreign.is_empty(),
        "usage: frontdesk-bench-convert [FILE.tsv...] [FILE.jsonl...]"
    );
    println!("machine: {}\n", describe_machine());
    if !lists.is_empty() {
        let mut pages = Vec::new();
        for list in &lists {
            read_pages(list, &mut pages)?;
        }
        let count = pages.len();
        keep_distinct(&mut pages, |page| &page.html);
        println!("Pages of generators, {} repeated ones left out:\n", count - pages.len());
        let speeds = compare_speeds(&pages.iter().map(|page| &*page.html).collect::<Vec<_>>());
        println!("| program | MB per second and core | block F1 |\n| --- | ---: | ---: |");
        for ((name, convert), speed) in PROGRAMS.into_iter().zip(speeds) {
            println!("| {name} | {speed:.1} | {:.3} |", mean_f1(&pages, convert));
        }
    }
    for file in &foreign {
        measure_extraction(file)?;
    }
    Ok(())
}

/// The processor and the number of its threads, which the speeds depend on.
fn describe_machine() -> String {
    let text = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = text.lines().find_map(|line| line.strip_prefix("model name")?.split_once(':'));
    let model = model.map_or(std::env::consts::ARCH, |(_, model)| model.trim());
    let threads = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    format!("{model}, {threads} threads; one is used")
}

/// Removes the items whose text an earlier one has.
fn keep_distinct<T>(items: &mut Vec<T>, text: impl Fn(&T) -> &String) {
    let mut seen = HashSet::new();
    items.retain(|item| seen.insert(text(item).clone()));
}

/// Prints the number and size of the pages. Returns the megabytes per second of CPU time of each program,
/// the median of the rounds.
fn compare_speeds(pages: &[&str]) -> Vec<f64> {
    let bytes: usize = pages.iter().map(|html| html.len()).sum();
    println!("{} pages, {:.1} MB of HTML, median of {ROUNDS} rounds\n", pages.len(), megabytes(bytes));
    let mut speeds = vec![Vec::new(); PROGRAMS.len()];
    for _ in 0..ROUNDS {
        // Run all programs in each round, so that other load on the machine affects them equally.
        for ((_, convert), speeds) in PROGRAMS.iter().zip(&mut speeds) {
            let seconds = seconds_for(|| {
                for html in pages {
                    black_box(convert(black_box(html)));
                }
            });
            speeds.push(megabytes(bytes) / seconds);
        }
    }
    let median = |mut speeds: Vec<f64>| {
        speeds.sort_by(f64::total_cmp);
        speeds[speeds.len() / 2]
    };
    speeds.into_iter().map(median).collect()
}

fn read_pages(list: &str, pages: &mut Vec<Page>) -> Result<()> {
    let read = |file: &str| fs::read_to_string(file).with_context(|| format!("cannot read {file}"));
    for line in read(list)?.lines() {
        let (html, source) = line.split_once('\t').with_context(|| format!("no tab in {list}: {line}"))?;
        pages.push(Page { html: read(html)?, source: read(source)? });
    }
    Ok(())
}

#[expect(clippy::cast_precision_loss, reason = "a figure for people")]
fn megabytes(bytes: usize) -> f64 {
    bytes as f64 / 1e6
}

/// The CPU time that `run` takes, in seconds.
fn seconds_for(run: impl FnOnce()) -> f64 {
    let start = clock_gettime(ClockId::ThreadCPUTime);
    run();
    let end = clock_gettime(ClockId::ThreadCPUTime);
    #[expect(clippy::cast_precision_loss, reason = "a figure for people")]
    let difference = |end: i64, start: i64| (end - start) as f64;
    difference(end.tv_sec, start.tv_sec) + difference(end.tv_nsec, start.tv_nsec) / 1e9
}

fn mean_f1(pages: &[Page], convert: Convert) -> f64 {
    let sum: f64 = pages.iter().map(|page| f1(&blocks(&convert(&page.html)), &blocks(&page.source))).sum();
    #[expect(clippy::cast_precision_loss, reason = "a figure for people")]
    let count = pages.len() as f64;
    sum / count
}

/// The F1 score of two multisets of blocks or words: the harmonic mean of precision and recall.
fn f1(found: &HashMap<String, usize>, expected: &HashMap<String, usize>) -> f64 {
    let total: usize = found.values().chain(expected.values()).sum();
    let common: usize =
        found.iter().map(|(block, &count)| count.min(expected.get(block).copied().unwrap_or(0))).sum();
    #[expect(clippy::cast_precision_loss, reason = "a ratio")]
    if total == 0 { 1.0 } else { 2.0 * common as f64 / total as f64 }
}

/// A page of WCXB.
#[derive(serde::Deserialize)]
struct ForeignPage {
    #[serde(rename = "type")]
    kind: String,
    url: String,
    html: String,
    main_content: String,
}

/// Prints the speed of each program on the pages in a file of WCXB, that of extracting their main content,
/// and the mean F1 of the words by type of page.
fn measure_extraction(file: &str) -> Result<()> {
    let text = fs::read_to_string(file).with_context(|| format!("cannot read {file}"))?;
    let syntax = [r"!\[([^\]]*)\]\([^)]*\)", r"\[([^\]]*)\]\([^)]*\)", r"<[^>\n]+>", r"\\([^\w\s])"]
        .map(|syntax| Regex::new(syntax).expect("the expression is valid"));
    let plain = |markdown: String| {
        let replaced = syntax.iter().zip([" ", "$1", " ", "$1"]);
        replaced.fold(markdown, |text, (syntax, by)| syntax.replace_all(&text, by).into_owned())
    };
    let pages: Result<Vec<ForeignPage>, _> = text.lines().map(serde_json::from_str).collect();
    let mut pages = pages.with_context(|| format!("cannot read {file}"))?;
    let count = pages.len();
    keep_distinct(&mut pages, |page| &page.html);
    println!("\nReal pages of other sites, {} repeated ones left out:\n", count - pages.len());
    let speeds = compare_speeds(&pages.iter().map(|page| &*page.html).collect::<Vec<_>>());
    println!("| program | MB per second and core |\n| --- | ---: |");
    for ((name, _), speed) in PROGRAMS.iter().zip(speeds) {
        println!("| {name} | {speed:.1} |");
    }
    let mut scores: BTreeMap<String, Vec<f64>> = BTreeMap::new();
    let (mut bytes, mut seconds) = (0, 0.0);
    for page in pages {
        let options = Options { url: parse_url(&page.url).ok(), article: true, ..Options::default() };
        let mut markdown = String::new();
        seconds += seconds_for(|| markdown = frontdesk_convert::convert(&page.html, &options).markdown);
        bytes += page.html.len();
        let score = f1(&words(&plain(markdown)), &words(&page.main_content));
        scores.entry(page.kind).or_default().push(score);
        scores.entry("all".to_owned()).or_default().push(score);
    }
    println!("\nExtracting articles: {:.1} MB per second and core\n", megabytes(bytes) / seconds);
    println!("| type | pages | word F1 |\n| --- | ---: | ---: |");
    for (kind, scores) in &scores {
        #[expect(clippy::cast_precision_loss, reason = "a figure for people")]
        let mean = scores.iter().sum::<f64>() / scores.len() as f64;
        println!("| {kind} | {} | {mean:.3} |", scores.len());
    }
    Ok(())
}

/// Counts how often each word occurs.
fn words(text: &str) -> HashMap<String, usize> {
    let mut words = HashMap::new();
    for word in
        text.to_lowercase().split(|c: char| !c.is_alphanumeric() && c != '_').filter(|w| !w.is_empty())
    {
        *words.entry(word.to_owned()).or_default() += 1;
    }
    words
}

/// Splits Markdown into blocks at blank lines, and counts how often each block occurs. Code keeps its
/// characters. Other blocks are reduced to lower-case letters, digits and `#`, because the programs escape
/// and wrap text differently.
fn blocks(markdown: &str) -> HashMap<String, usize> {
    let mut blocks = HashMap::new();
    let mut block = String::new();
    let mut is_code = false;
    for line in markdown.lines() {
        let is_fence = line.trim_start().starts_with("```");
        if is_fence || !is_code && line.trim().is_empty() {
            if !block.is_empty() {
                *blocks.entry(std::mem::take(&mut block)).or_default() += 1;
            }
            is_code ^= is_fence;
        } else if is_code {
            block.push_str(line.trim_end());
            block.push('\n');
        } else {
            block.extend(
                line.chars().filter(|c| c.is_alphanumeric() || *c == '#').flat_map(char::to_lowercase),
            );
        }
    }
    if !block.is_empty() {
        *blocks.entry(block).or_default() += 1;
    }
    blocks
}

fn frontdesk(html: &str) -> String {
    frontdesk_convert::convert(html, &Options::default()).markdown
}

fn htmd(html: &str) -> String {
    let mut skipped = vec!["script", "style", "head"];
    skipped.extend(SURROUNDING);
    let converter = htmd::HtmlToMarkdown::builder().skip_tags(skipped).build();
    converter.convert(html).unwrap_or_default()
}

fn html_to_markdown(html: &str) -> String {
    html_to_markdown_rs::convert(html, None).ok().and_then(|result| result.content).unwrap_or_default()
}

fn mdream(html: &str) -> String {
    let exclude = SURROUNDING.iter().map(|&name| name.to_owned()).collect();
    let plugins = mdream::PluginConfig {
        isolate_main: Some(mdream::IsolateMainConfig),
        filter: Some(mdream::FilterConfig { exclude: Some(exclude), ..mdream::FilterConfig::default() }),
        ..mdream::PluginConfig::default()
    };
    let options =
        mdream::HtmlToMarkdownOptions { plugins: Some(plugins), ..mdream::HtmlToMarkdownOptions::default() };
    mdream::html_to_markdown(html, options)
}
