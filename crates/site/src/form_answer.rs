//! Pages that answer forms which browsers send without JavaScript: the form's page with the visitor's values
//! and the errors.
//!
//! A load renders each form's page once more, with a marker at each place that depends on the request, and
//! divides the HTML at the markers. A response joins the pieces with escaped values; no template runs.

use std::borrow::Cow;
use std::sync::Arc;

use minijinja::{Value, context};

use super::language::Language;
use super::options::{PageForm, PagesOptions};
use super::placeholder::{fill, plural_name};
use super::words::WordList;
use frontdesk_forms::form_post::PostedForm;
use frontdesk_forms::text::escape_html;
use frontdesk_forms::{Field, FieldKind, Form, InvalidField, Problem};

/// The path of the thank-you page within the folder of a language.
pub(super) const THANKS: &str = "/thanks/";

/// The title and the text of the thank-you page, which all forms share. The text mentions the mail that asks
/// for a confirmation only if a form sends one.
pub(super) fn thanks_texts<'a>(language: &'a Language, options: &PagesOptions) -> (&'a str, &'a str) {
    let text = if options.confirms_addresses() { "thanks_message_confirm" } else { "thanks_message" };
    (language.words.get("thanks_title"), language.words.get(text))
}

// A marker is a letter and a field's name between `OPEN` and `CLOSE`, characters that HTML does not permit.
const OPEN: char = '\u{fdd0}';
const CLOSE: char = '\u{fdd1}';
const MESSAGE: char = 'm';
const VALUE: char = 'v';
const INVALID: char = 'i';
const HIDDEN: char = 'h';
const ERROR: char = 'e';
/// The letter of the marker that stands for the attribute of a selected option. Such a marker has the field's
/// name, `:`, and the index of the option.
const OPTION: char = 's';

/// The marker for a part of the page that each response fills in, such as the value of a field.
fn marker(slot: char, field: &str) -> String {
    format!("{OPEN}{slot}{field}{CLOSE}")
}

/// The markers of a field, for templates. `invalid` stands for ` aria-invalid="true"` or nothing, and
/// `hidden` for ` hidden` or nothing.
pub(super) fn field_markers(field: &str) -> Value {
    let of = |slot| marker(slot, field);
    context! { value => of(VALUE), invalid => of(INVALID), hidden => of(HIDDEN), error => of(ERROR) }
}

/// The marker for the attribute that selects an option of a field. A consent field has one option.
pub(super) fn option_marker(field: &str, option: usize) -> String {
    marker(OPTION, &format!("{field}:{option}"))
}

/// The marker above the form that a response replaces with its [`FormMessage`].
pub(super) fn message_marker() -> String {
    marker(MESSAGE, "")
}

/// The message above the form.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FormMessage<'a> {
    /// The fields with problems must be corrected.
    Invalid,
    /// Too many requests or bytes; the client may retry after this many seconds.
    TooMany(u64),
    TooLarge,
    /// The request's headers do not show that it came from a form on this site.
    OtherSite,
    /// Nothing was sent, because the method was not POST.
    NothingSent,
    /// The body did not arrive completely or in time.
    NoResponse,
    ServerError,
    /// The request is refused for this reason, a sentence in English.
    Refused(&'a str),
}

/// The page of one form in one language, divided at its markers.
#[derive(Debug, Clone)]
pub struct FormPage {
    form: &'static Form,
    /// The labels of the fields in the page's language.
    labels: Vec<String>,
    language: usize,
    words: Arc<WordList>,
    /// The operator's e-mail address; may be empty.
    mail: String,
    pieces: Vec<Piece>,
}

#[derive(Debug, Clone)]
enum Piece {
    Text(Box<str>),
    /// A marker's letter, the index of its field, and the index of its option. A missing index is 0.
    Slot(char, usize, usize),
}

