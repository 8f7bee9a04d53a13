//! The forms as values for templates, in the language of a page.

use std::collections::BTreeMap;

use minijinja::context;
use minijinja::value::{Serde, Value};

use super::form_answer::{field_markers, message_marker, option_marker};
use super::language::Language;
use super::options::PageForm;
use super::words::WordList;
use frontdesk_forms::{Field, FieldKind, Form, FormSet};

/// How a page shows forms: in which language, and whether they work without JavaScript.
#[derive(Clone, Copy)]
pub(super) struct FormView<'a> {
    pub words: &'a WordList,
    /// Whether the page is in the site's default language, in which the forms' definitions are written.
    pub is_default_language: bool,
    pub works_without_script: bool,
    /// The form whose submission the page answers, for visitors without JavaScript. The values of its fields
    /// are markers, which the answer replaces with what the visitor sent.
    pub answered: Option<&'a str>,
}

impl<'a> FormView<'a> {
    /// The view for a page that works without JavaScript. `answered` is the form whose submission the
    /// page answers, if any.
    pub fn answering(language: &'a Language, answered: Option<&'a str>) -> Self {
        let is_default_language = language.prefix.is_empty();
        FormView { words: &language.words, is_default_language, works_without_script: true, answered }
    }

    /// The forms as a template value, by name.
    pub fn values(&self, forms: &[PageForm]) -> Value {
        let forms: BTreeMap<&str, Value> =
            forms.iter().map(|form| (form.definition.name, self.form(form))).collect();
        Value::from(forms)
    }

    /// Like [`FormView::values`], with `none` for forms whose files have faults. These faults are reported,
    /// so that pages with such forms do not cause further ones.
    pub fn values_and_faulty(&self, forms: &[PageForm], faulty: &[String]) -> Value {
        let faulty = faulty.iter().map(|name| (name.as_str(), Value::from(())));
        let forms = forms.iter().map(|form| (form.definition.name, self.form(form)));
        Value::from(faulty.chain(forms).collect::<BTreeMap<&str, Value>>())
    }

    /// The labels of a form's fields, in the language of the page.
    pub fn labels(&self, form: &Form) -> Vec<String> {
        form.fields.iter().map(|field| self.label(form, field)).collect()
    }

    /// The title of a form, if possible in the language of the page ([`Self::choose`]).
    pub fn title(&self, form: &Form) -> &str {
        let base = FormSet::built_in().named(form.name);
        let word = self.words.find(&format!("{}_title", form.name));
        self.choose(word, form.title, base.map(|base| base.title))
    }

    fn label(&self, form: &Form, field: &Field) -> String {
        let base = FormSet::built_in().named(form.name).and_then(|base| base.field(field.name));
        let word = self.words.find(&format!("{}_{}", form.name, field.name));
        self.choose(word, field.label, base.map(|base| base.label)).to_owned()
    }

    /// The values of one form for templates: its texts in the language of the page, its endpoint and its
    /// fields. If visitors confirm their addresses, `done` is a text about that, and never the form's own
    /// text.
    fn form(&self, form: &PageForm) -> Value {
        let (definition, words) = (form.definition, self.words);
        let base = FormSet::built_in().named(definition.name);
        let named = |end: &str| words.find(&format!("{}_{end}", definition.name));
        let text = |end: &str, own: &'static str, built_in: Option<&str>| {
            self.choose(named(end), own, built_in).to_owned()
        };
        let is_answered = self.answered == Some(definition.name);
        let field = |field: &'static Field| {
            let base = base.and_then(|base| base.field(field.name));
            let label = self.label(definition, field);
            let hint = format!("{}_hint", field.name);
            let description = text(&hint, field.description, base.map(|base| base.description));
            field_value(field, &label, &description, is_answered)
        };
        let thanks = Some(definition.thanks).filter(|thanks| !thanks.is_empty());
        // Built-in forms have no `thanks`, so it is always a text of the operator.
        let done = match (form.confirms, thanks) {
            (true, _) => named("done_confirm").unwrap_or_else(|| words.get("done_confirm")),
            (false, Some(thanks)) => self.choose(named("done"), thanks, Some("")),
            (false, None) => named("done").unwrap_or_else(|| words.get("form_thanks")),
        };
        context! {
            name => definition.name,
            action => definition.path,
            tool => definition.operation_id,
            title => self.title(definition),
            send => text("send", definition.submit, base.map(|base| base.submit)),
            description => text("description", definition.description, base.map(|base| base.description)),
            // Omit the introduction of a built-in form, because the form's page has its own.
            introduction => base.is_none().then(|| text("description", definition.description, None)),
            needs_script => named("needs_script").unwrap_or_else(|| words.get("needs_script")),
            done_title => named("done_title").unwrap_or_else(|| words.get("thanks_title")),
            done,
            offers_mail => definition.fields.iter().any(|field| field.kind == FieldKind::Multiline),
            fields => definition.fields.iter().map(field).collect::<Vec<_>>(),
            works_without_script => self.works_without_script,
            answer => is_answered.then(message_marker),
        }
    }

    /// A text in the language of the page. A definition that the operator has written is in the default
    /// language; there, it wins over the word of the theme. A text that equals the built-in one does not
    /// count as written. Without a word, the definition's own text is used.
    fn choose<'t>(&self, word: Option<&'t str>, own: &'t str, built_in: Option<&str>) -> &'t str {
        let is_written = built_in != Some(own);
        match word {
            Some(word) if !(is_written && self.is_default_language) => word,
            _ => own,
        }
    }
}

