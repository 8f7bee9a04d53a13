//! Tests of `[[channel]]`: keys, secrets and faults.

use super::*;

#[test]
fn the_environment_sets_a_channels_keys_and_secrets_are_hidden() {
    let file = "[[channel]]\nname = \"my-crm\"\nkind = \"webhook\"\nurl = \"http://127.0.0.1:9/\"\n";
    let key = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
    let config = accept(file, &[("FRONTDESK_CHANNEL__MY_CRM__SECRET", key)], &[]);
    let secret = config.settings.iter().find(|setting| setting.key.name == "channel.my-crm.secret").unwrap();
    assert_eq!(secret.value, "\"…\"");
    assert_eq!(secret.origin.to_string(), "environment FRONTDESK_CHANNEL__MY_CRM__SECRET");
    assert!(!format!("{config:?}").contains("MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"));
    // Anyone who knows the URL of a chat service's webhook can post to it.
    let url = config.settings.iter().find(|setting| setting.key.name == "channel.my-crm.url").unwrap();
    assert_eq!(url.value, "\"…\"");
}

#[test]
fn services_post_to_their_own_urls_and_show_no_token() {
    let file = |keys: &str| format!("[[channel]]\nname = \"a\"\nkind = \"webhook\"\n{keys}");
    let token = "123:sesamesesamesesamesesame";
    for (keys, expected) in [
        (
            format!("body = \"telegram\"\ntoken = \"{token}\"\nchat = -1001"),
            format!("api.telegram.org:443 /bot{token}/sendMessage"),
        ),
        (
            format!(
                "body = \"telegram\"\nurl = \"http://localhost:81/api/\"\ntoken = \"{token}\"\nchat = \"@desk\""
            ),
            format!("localhost:81 /api/bot{token}/sendMessage"),
        ),
        (
            "body = \"ntfy\"\nurl = \"https://ntfy.sh/desk\"\ntoken = \"tk_sesame\"".to_owned(),
            "ntfy.sh:443 /".to_owned(),
        ),
        (
            "body = \"ntfy\"\nurl = \"https://example.com/push/desk\"".to_owned(),
            "example.com:443 /push/".to_owned(),
        ),
    ] {
        let config = accept(&file(&keys), &[], &[]);
        let TransportOptions::Webhook(webhook) = &config.channels[0].kind else { panic!("{keys}") };
        assert_eq!(format!("{} {}", webhook.url.host_and_port(), webhook.url.target()), expected);
        assert!(!format!("{config:?}").contains("sesame"), "{config:?}");
        let shown = config.settings.iter().any(|setting| setting.value.contains("sesame"));
        assert!(!shown, "{:?}", config.settings);
    }
}

#[test]
fn a_service_as_kind_is_an_error_with_the_keys_to_write() {
    let kinds = "frontdesk.toml:3: `channel.a.kind` must be \"smtp\", \"webhook\" or \"maildir\"";
    for (kind, expected) in [
        ("slack", "; for Slack, write `kind = \"webhook\"` and `body = \"slack\"`"),
        ("MS Teams", "; for Teams, write `kind = \"webhook\"` and `body = \"teams\"`"),
        (
            "ntfy",
            "; for ntfy, write `kind = \"webhook\"` and `body = \"ntfy\"`, with the topic's URL as `url`",
        ),
        ("e-mail", "; for e-mail, write `kind = \"smtp\"` and `host`, the name of your mail server"),
        ("webhok", ": did you mean \"webhook\"?"),
        ("pigeon", ""),
    ] {
        let file = format!("[[channel]]\nname = \"a\"\nkind = \"{kind}\"\nurl = \"https://example.com/\"\n");
        refuse(&file, &[], &[&format!("{kinds}{expected}")]);
    }
    // The suggested body for Google Chat is a valid template.
    let body = "body = '{ \"text\": {{ text | shorten(8000) | inert }} }'";
    accept(
        &format!("[[channel]]\nname = \"a\"\nkind = \"webhook\"\nurl = \"https://example.com/\"\n{body}\n"),
        &[],
        &[],
    );
}

