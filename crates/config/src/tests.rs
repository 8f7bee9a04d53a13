//! Tests of the configuration as a whole.

mod canary;
mod channels;
mod effects;
mod own_forms;
mod secrets;

use super::*;
use frontdesk_screening::verdict::Signal;
use frontdesk_site::fault::Severity;
use frontdesk_site::{PrivatePath, PublicationOptions};
use std::time::Duration;

const STARTER_FILE: &str = include_str!("../../../starter/frontdesk.toml");

#[test]
fn the_committed_starter_file_is_the_generated_one() {
    assert!(
        Config::starter_file() == STARTER_FILE,
        "`cargo run -- init DIR` writes DIR/frontdesk.toml: copy it to starter/frontdesk.toml"
    );
}

#[test]
fn the_starter_file_is_short_and_accepted_as_it_is() {
    assert!(STARTER_FILE.lines().count() <= 60, "{} lines", STARTER_FILE.lines().count());
    let config = accept(STARTER_FILE, &[], &[]);
    assert_eq!(config.pages.operator.email, "hello@example.com");
    // With the channel in its comments.
    let channel: String = STARTER_FILE
        .lines()
        .filter_map(|line| line.strip_prefix("#   "))
        .map(|line| format!("{line}\n"))
        .collect();
    let config = accept(&format!("{STARTER_FILE}{channel}"), &[], &[]);
    assert_eq!(config.store.channels.len(), 1);
}

#[test]
fn the_commented_example_is_accepted_as_it_is() {
    let config = accept(&Config::complete_file(), &[], &[]);
    assert_eq!(config.pages.operator.email, "hello@example.com");
}

#[test]
fn the_commented_example_lists_every_key_with_its_default() {
    // Uncomment every line that sets something.
    let uncommented: String = Config::complete_file()
        .lines()
        .map(|line| {
            let bare = line.strip_prefix("# ").unwrap_or(line);
            let sets = bare
                .split_once(" = ")
                .is_some_and(|(key, _)| key.chars().all(|c| c.is_ascii_lowercase() || "_\"/*".contains(c)));
            format!("{}\n", if sets || bare.starts_with('[') { bare } else { line })
        })
        .collect();
    // `inbox.mail` names it.
    let channel = "[[channel]]\nname = \"mail\"\nkind = \"smtp\"\nhost = \"mail.example.com\"\n\
                   from = \"desk@example.com\"\nto = [\"team@example.com\"]\n";
    let config = accept(&format!("{uncommented}\n{channel}"), &[], &[]);
    let missing: Vec<&str> = config
        .settings
        .iter()
        .filter(|setting| {
            !matches!(setting.origin, ValueOrigin::File(_)) && !setting.key.name.starts_with("channel.")
        })
        .map(|setting| &*setting.key.name)
        .collect();
    assert_eq!(missing, [""; 0], "keys that the example does not list");
    let defaults = accept("", &[], &[]);
    for (setting, default) in config.settings.iter().zip(&defaults.settings) {
        let own = [
            "operator.",
            "site.",
            "brand.",
            "inbox.",
            "convert.",
            "redirects",
            "content_signals.",
            "security.",
            "base_url",
            "forms.html_posts",
            "forms.allowed_origins",
        ]
        .iter()
        .any(|own| setting.key.name.starts_with(own));
        assert!(
            own || setting.value == default.value,
            "{}: {} is not the default {}",
            setting.key.name,
            setting.value,
            default.value
        );
    }
}

#[test]
fn the_commented_channels_are_accepted_and_list_every_key() {
    let channels: String = Config::complete_file()
        .lines()
        .filter_map(|line| line.strip_prefix("#   "))
        .map(|line| format!("{line}\n"))
        .collect();
    let channels = channels.replace("whsec_…", "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw");
    let config = accept(&channels, &[], &[]);
    assert_eq!(
        config.store.channels.iter().map(|channel| channel.name.as_str()).collect::<Vec<_>>(),
        ["mail", "crm", "box"]
    );
    let common = ["forms", "concurrency", "daily_quota", "from", "from_name", "to"];
    for setting in config.settings.iter().filter(|setting| setting.key.name.starts_with("channel.")) {
        let is_common = common.iter().any(|key| setting.key.name.ends_with(&format!(".{key}")));
        assert!(
            is_common || matches!(setting.origin, ValueOrigin::File(_)),
            "{} is not listed",
            setting.key.name
        );
    }
}

