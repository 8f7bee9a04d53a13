//! Tests how text is split into tokens.

use super::*;
use frontdesk_forms::FormSet;

#[test]
fn all_fields_but_the_address_are_tokenized_with_the_message_last() {
    for form in FormSet::built_in().iter() {
        for shape in std::iter::once(&form.fields).chain(&form.alternative) {
            let fields = shape.iter().map(|field| (field.name.to_owned(), field.name.into()));
            let entry = Entry::restored(form, fields.collect());
            let text = TokenizedText::new(&entry);
            let words: Vec<_> = text.tokens.iter().filter(|token| **token != Token::Break).collect();
            assert_eq!(words.len(), shape.len() - 1, "{}", form.name);
            let has_message = shape.iter().any(|field| field.name == "message");
            assert_eq!(text.message().len(), if has_message { 2 } else { 0 }, "{}", form.name);
        }
    }
}

#[test]
fn letters_are_folded_to_what_they_stand_for() {
    for (a, b) in [
        ("Straße", "STRASE"),
        ("Grüße", "gruse"),
        ("naïve", "NAIVE"),
        ("cafe\u{301}", "café"),
        ("don't", "dont"),
        ("don’t", "dont"),
        ("backlinks", "Backlink"),
        ("ＡＢＣ", "abc"),
        ("𝐂𝐚𝐬𝐢𝐧𝐨", "casino"),
        ("Ⓒⓐsino", "casino"),
        ("ca\u{ad}sino", "casino"),
        ("Привет", "привет"),
        ("ca\u{200b}sino", "casino"),
    ] {
        assert_eq!(one_word(a).hash, one_word(b).hash, "{a} {b}");
    }
    for (a, b) in [("bus", "bu"), ("business", "busines"), ("link", "lynk"), ("casіno", "casino")] {
        assert_ne!(one_word(a).hash, one_word(b).hash, "{a} {b}");
    }
}

#[test]
fn disguised_words_are_recognized() {
    for (disguised, plain) in
        [("cas1n0", "casino"), ("саsіnо", "casino"), ("v1agra", "viagra"), ("βitcοin", "βitcoin")]
    {
        assert!(one_word(disguised).is_disguised(), "{disguised}");
        assert_eq!(one_word(disguised).lookalike_hash, one_word(plain).lookalike_hash, "{disguised}");
    }
    for plain in ["casino", "Привет", "IT", "Ωmega", "4711", "x", "日", "नमस्ते", "Übergrößenträger"]
    {
        assert!(!one_word(plain).is_disguised(), "{plain}");
    }
}

#[test]
fn invisible_characters_count_only_where_no_script_needs_them() {
    for (text, hidden) in [
        ("ca\u{200b}si\u{200b}no", 2),
        ("ca\u{200b}\u{200b}sino", 2),
        ("casino\u{200b}", 0),
        ("\u{feff}casino", 0),
        ("می\u{200c}خواهم", 0),
        ("क्\u{200d}ष", 0),
        ("ка\u{2060}зино", 1),
        ("ca\u{3164}sino", 1),
        ("ca\u{34f}si\u{115f}n\u{1160}o", 3),
        ("ca\u{ffa0}sino", 1),
        ("\u{1100}\u{1160}\u{11a8}", 0),
        ("한\u{3164}국", 0),
        ("שלום \u{200e}abc\u{200f} שלום", 0),
        ("של\u{200e}abc", 0),
        ("של\u{200e}ab\u{200e}c", 1),
        ("של\u{200e}𝐚𝐛\u{200e}𝐜", 1),
    ] {
        let hidden_in: u32 = Tokenizer::new(text)
            .map(|token| if let Token::Word(word) = token { word.hidden } else { 0 })
            .sum();
        assert_eq!(hidden_in, hidden, "{text:?}");
    }
}

#[test]
fn every_letter_between_c0_and_17f_has_its_base() {
    for (c, base) in [
        ('À', b'a'),
        ('ß', b's'),
        ('ÿ', b'y'),
        ('Ç', b'c'),
        ('×', b'*'),
        ('÷', b'*'),
        ('ñ', b'n'),
        ('Ø', b'o'),
        ('ă', b'a'),
        ('ń', b'n'),
        ('ŏ', b'o'),
        ('ś', b's'),
        ('ţ', b't'),
        ('ů', b'u'),
        ('ŵ', b'w'),
        ('ż', b'z'),
        ('ĝ', b'g'),
        ('ı', b'i'),
        ('ł', b'l'),
        ('ř', b'r'),
        ('ſ', b's'),
    ] {
        assert_eq!(char::from(LATIN[c as usize - 0xc0]), char::from(base), "{c}");
    }
}

