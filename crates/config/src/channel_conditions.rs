//! `when` of a channel: the values by which the channel chooses submissions, and where submissions with each
//! combination of these values go.

use serde_json::Number;
use toml::de::DeValue;

use super::reader::{Reader, deliveries};
use super::value_parsers::{ParseResult, Raw};
use frontdesk_deliver::ChannelOptions;
use frontdesk_deliver::mail::RecipientsByValue;
use frontdesk_forms::{Field, FieldKind, FieldValue, Form, FormSet};
use frontdesk_inbox::submission::delivery::{Condition, Route, choose};
use frontdesk_site::fault::did_you_mean;

/// Maximum number of combinations of values to examine for each form.
pub const MAX_CASES: usize = 10_000;
/// Maximum number of combinations without a channel that one warning names.
const MAX_NAMED: usize = 3;

/// The forms whose submissions a channel receives.
pub(super) struct ChannelForms {
    pub forms: Vec<&'static Form>,
    /// Whether the files of all these forms are valid. If not, fields and values cannot be checked.
    pub is_complete: bool,
}

impl ChannelForms {
    /// The forms in `set` with these names, or all forms if `names` is empty. Ignores unknown names.
    pub(super) fn named(names: &[String], set: &FormSet) -> ChannelForms {
        let is_taken = |name: &str| names.is_empty() || names.iter().any(|taken| taken == name);
        ChannelForms {
            forms: set.iter().filter(|form| is_taken(form.name)).collect(),
            is_complete: !set.faulty().iter().any(|name| is_taken(name)),
        }
    }
}

/// Reads `when` of the channel whose keys are being read, and which takes these forms. Without it, returns
/// [`Condition::Otherwise`]. Records an error for a field or value that no form accepts, and leaves out the
/// field. If all fields are valid, records an error if no submission can match all of them. Converts values
/// to their normal forms. If a form's file has faults, neither checks nor converts fields and values.
pub(super) fn read_condition(r: &mut Reader<'_>, forms: &ChannelForms) -> Condition {
    let condition = r.get_table(
        deliveries("when"),
        "",
        "only submissions with these values, such as { plan = [\"Team\"] } \
         (docs/pages/deliveries.md)",
        parse_condition,
    );
    let Condition::Fields(fields) = condition else { return condition };
    let ChannelForms { forms, is_complete: true } = forms else { return Condition::Fields(fields) };
    let found = fields.len();
    let fields: Vec<_> =
        fields.into_iter().filter_map(|(name, values)| check_field(r, forms, name, &values)).collect();
    let has_all = |shape: &[Field]| {
        fields.iter().all(|(name, values)| values.iter().any(|value| accepts(shape, name, value)))
    };
    let can_match = forms.iter().any(|form| shapes(form).any(has_all));
    r.refuse_if(
        fields.len() == found && !can_match,
        "when",
        "can never match: no form of this channel has all of these fields together",
    );
    Condition::Fields(fields)
}

/// Parses `"always"`, or a table of fields with a value or a list of values; a table or a list must not be
/// empty. Empty text is the default, [`Condition::Otherwise`]. Any other text is such a table in TOML,
/// because the environment has only text.
fn parse_condition(raw: &Raw) -> ParseResult<Condition> {
    let expected = "\"always\", or fields with their values, such as { plan = [\"Team\", \"Enterprise\"] }";
    let from_text;
    let raw = match raw.as_text() {
        Some("") => return Ok(Condition::Otherwise),
        Some("always") => return Ok(Condition::Always),
        Some(text) => {
            let value = DeValue::parse(text).map_err(|_| expected.to_owned())?;
            from_text = Raw::from_toml(value.get_ref());
            &from_text
        }
        None => raw,
    };
    let Raw::Table(members) = raw else { return Err(expected.to_owned()) };
    let field = |(name, raw): &(String, Raw)| {
        let values: Option<Vec<FieldValue>> = match raw {
            Raw::List(items) => items.iter().map(to_value).collect(),
            raw => to_value(raw).map(|value| vec![value]),
        };
        Some((name.clone(), values.filter(|values| !values.is_empty())?))
    };
    let fields: Option<Vec<_>> = members.iter().map(field).collect();
    let fields = fields.filter(|fields| !fields.is_empty());
    fields.map(Condition::Fields).ok_or_else(|| expected.to_owned())
}

