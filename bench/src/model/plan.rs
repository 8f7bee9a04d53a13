//! From what one core takes to machines: the tables of `docs/scale.md`.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use anyhow::{Context as _, Result};

use super::keep::{self, Costs, System};
use super::queue::{self, Stage};
use super::stored::{Keeping, Stored};
use crate::figures::{Figures, Table, Unit};

/// How busy processors and network cards may be in the plan.
const TARGET: f64 = 0.6;
/// Processors of a machine that serves pages, and its network in Gbit/s.
const CORES: f64 = 16.0;
const NETWORK: f64 = 25.0;
/// Requests that are simulated for a row.
const SIMULATED: usize = 400_000;

/// The tables, by the names that they have in the document.
pub fn tables(figures: &Figures, stored: &Stored) -> Result<BTreeMap<&'static str, String>> {
    let pages = Pages::read(figures)?;
    Ok(BTreeMap::from([
        ("page-costs", pages.costs()),
        ("core", pages.core()),
        ("pages", pages.plan()),
        ("submission-costs", submission_costs(stored)),
        ("bytes", bytes(stored)),
        ("submissions", submissions(&stored.keeping)),
        ("saturation", saturation(stored)),
        ("check", check(stored)),
        ("machine", machine(stored)),
    ]))
}

/// A kind of answer.
#[derive(Debug)]
struct Answer {
    name: &'static str,
    /// Seconds of a core.
    cost: f64,
    /// Head and body, in bytes.
    bytes: Option<f64>,
}

/// What `docs/performance/figures.json` says of pages.
#[derive(Debug)]
struct Pages {
    answers: Vec<Answer>,
    /// Seconds more for an answer that finds the core idle.
    waking: f64,
}

impl Pages {
    fn read(figures: &Figures) -> Result<Self> {
        let plain = |name, table: &str| -> Result<Answer> {
            let table = find(figures, table)?;
            Ok(Answer { name, cost: cost(table)?, bytes: Some(length(&table.note)?) })
        };
        let secure = |name, table: &str| -> Result<Answer> {
            Ok(Answer { name, cost: cost(find(figures, table)?)?, bytes: None })
        };
        let alone = cost(find(figures, "connections-1")?)?;
        let busy = cost(find(figures, "connections-64")?)?;
        Ok(Self {
            answers: vec![
                plain("a page of 12 KB", "pages-html-12k")?,
                plain("the same, compressed", "pages-compressed-12k")?,
                plain("304: the client has it", "pages-304-12k")?,
                secure("a page of 12 KB by HTTP/2 over TLS", "tls-http2-12kb")?,
                secure("a new TLS connection and a page of 1 KB", "tls-handshakes")?,
            ],
            waking: (alone - busy).max(0.0),
        })
    }

    fn costs(&self) -> String {
        let mut text = header(&["", "of a core", "a core at its limit", "bytes of an answer"]);
        for answer in &self.answers {
            let bytes = answer.bytes.map_or_else(String::new, count);
            row(&mut text, &[answer.name, &micros(answer.cost), &per_second(1.0 / answer.cost), &bytes]);
        }
        row(&mut text, &["an answer that finds the core idle, more", &micros(self.waking), "", ""]);
        text
    }

    /// What becomes of waiting as a core fills up.
    fn core(&self) -> String {
        let mut text = header(&[
            "requests a second",
            "of the core, without waking",
            "of the core, busy",
            "p50",
            "p99",
            "p99.9",
        ]);
        let cost = self.answers[0].cost;
        let stages = [Stage { service: cost, waking: self.waking }];
        for share in [0.1, 0.3, 0.5, 0.7, 0.8, 0.9, 0.95, 0.98] {
            let seen = queue::simulate(&stages, share / cost, SIMULATED, 1);
            row(
                &mut text,
                &[
                    &per_second(share / cost),
                    &Unit::Share.write(share),
                    &Unit::Share.write(seen.utilisation[0]),
                    &micros(seen.percentile(0.5)),
                    &micros(seen.percentile(0.99)),
                    &micros(seen.percentile(0.999)),
                ],
            );
        }
        text
    }

