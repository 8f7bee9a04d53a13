//! Recognizes values of controls that refuse a consent, such as `no`, `Hayır` or `不同意`.

use unicode_normalization::UnicodeNormalization as _;

use crate::text::is_blank;

/// First words that refuse a consent with any text after them, in lower case. Hidden controls before a box,
/// radio buttons and menus have such values. A word that also begins an assent in some language is not here:
/// `не` also begins the Russian for "I do not mind".
#[rustfmt::skip]
const WORDS: &[&str] = &[
    // English, and values that programs write
    "0", "declined", "decline", "denied", "deny", "disagree", "false", "n", "no", "none", "not", "null", "off", "optout",
    "refuse", "refused", "reject", "rejected", "unchecked", "undefined",
    // German, Dutch and the Scandinavian languages
    "abgelehnt", "ablehnen", "nee", "nei", "nein", "nej", "weiger", "weigeren",
    // Romance languages
    "nao", "ne", "non", "não", "rechazar", "rechazo", "recusar", "recuso", "refus", "refuser", "refusé", "refusée", "refuz",
    "rejeitar", "rejeito", "rifiuta", "rifiuto",
    // Slavic and Baltic languages
    "neću", "nechcem", "nechci", "nepiekrītu", "nesouhlasím", "nesutinku", "nesúhlasím", "nie", "nē", "odbij", "odbijam",
    "odmawiam", "odmietam", "odmítám", "odrzucam", "odrzuć", "відмовляюся", "відмовляюсь", "відхилити", "нет", "нећу", "ні",
    "одбијам", "отказвам", "отказываюсь", "отклонить",
    // Greek, Finnish, Estonian, Hungarian and Turkish
    "elutasítom", "hayir", "hayır", "istemiyorum", "keeldun", "kieltäydyn", "onaylamıyorum", "reddediyorum", "αρνούμαι",
    "απορρίπτω", "διαφωνώ", "οχι", "όχι",
    // Asian languages
    "khong", "menolak", "tolak", "असहमत", "नहीं", "いいえ", "否", "거부", "거절", "아뇨", "아니오", "아니요",
];

/// Texts that refuse consent if nothing or punctuation follows. If other words follow, the text may agree.
#[rustfmt::skip]
const ALONE: &[&str] = &[
    "-", "–", "—", "[]", "{}", "✗", "✘", "❌", "ei", "ez", "kein", "keine", "không", "nem", "nu", "opt out", "opt-out",
    "nu vreau", "tidak", "tidak mau", "unsubscribe", "відмова", "не", "не искам", "не хочу", "отказ", "לא", "לא רוצה", "لا",
    "رفض", "نه", "خیر", "ไม่", "ไม่ต้องการ", "不", "不要",
];

/// Words for "I" that may precede [`BEGINNINGS`], with a trailing space in languages that use spaces.
const PRONOUNS: &[&str] =
    &["i ", "ich ", "je ", "ik ", "jag ", "jeg ", "eu ", "аз ", "я ", "saya ", "tôi ", "אני ", "我"];

/// Beginnings of texts that refuse consent. One of [`PRONOUNS`] may precede them. Some are word stems.
#[rustfmt::skip]
const BEGINNINGS: &[&str] = &[
    "do not accept", "do not agree", "do not consent", "do not want to receive", "do not wish to receive", "don't accept",
    "don't agree", "don't consent", "don't want to receive", "bin nicht einverstanden", "lehne ab", "nicht akzept",
    "nicht einverstanden", "nicht jetzt", "nicht zustimm", "stimme nicht zu", "möchte nicht kontaktiert",
    "möchte keine werbung", "möchte keinen newsletter", "willige nicht ein", "ga niet akkoord", "niet akkoord",
    "geen toestemming", "accepterar inte", "accepterer ikke", "godkänner inte", "godtar ikke", "ikke enig", "ikke nu",
    "ikke nå", "inte nu", "samtykker ikke", "samtycker inte", "n'accepte pas", "ne consens pas", "ne souhaite pas recevoir",
    "ne suis pas d'accord", "ne veux pas recevoir", "pas d'accord", "refuse", "não aceito", "não autorizo", "não concordo",
    "nu accept", "nu doresc", "nu mulțumesc", "nu sunt de acord", "не бажаю", "не благодаря", "не даю соглас",
    "не жела", "не згод", "не искам да получ", "не надо", "не погодж", "не приема", "не прийма", "не принима", "не сейчас", "не соглас",
    "не съм соглас", "не съм съглас", "не хочу получ", "en hyväksy", "en suostu", "ei aitäh", "ei kiitos", "ei nõustu", "ei soovi",
    "nem egyez", "nem fogad", "nem járul", "nem kér", "nem köszön", "δεν αποδέχομαι", "δεν επιθυμώ", "δεν συμφωνώ",
    "tidak setuju", "tidak terima kasih", "từ chối", "không chấp nhận", "không đồng ý", "לא מאשר", "לא מסכי",
    "غير موافق", "لا أقبل", "لا أوافق", "لا اوافق", "ไม่ยอมรับ", "ไม่ยินยอม", "不同意", "不接受", "不需要",
    "拒绝",
];

