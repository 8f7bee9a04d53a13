//! Decodes the bodies that browsers send without JavaScript: `application/x-www-form-urlencoded`
//! (URL Standard §5.1) and `multipart/form-data` (RFC 7578).
//!
//! The values are checked like those that the forms' script sends. To make the same text equal however it was
//! sent, CR LF becomes a line feed.

use std::borrow::Cow;

use encoding_rs::{Encoding, ISO_2022_JP, UTF_8, WINDOWS_1252};

use super::json_post::{
    Extras, HONEYPOT_MEMBER, InvalidField, ParsedForm, Rejection, adds_to_list, has_visible_text, parse_texts,
};
use super::{Field, FieldKind, FieldValue, Form, LeadSource};
use crate::lead_source::lead_member;
use crate::multipart::parts;
use crate::urlencoded::pairs;
use crate::value::is_filled_in;

/// The decoded fields of a form, not yet checked. Of several values for one field the last one that is filled
/// in counts, except for [`FieldKind::Choices`]: a page may have a control twice, such as for narrow screens.
pub struct PostedForm {
    form: &'static Form,
    values: Vec<(&'static Field, String)>,
    extras: Extras,
    lead: LeadSource,
    /// Whether all names, and the values of fields and of the honeypot, were valid in their encoding, so that
    /// they can be stored.
    is_readable: bool,
    has_file: bool,
}

/// The names and values in a body, in order of appearance, in the client's encoding, and whether the value is
/// UTF-8 instead.
type Pairs<'a> = Vec<(Cow<'a, [u8]>, Cow<'a, [u8]>, bool)>;

/// The byte that begins the escape sequences of ISO-2022-JP.
const ESCAPE: u8 = 0x1b;

impl PostedForm {
    /// Decodes a body, like [`Self::decode_declared`], as UTF-8 or in the encoding that `_charset_` names.
    /// Fails if the result is not readable ([`Self::is_readable`]).
    pub fn decode(form: &'static Form, body: &[u8]) -> Result<PostedForm, Rejection> {
        let posted = Self::decode_declared(form, body, None);
        if posted.is_readable { Ok(posted) } else { Err(Rejection::FormNotUtf8) }
    }

    /// Decodes a body as UTF-8 first, because many clients name another encoding but send UTF-8. If the
    /// result is not readable ([`Self::is_readable`]), decodes it in the declared encoding: the value of the
    /// last field `_charset_` (HTML, form submission), or else `charset`, the parameter of the media type. If
    /// ISO-2022-JP is declared, tries it before UTF-8, because texts in that encoding are also valid UTF-8,
    /// and does not try UTF-8 if a name or value contains an escape sequence. If decoding fails, decodes the
    /// body as windows-1252, so that the visitor can correct the text; [`Self::parse`] then fails.
    ///
    /// Skips a byte order mark before the body, and fields that the form does not have, except for the
    /// honeypot and the source of the lead. `NAME[]` is the field `NAME`. Replaces CR LF with LF.
    pub fn decode_declared(form: &'static Form, body: &[u8], charset: Option<&[u8]>) -> PostedForm {
        let body = body.strip_prefix("\u{feff}".as_bytes()).unwrap_or(body);
        let pairs =
            pairs(body).map(|(name, value)| (name.decode_bytes().into(), value.decode_bytes().into(), false));
        Self::decode_pairs(form, &pairs.collect(), charset)
    }

    /// Like [`Self::decode_declared`], for a `multipart/form-data` body with this boundary. A file makes
    /// [`Self::parse`] fail, even in a field that the form does not have, because it would not be stored. A
    /// field for files without a file is an empty text. A part that names its own encoding is decoded in it.
    pub fn decode_multipart(
        form: &'static Form,
        body: &[u8],
        boundary: &[u8],
        charset: Option<&[u8]>,
    ) -> PostedForm {
        let parts = parts(body, boundary);
        let has_file = parts.iter().any(|part| part.is_file);
        let texts = parts.iter().filter(|part| !part.is_file);
        let pairs = texts.map(|part| (part.name.into(), part.value.clone(), part.is_converted)).collect();
        PostedForm { has_file, ..Self::decode_pairs(form, &pairs, charset) }
    }