impl FormPage {
    /// Divides rendered HTML at its markers. `None` if it lacks the marker of the message, all markers of the
    /// value and the options of a field, or the marker of the error of a field that is not hidden. `labels`
    /// are those of the fields, and `index` is that of the language.
    pub(super) fn new(
        html: &str,
        form: &PageForm,
        labels: Vec<String>,
        index: usize,
        language: &Language,
        mail: &str,
    ) -> Option<Self> {
        let fields = &form.definition.fields;
        let mut pieces = Vec::new();
        let mut rest = html;
        while let Some((before, after)) = rest.split_once(OPEN) {
            let Some((name, end)) = after.split_once(CLOSE) else { break };
            let mut letters = name.chars();
            let slot = letters.next().unwrap_or_default();
            let (name, option) = letters.as_str().split_once(':').unwrap_or((letters.as_str(), ""));
            // The marker for the form's message contains no field name. Its field index is 0.
            let field = fields.iter().position(|field| field.name == name).unwrap_or(0);
            pieces.extend([
                Piece::Text(before.into()),
                Piece::Slot(slot, field, option.parse().unwrap_or_default()),
            ]);
            rest = end;
        }
        pieces.push(Piece::Text(rest.into()));
        let has = |slot, at| {
            let is_it = |piece: &Piece| matches!(piece, Piece::Slot(found, field, _) if (*found, *field) == (slot, at));
            pieces.iter().any(is_it)
        };
        // A hidden field needs no place for its error: the message above the form names the field.
        let shows_fields = (0..fields.len()).all(|at| {
            (has(VALUE, at) || has(OPTION, at)) && (has(ERROR, at) || fields[at].kind == FieldKind::Hidden)
        });
        (has(MESSAGE, 0) && shows_fields).then(|| Self {
            form: form.definition,
            labels,
            language: index,
            words: language.words.clone(),
            mail: mail.to_owned(),
            pieces,
        })
    }

    /// The HTML with a message and the visitor's values, or the defaults if `posted` is `None`.
    /// [`FormMessage::Invalid`] also shows the errors of fields. The size is limited by that of the page and
    /// the body of the request.
    pub fn render(&self, message: FormMessage<'_>, posted: Option<&PostedForm>) -> String {
        let invalid = match message {
            FormMessage::Invalid => posted.map(PostedForm::invalid_fields).unwrap_or_default(),
            _ => Vec::new(),
        };
        let fields = &self.form.fields;
        let fault = |at: usize| invalid.iter().find(|fault| fault.field.name == fields[at].name);
        let mut html = String::with_capacity(32 * 1024);
        for piece in &self.pieces {
            match piece {
                Piece::Text(text) => html.push_str(text),
                Piece::Slot(MESSAGE, ..) => html.push_str(&self.message(message, &invalid)),
                Piece::Slot(VALUE, at, _) => {
                    let field = &fields[*at];
                    let value =
                        posted.map_or(field.initial_value().into(), |posted| posted.control_value(field));
                    html.push_str(&escape_html(&value));
                }
                Piece::Slot(OPTION, at, option) if is_selected(&fields[*at], *option, posted) => {
                    let is_choice = fields[*at].kind == FieldKind::Choice;
                    html.push_str(if is_choice { " selected" } else { " checked" });
                }
                Piece::Slot(INVALID, at, _) if fault(*at).is_some() => {
                    html.push_str(" aria-invalid=\"true\"");
                }
                Piece::Slot(HIDDEN, at, _) if fault(*at).is_none() => html.push_str(" hidden"),
                Piece::Slot(ERROR, at, _) => html.extend(fault(*at).map(|fault| self.field_error(fault))),
                Piece::Slot(..) => {}
            }
        }
        html
    }

    /// The sentence above the form, as HTML. [`FormMessage::Invalid`] links to the fields in `invalid`. After
    /// some failures, it offers the operator's e-mail address, if there is one.
    fn message(&self, message: FormMessage<'_>, invalid: &[InvalidField]) -> String {
        let or_mail = if self.mail.is_empty() {
            String::new()
        } else {
            self.word("form_or_mail", &[("mail", &escape_html(&self.mail))])
        };
        match message {
            FormMessage::Invalid => {
                let link = |fault: &InvalidField| {
                    let (form, name) = (self.form.name, fault.field.name);
                    let at = self.form.fields.iter().position(|field| field.name == name);
                    let label =
                        at.and_then(|at| self.labels.get(at)).map_or(fault.field.label, String::as_str);
                    format!("<a href=\"#form-{form}-{name}\">{}</a>", escape_html(label))
                };
                let links: Vec<String> = invalid.iter().map(link).collect();
                self.word("form_correct", &[("fields", &links.join(", "))])
            }
            FormMessage::TooMany(seconds) => self.word("form_too_many", &[("wait", &self.wait(seconds))]),
            FormMessage::TooLarge => self.word("answer_too_large", &[]),
            FormMessage::OtherSite => self.word("answer_other_site", &[("or_mail", &or_mail)]),
            FormMessage::NothingSent => self.word("answer_nothing_sent", &[]),
            FormMessage::NoResponse => self.word("form_no_response", &[("or_mail", &or_mail)]),
            FormMessage::ServerError => self.word("form_server_error", &[("or_mail", &or_mail)]),
            FormMessage::Refused(reason) => self.word("form_refused", &[("reason", &escape_html(reason))]),
        }
    }

