//! Calculates the capacity of several machines from costs measured on one core. Writes the tables in
//! `docs/pages/scale.md`.

mod measure;

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use anyhow::{Context as _, Result, ensure};

use self::measure::{Costs, Measurements};
use crate::figures::{self, Figures, Unit};
use crate::report;
use crate::settings::{Bench, report_progress};

const DOCUMENT: &str = "docs/pages/scale.md";
const FIGURES: &str = "docs/assets/scale/figures.json";
const END_OF_TABLE: &str = "<!-- end of table -->";

/// Planned utilisation of cores and network cards.
const TARGET: f64 = 0.6;
/// Number of cores in a machine that serves pages.
const CORES: f64 = 16.0;
/// Network bandwidth of a machine that serves pages, in Gbit/s.
const NETWORK: f64 = 25.0;

/// Measures the costs, and writes the tables.
pub fn measure(bench: &Bench) -> Result<()> {
    figures::write(Path::new(FIGURES), &measure::run(bench)?)?;
    write()
}

pub fn write() -> Result<()> {
    fs::write(DOCUMENT, fill_in_tables(&fs::read_to_string(DOCUMENT)?)?)?;
    report_progress("wrote the tables in docs/pages/scale.md");
    Ok(())
}

pub fn check() -> Result<()> {
    let text = fs::read_to_string(DOCUMENT)?;
    ensure!(text == fill_in_tables(&text)?, "{DOCUMENT} does not match its figures: run scripts/bench model");
    report_progress("docs/pages/scale.md matches its figures and those of docs/pages/performance.md");
    Ok(())
}

fn fill_in_tables(text: &str) -> Result<String> {
    let pages = figures::read(Path::new(report::FIGURES))?;
    let measured: Measurements =
        figures::read(Path::new(FIGURES)).context("run scripts/bench model --measure first")?;
    let tables = BTreeMap::from([
        ("pages", pages_table(&pages)?),
        ("submission-costs", costs_table(&measured)),
        ("submissions", submissions_table(measured.costs)),
        ("bytes", bytes_table(&measured)),
        ("saturation", saturation_table(measured.costs)),
    ]);
    replace_tables(text, &tables).context(DOCUMENT)
}

/// Replaces each table between `<!-- table: NAME -->` and the end marker. The document and `tables` must
/// contain the same names.
fn replace_tables(document: &str, tables: &BTreeMap<&str, String>) -> Result<String> {
    let mut text = String::with_capacity(document.len());
    let mut placed = Vec::new();
    let mut rest = document;
    while let Some((before, from)) = rest.split_once("<!-- table: ") {
        let (name, inside) = from.split_once(" -->").context("the marker of a table is not closed")?;
        let (_, after) =
            inside.split_once(END_OF_TABLE).with_context(|| format!("table '{name}' has no end marker"))?;
        let table = tables.get(name).with_context(|| format!("unknown table '{name}'"))?;
        text += before;
        text += &format!("<!-- table: {name} -->\n\n{table}\n{END_OF_TABLE}");
        placed.push(name);
        rest = after;
    }
    for name in tables.keys() {
        ensure!(placed.contains(name), "the document has no marker for the table '{name}'");
    }
    Ok(text + rest)
}

fn table<const N: usize>(titles: [&str; N], rows: impl IntoIterator<Item = [String; N]>) -> String {
    let line = |cells: &[String]| format!("| {} |\n", cells.join(" | "));
    let head = line(&titles.map(str::to_owned)) + &line(&titles.map(|_| "---".to_owned()));
    rows.into_iter().fold(head, |text, row| text + &line(&row))
}

fn pages_table(figures: &Figures) -> Result<String> {
    let responses = [
        ("12 KB page", "pages-html-12k"),
        ("12 KB page, compressed", "pages-compressed-12k"),
        ("304 Not Modified", "pages-304-12k"),
    ];
    let mut rows = Vec::new();
    for rate in [1e4, 1e6] {
        for (response, name) in responses {
            let table = figures.table(name).with_context(|| format!("no figures for the table {name}"))?;
            let cpu = table.cell("frontdesk", "CPU time per request");
            let cpu = cpu.with_context(|| format!("no CPU time in the table {name}"))?.median;
            let bytes = response_length(&table.note)
                .with_context(|| format!("no length of the response in the note of the table {name}"))?;
            let [by_cpu, by_network] = required_machines(rate, cpu, bytes);
            rows.push([
                format_rate(rate),
                response.to_owned(),
                format!("{:.1}", rate * cpu / 1e6 / TARGET),
                format!("{:.1}", network_gigabits(rate, bytes)),
                Unit::Count.format(by_cpu),
                Unit::Count.format(by_network),
                Unit::Count.format(by_cpu.max(by_network) + 1.0),
            ]);
        }
    }
    let titles = [
        "requests/s",
        "response",
        "cores",
        "Gbit/s",
        "machines (CPU)",
        "machines (network)",
        "machines with a spare",
    ];
    Ok(table(titles, rows))
}

