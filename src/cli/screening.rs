//! `frontdesk screening test`: judges texts from a file as the server would, without their requests.

#![expect(clippy::disallowed_methods, reason = "a command reads the clock once")]

use std::io::{self, Read as _, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, anyhow};
use jiff::Timestamp;
use serde_json::{Map, Value, json};

use super::config_and_site_loading::{self, InboxLocation, SiteCache, SiteFolder};
use super::config_needs;
use super::diagnostics::{counted, with_hint};
use frontdesk_config::Config;
use frontdesk_forms::text::visible;
use frontdesk_forms::{CONTACT, Entry, Extras, parse};
use frontdesk_inbox::store::{InboxReader, StoreError};
use frontdesk_screening::learned::{LearnedModel, Lesson, LessonKind};
use frontdesk_screening::verdict::ScreeningVerdict;
use frontdesk_screening::{
    Learned, RequestSignals, ScreeningOptions, TokenizedText, lesson_tokens, screen_with,
};

#[derive(Debug, clap::Subcommand)]
pub(super) enum ScreeningCommand {
    /// Judge texts as the server would: a file with one message, or with a JSON object per line
    #[command(
        after_help = "Each line of JSON has `message`, and optionally `name`, `email` and `label` (`spam` or `ham`). A line with \
                      `form`, the name of a form, has the fields of that form instead. With labels, a summary follows. Nothing is \
                      stored."
    )]
    Test {
        /// File with the texts; `-` reads standard input
        file: PathBuf,
        #[command(flatten)]
        folder: SiteFolder,
        /// Print one JSON object per text, and one with the summary
        #[arg(long)]
        json: bool,
        /// Teach the texts of another file first, which must have labels; nothing is stored
        #[arg(long, value_name = "FILE")]
        learn: Option<PathBuf>,
    },
}

/// A text to screen, or to learn from.
struct Text {
    /// The number of the line in the file, from 1.
    line: usize,
    /// The name of the form; `None` for a contact message, which may lack a name and an address.
    form: Option<String>,
    fields: Map<String, Value>,
    label: Option<Label>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Label {
    Spam,
    Ham,
}

impl Text {
    /// Creates a text of the contact form that consists of a message only.
    fn of_message(message: String) -> Text {
        Text {
            line: 1,
            form: None,
            fields: Map::from_iter([("message".to_owned(), message.into())]),
            label: None,
        }
    }

    /// Parses a line of JSON. With `form`, all other members except `label` are fields. Without it, only
    /// `message`, `name` and `email` are, blank names and addresses count as missing, and other members are
    /// ignored. The error says what is wrong.
    fn parse(line: usize, json: &str) -> Result<Text, String> {
        let mut object: Map<String, Value> = serde_json::from_str(json).map_err(|error| error.to_string())?;
        let mut take = |name: &str| match object.remove(name) {
            Some(Value::String(text)) => Ok(Some(text)),
            None | Some(Value::Null) => Ok(None),
            Some(_) => Err(format!("`{name}` is not a string")),
        };
        let label = match take("label")?.as_deref() {
            None => None,
            Some("spam") => Some(Label::Spam),
            Some("ham") => Some(Label::Ham),
            Some(other) => return Err(format!("`label` is `{other}`, and must be `spam` or `ham`")),
        };
        let form = take("form")?;
        if form.is_some() {
            return Ok(Text { line, form, fields: object, label });
        }
        let message = take("message")?.ok_or("`message` is missing")?;
        let mut text = Text { line, label, ..Text::of_message(message) };
        // Read only these members, because any others are the operator's notes.
        for name in ["name", "email"] {
            if let Some(value) = take(name)?.filter(|value| !value.trim().is_empty()) {
                text.fields.insert(name.to_owned(), value.into());
            }
        }
        Ok(text)
    }

    /// The first 60 characters of the text that an operator recognizes: the message, or else all texts. White
    /// space is collapsed.
    fn beginning(&self) -> String {
        let texts = match self.fields.get("message") {
            Some(message) => vec![message],
            None => self.fields.values().collect(),
        };
        let words = texts.into_iter().filter_map(Value::as_str).flat_map(str::split_whitespace);
        words.collect::<Vec<_>>().join(" ").chars().take(60).collect()
    }
}

/// How many texts of each label were delivered, marked and held.
#[derive(Default)]
struct Summary([[usize; RESULTS.len()]; 2]);

/// The possible results for a text.
const RESULTS: [&str; 3] = ["delivered", "marked", "held"];

impl Summary {
    fn count(&mut self, label: Label, verdict: &ScreeningVerdict) {
        let at = RESULTS.iter().position(|name| *name == result(verdict));
        self.0[label as usize][at.unwrap_or_default()] += 1;
    }

