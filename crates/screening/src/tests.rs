//! Tests of each signal's points and thresholds, of invariants, and of the results on the corpora.

use std::time::Duration;

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use frontdesk_forms::definition::FormFile;
use frontdesk_forms::{CONTACT, ParsedForm, WAITLIST, parse_with_extras};

mod corpora;

#[test]
fn a_plain_submission_of_a_program_has_no_points() {
    for body in [
        json!({"email": "ada@example.com"}),
        json!({"name": "Ada", "email": "ada@example.com", "message": "Which plan allows two teams?"}),
        json!({"firstname": "Ada", "lastname": "Example", "email": "ada@example.com", "company": "Example"}),
    ] {
        let form =
            if body.get("company").is_some() || body.get("name").is_some() { &CONTACT } else { &WAITLIST };
        let parsed = parse_with_extras(form, body.to_string().as_bytes()).unwrap();
        let verdict = screen(
            &TokenizedText::new(&parsed.entry),
            &parsed.extras,
            &RequestSignals::default(),
            &ScreeningOptions::default(),
        );
        assert_eq!((verdict.score, verdict.hold, verdict.because()), (0, false, String::new()));
    }
}

#[test]
fn names_of_signals_lead_back_to_them() {
    for signal in Signal::ALL {
        assert_eq!(Signal::from_name(signal.name()), Some(signal));
        assert_eq!(Signal::ALL[signal as usize], signal);
    }
    assert_eq!(Signal::from_name("none"), None);
}

#[test]
fn the_rate_counts_from_half_of_the_quota_on() {
    for (remaining, quota, points) in
        [(30, 30, 0), (15, 30, 0), (14, 30, 1), (7, 30, 10), (0, 30, 20), (0, 0, 0), (50, 30, 0)]
    {
        let rate = Rate::most_used([(1000, 1000), (remaining, quota)]);
        let verdict = with_signals(&RequestSignals { rate, ..RequestSignals::default() });
        assert_eq!(verdict.score, points, "{remaining} of {quota}: {}", verdict.because());
    }
    assert_eq!(Rate::most_used([]), Rate::default());
    let verdict = with_signals(&RequestSignals {
        rate: Rate::most_used([(3, 30), (290, 300)]),
        ..RequestSignals::default()
    });
    assert_eq!(
        verdict.because(),
        "the source has used 27 of its quota of 30 requests (16); 16 of 100 points"
    );
}

#[test]
fn the_rate_never_holds() {
    let rate = Rate::most_used([(0, 30)]);
    let message = "We sell backlinks and guest posts on a casino blog.";
    let body = json!({"name": "Ada", "email": "a@example.com", "message": message}).to_string();
    let entry = parse_with_extras(&CONTACT, body.as_bytes()).unwrap().entry;
    let signals = RequestSignals { rate, ..RequestSignals::default() };
    let verdict =
        screen(&TokenizedText::new(&entry), &Extras::default(), &signals, &ScreeningOptions::default());
    assert_eq!((verdict.score, verdict.hold, verdict.suspicious), (100, false, true), "80 and 20");
}

#[test]
fn a_submission_in_a_flood_has_that_as_its_first_reason() {
    let verdict = with_message("WHERE IS MY ORDER AND WHO ANSWERS ME?").in_flood();
    assert_eq!(
        verdict.because(),
        "the form has had more than its quota (100), written in capitals (10); 110 of 100 points"
    );
}

#[test]
fn repetitions_count_from_two_other_senders_on() {
    for (repeats, points) in [(0, 0), (1, 0), (2, 20), (3, 30), (4, 40), (5, 40), (u32::MAX, 40)] {
        assert_eq!(
            with_signals(&RequestSignals { repeats, ..RequestSignals::default() }).score,
            points,
            "{repeats}"
        );
    }
}

#[test]
fn a_foreign_origin_weighs_more_than_a_missing_one() {
    for (origin, points) in
        [(Origin::NotABrowser, 0), (Origin::Same, 0), (Origin::Missing, 17), (Origin::Foreign, 35)]
    {
        assert_eq!(
            with_signals(&RequestSignals { origin, ..RequestSignals::default() }).score,
            points,
            "{origin:?}"
        );
        let agent = RequestSignals { origin, agent: Some("agent.example.com"), ..RequestSignals::default() };
        assert_eq!(with_signals(&agent).score, 0, "a verified agent is not a browser");
    }
}

