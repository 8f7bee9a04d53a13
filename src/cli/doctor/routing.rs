//! The table of `frontdesk doctor` that shows which channels and recipients get submissions with which
//! values.

use std::io::Write;

use frontdesk_config::{MAX_CASES, describe_case_values, routing_cases};
use frontdesk_deliver::mail::{MailAddresses, RecipientsByValue};
use frontdesk_deliver::{ChannelOptions, TransportOptions};
use frontdesk_forms::text::visible;
use frontdesk_forms::{FieldValue, Form, FormSet};
use frontdesk_inbox::submission::delivery::Route;

/// A table of each form and the values that `when` and `to` of a channel name, with the channels that get
/// such submissions, and their recipients if these depend on a value. The first row has the headings. A form
/// with more than [`MAX_CASES`] combinations of values has only a row that says so.
pub(super) fn routing_table(
    routes: &[Route],
    channels: &[ChannelOptions],
    set: &FormSet,
) -> Vec<[String; 3]> {
    let mut rows = vec![["form", "values", "channels"].map(str::to_owned)];
    for form in set.iter() {
        let recipients = recipients_by_value(routes, channels, form);
        let fields: Vec<(&str, Vec<FieldValue>)> = recipients
            .iter()
            .map(|(_, by_value)| {
                let values = by_value.cases.iter().map(|(value, _)| value.clone());
                (by_value.field.as_str(), values.collect())
            })
            .collect();
        let Some(cases) = routing_cases(routes, form, &fields) else {
            let values = format!("more than {MAX_CASES} combinations");
            rows.push([form.name.to_owned(), values, "not shown".to_owned()]);
            continue;
        };
        rows.extend(cases.iter().map(|case| {
            let values = match &case.values[..] {
                [] => "any".to_owned(),
                values => describe_case_values(values),
            };
            let describe = |channel: &String| describe_channel(channel, &recipients, &case.values);
            let channels = match &case.channels[..] {
                [] => "none: stays in the inbox".to_owned(),
                channels => channels.iter().map(describe).collect::<Vec<_>>().join(", "),
            };
            [form.name.to_owned(), values, channels]
        }));
    }
    rows
}

/// The names and recipients of the channels that accept `form` and choose recipients by a field's value.
fn recipients_by_value<'a>(
    routes: &[Route],
    channels: &'a [ChannelOptions],
    form: &Form,
) -> Vec<(&'a str, &'a RecipientsByValue)> {
    let accepts = |name: &str| routes.iter().any(|route| route.name == name && route.accepts(form.name));
    let accepting = channels.iter().filter(|channel| accepts(&channel.name));
    accepting.filter_map(|channel| Some((&*channel.name, addresses(channel)?.by_value()?))).collect()
}

/// The mail addresses of an SMTP or Maildir channel; `None` for other channels.
fn addresses(channel: &ChannelOptions) -> Option<&MailAddresses> {
    match &channel.kind {
        TransportOptions::Smtp(smtp) => Some(&smtp.addresses),
        TransportOptions::Maildir(maildir) => Some(&maildir.addresses),
        _ => None,
    }
}

/// The channel's name, followed by its recipients for `values` if it chooses them by a field's value.
fn describe_channel(
    channel: &str,
    recipients: &[(&str, &RecipientsByValue)],
    values: &[(&'static str, Option<FieldValue>)],
) -> String {
    let Some((_, by_value)) = recipients.iter().find(|(name, _)| *name == channel) else {
        return channel.to_owned();
    };
    let given = values.iter().find(|(name, _)| *name == by_value.field).and_then(|(_, value)| value.as_ref());
    let to: Vec<&str> = by_value.of(given).collect();
    format!("{channel} (to {})", to.join(" and "))
}

/// Prints rows in columns. A cell of more than 60 characters pushes the rest of its own row to the right.
pub(super) fn print_table(rows: &[[String; 3]], out: &mut impl Write) -> anyhow::Result<()> {
    const MAX_WIDTH: usize = 60;
    let width = |column: usize| {
        let widths = rows.iter().map(|row| visible(&row[column]).chars().count());
        widths.max().unwrap_or_default().min(MAX_WIDTH)
    };
    let (first, second) = (width(0), width(1));
    for [form, values, channels] in rows {
        let [form, values, channels] = [form, values, channels].map(|cell| visible(cell));
        writeln!(out, "{form:<first$}  {values:<second$}  {channels}")?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use frontdesk_config::Config;
    use frontdesk_inbox::submission::delivery::Condition;

    fn print(routes: &[Route], channels: &[ChannelOptions]) -> String {
        let mut out = Vec::new();
        print_table(&routing_table(routes, channels, FormSet::built_in()), &mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn the_table_shows_the_channels_of_each_value() {
        let company = vec![("company".to_owned(), vec![FieldValue::from("Example")])];
        let routes = [
            Route { when: Condition::Fields(company), ..Route::new("big") },
            Route { forms: vec!["contact".to_owned()], ..Route::new("team") },
        ];
        let expected = "\
form      values               channels
waitlist  any                  none: stays in the inbox
contact   company = \"Example\"  big
contact   company = another    team
";
        assert_eq!(print(&routes, &[]), expected);
    }

    #[test]
    fn the_table_shows_the_recipients_of_each_value() {
        let text = "[[channel]]\nname = \"mail\"\nkind = \"maildir\"\npath = \"mail\"\nfrom = \"desk@example.com\"\n\
            to = { company = { \"Example\" = [\"a@example.com\", \"b@example.com\"], \"*\" = \"c@example.com\" } }\n\
            [[channel]]\nname = \"copy\"\nkind = \"maildir\"\npath = \"copy\"\nforms = [\"contact\"]\n";
        let (config, _) = Config::parse(text, Path::new(""), [], &[]);
        let expected = "\
form      values               channels
waitlist  any                  mail (to c@example.com)
contact   company = \"Example\"  mail (to a@example.com and b@example.com), copy
contact   company = another    mail (to c@example.com), copy
";
        assert_eq!(print(&config.store.channels, &config.channels), expected);
    }
}