/// The numbers of machines that CPU time and network traffic require at `rate` responses per second.
fn required_machines(rate: f64, cpu: f64, bytes: f64) -> [f64; 2] {
    [rate * cpu / 1e6 / (CORES * TARGET), network_gigabits(rate, bytes) / (NETWORK * TARGET)].map(f64::ceil)
}

/// Network traffic in Gbit/s, without the overhead of TCP and IP.
fn network_gigabits(rate: f64, bytes: f64) -> f64 {
    rate * bytes * 8.0 / 1e9
}

/// The total length in a note such as "Response of frontdesk: 775 header bytes, 12258 body bytes."
fn response_length(note: &str) -> Option<f64> {
    let words: Vec<&str> = note.split(' ').collect();
    let number = |unit| {
        let place = words.iter().position(|word| *word == unit)?;
        words.get(place.checked_sub(1)?)?.parse::<f64>().ok()
    };
    Some(number("header")? + number("body")?)
}

fn costs_table(measured: &Measurements) -> String {
    let costs = &measured.costs;
    let cpu = [
        ("replica CPU", Some(costs.replica), Some(costs.replica_batch)),
        ("Redis CPU", Some(costs.redis), None),
        ("PostgreSQL CPU", Some(costs.postgres), Some(costs.postgres_batch)),
        ("one sync of the WAL", None, Some(costs.sync)),
        ("PostgreSQL CPU with delivery", Some(costs.delivery_postgres), None),
        ("replica CPU with delivery", Some(costs.delivery_replica), None),
    ];
    let cpu = cpu.map(|(name, each, batch)| {
        let [each, batch] = [each, batch].map(|cost| cost.map(|cost| Unit::Micros.format(cost)));
        [name.to_owned(), each.unwrap_or_default(), batch.unwrap_or_default()]
    });
    let rates = [
        ("**stored per second, 64 concurrent visitors**", &measured.stored),
        ("**delivered to a Maildir per second**", &measured.delivered),
    ];
    let rates = rates.map(|(name, rate)| [name.to_owned(), Unit::Count.format_spread(rate), String::new()]);
    table(["", "per submission", "per batch"], cpu.into_iter().chain(rates))
}

fn bytes_table(measured: &Measurements) -> String {
    let rows = measured.bytes.iter().map(|(name, each)| {
        let day = |rate: f64| format_bytes(each * rate * 86_400.0);
        let bytes = format!("{} B", Unit::Count.format(each.round()));
        [name.clone(), bytes, format_bytes(each * 1e6), day(1e2), day(1e4)]
    });
    table(["", "per submission", "per million", "per day at 100/s", "per day at 10,000/s"], rows)
}

/// Replicas that store submissions in one PostgreSQL database. Times are in microseconds.
#[derive(Debug, Clone, Copy)]
struct System {
    replicas: f64,
    /// Number of cores of each replica.
    replica_cores: f64,
    postgres_cores: f64,
    /// Network round trip between two machines.
    round_trip: f64,
    /// Additional time until the standby confirms a commit.
    standby: f64,
    costs: Costs,
}