#[test]
fn origins_of_other_sites_are_normalized_or_refused_with_their_line() {
    let config = accept("[forms]\nallowed_origins = [\"HTTPS://A.example:443\"]", &[], &[]);
    assert_eq!(config.web.forms.allowed_origins[0].as_str(), "https://a.example");
    let variable = ("FRONTDESK_FORMS__ALLOWED_ORIGINS", "https://a.example,http://localhost:4321");
    assert_eq!(accept("", &[variable], &[]).web.forms.allowed_origins.len(), 2);
    refuse(
        "[forms]\n\nallowed_origins = [\"https://a.example\", \"*\"]",
        &[],
        &[
            "frontdesk.toml:3: `forms.allowed_origins` must be a list of origins such as [\"https://www.example.com\"]; `*` is not valid: each origin must be named exactly",
        ],
    );
}

#[test]
fn hosts_in_the_content_security_policy_are_parsed_strictly() {
    let config = accept(
        "[security]\nallow = { script = [\"https://a.example.com\"], frame = [\"https://*.example.org\"] }",
        &[("FRONTDESK_SECURITY__ALLOW__CONNECT", "https://a.example.com,https://b.example.com")],
        &[],
    );
    let policy = config.web.content_security_policy.to_str().expect("ASCII");
    for expected in [
        "script-src 'self' https://a.example.com;",
        "connect-src 'self' https://a.example.com https://b.example.com;",
        "; frame-src https://*.example.org",
    ] {
        assert!(policy.contains(expected), "{policy}");
    }
    let check = |value: &str, why: &str| {
        let text = format!("[security.allow]\nimage = {value}");
        let expected = format!(
            "frontdesk.toml:2: `security.allow.image` must be a list of HTTPS origins such as [\"https://plausible.example.com\"]{why}"
        );
        refuse(&text, &[], &[&expected]);
    };
    check("true", "");
    check("[\"data:\"]", "; `data:` is not valid: `data:` is a scheme, not a host");
    check("[\"*\"]", "; `*` is not valid: it would permit every host");
    check("[\"https://a.example.com/x\"]", "; `https://a.example.com/x` is not valid: it has a path");
    check(&format!("{:?}", ["https://a.example.com"; 21]), ", at most 20");
    let list = "[security]\nallow = [\"https://a.example.com\"]";
    refuse(list, &[], &["frontdesk.toml:2: `security.allow` must be a table, `[security.allow]`"]);
    refuse("[security.allow]\nimgae = []", &[], &["frontdesk.toml:2: unknown key `security.allow.imgae`"]);
}

#[test]
fn a_flag_overrides_the_environment_and_that_the_file() {
    let file = "[server]\nworkers = 1\n";
    let environment = [("FRONTDESK_SERVER__WORKERS", "2")];
    let flag = [Flag { key: "server.workers", name: "--workers", value: "3".into() }];
    assert_eq!(accept(file, &[], &[]).web.http.workers, 1);
    assert_eq!(accept(file, &environment, &[]).web.http.workers, 2);
    let config = accept(file, &environment, &flag);
    assert_eq!(config.web.http.workers, 3);
    let setting =
        config.settings.iter().find(|setting| setting.key.name == "server.workers").expect("it is there");
    assert_eq!(setting.origin.to_string(), "flag --workers");
}

#[test]
fn the_environment_may_name_a_file_that_holds_the_value() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("email");
    std::fs::write(&file, "secret@example.com\n").expect("it can be written");
    let config = accept("", &[("FRONTDESK_OPERATOR__EMAIL_FILE", file.to_str().expect("a name"))], &[]);
    assert_eq!(config.pages.operator.email, "secret@example.com");
    refuse(
        "",
        &[("FRONTDESK_OPERATOR__EMAIL_FILE", "/no/such/file")],
        &["FRONTDESK_OPERATOR__EMAIL_FILE: cannot read"],
    );
}

