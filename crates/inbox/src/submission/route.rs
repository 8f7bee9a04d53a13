//! The properties of channels, and the choice of those that get a submission, by its form and its values.

use super::visitor_mail::{VisitorMail, VisitorRule};
use frontdesk_forms::FieldValue;

/// The properties of a channel that decide which submissions are queued for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Route {
    pub name: String,
    /// The forms that the channel accepts; empty for all forms.
    pub forms: Vec<String>,
    /// Determines which submissions to the accepted forms the channel gets; see [`choose`].
    pub when: Condition,
    /// Set if the receiver limits messages per day, as mail providers do. First attempts to deliver
    /// submissions from networks that exceed their daily allowance are then rate-limited.
    pub quota: Option<DailyQuota>,
    /// Set if the channel sends mails to visitors instead of submissions to the team.
    pub visitor: Option<VisitorRule>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DailyQuota {
    /// The account that the quota applies to. Channels with the same account share it.
    pub account: String,
    /// The number of recipients of each message. Each counts towards the quota.
    pub recipients: u32,
}

impl Route {
    /// A channel to the team that accepts all forms, with [`Condition::Otherwise`] and no daily quota.
    pub fn new(name: &str) -> Route {
        Route {
            name: name.to_owned(),
            forms: Vec::new(),
            when: Condition::default(),
            quota: None,
            visitor: None,
        }
    }

    /// Whether the channel delivers submissions of this form to the team. Which of them it gets also depends
    /// on [`Route::when`]; see [`choose`].
    pub fn accepts(&self, form: &str) -> bool {
        self.visitor.is_none() && self.takes(form)
    }

    /// The rule for sending `mail` to visitors who send this form; `None` if the channel sends no such mail.
    pub fn rule_for(&self, mail: VisitorMail, form: &str) -> Option<&VisitorRule> {
        self.visitor.as_ref().filter(|rule| rule.mail == mail && self.takes(form))
    }

    /// Whether the channel is for this form, to deliver to the team or to send mails to visitors.
    fn takes(&self, form: &str) -> bool {
        self.forms.is_empty() || self.forms.iter().any(|name| name == form)
    }
}

/// Determines which of the submissions to its forms a channel gets.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Condition {
    /// The submissions that match no other channel's condition.
    #[default]
    Otherwise,
    /// All submissions. Does not count as a match, so channels with [`Condition::Otherwise`] get them too.
    Always,
    /// The submissions in which each of these fields has one of the values: for a list of options, if one of
    /// them is selected. A missing field has no value.
    Fields(Vec<(String, Vec<FieldValue>)>),
}

/// The channels that get a submission to `form` with these fields, in the order of `routes`: those whose
/// fields match, or those without a condition if none matches, and [`Condition::Always`] in any case. Empty
/// if the submission stays in the inbox only.
pub fn choose<'r>(routes: &'r [Route], form: &str, fields: &[(String, FieldValue)]) -> Vec<&'r Route> {
    choose_by(routes, form, |name| fields.iter().find(|(field, _)| field == name).map(|(_, value)| value))
}

/// Like [`choose`], but looks up fields with `value`, which returns `None` for a missing field.
pub(crate) fn choose_by<'r, 'v>(
    routes: &'r [Route],
    form: &str,
    value: impl Fn(&str) -> Option<&'v FieldValue>,
) -> Vec<&'r Route> {
    let has_one = |name: &str, expected: &[FieldValue]| {
        value(name).is_some_and(|given| expected.iter().any(|expected| given.has(expected)))
    };
    let matches = |route: &Route| match &route.when {
        Condition::Fields(fields) => fields.iter().all(|(name, expected)| has_one(name, expected)),
        Condition::Always | Condition::Otherwise => false,
    };
    let accepting = || routes.iter().filter(|route| route.accepts(form));
    let is_matched = accepting().any(matches);
    let gets = |&route: &&Route| match &route.when {
        Condition::Always => true,
        Condition::Otherwise => !is_matched,
        Condition::Fields(_) => matches(route),
    };
    accepting().filter(gets).collect()
}