/// The setups in the table of submissions: submissions per second, name, and machines. Only the first setup
/// uses the measured duration of a sync.
fn setups(costs: Costs) -> [(f64, &'static str, System); 7] {
    // The standby confirms a commit after a round trip of 2 or 30 ms and a sync of 1 ms.
    let (other_zone, other_region) = (3_000.0, 31_000.0);
    let one_machine = System {
        replicas: 1.0,
        replica_cores: 2.0,
        postgres_cores: 2.0,
        round_trip: 50.0,
        standby: 0.0,
        costs,
    };
    let costs = Costs { sync: 1_000.0, ..costs };
    let two_replicas = System { replicas: 2.0, round_trip: 500.0, costs, ..one_machine };
    let four_replicas = System { replicas: 4.0, replica_cores: 4.0, postgres_cores: 8.0, ..two_replicas };
    let distant_standby = System { standby: other_region, ..four_replicas };
    let with_standby = "the same, standby in another zone (2 ms) with `remote_apply`";
    [
        (1e2, "1 replica and PostgreSQL on one machine", one_machine),
        (1e2, "2 replicas, PostgreSQL in the same data centre, 1 ms sync", two_replicas),
        (1e2, with_standby, System { standby: other_zone, ..two_replicas }),
        (1e4, "4 replicas, PostgreSQL in the same data centre, 1 ms sync", four_replicas),
        (1e4, with_standby, System { standby: other_zone, ..four_replicas }),
        (1e4, "the same, standby 30 ms away", distant_standby),
        (1e4, "the same, 16 replicas", System { replicas: 16.0, replica_cores: 1.0, ..distant_standby }),
    ]
}

/// Means, for submissions that arrive at random (a Poisson process).
#[derive(Debug)]
struct Prediction {
    batch_size: f64,
    /// Response time in microseconds.
    response: f64,
    /// Utilisation of the cores.
    replica: f64,
    postgres: f64,
}

impl System {
    /// Predicts the means at `rate` submissions per second, without queueing for cores.
    ///
    /// The writer of a replica commits one batch after another. A batch has the submissions that arrive
    /// during the previous commit, or one if there are none. PostgreSQL syncs batches of several replicas
    /// together.
    fn predict(&self, rate: f64) -> Prediction {
        let Self { replicas, round_trip, standby, costs, .. } = *self;
        let of_replica = rate / 1e6 / replicas;
        let (mut arrivals, mut batch_size, mut commit) = (0.0, 1.0, 0.0);
        // The batch size determines the length of a commit, and vice versa.
        for _ in 0..100 {
            let others_sync = ((replicas - 1.0) * of_replica / batch_size * costs.sync).min(1.0);
            commit = costs.replica_batch
                + 2.0 * round_trip
                + costs.postgres_batch
                + costs.postgres * batch_size
                + costs.sync * (1.0 + others_sync / 2.0)
                + standby;
            arrivals = of_replica * commit;
            batch_size = arrivals + (-arrivals).exp();
        }
        // A submission that arrives during a commit waits for half of it, on average, before its own.
        let waits = arrivals / batch_size;
        let replica = costs.replica + costs.replica_batch / batch_size;
        let postgres = costs.postgres + costs.postgres_batch / batch_size;
        Prediction {
            batch_size,
            response: costs.replica + costs.redis + round_trip + commit * (1.0 + waits / 2.0),
            replica: of_replica * replica / self.replica_cores,
            postgres: rate / 1e6 * postgres / self.postgres_cores,
        }
    }

    /// The submissions per second at which the replicas, Redis and PostgreSQL saturate. Batches are then too
    /// large for their fixed cost to matter.
    fn saturation(&self) -> [f64; 3] {
        let costs = &self.costs;
        // A replica has one writer with one connection, which uses one of PostgreSQL's cores at a time.
        let cores = self.replicas.min(self.postgres_cores);
        [self.replicas * self.replica_cores / costs.replica, 1.0 / costs.redis, cores / costs.postgres]
            .map(|per_microsecond| per_microsecond * 1e6)
    }
}

fn submissions_table(costs: Costs) -> String {
    let titles = [
        "per second",
        "setup",
        "cores of each replica",
        "PostgreSQL cores",
        "batch size",
        "replica CPU",
        "PostgreSQL CPU",
        "mean response",
    ];
    let rows = setups(costs).map(|(rate, name, system)| {
        let Prediction { batch_size, response, replica, postgres } = system.predict(rate);
        let [replica, postgres] = [replica, postgres].map(|share| Unit::Share.format(share));
        let [replica_cores, postgres_cores] =
            [system.replica_cores, system.postgres_cores].map(|cores| cores.to_string());
        let (batch_size, response) = (format!("{batch_size:.1}"), Unit::Millis.format(response / 1e3));
        [
            format_rate(rate),
            name.to_owned(),
            replica_cores,
            postgres_cores,
            batch_size,
            replica,
            postgres,
            response,
        ]
    });
    table(titles, rows)
}

/// The maximum rate of each part of the setup for 10,000 submissions per second.
fn saturation_table(costs: Costs) -> String {
    let (.., system) = setups(costs)[3];
    let [replicas, redis, postgres] = system.saturation();
    let parts = [
        ("4 replicas with 4 cores", replicas),
        ("Redis", redis),
        ("PostgreSQL, storing (4 writers use 4 of its cores)", postgres),
        (
            "PostgreSQL, storing and delivering to one channel (8 cores)",
            system.postgres_cores / costs.delivery_postgres * 1e6,
        ),
    ];
    let rows = parts.map(|(part, rate)| [part.to_owned(), format_rate(rate), format_rate(rate * TARGET)]);
    table(["part", "maximum submissions/s", "planned maximum"], rows)
}

/// Formats a rate, rounded to two significant digits: the predictions are not more accurate.
fn format_rate(rate: f64) -> String {
    let step = 10_f64.powf((rate.log10().floor() - 1.0).max(0.0));
    Unit::Count.format((rate / step).round() * step)
}

/// Formats bytes with decimal prefixes, as is usual for disks and networks.
fn format_bytes(bytes: f64) -> String {
    match bytes {
        1e12.. => format!("{:.1} TB", bytes / 1e12),
        1e9.. => format!("{:.1} GB", bytes / 1e9),
        _ => format!("{:.0} MB", bytes / 1e6),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DOCUMENT: &str = "before\n<!-- table: a -->\nold\n<!-- end of table -->\nafter\n";

    #[test]
    fn a_new_table_replaces_the_old_one() {
        let tables = BTreeMap::from([("a", "| new |\n".to_owned())]);
        let filled = replace_tables(DOCUMENT, &tables).expect("the document has the table");
        assert_eq!(filled, "before\n<!-- table: a -->\n\n| new |\n\n<!-- end of table -->\nafter\n");
        assert_eq!(replace_tables(&filled, &tables).ok(), Some(filled));
    }

    #[test]
    fn a_missing_table_or_place_is_an_error() {
        let named = |name| BTreeMap::from([(name, String::new())]);
        assert!(replace_tables(DOCUMENT, &named("b")).is_err());
        assert!(replace_tables("nothing", &named("a")).is_err());
        assert!(replace_tables("<!-- table: a -->", &named("a")).is_err());
    }

    #[test]
    fn the_network_limits_a_million_pages_a_second() {
        // A million 13,000-byte responses per second amount to 104 Gbit/s. The plan uses 15 Gbit/s per card.
        assert_eq!(required_machines(1e6, 7.0, 13_000.0).map(|number| number as u64), [1, 7]);
        assert_eq!(required_machines(1e6, 30.0, 700.0).map(|number| number as u64), [4, 1]);
    }

    #[test]
    fn the_length_of_a_response_is_read_from_the_note() {
        let note =
            "Response of frontdesk: 775 header bytes, 12258 body bytes. nginx is faster with sendfile.";
        assert_eq!(response_length(note), Some(13_033.0));
        assert_eq!(response_length("nothing of the kind"), None);
    }

    const ONE: System = System {
        replicas: 1.0,
        replica_cores: 1.0,
        postgres_cores: 1.0,
        round_trip: 0.0,
        standby: 0.0,
        costs: Costs {
            replica: 20.0,
            replica_batch: 400.0,
            redis: 10.0,
            postgres: 20.0,
            postgres_batch: 500.0,
            sync: 1_000.0,
            delivery_replica: 0.0,
            delivery_postgres: 0.0,
        },
    };

    #[track_caller]
    fn check(seen: f64, known: f64) {
        assert!((seen / known - 1.0).abs() < 0.001, "{seen} instead of {known}");
    }

    #[test]
    fn a_rare_submission_waits_only_for_its_own_commit() {
        let seen = ONE.predict(1e-3);
        check(seen.batch_size, 1.0);
        check(seen.response, 20.0 + 10.0 + 400.0 + 500.0 + 20.0 + 1_000.0);
        check(seen.postgres, 1e-3 * 520e-6);
        let near = System { round_trip: 100.0, standby: 3_000.0, ..ONE };
        check(near.predict(1e-3).response, seen.response + 3.0 * 100.0 + 3_000.0);
    }

    #[test]
    fn a_batch_is_the_arrivals_during_the_previous_one() {
        // A commit takes 1,900 µs and 20 µs for each of its submissions, so that at 10,000 a second 23.75
        // arrive during a commit of 2,375 µs. At this rate, nearly all of them wait for half a commit.
        let seen = ONE.predict(10_000.0);
        check(seen.batch_size, 23.75);
        check(seen.response, 20.0 + 10.0 + 1.5 * 2_375.0);
        check(seen.replica, 0.01 * (20.0 + 400.0 / 23.75));
    }

    #[test]
    fn replicas_share_syncs() {
        // The batches of sixteen replicas sync all the time, so a batch waits for half of a sync.
        let seen = System { replicas: 16.0, ..ONE }.predict(160_000.0);
        check(seen.response, 20.0 + 10.0 + 1.5 * (1_900.0 + 500.0) / 0.8);
    }

    #[test]
    fn saturation_is_limited_by_the_scarcest_part() {
        let parts = |replicas| {
            let system = System { replicas, replica_cores: 2.0, postgres_cores: 4.0, ..ONE };
            system.saturation().map(|rate| rate.round() as u64)
        };
        assert_eq!(parts(1.0), [100_000, 100_000, 50_000]);
        assert_eq!(parts(8.0), [800_000, 100_000, 200_000]);
    }

    #[test]
    fn rates_are_rounded_to_two_digits() {
        for (rate, written) in [(138_123.0, "140,000"), (10_000.0, "10,000"), (987.0, "990"), (42.0, "42")] {
            assert_eq!(format_rate(rate), written);
        }
    }

    #[test]
    fn bytes_have_decimal_prefixes() {
        for (bytes, written) in [(2.5e9, "2.5 GB"), (1.5e12, "1.5 TB"), (3e6, "3 MB")] {
            assert_eq!(format_bytes(bytes), written);
        }
    }
}