/// Endings of texts that refuse consent, in languages in which the verb ends the sentence.
#[rustfmt::skip]
const ENDINGS: &[&str] = &[
    "同意しない", "同意しません", "同意できません", "希望しない", "希望しません", "受け取らない", "受け取りません", "拒否", "拒否する",
    "동의하지 않음", "동의하지 않습니다", "비동의", "kabul etmiyorum", "izin vermiyorum",
];

/// Whether the value of a control refuses a consent: by its first word, by its beginning or end, or as a
/// whole. Any other text, such as `on`, `I agree` or `Newsletter`, is the value of a box that is ticked.
pub(crate) fn says_no(text: &str) -> bool {
    // Lowercasing `İ` yields `i` and a combining dot, U+0307. Remove the dot.
    let text: String = text.to_lowercase().nfc().filter(|c| *c != '\u{307}').collect();
    let text = text.replace('’', "'");
    let text = text.trim_matches(|c| is_blank(c) || ".!。！".contains(c));
    let first = text.split(|c: char| !c.is_alphanumeric()).next().unwrap_or_default();
    let clause = text.split(|c: char| ".,;:!?()/，。、؛،".contains(c)).next().unwrap_or_default();
    let said = PRONOUNS.iter().find_map(|pronoun| text.strip_prefix(pronoun)).unwrap_or(text);
    WORDS.contains(&first)
        || ALONE.contains(&text)
        || ALONE.contains(&clause.trim_matches(is_blank))
        || BEGINNINGS.iter().any(|words| said.starts_with(words))
        || ENDINGS.iter().any(|words| text.ends_with(words))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[rustfmt::skip]
    fn refusals_of_all_languages_are_told_from_assents() {
        for text in [
            "no", "No, thanks", "Nein, danke", "нет", "Не согласен", "Я не согласна", "не", "Не, благодаря", "Не хочу",
            "Не съм съгласен", "Не приемам", "Не погоджуюсь", "Hayır", "HAYIR", "İstemiyorum", "Kabul etmiyorum", "Nem",
            "Nem, köszönöm", "Nem járulok hozzá", "ei", "Ei kiitos", "En hyväksy", "Nu", "Nu, mulțumesc", "Nu sunt de acord",
            "否", "否，谢谢", "不同意", "我不同意", "不需要", "لا", "لا، شكرا", "لا أوافق", "Όχι", "όχι, ευχαριστώ", "Δεν συμφωνώ",
            "아니요", "동의하지 않습니다", "לא", "אני לא מסכים", "không", "Tôi không đồng ý", "Tidak", "Saya tidak setuju", "ไม่",
            "ไม่ยินยอม", "नहीं", "nē", "いいえ、結構です", "メール配信を希望しない", "同意しません。", "na\u{303}o", "deny", "denied", "reject",
            "rejected", "opt-out", "Opt out", "unsubscribe", "I do not agree", "I don’t agree", "do not agree",
            "Ich stimme nicht zu", "Nicht einverstanden", "je refuse", "Je n'accepte pas", "Refusé", "rifiuto", "rechazo",
            "Ikke nå", "Jeg samtykker ikke", "Odmítám", "-", "[]", "0", "0.0",
        ] {
            assert!(says_no(text), "{text}");
        }
        for text in [
            "on", "true", "1", "-1", "yes", "Y", "x", "✓", "✔", "I agree", "I am not a robot", "I don't want to miss news",
            "Don't miss our news", "Do not call me", "Never miss an offer", "Yes, and I can opt out at any time",
            "I agree; I may unsubscribe", "newsletter", "Notizen", "Normal", "Nothing to hide", "Nur per E-Mail",
            "Ich möchte nichts verpassen", "Nicht verpassen", "Ja, ich stimme zu", "Keine Einwände", "Geen bezwaar",
            "Nu aanmelden", "Nu anmälan", "Ei e-post i månaden", "En savoir plus", "En accord", "Je ne veux rien manquer",
            "Ikke gå glipp av noe", "Sí, acepto", "Sim, não sou um robô", "да", "Не возражаю", "Не против", "Я не робот",
            "Не пропускать новости", "Не възразявам", "Отказ от ответственности прочитан", "Evet", "Robot değilim", "Igen",
            "Kyllä", "是", "同意", "不反对", "我不是机器人", "不要错过优惠", "نعم", "لا مانع", "אין התנגדות", "Đồng ý", "ยินยอม", "हाँ",
            "同意する", "希望する", "동의함",
        ] {
            assert!(!says_no(text), "{text}");
        }
    }
}