#[test]
fn all_faults_are_reported_at_once_with_line_and_hint() {
    refuse(
        "base_url = \"www.example.com\"\n\n[server]\nlisen = \"x\"\nworkers = \"many\"\nidle_timeout = 5\n\n[sever]\nx = 1\n[limits]\nenabled = 1\nper_minute = 0\n",
        &[],
        &[
            "frontdesk.toml:1: `base_url` must be",
            "frontdesk.toml:4: unknown key `server.lisen`\n    hint: did you mean `server.listen`?",
            "frontdesk.toml:5: `server.workers` must be a whole number from 0 to 1024",
            "frontdesk.toml:6: `server.idle_timeout` must be a duration",
            "frontdesk.toml:8: unknown table `[sever]`\n    hint: did you mean `[server]`?",
            "frontdesk.toml:11: `limits.enabled` must be true or false",
            "frontdesk.toml:12: `limits.per_minute` must be a whole number from 1",
        ],
    );
    refuse("[server\n", &[], &["frontdesk.toml:1: "]);
    refuse("server = 3\n", &[], &["frontdesk.toml:1: `server` must be a table"]);
    refuse(
        "[operator]\nemail = \"joe@invalid=domain.com\"\n",
        &[],
        &["frontdesk.toml:2: `operator.email` must be an e-mail address"],
    );
    refuse(
        "",
        &[("FRONTDESK_SERVER__LISTEN", "nowhere")],
        &["FRONTDESK_SERVER__LISTEN: `server.listen` must be a port"],
    );
    refuse(
        "[store]\nurl = \"postgres://example.com\"\n",
        &[],
        &[
            "frontdesk.toml:2: `store.url` must be a URL such as \"postgres://frontdesk@db.example.com/frontdesk\"; this one names no database",
        ],
    );
    refuse(
        "[limits]\nshared_url = \"redis.example.com:6379\"\n",
        &[],
        &["frontdesk.toml:2: `limits.shared_url` must be empty, or an address such as \"redis://"],
    );
    refuse(
        "[server]\ntrusted_proxies = [\"10.0.0.0/40\"]\n",
        &[],
        &["frontdesk.toml:2: `server.trusted_proxies` must be a list of addresses"],
    );
    refuse(
        "[[site.footer]]\ntitle = \"x\"\nlinks = []\ncolour = 1\n",
        &[],
        &["frontdesk.toml:1: `site.footer` must be groups"],
    );
    refuse(
        "[store]\ndata_dir = \"static/data\"\n",
        &[],
        &["frontdesk.toml:2: `store.data_dir` must not be inside a folder that is published"],
    );
    refuse(
        "[store]\nurl = \"sqlite:../static/inbox.sqlite\"\n",
        &[],
        &["frontdesk.toml: `store.data_dir` must not be inside a folder that is published"],
    );
    refuse("[[site.footer]]\ntitle = \"x\"\n", &[], &["frontdesk.toml:1: `site.footer` must be groups"]);
}

/// The operator's files, as `path: reason`, without the part of the path that is the site's folder.
fn private_files_of(text: &str, environment: &[(&str, &str)], running: Option<&Config>) -> Vec<String> {
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::write(folder.path().join(FILE_NAME), text).expect("it is written");
    let environment = environment.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
    let (config, _) = Config::load(folder.path(), environment, &[], running);
    let shown = |own: &PrivatePath| {
        let path = own.path.strip_prefix(folder.path()).unwrap_or(&own.path).display().to_string();
        format!("{path}: {}", own.reason)
    };
    config.pages.publication.private.iter().map(shown).collect()
}