#[test]
fn the_hidden_field_holds_alone_and_haste_does_not() {
    let extras = |honeypot, milliseconds: Option<u64>| Extras {
        honeypot,
        time_to_fill: milliseconds.map(Duration::from_millis),
    };
    let score = |extras: &Extras| {
        screen(
            &TokenizedText::new(&plain().entry),
            extras,
            &RequestSignals::default(),
            &ScreeningOptions::default(),
        )
        .score
    };
    assert_eq!(score(&extras(true, None)), 100);
    for (milliseconds, points) in [(0, 30), (1499, 30), (1500, 15), (2999, 15), (3000, 0), (u64::MAX, 0)] {
        assert_eq!(score(&extras(false, Some(milliseconds))), points, "{milliseconds}");
    }
    let waitlist = parse_with_extras(&WAITLIST, br#"{"email":"ada@example.com"}"#).unwrap().entry;
    for (milliseconds, points) in [(499, 30), (500, 15), (999, 15), (1000, 0)] {
        let extras = extras(false, Some(milliseconds));
        let verdict = screen(
            &TokenizedText::new(&waitlist),
            &extras,
            &RequestSignals::default(),
            &ScreeningOptions::default(),
        );
        assert_eq!(verdict.score, points, "{milliseconds}");
    }
    let agent = RequestSignals { agent: Some("agent.example.com"), ..RequestSignals::default() };
    let verdict = screen(
        &TokenizedText::new(&plain().entry),
        &extras(true, Some(1)),
        &agent,
        &ScreeningOptions::default(),
    );
    assert_eq!(verdict.because(), "hidden field filled in (100); 100 of 100 points");
}

/// Screens an entry of an operator's form with these fields, in TOML.
fn screen_own(fields: &str, body: &Value, extras: &Extras, options: &ScreeningOptions) -> ScreeningVerdict {
    let text = format!("title = \"T\"\ndescription = \"D.\"\nsubmit = \"S\"\n{fields}");
    let form = FormFile::read("own", &text, "forms/own.toml").unwrap().form;
    let entry = parse_with_extras(form, body.to_string().as_bytes()).unwrap().entry;
    screen(&TokenizedText::new(&entry), extras, &RequestSignals::default(), options)
}

fn field(name: &str, kind: &str) -> String {
    format!("[[field]]\nname = \"{name}\"\ntype = \"{kind}\"\nlabel = \"L\"\nrequired = true\n")
}

#[test]
fn the_time_to_fill_in_depends_on_the_required_fields_that_visitors_write() {
    let fields = [field("a", "text"), field("b", "tel"), field("c", "consent"), field("d", "number")]
        .concat()
        + &field("e", "text").replace("true", "false");
    let body = json!({"a": "A", "b": "+1 555 0100", "c": true, "d": 1});
    for (milliseconds, points) in [(999, 30), (1000, 15), (1999, 15), (2000, 0)] {
        let extras = Extras { time_to_fill: Some(Duration::from_millis(milliseconds)), ..Extras::default() };
        let verdict = screen_own(&fields, &body, &extras, &ScreeningOptions::default());
        assert_eq!(verdict.score, points, "{milliseconds}");
    }
}

#[test]
fn screening_reads_all_texts_and_addresses_of_any_form() {
    let fields = ["email", "email", "url", "multiline", "multiline"];
    let fields: String =
        fields.iter().zip("abcde".chars()).map(|(kind, c)| field(&c.to_string(), kind)).collect();
    let good = json!({"a": "a@example.org", "b": "b@example.org", "c": "https://example.org/", "d": "Hi", "e": "Ho"});
    let options = ScreeningOptions {
        blocked: Domains::parse("blocked.example").unwrap(),
        ..ScreeningOptions::default()
    };
    let verdict = |body: &Value| screen_own(&fields, body, &Extras::default(), &options);
    assert_eq!(
        verdict(&good),
        ScreeningVerdict { threshold: options.threshold, ..ScreeningVerdict::default() }
    );
    for (name, value) in [
        ("a", "a@blocked.example"),
        ("b", "b@blocked.example"),
        ("c", "https://blocked.example/x"),
        ("d", "See https://blocked.example/x please"),
        ("e", "See https://blocked.example/x please"),
    ] {
        let mut body = good.clone();
        body[name] = json!(value);
        let verdict = verdict(&body);
        assert!(verdict.reasons.iter().any(|reason| reason.signal == Signal::Listed), "{name}: {verdict:?}");
    }
}

#[test]
fn throw_away_addresses_add_points_and_blocked_domains_hold() {
    let mut options = ScreeningOptions::default();
    let from = |address: &str, message: &str, options: &ScreeningOptions| {
        let body = json!({"name": "Ada", "email": address, "message": message}).to_string();
        let parsed = parse_with_extras(&CONTACT, body.as_bytes()).unwrap();
        screen(&TokenizedText::new(&parsed.entry), &Extras::default(), &RequestSignals::default(), options)
    };
    let text = "Which plan allows two teams?";
    assert_eq!(
        from("a@x.Mailinator.com", text, &options).because(),
        "disposable address at x.mailinator.com (25); 25 of 100 points"
    );
    assert_eq!(from("a@gmail.com", text, &options).score, 0);
    options.blocked = Domains::parse("bad.example.com").unwrap();
    assert_eq!(
        from("a@bad.example.com", text, &options).because(),
        "address at bad.example.com, which is blocked (100); 100 of 100 points"
    );
    let linked =
        "Which plan of those at https://www.bad.example.com/plans would be right for two teams of ours?";
    assert!(from("a@example.com", linked, &options).hold);
    assert!(!from("a@example.com", &linked.replace("bad.", ""), &options).hold);
    assert!(from("a@example.com", "Are you at Bad.Example.com?", &options).hold, "a bare name");
}

#[test]
fn links_count_by_their_number_and_by_what_stands_beside_them() {
    let words = |n: usize| "word ".repeat(n);
    for (links, beside, points) in [
        (0, 1, 0),
        (1, 50, 0),
        (1, 11, 0),
        (1, 9, 1),
        (1, 3, 10),
        (1, 1, 18),
        (3, 60, 0),
        (4, 100, 3),
        (6, 100, 9),
        (13, 400, 30),
        (100, 400, 60),
        (5, 0, 60),
    ] {
        let message = format!("{} {}", words(beside), "https://a.example/x ".repeat(links));
        let verdict = with_message(&message);
        let of_links: u32 =
            verdict.reasons.iter().filter(|r| r.signal == Signal::Links).map(|r| r.points).sum();
        assert_eq!(of_links, points, "{links} links, {beside} words: {}", verdict.because());
    }
}

#[test]
fn names_of_companies_and_products_do_not_count_as_links() {
    for (message, counts) in [
        ("Are your rooms also on Booking.com, Hotels.com, Expedia.com and Agoda.com?", false),
        ("Skills: ASP.NET, VB.NET, ADO.NET, ML.NET", false),
        ("Are your rooms also on booking.com, hotels.com, expedia.com and agoda.com?", true),
        ("Rooms: Booking.com/a Hotels.com/b Expedia.com/c Agoda.com/d", true),
        ("Rooms: www.Booking.com https://Hotels.com Www.Expedia.com WWW.AGODA.COM", true),
        ("<a href=\"Booking.com\"> <a href=\"Hotels.com\"> <a href=\"Agoda.com\">", true),
    ] {
        assert_eq!(points_of(message, Signal::Links) > 0, counts, "{message}");
    }
}

#[test]
fn shorteners_and_markup_add_up() {
    let text = "Here is the picture of the broken hinge that I told your colleague about on the phone yesterday morning: ";
    for (end, signal, points) in [
        ("https://bit.ly/2x", Signal::Shortener, 25),
        ("TinyURL.com/2x", Signal::Shortener, 25),
        ("https://rabbit.ly/2x", Signal::Shortener, 0),
        ("<a href=\"#\">", Signal::Markup, 0),
        ("<a href=\"https://a.example\">", Signal::Markup, 25),
        ("[url=https://a.example]x[/url]", Signal::Markup, 50),
        ("[x](https://a.example)", Signal::Markup, 0),
    ] {
        assert_eq!(points_of(&format!("{text}{end}"), signal), points, "{end}");
    }
}

#[test]
fn an_offer_is_what_the_writer_does_and_not_a_word() {
    for (message, is_marked) in [
        ("How good is it for SEO?", false),
        ("Our backlinks were lost in the move. When will the new shop be open?", false),
        ("Is the casino far from the hotel? We arrive on Saturday with two children.", false),
        (
            "I came across your website and noticed that it does not rank on Google. Would you be open to a quick call?",
            true,
        ),
        ("We sell backlinks and guest posts on a casino blog.", true),
        (
            "Ich bin auf Ihre Website gestoßen. Wir helfen Unternehmen, mehr Kunden zu gewinnen. Wann hätten Sie 15 Minuten Zeit?",
            true,
        ),
        (
            "Wann haben Sie geöffnet? Meine Tochter hat am Samstag Geburtstag und möchte mit zehn Kindern kommen.",
            false,
        ),
        (
            "Nous aidons les entreprises comme la vôtre à obtenir plus de clients. Êtes-vous disponible pour un appel de 15 minutes ?",
            true,
        ),
        ("Bonjour, ma commande 4711 est arrivée cassée. Comment faire pour être remboursé ?", false),
        ("贵公司您好，我们是一家专业的网站优化公司，可以帮助企业提升排名，免费诊断，加微信详谈。", true),
        ("请问周末几点开门？我们有两个大人和一个孩子。", false),
    ] {
        let verdict = with_message(message);
        assert_eq!(verdict.suspicious || verdict.hold, is_marked, "{message}: {}", verdict.because());
    }
}

#[test]
fn the_subject_of_an_offer_does_not_count_if_it_is_the_sites_own_trade() {
    let lexicon = Lexicon::built_in();
    let harbor = "The harbor has forty berths with water and power. Visitors pay by the length of the boat. The slipway is open from April.";
    let agency = "We build websites: web design, website redesign, WordPress, web development and hosting for your new website and landing pages.";
    let message =
        "We have an old website in WordPress and look for web design, website development and hosting.";
    let points = |pages: [&str; 3]| {
        let profile = SiteProfile::read(&lexicon, pages);
        let options = ScreeningOptions { profile: Arc::new(profile), ..ScreeningOptions::default() };
        let body = json!({"name": "Ada", "email": "ada@example.com", "message": message}).to_string();
        let entry = parse_with_extras(&CONTACT, body.as_bytes()).unwrap().entry;
        let text = TokenizedText::new(&entry);
        screen(&text, &Extras::default(), &RequestSignals::default(), &options).score
    };
    assert!(points([harbor; 3]) > points([agency; 3]), "{} {}", points([harbor; 3]), points([agency; 3]));
    assert_eq!(points([harbor, harbor, agency]), points([harbor; 3]), "one page does not make a trade");
}

#[test]
fn links_to_the_site_itself_are_no_signs_of_spam() {
    let paths = ["p100", "p200", "c1", "c2", "h7"];
    let message = |host: &str| {
        let links = paths.map(|path| format!("https://{host}/pumps/{path}/")).join("\n");
        format!("I would like to order these five, please:\n{links}\nTo Hamburg.")
    };
    let score = |host: &str| {
        let profile = SiteProfile::default().at_host("www.harbor.example");
        let options = ScreeningOptions { profile: Arc::new(profile), ..ScreeningOptions::default() };
        let body = json!({"name": "Ada", "email": "ada@example.com", "message": message(host)}).to_string();
        let entry = parse_with_extras(&CONTACT, body.as_bytes()).unwrap().entry;
        screen(&TokenizedText::new(&entry), &Extras::default(), &RequestSignals::default(), &options).score
    };
    for host in ["www.harbor.example", "Harbor.Example", "shop.harbor.example"] {
        assert_eq!(score(host), 0, "{host}");
    }
    for host in
        ["other.example", "myharbor.example", "harbor.example.net", "www.harbor.example:x_%41@other.example"]
    {
        assert!(score(host) >= 50, "{host}");
    }
}

#[test]
fn private_mailboxes_of_all_providers_are_equal() {
    let features = |email: &str| {
        let body =
            json!({"name": "Ada", "email": email, "message": "I build barns and look for work."}).to_string();
        let entry = parse_with_extras(&CONTACT, body.as_bytes()).unwrap().entry;
        find_features(&TokenizedText::new(&entry), &ScreeningOptions::default())
    };
    assert_ne!(features("ada@company.example"), features("ada@gmail.com"));
    for domain in ["hey.com", "bigpond.com", "privaterelay.appleid.com", "yahoo.com.au", "duck.com"] {
        assert_eq!(features(&format!("ada@{domain}")), features("ada@gmail.com"), "{domain}");
    }
}

#[test]
fn a_reason_says_what_the_writer_does() {
    let verdict = with_message(
        "I came across your website. We help companies like yours to get more customers. Would you be open to a 15 minute call?",
    );
    let offer = verdict.reasons.iter().find(|reason| reason.signal == Signal::Offer).unwrap();
    assert!(offer.detail.starts_with("an offer that you did not ask for: "), "{}", offer.detail);
    assert!(offer.detail.contains("says how it found the site"), "{}", offer.detail);
}

#[test]
fn a_messenger_is_a_lure_only_with_money_or_an_offer() {
    for (message, points) in [
        ("I prefer WhatsApp, please. It is about my order.", 0),
        ("Earn money from your phone, write to me on WhatsApp.", 35),
        ("Earn money from your phone: https://wa.me/15550100", 35),
        ("We sell backlinks and guest posts on a casino blog, ask on Telegram.", 35),
        ("Earn money from your phone.", 0),
    ] {
        assert_eq!(points_of(message, Signal::Lure), points, "{message}");
    }
}

#[test]
fn an_enquiry_that_prefers_a_messenger_is_not_suspicious() {
    for message in [
        "Hallo, kan ik zaterdag een kajak huren? Stuur me gerust een berichtje via WhatsApp. Bedankt",
        "Добрый день, можно ли взять лодку на субботу? Напишите мне в WhatsApp или Telegram, спасибо",
        "Dobrý den, je možné půjčit kolo na 3 hodiny? Napište mi prosím na WhatsApp, díky.",
        "Laba diena, ar galima šeštadienį išsinuomoti baidarę? Parašykite man per WhatsApp. Ačiū",
        "Habari, naweza kukodi mashua Jumamosi? Nitumie ujumbe WhatsApp. Asante",
    ] {
        let body = json!({"name": "Ada Novak", "email": "ada@novak.example", "message": message}).to_string();
        let entry = parse_with_extras(&CONTACT, body.as_bytes()).unwrap().entry;
        let (extras, signals) = (Extras::default(), RequestSignals::default());
        let verdict = screen(&TokenizedText::new(&entry), &extras, &signals, &ScreeningOptions::default());
        assert_eq!(verdict.score, 0, "{message} {:?}", verdict.reasons);
    }
}

#[test]
fn an_enquiry_of_a_purchasing_company_is_not_marked() {
    for (message, domain) in [
        ("Kindly quote 5 hand pumps with delivery time and payment terms.", "hospital.example"),
        (
            "We are a hospital in Nairobi. Kindly send us a quotation for 5 hand pumps, with delivery time and payment terms.",
            "hospital.example",
        ),
        (
            "Please send your price list and catalogue of hand pumps for resale in Norway. We are a wholesaler with 12 shops",
            "pump.example",
        ),
        (
            "Somos un astillero de Vigo y buscamos proveedor de 12 bombas manuales. Por favor, envíennos su mejor oferta con transporte.",
            "astillero.example",
        ),
        (
            "Nous sommes un chantier naval à Brest et cherchons un fournisseur de 12 pompes manuelles. Merci de nous envoyer votre meilleure offre.",
            "chantier.example",
        ),
        ("We would like to become your dealer in Kenya. Please send your price list.", "pump.example"),
    ] {
        let signature =
            format!("\n\n--\nAda Byron\nHead of Procurement\nTel. +47 22 12 34 56\nhttps://www.{domain}");
        for message in
            [message.to_owned(), format!("{message} www.{domain}"), format!("{message}{signature}")]
        {
            let email = format!("ada@{domain}");
            let body = json!({"name": "Ada Byron", "email": email, "message": message}).to_string();
            let entry = parse_with_extras(&CONTACT, body.as_bytes()).unwrap().entry;
            let (extras, signals) = (Extras::default(), RequestSignals::default());
            let verdict =
                screen(&TokenizedText::new(&entry), &extras, &signals, &ScreeningOptions::default());
            let is_marked = verdict.suspicious || verdict.hold;
            assert!(!is_marked, "{message}: {} {}", verdict.score, verdict.because());
        }
    }
}

#[test]
fn disguised_words_count_by_their_number() {
    for (message, points) in [
        ("Is the casino far from the hotel?", 0),
        ("Is the cas1no far from the hotel?", 16),
        ("Cas1no, v1agra", 32),
        ("Cas1no, v1agra, саsіnо", 40),
        ("Is the c a s i n o far?", 16),
        ("Is the c.a.s.i.n.o far?", 16),
        ("One h\u{200b}inge is broken", 16),
        ("One \u{200b}hinge is broken", 0),
        ("One h\u{3164}inge is broken", 16),
        ("One h\u{34f}inge is broken", 16),
        ("A B C D E F G", 0),
        ("Good s3rvice for your w3bsite", 0),
        ("Good s3rvice for your w3bsite, r4nking", 16),
        ("QwXrTbNmLkPzVd", 40),
        ("𝐇𝐞𝐥𝐥𝐨", 16),
        ("𝐇𝐞𝐥lo", 16),
        ("𝐇𝐞llo", 0),
        ("Привет from Київ, Ωmega", 0),
        ("Чехлы для iPhone'ов и Samsung'ов, PDFка на email'ы", 0),
        ("Antibodies against TNFα, IFNγ and NFκB", 0),
    ] {
        assert_eq!(points_of(message, Signal::Disguise), points, "{message}");
    }
}

#[test]
fn capitals_count_in_longer_texts_only() {
    for (message, points) in [
        ("WHERE IS MY ORDER?", 0),
        ("WHERE IS MY ORDER AND WHO ANSWERS ME?", 10),
        ("WHERE IS MY ORDER AND WHO ANSWERS ME? please tell me", 10),
        ("WHERE IS MY ORDER AND WHO ANSWERS ME? please tell me now, dear people", 0),
        ("私の注文はどこですか。ＷＨＥＲＥＩＳＭＹＯＲＤＥＲＷＨＥＲＥＩＳＭＹＯＲＤＥＲ", 0),
    ] {
        assert_eq!(points_of(message, Signal::Shouting), points, "{message}");
    }
}

#[test]
fn a_weight_of_zero_disables_a_signal_and_thresholds_decide() {
    let mut options = ScreeningOptions::default();
    let message = "We sell backlinks and guest posts on a casino blog.";
    let body = json!({"name": "Ada", "email": "a@example.com", "message": message}).to_string();
    let entry = parse_with_extras(&CONTACT, body.as_bytes()).unwrap().entry;
    let verdict = |options: &ScreeningOptions| {
        screen(&TokenizedText::new(&entry), &Extras::default(), &RequestSignals::default(), options)
    };
    assert!(verdict(&options).suspicious && !verdict(&options).hold);
    options.suspicious_threshold = 81;
    assert!(!verdict(&options).suspicious);
    options.threshold = 81;
    assert!(!verdict(&options).hold);
    options.threshold = 80;
    assert!(verdict(&options).hold && !verdict(&options).suspicious);
    options.ignored = vec![Signal::Offer];
    assert_eq!(verdict(&options).reasons, []);
    let disabled = ScreeningOptions { enabled: false, ..ScreeningOptions::default() };
    assert_eq!(verdict(&disabled).score, 0);
}

#[test]
fn reasons_come_by_their_points_and_quote_nobody() {
    let body = json!({"name": "Sesame sesame", "email": "sesame@mailinator.com", "message": "Sesame backlinks, sesame cas1no [url=https://bit.ly/sesame]sesame[/url] sesame on WhatsApp"});
    let parsed = parse_with_extras(&CONTACT, body.to_string().as_bytes()).unwrap();
    let signals = RequestSignals { repeats: 9, ..RequestSignals::default() };
    let verdict =
        screen(&TokenizedText::new(&parsed.entry), &parsed.extras, &signals, &ScreeningOptions::default());
    assert!(verdict.reasons.is_sorted_by(|a, b| a.points >= b.points), "{verdict:?}");
    assert!(verdict.reasons.len() > 5 && verdict.hold, "{verdict:?}");
    assert_eq!(verdict.score, verdict.reasons.iter().map(|reason| reason.points).sum::<u32>());
    assert!(!verdict.because().to_lowercase().contains("sesame"), "{}", verdict.because());
}

/// Generates texts from pieces that trigger signals and from arbitrary text.
fn text() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        prop::sample::select(vec![
            "backlinks",
            "guest post",
            "casino",
            "earn",
            "money",
            "WhatsApp",
            "<a href=",
            "[url=",
            "https://",
            "a.example",
            "bit.ly/x",
            ".",
            "!",
            " ",
            "\n",
            "\u{200b}",
            "c a s i n o",
            "саsіnо",
            "日本",
            "ÄÖ",
            "'",
            "www.",
            "1",
            "@",
            "HELLO",
            "first page of google",
        ])
        .prop_map(str::to_owned),
        ".{0,4}".prop_map(|text| text.replace('\0', "")),
    ];
    prop::collection::vec(piece, 0..40).prop_map(|pieces| pieces.join(" "))
}

