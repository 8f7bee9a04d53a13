//! The template function `form`, which shows a form.

use minijinja::value::{Kwargs, Value};
use minijinja::{Environment, Error, ErrorKind, State, context};

use crate::fault::did_you_mean;

/// The partial that shows the form in the variable `shown`, unless the theme has a partial for this form:
/// `partials/form-NAME.html`.
const PARTIAL: &str = "partials/form.html";

/// Adds the function `form("NAME", FIELD="VALUE")`, which shows a form. The values replace the defaults of
/// fields, except in the form that the page answers. The function fails if there is no such form or field. It
/// shows nothing for a form whose file has faults.
pub(super) fn add_to(environment: &mut Environment<'static>) {
    environment.add_function("form", |state: &State<'_, '_>, name: String, values: Kwargs| {
        let failure = |message: String| Error::new(ErrorKind::InvalidOperation, message);
        let forms = state.lookup("forms").unwrap_or_default();
        let form = forms.get_attr(&name)?;
        if form.is_undefined() {
            let names: Vec<String> = forms.try_iter()?.map(|name| name.to_string()).collect();
            let hint = did_you_mean(&name, names.iter().map(String::as_str), || match &names[..] {
                [] => "the site has no forms: each is a file in `forms/`".to_owned(),
                names => format!("the forms are {}", names.join(", ")),
            });
            return Err(failure(format!("there is no form `{name}`: {hint}")));
        }
        if form.is_none() {
            return Ok(Value::from_safe_string(String::new()));
        }
        let mut fields = Vec::new();
        for field in form.get_attr("fields")?.try_iter()? {
            let given: Option<String> = values.get(&field.get_attr("name")?.to_string())?;
            // After a refused submission, the visitor's values replace those given in the template.
            let is_answer = field.get_attr("answer")?.is_true();
            fields.push(match given.filter(|_| !is_answer) {
                Some(given) => with_default(&field, &given)?,
                None => field.clone(),
            });
        }
        values.assert_all_used().map_err(|error| {
            let argument = error.detail().unwrap_or_default();
            failure(format!("the form `{name}` has no such field: {argument}"))
        })?;
        let shown = context! { fields, ..form };
        let variable = |name: &str| state.lookup(name).unwrap_or_default();
        let answer = shown.get_attr("answer")?;
        let page = context! {
            page => variable("page"), site => variable("site"), words => variable("words"), forms, answer, shown,
        };
        let environment = state.env();
        let own = environment.get_template(&format!("partials/form-{name}.html"));
        let html = own.or_else(|_| environment.get_template(PARTIAL))?.render(page)?;
        Ok(Value::from_safe_string(html))
    });
}

/// A copy of the field with `given` as its default. Only the option with this value, if any, is selected.
fn with_default(field: &Value, given: &str) -> Result<Value, Error> {
    let attribute = if field.get_attr("kind")?.as_str() == Some("choice") { " selected" } else { " checked" };
    let option = |option: Value| {
        let value = option.get_attr("value").unwrap_or_default();
        let checked = if value.as_str() == Some(given) { attribute } else { "" };
        context! { value, checked }
    };
    let options: Vec<Value> = field.get_attr("options")?.try_iter()?.map(option).collect();
    Ok(context! { default => given, options, ..field.clone() })
}
