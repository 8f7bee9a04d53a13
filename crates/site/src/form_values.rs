//! The forms as values for templates, in the language of a page.

use std::collections::BTreeMap;

use minijinja::value::{Kwargs, Value};
use minijinja::{Environment, Error, ErrorKind, State, context};

use super::form_page::{field_markers, message_marker, option_marker};
use super::options::PageForm;
use super::site_context::to_template_value;
use super::words::WordList;
use crate::fault::did_you_mean;
use frontdesk_forms::value::number_text;
use frontdesk_forms::{Field, FieldKind, FormSet};

/// The partial that shows one form, which it finds in the variable `shown`.
const PARTIAL: &str = "partials/form.html";

/// How forms are shown.
#[derive(Clone, Copy)]
pub(super) struct FormView<'a> {
    pub words: &'a WordList,
    /// Whether the words are those of the site's default language, for which the definitions are written.
    pub is_default_language: bool,
    pub works_without_script: bool,
    /// The form whose page answers visitors without JavaScript. Its values are markers.
    pub answered: Option<&'a str>,
}

impl FormView<'_> {
    /// The forms by name.
    pub fn values(&self, forms: &[PageForm]) -> Value {
        let forms: BTreeMap<&str, Value> =
            forms.iter().map(|form| (form.definition.name, self.form(form))).collect();
        Value::from(forms)
    }

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
            let label = text(field.name, field.label, base.map(|base| base.label));
            let hint = format!("{}_hint", field.name);
            let description = text(&hint, field.description, base.map(|base| base.description));
            field_value(field, &label, &description, is_answered)
        };
        let thanks = Some(definition.thanks).filter(|thanks| !thanks.is_empty());
        let done = match (form.confirms, thanks) {
            (true, _) => named("done_confirm").unwrap_or_else(|| words.get("done_confirm")),
            (false, Some(thanks)) => self.choose(named("done"), thanks, Some("")),
            (false, None) => named("done").unwrap_or_else(|| words.get("form_thanks")),
        };
        context! {
            name => definition.name,
            action => definition.path,
            tool => definition.operation_id,
            title => text("title", definition.title, base.map(|base| base.title)),
            send => text("send", definition.submit, base.map(|base| base.submit)),
            description => text("description", definition.description, base.map(|base| base.description)),
            // The pages of the built-in forms have an introduction of their own.
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
    /// language; there, it wins over the word of the theme.
    fn choose<'t>(&self, word: Option<&'t str>, own: &'t str, built_in: Option<&str>) -> &'t str {
        let is_written = built_in != Some(own);
        match word {
            Some(word) if !(is_written && self.is_default_language) => word,
            _ => own,
        }
    }
}

fn field_value(field: &'static Field, label: &str, description: &str, is_answered: bool) -> Value {
    let [least, most] = limits(field);
    let checked = |at: usize, option: &str| {
        let attribute = if field.kind == FieldKind::Choice { " selected" } else { " checked" };
        if is_answered {
            Value::from(option_marker(field.name, at))
        } else {
            Value::from(if !option.is_empty() && option == field.default { attribute } else { "" })
        }
    };
    let options: Vec<Value> = match field.kind {
        FieldKind::Consent => vec![context! { value => "true", checked => checked(0, "true") }],
        _ => {
            let option = |(at, value): (usize, &&'static str)| {
                context! { value => *value, checked => checked(at, value) }
            };
            field.options.iter().enumerate().map(option).collect()
        }
    };
    context! {
        label,
        description,
        name => field.name,
        kind => to_template_value(field.kind),
        required => field.required,
        max => field.max_chars,
        least,
        most,
        step => if field.is_decimal { "any" } else { "1" },
        inputmode => if field.is_decimal { "decimal" } else { "numeric" },
        autocomplete => field.autocomplete,
        placeholder => field.placeholder,
        default => default_of(field),
        options,
        answer => is_answered.then(|| field_markers(field.name)),
    }
}

/// The value that a page shows at first. A hidden field always has one.
pub(super) fn default_of(field: &Field) -> &'static str {
    match field.kind {
        FieldKind::Hidden if field.default.is_empty() => field.options.first().copied().unwrap_or_default(),
        _ => field.default,
    }
}

/// The smallest and the largest number or day as text; empty if there is no such limit.
pub(super) fn limits(field: &Field) -> [String; 2] {
    match field.kind {
        FieldKind::Date => field.days.map(str::to_owned),
        FieldKind::Number => field.bounds.map(|bound| number_text(bound).unwrap_or_default()),
        _ => Default::default(),
    }
}

/// Adds the function `form("NAME", FIELD="VALUE")`, which shows a form. The values replace the defaults of
/// fields. Fails if there is no such form or field.
pub(super) fn add_function(environment: &mut Environment<'static>) {
    environment.add_function("form", |state: &State<'_, '_>, name: String, values: Kwargs| {
        let failure = |message: String| Error::new(ErrorKind::InvalidOperation, message);
        let forms = state.lookup("forms").unwrap_or_default();
        let form = forms.get_attr(&name)?;
        if form.is_undefined() {
            let names: Vec<String> = forms.try_iter()?.map(|name| name.to_string()).collect();
            let hint = did_you_mean(&name, names.iter().map(String::as_str), || {
                format!("the forms are {}", names.join(", "))
            });
            return Err(failure(format!("there is no form `{name}`: {hint}")));
        }
        let mut fields = Vec::new();
        for field in form.get_attr("fields")?.try_iter()? {
            let given: Option<String> = values.get(&field.get_attr("name")?.to_string())?;
            let is_shown = |given: &String| {
                let option = |option: Value| {
                    let value = option.get_attr("value").unwrap_or_default();
                    let attribute = if field.get_attr("kind").is_ok_and(|kind| kind.to_string() == "choice") {
                        " selected"
                    } else {
                        " checked"
                    };
                    let is_given = value.to_string() == *given;
                    context! { value, checked => if is_given { attribute } else { "" } }
                };
                field.get_attr("options").and_then(|options| options.try_iter()).map(|options| {
                    let options: Vec<Value> = options.map(option).collect();
                    context! { default => given.as_str(), options, ..field.clone() }
                })
            };
            // An answer shows the visitor's values.
            let is_answer = field.get_attr("answer")?.is_true();
            fields.push(match given.filter(|_| !is_answer) {
                Some(given) => is_shown(&given)?,
                None => field.clone(),
            });
        }
        values.assert_all_used().map_err(|_| failure(format!("the form `{name}` has no such field")))?;
        let shown = context! { fields, ..form };
        let variable = |name: &str| state.lookup(name).unwrap_or_default();
        let page = context! { page => variable("page"), site => variable("site"), words => variable("words"), shown };
        let html = state.env().get_template(PARTIAL)?.render(page)?;
        Ok(Value::from_safe_string(html))
    });
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::form_page::{FormMessage, FormPage};
    use crate::language::Language;
    use crate::options::PagesOptions;
    use crate::theme::Theme;
    use frontdesk_forms::FormFile;
    use frontdesk_forms::urlencoded::PostedForm;

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
        assert!(error.contains("the form `demo` has no such field"), "{error}");
    }

    #[test]
    fn an_answer_keeps_the_values_and_shows_each_fault() {
        let html = render("{{ form('demo') }}", Some("demo")).expect("it is rendered");
        let form = form();
        let language = Language::only(&PagesOptions::default());
        let page = FormPage::new(&html, &form, 0, &language, "").expect("all places are there");
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
