//! Tests of the operator's forms in the configuration: what follows from a faulty file.

use super::*;

const TEAM: &str = "[[channel]]\nname = \"team\"\nkind = \"maildir\"\npath = \"mail\"\n";

/// The errors of a site with this `frontdesk.toml` and these files in `forms/`.
fn errors_of(text: &str, files: &[(&str, &str)], environment: &[(&str, &str)]) -> Vec<String> {
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir(folder.path().join("forms")).unwrap();
    for (name, text) in files {
        std::fs::write(folder.path().join("forms").join(name), text).unwrap();
    }
    let environment = environment.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
    errors(&Config::parse(text, folder.path(), environment, &[]).1)
}

#[test]
fn a_faulty_form_has_no_further_faults_where_it_is_named() {
    let faulty = [(
        "quote.toml",
        "title = \"Quote\"\n[[field]]\nname = \"plan\"\ntype = \"plan\"\nlabel = \"Plan\"\n",
    )];
    let by_value = "{ plan = { \"Team\" = [\"a@example.com\"], \"*\" = [\"b@example.com\"] } }";
    let text = format!(
        "[forms.quote]\naccept = \"delivered\"\n[forms.quote.limits]\nper_hour = 5\n\
         {TEAM}forms = [\"quote\"]\nwhen = {{ plan = \"Team\" }}\nto = {by_value}\n\
         {}when = {{ plan = \"Team\" }}\n",
        TEAM.replace("team", "all")
    );
    let variable = ("FRONTDESK_FORMS__QUOTE__ENABLED", "true");
    let found = errors_of(&text, &faulty, &[variable]);
    assert_eq!(found.len(), 1, "{found:#?}");
    assert!(found[0].starts_with("forms/quote.toml:4: there is no type `plan`"), "{found:?}");
    // Fields that only the faulty file of a built-in form adds.
    let faulty = [("contact.toml", "[[field]]\nname = \"topic\"\ntype = \"topic\"\nlabel = \"Topic\"\n")];
    let text = format!("{TEAM}forms = [\"contact\"]\nwhen = {{ topic = \"Sales\" }}\n");
    let found = errors_of(&text, &faulty, &[]);
    assert_eq!(found.len(), 1, "{found:#?}");
    assert!(found[0].starts_with("forms/contact.toml:3: "), "{found:?}");
    // Faults that have nothing to do with the faulty file stay.
    let text = format!("{TEAM}forms = [\"waitlist\"]\nwhen = {{ topic = \"Sales\" }}\n");
    assert_eq!(errors_of(&text, &faulty, &[]).len(), 2);
}

#[test]
fn files_whose_names_end_in_another_way_are_reported() {
    let folder = tempfile::tempdir().unwrap();
    for name in ["forms/Quote.TOML", "forms/a.toml.txt", "forms/a.toml~", "forms/.b.TOML", "screening/c.Toml"]
    {
        std::fs::create_dir_all(folder.path().join(name).parent().unwrap()).unwrap();
        std::fs::write(folder.path().join(name), "not read").unwrap();
    }
    let faults = Config::parse("", folder.path(), std::iter::empty(), &[]).1;
    let own = faults.iter().filter(|fault| fault.place != "frontdesk.toml");
    let mut found: Vec<String> = own.map(ToString::to_string).collect();
    found.sort_unstable();
    let ignored = "the file is ignored, because its name does not end with `.toml`\n    hint: rename it to";
    let expected = [("forms/Quote.TOML", "Quote"), ("forms/a.toml.txt", "a"), ("screening/c.Toml", "c")];
    assert_eq!(found, expected.map(|(file, name)| format!("{file}: {ignored} `{name}.toml`")));
}

#[test]
fn an_unknown_form_of_a_channel_is_an_error_that_suggests_the_name() {
    let quote =
        ("quote.toml", "title = \"Quote\"\n[[field]]\nname = \"text\"\ntype = \"text\"\nlabel = \"Text\"\n");
    let list = "frontdesk.toml:5: `channel.team.forms` must be a list of";
    for (forms, expected) in [
        ("[\"qoute\"]", " existing forms; there is no form `qoute`: did you mean `quote`?"),
        (
            "[\"contact\", \"careers\"]",
            " existing forms; there is no form `careers`: the forms are \"waitlist\", \"contact\", \"quote\"",
        ),
        ("3", " forms: \"waitlist\", \"contact\", \"quote\""),
    ] {
        let found = errors_of(&format!("{TEAM}forms = {forms}\n"), &[quote], &[]);
        assert_eq!(found, [format!("{list}{expected}")]);
    }
    let text = format!("{TEAM}forms = [\"waitlist\"]\n[forms.waitlist]\nenabled = false\n");
    assert_eq!(
        errors_of(&text, &[], &[]),
        [format!("{list} forms that are switched on; `waitlist` is switched off: remove it from the list")]
    );
}

#[test]
fn settings_of_a_form_may_stand_in_its_file() {
    let settings =
        "enabled = true\naccept = \"kept\"\nretention = \"730d\"\nreply = \"Hello\"\nlimits.per_hour = 5\n";
    let text = format!(
        "title = \"Quote\"\n{settings}[[field]]\nname = \"text\"\ntype = \"text\"\nlabel = \"Text\"\n"
    );
    assert_eq!(errors_of("", &[("quote.toml", &text)], &[]), [""; 0]);
}