proptest! {
    #[test]
    fn every_text_has_one_verdict_and_a_link_never_improves_it(text in text(), joined in any::<bool>(), at in any::<prop::sample::Index>()) {
        let text = if joined { text.replace(' ', "") } else { text };
        let message = format!("x {text}");
        let verdict = with_message(&message);
        prop_assert_eq!(&verdict, &with_message(&message));
        prop_assert_eq!(verdict.hold, verdict.score >= 100);
        prop_assert_eq!(verdict.suspicious, (50..100).contains(&verdict.score));
        let spaces: Vec<usize> = message.match_indices(' ').map(|(at, _)| at).collect();
        let at = spaces[at.index(spaces.len())];
        let linked = format!("{} https://www.example.com/a {}", &message[..at], &message[at..]);
        prop_assert!(with_message(&linked).score >= verdict.score, "{:?} {} {}", linked, verdict.because(), with_message(&linked).because());
    }
}

fn plain() -> ParsedForm {
    let body = json!({"name": "Ada", "email": "ada@example.com", "message": "Which plan allows two teams?"});
    parse_with_extras(&CONTACT, body.to_string().as_bytes()).unwrap()
}

fn with_signals(signals: &RequestSignals<'_>) -> ScreeningVerdict {
    screen(&TokenizedText::new(&plain().entry), &Extras::default(), signals, &ScreeningOptions::default())
}