#[test]
fn ports_and_bodies_that_never_work_are_warnings() {
    let port = "frontdesk.toml:6: port";
    for (keys, expected) in [
        ("kind = \"smtp\"\nhost = \"mail.example.com\"\nfrom = \"a@example.com\"\nport = 465", port),
        ("kind = \"smtp\"\nhost = \"mail.example.com\"\nfrom = \"a@example.com\"\nport = 587", ""),
        (
            "kind = \"smtp\"\nhost = \"mail.example.com\"\nfrom = \"a@example.com\"\nport = 587\ntls = \"implicit\"",
            port,
        ),
        (
            "kind = \"webhook\"\nurl = \"https://hooks.slack.com/services/T/B/x\"",
            "frontdesk.toml:4: hooks.slack.com cannot read the JSON of frontdesk\n    hint: set `body = \"slack\"`",
        ),
        (
            "kind = \"webhook\"\nurl = \"https://ptb.discord.com/api/webhooks/1/x\"",
            "frontdesk.toml:4: ptb.discord.com cannot read the JSON of frontdesk\n    hint: set `body = \"discord\"`",
        ),
        (
            "kind = \"webhook\"\nurl = \"https://hooks.slack.com/triggers/T/1/x\"",
            "frontdesk.toml:4: hooks.slack.com cannot read the JSON of frontdesk\n    \
             hint: set `body = '{ \"text\": {{ text }} }'`, with the name of your workflow's variable",
        ),
        (
            "kind = \"webhook\"\nurl = \"https://chat.googleapis.com/v1/spaces/A/messages?key=1\"",
            "frontdesk.toml:4: chat.googleapis.com cannot read the JSON of frontdesk\n    \
             hint: set `body = '{ \"text\": {{ text | shorten(8000) | inert }} }'`",
        ),
        ("kind = \"webhook\"\nurl = \"https://discord.com/api/webhooks/1/x\"\nbody = \"discord\"", ""),
    ] {
        let (_, faults) = load(&format!("[[channel]]\nname = \"a\"\n{keys}\n"), &[], &[]);
        let said: Vec<String> = faults.iter().map(ToString::to_string).collect();
        let is_about_channel =
            |said: &&String| said.contains("of a mail server") || said.contains("cannot read");
        let found = said.iter().find(is_about_channel).map(String::as_str);
        assert_eq!(found.is_some(), !expected.is_empty(), "{keys}: {said:?}");
        assert!(found.unwrap_or_default().starts_with(expected), "{keys}: {said:?}");
    }
}

#[test]
fn the_name_in_ehlo_is_a_host_name_or_an_address() {
    let file = "[operator]\nemail = \"desk@example.com\"\n[[channel]]\nname = \"a\"\nkind = \"smtp\"\n\
        host = \"b.example\"\n";
    for (helo, expected) in [
        ("web.example.com", Some("web.example.com")),
        ("localhost", Some("localhost")),
        ("[192.0.2.1]", Some("[192.0.2.1]")),
        ("[IPv6:2001:db8::1]", Some("[IPv6:2001:db8::1]")),
        ("", None),
    ] {
        let config = accept(&format!("{file}helo = \"{helo}\"\n"), &[], &[]);
        let TransportOptions::Smtp(smtp) = &config.channels[0].kind else { panic!("{helo}") };
        assert_eq!(smtp.helo.as_deref(), expected);
    }
}

