//! `[operator]`: the company that runs the site.

use super::reader::{Reader, deliveries, requests};
use super::value_parsers;
use frontdesk_site::Operator;

/// Reads `[operator]`. Also returns the contact address for security.txt, which defaults to the team's; both
/// are empty if neither is set.
pub(super) fn read(r: &mut Reader<'_>) -> (Operator, String) {
    let operator = Operator {
        name: r.get(
            deliveries("operator.name").set_in_starter_file("\"Example\""),
            "",
            "The company that runs this website, and the e-mail address of its team. The forms show the \
             address, also where they cannot be sent.",
            value_parsers::parse_line,
        ),
        email: r.get(
            deliveries("operator.email").set_in_starter_file("\"hello@example.com\""),
            "",
            "",
            value_parsers::email,
        ),
        console_url: r.get(
            requests("operator.console_url"),
            "",
            "The URL where customers sign in; if set, pages and agents.md link to it.",
            value_parsers::web_address,
        ),
    };
    let security_email = r.get(
        requests("operator.security_email"),
        "",
        "The address for vulnerability reports (security.txt); `email` if empty.",
        value_parsers::email,
    );
    let security_email = if security_email.is_empty() { operator.email.clone() } else { security_email };
    (operator, security_email)
}
