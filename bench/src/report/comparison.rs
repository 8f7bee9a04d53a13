//! One table for all cases of a suite that measures several servers: the CPU time of a request.

use std::fmt::Write as _;

use anyhow::Result;

use crate::figures::{NOT_MEASURED, Spread, Table, Unit};
use crate::peer::FRONTDESK;

const COST: &str = "CPU time per request";

/// A server, or a setting of nginx: a column.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum CaseColumn {
    Frontdesk,
    WithSendfile,
    WithoutSendfile,
    Nginx,
    Caddy,
    StaticWebServer,
}

const COLUMNS: [(CaseColumn, &str); 6] = [
    (CaseColumn::Frontdesk, FRONTDESK),
    (CaseColumn::WithSendfile, "nginx, sendfile"),
    (CaseColumn::WithoutSendfile, "nginx, no sendfile"),
    (CaseColumn::Nginx, "nginx"),
    (CaseColumn::Caddy, "Caddy"),
    (CaseColumn::StaticWebServer, "static-web-server"),
];

impl CaseColumn {
    fn is_nginx(self) -> bool {
        matches!(self, Self::WithSendfile | Self::WithoutSendfile | Self::Nginx)
    }

    /// The column of a row of a table; `None` for servers that are not shown. The note names the setting of
    /// the row that is called just nginx.
    fn of(label: &str, note: &str) -> Option<Self> {
        Some(match label {
            FRONTDESK => Self::Frontdesk,
            "Caddy" => Self::Caddy,
            "static-web-server" => Self::StaticWebServer,
            "nginx" if note.contains("settings: nginx, sendfile off") => Self::WithoutSendfile,
            "nginx" if note.contains("settings: nginx, sendfile on") => Self::WithSendfile,
            "nginx" => Self::Nginx,
            _ if label.starts_with("nginx, sendfile off") => Self::WithoutSendfile,
            _ if label.starts_with("nginx, sendfile") => Self::WithSendfile,
            _ => return None,
        })
    }
}

/// The costs of a case: the lowest of each column.
#[derive(Debug, Default)]
struct Costs(Vec<(CaseColumn, f64)>);

impl Costs {
    fn of(table: &Table) -> Self {
        let mut costs = Self::default();
        for row in &table.rows {
            let Some(column) = CaseColumn::of(&row.label, &table.note) else { continue };
            let Some(cost) = table.cell(&row.label, COST).map(|cost| cost.median) else { continue };
            match costs.0.iter_mut().find(|(known, _)| *known == column) {
                Some((_, least)) => *least = least.min(cost),
                None => costs.0.push((column, cost)),
            }
        }
        costs
    }

    fn get(&self, column: CaseColumn) -> Option<f64> {
        self.0.iter().find(|(known, _)| *known == column).map(|(_, cost)| *cost)
    }

    /// How many times as much CPU time the best setting of nginx takes.
    fn ratio(&self) -> Option<f64> {
        let nginx = self.0.iter().filter(|(column, _)| column.is_nginx()).map(|(_, cost)| *cost);
        Some(nginx.min_by(f64::total_cmp)? / self.get(CaseColumn::Frontdesk)?)
    }
}

/// Whether a table compares the cost of a request, and so is a row of [`write_costs`].
pub fn is_case(table: &Table) -> bool {
    table.cell(FRONTDESK, COST).is_some()
}

/// The ratio of the rounds, with its range, if nginx was measured with one setting.
fn ratio_of_rounds(table: &Table) -> Option<Spread> {
    table.cell(FRONTDESK, "× nginx, requests per CPU time")
}