    fn plan(&self) -> String {
        let mut text = header(&[
            "requests a second",
            "all of them",
            "cores",
            "Gbit/s",
            "machines by cores",
            "machines by network",
            "machines and one more",
        ]);
        for rate in [1e4, 1e6] {
            for answer in &self.answers[..3] {
                let Some(bytes) = answer.bytes else { continue };
                let plan = machines(rate, answer.cost, bytes);
                row(
                    &mut text,
                    &[
                        &per_second(rate),
                        answer.name,
                        &format!("{:.1}", rate * answer.cost / TARGET),
                        &format!("{:.1}", gigabits(rate, bytes)),
                        &count(plan.by_cores),
                        &count(plan.by_network),
                        &count(plan.all()),
                    ],
                );
            }
        }
        text
    }
}

/// How many machines are wanted.
#[derive(Debug, PartialEq)]
struct Machines {
    by_cores: f64,
    by_network: f64,
}

impl Machines {
    /// With one to spare.
    fn all(&self) -> f64 {
        self.by_cores.max(self.by_network) + 1.0
    }
}

fn machines(rate: f64, cost: f64, bytes: f64) -> Machines {
    Machines {
        by_cores: (rate * cost / (CORES * TARGET)).ceil(),
        by_network: (gigabits(rate, bytes) / (NETWORK * TARGET)).ceil(),
    }
}

/// On the wire, without what TCP and IP add.
fn gigabits(rate: f64, bytes: f64) -> f64 {
    rate * bytes * 8.0 / 1e9
}

fn find<'a>(figures: &'a Figures, name: &str) -> Result<&'a Table> {
    let mut tables = figures.sections.iter().flat_map(|section| &section.tables);
    tables.find(|table| table.name == name).with_context(|| format!("docs/performance has no table {name}"))
}

/// Seconds of a core for an answer of frontdesk's.
fn cost(table: &Table) -> Result<f64> {
    let column = table.columns.iter().position(|column| column.title == "processor time an answer");
    let row = table.rows.iter().find(|row| row.label == "frontdesk");
    let found = column.zip(row).and_then(|(column, row)| row.cells.get(column).copied().flatten());
    Ok(found.with_context(|| format!("{} does not say what an answer takes", table.name))?.median / 1e6)
}

/// "775 bytes of head and 12258 bytes of body from frontdesk."
fn length(note: &str) -> Result<f64> {
    let words: Vec<&str> = note.split(' ').collect();
    let before = |what: &str| {
        let place = words.windows(3).position(|three| three[0] == "bytes" && three[2].starts_with(what))?;
        words.get(place.checked_sub(1)?)?.parse::<f64>().ok()
    };
    before("head")
        .zip(before("body"))
        .map(|(head, body)| head + body)
        .context("the length of an answer is not told")
}

impl Keeping {
    fn costs(&self) -> Costs {
        let seconds = |micros: f64| micros / 1e6;
        Costs {
            desk: seconds(self.desk),
            desk_batch: seconds(self.desk_batch),
            redis: seconds(self.redis),
            postgres: seconds(self.postgres),
            postgres_batch: seconds(self.postgres_batch),
            sync: seconds(self.sync),
            wait: seconds(self.wait),
        }
    }
}

fn submission_costs(stored: &Stored) -> String {
    let keeping = &stored.keeping;
    let mut text = header(&["", "for each submission", "for each batch"]);
    let us = |value: f64| Unit::Micros.write(value);
    row(&mut text, &["a desk's core", &us(keeping.desk), &us(keeping.desk_batch)]);
    row(&mut text, &["Redis", &us(keeping.redis), ""]);
    row(&mut text, &["a core of PostgreSQL's", &us(keeping.postgres), &us(keeping.postgres_batch)]);
    row(&mut text, &["the disk with PostgreSQL's log, one sync", "", &us(keeping.sync)]);
    row(&mut text, &["messages and wake-ups on one machine", "", &us(keeping.wait)]);
    let delivering = &stored.delivering;
    row(&mut text, &["PostgreSQL's cores, kept and delivered, few at a time", &us(delivering.alone), ""]);
    row(&mut text, &["PostgreSQL's cores, kept and delivered, many at a time", &us(delivering.many), ""]);
    row(&mut text, &["a desk's core, kept and delivered, many at a time", &us(delivering.desk), ""]);
    row(&mut text, &["**a second, by one desk**", "", ""]);
    row(
        &mut text,
        &["kept, 64 visitors who send again at once", &Unit::Count.write_spread(&keeping.most), ""],
    );
    row(&mut text, &["delivered into a Maildir", &Unit::Count.write_spread(&delivering.rate), ""]);
    text
}

