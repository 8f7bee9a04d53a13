//! Tests that faults in secrets do not quote them.

use super::*;

/// A channel of each kind that has secrets.
const CHANNELS: &str = "[[channel]]\nname = \"hook\"\nkind = \"webhook\"\nbody = \"telegram\"\n\
                        [[channel]]\nname = \"mail\"\nkind = \"smtp\"\nhost = \"mail.example.com\"\n\
                        username = \"desk\"\n";

/// The body of a damaged secret.
const BODY: &str = "hunter2/MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0waw";

/// Asserts that no fault of a configuration contains a part of [`BODY`].
fn check_hidden(text: &str, environment: &[(&str, &str)]) {
    let (config, faults) = load(text, environment, &[]);
    let said: String = faults.iter().map(ToString::to_string).collect();
    let settings = format!("{:?}", config.settings);
    for part in ["hunter2", "MIGH", "GSM49"] {
        assert!(!said.to_uppercase().contains(&part.to_uppercase()), "{text}{environment:?}: {said}");
        let is_in_settings = settings.to_uppercase().contains(&part.to_uppercase());
        assert!(!is_in_settings, "{text}{environment:?}: {settings}");
    }
}

#[test]
fn no_part_of_a_faulty_secret_is_in_a_message() {
    let values = [
        BODY.to_owned(),
        format!("{BODY}\n{BODY}"),
        format!("whsec_{BODY}!"),
        format!("AGE-SECRET-KEY-1{BODY}"),
        format!("https://user:{BODY}@example.com:port/"),
        format!("redis://user:{BODY}@example.com:port"),
    ];
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("value");
    for key in [
        "channel.hook.url",
        "channel.hook.secret",
        "channel.hook.token",
        "channel.hook.chat",
        "channel.mail.password",
        "canary.ping_url",
        "limits.shared_secret",
        "screening.rspamd_password",
    ] {
        let name = format!("FRONTDESK_{}", key.replace('.', "__").to_uppercase());
        let file_name = format!("{name}_FILE");
        for value in &values {
            std::fs::write(&file, value).expect("it can be written");
            check_hidden(CHANNELS, &[(&name, value)]);
            check_hidden(CHANNELS, &[(&file_name, file.to_str().expect("a name"))]);
            // The secret instead of the path of its file.
            check_hidden(CHANNELS, &[(&file_name, value)]);
        }
    }
    for url in ["redis://user:BODY@example.com:port", "postgres://user:BODY@db@example.com:port/inbox"] {
        let url = url.replace("BODY", BODY);
        for key in ["LIMITS__SHARED_URL", "LIMITS__SHARED_URL_FILE", "STORE__URL", "STORE__URL_FILE"] {
            check_hidden("", &[(&format!("FRONTDESK_{key}"), &url)]);
        }
    }
    // Text without quotes, and text whose line breaks are not escaped.
    for value in [BODY.to_owned(), format!("\"{BODY}\n{BODY}\""), format!("'{BODY}"), format!("\"{BODY}\\\"")]
    {
        check_hidden(&format!("{CHANNELS}password = {value}\n"), &[]);
    }
}

#[test]
fn an_unreadable_file_of_a_secret_does_not_count_as_a_missing_secret() {
    let text = "[[channel]]\nname = \"hook\"\nkind = \"webhook\"\n";
    let environment = [("FRONTDESK_CHANNEL__HOOK__URL_FILE", "/run/none/url")];
    let (_, faults) = load(text, &environment, &[]);
    let [error] = &errors(&faults)[..] else { panic!("one error: {faults:?}") };
    assert!(error.starts_with("FRONTDESK_CHANNEL__HOOK__URL_FILE: cannot read"), "{error}");
}

#[test]
fn files_of_secrets_may_have_a_line_for_each_key_but_not_be_empty() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("value");
    let path = file.to_str().expect("a name");
    let key = |letter: char| format!("whsec_{}", letter.to_string().repeat(32));
    std::fs::write(&file, format!("{}\n{}\n", key('a'), key('b'))).expect("it can be written");
    let hook = "[[channel]]\nname = \"hook\"\nkind = \"webhook\"\nurl = \"https://hook.example.com/\"\n";
    let config = accept(hook, &[("FRONTDESK_CHANNEL__HOOK__SECRET_FILE", path)], &[]);
    let TransportOptions::Webhook(hook) = &config.channels[0].kind else { panic!("a webhook") };
    assert_eq!(hook.secrets.len(), 2);
    std::fs::write(&file, "\n").expect("it can be written");
    let mail = "[operator]\nemail = \"desk@example.com\"\n[[channel]]\nname = \"mail\"\nkind = \"smtp\"\n\
        host = \"mail.example.com\"\nusername = \"desk\"\n";
    let expected = "`channel.mail.password` is missing, although `username` is set: set both or neither; \
        the file that the variable names is empty";
    refuse(
        mail,
        &[("FRONTDESK_CHANNEL__MAIL__PASSWORD_FILE", path)],
        &[&format!("FRONTDESK_CHANNEL__MAIL__PASSWORD_FILE: {expected}")],
    );
}

#[test]
fn a_channel_without_its_secret_may_get_the_submissions_of_any_form() {
    let forms = "[forms.contact]\naccept = \"delivered\"\n";
    let mail = "[[channel]]\nname = \"mail\"\nkind = \"maildir\"\npath = \"m\"\nforms = [\"waitlist\"]\n\
                when = { email = \"a@example.com\" }\n";
    let hook = "[[channel]]\nname = \"hook\"\nkind = \"webhook\"\n";
    let about = |text: &str, key: &str| {
        let (_, faults) = load(text, &[], &[]);
        faults.iter().filter(|fault| fault.key.as_deref() == Some(key)).count()
    };
    for (channels, faults) in [(mail.to_owned(), 1), (format!("{mail}{hook}"), 0)] {
        let text = format!("{forms}{channels}");
        assert_eq!(about(&text, "forms.contact.accept"), faults, "{text}");
        assert_eq!(about(&text, "channel.mail.when"), faults, "{text}");
    }
    // A channel is also left out because of another fault, which the server has as well.
    let smtp = "[[channel]]\nname = \"smtp\"\nkind = \"smtp\"\n";
    assert_eq!(about(&format!("{forms}{smtp}"), "forms.contact.accept"), 1);
}

#[test]
fn a_key_in_place_of_its_path_is_refused_and_hidden() {
    let pem = format!("-----BEGIN PRIVATE KEY-----{BODY}-----END PRIVATE KEY-----");
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("value");
    for pem in [pem.replace("KEY-----h", "KEY-----\nh"), pem] {
        let environment = [("FRONTDESK_TLS__KEY", &*pem)];
        let expected = "must be the path of a file, and not its content";
        refuse("", &environment, &[&format!("FRONTDESK_TLS__KEY: `tls.key` {expected}")]);
        check_hidden("", &environment);
        // The operator has taken the variable for the path of the key.
        std::fs::write(&file, &pem).expect("it can be written");
        let environment = [("FRONTDESK_TLS__KEY_FILE", file.to_str().expect("a name"))];
        refuse("", &environment, &[&format!("FRONTDESK_TLS__KEY_FILE: `tls.key` {expected}")]);
        check_hidden("", &environment);
        check_hidden("", &[("FRONTDESK_TLS__KEY_FILE", &pem)]);
    }
    refuse(
        "",
        &[("FRONTDESK_LIMITS__SHARED_SECRET_FILE", BODY)],
        &["FRONTDESK_LIMITS__SHARED_SECRET_FILE: cannot read the file that it names: No such file"],
    );
}