    /// For each label in use, how many of its texts had each result, in the order of [`RESULTS`].
    fn rows(&self) -> impl Iterator<Item = (Label, [usize; RESULTS.len()])> {
        let rows = [(Label::Spam, self.0[0]), (Label::Ham, self.0[1])];
        rows.into_iter().filter(|(_, counts)| counts.iter().any(|count| *count > 0))
    }

    /// Prints one line for each label in use, with the percentage of its texts that were marked or held,
    /// rounded down.
    fn print(&self, out: &mut impl Write) -> io::Result<()> {
        for (label, [delivered, marked, held]) in self.rows() {
            let all = delivered + marked + held;
            let (texts, percent) = (counted(all, "text"), (marked + held) * 100 / all);
            writeln!(out, "{}: {texts}, {marked} marked and {held} held ({percent} %)", name(label))?;
        }
        Ok(())
    }

    /// An object such as `{"summary": {"spam": {"texts": 2, …}}}`; `None` if no text has a label.
    fn to_json(&self) -> Option<Value> {
        let row = |(label, [delivered, marked, held]): (Label, [usize; RESULTS.len()])| {
            let counts = json!({
                "texts": delivered + marked + held, "delivered": delivered, "marked": marked, "held": held,
            });
            (name(label).to_owned(), counts)
        };
        let rows: Map<String, Value> = self.rows().map(row).collect();
        (!rows.is_empty()).then(|| json!({ "summary": rows }))
    }
}

/// The result for a text, one of [`RESULTS`]. A text that is both held and suspicious counts as held.
fn result(verdict: &ScreeningVerdict) -> &'static str {
    match (verdict.hold, verdict.suspicious) {
        (true, _) => "held",
        (false, true) => "marked",
        (false, false) => "delivered",
    }
}

