//! The tables in `docs/pages/scale.md`.

use std::collections::BTreeMap;

use anyhow::{Context as _, Result};

use super::SIMULATED;
use super::calibration::Calibration;
use super::queue::{self, Stage};
use super::submissions::{self, Costs, System};
use crate::figures::{Figures, Unit};
use crate::rounds::percentile;

/// Planned utilisation of cores and network cards.
const TARGET: f64 = 0.6;
/// Number of cores in a machine that serves pages.
const CORES: f64 = 16.0;
/// Network bandwidth of a machine that serves pages, in Gbit/s.
const NETWORK: f64 = 25.0;

pub fn all_tables(figures: &Figures, calibration: &Calibration) -> Result<BTreeMap<&'static str, String>> {
    let pages = PageCosts::from_figures(figures)?;
    Ok(BTreeMap::from([
        ("page-costs", pages.costs_table()),
        ("core", pages.utilisation_table()),
        ("pages", pages.machines_table()),
        ("submission-costs", submission_costs_table(calibration)),
        ("bytes", bytes_table(calibration)),
        ("submissions", submissions_table(calibration.costs)),
        ("saturation", saturation_table(calibration)),
        ("check", comparison_table(calibration)),
        ("machine", machine_table(calibration)),
    ]))
}

fn table<const N: usize>(titles: [&str; N], rows: impl IntoIterator<Item = [String; N]>) -> String {
    let line = |cells: &[String]| format!("| {} |\n", cells.join(" | "));
    let head = line(&titles.map(str::to_owned)) + &line(&titles.map(|_| "---".to_owned()));
    rows.into_iter().fold(head, |text, row| text + &line(&row))
}

/// The measured cost of a response.
#[derive(Debug)]
struct ResponseCost {
    name: &'static str,
    /// CPU time in microseconds.
    cpu: f64,
    /// Length of header and body, in bytes; `None` if the table's note does not contain it.
    bytes: Option<f64>,
}

/// The costs of pages, from `docs/assets/performance/figures.json`.
#[derive(Debug)]
struct PageCosts {
    responses: Vec<ResponseCost>,
    /// Additional CPU time for a response if the core was idle, in microseconds.
    wake_up: f64,
}

impl PageCosts {
    fn from_figures(figures: &Figures) -> Result<Self> {
        let read = |(name, table)| -> Result<ResponseCost> {
            let table = figures.table(table).with_context(|| format!("no figures for the table {table}"))?;
            let cpu = table.cell("frontdesk", "CPU time per request");
            let cpu = cpu.with_context(|| format!("no CPU time in the table {}", table.name))?.median;
            Ok(ResponseCost { name, cpu, bytes: response_length(&table.note) })
        };
        let responses = [
            ("12 KB page", "pages-html-12k"),
            ("12 KB page, compressed", "pages-compressed-12k"),
            ("304 Not Modified", "pages-304-12k"),
            ("12 KB page, HTTP/2 over TLS", "tls-http2-12kb"),
            ("new TLS connection and 1 KB page", "tls-handshakes"),
        ];
        let responses = responses.into_iter().map(read).collect::<Result<_>>()?;
        let wake_up = read(("", "connections-1"))?.cpu - read(("", "connections-64"))?.cpu;
        Ok(Self { responses, wake_up: wake_up.max(0.0) })
    }

    fn costs_table(&self) -> String {
        let titles = ["response", "CPU time", "maximum of a core, per second", "bytes"];
        let rows = self.responses.iter().map(|ResponseCost { name, cpu, bytes }| {
            [
                (*name).to_owned(),
                micros(*cpu),
                format_rate(1e6 / cpu),
                bytes.map(format_count).unwrap_or_default(),
            ]
        });
        let name = "additional, if the core was idle".to_owned();
        table(titles, rows.chain([[name, micros(self.wake_up), String::new(), String::new()]]))
    }

    fn utilisation_table(&self) -> String {
        let service = self.responses[0].cpu;
        let stages = [Stage { service, wake_up: self.wake_up }];
        let titles = ["requests/s", "load without wake-ups", "core utilisation", "p50", "p99"];
        let rows = [0.1, 0.3, 0.5, 0.7, 0.8, 0.9, 0.95, 0.98].map(|load| {
            let (utilisation, responses) = queue::simulate(&stages, load / service, SIMULATED, 1);
            let [p50, p99] = [0.5, 0.99].map(|part| micros(percentile(&responses, part)));
            let [planned, used] = [load, utilisation[0]].map(|share| Unit::Share.format(share));
            [format_rate(load * 1e6 / service), planned, used, p50, p99]
        });
        table(titles, rows)
    }

