//! Tests of the words: the included languages are complete, and overrides and fallbacks apply.

use super::*;
use crate::FORMS_SCRIPT;
use crate::fault::Severity;
use frontdesk_forms::FormSet;

const LANGUAGES: [&str; 5] = ["en", "de", "fr", "es", "ja"];

#[test]
fn included_languages_have_the_same_words_and_placeholders() {
    let english = WordList::english();
    for language in LANGUAGES {
        let (entries, faults) = parse(built_in(language).expect("it is included"));
        assert_eq!(faults, []);
        let names: Vec<&str> = entries.iter().map(|entry| entry.name.as_str()).collect();
        for name in english.texts.keys() {
            assert!(names.contains(&name.as_str()), "{language}: `{name}` is missing");
        }
        for WordLine { name, text, .. } in &entries {
            assert_eq!(check(name, text, &english, ("", None)), None, "{language}");
            assert_eq!(placeholders(text), placeholders(english.get(name)), "{language}: {name}");
            let is_optional = name.starts_with("site_") || (language == "ja" && name == "singular");
            assert_eq!(text.trim().is_empty(), is_optional, "{language}: {name}");
        }
    }
    let included = BUILT_IN.iter().filter_map(|(name, _)| language_of_file(name)).count();
    assert_eq!(included, LANGUAGES.len());
}

#[test]
fn dates_follow_each_language() {
    let date = jiff::civil::date(2026, 11, 20);
    for (language, expected) in LANGUAGES.into_iter().zip([
        "20 November 2026",
        "20. November 2026",
        "20 novembre 2026",
        "20 de noviembre de 2026",
        "2026年11月20日",
    ]) {
        assert_eq!(accept(&[language], &[], &[])[0].date(date), expected);
    }
    let numeric = override_word(None, "date", "{year}/{month_number}/{day}");
    assert_eq!(accept(&["en"], &[], &[numeric])[0].date(jiff::civil::date(2026, 1, 2)), "2026/1/2");
}

#[test]
fn a_language_without_words_is_not_called_english() {
    let name = |tag| {
        let words = load(&[tag], &[], &[], &mut Vec::new()).swap_remove(0);
        (words.get("language_name").to_owned(), words.get("og_locale").to_owned())
    };
    let own = |name: &str, locale: &str| (name.to_owned(), locale.to_owned());
    assert_eq!(name("it"), own("it", ""));
    assert_eq!(name("zh-Hant"), own("zh-Hant", ""));
    assert_eq!(name("de-CH"), own("Deutsch", "de_DE"));
    assert_eq!((name("en"), name("en-GB"), name("")), (own("English", "en_US"), name("en"), name("en")));
}

#[test]
fn numbers_choose_singular_or_plural() {
    let words = accept(&LANGUAGES, &[], &[]);
    let texts: Vec<[String; 3]> =
        words.iter().map(|words| [0, 1, 2].map(|n| words.plural("posts", n))).collect();
    assert_eq!(texts[0], ["0 posts", "1 post", "2 posts"]);
    assert_eq!(texts[1], ["0 Beiträge", "1 Beitrag", "2 Beiträge"]);
    assert_eq!(texts[2], ["0 article", "1 article", "2 articles"]);
    assert_eq!(texts[4], ["0件の記事", "1件の記事", "2件の記事"]);
}

#[test]
fn the_words_of_fields_are_those_of_the_forms() {
    let english = WordList::english();
    for form in FormSet::built_in().iter() {
        assert_eq!(english.get(&format!("{}_description", form.name)), form.description);
        for field in &form.fields {
            let name = format!("{}_{}", form.name, field.name);
            assert_eq!(english.get(&name), field.label);
            assert_eq!(english.get(&format!("{name}_hint")), field.description);
        }
    }
}