fn with_message(message: &str) -> ScreeningVerdict {
    let body = json!({"name": "Ada", "email": "ada@example.com", "message": message}).to_string();
    let parsed = parse_with_extras(&CONTACT, body.as_bytes()).unwrap();
    screen(
        &TokenizedText::new(&parsed.entry),
        &parsed.extras,
        &RequestSignals::default(),
        &ScreeningOptions::default(),
    )
}

fn points_of(message: &str, signal: Signal) -> u32 {
    let reasons = with_message(message).reasons;
    reasons.iter().filter(|reason| reason.signal == signal).map(|reason| reason.points).sum()
}

#[test]
fn an_opinion_marks_and_never_holds() {
    let reason = |signal, points| ScreeningReason { signal, points, detail: String::new() };
    for (score, hold, marked_from, suspicious) in [
        (0, false, 50, true),
        (0, false, 51, false),
        (1, false, 51, true),
        (99, false, 50, true),
        (120, true, 50, false),
    ] {
        let reasons = vec![reason(Signal::Links, 60), reason(Signal::Name, 20)];
        let verdict = ScreeningVerdict { score, reasons, hold, suspicious: false, threshold: 100 };
        let judged = verdict.with_opinion("rspamd: 9 points".to_owned(), marked_from);
        assert_eq!((judged.score, judged.hold, judged.suspicious), (score + 50, hold, suspicious), "{score}");
        let signals: Vec<_> = judged.reasons.iter().map(|reason| (reason.signal, reason.points)).collect();
        assert_eq!(signals, [(Signal::Links, 60), (Signal::Opinion, 50), (Signal::Name, 20)]);
        assert_eq!(judged.clone().with_opinion("another".to_owned(), 1), judged, "an opinion counts once");
    }
}