/// Converts a value from TOML. Dates, infinities and NaN become text. Integers of more than 64 bits become
/// floating-point numbers, or text if they are not decimal. `None` for a list or a table.
fn to_value(raw: &Raw) -> Option<FieldValue> {
    match raw {
        Raw::Text(text) => Some(FieldValue::Text(text.clone())),
        Raw::Number(number) => Some(FieldValue::Number((*number).into())),
        Raw::Flag(flag) => Some(FieldValue::Flag(*flag)),
        Raw::Other(text) => {
            let number = text.replace('_', "").parse().ok().and_then(Number::from_f64);
            Some(number.map_or_else(|| FieldValue::Text(text.clone()), FieldValue::Number))
        }
        Raw::List(_) | Raw::Table(_) => None,
    }
}

/// The field with the normal forms of its values. `None`, after recording an error, if no form has the field,
/// or if one of the values is valid in none of the forms' fields.
fn check_field(
    r: &mut Reader<'_>,
    forms: &[&'static Form],
    name: String,
    values: &[FieldValue],
) -> Option<(String, Vec<FieldValue>)> {
    let fields = find_fields(r, "when", forms, &name)?;
    let mut normal: Vec<FieldValue> = Vec::new();
    let mut is_right = true;
    for value in values {
        let found: Vec<FieldValue> = fields.iter().filter_map(|field| field.normal_value(value)).collect();
        if found.is_empty() {
            is_right = false;
            let value = describe_value(value);
            r.refuse_if(
                true,
                "when",
                &format!("has {value}, which is not a possible value of the field `{name}`"),
            );
        }
        for value in found {
            if !normal.contains(&value) {
                normal.push(value);
            }
        }
    }
    is_right.then_some((name, normal))
}

/// The fields with this name. If no form has such a field, records an error about `key` and returns `None`.
fn find_fields(
    r: &mut Reader<'_>,
    key: &str,
    forms: &[&'static Form],
    name: &str,
) -> Option<Vec<&'static Field>> {
    let all = || forms.iter().copied().flat_map(Form::all_fields);
    let fields: Vec<&'static Field> = all().filter(|field| field.name == name).collect();
    if fields.is_empty() {
        let otherwise = || "write the name of a field as in the form's file".to_owned();
        let hint = did_you_mean(name, all().map(|field| field.name), otherwise);
        r.refuse_if(
            true,
            key,
            &format!("has `{name}`, which is not a field of this channel's forms: {hint}"),
        );
        return None;
    }
    Some(fields)
}

/// The recipients for each value of a field, from the texts in `to`; `*` stands for all other values. Records
/// an error for a text that is no value of the field, and leaves it out. `None` if a form's file has faults,
/// or, after recording an error, if no form of the channel has the field.
pub(super) fn read_recipients(
    r: &mut Reader<'_>,
    forms: &ChannelForms,
    field: String,
    cases: Vec<(String, Vec<String>)>,
) -> Option<RecipientsByValue> {
    let ChannelForms { forms, is_complete: true } = forms else { return None };
    let fields = find_fields(r, "to", forms, &field)?;
    let mut found = RecipientsByValue { field, cases: Vec::new(), otherwise: Vec::new() };
    for (text, to) in cases {
        if text == "*" {
            found.otherwise = to;
            continue;
        }
        let values: Vec<FieldValue> = fields.iter().filter_map(|field| field.value_of_text(&text)).collect();
        let message = format!("has {text:?}, which is not a possible value of the field `{}`", found.field);
        r.refuse_if(values.is_empty(), "to", &message);
        found.cases.extend(values.into_iter().map(|value| (value, to.clone())));
    }
    Some(found)
}

/// The sets of fields that a form accepts: its main fields and, if it has them, its alternative fields.
fn shapes(form: &Form) -> impl Iterator<Item = &[Field]> {
    [Some(form.fields.as_slice()), form.alternative.as_deref()].into_iter().flatten()
}

/// Whether a submission with these fields may have this value in the field `name`.
fn accepts(shape: &[Field], name: &str, value: &FieldValue) -> bool {
    shape.iter().any(|field| field.name == name && field.normal_value(value).is_some())
}

/// The fields that conditions name, each with a value. `None` stands for all values that no condition names.
pub type CaseValues = Vec<(&'static str, Option<FieldValue>)>;

/// A combination of values, and the names of the channels that get submissions with it.
#[derive(Debug, PartialEq, Eq)]
pub struct RoutingCase {
    pub values: CaseValues,
    pub channels: Vec<String>,
}

/// Each possible combination of the values that conditions of `routes` for this form or `others` name, with
/// the channels that get such submissions. Each field also has the value `None` (`CaseValues`). If no field
/// is named, one case without values. `None` if there are more than [`MAX_CASES`], counting impossible ones.
pub fn routing_cases(
    routes: &[Route],
    form: &'static Form,
    others: &[(&str, Vec<FieldValue>)],
) -> Option<Vec<RoutingCase>> {
    let mut combinations: Vec<CaseValues> = vec![Vec::new()];
    let named = named_values(routes, form, others);
    for (name, values) in &named {
        if combinations.len().saturating_mul(values.len() + 1) > MAX_CASES {
            return None;
        }
        let choices: Vec<Option<FieldValue>> = values.iter().cloned().map(Some).chain([None]).collect();
        let extend = |combination: &CaseValues| {
            let extended = choices.iter().map(|choice| {
                let mut longer = combination.clone();
                longer.push((*name, choice.clone()));
                longer
            });
            extended.collect::<Vec<_>>()
        };
        combinations = combinations.iter().flat_map(extend).collect();
    }
    let is_possible = |combination: &CaseValues| {
        shapes(form).any(|shape| {
            let mut pairs = combination.iter().zip(&named);
            pairs.all(|((name, value), (_, values))| match value {
                Some(value) => accepts(shape, name, value),
                // A submission without the field counts as having a value that no condition names.
                None => !shape.iter().any(|field| field.name == *name && is_exhausted(field, values)),
            })
        })
    };
    combinations.retain(is_possible);
    let case = |values: CaseValues| {
        let given = |(name, value): &(&'static str, Option<FieldValue>)| {
            value.clone().map(|value| ((*name).to_owned(), value))
        };
        let fields: Vec<(String, FieldValue)> = values.iter().filter_map(given).collect();
        let channels = choose(routes, form.name, &fields).into_iter().map(|route| route.name.clone());
        RoutingCase { channels: channels.collect(), values }
    };
    Some(combinations.into_iter().map(case).collect())
}

/// The fields of a form that conditions of channels for this form or `others` name, in the form's order, with
/// the normal forms of those named values that the form accepts. Leaves out fields without such a value.
fn named_values(
    routes: &[Route],
    form: &'static Form,
    others: &[(&str, Vec<FieldValue>)],
) -> Vec<(&'static str, Vec<FieldValue>)> {
    let accepting = routes.iter().filter(|route| route.accepts(form.name));
    let conditions = accepting.filter_map(|route| match &route.when {
        Condition::Fields(fields) => Some(fields),
        _ => None,
    });
    let of_routes = conditions.flatten().map(|(name, values)| (name.as_str(), values));
    let all: Vec<(&str, &Vec<FieldValue>)> =
        of_routes.chain(others.iter().map(|(name, values)| (*name, values))).collect();
    let mut named: Vec<(&'static str, Vec<FieldValue>)> = Vec::new();
    for field in form.all_fields() {
        let of_field = all.iter().filter(|(name, _)| *name == field.name);
        for value in of_field.flat_map(|(_, values)| *values) {
            let Some(value) = field.normal_value(value) else { continue };
            match named.iter_mut().find(|(name, _)| *name == field.name) {
                Some((_, values)) if values.contains(&value) => {}
                Some((_, values)) => values.push(value),
                None => named.push((field.name, vec![value])),
            }
        }
    }
    named
}

/// Whether each valid submission has one of these values in the field. `values` must be valid values of the
/// field, at least one.
fn is_exhausted(field: &Field, values: &[FieldValue]) -> bool {
    let is_named = |option: &&str| values.iter().any(|value| value.as_str() == Some(*option));
    // The only valid value of a consent is true, so a required consent always has this value.
    field.required
        && (field.kind == FieldKind::Consent
            || field.kind.has_options() && field.options.iter().all(is_named))
}

/// Describes the values of a combination, such as `plan = "Team", seats = another`.
pub fn describe_case_values(values: &[(&'static str, Option<FieldValue>)]) -> String {
    let describe = |(name, value): &(&'static str, Option<FieldValue>)| {
        let value = value.as_ref().map_or_else(|| "another".to_owned(), describe_value);
        format!("{name} = {value}")
    };
    values.iter().map(describe).collect::<Vec<_>>().join(", ")
}

/// Formats a value as it is written in `when`.
fn describe_value(value: &FieldValue) -> String {
    match value {
        FieldValue::Text(text) => format!("{text:?}"),
        FieldValue::Flag(flag) => flag.to_string(),
        FieldValue::Number(_) | FieldValue::List(_) => value.display().into_owned(),
    }
}

/// Warns about values with which submissions reach no channel, although a condition makes a channel choose
/// among submissions to the form, and about more combinations of values than [`MAX_CASES`], which are not
/// examined. Skips forms whose files have faults. Warns about nothing if a channel is left out
/// ([`is_channel_left_out`]).
pub(super) fn warn_about_gaps(r: &mut Reader<'_>, channels: &[ChannelOptions], set: &FormSet) {
    let routes: Vec<Route> = channels.iter().map(ChannelOptions::route).collect();
    if is_channel_left_out(r, &routes) {
        return;
    }
    for form in set.iter().filter(|form| !set.is_faulty(form.name)) {
        let is_conditional =
            |route: &&Route| route.accepts(form.name) && matches!(route.when, Condition::Fields(_));
        let Some(first) = routes.iter().find(is_conditional) else { continue };
        let key = format!("channel.{}.when", first.name);
        let Some(cases) = routing_cases(&routes, form, &[]) else {
            let message = format!(
                "the conditions distinguish more than {MAX_CASES} combinations of values of the form `{}`",
                form.name
            );
            let hint =
                "frontdesk cannot check that each combination reaches a channel: name fewer fields in `when`";
            r.warn_if(true, &key, &message, hint);
            continue;
        };
        let gaps: Vec<&RoutingCase> = cases.iter().filter(|case| case.channels.is_empty()).collect();
        let message = format!("no channel gets submissions to `{}`{}", form.name, describe_gaps(&gaps));
        let hint = "such submissions stay in the inbox: add a `[[channel]]` without `when`, which gets them";
        r.warn_if(!gaps.is_empty(), &key, &message, hint);
    }
}

/// Whether a channel is not among `routes` because a secret is missing, which the server may have in its own
/// environment. The submissions that the channel accepts are then not known.
pub(super) fn is_channel_left_out(r: &Reader<'_>, routes: &[Route]) -> bool {
    r.lacks_secret("channel", |name| routes.iter().any(|route| route.name == name))
}

/// The values of the first combinations, after ` with`, and the number of others. Empty if the only gap is
/// the combination without values, which stands for all submissions to the form.
fn describe_gaps(gaps: &[&RoutingCase]) -> String {
    let (first, others) = gaps.split_at(gaps.len().min(MAX_NAMED));
    let values: Vec<String> = first.iter().map(|case| describe_case_values(&case.values)).collect();
    let others = match others.len() {
        0 => String::new(),
        1 => "; and with 1 other combination".to_owned(),
        count => format!("; and with {count} other combinations"),
    };
    match gaps {
        [all] if all.values.is_empty() => String::new(),
        _ => format!(" with {}{others}", values.join("; or with ")),
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use proptest::prelude::*;

    use super::*;
    use crate::Config;
    use frontdesk_forms::FormFile;

    const BOOK: &str = r#"
title = "Book"
[[field]]
name = "plan"
type = "choice"
label = "Plan"
options = ["Free", "Team", "Enterprise"]
required = true
[[field]]
name = "days"
type = "choices"
label = "Days"
options = ["Mon", "Tue"]
[[field]]
name = "seats"
type = "number"
label = "Seats"
min = 1
max = 100
[[field]]
name = "terms"
type = "consent"
label = "Terms"
[[field]]
name = "from"
type = "date"
label = "From"
"#;

    fn book() -> &'static Form {
        FormFile::read("book", BOOK, "forms/book.toml").unwrap().form
    }

    /// Reads `when` of a channel for the forms with these names, and returns it with its errors.
    fn read(when: &str, names: &[&str]) -> (Condition, Vec<String>) {
        let text = format!("[[channel]]\nname = \"a\"\n{when}\n");
        let set = FormSet::new(FormSet::built_in().iter().chain([book()]));
        let is_taken = |form: &&'static Form| names.is_empty() || names.contains(&form.name);
        let forms = ChannelForms { forms: set.iter().filter(is_taken).collect(), is_complete: true };
        let mut r = Reader::new(&text, Path::new(""), [], &[], &[]);
        r.tables("channel");
        let condition = r.in_table("channel.a.".to_owned(), |r| {
            let _: String = r.get(deliveries("name"), "", "", crate::value_parsers::parse_line);
            read_condition(r, &forms)
        });
        (condition, r.finish().faults.iter().map(ToString::to_string).collect())
    }

    fn route(name: &str, when: &str) -> Route {
        let (when, faults) = read(when, &["book"]);
        assert_eq!(faults, [""; 0]);
        Route { when, ..Route::new(name) }
    }

    #[test]
    fn a_condition_has_typed_values() {
        let text = FieldValue::from;
        for (when, expected) in [
            ("when = { plan = \"Team\" }", vec![("plan", vec![text("Team")])]),
            ("[channel.when]\nplan = [\"Team\", \"Free\"]", vec![("plan", vec![text("Team"), text("Free")])]),
            (
                "when = { days = \"Tue\", terms = true }",
                vec![("days", vec![text("Tue")]), ("terms", vec![FieldValue::Flag(true)])],
            ),
            (
                "when = { seats = [5.0, 6] }",
                vec![("seats", vec![FieldValue::Number(5.into()), FieldValue::Number(6.into())])],
            ),
            ("when = { from = 2026-11-27 }", vec![("from", vec![text("2026-11-27")])]),
            ("when = '{ plan = [\"Team\"] }'", vec![("plan", vec![text("Team")])]),
        ] {
            let expected = expected.into_iter().map(|(name, values)| (name.to_owned(), values)).collect();
            assert_eq!(read(when, &[]), (Condition::Fields(expected), Vec::new()), "{when}");
        }
        assert_eq!(read("when = \"always\"", &[]), (Condition::Always, Vec::new()));
        assert_eq!(read("when = \"\"", &[]), (Condition::Otherwise, Vec::new()));
    }

    #[test]
    fn a_wrong_condition_is_an_error_with_its_line() {
        for (when, names, expected) in [
            (
                "when = { plna = \"Team\" }",
                &[""; 0][..],
                "has `plna`, which is not a field of this channel's forms: did you mean `plan`?",
            ),
            (
                "when = { plan = \"Team\" }",
                &["contact"],
                "has `plan`, which is not a field of this channel's forms: ",
            ),
            (
                "when = { plan = [\"Team\", \"team\"] }",
                &[],
                "has \"team\", which is not a possible value of the field `plan`",
            ),
            ("when = { seats = 101 }", &[], "has 101, which is not a possible value of the field `seats`"),
            (
                "when = { seats = \"5\" }",
                &[],
                "has \"5\", which is not a possible value of the field `seats`",
            ),
            (
                "when = { terms = false }",
                &[],
                "has false, which is not a possible value of the field `terms`",
            ),
            (
                "when = { from = \"2026-02-30\" }",
                &[],
                "has \"2026-02-30\", which is not a possible value of the field `from`",
            ),
            ("when = { name = \"Ada\", firstname = \"Ada\" }", &[], "can never match: "),
            ("when = { plan = \"Team\", company = \"Example\" }", &[], "can never match: "),
            ("when = { plan = [] }", &[], "must be \"always\", or fields with their values"),
            ("when = {}", &[], "must be \"always\", or fields with their values"),
            ("when = \"often\"", &[], "must be \"always\", or fields with their values"),
            ("when = 5", &[], "must be \"always\", or fields with their values"),
        ] {
            let (_, faults) = read(when, names);
            assert_eq!(faults.len(), 1, "{when}: {faults:?}");
            let expected = format!("frontdesk.toml:3: `channel.a.when` {expected}");
            assert!(faults[0].starts_with(&expected), "{when}: {faults:?}");
        }
    }

    #[test]
    fn cases_are_all_possible_combinations() {
        let routes = [
            route("sales", "when = { plan = [\"Team\", \"Enterprise\"] }"),
            route("big", "when = { plan = \"Enterprise\", days = \"Mon\", terms = true }"),
        ];
        let cases = routing_cases(&routes, book(), &[]).unwrap();
        let lines: Vec<String> = cases
            .iter()
            .map(|case| format!("{}: {}", describe_case_values(&case.values), case.channels.join(" ")))
            .collect();
        assert_eq!(
            lines,
            [
                "plan = \"Team\", days = \"Mon\", terms = true: sales",
                "plan = \"Team\", days = another, terms = true: sales",
                "plan = \"Enterprise\", days = \"Mon\", terms = true: sales big",
                "plan = \"Enterprise\", days = another, terms = true: sales",
                "plan = another, days = \"Mon\", terms = true: ",
                "plan = another, days = another, terms = true: ",
            ]
        );
        let all = [route("all", "when = { plan = [\"Free\", \"Team\", \"Enterprise\"] }")];
        assert!(routing_cases(&all, book(), &[]).unwrap().iter().all(|case| !case.channels.is_empty()));
        let none = routing_cases(&[Route::new("mail")], book(), &[]).unwrap();
        assert_eq!(none, [RoutingCase { values: Vec::new(), channels: vec!["mail".to_owned()] }]);
        let seats: Vec<String> = (1..=100).map(|seats| seats.to_string()).collect();
        let many = format!("when = {{ seats = [{}], days = [\"Mon\", \"Tue\"] }}", seats.join(", "));
        assert_eq!(routing_cases(&[route("many", &many)], book(), &[]).map(|cases| cases.len()), Some(303));
        let days: Vec<String> = (0..100).map(|day| format!("{}-01-01", 2000 + day)).collect();
        let more = format!("when = {{ seats = [{}], from = [{}] }}", seats.join(", "), days.join(", "));
        assert_eq!(routing_cases(&[route("more", &more)], book(), &[]), None);
    }

    #[test]
    fn values_without_a_channel_are_a_warning() {
        let channel = |name: &str, when: &str| {
            format!("[[channel]]\nname = \"{name}\"\nkind = \"maildir\"\npath = \"{name}\"\n{when}\n")
        };
        let warnings = |text: &str| -> Vec<String> {
            let (_, faults) = Config::parse(text, Path::new(""), [], &[]);
            let faults = faults.iter().map(ToString::to_string);
            faults.filter(|fault| fault.contains("no channel gets")).collect()
        };
        let conditional = channel("big", "when = { company = \"Example\" }");
        let found = warnings(&conditional);
        let first_lines: Vec<&str> = found.iter().filter_map(|fault| fault.lines().next()).collect();
        assert_eq!(
            first_lines,
            [
                "frontdesk.toml:5: no channel gets submissions to `waitlist`",
                "frontdesk.toml:5: no channel gets submissions to `contact` with company = another",
            ]
        );
        assert_eq!(warnings(&(conditional + &channel("team", ""))), [""; 0]);
    }

    proptest! {
        #[test]
        fn each_submission_goes_where_its_case_says(
            conditions in proptest::collection::vec((0..4_usize, 0..3_usize, 0..3_usize), 1..4),
            plan in 0..3_usize,
            seats in proptest::option::of(1..4_i64),
        ) {
            const PLANS: [&str; 3] = ["Free", "Team", "Enterprise"];
            let when = |(kind, plan, seats): (usize, usize, usize)| match kind {
                0 => String::new(),
                1 => format!("when = {{ plan = {:?} }}", PLANS[plan]),
                2 => format!("when = {{ seats = [{}, {}] }}", seats + 1, seats + 2),
                _ => format!("when = {{ plan = {:?}, seats = {} }}", PLANS[plan], seats + 1),
            };
            let routes: Vec<Route> =
                conditions.into_iter().enumerate().map(|(at, it)| route(&at.to_string(), &when(it))).collect();
            let mut fields = vec![("plan".to_owned(), FieldValue::from(PLANS[plan]))];
            fields.extend(seats.map(|seats| ("seats".to_owned(), FieldValue::Number(seats.into()))));
            let chosen: Vec<String> =
                choose(&routes, "book", &fields).into_iter().map(|route| route.name.clone()).collect();
            let cases = routing_cases(&routes, book(), &[]).unwrap();
            // A value that no condition names is `None`.
            let is_of = |case: &&RoutingCase| {
                case.values.iter().all(|(name, value)| {
                    let given = fields.iter().find(|(field, _)| field == name).map(|(_, value)| value);
                    let is_named = cases
                        .iter()
                        .flat_map(|case| &case.values)
                        .any(|(other, value)| other == name && value.is_some() && value.as_ref() == given);
                    if is_named { value.as_ref() == given } else { value.is_none() }
                })
            };
            let found: Vec<&RoutingCase> = cases.iter().filter(is_of).collect();
            prop_assert_eq!(found.len(), 1);
            prop_assert_eq!(&found[0].channels, &chosen);
        }
    }
}