#[test]
fn the_script_has_the_english_words() {
    let english = WordList::english();
    for (name, text) in english.texts.iter().filter(|(name, _)| name.starts_with(OF_SCRIPT)) {
        let line = format!("    {}: {},\n", &name[OF_SCRIPT.len()..], serde_json::Value::from(text.as_str()));
        assert!(FORMS_SCRIPT.contains(&line), "theme/forms.js lacks {line}");
    }
    assert_eq!(english.of_script(&english), None);
    let german = &accept(&["de"], &[], &[])[0];
    let json: serde_json::Value =
        serde_json::from_str(&german.of_script(&english).expect("texts")).expect("JSON");
    assert_eq!(json["missing"], "Bitte füllen Sie dieses Feld aus.");
    assert_eq!((&json["language"], &json["singular"]), (&"de".into(), &"1".into()));
    let hostile = override_word(None, "form_thanks", "</script><!--");
    let json = accept(&["en"], &[], &[hostile])[0].of_script(&english).expect("texts");
    assert!(!json.contains("</script") && !json.contains("<!--"), "{json}");
}

#[test]
fn overrides_apply_from_general_to_special() {
    let overrides = [
        override_word(Some("de-CH"), "home", "Grüezi"),
        override_word(Some("de"), "copied", "Fertig"),
        override_word(None, "home", "Start"),
        override_word(None, "copied", "Done"),
    ];
    let words = accept(&["en", "de", "de-CH"], &[], &overrides);
    let texts: Vec<_> = words.iter().map(|words| (words.get("home"), words.get("copied"))).collect();
    assert_eq!(texts, [("Start", "Done"), ("Start", "Fertig"), ("Grüezi", "Fertig")]);
    assert_eq!(words[2].get("footer"), "Fußzeile");
}

#[test]
fn a_site_adds_a_language_and_changes_included_ones() {
    let files = [("words/it.toml", "home = \"Pagina iniziale\"\n"), ("words/de.toml", "home = \"Anfang\"\n")];
    let (words, faults) = load_words(&["it", "de", "it-CH"], &files, &[]);
    assert_eq!(
        words.iter().map(|words| words.get("home")).collect::<Vec<_>>(),
        ["Pagina iniziale", "Anfang", "Pagina iniziale"]
    );
    assert_eq!((words[0].get("footer"), words[1].get("footer")), ("Footer", "Fußzeile"));
    assert_eq!(faults.len(), 1, "{faults:?}");
    assert_eq!(faults[0].severity, Severity::Warning);
    let message = faults[0].to_string();
    assert!(message.starts_with("theme/words/it.toml: no translation of `agents_guide` and "), "{message}");
    assert!(message.contains(" more: the English text is used"), "{message}");
}

#[test]
fn the_case_of_a_language_tag_does_not_matter() {
    let files = [("words/de-ch.toml", "home = \"Gr\u{fc}ezi\"\n")];
    let (words, faults) = load_words(&["de-CH", "DE"], &files, &[]);
    assert_eq!(words.iter().map(|words| words.get("home")).collect::<Vec<_>>(), ["Grüezi", "Startseite"]);
    assert!(faults.is_empty(), "{faults:?}");
}

#[test]
fn only_words_that_no_source_has_are_missing() {
    let line =
        |(name, text): (&String, &String)| format!("{name} = {}\n", serde_json::Value::from(text.as_str()));
    let all: Vec<String> = WordList::english().texts.iter().map(line).collect();
    let without_home: Vec<String> = all.iter().filter(|line| !line.starts_with("home =")).cloned().collect();
    let (all, without_home) = (all.concat(), without_home.concat());
    let check = |files: &[(&str, &str)], overrides: &[WordOverride], expected: &[&str]| {
        let (_, faults) = load_words(&["it", "it-CH"], files, overrides);
        let said: Vec<String> =
            faults.iter().map(|fault| format!("{}: {}", fault.place, fault.message)).collect();
        assert_eq!(said, expected);
    };
    check(&[("words/it.toml", &*all), ("words/it-CH.toml", "blog = \"Diario\"\n")], &[], &[]);
    check(&[("words/it.toml", &*all), ("words/pl.toml", "home = \"Start\"\n")], &[], &[]);
    let home = override_word(Some("it"), "home", "Pagina iniziale");
    check(&[("words/it.toml", &*without_home)], &[home], &[]);
    let expected = "theme/words/it.toml: no translation of `home`: the English text is used";
    check(&[("words/it.toml", &*without_home)], &[], &[expected]);
}