#[test]
fn every_file_that_the_configuration_names_is_private() {
    let check = |text: &str, environment: &[(&str, &str)], expected: &[&str]| {
        let private = private_files_of(text, environment, None);
        for expected in expected {
            assert!(private.iter().any(|found| found == expected), "{expected} is not in {private:#?}");
        }
    };
    let own = ["frontdesk.toml: it is the configuration of this site", ": it is the folder of this site"];
    check("", &[], &own);
    check("", &[], &["data: `store.data_dir` names it", "data/inbox.sqlite: it belongs to the inbox"]);
    check("[store]\nurl = \"sqlite:/srv/inbox\"", &[], &["/srv/inbox: it belongs to the inbox"]);
    check(
        "[store]\nurl = \"postgres://u@db.example.com/x?sslrootcert=%2Fetc%2Fca.pem\"",
        &[],
        &["/etc/ca.pem: `store.url` names it"],
    );
    check(
        "[tls]\ncertificate = \"a.pem\"\nkey = \"/etc/b.pem\"\nacme_ca_file = \"c.pem\"\n\
         [agents]\nca_file = \"d.pem\"\n[limits]\nshared_ca_file = \"e.pem\"\n\
         [screening]\ndisposable_domains = \"f.txt\"\nblocked_domains = \"g.txt\"\n\
         [forms.contact]\nacknowledge = \"h.md\"\n[forms.waitlist]\nconfirm = \"i.md\"\n\
         [[channel]]\nname = \"box\"\nkind = \"maildir\"\npath = \"j\"\n\
         [[channel]]\nname = \"mail\"\nkind = \"smtp\"\nhost = \"mail.example.com\"\nca_file = \"k.pem\"\n",
        &[],
        &[
            "a.pem: `tls.certificate` names it",
            "/etc/b.pem: `tls.key` names it",
            "c.pem: `tls.acme_ca_file` names it",
            "d.pem: `agents.ca_file` names it",
            "e.pem: `limits.shared_ca_file` names it",
            "f.txt: `screening.disposable_domains` names it",
            "g.txt: `screening.blocked_domains` names it",
            "h.md: `forms.contact.acknowledge` names it",
            "i.md: `forms.waitlist.confirm` names it",
            "j: `channel.box.path` names it",
            "k.pem: `channel.mail.ca_file` names it",
        ],
    );
    // Values that another one overrides count too.
    check(
        "[tls]\nkey = \"a.pem\"\n",
        &[("FRONTDESK_TLS__KEY", "b.pem"), ("FRONTDESK_OPERATOR__EMAIL_FILE", "/run/email")],
        &[
            "a.pem: `tls.key` names it",
            "b.pem: `tls.key` names it",
            "/run/email: `FRONTDESK_OPERATOR__EMAIL_FILE` names it",
        ],
    );
    // An empty path names no file.
    for variable in ["FRONTDESK_LIMITS__SHARED_CA_FILE", "FRONTDESK_OPERATOR__EMAIL_FILE"] {
        let private = private_files_of("", &[(variable, "")], None);
        assert!(!private.iter().any(|found| found.contains("FRONTDESK_")), "{private:#?}");
    }
    // The build is published.
    let private = private_files_of("[site]\nprebuilt = \"dist\"\n", &[], None);
    assert!(!private.iter().any(|found| found.contains("dist")), "{private:#?}");
}

#[test]
fn a_file_is_private_before_the_restart_that_uses_it() {
    let running =
        accept("", &[("FRONTDESK_TLS__KEY", "a.pem"), ("FRONTDESK_TLS__CERTIFICATE", "c.pem")], &[]);
    let private = private_files_of("[tls]\nkey = \"b.pem\"\n", &[], Some(&running));
    for expected in ["a.pem: `tls.key` names it", "b.pem: `tls.key` names it"] {
        assert!(private.iter().any(|found| found == expected), "{expected} is not in {private:#?}");
    }
}

/// Sets each key to a path, one after the other. If the options then contain a path in the site's folder,
/// the key names a file, which must be known.
#[test]
fn no_key_with_a_path_is_forgotten() {
    let channels = "[[channel]]\nname = \"box\"\nkind = \"maildir\"\npath = \"x\"\n\
        [[channel]]\nname = \"mail\"\nkind = \"smtp\"\nhost = \"a.example\"\nfrom = \"a@example.com\"\n";
    let keys = load(channels, &[], &[]).0.settings;
    assert!(keys.len() > 100);
    let mut found = 0;
    for Setting { key, .. } in keys {
        let variable = format!("FRONTDESK_{}", key.name.replace('.', "__").to_ascii_uppercase());
        let (config, _) = load(channels, &[(&variable, "named-by-key")], &[]);
        let path = Path::new("/site/named-by-key");
        let is_served = config.served_folders.iter().any(|folder| folder == path);
        let is_private = config.pages.publication.private.iter().any(|own| own.path == path);
        let pages =
            pages::PagesOptions { publication: PublicationOptions::default(), ..config.pages.clone() };
        let others = format!("{:?}", Config { pages, ..config });
        let is_path = others.contains("\"/site/named-by-key");
        assert!(!is_path || is_served || is_private, "{} names a file", key.name);
        found += usize::from(is_path);
    }
    assert!(found >= 3, "{found} keys");
}

