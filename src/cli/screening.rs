//! `frontdesk screening test`: judges texts from a file as the server would, without their requests.

#![expect(clippy::disallowed_methods, reason = "a command reads the clock once")]

use std::io::{self, Read as _, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, anyhow, bail};
use jiff::Timestamp;
use serde_json::{Value, json};

use super::needs;
use super::output::{counted, with_hint};
use super::site::{self, InboxLocation, SiteCache, SiteFolder};
use frontdesk_config::Config;
use frontdesk_forms::CONTACT;
use frontdesk_forms::parse::{Entry, Extras, parse};
use frontdesk_forms::text::visible;
use frontdesk_inbox::store::{InboxReader, StoreError};
use frontdesk_screening::learned::{LearnedModel, Lesson, Teaching};
use frontdesk_screening::verdict::ScreeningVerdict;
use frontdesk_screening::{
    Learned, RequestSignals, ScreeningOptions, TokenizedText, lesson_tokens, screen_with,
};

#[derive(Debug, clap::Subcommand)]
pub(super) enum ScreeningCommand {
    /// Judge texts as the server would: a file with one message, or with a JSON object per line
    #[command(
        after_help = "Each line of JSON has `message`, and optionally `name`, `email` and `label` (`spam` or `ham`). With labels, a \
                      summary follows. Nothing is stored."
    )]
    Test {
        /// File with the texts; `-` reads standard input
        file: PathBuf,
        #[command(flatten)]
        folder: SiteFolder,
        /// Print one JSON object per text
        #[arg(long)]
        json: bool,
        /// Teach the texts of another file first, which must have labels; nothing is stored
        #[arg(long, value_name = "FILE")]
        learn: Option<PathBuf>,
    },
}

/// A text of the file.
struct Text {
    name: String,
    email: String,
    message: String,
    label: Option<Label>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Label {
    Spam,
    Ham,
}

impl Text {
    /// Parses a line of JSON. The error says what is wrong.
    fn parse(line: &str) -> Result<Text, String> {
        let object: Value = serde_json::from_str(line).map_err(|error| error.to_string())?;
        let text = |name: &str| match &object[name] {
            Value::String(text) => Ok(Some(text.clone())),
            Value::Null => Ok(None),
            _ => Err(format!("`{name}` is not a string")),
        };
        let label = match text("label")?.as_deref() {
            None => None,
            Some("spam") => Some(Label::Spam),
            Some("ham") => Some(Label::Ham),
            Some(other) => return Err(format!("`label` is `{other}`, and must be `spam` or `ham`")),
        };
        let message = text("message")?.ok_or("`message` is missing")?;
        let (name, email) = (text("name")?.unwrap_or_default(), text("email")?.unwrap_or_default());
        Ok(Text { name, email, message, label })
    }
}

/// The fate of a text.
fn result(verdict: &ScreeningVerdict) -> &'static str {
    match (verdict.hold, verdict.suspicious) {
        (true, _) => "held",
        (false, true) => "marked",
        (false, false) => "delivered",
    }
}

pub(super) fn run(command: ScreeningCommand, location: InboxLocation) -> anyhow::Result<ExitCode> {
    let ScreeningCommand::Test { file, folder, json, learn } = command;
    let texts = read_texts(&file)?;
    let path = folder.site.clone().or_else(|| location.site().cloned()).unwrap_or_else(|| ".".into());
    let mut config = location.load_configuration(folder.site, needs::STORE)?;
    let (site, _) = site::load_site(&path, &config, &mut SiteCache::default());
    let screening = &mut config.intake.screening;
    if let Some(site) = site {
        screening.profile = Arc::new(site::read_profile(&screening.lexicon, &site));
    } else {
        writeln!(io::stderr(), "The site cannot be loaded: screening does not know what it is about.")?;
    }
    let learned = read_lessons(&config, learn.as_deref())?;
    let mut out = anstream::stdout().lock();
    let mut counts = [[0; 3]; 2];
    for (number, text) in texts.iter().enumerate() {
        let entry = to_entry(text, number)?;
        let verdict = judge(&entry, learned.as_ref(), &config.intake.screening);
        if let Some(label) = text.label {
            let at = ["delivered", "marked", "held"].iter().position(|name| *name == result(&verdict));
            counts[label as usize][at.unwrap_or_default()] += 1;
        }
        if json {
            let line = json!({
                "text": number + 1, "result": result(&verdict), "score": verdict.score, "label": text.label.map(name),
                "reasons": verdict.reasons,
            });
            writeln!(out, "{line}")?;
        } else {
            print_text(&mut out, number + 1, text, &verdict)?;
        }
    }
    if !json && counts.iter().flatten().sum::<usize>() > 0 {
        print_summary(&mut out, &counts)?;
    }
    out.flush()?;
    Ok(ExitCode::SUCCESS)
}