#[test]
fn a_language_without_words_is_english_with_a_warning() {
    let (words, faults) = load_words(&["pl"], &[], &[]);
    assert_eq!(words[0].get("home"), "Home");
    assert_eq!(faults.len(), 1);
    assert!(faults[0].message.contains("not translated into the language `pl`"), "{}", faults[0]);
    assert_eq!(load_words(&["en-GB"], &[], &[]).1, []);
}

#[test]
fn a_wrong_word_has_its_line_and_a_suggestion() {
    let file =
        "home = \"Casa\"\ncopy_markdwn = \"x\"\nor_write = \"{email}\"\nfooter = 3\nmonths = \"a, b\"\n";
    let faults = load_words(&["it"], &[("words/it.toml", file)], &[]).1;
    let errors: Vec<String> =
        faults.iter().filter(|fault| fault.severity == Severity::Error).map(ToString::to_string).collect();
    for expected in [
        "theme/words/it.toml:2: unknown word `copy_markdwn`\n    hint: did you mean `copy_markdown`?",
        "theme/words/it.toml:3: the word `or_write` has the unknown placeholder `{email}`\n    hint: did you mean `{mail}`?",
        "theme/words/it.toml:4: the word `footer` must be text in quotes",
        "theme/words/it.toml:5: the word `months` must be twelve names with commas between them",
    ] {
        assert!(errors.iter().any(|error| error == expected), "{expected}: {errors:#?}");
    }
    assert_eq!(errors.len(), 4);
    let faults = load_words(&["en"], &[], &[override_word(None, "hom", "x")]).1;
    assert_eq!(faults[0].to_string(), "frontdesk.toml:7: unknown word `hom`\n    hint: did you mean `home`?");
    let faults = load_words(&["en"], &[], &[override_word(Some("fr"), "home", "x")]).1;
    assert!(faults[0].message.contains("`[words.fr]` has no effect"), "{}", faults[0]);
}

#[test]
fn templates_fill_words_and_escape_values() {
    let mut environment = minijinja::Environment::new();
    crate::placeholder::add_filters(&mut environment);
    let render = |source: &str| {
        let words = WordList::english().to_template_value();
        environment.render_str(source, minijinja::context! { words }).expect("it renders")
    };
    assert_eq!(render("{{ words|plural('posts', 1) }}, {{ words|plural('posts', 2) }}"), "1 post, 2 posts");
    assert_eq!(render("{{ words.or_write|fill(mail='<b>') }}"), "Or write to &lt;b&gt;.");
    assert_eq!(render("{{ words.or_write|fill(mail='<b>'|safe) }}"), "Or write to <b>.");
}

fn override_word(language: Option<&str>, name: &str, text: &str) -> WordOverride {
    let text = Placed { value: text.into(), place: "frontdesk.toml".into(), line: Some(7) };
    WordOverride { language: language.map(Into::into), name: name.into(), text }
}

fn load_words(
    languages: &[&str],
    files: &[(&str, &str)],
    overrides: &[WordOverride],
) -> (Vec<WordList>, Vec<Fault>) {
    let mut faults = Vec::new();
    let files: Vec<(String, Blob)> =
        files.iter().map(|(name, text)| ((*name).to_owned(), Blob::new(text.as_bytes().to_vec()))).collect();
    (load(languages, &files, overrides, &mut faults), faults)
}

fn accept(languages: &[&str], files: &[(&str, &str)], overrides: &[WordOverride]) -> Vec<WordList> {
    let (words, faults) = load_words(languages, files, overrides);
    assert_eq!(faults, []);
    words
}