#[test]
fn a_memory_limit_below_what_the_site_needs_is_a_warning() {
    let check = |text: &str, site: usize, expected: &[&str]| {
        let faults = accept(text, &[], &[]).memory_faults(site);
        assert_eq!(faults.iter().map(ToString::to_string).collect::<Vec<_>>(), expected, "{text}");
    };
    let warning = "frontdesk.toml:2: `server.max_memory` is less than this server needs for its site\n    hint: set 132MB or more: the program and the site need 88MB, and connections the rest";
    check("[server]\nmax_memory = \"64MiB\"\n", 4_000_000, &[warning]);
    check("[server]\nmax_memory = \"128MB\"\n", 4_000_000, &[]);
    check("[server]\nmax_memory = \"off\"\n", usize::MAX / 2, &[]);
    check("", usize::MAX / 2, &[]);
    assert_eq!(accept("[server]\nmax_memory = \"1GiB\"\n", &[], &[]).web.http.max_memory, Some(1 << 30));
    refuse(
        "[server]\nmax_memory = \"63MB\"\n",
        &[],
        &["frontdesk.toml:2: `server.max_memory` must be \"auto\", \"off\", or a size from 64MiB to 1024TiB"],
    );
}

#[test]
fn domain_lists_are_files_and_their_faults_are_reported() {
    let folder = tempfile::tempdir().expect("a folder");
    let list = folder.path().join("domains.txt");
    let path = list.to_str().expect("a name");
    let environment = [("FRONTDESK_SCREENING__BLOCKED_DOMAINS", path)];
    std::fs::write(&list, "# ours\nbad.example.com\n").expect("it can be written");
    let config = accept("", &environment, &[]);
    assert!(config.intake.screening.blocked.lists("bad.example.com"));
    std::fs::write(&list, "# ours\nbad\n").expect("it can be written");
    let expected = format!(
        "FRONTDESK_SCREENING__BLOCKED_DOMAINS: `screening.blocked_domains` is invalid: {path}, line 2 is not a domain \
         such as \"example.com\""
    );
    refuse("", &environment, &[&expected]);
    refuse(
        "[screening]\ndisposable_domains = \"none.txt\"",
        &[],
        &["frontdesk.toml:2: `screening.disposable_domains` cannot be read"],
    );
}

#[test]
fn an_rspamd_is_on_this_machine_or_reached_over_tls() {
    let rspamd = |text: &str| accept(&format!("[screening]\n{text}"), &[], &[]).intake.rspamd;
    assert_eq!(rspamd(""), None);
    let read = rspamd("rspamd_url = \"http://127.0.0.1:11333\"\n").unwrap();
    assert_eq!(
        (read.url.authority().as_str(), read.timeout, &read.password),
        ("127.0.0.1:11333", Duration::from_secs(2), &None)
    );
    let read = rspamd(
        "rspamd_url = \"https://a.example.com\"\nrspamd_password = \"sesame\"\nrspamd_timeout = \"100ms\"\n",
    );
    let read = read.unwrap();
    assert!(read.password.is_some() && read.timeout == Duration::from_millis(100));
    for (text, expected) in [
        (
            "rspamd_url = \"http://a.example.com\"\n",
            "frontdesk.toml:2: `screening.rspamd_url` must be the URL of an rspamd server such as",
        ),
        ("rspamd_url = \"http://127.0.0.1/checkv2\"\n", "frontdesk.toml:2: `screening.rspamd_url` "),
        (
            "rspamd_url = \"http://127.0.0.1\"\nrspamd_timeout = \"11s\"\n",
            "frontdesk.toml:3: `screening.rspamd_timeout` ",
        ),
        (
            "rspamd_password = \"sesame\"\n",
            "frontdesk.toml:2: `screening.rspamd_password` has no effect without",
        ),
    ] {
        refuse(&format!("[screening]\n{text}"), &[], &[expected]);
    }
}

#[test]
fn signals_are_ignored_by_name() {
    let ignored = |value: &str| {
        let text = format!("[screening]\nignored_signals = {value}\n");
        accept(&text, &[], &[]).intake.screening.ignored
    };
    assert_eq!(ignored("[\"links\", \"time-to-fill\"]"), [Signal::Links, Signal::TimeToFill]);
    assert_eq!(ignored("[]"), []);
    // Other keys switch off a signal that always holds a submission.
    for wrong in ["[\"listed\"]", "[\"form-rate\"]", "[\"tone\"]", "7"] {
        let text = format!("[screening]\nignored_signals = {wrong}\n");
        let expected = "frontdesk.toml:2: `screening.ignored_signals` must be a list of signals: rate, repeated, links, ";
        refuse(&text, &[], &[expected]);
    }
}

