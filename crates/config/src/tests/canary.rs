//! Tests of `[canary]`.

use super::*;
use std::time::Duration;

#[test]
fn the_canary_is_off_until_it_has_an_interval() {
    assert_eq!(accept("", &[], &[]).canary.every, None);
    let text = "base_url = \"https://www.example.com\"\n[canary]\nevery = \"6h\"\n\
                ping_url = \"https://ping.example.com/secret-path\"\nmailbox = \"Maildir\"\n";
    let config = accept(text, &[], &[]).with_base_url(None);
    let canary = &config.canary;
    assert_eq!(canary.every, Some(Duration::from_hours(6)));
    assert_eq!(
        canary.ping_url.as_ref().map(frontdesk_fetch::Url::authority).as_deref(),
        Some("ping.example.com")
    );
    assert!(canary.mailbox.as_ref().is_some_and(|path| path.ends_with("Maildir")));
    assert_eq!((&*canary.base_url, canary.site()), ("https://www.example.com", "www.example.com"));
    let forms: Vec<&str> = canary.forms.iter().map(|form| form.name).collect();
    assert_eq!(forms, ["waitlist", "contact"]);
    assert!(config.settings.iter().all(|setting| !setting.value.contains("secret-path")));
}

#[test]
fn wrong_values_of_the_canary_are_explained() {
    let check = |line: &str, expected: &str| refuse(&format!("[canary]\n{line}"), &[], &[expected]);
    check("every = \"9s\"", "frontdesk.toml:2: `canary.every` must be");
    check("every = \"8d\"", "frontdesk.toml:2: `canary.every` must be");
    check(
        "ping_url = \"ping.example.com\"",
        "frontdesk.toml:2: `canary.ping_url` must be a URL that is requested with GET",
    );
    check("ca_file = \"none.pem\"", "frontdesk.toml:2: `canary.ca_file` cannot be read");
    refuse("[canary]\nevry = \"6h\"", &[], &["frontdesk.toml:2: unknown key `canary.evry`"]);
}

#[test]
fn a_form_that_is_off_gets_no_test_submission() {
    let config = accept("[forms.waitlist]\nenabled = false\n", &[], &[]).with_base_url(None);
    assert_eq!(config.canary.forms.iter().map(|form| form.name).collect::<Vec<_>>(), ["contact"]);
}
