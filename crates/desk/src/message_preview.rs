//! The beginning of a message in a list: what it asks for, without greetings, quotes and signatures.

use std::sync::LazyLock;

use frontdesk_forms::text::{cut, fold, with_line_feeds};

/// Maximum length of a preview, in characters.
const MAX_PREVIEW: usize = 120;
/// Maximum number of characters of a line that are examined; the rest of the line is left out.
const MAX_LINE: usize = 300;
/// Maximum length of a greeting with a name, in characters.
const MAX_GREETING: usize = 60;
/// Maximum length of a greeting with a name, in words.
const MAX_GREETING_WORDS: usize = 5;
/// Maximum length of a closing line such as `Best regards`, in characters.
const MAX_CLOSING: usize = 40;

/// The words that begin a greeting, in the languages of the interface and some other languages.
static GREETINGS: LazyLock<Vec<String>> = LazyLock::new(|| {
    folded_all(&[
        "hello",
        "hi",
        "hey",
        "dear",
        "good morning",
        "good afternoon",
        "good evening",
        "good day",
        "greetings",
        "to whom it may concern",
        "hallo",
        "guten tag",
        "guten morgen",
        "guten abend",
        "gruss gott",
        "moin",
        "liebe",
        "lieber",
        "liebes",
        "sehr geehrte",
        "sehr geehrter",
        "servus",
        "bonjour",
        "bonsoir",
        "salut",
        "cher",
        "chere",
        "chers",
        "madame",
        "monsieur",
        "hola",
        "buenos dias",
        "buenas tardes",
        "buenas noches",
        "buenas",
        "estimado",
        "estimada",
        "estimados",
        "estimadas",
        "querido",
        "querida",
        "ciao",
        "salve",
        "buongiorno",
        "buonasera",
        "gentile",
        "gentili",
        "egregio",
        "spettabile",
        "ola",
        "bom dia",
        "boa tarde",
        "boa noite",
        "prezado",
        "prezada",
        "prezados",
        "caro",
        "cara",
        "beste",
        "geachte",
        "goedemorgen",
        "goedemiddag",
        "goedendag",
        "hej",
        "hei",
        "hejsan",
        "kara",
        "god dag",
        "czesc",
        "dzien dobry",
        "witam",
        "szanowni",
        "ahoj",
        "dobry den",
        "здравствуйте",
        "привет",
        "добрыи день",
        "уважаемые",
        "уважаемыи",
        "доброго дня",
        "merhaba",
        "sayin",
        "您好",
        "你好",
        "こんにちは",
        "お世話になっております",
        "안녕하세요",
        "مرحبا",
        "السلام عليكم",
        "שלום",
    ])
});

/// How messages close. A short line that is one of these, or begins with one and a comma, begins the
/// signature.
static CLOSINGS: LazyLock<Vec<String>> = LazyLock::new(|| {
    folded_all(&[
        "best",
        "best regards",
        "kind regards",
        "warm regards",
        "regards",
        "many thanks",
        "thanks",
        "thank you",
        "cheers",
        "sincerely",
        "yours sincerely",
        "yours faithfully",
        "mit freundlichen grussen",
        "freundliche grusse",
        "viele grusse",
        "beste grusse",
        "herzliche grusse",
        "liebe grusse",
        "mfg",
        "vg",
        "lg",
        "gruss",
        "cordialement",
        "bien cordialement",
        "bien a vous",
        "salutations",
        "merci",
        "saludos",
        "un saludo",
        "atentamente",
        "cordiales saludos",
        "gracias",
        "cordiali saluti",
        "distinti saluti",
        "saluti",
        "grazie",
        "atenciosamente",
        "cumprimentos",
        "obrigado",
        "obrigada",
        "met vriendelijke groet",
        "groeten",
        "groet",
        "med venlig hilsen",
        "med vanliga halsningar",
        "vennlig hilsen",
        "mvh",
        "pozdrawiam",
        "z powazaniem",
        "s pozdravem",
        "с уважением",
        "saygilarimla",
        "此致",
        "敬具",
        "よろしくお願いいたします",
        "감사합니다",
    ])
});