#[test]
fn former_keys_are_refused_with_what_replaces_them() {
    let (_, faults) = load(
        "[screening.points]\nlinks = 0\n",
        &[("FRONTDESK_SCREENING__POINTS__OFFER", "9"), ("FRONTDESK_OPERATOR__NAME", "A")],
        &[],
    );
    let hint = "\n    hint: `screening.ignored_signals` lists signals that add no points; lower values of";
    let said: Vec<String> = faults.iter().map(ToString::to_string).collect();
    for expected in [
        "FRONTDESK_SCREENING__POINTS__OFFER: `screening.points` does not exist any more",
        "frontdesk.toml:2: `screening.points.links` does not exist any more",
    ] {
        assert!(said.iter().any(|said| said.starts_with(&format!("{expected}{hint}"))), "{said:?}");
    }
    refuse("screening.points = 3\n", &[], &["frontdesk.toml:1: `screening.points` does not exist any more"]);
}

#[test]
fn an_unknown_variable_is_only_a_warning() {
    let site = "[operator]\nname = \"A\"\nemail = \"a@example.com\"\n[site]\ndescription = \"d\"\n";
    let (_, faults) =
        load(site, &[("FRONTDESK_SERVER__LISEN", "x"), ("FRONTDESK_BINARY", "/x"), ("HOME", "/")], &[]);
    let said: Vec<String> = faults.iter().map(ToString::to_string).collect();
    assert_eq!(
        said,
        [
            "FRONTDESK_SERVER__LISEN: unknown environment variable\n    hint: did you mean `FRONTDESK_SERVER__LISTEN`?"
        ]
    );
}

#[test]
fn a_missing_secret_names_its_variable() {
    let site = "[operator]\nname = \"A\"\nemail = \"a@example.com\"\n[site]\ndescription = \"d\"\n";
    for (channel, expected) in [
        (
            "kind = \"smtp\"\nhost = \"h.example.com\"\nusername = \"u\"\n",
            &["FRONTDESK_CHANNEL__OUR_DESK__PASSWORD"][..],
        ),
        ("kind = \"webhook\"\n", &["FRONTDESK_CHANNEL__OUR_DESK__URL"]),
        ("kind = \"smtp\"\nhost = \"h.example.com\"\npassword = \"p\"\n", &[]),
        ("kind = \"smtp\"\nusername = \"u\"\npassword = \"p\"\n", &[]),
    ] {
        let (config, faults) = load(&format!("{site}[[channel]]\nname = \"our-desk\"\n{channel}"), &[], &[]);
        let variables: Vec<String> = faults.iter().filter_map(|fault| config.missing_secret(fault)).collect();
        assert_eq!(variables, expected, "{channel}{faults:#?}");
        assert_eq!(faults.iter().filter(|fault| fault.severity == Severity::Error).count(), 1, "{channel}");
    }
}

#[test]
fn a_password_is_not_shown() {
    let check = |url: &str, expected: &str| {
        let (config, _) = load(&format!("[limits]\nshared_url = {url:?}\n"), &[], &[]);
        let setting = config.settings.iter().find(|setting| setting.key.name == "limits.shared_url");
        assert_eq!(setting.expect("it is there").value, format!("{expected:?}"));
        assert!(!format!("{config:?}").contains("sesame"));
    };
    check("redis://user:sesame@example.com", "redis://user:***@example.com");
    for (malformed, expected) in [
        ("redis//:sesame@example.com", "redis//:***@example.com"),
        ("redis:/user:sesame/x@example.com", "redis:***@example.com"),
        ("user:sesame@example.com:6379", "user:***@example.com:6379"),
        ("host=example.com password=sesame", "host=example.com password=***"),
    ] {
        check(malformed, expected);
    }
    check("unix:///run/redis.sock?pass=sesame&db=1", "unix:///run/redis.sock?pass=***&db=1");
    let text = "[store]\nurl = \"postgres:///inbox?host=/run/postgresql&password=sesame&user=x\"\n";
    let settings = accept(text, &[], &[]).settings;
    let setting = settings.iter().find(|setting| setting.key.name == "store.url").expect("it is there");
    assert_eq!(setting.value, "\"postgres:///inbox?host=/run/postgresql&password=***&user=x\"");
}