fn bytes(stored: &Stored) -> String {
    let bytes = &stored.bytes;
    let mut text =
        header(&["", "a submission", "a million", "a day at 100 a second", "a day at 10,000 a second"]);
    for (name, each) in [
        ("log, all pages recently written", bytes.wal_fresh),
        ("log, with a delivery", bytes.wal_delivered),
        ("log, an inbox of a million just after a checkpoint", bytes.wal_cold),
        ("the same with `wal_compression = lz4`", bytes.wal_compressed),
        ("tables: submissions", bytes.submission),
        ("tables: deliveries", bytes.delivery),
        ("tables: attempts", bytes.attempt),
        ("tables: together", bytes.kept()),
    ] {
        let day = |rate: f64| large(each * rate * 86_400.0);
        row(&mut text, &[name, &format!("{} B", count(each)), &large(each * 1e6), &day(1e2), &day(1e4)]);
    }
    text
}

/// What is planned for.
struct Scenario {
    rate: f64,
    name: &'static str,
    desks: usize,
    desk_cores: usize,
    postgres_cores: usize,
    /// Milliseconds.
    round_trip: f64,
    sync: Option<f64>,
    standby: f64,
}

const TWO_DESKS: Scenario = Scenario {
    rate: 1e2,
    name: "two desks, PostgreSQL in the same data centre, on a disk that syncs in 1 ms",
    desks: 2,
    desk_cores: 2,
    postgres_cores: 2,
    round_trip: 0.5,
    sync: Some(1.0),
    standby: 0.0,
};

const FOUR_DESKS: Scenario = Scenario {
    rate: 1e4,
    name: "four desks, PostgreSQL in the same data centre, on a disk that syncs in 1 ms",
    desks: 4,
    desk_cores: 4,
    postgres_cores: 8,
    ..TWO_DESKS
};

const WITH_STANDBY: &str = "the same, and a standby in another zone (2 ms) that has to have applied it";

const SCENARIOS: [Scenario; 7] = [
    Scenario {
        name: "one desk and PostgreSQL on one machine",
        desks: 1,
        round_trip: 0.05,
        sync: None,
        ..TWO_DESKS
    },
    TWO_DESKS,
    Scenario { name: WITH_STANDBY, standby: 3.0, ..TWO_DESKS },
    FOUR_DESKS,
    Scenario { name: WITH_STANDBY, standby: 3.0, ..FOUR_DESKS },
    Scenario { name: "the same, and the standby is 30 ms away", standby: 31.0, ..FOUR_DESKS },
    Scenario {
        name: "as the last one but with sixteen desks",
        desks: 16,
        desk_cores: 1,
        standby: 31.0,
        ..FOUR_DESKS
    },
];

impl Scenario {
    fn system(&self, keeping: &Keeping) -> System {
        let mut costs = keeping.costs();
        if let Some(sync) = self.sync {
            costs.sync = sync / 1e3;
        }
        System {
            desks: self.desks,
            desk_cores: self.desk_cores,
            postgres_cores: self.postgres_cores,
            round_trip: self.round_trip / 1e3,
            standby: self.standby / 1e3,
            costs,
        }
    }
}

fn submissions(keeping: &Keeping) -> String {
    let mut text = header(&[
        "a second",
        "who",
        "cores of each desk",
        "PostgreSQL's cores",
        "in a batch",
        "batches a sync",
        "desks busy",
        "PostgreSQL busy",
        "Redis busy",
        "syncs busy",
        "p50",
        "p99",
    ]);
    for scenario in &SCENARIOS {
        let seen = keep::simulate(&scenario.system(keeping), scenario.rate, SIMULATED, 1);
        let share = |value: f64| Unit::Share.write(value);
        let millis = |seconds: f64| Unit::Millis.write(seconds * 1e3);
        row(
            &mut text,
            &[
                &per_second(scenario.rate),
                scenario.name,
                &scenario.desk_cores.to_string(),
                &scenario.postgres_cores.to_string(),
                &format!("{:.1}", seen.batch),
                &format!("{:.1}", seen.together),
                &share(seen.desk),
                &share(seen.postgres),
                &share(seen.redis),
                &share(seen.disk),
                &millis(seen.percentile(0.5)),
                &millis(seen.percentile(0.99)),
            ],
        );
    }
    text
}

