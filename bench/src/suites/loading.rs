//! The time to load a site and to reload it after a change, by number of pages; and the comparison with
//! static site generators.

pub mod generators;

use anyhow::{Context as _, Result};
use serde_json::Value;

use self::generators::{Build, GeneratedSite, MEBIBYTE, load_command, parse_line};
use crate::figures::{Curve, Line, Row, Section, Spread, Table, Target, Unit};
use crate::peer::FRONTDESK;
use crate::process;
use crate::settings::{Bench, Cores, report_progress};

/// Numbers of pages.
const PAGES: [u64; 5] = [10, 100, 1_000, 2_000, 10_000];
const TARGET_PAGES: u64 = 2_000;

/// Numbers of pages, and of rounds, in the comparison with generators.
const COMPARED: [(u64, usize); 2] = [(TARGET_PAGES, 3), (10_000, 2)];
const PROGRAMS: [&str; 3] = [FRONTDESK, "Zola", "Hugo"];

/// Figures of the load benchmark, in MiB or milliseconds, with the titles and units of their columns.
const COLUMNS: [(&str, &str, Unit); 8] = [
    ("bodies_mib", "bodies", Unit::Bytes),
    ("peak_mib", "peak, first load", Unit::Bytes),
    ("memory_mib", "memory", Unit::Bytes),
    ("load_ms", "first load", Unit::Millis),
    ("again_ms", "nothing changed", Unit::Millis),
    ("body_ms", "one text changed", Unit::Millis),
    ("title_ms", "a title changed", Unit::Millis),
    ("template_ms", "the template changed", Unit::Millis),
];
/// Index of the first time in [`COLUMNS`].
const TIMES: usize = 3;

/// Row, column and maximum of each target.
const TARGETS: [(&str, usize, usize, f64); 3] = [
    ("2,000 pages: first load", 3, 3, 500.0),
    ("2,000 pages: reload, one text changed", 3, 5, 20.0),
    ("10,000 pages: peak memory of the first load", 4, 1, 400.0 * 1e6),
];

/// Runs `cargo bench -p frontdesk-benches --bench load`, which loads sites as a server does, and site
/// generators.
pub fn run(bench: &Bench) -> Result<Section> {
    bench.run_on(Cores::Both, || measure(bench))?
}

/// Measures each number of pages in a process of its own, and then the generators.
fn measure(bench: &Bench) -> Result<Section> {
    let mut section = Section::default();
    section.add_condition(
        "pages",
        "generated, 8 KB of Markdown each, with links between them; a few are in the navigation",
    );
    let mut rows: Vec<Row> = Vec::new();
    for pages in PAGES {
        report_progress(&format!("{pages} pages"));
        let mut command = load_command();
        command.args(["--json", "--rounds", "3", "--pages", &pages.to_string()]);
        let figures: Value = parse_line(&process::output(&mut command)?)?;
        let mut cells = Vec::new();
        for (name, _, unit) in COLUMNS {
            let figure = figures[name].as_f64().with_context(|| format!("no {name} for {pages} pages"))?;
            let factor = if unit == Unit::Bytes { MEBIBYTE } else { 1.0 };
            cells.push(Spread::exactly(figure * factor));
        }
        rows.push(Row::new(format!("{pages} pages"), cells));
        section.record(&pages.to_string(), FRONTDESK, &[figures])?;
    }
    for (name, row, column, most) in TARGETS {
        let measured = rows[row].cells[column].median;
        section.targets.push(Target::at_most(name, most, measured, COLUMNS[column].2));
    }
    let pages = PAGES.map(|pages| pages as f64).into_iter();
    let line =
        |column: usize| Line::new(COLUMNS[column].1, pages.clone(), rows.iter().map(|row| row.cells[column]));
    let lines: Vec<Line> = (TIMES..COLUMNS.len()).map(line).collect();
    let title = "Time until a site can be served";
    let (by, millis) = (format!("{title}, by number of pages"), ("milliseconds", Unit::Millis));
    section.curves.push(Curve::new("loading", &by, "pages", millis, true, lines));
    let note = "Minimum of three, on both cores. The peak is that of resident memory until the end of the first load. The memory is that of the benchmark after \
                several loads.";
    let columns = COLUMNS.map(|(_, title, unit)| (title, unit));
    section.tables.push(Table::new("loading", title, note, columns, rows));
    compare_generators(bench, &mut section)?;
    Ok(section)
}

/// Compares the first load with the builds of Zola and Hugo. Adds a table and targets.
fn compare_generators(bench: &Bench, section: &mut Section) -> Result<()> {
    let mut rows = Vec::new();
    for (pages, rounds) in COMPARED {
        report_progress(&format!("{pages} pages in frontdesk, Zola and Hugo"));
        let site = GeneratedSite::write(bench, pages)?;
        let mut seen = PROGRAMS.map(|_| Vec::new());
        for _ in 0..rounds {
            for (name, seen) in PROGRAMS.iter().zip(&mut seen) {
                let build = match *name {
                    "Zola" => site.build_with_zola(bench),
                    "Hugo" => site.build_with_hugo(),
                    _ => site.load(),
                };
                seen.push(build.with_context(|| format!("{name}, {pages} pages"))?);
            }
        }
        let times = |builds: &[Build]| builds.iter().map(|build| build.millis).collect::<Vec<_>>();
        let ours = times(&seen[0]);
        for (name, builds) in PROGRAMS.iter().zip(&seen) {
            let ratio = Spread::of_ratios(&ours, &times(builds));
            let figures: [fn(&Build) -> f64; 3] =
                [|build| build.millis, |build| build.cpu_millis, |build| build.peak];
            let cells = figures.map(|figure| Spread::of(builds.iter().map(figure)));
            rows.push(Row::new(format!("{name}, {pages} pages"), cells.into_iter().chain([ratio])));
            section.record(&format!("{pages} pages, comparison"), name, builds)?;
            if pages == TARGET_PAGES && *name != FRONTDESK {
                let title = format!("2,000 pages: first load, frontdesk / {name}");
                section.targets.push(Target::at_most(title, 1.0, ratio.median, Unit::Ratio));
            }
        }
    }
    let columns = [
        ("time", Unit::Millis),
        ("CPU time", Unit::Millis),
        ("peak memory", Unit::Bytes),
        ("frontdesk's time relative to it", Unit::Ratio),
    ];
    let note = "Median of three interleaved rounds with 2,000 pages and of two with 10,000, on both cores.";
    let title = "Compared with static site generators";
    section.tables.push(Table::new("loading-generators", title, note, columns, rows));
    Ok(())
}