/// Whether [`choose`] reads the fields of submissions to this form.
pub(crate) fn reads_fields(routes: &[Route], form: &str) -> bool {
    routes.iter().any(|route| matches!(route.when, Condition::Fields(_)) && route.accepts(form))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::{Number, json};

    use super::*;
    use crate::submission::parse_fields;

    fn text(text: &str) -> FieldValue {
        FieldValue::from(text)
    }

    fn when(fields: &[(&str, &[FieldValue])]) -> Condition {
        let field = |(name, values): &(&str, &[FieldValue])| ((*name).to_owned(), values.to_vec());
        Condition::Fields(fields.iter().map(field).collect())
    }

    fn route(name: &str, forms: &[&str], when: Condition) -> Route {
        let forms = forms.iter().map(|form| (*form).to_owned()).collect();
        Route { forms, when, ..Route::new(name) }
    }

    fn chosen(routes: &[Route], form: &str, fields: &serde_json::Value) -> Vec<String> {
        let fields = parse_fields(fields.to_string().as_bytes()).unwrap();
        choose(routes, form, &fields).into_iter().map(|route| route.name.clone()).collect()
    }

    #[test]
    fn a_match_excludes_channels_without_conditions() {
        let routes = [
            route("team", &[], Condition::Otherwise),
            route("sales", &["book"], when(&[("plan", &[text("Team"), text("Enterprise")])])),
            route("big", &[], when(&[("plan", &[text("Enterprise")]), ("seats", &[text("many")])])),
            route("crm", &[], Condition::Always),
        ];
        for (form, fields, expected) in [
            ("book", json!({"plan": "Team"}), &["sales", "crm"][..]),
            ("book", json!({"plan": "Enterprise", "seats": "many"}), &["sales", "big", "crm"]),
            ("book", json!({"plan": "Free"}), &["team", "crm"]),
            ("book", json!({}), &["team", "crm"]),
            // The channel `sales` does not take this form, so its condition does not count.
            ("contact", json!({"plan": "Team"}), &["team", "crm"]),
        ] {
            assert_eq!(chosen(&routes, form, &fields), expected, "{form} {fields}");
        }
        assert_eq!(chosen(&routes[1..3], "book", &json!({"plan": "Free"})), [""; 0], "it is kept");
        assert!(reads_fields(&routes, "contact"));
        assert!(!reads_fields(&routes[..2], "contact"));
    }

    #[test]
    fn values_of_all_types_are_compared() {
        let number = |number: f64| FieldValue::Number(Number::from_f64(number).unwrap());
        for (value, expected, is_equal) in [
            (json!(5), number(5.0), true),
            (json!(5), number(5.5), false),
            (json!("5"), number(5.0), false),
            (json!(true), FieldValue::Flag(true), true),
            (json!("2026-11-27"), text("2026-11-27"), true),
            (json!(["a", "b"]), text("b"), true),
            (json!(["a", "b"]), text("a, b"), false),
            (json!([]), text("a"), false),
            (json!("A"), text("a"), false),
        ] {
            let routes = [route("one", &[], when(&[("field", &[text("other"), expected])]))];
            let found = chosen(&routes, "book", &json!({ "field": value }));
            assert_eq!(!found.is_empty(), is_equal, "{value}");
        }
    }

    #[test]
    fn channels_to_visitors_are_never_chosen() {
        use crate::submission::visitor_mail::HourlyLimits;
        let rule = VisitorRule {
            mail: VisitorMail::Acknowledgement,
            own_addresses: Vec::new().into(),
            limits: HourlyLimits { all: 1, network: None, domain: None },
            confirmations: Vec::new(),
        };
        let thanks = Route { visitor: Some(rule), ..route("thanks", &[], Condition::Always) };
        assert_eq!(chosen(&[thanks], "contact", &json!({})), [""; 0]);
    }

    fn conditions() -> impl Strategy<Value = Condition> {
        let values = proptest::collection::vec("[ab]".prop_map(FieldValue::Text), 1..3);
        let fields = proptest::collection::vec(("[xyz]", values), 1..3);
        prop_oneof![Just(Condition::Otherwise), Just(Condition::Always), fields.prop_map(Condition::Fields)]
    }

    proptest! {
        #[test]
        fn the_choice_follows_the_rule(
            conditions in proptest::collection::vec((conditions(), any::<bool>()), 0..6),
            fields in proptest::collection::btree_map("[xyz]", "[abc]", 0..4),
        ) {
            let routes: Vec<Route> = conditions
                .into_iter()
                .enumerate()
                .map(|(at, (when, is_other))| route(&at.to_string(), &["other"][..usize::from(is_other)], when))
                .collect();
            let names = chosen(&routes, "book", &json!(fields));
            let mut fallbacks = 0;
            let mut matches = 0;
            for route in &routes {
                let is_chosen = names.contains(&route.name);
                let expected = match &route.when {
                    _ if !route.forms.is_empty() => false,
                    Condition::Always => true,
                    Condition::Otherwise => {
                        fallbacks += usize::from(is_chosen);
                        continue;
                    }
                    Condition::Fields(wanted) => {
                        let mut is_match = true;
                        for (name, values) in wanted {
                            is_match &= fields.get(name).is_some_and(|given| values.contains(&text(given)));
                        }
                        matches += usize::from(is_match);
                        is_match
                    }
                };
                prop_assert_eq!(is_chosen, expected, "{:?}", route);
            }
            let of_all = |route: &&Route| route.forms.is_empty() && route.when == Condition::Otherwise;
            let all = routes.iter().filter(of_all).count();
            prop_assert_eq!(fallbacks, if matches == 0 { all } else { 0 });
        }
    }
}