    /// Decodes names and values in the first encoding that fits, as [`Self::decode_declared`] describes.
    fn decode_pairs(form: &'static Form, pairs: &Pairs<'_>, charset: Option<&[u8]>) -> PostedForm {
        let named = pairs.iter().rfind(|(name, ..)| **name == *b"_charset_");
        let label = named.map_or(charset.unwrap_or_default(), |(_, label, _)| label);
        // For a form that declares UTF-16, browsers send UTF-8, which is the output encoding of UTF-16.
        let declared = Encoding::for_label(label).map(Encoding::output_encoding);
        // Text in ISO-2022-JP consists of ASCII bytes, so it is always valid UTF-8, too.
        let is_escaped = |(name, value, _): &(Cow<[u8]>, Cow<[u8]>, bool)| {
            name.contains(&ESCAPE) || value.contains(&ESCAPE)
        };
        let encodings = match declared == Some(ISO_2022_JP) {
            true if pairs.iter().any(is_escaped) => [declared, None],
            true => [declared, Some(UTF_8)],
            false => [Some(UTF_8), declared],
        };
        for encoding in encodings.into_iter().flatten() {
            let posted = Self::decode_as(form, pairs, encoding);
            if posted.is_readable {
                return posted;
            }
        }
        PostedForm { is_readable: false, ..Self::decode_as(form, pairs, WINDOWS_1252) }
    }

    /// Decodes names and values in an encoding, and values that are UTF-8 as such. The result is not readable
    /// if a name, or the value of a field or of the honeypot, is invalid. The source of the lead is always
    /// UTF-8, or counts as empty. Of repeated fields, the last that is filled in counts; choices add up.
    fn decode_as(form: &'static Form, pairs: &Pairs<'_>, encoding: &'static Encoding) -> PostedForm {
        let (values, extras, lead) = Default::default();
        let mut posted = PostedForm { form, values, extras, lead, is_readable: true, has_file: false };
        let mut is_readable = true;
        let mut decode = |text: &[u8], encoding: &'static Encoding| {
            let (text, has_errors) = encoding.decode_without_bom_handling(text);
            is_readable &= !has_errors;
            text.into_owned()
        };
        for (name, value, is_utf_8) in pairs {
            let name = decode(name, encoding);
            let encoding = if *is_utf_8 { UTF_8 } else { encoding };
            if let Some(field) = form.posted_field(&name) {
                let value = decode(value, encoding).replace("\r\n", "\n");
                if field.kind == FieldKind::Choices {
                    if adds_to_list(field, posted.all_values(field.name), &value) {
                        posted.values.push((field, value));
                    }
                    continue;
                }
                match posted.values.iter_mut().find(|(known, _)| known.name == field.name) {
                    Some(known) if is_filled_in(field, &known.1) && !is_filled_in(field, &value) => {}
                    Some(known) => known.1 = value,
                    None => posted.values.push((field, value)),
                }
            } else if name == HONEYPOT_MEMBER {
                posted.extras.honeypot = has_visible_text(&decode(value, encoding));
            } else if let Some(member) = lead_member(&name) {
                posted.lead.set(member, str::from_utf8(value).unwrap_or_default());
            }
        }
        PostedForm { is_readable, ..posted }
    }

    /// Whether all names, and the values of the form's fields and the honeypot, are valid in UTF-8 or in the
    /// declared encoding. If not, characters may be wrong.
    pub fn is_readable(&self) -> bool {
        self.is_readable
    }

    /// The length in bytes of the decoded values of the form's fields.
    pub fn values_length(&self) -> usize {
        self.values.iter().map(|(_, value)| value.len()).sum()
    }

    /// Checks the fields. Fails if the body is not readable, or else with all fields that have problems, or
    /// else if there is a file.
    pub fn parse(&self) -> Result<ParsedForm, Rejection> {
        if !self.is_readable {
            return Err(Rejection::FormNotUtf8);
        }
        let entry = parse_texts(self.form, &self.values)?;
        if self.has_file {
            return Err(Rejection::File);
        }
        Ok(ParsedForm { entry, extras: self.extras, lead: self.lead.clone() })
    }