#[test]
fn keys_of_other_programs_are_explained() {
    let operator = "[operator]\nemail = \"desk@example.com\"\n";
    for (keys, expected) in [
        ("user = \"a\"", "unknown key `channel.a.user`\n    hint: did you mean `channel.a.username`?"),
        ("pass = \"a\"", "unknown key `channel.a.pass`\n    hint: did you mean `channel.a.password`?"),
        ("hots = \"a\"", "unknown key `channel.a.hots`\n    hint: did you mean `channel.a.host`?"),
        (
            "password = \"a\\nb\"",
            "`channel.a.password` must be a password in quotes, on one line, without control characters",
        ),
        ("ca_file = \"~/ca.pem\"", "`channel.a.ca_file` must be a path without `~`"),
        (
            "from = \"Desk <desk@example.com>\"",
            "`channel.a.from` must be an e-mail address such as \"hello@example.com\", without a name: \"desk@example.com\"",
        ),
        (
            "helo = \"b\u{fc}cher.example\"",
            "`channel.a.helo` must be a host name such as \"web.example.com\", or an address such as \"[192.0.2.1]\", with the domain in Punycode: \"xn--bcher-kva.example\"",
        ),
        ("helo = \"a b\"", "`channel.a.helo` must be a host name such as"),
        ("helo = \"192.0.2.1\"", "`channel.a.helo` must be a host name such as"),
        ("helo = \"a@b.example\"", "`channel.a.helo` must be a host name such as"),
        ("helo = \"192.0.2.1:25\"", "`channel.a.helo` must be a host name such as"),
        (
            "to = [\"Team <a@example.com>\"]",
            "`channel.a.to` must be a list of e-mail addresses such as [\"team@example.com\"], without a name: \"a@example.com\"",
        ),
    ] {
        let file =
            format!("[[channel]]\nname = \"a\"\nkind = \"smtp\"\nhost = \"b.example\"\n{keys}\n{operator}");
        refuse(&file, &[], &[&format!("frontdesk.toml:5: {expected}")]);
    }
    let file = "[[channel]]\nname = \"a\"\nkind = \"smtp\"\nhost = \"b.example\"\nbcc = \"c\"\n";
    let (_, faults) = load(file, &[], &[]);
    assert!(faults.iter().all(|fault| !fault.to_string().contains("did you mean")), "{faults:?}");
}

#[test]
fn recipients_may_depend_on_a_value() {
    let channel = |to: &str| {
        format!(
            "[[channel]]\nname = \"a\"\nkind = \"smtp\"\nhost = \"smtp.example.com\"\nfrom = \"a@example.com\"\nto = {to}"
        )
    };
    let by_value = "{ company = { \"Example\" = [\"b@example.com\"], \"*\" = \"c@example.com\" } }";
    let variable = ("FRONTDESK_CHANNEL__A__TO", by_value);
    for config in [accept(&channel(by_value), &[], &[]), accept(&channel("[]"), &[variable], &[])] {
        let TransportOptions::Smtp(smtp) = &config.channels[0].kind else { panic!() };
        let mut all: Vec<&str> = smtp.addresses.all().collect();
        all.sort_unstable();
        assert_eq!(all, ["a@example.com", "b@example.com", "c@example.com"]);
    }
    for (to, expected) in [
        ("{ company = { \"Example\" = [\"b@example.com\"] } }", "must be a list of e-mail addresses, or one"),
        ("{ company = { \"*\" = [] } }", "must be a list of e-mail addresses, or one field"),
        ("{ company = { \"*\" = [\"b\"] } }", "must be a list of e-mail addresses, or one field"),
        (
            "{ compny = { \"*\" = [\"b@example.com\"] } }",
            "has `compny`, which is not a field of this channel's",
        ),
        (
            "{ email = { \"ada\" = [\"b@example.com\"], \"*\" = [\"c@example.com\"] } }",
            "has \"ada\", which is not a possible value of the field `email`",
        ),
    ] {
        refuse(&channel(to), &[], &[&format!("frontdesk.toml:6: `channel.a.to` {expected}")]);
    }
}

