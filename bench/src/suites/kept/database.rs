//! An inbox in SQLite or PostgreSQL: fills it, counts its rows, and commands that back it up and restore it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result};

use crate::peer::forms;
use crate::process;

/// A word that ten of all messages contain, and one that an eighth of them contain.
pub const RARE: &str = "kingfisher";
pub const COMMON: &str = "invoice";

pub const FORMS: [&str; 4] = ["contact", "support", "jobs", "partners"];

const PEOPLE: [&str; 16] = [
    "Ada Lovelace",
    "Grace Hopper",
    "Alan Turing",
    "Emmy Noether",
    "Max Planck",
    "Marie Curie",
    "Niels Bohr",
    "Lise Meitner",
    "Carl Gauss",
    "Sophie Germain",
    "Leonhard Euler",
    "Mary Somerville",
    "Paul Dirac",
    "Rosalind Franklin",
    "Edsger Dijkstra",
    "Barbara Liskov",
];

const SENTENCES: [&str; 16] = [
    "Could you send us an offer for twelve seats?",
    "We would like to visit you next month.",
    "The invoice of last week has the wrong address.",
    "Our team needs access before the review.",
    "Is there a manual in Spanish or in French?",
    "The door of the second office does not close.",
    "Please call me back between nine and eleven.",
    "We have read your article about data in the region.",
    "Do you still have a room for thirty people?",
    "My order has arrived without the cables.",
    "How long does a delivery to Norway take?",
    "I apply for the position of an engineer.",
    "Please remove my address from your list.",
    "Your colleague has promised us an answer by today.",
    "Which plan includes support on weekends?",
    "Thank you for the quick help yesterday.",
];

/// The submissions that an inbox is filled with.
#[derive(Debug, Clone)]
pub struct Plan {
    pub count: u64,
    /// When the first submission was received, and the time until the last one, in milliseconds.
    pub first: i64,
    pub span: i64,
    /// The hash of the address, in hexadecimal, that [`Plan::PERSON`] of the submissions come from.
    pub sender: String,
}

impl Plan {
    /// The number of submissions from one address.
    pub const PERSON: u64 = 20;

    /// Replaces the placeholders of a statement. `list` writes lists for its database.
    fn fill_in(&self, statement: &str, list: impl Fn(&[&str]) -> String) -> String {
        let number = |value: u64| value.max(1).to_string();
        let bytes: String =
            (0..=255_u8).flat_map(|byte| [byte >> 4, byte & 15]).filter_map(hexadecimal_digit).collect();
        [
            ("{sentences}", list(&SENTENCES)),
            ("{people}", list(&PEOPLE)),
            ("{forms}", list(&FORMS)),
            ("{form_count}", FORMS.len().to_string()),
            ("{bytes}", bytes),
            ("{count}", self.count.to_string()),
            ("{first}", self.first.to_string()),
            ("{span}", self.span.to_string()),
            ("{sender}", self.sender.clone()),
            ("{person_every}", number(self.count / Self::PERSON)),
            ("{rare_every}", number(self.count / 10)),
            ("{rare}", RARE.to_owned()),
            // Operators are done with all but the newest hundredth.
            ("{done}", (self.count - self.count / 100).to_string()),
        ]
        .iter()
        .fold(statement.to_owned(), |text, (name, value)| text.replace(name, value))
    }
}

#[derive(Debug, Clone)]
pub enum Database {
    /// The folder with `inbox.sqlite`.
    Sqlite(PathBuf),
    /// The URL of an empty database.
    Postgres(String),
}

impl Database {
    /// The PostgreSQL that `scripts/bench` has started, emptied.
    pub fn postgres() -> Result<Self> {
        let url = std::env::var("FRONTDESK_TEST_POSTGRES").context("no PostgreSQL: run scripts/bench")?;
        let database = Self::Postgres(url);
        database.empty()?;
        Ok(database)
    }