/// Where the system for 10,000 a second has nothing left, part by part.
fn saturation(stored: &Stored) -> String {
    let mut text = header(&["part", "submissions a second at its limit", "in the plan, at most"]);
    let system = FOUR_DESKS.system(&stored.keeping);
    for (part, most) in keep::saturation(&system) {
        let name = match part {
            "desks" => "four desks of four cores",
            "PostgreSQL" => "PostgreSQL, to keep (four writers, so four of its cores)",
            other => other,
        };
        row(&mut text, &[name, &per_second(most), &per_second(most * TARGET)]);
    }
    let many = system.postgres_cores as f64 * 1e6 / stored.delivering.many;
    row(
        &mut text,
        &[
            "PostgreSQL, to keep and to deliver with one channel (eight cores)",
            &per_second(many),
            &per_second(many * TARGET),
        ],
    );
    text
}

fn check(stored: &Stored) -> String {
    let mut text = header(&["load", "", "the model", "measured", "the model is off by"]);
    for point in &stored.points {
        for (number, figure) in point.figures.iter().enumerate() {
            let load = if number == 0 {
                format!("{} ({}/s)", point.what, per_second(point.rate))
            } else {
                String::new()
            };
            row(
                &mut text,
                &[
                    &load,
                    &figure.what,
                    &figure.unit.write(figure.predicted),
                    &figure.unit.write_spread(&figure.measured),
                    &format!("{:+.0} %", figure.error() * 100.0),
                ],
            );
        }
    }
    text
}

fn machine(stored: &Stored) -> String {
    let mut text = header(&["", ""]);
    for (what, which) in &stored.machine {
        row(&mut text, &[what, which]);
    }
    row(
        &mut text,
        &[
            "measured",
            &format!("{}, {} rounds of {} s, medians", stored.measured, stored.rounds, stored.seconds),
        ],
    );
    text
}

fn header(titles: &[&str]) -> String {
    let mut text = String::new();
    row(&mut text, titles);
    let _ = writeln!(text, "|{}", " --- |".repeat(titles.len()));
    text
}

fn row(text: &mut String, cells: &[&str]) {
    for cell in cells {
        let _ = write!(text, "| {cell} ");
    }
    text.push_str("|\n");
}

fn micros(seconds: f64) -> String {
    Unit::Micros.write(seconds * 1e6)
}

fn count(value: f64) -> String {
    Unit::Count.write(value.round())
}

/// A rate, to two digits where it is large: more is not known.
fn per_second(rate: f64) -> String {
    let step = 10_f64.powf((rate.log10().floor() - 1.0).max(0.0));
    count((rate / step).round() * step)
}

/// Bytes with decimal prefixes, as disks and networks are sold.
fn large(bytes: f64) -> String {
    match bytes {
        1e12.. => format!("{:.1} TB", bytes / 1e12),
        1e9.. => format!("{:.1} GB", bytes / 1e9),
        _ => format!("{:.0} MB", bytes / 1e6),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_network_decides_how_many_machines_a_million_pages_take() {
        // 13,000 bytes a million times a second are 104 Gbit/s, and a card of 25 Gbit/s carries 15 at the most.
        assert_eq!(machines(1e6, 7e-6, 13_000.0), Machines { by_cores: 1.0, by_network: 7.0 });
        assert_eq!(machines(1e6, 30e-6, 700.0), Machines { by_cores: 4.0, by_network: 1.0 });
        assert_eq!(count(machines(1e6, 30e-6, 700.0).all()), "5");
    }

    #[test]
    fn an_answer_is_as_long_as_the_report_says() {
        let note = "775 bytes of head and 12258 bytes of body from frontdesk. The faster nginx is the one with sendfile.";
        assert_eq!(length(note).ok(), Some(13_033.0));
        assert!(length("nothing of the kind").is_err());
    }

    #[test]
    fn rates_have_no_more_digits_than_are_known() {
        for (rate, written) in [(138_123.0, "140,000"), (10_000.0, "10,000"), (987.0, "990"), (42.0, "42")] {
            assert_eq!(per_second(rate), written);
        }
    }

    #[test]
    fn bytes_are_told_in_what_disks_are_sold_in() {
        for (bytes, written) in [(2.5e9, "2.5 GB"), (1.5e12, "1.5 TB"), (3e6, "3 MB")] {
            assert_eq!(large(bytes), written);
        }
    }
}