#[test]
fn variables_of_a_kubernetes_service_are_not_reported() {
    let service = [
        ("FRONTDESK_SERVICE_HOST", "10.0.0.1"),
        ("FRONTDESK_SERVICE_PORT", "80"),
        ("FRONTDESK_SERVICE_PORT_HTTP", "80"),
        ("FRONTDESK_PORT", "tcp://10.0.0.1:80"),
        ("FRONTDESK_PORT_80_TCP", "tcp://10.0.0.1:80"),
        ("FRONTDESK_PORT_80_TCP_PROTO", "tcp"),
        ("FRONTDESK_PORT_80_TCP_PORT", "80"),
        ("FRONTDESK_PORT_80_TCP_ADDR", "10.0.0.1"),
        ("FRONTDESK_SERVER_SERVICE_HOST", "10.0.0.2"),
        ("FRONTDESK_SERVER_PORT", "tcp://10.0.0.2:80"),
    ];
    let unknown = |environment: &[(&str, &str)]| {
        let (_, faults) = load("", environment, &[]);
        faults.into_iter().filter(|fault| fault.message.contains("unknown")).count()
    };
    assert_eq!(unknown(&service), 0);
    assert_eq!(unknown(&[("FRONTDESK_SERVER_LISTEN", "8080"), service[0]]), 1);
    assert_eq!(unknown(&[("FRONTDESK_SERVER_LISTEN", "8080")]), 1);
}

#[test]
fn limits_are_shared_if_a_redis_url_is_set() {
    assert_eq!(accept("", &[], &[]).limits.shared, None);
    let read =
        |text: &str| accept(&format!("[limits]\n{text}"), &[], &[]).limits.shared.expect("it is there");
    let shared = read("shared_url = \"rediss://:secret@redis.example.com/2\"");
    assert_eq!((shared.to_string().as_str(), shared.password()), ("redis.example.com:6379", "secret"));
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("url");
    std::fs::write(&file, "redis://:secret@192.0.2.7\n").expect("it can be written");
    let environment = [("FRONTDESK_LIMITS__SHARED_URL_FILE", file.to_str().expect("a name"))];
    let shared = accept("", &environment, &[]).limits.shared.expect("it is there");
    assert_eq!((shared.to_string().as_str(), shared.password()), ("192.0.2.7:6379", "secret"));

    let (_, faults) = load("[limits]\nshared_url = \"redis://redis.example.com\"\n", &[], &[]);
    let said: Vec<String> = faults.iter().map(ToString::to_string).collect();
    assert!(said.iter().any(|said| said.contains(": `limits.shared_url` has no password")), "{said:?}");
    assert!(said.iter().any(|said| said.contains(": `limits.shared_secret` is not set")), "{said:?}");
    refuse(
        "[limits]\nshared_url = \"redis://:x@redis.example.com\"\nshared_ca_file = \"none.pem\"\n",
        &[],
        &["frontdesk.toml:3: `limits.shared_ca_file` cannot be read"],
    );
    let pem = folder.path().join("ca.pem");
    let issued = rcgen::generate_simple_self_signed(["redis.example.com".to_owned()]).expect("a certificate");
    std::fs::write(&pem, issued.cert.pem()).expect("it can be written");
    refuse(
        &format!("[limits]\nshared_url = \"redis://:x@redis.example.com\"\nshared_ca_file = {pem:?}\n"),
        &[],
        &[
            "frontdesk.toml:3: `limits.shared_ca_file` is set, but `limits.shared_url` is not a `rediss://` URL",
        ],
    );
}

#[test]
fn sources_are_hashed_with_the_shared_secret_which_is_hidden() {
    let secret = "correct horse battery";
    let text = format!("[limits]\nshared_url = \"redis://redis.example.com\"\nshared_secret = {secret:?}\n");
    let (config, faults) = load(&text, &[], &[]);
    let said: Vec<String> = faults.iter().map(ToString::to_string).collect();
    assert!(!said.iter().any(|said| said.contains("shared_secret")), "{said:?}");
    let shared = config.limits.shared.as_ref().expect("they are shared");
    assert_eq!(shared.describe_hash_secret(), Ok("sources are hashed with `limits.shared_secret`"));
    let setting = config.settings.iter().find(|setting| setting.key.name == "limits.shared_secret");
    assert_eq!(setting.expect("it is there").value, "\"…\"");
    assert!(!format!("{config:?} {said:?}").contains(secret));
    assert_eq!(config.secret_files[0].keys, ["limits.shared_secret"]);
    // A reload must notice that the secret has changed.
    let other = accept(&text.replace("horse", "house"), &[], &[]);
    assert_ne!(other.limits.shared, config.limits.shared);
    refuse(
        "[limits]\nshared_secret = \"too short\"\n",
        &[],
        &["frontdesk.toml:2: `limits.shared_secret` must be empty, or a secret of 16 characters or more"],
    );
}