#[test]
#[expect(clippy::too_many_lines, reason = "a table")]
fn every_fault_of_a_channel_has_its_line() {
    let channel = |rest: &str| format!("[[channel]]\n{rest}");
    let check = |rest: &str, expected: &[&str]| refuse(&channel(rest), &[], expected);
    check("kind = \"maildir\"\npath = \"m\"", &["frontdesk.toml:2: a `[[channel]]` needs a `name`"]);
    check("name = \"A B\"", &["frontdesk.toml:2: a `[[channel]]` needs a `name` of up to 32"]);
    check("name = \"a\"", &["frontdesk.toml: `channel.a.kind` is missing"]);
    check(
        "name = \"a\"\nkind = \"maildir\"\npath = \"static/mail\"",
        &["frontdesk.toml:4: `channel.a.path` must not be inside a folder that is published"],
    );
    check(
        "name = \"a-b\"\nkind = \"maildir\"\npath = \"m\"\n[[channel]]\nname = \"a_b\"",
        &["frontdesk.toml:6: a `[[channel]]` has the same `name` as another one"],
    );
    check(
        "name = \"a\"\nkind = \"webhook\"\nurl = \"https://169.254.169.254/\"\nallow_private = true",
        &["frontdesk.toml:4: `channel.a.url` points to a forbidden address: 169.254.169.254 belongs to"],
    );
    check("name = \"a\"\nkind = \"pigeon\"", &["frontdesk.toml:3: `channel.a.kind` must be \"smtp\""]);
    check(
        "name = \"a\"\nkind = \"maildir\"\npaht = \"m\"",
        &["frontdesk.toml:4: unknown key `channel.a.paht`"],
    );
    check(
        "name = \"a\"\nkind = \"webhook\"\nurl = \"http://hooks.example.com/\"",
        &["frontdesk.toml:4: `channel.a.url` must be a URL to post to: expected `https://`"],
    );
    check(
        "name = \"a\"\nkind = \"webhook\"\nurl = \"https://hooks.example.com/\"\nsecret = \"abc\"",
        &["frontdesk.toml:5: `channel.a.secret` must be `whsec_` and 24 to 64 random bytes"],
    );
    let key = "\"whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw\"";
    check(
        &format!(
            "name = \"a\"\nkind = \"webhook\"\nurl = \"https://hooks.example.com/\"\nsecret = [{key}, {key}, {key}]"
        ),
        &["frontdesk.toml:5: `channel.a.secret` must be a key such as \"whsec_…\", or a list of two while"],
    );
    for (keys, expected) in [
        (
            "body = \"telegram\"",
            &["`channel.a.token` is missing: the token", "`channel.a.chat` is missing: the id"][..],
        ),
        ("body = \"telegram\"\ntoken = \"abc\"\nchat = 1", &["5: `channel.a.token` must be a bot's token"]),
        (
            "body = \"telegram\"\ntoken = \"1:aaaaaaaaaaaaaaaaaaaa\"\nchat = \"ada\"",
            &["6: `channel.a.chat` must be the id of a chat"],
        ),
        ("body = \"ntfy\"", &["`channel.a.url` must be the URL of your topic"]),
        (
            "body = \"ntfy\"\nurl = \"https://ntfy.sh/\"",
            &["5: `channel.a.url` must be the URL of your topic"],
        ),
        ("body = \"ntfy\"\nurl = \"https://ntfy.sh/a?b\"", &["5: `channel.a.url` must be the URL of your"]),
        (
            "body = \"ntfy\"\nurl = \"https://ntfy.sh/a\"\ntoken = \"a b\"\nchat = 1",
            &["6: `channel.a.token` must be a token", "7: `channel.a.chat` is only for `body` \"telegram\""],
        ),
        (
            "body = \"slack\"\nurl = \"https://hooks.example.com/\"\ntoken = \"abc\"",
            &["6: `channel.a.token` is only for `body` \"telegram\" or \"ntfy\""],
        ),
        (
            "body = \"msn\"\nurl = \"https://hooks.example.com/\"",
            &["4: `channel.a.body` must be a body format"],
        ),
    ] {
        let expected: Vec<String> = expected
            .iter()
            .map(|text| {
                let gap = if text.starts_with('`') { ": " } else { ":" };
                format!("frontdesk.toml{gap}{text}")
            })
            .collect();
        let expected: Vec<&str> = expected.iter().map(String::as_str).collect();
        check(&format!("name = \"a\"\nkind = \"webhook\"\n{keys}"), &expected);
    }
    check(
        "name = \"a\"\nkind = \"maildir\"\npath = \"m\"\nforms = [\"contcat\"]",
        &[
            "frontdesk.toml:5: `channel.a.forms` must be a list of existing forms; there is no form `contcat`: did you mean `contact`?",
        ],
    );
    check(
        "name = \"a\"\nkind = \"smtp\"\nhost = \"smtp.example.com\"\ntls = \"none\"\nfrom = \"a@example.com\"",
        &["frontdesk.toml:5: `channel.a.tls` may be \"none\" only"],
    );
    check(
        "name = \"a\"\nkind = \"maildir\"\npath = \"m\"\n[[channel]]\nname = \"a\"",
        &["frontdesk.toml:6: a `[[channel]]` has the same `name` as another one"],
    );
    refuse("[channel]\nname = \"a\"", &[], &["frontdesk.toml:1: `channel` must be a list of tables"]);
    refuse(
        "[forms.contact]\naccept = \"delivered\"",
        &[],
        &["frontdesk.toml:2: `forms.contact.accept` is \"delivered\", but no `[[channel]]`"],
    );
}
