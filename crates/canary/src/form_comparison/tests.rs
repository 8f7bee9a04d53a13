//! Tests of the comparison of forms on pages.

use super::*;
use frontdesk_forms::{CONTACT, WAITLIST};

const ORIGIN: &str = "https://www.example.com";
const PATH: &str = "/contact/";
/// A form of the theme.
const THEME: &str = r#"<title>Contact</title><script defer src="/assets/forms.js?v=1"></script>
    <form action="/api/contact?page=/contact/" method="post" novalidate data-frontdesk="contact">
    <input name="name" required><input name="email" required><input name="company"><textarea name="message" required></textarea>
    <input name="desk_note"></form>"#;
/// A form of a build, which only the script sends.
const BUILT: &str = r#"<title>Contact</title><form data-frontdesk="contact"><input name="name" required>
    <input name="email" required><textarea name="message" required></textarea></form>
    <script src="/_frontdesk/forms.js" defer></script>"#;

fn senders() -> FormSenders {
    FormSenders {
        scripts: ["/assets/forms.js", "/_frontdesk/forms.js"].map(str::to_owned).into(),
        endpoints: vec!["/api/contact".to_owned(), "/api/waitlist".to_owned()],
        accepts_posts: true,
    }
}

fn read(html: &str) -> PageContent {
    PageContent::read(html, ORIGIN, PATH)
}

/// Judges what visitors get, if this server's page is `own`.
fn judged(own: &str, visitors: &str) -> (Outcome, String) {
    let page = read(own);
    let shown = page.forms.iter().find(|shown| shown.is_marked_as(&CONTACT)).expect("it has the form");
    judge(OwnForm { form: &CONTACT, shown, page: &page }, &read(visitors), &senders())
}

fn check(own: &str, visitors: &str, outcome: Outcome, expected: &str) {
    let (found, text) = judged(own, visitors);
    assert!(found == outcome && text.contains(expected), "{visitors}: {found:?} {text}");
}

/// Judges a page that visitors get as this server has it.
fn check_own(html: &str, outcome: Outcome, expected: &str) {
    check(html, html, outcome, expected);
}

#[test]
fn forms_of_the_theme_and_of_builds_are_fine() {
    check_own(THEME, Outcome::Ok, "its address, its fields and its script");
    check_own(BUILT, Outcome::Ok, "its address");
    check(THEME, &THEME.replace("action=\"/api", "action=\"https://www.example.com/api"), Outcome::Ok, "");
    check(THEME, &THEME.replace("?v=1", "?v=2"), Outcome::Ok, "");
    // The second set of fields that the built-in contact form accepts.
    let names =
        r#"<input name="firstname" required><input name="lastname" required><input name="company" required>"#;
    let second = BUILT.replace("<input name=\"name\" required>", names);
    check_own(&second, Outcome::Ok, "its address");
    let short = second.replace("<input name=\"company\" required>", "");
    check_own(&short, Outcome::Failed, "it lacks `company`");
    // An inline script of the page sends this form.
    check_own(
        &BUILT.replace("<script src=\"/_frontdesk/forms.js\" defer>", "<script>fetch('/api/contact')"),
        Outcome::Ok,
        "",
    );
}

#[test]
fn a_page_without_the_form_is_named() {
    use Outcome::Failed;
    check(THEME, "<title>Sign in</title>", Failed, "a page (\"Sign in\") without the form");
    check(THEME, &format!("<!-- {THEME} -->"), Failed, "visitors get a page without the form");
    check(THEME, &format!("<template>{THEME}</template>"), Failed, "without the form");
    check(THEME, "<form action=/search><input name=q></form>", Failed, "without the form");
}

#[test]
fn a_changed_attribute_or_address_is_named() {
    use Outcome::{Failed, Warning};
    let elsewhere = THEME.replace("/api/contact?page=/contact/", "https://old.example/send");
    check(
        THEME,
        &elsewhere,
        Failed,
        "the form is sent to https://old.example/send: it must be `/api/contact`",
    );
    check_own(&elsewhere, Warning, "sent to https://old.example/send without JavaScript");
    let without = elsewhere.replace(" data-frontdesk=\"contact\"", "");
    check(THEME, &without, Failed, "it is sent to https://old.example/send");
    check(THEME, &THEME.replace("action=\"/api/contact?page=/contact/\"", ""), Failed, "without an address");
    check(THEME, &THEME.replace("/api/contact", "/api/waitlist"), Failed, "is sent to /api/waitlist");
    check(THEME, &THEME.replace("=\"contact\"", "=\"contcat\""), Failed, "visitors get says \"contcat\"");
    check(THEME, &THEME.replace(" data-frontdesk=\"contact\"", ""), Failed, "visitors get has lost it");
    check(BUILT, &BUILT.replace(" data-frontdesk=\"contact\"", ""), Failed, "it has lost `data-frontdesk`");
    check(THEME, &THEME.replace("method=\"post\"", ""), Failed, "the method GET");
    check_own(&THEME.replace("method=\"post\"", ""), Warning, "the method GET");
}