#[test]
fn links_are_found_with_and_without_a_scheme() {
    for (text, expected) in [
        ("see https://www.Example.com/a?b#c.", &["Example.com"][..]),
        ("(http://example.com)", &["example.com"]),
        ("HTTPS://example.com:8443/x,y", &["example.com"]),
        ("www.example.de and example.com", &["example.de", "example.com"]),
        ("bit.ly/x, t.me/y; example.io/z", &["bit.ly", "t.me", "example.io"]),
        ("https://example.com@example.net/", &["example.net"]),
        ("ada@example.com, ada.b@mail.example.com", &[]),
        ("ada.b.com@example.org", &[]),
        ("main.rs, README.md, e.g. this, 3.14, a.b, v1.2/3", &[]),
        ("example.com.", &["example.com"]),
        ("https://", &[""]),
        ("[url=https://a.example/]x[/url]", &["a.example"]),
        ("https://a.example/https://b.example/", &["a.example"]),
        ("詳細はhttps://example.com/をご覧", &["example.com"]),
    ] {
        let found: Vec<&str> = Tokenizer::new(text)
            .filter_map(|token| if let Token::Link(link) = token { Some(link.domain) } else { None })
            .collect();
        assert_eq!(found, expected, "{text}");
    }
}

#[test]
fn the_time_that_reading_takes_grows_with_the_text_and_no_faster() {
    // If parsing took quadratic time, the first piece would take more than an hour.
    for piece in [
        "a-",
        "a.",
        "a:",
        "a@",
        "a/",
        "a_",
        "a.b-",
        "a.b:",
        "http:",
        "http://",
        "http://a@",
        "[url=",
        "a\u{ad}",
    ] {
        assert!(Tokenizer::new(&piece.repeat(500_000)).count() > 0, "{piece}");
    }
}

#[test]
fn a_links_markup_stands_right_before_it() {
    for (text, expected) in [
        ("[URL=https://a.example]x[/url]", Some(Markup::Forum)),
        ("[url]www.a.example[/url]", Some(Markup::Forum)),
        ("[link=https://a.example]x[/link]", Some(Markup::Forum)),
        ("[img]https://a.example/x.png[/img]", Some(Markup::Forum)),
        ("<a href=\"https://a.example\">x</A>", Some(Markup::Html)),
        ("<a class=x HREF='https://a.example'>x</A>", Some(Markup::Html)),
        ("<a href=https://a.example>x</A>", Some(Markup::Html)),
        ("[text](https://a.example)", None),
        ("<https://a.example>", None),
        ("\"https://a.example\"", None),
    ] {
        let found = Tokenizer::new(text)
            .find_map(|token| if let Token::Link(link) = token { Some(link.markup) } else { None });
        assert_eq!(found, Some(expected), "{text}");
    }
}

#[test]
fn sentences_end_where_a_reader_would_end_them() {
    for (text, breaks) in
        [("One. Two! Three?", 3), ("a.b 3.14 e.g.x", 0), ("はい。いいえ。", 2), ("v.i.a", 0)]
    {
        assert_eq!(Tokenizer::new(text).filter(|token| *token == Token::Break).count(), breaks, "{text}");
    }
}

#[test]
fn a_plural_of_four_letters_and_more_is_its_singular() {
    for (plural, singular) in [("cars", "car"), ("CARS", "car"), ("cár's", "car"), ("ürls", "ürl")] {
        assert_eq!(one_word(plural).hash, one_word(singular).hash, "{plural}");
        assert_eq!(one_word(plural).lookalike_hash, one_word(singular).lookalike_hash, "{plural}");
    }
    for (word, other) in [("gas", "ga"), ("gás", "ga"), ("boss", "bos"), ("bóss", "bos"), ("sale", "ale")] {
        assert_ne!(one_word(word).hash, one_word(other).hash, "{word}");
    }
}

#[test]
fn letters_digits_and_capitals_are_counted() {
    for (text, letters, digits, upper, lower) in [
        ("HeLLo", 5, 0, 3, 2),
        ("Äb1cÖ2", 4, 2, 2, 2),
        ("AЖΩbжω", 6, 0, 3, 3),
        ("日", 1, 0, 0, 0),
        ("עברית", 5, 0, 0, 0),
        ("2026", 0, 4, 0, 0),
    ] {
        let word = one_word(text);
        let counted = (word.letters, word.digits, word.upper, word.lower);
        assert_eq!(counted, (letters, digits, upper, lower), "{text}");
        assert_eq!(word.is_number(), letters == 0, "{text}");
    }
}