    /// The fields with problems. Empty if the body is not readable, because its fields are then not checked.
    pub fn invalid_fields(&self) -> Vec<InvalidField> {
        match self.parse() {
            Err(Rejection::Fields(fields)) => fields,
            _ => Vec::new(),
        }
    }

    /// The decoded value of a field; for a list, the first value. Empty if the field was not sent.
    pub fn value(&self, name: &str) -> &str {
        self.all_values(name).next().unwrap_or_default()
    }

    /// The value to show in the control of a field: the decoded value, but the normal form of an accepted
    /// number or day, because browsers empty their controls for other spellings, such as `1,5` (HTML, "value
    /// sanitization algorithm").
    pub fn control_value(&self, field: &Field) -> Cow<'_, str> {
        let sent = self.value(field.name);
        let accepted = matches!(field.kind, FieldKind::Number | FieldKind::Date);
        match accepted.then(|| field.value_of_control(sent)).flatten() {
            Some(FieldValue::Number(number)) => Cow::Owned(number.to_string()),
            Some(FieldValue::Text(day)) => Cow::Owned(day),
            _ => Cow::Borrowed(sent),
        }
    }

    /// All decoded values of a field, such as the selected options of a list; none if it was not sent.
    pub fn all_values(&self, name: &str) -> impl Iterator<Item = &str> {
        self.values.iter().filter(move |(field, _)| field.name == name).map(|(_, value)| &**value)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;
    use crate::{CONTACT, FormSet, WAITLIST, parse};

    #[test]
    fn a_body_is_decoded_as_browsers_encode_it() {
        for (body, expected) in [
            ("email=ada%40example.com", "ada@example.com"),
            ("email=ada@example.com", "ada@example.com"),
            ("email=+ada%40example.com%20&x=1&desk_note=", "ada@example.com"),
            ("email=a@b&email=ada@example.com", "ada@example.com"),
            ("email=+ada@m%C3%BCnchen.example", "ada@xn--mnchen-3ya.example"),
            ("&&email=ada@example.com&", "ada@example.com"),
            ("email=%E2%80%AAada@example.com%E2%80%AC", "ada@example.com"),
            ("email=%EF%BB%BF%C2%A0ada%E2%80%8B@example.com%E2%80%8B", "ada@example.com"),
            ("email=%22a%20b%22@example.com", "\"a b\"@example.com"),
            ("%65mail=ada@example.com", "ada@example.com"),
            ("\u{feff}email=ada@example.com", "ada@example.com"),
        ] {
            let posted = PostedForm::decode(&WAITLIST, body.as_bytes()).unwrap();
            assert_eq!(posted.parse().unwrap().entry.get("email"), Some(expected), "{body}");
        }
        let body = "name=Ada+%2B+100%&email=a%40b&message=One%0D%0ATwo%0d%0A%C3%BC=%26";
        let posted = PostedForm::decode(&CONTACT, body.as_bytes()).unwrap();
        assert_eq!((posted.value("name"), posted.value("message")), ("Ada + 100%", "One\nTwo\nü=&"));
        assert_eq!(posted.value("company"), "");
    }

    /// Checks which entry is read from each body; `None` for a body that is rejected.
    fn check(rows: &[(&str, Option<serde_json::Value>)]) {
        let text = "title = \"T\"\n\
             [[field]]\nname = \"seats\"\ntype = \"number\"\nmax = 2000\nlabel = \"S\"\n\
             [[field]]\nname = \"price\"\ntype = \"number\"\nstep = \"any\"\nmax = 2000\nlabel = \"P\"\n\
             [[field]]\nname = \"day\"\ntype = \"date\"\nlabel = \"D\"\n\
             [[field]]\nname = \"site\"\ntype = \"url\"\nlabel = \"W\"\n\
             [[field]]\nname = \"days\"\ntype = \"choices\"\noptions = [\"Mon\", \"Tue\"]\nlabel = \"D\"\n\
             [[field]]\nname = \"place\"\ntype = \"text\"\nlabel = \"P\"\n\
             [[field]]\nname = \"news\"\ntype = \"consent\"\nrequired = false\nlabel = \"No calls\"\n";
        let form = crate::FormFile::read("posted", text, "forms/posted.toml").unwrap().form;
        for (body, expected) in rows {
            let posted = PostedForm::decode(form, body.as_bytes()).unwrap();
            let found = posted.parse().ok().map(|parsed| json!(parsed.entry));
            assert_eq!(found, *expected, "{body}");
        }
    }

    #[test]
    fn controls_show_accepted_numbers_and_days_in_their_normal_form() {
        let text = "title = \"T\"\n\
             [[field]]\nname = \"price\"\ntype = \"number\"\nstep = \"any\"\nmax = 2000\nlabel = \"P\"\n\
             [[field]]\nname = \"day\"\ntype = \"date\"\nlabel = \"D\"\n\
             [[field]]\nname = \"mail\"\ntype = \"email\"\nlabel = \"M\"\n";
        let form = crate::FormFile::read("controls", text, "forms/controls.toml").unwrap().form;
        for (body, name, expected) in [
            ("price=1,5&mail=bad", "price", "1.5"),
            ("price=many", "price", "many"),
            ("day=２０２６－11－27", "day", "2026-11-27"),
            ("mail=+Ada", "mail", " Ada"),
            ("mail=a@b", "day", ""),
        ] {
            let posted = PostedForm::decode(form, body.as_bytes()).unwrap();
            assert_eq!(posted.control_value(form.field(name).unwrap()), expected, "{body}");
        }
    }

    #[test]
    fn values_are_read_as_visitors_and_pages_write_them() {
        check(&[
            ("seats=12", Some(json!({ "seats": 12 }))),
            ("seats=１２", Some(json!({ "seats": 12 }))),
            ("seats=١٢+", Some(json!({ "seats": 12 }))),
            ("seats=12.0", Some(json!({ "seats": 12 }))),
            ("seats=1.000", None),
            ("seats=1,000", None),
            ("seats=1.000%09", None),
            ("seats=1.000%E3%80%80%0A", None),
            ("seats=%0912%0A", Some(json!({ "seats": 12 }))),
            ("price=1,125%09", None),
            ("price=1,125%0A", None),
            ("price=1,5%09", Some(json!({ "price": 1.5 }))),
            ("day=%092026-11-27%0A", Some(json!({ "day": "2026-11-27" }))),
            ("price=1.125", Some(json!({ "price": 1.125 }))),
            ("price=1,5", Some(json!({ "price": 1.5 }))),
            ("price=-12，50", Some(json!({ "price": -12.5 }))),
            ("price=1,125", None),
            ("price=1,5,5", None),
            ("price=1.5,5", None),
            ("seats=1,5", None),
            ("place=A%09B", Some(json!({ "place": "A B" }))),
            ("place=A%0AB", None),
            ("day=２０２６-11－27", Some(json!({ "day": "2026-11-27" }))),
            ("site=https://", Some(json!({}))),
            ("site=+HTTP://+", Some(json!({}))),
            ("site=https:", None),
            ("days[]=Tue&days[]=Mon", Some(json!({ "days": ["Mon", "Tue"] }))),
            ("seats[][]=2&seats[0]=2&[]=2", Some(json!({}))),
            ("news=accepted", Some(json!({ "news": true }))),
            ("news=no", Some(json!({}))),
            ("news=Nein,+danke", Some(json!({}))),
            ("news=unchecked", Some(json!({}))),
            ("news=%D0%9D%D0%B5+%D1%81%D0%BE%D0%B3%D0%BB%D0%B0%D1%81%D0%B5%D0%BD", Some(json!({}))),
            ("news=I+agree", Some(json!({ "news": true }))),
            ("news=opt-out", Some(json!({}))),
            ("news=no+calls.", Some(json!({ "news": true }))),
            ("news=Notizen", Some(json!({ "news": true }))),
            ("news=+", Some(json!({}))),
        ]);
    }

    #[test]
    fn doubled_controls_have_one_value_and_lists_all_options() {
        check(&[
            ("site=https://a.example&site=+HTTPS://&site=", Some(json!({ "site": "https://a.example/" }))),
            ("site=https://&site=https://a.example", Some(json!({ "site": "https://a.example/" }))),
            ("place=A&place=https://", Some(json!({ "place": "https://" }))),
            ("days=Tue&days=Tue&days=", Some(json!({ "days": ["Tue"] }))),
            ("days=Mon&days=Mon&days=Mon&days=Tue&days=Mon", Some(json!({ "days": ["Mon", "Tue"] }))),
            ("days=&days=+&days=Tue&days=&days=Mon&days=", Some(json!({ "days": ["Mon", "Tue"] }))),
            ("days=Mon&days=Tue&days=Sun", None),
            ("days=Sat&days=Sun&days=Fri&days=Mon&days=Tue", None),
            ("days=&days=+", Some(json!({}))),
            ("seats[]=1&seats=2", Some(json!({ "seats": 2 }))),
            ("seats=1&seats=+&place=&place=A", Some(json!({ "seats": 1, "place": "A" }))),
            ("news=0&news=1", Some(json!({ "news": true }))),
        ]);
    }

    #[test]
    fn the_same_fields_make_the_same_entry_as_json() {
        let body = b"name=Ada&email=a%40b&message=One%0D%0ATwo";
        let json = br#"{"name":"Ada","email":"a@b","message":"One\nTwo"}"#;
        let posted = PostedForm::decode(&CONTACT, body).unwrap();
        assert_eq!(posted.parse().unwrap().entry, parse(&CONTACT, json).unwrap());
        let body = b"firstname=Ada&lastname=L&email=a%40b&company=C&message=";
        let json = br#"{"firstname":"Ada","lastname":"L","email":"a@b","company":"C"}"#;
        let posted = PostedForm::decode(&CONTACT, body).unwrap();
        assert_eq!(posted.parse().unwrap().entry, parse(&CONTACT, json).unwrap());
    }

    #[test]
    fn faults_are_those_of_json() {
        let body = b"name=&email=nobody&message=%00";
        let json = br#"{"name":"","email":"nobody","message":"\u0000"}"#;
        let posted = PostedForm::decode(&CONTACT, body).unwrap();
        assert_eq!(posted.parse().unwrap_err(), parse(&CONTACT, json).unwrap_err());
        assert_eq!(posted.invalid_fields().len(), 3);
        for body in ["name=%ff&email=a@b", "email=%C3", "%ff=1", "desk_note=%80"] {
            let error = PostedForm::decode(&CONTACT, body.as_bytes()).err();
            assert_eq!(error, Some(Rejection::FormNotUtf8), "{body}");
        }
        assert_eq!(PostedForm::decode(&CONTACT, b"email=\xff").err(), Some(Rejection::FormNotUtf8));
    }

    #[test]
    fn a_declared_encoding_is_honored() {
        for (body, charset, expected) in [
            ("name=Andr%E9", "iso-8859-1", Some("André")),
            ("name=%80", "windows-1252", Some("€")),
            ("name=Andr%E9&_charset_=windows-1252", "", Some("André")),
            ("_charset_=Shift_JIS&name=%83%65%83X%83%67", "utf-8", Some("テスト")),
            ("_charset_=iso-2022-jp&name=%1B$B%46%7C%1B(B", "", Some("日")),
            ("_charset_=iso-2022-jp&name=%1B$B%46%7C%1B(B%E6%97%A5", "", None),
            ("name=%E6%97%A5", "iso-2022-jp", Some("日")),
            // Clients that name another encoding often send UTF-8.
            ("name=Andr%C3%A9", "iso-8859-1", Some("André")),
            ("name=Andr%C3%A9", "utf-16", Some("André")),
            ("name=Andr%C3%A9", "none", Some("André")),
            ("name=Andr%E9", "none", None),
            ("name=Andr%E9", "", None),
            ("name=Andr%E9", "shift_jis", None),
            ("name=%E9%FF", "euc-jp", None),
        ] {
            let body = format!("{body}&email=a@b&message=Hello");
            let posted = PostedForm::decode_declared(&CONTACT, body.as_bytes(), Some(charset.as_bytes()));
            let parsed = posted.parse();
            let found = parsed.as_ref().ok().and_then(|parsed| parsed.entry.get("name"));
            assert_eq!((found, posted.is_readable()), (expected, expected.is_some()), "{body} {charset}");
        }
        let part = b"--x\r\nContent-Disposition: form-data; name=name\r\n\r\nAndr\xe9\r\n--x--";
        for (charset, is_readable) in [(Some(&b"iso-8859-1"[..]), true), (None, false)] {
            let posted = PostedForm::decode_multipart(&CONTACT, part, b"x", charset);
            assert_eq!((posted.value("name"), posted.is_readable()), ("André", is_readable));
        }
        let posted = PostedForm::decode_declared(&CONTACT, b"name=Andr%E9&message=caf%e9+%80", None);
        assert_eq!((posted.value("name"), posted.value("message")), ("André", "café €"));
        assert_eq!(posted.parse().err(), Some(Rejection::FormNotUtf8));
        assert_eq!(posted.values_length(), "André".len() + "café €".len());
    }

    #[test]
    fn a_part_with_its_own_encoding_is_decoded_once() {
        let japanese = "Content-Type: text/plain; charset=ISO-2022-JP\r\n";
        let latin = "Content-Type: text/plain; charset=iso-8859-1\r\n";
        let part = |name: &str, header: &str, value: &[u8]| {
            let head = format!("--x\r\nContent-Disposition: form-data; name={name}\r\n{header}\r\n");
            [head.as_bytes(), value, b"\r\n"].concat()
        };
        let day = b"\x1b$BF|\x1b(B";
        let charset = part("_charset_", "", b"ISO-2022-JP");
        for (first, name, message, declared, expected) in [
            (&[][..], ("", "日".as_bytes()), ("", "日".as_bytes()), "ISO-2022-JP", ("日", "日")),
            (&[], ("", day), ("", day), "ISO-2022-JP", ("日", "日")),
            (&charset, (japanese, day), ("", b"Hello"), "", ("日", "Hello")),
            (&charset, (japanese, day), ("", day), "", ("日", "日")),
            (&[], (japanese, day), (japanese, day), "ISO-2022-JP", ("日", "日")),
            (&[], (latin, b"Andr\xe9"), ("", b"caf\xe9"), "iso-8859-1", ("André", "café")),
        ] {
            let parts = [part("name", name.0, name.1), part("message", message.0, message.1)].concat();
            let body = [first, &parts, &part("email", "", b"a@b"), b"--x--"].concat();
            let posted = PostedForm::decode_multipart(&CONTACT, &body, b"x", Some(declared.as_bytes()));
            let found = (posted.value("name"), posted.value("message"));
            assert_eq!((found, posted.parse().is_ok()), (expected, true), "{declared}");
        }
    }

    #[test]
    fn the_honeypot_counts_only_with_visible_text() {
        for (body, expected) in
            [("", false), ("desk_note=", false), ("desk_note=+", false), ("desk_note=x", true)]
        {
            let body = format!("email=a@b&{body}");
            let posted = PostedForm::decode(&WAITLIST, body.as_bytes()).unwrap();
            let extras = posted.parse().unwrap().extras;
            assert_eq!((extras.honeypot, extras.time_to_fill), (expected, None), "{body}");
        }
    }

    proptest! {
        #[test]
        fn any_bytes_can_be_decoded(body in prop::collection::vec(any::<u8>(), 0..200)) {
            for form in FormSet::built_in().iter() {
                let _ = PostedForm::decode(form, &body).map(|posted| posted.parse().is_ok());
            }
        }

        #[test]
        fn encoded_text_is_decoded_to_itself(text in "\\PC{0,20}") {
            let encoded: String = text.bytes().map(|byte| format!("%{byte:02x}")).collect();
            let body = format!("message={encoded}");
            let posted = PostedForm::decode(&CONTACT, body.as_bytes()).unwrap();
            prop_assert_eq!(posted.value("message"), text.as_str());
        }
    }
}