/// A field's values for templates. With `is_answered`, they contain the markers that a response replaces with
/// the visitor's value, selection and error; otherwise the default option is selected. A consent has one
/// option, `true`.
fn field_value(field: &'static Field, label: &str, description: &str, is_answered: bool) -> Value {
    let [least, most] = field.limits();
    let checked = |at: usize, option: &str| {
        let attribute = if field.kind == FieldKind::Choice { " selected" } else { " checked" };
        if is_answered {
            Value::from(option_marker(field.name, at))
        } else {
            Value::from(if !option.is_empty() && option == field.default { attribute } else { "" })
        }
    };
    let texts = if field.kind == FieldKind::Consent { &["true"][..] } else { &field.options };
    let option = |(at, value): (usize, &&'static str)| {
        context! { value => *value, checked => checked(at, value) }
    };
    let options: Vec<Value> = texts.iter().enumerate().map(option).collect();
    context! {
        label,
        description,
        name => field.name,
        kind => Value::from(Serde(field.kind)),
        required => field.required,
        max => field.max_chars,
        least,
        most,
        step => if field.is_decimal { "any" } else { "1" },
        inputmode => if field.is_decimal { "decimal" } else { "numeric" },
        autocomplete => field.autocomplete,
        placeholder => field.placeholder,
        default => field.initial_value(),
        options,
        answer => is_answered.then(|| field_markers(field.name)),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::form_answer::{FormMessage, FormPage};
    use crate::options::PagesOptions;
    use crate::theme::Theme;
    use frontdesk_forms::FormFile;
    use frontdesk_forms::form_post::PostedForm;
    use minijinja::Error;

    const HOSTILE: &str = "<b>\"'&{{ 1 }}";

    /// A form with a field of each kind, whose texts are HTML.
    fn form() -> PageForm {
        let hostile = HOSTILE.replace('"', "\\\"");
        let field = |(kind, more): (&str, &str)| {
            format!("[[field]]\nname = \"{kind}\"\ntype = \"{kind}\"\nlabel = \"{kind} {hostile}\"\n{more}\n")
        };
        let options = format!("options = [\"One\", \"{hostile}\", \"Three\"]");
        let kinds = [
            ("text", "required = true\nplaceholder = \"as on your card\""),
            ("multiline", "default = \"Hello\""),
            ("email", ""),
            ("tel", ""),
            ("url", ""),
            ("number", "min = 2\nmax = 9"),
            ("date", "min = \"2026-01-01\""),
            ("choice", options.as_str()),
            ("choices", options.as_str()),
            ("consent", ""),
            ("hidden", options.as_str()),
        ];
        let text = format!(
            "title = \"Demo {hostile}\"\nsubmit = \"Go {hostile}\"\nthanks = \"Bye {hostile}\"\n{}",
            kinds.map(field).concat()
        );
        let file = FormFile::read("demo", &text, "forms/demo.toml").expect("a valid definition");
        PageForm { definition: file.form, confirms: false, markdown: String::new() }
    }

    fn render(template: &str, answered: Option<&str>) -> Result<String, Error> {
        let theme = Theme::new([]).compile(BTreeMap::new());
        let words = WordList::english();
        let view =
            FormView { words: &words, is_default_language: true, works_without_script: true, answered };
        let values = context! {
            page => context! { path => "/a/" },
            site => context! { operator => context! { email => "team@example.com" } },
            words => words.to_template_value(),
            forms => view.values(&[form()]),
        };
        theme.environment.template_from_named_str("page.html", template)?.render(values)
    }

    #[test]
    fn a_form_has_a_control_for_each_kind_of_field() {
        let html = render("{{ form('demo') }}", None).expect("it is rendered");
        for part in [
            "data-frontdesk=\"demo\"",
            "<input type=\"text\" id=\"form-demo-text\" name=\"text\" autocomplete=\"off\" maxlength=\"200\" placeholder=\"as on your card\" required>",
            "<textarea rows=\"7\" id=\"form-demo-multiline\"",
            ">\nHello</textarea>",
            "<input type=\"tel\" id=\"form-demo-tel\"",
            "<input type=\"number\" id=\"form-demo-number\" name=\"number\" autocomplete=\"off\" inputmode=\"numeric\" step=\"1\" min=\"2\" max=\"9\">",
            "<input type=\"date\" id=\"form-demo-date\" name=\"date\" autocomplete=\"off\" min=\"2026-01-01\">",
            "<select id=\"form-demo-choice\" name=\"choice\"",
            "<option value=\"\">Please choose</option>\n<option value=\"One\">One</option>",
            "<fieldset class=\"field field-choices\">",
            "<input type=\"checkbox\" id=\"form-demo-choices\" name=\"choices\" value=\"One\" data-kind=\"choices\">",
            "<input type=\"checkbox\" id=\"form-demo-consent\" name=\"consent\" value=\"true\" data-kind=\"consent\" required>",
            "<input type=\"hidden\" id=\"form-demo-hidden\" name=\"hidden\" value=\"One\">",
        ] {
            assert!(html.contains(part), "{part} is missing in\n{html}");
        }
        assert!(!html.contains("<b>"), "{html}");
        assert_eq!(html.matches("&lt;b&gt;").count(), html.matches("{{ 1 }}").count());
    }

    #[test]
    fn a_template_can_set_fields_and_is_told_about_unknown_names() {
        let html =
            render("{{ form('demo', hidden='Three', choice='One', text='a\"b') }}", None).expect("HTML");
        for part in
            ["name=\"hidden\" value=\"Three\"", "<option value=\"One\" selected>", "value=\"a&quot;b\""]
        {
            assert!(html.contains(part), "{part} is missing in\n{html}");
        }
        let error = render("{{ form('dem') }}", None).expect_err("no such form").to_string();
        assert!(error.contains("there is no form `dem`: did you mean `demo`?"), "{error}");
        let error = render("{{ form('demo', colour='red') }}", None).expect_err("no such field").to_string();
        assert!(error.contains("the form `demo` has no such field") && error.contains("colour"), "{error}");
    }

    #[test]
    fn an_answer_keeps_the_values_and_shows_each_fault() {
        let html = render("{{ form('demo') }}", Some("demo")).expect("it is rendered");
        let form = form();
        let language = Language::only(&PagesOptions::default());
        let page = FormPage::new(&html, &form, Vec::new(), 0, &language, "").expect("all places are there");
        let body = b"text=&number=12&date=2025-12-31&tel=none&url=no+url&choice=Two&choices=Three&choices=Nine&hidden=Three";
        let posted = PostedForm::decode(form.definition, body).expect("it is decoded");
        let html = page.render(FormMessage::Invalid, Some(&posted));
        for part in [
            "Please fill in this field.",
            "Please enter a whole number from 2 to 9.",
            "Please enter a day that is not before 2026-01-01, such as 2026-01-01.",
            "Please enter a telephone number",
            "Please enter a web address",
            "Please choose one of the options.",
            "Please choose only from these options",
            "Please tick this box.",
            "name=\"hidden\" value=\"Three\"",
            "value=\"Three\" data-kind=\"choices\" checked",
            "<a href=\"#form-demo-number\">",
        ] {
            assert!(html.contains(part), "{part} is missing in\n{html}");
        }
        assert!(!html.contains(['\u{fdd0}', '\u{fdd1}']), "a marker is left in\n{html}");
        let html = page.render(FormMessage::NothingSent, None);
        assert!(html.contains("\nHello</textarea>") && !html.contains("aria-invalid"), "{html}");
    }
}