/// Writes a table with a row for each of `tables` and a column for each server. Times are in microseconds.
pub fn write_costs(text: &mut String, tables: &[&Table]) -> Result<()> {
    let all: Vec<(&Table, Costs)> = tables.iter().map(|table| (*table, Costs::of(table))).collect();
    let is_measured = |column: CaseColumn| all.iter().any(|(_, costs)| costs.get(column).is_some());
    let columns: Vec<(CaseColumn, &str)> =
        COLUMNS.into_iter().filter(|(column, _)| is_measured(*column)).collect();
    let has_ratio = all.iter().any(|(_, costs)| costs.ratio().is_some());
    let ratio_after = columns.iter().rposition(|(column, _)| column.is_nginx()).filter(|_| has_ratio);
    write!(text, "\n| µs |")?;
    for (place, (_, title)) in columns.iter().enumerate() {
        write!(text, " {title} |")?;
        if ratio_after == Some(place) {
            write!(text, " best nginx / frontdesk |")?;
        }
    }
    let count = columns.len() + usize::from(ratio_after.is_some());
    writeln!(text, "\n| --- |{}", " ---: |".repeat(count))?;
    for (table, costs) in &all {
        write!(text, "| {} |", table.title)?;
        for (place, (column, _)) in columns.iter().enumerate() {
            match costs.get(*column) {
                Some(cost) => write!(text, " {} |", Unit::Micros.format(cost).trim_end_matches(" µs"))?,
                None => write!(text, " {NOT_MEASURED} |")?,
            }
            if ratio_after == Some(place) {
                match (ratio_of_rounds(table), costs.ratio()) {
                    (Some(ratio), _) => write!(text, " {} |", Unit::Ratio.format_spread(&ratio))?,
                    (None, Some(ratio)) => write!(text, " {} |", Unit::Ratio.format(ratio))?,
                    (None, None) => write!(text, " {NOT_MEASURED} |")?,
                }
            }
        }
        text.push('\n');
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::figures::Row;

    fn table(title: &str, note: &str, rows: &[(&str, f64)]) -> Table {
        let rows = rows.iter().map(|(label, cost)| Row::new(*label, [Spread::exactly(*cost)]));
        Table::new("", title, note, [(COST, Unit::Micros)], rows)
    }

    fn check(tables: &[Table], expected: &str) {
        let mut text = String::new();
        write_costs(&mut text, &tables.iter().collect::<Vec<_>>()).expect("a String accepts all writes");
        assert_eq!(text, expected);
    }

    #[test]
    fn both_settings_of_nginx_have_a_column_and_the_better_one_counts() {
        let both = [
            ("frontdesk", 5.0),
            ("frontdesk, general path", 7.0),
            ("nginx, sendfile on, tcp_nopush on", 9.0),
            ("nginx, sendfile on, tcp_nopush off", 8.0),
            ("nginx, sendfile off, output_buffers 2 32k", 10.0),
            ("yardstick", 4.0),
        ];
        check(
            &[table("HTML", "", &both), table("Markdown", "", &[("frontdesk", 5.0)])],
            "\n| µs | frontdesk | nginx, sendfile | nginx, no sendfile | best nginx / frontdesk |\n\
             | --- | ---: | ---: | ---: | ---: |\n\
             | HTML | 5.00 | 8.00 | 10.0 | 1.60 × |\n| Markdown | 5.00 | – | – | – |\n",
        );
    }

    #[test]
    fn the_note_says_which_setting_the_row_of_nginx_has() {
        let rows = [("frontdesk", 5.0), ("nginx", 6.0), ("Caddy", 50.0)];
        check(
            &[table(
                "304",
                "*nginx* is the fastest of its settings: nginx, sendfile on, tcp_nopush on.",
                &rows,
            )],
            "\n| µs | frontdesk | nginx, sendfile | best nginx / frontdesk | Caddy |\n\
             | --- | ---: | ---: | ---: | ---: |\n| 304 | 5.00 | 6.00 | 1.20 × | 50.0 |\n",
        );
        check(
            &[table("TLS", "", &rows)],
            "\n| µs | frontdesk | nginx | best nginx / frontdesk | Caddy |\n\
             | --- | ---: | ---: | ---: | ---: |\n| TLS | 5.00 | 6.00 | 1.20 × | 50.0 |\n",
        );
    }
}