    pub fn name(&self) -> &'static str {
        match self {
            Self::Sqlite(_) => "SQLite",
            Self::Postgres(_) => "PostgreSQL",
        }
    }

    /// Removes the inbox.
    pub fn empty(&self) -> Result<()> {
        match self {
            Self::Sqlite(folder) => {
                for file in files(folder)? {
                    fs::remove_file(file)?;
                }
                Ok(())
            }
            Self::Postgres(_) => self.run(&["DROP SCHEMA public CASCADE", "CREATE SCHEMA public"]).map(drop),
        }
    }

    /// Runs statements in one session, and returns their rows.
    fn run(&self, statements: &[&str]) -> Result<String> {
        match self {
            Self::Sqlite(folder) => forms::sqlite(&folder.join("inbox.sqlite"), &statements.join(";")),
            Self::Postgres(url) => {
                let mut psql = Command::new("psql");
                psql.arg(url).args(["-qAtX", "-v", "ON_ERROR_STOP=1"]);
                process::output(psql.args(statements.iter().flat_map(|statement| ["-c", statement])))
            }
        }
    }

    fn hexadecimal(&self, column: &str) -> String {
        match self {
            Self::Sqlite(_) => format!("lower(hex({column}))"),
            Self::Postgres(_) if column == "id" => "replace(CAST(id AS text), '-', '')".to_owned(),
            Self::Postgres(_) => format!("encode({column}, 'hex')"),
        }
    }

    pub fn count(&self) -> Result<u64> {
        self.run(&["SELECT count(*) FROM submission"])?.trim().parse().context("invalid count")
    }

    /// The hash of the address of the latest submission, in hexadecimal. Empty if there is none.
    pub fn latest_sender(&self) -> Result<String> {
        let sender = self.hexadecimal("sender");
        let text = self.run(&[&format!("SELECT {sender} FROM submission ORDER BY id DESC LIMIT 1")])?;
        Ok(text.trim().to_owned())
    }

    /// The id of the first submission at or after `at`, without hyphens. Empty if there is none.
    pub fn first_id_at(&self, at: i64) -> Result<String> {
        let bound = match self {
            Self::Sqlite(_) => format!("x'{at:012x}'"),
            Self::Postgres(_) => format!("'{at:012x}{:020}'", 0),
        };
        let id = self.hexadecimal("id");
        let query = format!("SELECT {id} FROM submission WHERE id >= {bound} ORDER BY id LIMIT 1");
        Ok(self.run(&[&query])?.trim().to_owned())
    }

    /// Adds the delivered submissions of a plan, while no server uses the inbox. Indexes are created
    /// afterwards, which is much faster.
    pub fn fill(&self, plan: &Plan) -> Result<()> {
        match self {
            Self::Sqlite(folder) => {
                let file = folder.join("inbox.sqlite");
                let indexes = "FROM sqlite_schema WHERE type = 'index' AND sql IS NOT NULL
                    AND tbl_name IN ('submission', 'delivery', 'attempt')";
                let read = |column: &str| forms::sqlite(&file, &format!("SELECT {column} || ';' {indexes}"));
                let (drop_all, create_all) = (read("'DROP INDEX ' || name")?, read("sql")?);
                let insert = plan.fill_in(include_str!("sqlite.sql"), list_rows);
                let script = format!("{drop_all}{insert}{create_all}PRAGMA journal_mode = WAL;");
                forms::sqlite(&file, &script).map(drop)
            }
            Self::Postgres(_) => {
                let insert = plan.fill_in(include_str!("postgres.sql"), list_texts);
                self.run(&[&insert, "VACUUM ANALYZE", "CHECKPOINT"]).map(drop)
            }
        }
    }

    /// The version of PostgreSQL; `None` for SQLite, which is a part of frontdesk.
    pub fn version(&self) -> Result<Option<String>> {
        let Self::Postgres(_) = self else { return Ok(None) };
        Ok(self.run(&["SHOW server_version"])?.split_whitespace().next().map(str::to_owned))
    }

    /// The size of the inbox on disk, in bytes.
    pub fn size(&self) -> Result<f64> {
        match self {
            Self::Sqlite(folder) => {
                let sizes = files(folder)?.into_iter().map(|file| Ok(fs::metadata(file)?.len()));
                Ok(sizes.sum::<Result<u64>>()? as f64)
            }
            Self::Postgres(_) => {
                let size = self.run(&["SELECT pg_database_size(current_database())"])?;
                size.trim().parse().context("invalid size")
            }
        }
    }
}

fn hexadecimal_digit(value: u8) -> Option<char> {
    char::from_digit(value.into(), 16)
}

/// The files of an inbox in SQLite.
fn files(folder: &Path) -> Result<Vec<PathBuf>> {
    let paths = fs::read_dir(folder)?.map(|entry| Ok(entry?.path())).collect::<Result<Vec<_>>>()?;
    let is_inbox = |path: &PathBuf| {
        path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("inbox.sqlite"))
    };
    Ok(paths.into_iter().filter(is_inbox).collect())
}

/// Numbered rows, for SQLite.
fn list_rows(values: &[&str]) -> String {
    let rows: Vec<String> =
        values.iter().enumerate().map(|(number, value)| format!("({number}, '{value}')")).collect();
    rows.join(", ")
}

/// The elements of an array, for PostgreSQL.
fn list_texts(values: &[&str]) -> String {
    values.iter().map(|value| format!("'{value}'")).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statements_have_no_placeholder_left() {
        let plan = Plan { count: 20_000, first: 1, span: 2, sender: "ab".into() };
        for (statement, text) in [
            (include_str!("sqlite.sql"), plan.fill_in(include_str!("sqlite.sql"), list_rows)),
            (include_str!("postgres.sql"), plan.fill_in(include_str!("postgres.sql"), list_texts)),
        ] {
            assert!(statement.contains('{') && !text.contains('{'), "{text}");
            assert!(text.contains("i % 1000 = 0") && text.contains("i % 2000 = 5"), "{text}");
        }
    }

    #[test]
    fn messages_are_short_and_an_eighth_has_the_common_word() {
        let lengths = SENTENCES.map(str::len);
        assert!(lengths.iter().all(|length| (35..60).contains(length)), "{lengths:?}");
        assert_eq!(SENTENCES.iter().filter(|text| text.contains(COMMON)).count(), 1);
        assert!(SENTENCES.iter().chain(&PEOPLE).all(|text| !text.contains('\'') && !text.contains(RARE)));
    }
}