/// The beginnings of lines that mail programs add, in lower case and without accents (see [`fold`]). The
/// preview ends before such a line.
const MAIL_PROGRAM_LINES: &[&str] = &[
    "sent from my ",
    "get outlook for ",
    "von meinem ",
    "gesendet von ",
    "envoye de mon ",
    "enviado desde mi ",
    "inviato da ",
    "-----original message",
    "-----ursprungliche nachricht",
    "----- forwarded message",
    "begin forwarded message",
];

fn folded_all(texts: &[&str]) -> Vec<String> {
    texts.iter().map(|text| fold(text)).collect()
}

/// The beginning of a message in one line of at most [`MAX_PREVIEW`] characters, with `…` if it continues.
/// Leaves out greetings, quotes and the lines that introduce them, and the end of the message from the
/// closing, the signature or a mail program's line on. If nothing else is left, the beginning of the whole
/// message.
pub(super) fn preview(message: &str) -> String {
    let mut text = String::new();
    let mut is_start = true;
    let message = with_line_feeds(message);
    for line in message.lines().map(|line| cut(line.trim(), MAX_LINE)) {
        // `line` is already truncated, because folding a long line is slow for some letters.
        let folded = fold(line);
        if is_end(line, &folded, is_start) {
            break;
        }
        if line.is_empty() || line.starts_with('>') || is_attribution(&folded) {
            continue;
        }
        let rest = if is_start { without_greeting(line, &folded) } else { line };
        is_start = is_start && rest.is_empty();
        join(&mut text, rest);
        if text.chars().count() > MAX_PREVIEW {
            break;
        }
    }
    if text.is_empty() {
        for line in message.lines().map(|line| cut(line.trim(), MAX_LINE)) {
            join(&mut text, line);
            if text.len() > 8 * MAX_PREVIEW {
                break;
            }
        }
    }
    let shown = cut(&text, MAX_PREVIEW);
    if shown.len() < text.len() { format!("{}…", shown.trim_end()) } else { text }
}

/// Adds a line to a text, after a space unless one of the two is empty.
fn join(text: &mut String, line: &str) {
    if !text.is_empty() && !line.is_empty() {
        text.push(' ');
    }
    text.push_str(line);
}

/// Whether a line ends the message: it begins the signature (`--`, `—` or a line of at least four `_`) or
/// what a mail program added, or it is a closing of at most [`MAX_CLOSING`] characters. `folded` is the line
/// after [`fold`]. At the start of the message, no line is a closing.
fn is_end(line: &str, folded: &str, is_start: bool) -> bool {
    if line == "--" || line == "—" || line.len() >= 4 && line.chars().all(|c| c == '_') {
        return true;
    }
    if MAIL_PROGRAM_LINES.iter().any(|start| folded.starts_with(start)) {
        return true;
    }
    let words = folded.trim_end_matches([',', '.', '!', ' ', '，', '。', '！']);
    // `Thanks, Ada` closes a message; `Thanks for the offer` does not.
    let is_closing = |closing: &String| {
        words.strip_prefix(closing.as_str()).is_some_and(|rest| rest.is_empty() || rest.starts_with(','))
    };
    !is_start && line.chars().count() <= MAX_CLOSING && CLOSINGS.iter().any(is_closing)
}

/// Whether a line, after [`fold`], names the author of the quote below it, such as `On Monday, Ada wrote:`.
fn is_attribution(folded: &str) -> bool {
    let starts = ["on ", "am ", "le ", "el ", "il ", "op ", "em "];
    let verbs = [" wrote:", " schrieb", " a ecrit", " escribio:", " ha scritto:", " schreef", " escreveu:"];
    folded.ends_with(':')
        && starts.iter().any(|start| folded.starts_with(start))
        && verbs.iter().any(|verb| folded.contains(verb))
}