/// Prints the result for each text, and the numbers of results by label. Judges with the lessons of the inbox
/// and those of `--learn`. Stores and sends nothing. Fails at the first text that its form refuses; the
/// results before it stay printed. A site that cannot be loaded is only a note: the texts are then judged
/// without its vocabulary.
pub(super) fn run(command: ScreeningCommand, location: InboxLocation) -> anyhow::Result<ExitCode> {
    let ScreeningCommand::Test { file, folder, json, learn } = command;
    let texts = read_texts(&file)?;
    let path = folder.site.clone().or_else(|| location.site().cloned()).unwrap_or_else(|| ".".into());
    let mut config = location.load_configuration(folder.site, config_needs::STORE)?;
    let (site, _) = config_and_site_loading::load_site(&path, &config, &mut SiteCache::default());
    let screening = &mut config.intake.screening;
    if let Some(site) = site {
        screening.profile = Arc::new(config_and_site_loading::read_profile(&screening.lexicon, &site));
    } else {
        writeln!(
            io::stderr(),
            "The site cannot be loaded, so screening does not know what the site is about; `frontdesk check` shows why."
        )?;
    }
    let learned = read_lessons(&config, learn.as_deref())?;
    let mut out = anstream::stdout().lock();
    let mut summary = Summary::default();
    for (number, text) in texts.iter().enumerate() {
        let entry = to_entry(text, &file, &config)?;
        let verdict = judge(&entry, learned.as_ref(), &config.intake.screening);
        if let Some(label) = text.label {
            summary.count(label, &verdict);
        }
        if json {
            let line = json!({
                "text": number + 1, "result": result(&verdict), "score": verdict.score, "label": text.label.map(name),
                "form": entry.form().name, "reasons": verdict.reasons,
            });
            writeln!(out, "{line}")?;
        } else {
            print_text(&mut out, number + 1, text, &verdict)?;
        }
    }
    if json {
        summary.to_json().map_or(Ok(()), |line| writeln!(out, "{line}"))?;
    } else {
        summary.print(&mut out)?;
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

/// Reads the texts of a file, or of standard input for `-`: one per line, without blank lines, if the content
/// begins with `{` after white space, otherwise a single message. Fails with the number of a line that is not
/// valid.
fn read_texts(path: &Path) -> anyhow::Result<Vec<Text>> {
    let text = if path == Path::new("-") {
        let mut text = String::new();
        io::stdin().read_to_string(&mut text).map(|_| text)
    } else {
        std::fs::read_to_string(path)
    };
    let text = text.with_context(|| format!("cannot read {}", path.display()))?;
    let text = text.strip_prefix('\u{feff}').unwrap_or(&text);
    if !text.trim_start().starts_with('{') {
        return Ok(vec![Text::of_message(text.to_owned())]);
    }
    let lines = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
    lines.map(|(at, line)| Text::parse(at + 1, line).map_err(|error| fault(path, at + 1, &error))).collect()
}

/// An error that names the line of the file, with a hint on the format of lines.
fn fault(path: &Path, line: usize, what: &str) -> anyhow::Error {
    with_hint(
        anyhow!("{}, line {line}: {what}", path.display()),
        "each line is a JSON object with `message`, and optionally `name`, `email` and `label`, or with `form` and its fields",
    )
}

/// Parses a text as the server parses the form with these fields. A text without a form is for the contact
/// form, with placeholders for a missing name or address. Fails if there is no such form, or if the form
/// refuses the text.
fn to_entry(text: &Text, path: &Path, config: &Config) -> anyhow::Result<Entry> {
    let forms = &config.pages.form_set;
    let mut fields = text.fields.clone();
    let form = if let Some(name) = &text.form {
        forms.named(name).ok_or_else(|| {
            let known: Vec<&str> = forms.iter().map(|form| form.name).collect();
            let what = format!("no form is called `{name}`; the site has {}", known.join(", "));
            fault(path, text.line, &what)
        })?
    } else {
        for (name, value) in [("name", "Visitor"), ("email", "visitor@example.com")] {
            fields.entry(name).or_insert_with(|| value.into());
        }
        *CONTACT
    };
    let parsed = parse(form, Value::Object(fields).to_string().as_bytes());
    parsed.map_err(|error| {
        fault(path, text.line, &format!("the form `{}` does not accept this text: {error}", form.name))
    })
}

/// Judges an entry by its text alone: without the signals of a request.
fn judge(entry: &Entry, learned: Option<&Learned>, options: &ScreeningOptions) -> ScreeningVerdict {
    let text = TokenizedText::new(entry);
    screen_with(&text, &Extras::default(), &RequestSignals::default(), learned, options)
}

/// The model learned from the inbox's lessons and the texts of `file`. Skips a text that gives no lesson.
/// `None` if there are no lessons; a missing inbox has none. Fails if a text of `file` has no label, or if
/// [`to_entry`] fails for it.
fn read_lessons(config: &Config, file: Option<&Path>) -> anyhow::Result<Option<Learned>> {
    let options = &config.intake.screening;
    let stored = match InboxReader::open(config.store.url.clone()) {
        Ok(inbox) => inbox.lessons(None, Timestamp::now())?,
        Err(StoreError::Missing(_)) => None,
        Err(error) => return Err(error.into()),
    };
    // Without an inbox, any key will do, because all lessons from the file use the same key.
    let (mut lessons, key) =
        stored.map_or_else(|| (Vec::new(), [0; 16]), |stored| (stored.lessons, stored.key));
    let path = file.unwrap_or(Path::new(""));
    for text in file.map(read_texts).transpose()?.into_iter().flatten() {
        let label = text.label.ok_or_else(|| fault(path, text.line, "a text to learn needs a `label`"))?;
        let entry = to_entry(&text, path, config)?;
        let points = judge(&entry, None, options).text_points();
        let tokens = lesson_tokens(&TokenizedText::new(&entry), points, &options.lexicon, &key);
        let kind = if label == Label::Spam { LessonKind::Spam } else { LessonKind::Honest };
        lessons.extend(tokens.map(|tokens| Lesson { kind, age: Duration::ZERO, tokens }));
    }
    let model = LearnedModel::new(&lessons, options.suspicious_threshold);
    Ok((!lessons.is_empty()).then_some(Learned { model, key }))
}

/// Prints the result, the points, the label and the beginning of a text, and a line for each reason.
fn print_text(
    out: &mut impl Write,
    number: usize,
    text: &Text,
    verdict: &ScreeningVerdict,
) -> anyhow::Result<()> {
    let label = text.label.map(|label| format!(" ({})", name(label))).unwrap_or_default();
    let (result, score, first) = (result(verdict), verdict.score, text.beginning());
    writeln!(out, "{number}. {result}, {score} points{label}: {}", visible(&first))?;
    for reason in &verdict.reasons {
        writeln!(out, "   {:>3} {}: {}", reason.points, reason.signal.name(), visible(&reason.detail))?;
    }
    Ok(())
}