    /// The first problem of a field, as HTML.
    fn field_error(&self, fault: &InvalidField) -> String {
        let field = fault.field;
        let max = field.max_chars.to_string();
        let name = match (fault.problems.first(), field.kind) {
            (Some(Problem::Missing | Problem::Empty | Problem::NotAccepted), FieldKind::Consent) => {
                "problem_not_ticked"
            }
            (Some(Problem::Missing | Problem::Empty), FieldKind::Choice | FieldKind::Choices) => {
                "problem_not_chosen"
            }
            (Some(Problem::Missing | Problem::Empty), _) => "form_missing",
            (Some(Problem::TooLong(_)), _) => "form_too_long",
            (Some(Problem::NotAnAddress | Problem::NonAsciiDomain), _) => "form_not_email",
            (Some(Problem::NotAccepted), FieldKind::Tel) => "problem_not_phone",
            (Some(Problem::NotAccepted), FieldKind::Url) => "problem_not_url",
            (Some(Problem::NotAccepted), FieldKind::Choice) => "problem_not_option",
            (Some(Problem::NotAccepted), FieldKind::Choices) => "problem_not_options",
            (Some(Problem::NotAccepted), FieldKind::Date) => "problem_not_day",
            (Some(Problem::NotAccepted), FieldKind::Number) if field.is_decimal => "problem_not_number",
            (Some(Problem::NotAccepted), FieldKind::Number) => "problem_not_whole",
            _ => "form_invalid",
        };
        let range = self.range(field);
        self.word(name, &[("max", &max), ("range", &range), ("example", &escape_html(field.example))])
    }

    /// The bounds of a number or a day in words, as HTML; empty if there are none.
    fn range(&self, field: &Field) -> String {
        let [least, most] = field.limits();
        let bounds = match (least.is_empty(), most.is_empty()) {
            (true, true) => return String::new(),
            (false, true) => "from",
            (true, false) => "up_to",
            (false, false) => "between",
        };
        let day = if field.kind == FieldKind::Date { "day_" } else { "" };
        self.word(&format!("problem_{day}{bounds}"), &[("least", &least), ("most", &most)])
    }

    /// The wait in words, rounded up: in seconds, from 100 seconds in minutes, from 90 minutes in hours. The
    /// forms' script has the same limits.
    fn wait(&self, seconds: u64) -> String {
        let (name, n) = match seconds {
            0..100 => ("form_seconds", seconds.max(1)),
            100..5400 => ("form_minutes", seconds.div_ceil(60)),
            _ => ("form_hours", seconds.div_ceil(3600)),
        };
        let n = n.to_string();
        self.word(&plural_name(name, self.words.get("singular"), &n), &[("n", &n)])
    }

    /// A word as escaped HTML, with its placeholders replaced by `values`, which must be HTML. Placeholders
    /// without a value stay.
    fn word(&self, name: &str, values: &[(&str, &str)]) -> String {
        let value = |wanted: &str| values.iter().find(|(name, _)| *name == wanted);
        fill(&escape_html(self.words.get(name)), |name| value(name).map(|(_, value)| Cow::from(*value)))
    }
}

/// Whether the option was submitted or, if `posted` is `None`, whether it is the default. A consent counts as
/// submitted if its value ticks it.
fn is_selected(field: &Field, option: usize, posted: Option<&PostedForm>) -> bool {
    let value = field.options.get(option).copied().unwrap_or("true");
    let Some(posted) = posted else { return !field.default.is_empty() && value == field.default };
    let is_ticked = |sent| field.kind == FieldKind::Consent && field.value_of_control(sent).is_some();
    posted.all_values(field.name).any(|sent| sent == value || is_ticked(sent))
}