#[test]
fn missing_and_unknown_fields_are_named() {
    use Outcome::{Failed, Warning};
    let renamed = THEME.replace("name=\"email\"", "name=\"mail\"");
    check(THEME, &renamed, Failed, "it lacks `email`, which its definition requires");
    check_own(&renamed, Failed, "it lacks `email`");
    check(THEME, &THEME.replace("<input name=\"company\">", ""), Warning, "without `company`");
    check(
        THEME,
        &THEME.replace("<input name=\"desk_note\">", ""),
        Warning,
        "`desk_note`, which programs that send spam",
    );
    let more = BUILT.replace("<textarea", "<input name=budget required><textarea");
    check_own(&more, Warning, "requires `budget`, which its definition does not have");
    check_own(&more.replace("name=budget required", "name=budget"), Outcome::Ok, "");
}

#[test]
fn a_page_without_its_script_is_named() {
    use Outcome::{Failed, Warning};
    let without = |html: &str| html.replace("forms.js", "other.js");
    check(BUILT, &without(BUILT), Failed, "without the script that sends the form (`/_frontdesk/forms.js`)");
    // Browsers send the theme's form even without the script.
    check(THEME, &without(THEME), Warning, "without the script that sends the form");
    check_own(&without(THEME), Outcome::Ok, "");
    check_own(&without(BUILT), Warning, "nothing sends the form");
    check_own(
        &BUILT.replace("<script src=\"/_frontdesk/forms.js\" defer></script>", ""),
        Failed,
        "nothing sends the form",
    );
}

#[test]
fn a_failure_precedes_a_warning() {
    let both = THEME
        .replace("<input name=\"company\">", "")
        .replace("forms.js", "x.js")
        .replace("method=\"post\"", "");
    check(THEME, &both, Outcome::Failed, "the method GET");
}

#[test]
fn a_form_that_lost_its_attribute_is_told_from_one_that_was_taken_away() {
    let lost = |html: &str| judge_lost(&CONTACT, &read(html));
    let unmarked = BUILT.replace(" data-frontdesk=\"contact\"", "");
    let (outcome, text) = lost(&unmarked).expect("it is lost");
    assert_eq!(outcome, Outcome::Failed);
    assert!(text.starts_with("the form has lost its attribute `data-frontdesk=\"contact\"`"), "{text}");
    let renamed = unmarked.replace("<form", "<form data-frontdesk=\"contcat\"");
    assert!(lost(&renamed).expect("it is lost").1.contains("now says \"contcat\""));
    let moved = unmarked.replace("<form", "<form action=https://forms.example/1");
    let (outcome, text) = lost(&moved).expect("it has moved");
    assert!(outcome == Outcome::Warning && text.contains("now sent to https://forms.example/1"), "{text}");
    for gone in ["<p>No form</p>", "<form action=/search><input name=q></form>"] {
        assert_eq!(lost(gone), None, "{gone}");
    }
}

#[test]
fn a_form_without_an_attribute_is_only_suspected_at_first() {
    let judge = |html: &str| judge_unmarked(&CONTACT, &read(html)).map(|(outcome, _)| outcome);
    let unmarked = BUILT.replace(" data-frontdesk=\"contact\"", "");
    assert_eq!(judge(&unmarked), Some(Outcome::Warning));
    // The next two forms seem to be for another program, so they are not reported.
    assert_eq!(judge(&unmarked.replace("<form", "<form action=/subscribe")), None);
    assert_eq!(judge(&unmarked.replace("<textarea", "<input name=password><textarea")), None);
    assert_eq!(judge(BUILT), None);
}

#[test]
fn an_attribute_that_names_no_form_is_a_failure() {
    let page = read(&BUILT.replace("=\"contact\"", "=\"contcat\""));
    let (outcome, text) = judge_unknown_names(&[&CONTACT, &WAITLIST], &page).expect("it is unknown");
    assert!(outcome == Outcome::Failed && text.contains("there is no form `contcat`"), "{text}");
    assert_eq!(judge_unknown_names(&[&CONTACT], &read(BUILT)), None);
}
