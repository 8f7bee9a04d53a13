//! Tests of what a change to a key affects.

use super::*;

/// Sets each key to other values, one at a time. If this changes what the delivery worker or the verification
/// of agents gets, the key must declare it.
#[test]
fn each_key_declares_what_a_change_affects() {
    const VALUES: [&str; 22] = [
        "true",
        "false",
        "7",
        "1500",
        "2d",
        "40d",
        "300ms",
        "9MiB",
        "x@example.com",
        "https://x.example.com",
        "x.example.com",
        "127.0.0.1:9",
        "off",
        "delivered",
        "12:00",
        "de",
        "Name",
        "none",
        "slack",
        "debug",
        "age1ql3z7hjy54pw3hyww5ayyfg7zqgvc7w3j2elw8zmrj2kg5sfn9aqmcac8p",
        "mails/confirm.md",
    ];
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::create_dir(folder.path().join("mails")).expect("it is new");
    let mail = "---\nsubject: Confirm\n---\n{confirm_link}\n";
    std::fs::write(folder.path().join("mails/confirm.md"), mail).expect("it is written");
    let text = "[operator]\nname = \"A\"\nemail = \"a@example.com\"\n[agents]\ndirectories = [\"a.example.com\"]\n\
        [forms.waitlist]\nconfirm = \"mails/confirm.md\"\nremind_after = \"3d\"\n\
        [[channel]]\nname = \"mail\"\nkind = \"smtp\"\nhost = \"a.example\"\n\
        [[channel]]\nname = \"hook\"\nkind = \"webhook\"\nurl = \"https://hook.example.com/\"\n\
        [[channel]]\nname = \"box\"\nkind = \"maildir\"\npath = \"box\"\n";
    let read = |environment: Option<(&str, &str)>| {
        let environment = environment.map(|(name, value)| (name.to_owned(), value.to_owned()));
        let (config, faults) = Config::parse(text, folder.path(), environment, &[]);
        errors(&faults).is_empty().then(|| config.with_base_url(None))
    };
    let worker = |config: &Config| {
        let (channels, visitor) = (&config.channels, &config.visitor_channels);
        format!("{channels:?}{visitor:?}{:?}{:?}", config.maintenance, config.web.http.shutdown_grace)
    };
    let agents = |config: &Config| format!("{:?}{}", config.agents.directories, config.agents.allow_private);
    let before = read(None).expect("it is valid");
    let (mut of_worker, mut of_agents) = (0, 0);
    for setting in &before.settings {
        let (name, effect) = (&setting.key.name, setting.key.effect);
        let variable = format!("FRONTDESK_{}", name.replace('.', "__").to_ascii_uppercase());
        let changed: Vec<Config> = VALUES.iter().filter_map(|value| read(Some((&variable, value)))).collect();
        let changes_worker = changed.iter().any(|config| worker(config) != worker(&before));
        let changes_agents = changed.iter().any(|config| agents(config) != agents(&before));
        assert!(
            !changes_worker || matches!(effect, Effect::Deliveries | Effect::Restart),
            "{name}: {effect:?}"
        );
        assert!(!changes_agents || effect == Effect::Agents, "{name}: {effect:?}");
        of_worker += usize::from(changes_worker);
        of_agents += usize::from(changes_agents);
    }
    assert!(of_worker > 30 && of_agents == 2, "{of_worker} {of_agents}");
}

#[test]
fn only_changed_keys_of_an_effect_count() {
    let running = accept("[server]\nworkers = 1\n[operator]\nname = \"A\"\n", &[], &[]);
    let changes = |text: &str| {
        let config = accept(text, &[], &[]);
        let restart: Vec<String> =
            config.keys_needing_restart(&running).into_iter().map(str::to_owned).collect();
        (restart.join(" "), config.changes_deliveries(&running), config.changes(&running, Effect::Requests))
    };
    // The origin of a value does not matter.
    assert_eq!(changes("operator.name = \"A\"\nserver.workers = 1\n"), (String::new(), false, false));
    assert_eq!(
        changes("[server]\nworkers = 2\n[operator]\nname = \"A\"\n"),
        ("server.workers".to_owned(), false, false)
    );
    assert_eq!(changes("operator.name = \"B\"\nserver.workers = 1\n"), (String::new(), true, false));
    assert_eq!(
        changes("[server]\nworkers = 1\ndrain = \"1s\"\n[operator]\nname = \"A\"\n"),
        (String::new(), false, true)
    );
}