#[test]
fn alphabets_mix_in_longer_words_only_and_a_digit_disguises_letters_only() {
    for (text, is_mixed) in [
        ("cазino", true),
        ("caзиno", true),
        ("саsino", true),
        ("casinо", true),
        ("cas'іno", true),
        ("caз", false),
        ("αλφd", false),
        ("жиλα", true),
        ("casіnо", true),
        ("CаSіNо", true),
        ("FREЕ", true),
        ("μΩΔπβabc", false),
        ("caע", false),
        ("iPhone'ов", false),
        ("office’у", false),
        ("email'ы", false),
        ("PDFка", false),
        ("SMSки", false),
        ("SEOшник", false),
        ("USBшный", false),
        ("laptopάκια", false),
        ("SIMκάρτες", false),
        ("TNFα", false),
        ("IFNγ", false),
        ("NFκB", false),
        ("casinο", true),
    ] {
        assert_eq!(one_word(text).is_mixed(), is_mixed, "{text}");
    }
    // Unlike for `is_mixed`, an ending in another alphabet is no excuse; only short words are.
    for (text, is_disguised) in [("casino", false), ("casinо", true), ("CαSιNο", true), ("caз", false)] {
        assert_eq!(one_word(text).is_disguised(), is_disguised, "{text}");
    }
    for (text, is_disguised) in [("ab1", true), ("a1", false), ("11", false), ("𝐚b", true)] {
        assert_eq!(one_word(text).is_disguised(), is_disguised, "{text}");
    }
}

#[test]
fn decorative_alphabets_begin_and_end_where_unicode_has_them() {
    for (decorative, plain) in [("𝐀𝐙𝑎𝚣", "azaz"), ("ⒶⓏⓐⓩ", "azaz"), ("🄰🅉🅐🅩🅰🆉", "azazaz")]
    {
        let word = one_word(decorative);
        assert_eq!(
            (word.hash, word.decorative),
            (one_word(plain).hash, u32::try_from(plain.len()).unwrap()),
            "{decorative}"
        );
    }
    // The symbols after the alphabets in squares and circles are no letters: they end a word.
    for symbol in ["🅊", "🅏", "🅪", "🅯"] {
        assert_eq!(one_word(&format!("az{symbol}")).hash, one_word("az").hash, "{symbol}");
    }
    let full_width = one_word("ＡＺａｚ");
    assert_eq!((full_width.hash, full_width.decorative), (one_word("azaz").hash, 0));
}

#[test]
fn marks_and_invisible_characters_are_not_letters() {
    for mark in ['\u{ad}', '\u{2bc}', '\u{300}', '\u{36f}', '\u{483}', '\u{489}', '\u{2019}', '\u{fe0f}'] {
        let word = one_word(&format!("ca{mark}sino"));
        assert_eq!((word.hash, word.letters, word.hidden), (one_word("casino").hash, 6, 0), "{mark:?}");
        assert_eq!(Tokenizer::new(&format!("a {mark} b")).count(), 2, "{mark:?}");
    }
    for unseen in
        ['\u{200b}', '\u{200d}', '\u{2060}', '\u{2064}', '\u{feff}', '\u{180e}', '\u{202a}', '\u{202e}']
            .into_iter()
            .chain(['\u{34f}', '\u{115f}', '\u{1160}', '\u{3164}', '\u{ffa0}', '\u{2066}', '\u{e0041}'])
    {
        let word = one_word(&format!("ca{unseen}sino"));
        assert_eq!((word.hash, word.letters, word.hidden), (one_word("casino").hash, 6, 1), "{unseen:?}");
        assert_eq!(Tokenizer::new(&format!("a {unseen} b")).count(), 2, "{unseen:?}");
    }
    for other in ['×', '÷', '→', '€', '\u{a0}', '«'] {
        assert_eq!(tokens(&format!("ab{other}cd {other}")), "w w", "{other:?}");
    }
}

#[test]
fn scripts_without_spaces_have_a_word_a_character() {
    for c in ['ก', 'က', 'ក', 'ぁ', 'ー', '㐀', '一', '龥', '豈', '𠀀'] {
        assert_eq!(tokens(&format!("{c}{c}ab{c}")), "w w w w", "{c}");
        let word = one_word(&c.to_string());
        assert_eq!((word.letters, word.hash != 0, word.lookalike_hash), (1, true, word.hash), "{c}");
    }
    assert_ne!(one_word("一").hash, one_word("二").hash);
    for word in ["नमस्त", "مريم", "ხელი", "한국어", "ƀƁɏ", "ẞỳ", "ѐЀ", "ԱԲ"]
    {
        assert_eq!(tokens(word).split(' ').next(), Some("w"), "{word}");
    }
    for (upper, lower) in [("Ѐ", "ѐ"), ("Ԁ", "ԁ"), ("Ƀ", "ƀ"), ("Ỳ", "ỳ"), ("Ἀ", "ἀ"), ("Λ", "λ"), ("Ա", "ա")]
    {
        assert_eq!(one_word(upper).hash, one_word(lower).hash, "{upper}");
        assert_eq!((one_word(upper).upper, one_word(lower).lower), (1, 1), "{upper}");
    }
}