#[test]
fn without_a_base_url_the_address_is_used() {
    let config = accept("", &[], &[]);
    let at = |address: &str| config.clone().with_base_url(address.parse().ok()).pages.base_url;
    assert_eq!(at("127.0.0.1:4321"), "http://127.0.0.1:4321");
    assert_eq!(at("0.0.0.0:80"), "http://127.0.0.1:80");
    let config = accept("base_url = \"https://www.example.com\"", &[], &[]);
    assert_eq!(config.with_base_url("127.0.0.1:1".parse().ok()).pages.base_url, "https://www.example.com");
}

#[test]
fn agents_directories_are_hosts_or_urls_without_a_path() {
    let text = "[agents]\ndirectories = [\"agent.example.com\", \"https://Other.example.com:8443/\"]";
    let config = accept(text, &[], &[]);
    let places: Vec<String> =
        config.agents.directories.iter().map(frontdesk_fetch::Url::host_and_port).collect();
    assert_eq!(places, ["agent.example.com:443", "other.example.com:8443"]);
    let environment = [("FRONTDESK_AGENTS__DIRECTORIES", "one.example.com, two.example.com")];
    assert_eq!(accept("", &environment, &[]).agents.directories.len(), 2);
    let check = |line: &str, expected: &str| refuse(&format!("[agents]\n{line}"), &[], &[expected]);
    let fault =
        "frontdesk.toml:2: `agents.directories` must be a list of hosts such as [\"agent.example.com\"]";
    check("directories = [\"https://agent.example.com/keys\"]", fault);
    check("directories = [\"http://agent.example.com\"]", fault);
    check("directories = [\"agent example\"]", fault);
    check("directories = [7]", fault);
    check(
        "directories = [\"192.168.1.2\"]",
        "frontdesk.toml:2: `agents.directories` points to a forbidden address: 192.168.1.2",
    );
    check("ca_file = \"none.pem\"", "frontdesk.toml:2: `agents.ca_file` cannot be read");
    accept("[agents]\ndirectories = [\"192.168.1.2\"]\nallow_private = true", &[], &[]);
}

#[test]
fn signatures_must_name_the_public_address_of_the_site() {
    use frontdesk_app::agent_signature::SiteOrigin;
    let address = "127.0.0.1:4321".parse().ok();
    assert_eq!(
        accept("", &[], &[]).with_base_url(address).agents.origin,
        SiteOrigin::from_url("http://127.0.0.1:4321")
    );
    let config = accept("base_url = \"https://www.example.com\"", &[], &[]);
    assert_eq!(config.with_base_url(address).agents.origin, SiteOrigin::from_url("https://www.example.com"));
}

fn load(text: &str, environment: &[(&str, &str)], flags: &[Flag]) -> (Config, Vec<Fault>) {
    let environment = environment.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
    Config::parse(text, Path::new("/site"), environment, flags)
}

fn errors(faults: &[Fault]) -> Vec<String> {
    faults.iter().filter(|fault| fault.severity == Severity::Error).map(ToString::to_string).collect()
}

fn accept(text: &str, environment: &[(&str, &str)], flags: &[Flag]) -> Config {
    let (config, faults) = load(text, environment, flags);
    assert_eq!(errors(&faults), [""; 0]);
    config
}

/// Parses a configuration without errors.
pub(crate) fn accept_text(text: &str) -> Config {
    accept(text, &[], &[])
}

/// Asserts that a configuration has one error, and that it begins with `expected`.
pub(crate) fn refuse_text(text: &str, expected: &str) {
    refuse(text, &[], &[expected]);
}

fn refuse(text: &str, environment: &[(&str, &str)], expected: &[&str]) {
    let errors = errors(&load(text, environment, &[]).1);
    assert_eq!(errors.len(), expected.len(), "{errors:#?}");
    for (error, expected) in errors.iter().zip(expected) {
        assert!(error.starts_with(expected), "{error:?} does not begin with {expected:?}");
    }
}