    fn machines_table(&self) -> String {
        let titles = [
            "requests/s",
            "response",
            "cores",
            "Gbit/s",
            "machines (CPU)",
            "machines (network)",
            "machines with a spare",
        ];
        let rows = [1e4, 1e6].into_iter().flat_map(|rate| {
            self.responses.iter().filter_map(move |ResponseCost { name, cpu, bytes }| {
                let bytes = (*bytes)?;
                let [by_cpu, by_network] = required_machines(rate, *cpu, bytes);
                Some([
                    format_rate(rate),
                    (*name).to_owned(),
                    format!("{:.1}", rate * cpu / 1e6 / TARGET),
                    format!("{:.1}", network_gigabits(rate, bytes)),
                    format_count(by_cpu),
                    format_count(by_network),
                    format_count(by_cpu.max(by_network) + 1.0),
                ])
            })
        });
        table(titles, rows)
    }
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

fn submission_costs_table(calibration: &Calibration) -> String {
    let Calibration { costs, delivery, .. } = calibration;
    let costs = [
        ("replica CPU", Some(costs.replica), Some(costs.replica_batch)),
        ("Redis CPU", Some(costs.redis), None),
        ("PostgreSQL CPU", Some(costs.postgres), Some(costs.postgres_batch)),
        ("one sync of the WAL", None, Some(costs.sync)),
        ("other waiting time", None, Some(costs.wait)),
        ("PostgreSQL CPU with delivery, low rate", Some(delivery.postgres_low_rate), None),
        ("PostgreSQL CPU with delivery, highest rate", Some(delivery.postgres), None),
        ("replica CPU with delivery, highest rate", Some(delivery.replica), None),
    ];
    let costs = costs.map(|(name, each, batch)| {
        let [each, batch] = [each, batch].map(|cost| cost.map(micros).unwrap_or_default());
        [name.to_owned(), each, batch]
    });
    let rates = [
        ("**stored per second, 64 concurrent visitors**", &calibration.max_rate),
        ("**delivered to a Maildir per second**", &delivery.rate),
    ];
    let rates = rates.map(|(name, rate)| [name.to_owned(), Unit::Count.format_spread(rate), String::new()]);
    table(["", "per submission", "per batch"], costs.into_iter().chain(rates))
}

fn bytes_table(calibration: &Calibration) -> String {
    let bytes = &calibration.bytes;
    let rows = [
        ("WAL, recently written pages", bytes.wal_fresh),
        ("WAL, with a delivery", bytes.wal_delivered),
        ("WAL, inbox of a million just after a checkpoint", bytes.wal_cold),
        ("the same with `wal_compression = lz4`", bytes.wal_compressed),
        ("table of submissions", bytes.submission),
        ("table of deliveries", bytes.delivery),
        ("table of attempts", bytes.attempt),
        ("all tables", bytes.submission + bytes.delivery + bytes.attempt),
    ];
    let rows = rows.map(|(name, each)| {
        let day = |rate: f64| format_bytes(each * rate * 86_400.0);
        [name.to_owned(), format!("{} B", format_count(each)), format_bytes(each * 1e6), day(1e2), day(1e4)]
    });
    table(["", "per submission", "per million", "per day at 100/s", "per day at 10,000/s"], rows)
}

/// The setups in the table of submissions: submissions per second, name, and machines. Times are in
/// microseconds. Only the first setup uses the measured duration of a sync.
fn setups(costs: Costs) -> [(f64, &'static str, System); 7] {
    // The standby confirms a commit after a round trip of 2 or 30 ms and a sync of 1 ms.
    let (other_zone, other_region) = (3_000.0, 31_000.0);
    let one_machine =
        System { replicas: 1, replica_cores: 2, postgres_cores: 2, round_trip: 50.0, standby: 0.0, costs };
    let costs = Costs { sync: 1_000.0, ..costs };
    let two_replicas = System { replicas: 2, round_trip: 500.0, costs, ..one_machine };
    let four_replicas = System { replicas: 4, replica_cores: 4, postgres_cores: 8, ..two_replicas };
    let distant_standby = System { standby: other_region, ..four_replicas };
    let with_standby = "the same, standby in another zone (2 ms) with `remote_apply`";
    [
        (1e2, "1 replica and PostgreSQL on one machine", one_machine),
        (1e2, "2 replicas, PostgreSQL in the same data centre, 1 ms sync", two_replicas),
        (1e2, with_standby, System { standby: other_zone, ..two_replicas }),
        (1e4, "4 replicas, PostgreSQL in the same data centre, 1 ms sync", four_replicas),
        (1e4, with_standby, System { standby: other_zone, ..four_replicas }),
        (1e4, "the same, standby 30 ms away", distant_standby),
        (1e4, "the same, 16 replicas", System { replicas: 16, replica_cores: 1, ..distant_standby }),
    ]
}

fn submissions_table(costs: Costs) -> String {
    let titles = [
        "per second",
        "setup",
        "cores of each replica",
        "PostgreSQL cores",
        "batch size",
        "batches per sync",
        "replica CPU",
        "PostgreSQL CPU",
        "Redis CPU",
        "disk sync",
        "p50",
        "p99",
    ];
    let rows = setups(costs).map(|(rate, name, system)| {
        let predicted = submissions::simulate(&system, rate / 1e6, SIMULATED, 1);
        let millis = |part| Unit::Millis.format(percentile(&predicted.responses, part) / 1e3);
        let utilisations = [predicted.replica, predicted.postgres, predicted.redis, predicted.disk];
        let [replica, postgres, redis, disk] = utilisations.map(|share| Unit::Share.format(share));
        [
            format_rate(rate),
            name.to_owned(),
            system.replica_cores.to_string(),
            system.postgres_cores.to_string(),
            format!("{:.1}", predicted.batch_size),
            format!("{:.1}", predicted.batches_per_sync),
            replica,
            postgres,
            redis,
            disk,
            millis(0.5),
            millis(0.99),
        ]
    });
    table(titles, rows)
}

/// The maximum rate of each part of the setup for 10,000 submissions per second.
fn saturation_table(calibration: &Calibration) -> String {
    let (.., system) = setups(calibration.costs)[3];
    let [replicas, redis, postgres] = submissions::saturation(&system);
    let delivering = system.postgres_cores as f64 / calibration.delivery.postgres;
    let parts = [
        ("4 replicas with 4 cores", replicas),
        ("Redis", redis),
        ("PostgreSQL, storing (4 writers use 4 of its cores)", postgres),
        ("PostgreSQL, storing and delivering to one channel (8 cores)", delivering),
    ];
    let rows = parts.map(|(part, per_microsecond)| {
        [part.to_owned(), format_rate(per_microsecond * 1e6), format_rate(per_microsecond * 1e6 * TARGET)]
    });
    table(["part", "maximum submissions/s", "planned maximum"], rows)
}

fn comparison_table(calibration: &Calibration) -> String {
    let mut rows = Vec::new();
    for comparison in &calibration.comparisons {
        let mut load = format!("{} ({}/s)", comparison.load, format_rate(comparison.rate));
        for figure in &comparison.figures {
            // Positive if the prediction is too high.
            let error = figure.predicted / figure.measured.median - 1.0;
            rows.push([
                std::mem::take(&mut load),
                figure.name.clone(),
                figure.unit.format(figure.predicted),
                figure.unit.format_spread(&figure.measured),
                format!("{:+.0} %", error * 100.0),
            ]);
        }
    }
    table(["load", "figure", "model", "measured", "model error"], rows)
}

fn machine_table(calibration: &Calibration) -> String {
    let Calibration { measured, rounds, seconds, .. } = calibration;
    let measured = format!("{measured}, medians of {rounds} rounds of {seconds} s");
    let machine = calibration.machine.iter().map(|(name, value)| [name.clone(), value.clone()]);
    table(["", ""], machine.chain([["measured".to_owned(), measured]]))
}

fn micros(microseconds: f64) -> String {
    Unit::Micros.format(microseconds)
}

fn format_count(value: f64) -> String {
    Unit::Count.format(value.round())
}

/// Formats a rate, rounded to two significant digits, because the model is not more accurate than that.
fn format_rate(rate: f64) -> String {
    let step = 10_f64.powf((rate.log10().floor() - 1.0).max(0.0));
    format_count((rate / step).round() * step)
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

    #[test]
    fn the_network_limits_a_million_pages_a_second() {
        // A million 13,000-byte responses per second amount to 104 Gbit/s. The plan uses 15 Gbit/s per card.
        assert_eq!(required_machines(1e6, 7.0, 13_000.0).map(format_count), ["1", "7"]);
        assert_eq!(required_machines(1e6, 30.0, 700.0).map(format_count), ["4", "1"]);
    }

    #[test]
    fn the_length_of_a_response_is_read_from_the_note() {
        let note =
            "Response of frontdesk: 775 header bytes, 12258 body bytes. nginx is faster with sendfile.";
        assert_eq!(response_length(note), Some(13_033.0));
        assert_eq!(response_length("nothing of the kind"), None);
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