/// A line without its greeting. The greeting ends at punctuation such as a comma, but not at `.` or `?`, or,
/// if the line has none and at most three words, with the line. A line stays as it is if it has no greeting,
/// or one that is longer than [`MAX_GREETING`] or [`MAX_GREETING_WORDS`]. `folded` is the line after
/// [`fold`].
fn without_greeting<'a>(line: &'a str, folded: &str) -> &'a str {
    let has_greeting = GREETINGS.iter().any(|greeting| {
        let rest = folded.strip_prefix(greeting.as_str());
        // An ASCII greeting must be a whole word; other scripts may have no space after a word.
        rest.is_some_and(|rest| {
            rest.chars().next().is_none_or(|c| !c.is_alphanumeric()) || !greeting.is_ascii()
        })
    });
    if !has_greeting {
        return line;
    }
    let is_short = |text: &str| {
        text.chars().count() <= MAX_GREETING && text.split_whitespace().count() <= MAX_GREETING_WORDS
    };
    let ends = [',', '!', ':', '，', '！', '。', '、', ';'];
    // `ends` has no period, which may be a part of `Dr.`. So a greeting before a period stays, unless it is
    // short.
    match line.find(|c| ends.contains(&c)) {
        Some(at) if is_short(&line[..at]) => {
            line[at..].trim_start_matches(|c: char| ends.contains(&c) || c == ' ')
        }
        None if line.split_whitespace().count() <= 3 => "",
        _ => line,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn greetings_quotes_and_signatures_are_left_out() {
        let check = |message: &str, expected: &str| assert_eq!(preview(message), expected, "{message}");
        check(
            "Hello,\n\nwe need two robots.\nBefore spring.\n\nBest regards\nAda",
            "we need two robots. Before spring.",
        );
        check("Dear Sir or Madam, please send a quote.", "please send a quote.");
        check(
            "Sehr geehrte Damen und Herren,\u{b}ich suche eine Pumpe.\r\r\nMit freundlichen Grüßen\r\nA. B.",
            "ich suche eine Pumpe.",
        );
        check("Bonjour Madame,\nun devis ?\nCordialement,\nZoé", "un devis ?");
        check("> old text\n> more\nOn Monday, Bob wrote:\nYes please", "Yes please");
        check("A question\n--\nAda Lovelace\nACME", "A question");
        check("Price?\n\nSent from my iPhone", "Price?");
        check("您好，请报一下价格", "请报一下价格");
        check("Hi there\nHow much?", "How much?");
        check("Thanks for the offer, we take it.", "Thanks for the offer, we take it.");
        check("We take it.\nThanks, Ada", "We take it.");
    }

    #[test]
    fn texts_that_only_look_like_greetings_stay() {
        for message in [
            "Hello Kitty merchandise for our shop, do you sell it?",
            "Highly interested in your product",
            "Hibernation mode does not work",
            "Dear customers of yours have told me that you repair engines, is that so?",
            "Hallo",
            "> only a quote",
            "Best price for ten?",
            "Carl",
        ] {
            assert_eq!(preview(message), message);
        }
        assert_eq!(preview(""), "");
        assert_eq!(preview(" \n\t"), "");
        assert_eq!(preview("Hi,\n--\nAda"), "Hi, -- Ada");
    }

    #[test]
    fn long_messages_are_cut() {
        let text = preview(&"word ".repeat(100));
        assert!(text.ends_with("word…") && text.chars().count() <= MAX_PREVIEW + 1, "{text}");
        assert_eq!(preview(&"ä".repeat(MAX_PREVIEW)), "ä".repeat(MAX_PREVIEW));
        assert!(preview(&"\u{fdfa}".repeat(10_000)).chars().count() <= MAX_PREVIEW + 1);
    }
}
