//! Compares frontdesk's HTML-to-Markdown converter with others, on pages built by site generators.
//!
//! `frontdesk-bench-convert FILE.tsv...` reads lists written by `tests/generators/roundtrip.py`. Each line
//! names an HTML file and the file with its Markdown source, separated by a tab. The program prints a table
//! of the megabytes of HTML that each converter processes per second of CPU time (median of the rounds), and
//! of the F1 scores of the Markdown blocks compared with the source.

use std::collections::HashMap;
use std::fs;
use std::hint::black_box;

use anyhow::{Context as _, Result, ensure};
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
    let mut pages = Vec::new();
    for list in std::env::args().skip(1) {
        read_pages(&list, &mut pages)?;
    }
    ensure!(!pages.is_empty(), "usage: frontdesk-bench-convert FILE.tsv...");
    let bytes: usize = pages.iter().map(|page| page.html.len()).sum();
    println!("{} pages, {:.1} MB of HTML, median of {ROUNDS} rounds\n", pages.len(), megabytes(bytes));
    println!("| program | MB per second and core | block F1 |\n| --- | ---: | ---: |");
    let mut speeds = vec![Vec::new(); PROGRAMS.len()];
    for _ in 0..ROUNDS {
        // Run all programs in each round, so that other load on the machine affects them equally.
        for ((_, convert), speeds) in PROGRAMS.iter().zip(&mut speeds) {
            speeds.push(megabytes(bytes) / seconds_for(&pages, *convert));
        }
    }
    for ((name, convert), mut speeds) in PROGRAMS.into_iter().zip(speeds) {
        speeds.sort_by(f64::total_cmp);
        println!("| {name} | {:.1} | {:.3} |", speeds[speeds.len() / 2], mean_f1(&pages, convert));
    }
    Ok(())
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

/// The CPU time that a program takes to convert all pages, in seconds.
fn seconds_for(pages: &[Page], convert: Convert) -> f64 {
    let start = clock_gettime(ClockId::ThreadCPUTime);
    for page in pages {
        black_box(convert(black_box(&page.html)));
    }
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

/// The F1 score of two multisets of blocks: the harmonic mean of precision and recall.
fn f1(found: &HashMap<String, usize>, expected: &HashMap<String, usize>) -> f64 {
    let total: usize = found.values().chain(expected.values()).sum();
    let common: usize =
        found.iter().map(|(block, &count)| count.min(expected.get(block).copied().unwrap_or(0))).sum();
    #[expect(clippy::cast_precision_loss, reason = "a ratio")]
    if total == 0 { 1.0 } else { 2.0 * common as f64 / total as f64 }
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
    frontdesk_convert::convert(html, &frontdesk_convert::Options::default()).markdown
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