/// The pages of all forms, at most one for each form and language.
#[derive(Debug, Clone, Default)]
pub struct FormPages(pub(super) Vec<FormPage>);

impl FormPages {
    /// The page of a form in a language, or else in the first language that has one.
    pub(super) fn find(&self, form: &str, language: usize) -> Option<&FormPage> {
        let pages = || self.0.iter().filter(|page| page.form.name == form);
        pages().find(|page| page.language == language).or_else(|| pages().min_by_key(|page| page.language))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::PagesOptions;
    use frontdesk_forms::CONTACT;

    const HTML: &str = "<p>\u{fdd0}m\u{fdd1}</p><i\u{fdd0}iname\u{fdd1} value=\"\u{fdd0}vname\u{fdd1}\"><b\u{fdd0}hname\u{fdd1}>\u{fdd0}ename\u{fdd1}</b>\
                        \u{fdd0}vemail\u{fdd1}\u{fdd0}eemail\u{fdd1}\u{fdd0}vmessage\u{fdd1}\u{fdd0}emessage\u{fdd1}end";

    #[test]
    fn pieces_and_values_are_joined_and_escaped() {
        let page = page(HTML, "<a@b.example>").expect("all places are there");
        let invalid = PostedForm::decode(&CONTACT, b"name=&email=a@b.example&message=%3Cb%3E%22").unwrap();
        assert_eq!(
            page.render(FormMessage::Invalid, Some(&invalid)),
            "<p>Not sent. Please correct: <a href=\"#form-contact-name\">Name</a>.</p><i aria-invalid=\"true\" value=\"\">\
             <b>Please fill in this field.</b>a@b.example&lt;b&gt;&quot;end"
        );
        // Other messages mark no field.
        let html = page.render(FormMessage::ServerError, Some(&invalid));
        assert!(html.contains("<i value=\"\"><b hidden></b>"), "{html}");
        assert!(html.contains("or write to &lt;a@b.example&gt;."), "{html}");
        let html = page.render(FormMessage::Refused("a <b> {or_mail}"), None);
        assert!(html.starts_with("<p>Your message was not accepted: a &lt;b&gt; {or_mail}</p>"), "{html}");
    }

    #[test]
    fn visitors_of_any_confirming_form_are_told_to_open_the_mail() {
        for (confirming, is_told) in [(vec![], false), (vec!["demo"], true), (vec!["waitlist"], true)] {
            let options = PagesOptions { confirming, ..PagesOptions::default() };
            let language = Language::only(&options);
            let (title, text) = thanks_texts(&language, &options);
            assert_eq!(title, "Thank you");
            assert_eq!(text.contains("open the link"), is_told, "{text}");
        }
    }

    #[test]
    fn a_wait_is_in_seconds_minutes_or_hours() {
        let page = page(HTML, "").expect("all places are there");
        for (seconds, expected) in [
            (0, "in 1 second."),
            (99, "in 99 seconds."),
            (100, "in about 2 minutes."),
            (5399, "in about 90 minutes."),
            (5400, "in about 2 hours."),
        ] {
            let html = page.render(FormMessage::TooMany(seconds), None);
            assert!(html.contains(&format!("{expected}</p>")), "{seconds}: {html}");
        }
    }

    #[test]
    fn a_template_without_a_place_for_errors_is_refused() {
        for missing in ["\u{fdd0}m\u{fdd1}", "\u{fdd0}vmessage\u{fdd1}", "\u{fdd0}eemail\u{fdd1}"] {
            assert!(page(&HTML.replace(missing, ""), "").is_none(), "{missing:?}");
        }
        assert!(page("<p>\u{fdd0}", "").is_none());
    }

    fn page(html: &str, mail: &str) -> Option<FormPage> {
        let form = PageForm { definition: *CONTACT, confirms: false, markdown: String::new() };
        FormPage::new(html, &form, vec!["Name".into()], 0, &Language::only(&PagesOptions::default()), mail)
    }
}