#[test]
fn letters_are_taken_for_those_that_they_resemble() {
    for (resembling, letter) in [
        ("0оοσ", 'o'),
        ("1іι", 'i'),
        ("3еёεє", 'e'),
        ("4аα", 'a'),
        ("5ѕ", 's'),
        ("7тτ", 't'),
        ("рρ", 'p'),
        ("сϲ", 'c'),
        ("хχ", 'x'),
        ("уγ", 'y'),
        ("кκ", 'k'),
        ("м", 'm'),
        ("нη", 'n'),
        ("в", 'b'),
        ("ј", 'j'),
        ("ν", 'v'),
        ("υ", 'u'),
    ] {
        for c in resembling.chars() {
            let (disguised, plain) = (one_word(&format!("q{c}q")), one_word(&format!("q{letter}q")));
            assert_eq!(disguised.lookalike_hash, plain.lookalike_hash, "{c} {letter}");
            assert_ne!(disguised.hash, plain.hash, "{c} {letter}");
        }
    }
}

#[test]
fn a_link_ends_where_a_reader_would_end_it() {
    for (text, expected) in [
        ("https://example.com/a/b?c=d#e next", "[example.com] w"),
        ("https://example.com, next", "[example.com] w"),
        ("https://example.com:8443/x next", "[example.com] w"),
        ("https://example.com?x=y next", "[example.com] w"),
        ("https://example.com#top next", "[example.com] w"),
        ("https://example.com/a. Next", "[example.com] . w"),
        ("https://example.com/a,b;c:d! Next", "[example.com] . w"),
        ("https://example.com/a?. Next", "[example.com] . . w"),
        ("(https://example.com/a) b", "[example.com] w"),
        ("<https://example.com/a>b", "[example.com] w"),
        ("https://example.com/a|b `https://example.com/a`b", "[example.com] w [example.com] w"),
        ("https://example.com/a]b https://example.com/a}b", "[example.com] w [example.com] w"),
        ("https://example.com/a\"b https://example.com/a'b", "[example.com] w [example.com] w"),
        ("https://example.com/a\u{1}b", "[example.com] w"),
        ("https://example.com/é/x y", "[example.com] w"),
        ("https://example.com/をx", "[example.com] w w"),
        ("https://example.com/龥x", "[example.com] w w"),
        ("https://user@example.net/x b", "[example.net] w"),
        ("https://user@example.net b", "[example.net] w"),
        ("https://example.com@", "[]"),
        ("https://example.com-. b", "[example.com] . w"),
        ("example.com/x/y z", "[example.com] w"),
        ("example.com b", "[example.com] w"),
        ("example.COM. B", "[example.COM] . w"),
        ("www.example.museum b", "[example.museum] w"),
        ("WWW.Example.de b", "[Example.de] w"),
        ("https://www.example.de b", "[example.de] w"),
        ("wwwexample.com b", "[wwwexample.com] w"),
        ("x-example.com b", "[x-example.com] w"),
        ("example.museum b", "w w w"),
        ("example.museum/ b", "[example.museum] w"),
        ("example.c/x b", "w w w w"),
        ("example.c0m/x b", "w w w w"),
        ("ada@example.com b", "w w w w"),
        ("ada.b.com@example.org c", "w w w w w w"),
        ("a/example.com b", "w w w w"),
        ("_example.com b", "w w w"),
        ("-example.com b", "w w w"),
        ("..example.com b", ". w w w"),
        ("https:/example.com b", "w w w w"),
        ("https: b", "w w"),
        ("one.", "w ."),
        ("one-two b", "w w w"),
    ] {
        assert_eq!(tokens(text), expected, "{text}");
    }
}

#[test]
fn every_stop_ends_a_sentence() {
    for stop in ['.', '!', '?', ';', '。', '！', '．', '？', '؟', '۔', '।', '…'] {
        assert_eq!(tokens(&format!("one{stop} two{stop}")), "w . w .", "{stop}");
    }
    for other in [',', ':', '-', '"', '、', '(', '\n'] {
        assert_eq!(tokens(&format!("one{other} two{other}")), "w w", "{other:?}");
    }
    assert_eq!(tokens("don't 'one' two '"), "w w w");
}

/// Shows tokens: `w` for a word, `.` for the end of a sentence, and a link's domain in brackets.
fn tokens(text: &str) -> String {
    let shown = Tokenizer::new(text).map(|token| match token {
        Token::Word(_) => "w".to_owned(),
        Token::Break => ".".to_owned(),
        Token::Link(link) => format!("[{}]", link.domain),
    });
    shown.collect::<Vec<_>>().join(" ")
}

fn one_word(text: &str) -> Word {
    let words: Vec<Word> = Tokenizer::new(text)
        .filter_map(|token| if let Token::Word(word) = token { Some(word) } else { None })
        .collect();
    words.first().copied().unwrap_or_else(|| panic!("{text} has a word"))
}