fn name(label: Label) -> &'static str {
    match label {
        Label::Spam => "spam",
        Label::Ham => "ham",
    }
}

/// Reads the texts of a file. Fails with the number of a line that is not valid.
fn read_texts(path: &Path) -> anyhow::Result<Vec<Text>> {
    let text = if path == Path::new("-") {
        let mut text = String::new();
        io::stdin().read_to_string(&mut text).map(|_| text)
    } else {
        std::fs::read_to_string(path)
    };
    let text = text.with_context(|| format!("cannot read {}", path.display()))?;
    if !text.trim_start().starts_with('{') {
        let text = Text { name: String::new(), email: String::new(), message: text, label: None };
        return Ok(vec![text]);
    }
    let lines = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
    lines
        .map(|(at, line)| {
            Text::parse(line).map_err(|error| {
                let error = anyhow!("{}, line {}: {error}", path.display(), at + 1);
                with_hint(
                    error,
                    "each line is a JSON object with `message`, and optionally `name`, `email` and `label`",
                )
            })
        })
        .collect()
}

/// The contact form with this text. Fails if the form would not accept it.
fn to_entry(text: &Text, number: usize) -> anyhow::Result<Entry> {
    let or = |value: &str, default: &str| {
        if value.trim().is_empty() { default.to_owned() } else { value.to_owned() }
    };
    let body = json!({
        "name": or(&text.name, "Visitor"), "email": or(&text.email, "visitor@example.com"), "message": text.message,
    });
    let parsed = parse(&CONTACT, body.to_string().as_bytes());
    parsed.map_err(|_| anyhow!("text {} is not a message that the contact form accepts", number + 1))
}

fn judge(entry: &Entry, learned: Option<&Learned>, options: &ScreeningOptions) -> ScreeningVerdict {
    let text = TokenizedText::new(entry);
    screen_with(&text, &Extras::default(), &RequestSignals::default(), learned, options)
}

/// The lessons of the inbox, and the texts of a labeled file. `None` without either.
fn read_lessons(config: &Config, file: Option<&Path>) -> anyhow::Result<Option<Learned>> {
    let options = &config.intake.screening;
    let stored = match InboxReader::open(config.store.url.clone()) {
        Ok(inbox) => inbox.lessons(None, Timestamp::now())?,
        Err(StoreError::Missing(_)) => None,
        Err(error) => return Err(error.into()),
    };
    let (mut lessons, key) =
        stored.map_or_else(|| (Vec::new(), [0; 16]), |stored| (stored.lessons, stored.key));
    for (number, text) in file.map(read_texts).transpose()?.into_iter().flatten().enumerate() {
        let Some(label) = text.label else {
            bail!("text {} of the file to learn has no `label`", number + 1)
        };
        let entry = to_entry(&text, number)?;
        let points = judge(&entry, None, options).text_points();
        let tokens = lesson_tokens(&TokenizedText::new(&entry), points, &options.lexicon, &key);
        let teaching = if label == Label::Spam { Teaching::Spam } else { Teaching::Honest };
        lessons.extend(tokens.map(|tokens| Lesson { teaching, age: Duration::ZERO, tokens }));
    }
    let model = LearnedModel::new(&lessons, options.suspicious_threshold);
    Ok((!lessons.is_empty()).then_some(Learned { model, key }))
}

fn print_text(
    out: &mut impl Write,
    number: usize,
    text: &Text,
    verdict: &ScreeningVerdict,
) -> anyhow::Result<()> {
    let label = text.label.map(|label| format!(" ({})", name(label))).unwrap_or_default();
    let first: String =
        text.message.split_whitespace().collect::<Vec<_>>().join(" ").chars().take(60).collect();
    writeln!(out, "{number}. {}, {} points{label}: {}", result(verdict), verdict.score, visible(&first))?;
    for reason in &verdict.reasons {
        writeln!(out, "   {:>3} {}: {}", reason.points, reason.signal.name(), visible(&reason.detail))?;
    }
    Ok(())
}

/// Prints how many texts of each label were delivered, marked and held.
fn print_summary(out: &mut impl Write, counts: &[[usize; 3]; 2]) -> anyhow::Result<()> {
    for (label, [delivered, marked, held]) in [(Label::Spam, counts[0]), (Label::Ham, counts[1])] {
        let all = delivered + marked + held;
        if all > 0 {
            let texts = counted(all, "text");
            let percent = (marked + held) * 100 / all;
            writeln!(out, "{}: {texts}, {marked} marked and {held} held ({percent} %)", name(label))?;
        }
    }
    Ok(())
}
