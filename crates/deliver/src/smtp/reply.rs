//! Reads replies of mail servers (RFC 5321 §4.2) from bytes.
//!
//! The code decides what a negative reply means, and after the message also the enhanced status code
//! (`enhanced_code.rs`). The rest of the text is for the operator: it may have any encoding and any length up
//! to the limit, or be missing. `smtp-proto` was considered: it ends the session at a separator
//! other than a space and at a line without a code, and discards the code of a reply that is cut off.

/// Maximum length of a reply in octets.
pub const MAX_REPLY_BYTES: usize = 32 * 1024;

/// Maximum number of octets of a line that are stored as text. The rest of the line is skipped.
const MAX_LINE_BYTES: usize = 1000;

/// A complete reply, or the readable beginning of one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SmtpReply {
    /// The code of the reply, from 200 to 599. If its lines have different codes, the last one counts.
    pub code: u16,
    /// The text of each line, without the code. Octets that are not UTF-8 are replaced.
    pub lines: Vec<String>,
}

impl SmtpReply {
    /// All lines, joined by spaces. If the first line begins with an enhanced status code (RFC 2034), other
    /// lines that begin with the same code lose it.
    pub fn text(&self) -> String {
        let first = self.lines.first().and_then(|line| line.split(' ').next());
        let code =
            first.filter(|word| word.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.')).unwrap_or("");
        let rest = |(number, line): (usize, &String)| match line.split_once(' ') {
            Some((word, rest)) if number > 0 && word == code => rest.trim_start().to_owned(),
            None if number > 0 && line == code => String::new(),
            _ => line.clone(),
        };
        self.lines.iter().enumerate().map(rest).collect::<Vec<_>>().join(" ")
    }

    pub fn is_positive(&self) -> bool {
        (200..300).contains(&self.code)
    }
}

/// The reason why a reply cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReplyError {
    #[error("the reply is longer than 32 KiB, the maximum")]
    TooLong,
    /// Contains the first line with a code that begins with a different digit than the first line's code.
    #[error(
        "the reply is not valid: the codes of its lines begin with different digits; the first line that differs is: {0}"
    )]
    MixedCodes(String),
}

/// Collects the lines of one reply.
///
/// A line ends in LF or CRLF. A line with a hyphen after the code is followed by another line; any other line
/// with a code is the last one. A line without a code is part of the text if it follows a line with one, and
/// is skipped otherwise.
#[derive(Debug, Default)]
pub struct ReplyReader {
    reply: SmtpReply,
    /// The beginning of the current line.
    line: Vec<u8>,
    /// The number of octets of this reply that were read so far.
    read: usize,
    has_skipped: bool,
}

impl ReplyReader {
    /// Reads `input` up to the end of the reply, and removes the octets read. `None` if the reply continues
    /// after `input`. Cuts lines to `MAX_LINE_BYTES`. After an error, the connection cannot be used any more.
    pub fn read(&mut self, input: &mut Vec<u8>) -> Result<Option<SmtpReply>, ReplyError> {
        let mut taken = 0;
        let mut result = Ok(None);
        for byte in &*input {
            taken += 1;
            self.read += 1;
            if self.read > MAX_REPLY_BYTES {
                result = Err(ReplyError::TooLong);
                break;
            }
            if *byte != b'\n' {
                if self.line.len() < MAX_LINE_BYTES {
                    self.line.push(*byte);
                }
                continue;
            }
            match self.end_line() {
                Ok(false) => {}
                Ok(true) => {
                    result = Ok(Some(std::mem::take(&mut self.reply)));
                    break;
                }
                Err(error) => {
                    result = Err(error);
                    break;
                }
            }
        }
        input.drain(..taken);
        result
    }

    /// Adds the current line to the reply, and returns whether it was the last one. A line without a code
    /// never is, and is left out before the first code. Fails if the line's code begins with another digit
    /// than that of the previous line.
    fn end_line(&mut self) -> Result<bool, ReplyError> {
        let line = std::mem::take(&mut self.line);
        let line = line.trim_ascii();
        let Some((code, rest)) = split_code(line) else {
            if self.reply.code > 0 {
                self.reply.lines.push(String::from_utf8_lossy(line).into_owned());
            } else {
                self.has_skipped = true;
            }
            return Ok(false);
        };
        if self.reply.code > 0 && self.reply.code / 100 != code / 100 {
            self.reply.code = 0;
            return Err(ReplyError::MixedCodes(String::from_utf8_lossy(line).into_owned()));
        }
        self.reply.code = code;
        let goes_on = rest.first() == Some(&b'-');
        let text = rest.strip_prefix(b"-").unwrap_or(rest).trim_ascii();
        self.reply.lines.push(String::from_utf8_lossy(text).into_owned());
        Ok(!goes_on)
    }

    /// Whether lines without a code came first. A server that sends such lines may not speak SMTP.
    pub fn has_skipped(&self) -> bool {
        self.has_skipped
    }

    /// The beginning of an incomplete reply, as far as it was read. `None` if it has no code, or codes of
    /// several classes.
    pub fn cut_off(&self) -> Option<SmtpReply> {
        let mut reply = self.reply.clone();
        if let Some((code, rest)) = split_code(self.line.trim_ascii_start()) {
            if reply.code > 0 && reply.code / 100 != code / 100 {
                return None;
            }
            reply.code = code;
            let text = rest.strip_prefix(b"-").unwrap_or(rest).trim_ascii();
            reply.lines.push(String::from_utf8_lossy(text).into_owned());
        }
        (reply.code > 0).then_some(reply)
    }
}

/// The code at the beginning of a line, and the rest. `None` if the line does not begin with a code from 200
/// to 599, or a fourth digit follows.
fn split_code(line: &[u8]) -> Option<(u16, &[u8])> {
    let (digits, rest) = line.split_first_chunk::<3>()?;
    if !matches!(digits[0], b'2'..=b'5') || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let code = digits.iter().fold(0, |code, digit| code * 10 + u16::from(digit - b'0'));
    (!rest.first().is_some_and(u8::is_ascii_digit)).then_some((code, rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_code_alone_decides() {
        for (bytes, code, text) in [
            (&b"250 2.0.0 taken\r\n"[..], 250, "2.0.0 taken"),
            (b"250\r\n", 250, ""),
            (b"354\n", 354, ""),
            (b"250 \r\n", 250, ""),
            (b"250-\r\n250\r\n", 250, " "),
            (b"250\tok\r\n", 250, "ok"),
            (b"250ok\r\n", 250, "ok"),
            (b" 250 ok\r\n", 250, "ok"),
            (b"250 ok\r\r\n", 250, "ok"),
            (b"250-one\r\n250-two\r\n250 three\r\n", 250, "one two three"),
            (b"250-one\r\n251 two\r\n", 251, "one two"),
            (b"250-one\r\nno code\r\n250 two\r\n", 250, "one no code two"),
            (b"\r\nWarning: x\r\n220 ready\r\n", 220, "ready"),
            (b"250 \xd3\xca\xbc\xfe\r\n", 250, "\u{fffd}\u{02bc}\u{fffd}"),
            (b"220 caf\xe9 \x00\r\n", 220, "caf\u{fffd} \0"),
            (b"554-5.7.1 no\n554 5.7.1 spam\n", 554, "5.7.1 no spam"),
            (b"550-5.1.1 a\n550-5.1.1\n550 5.1.10 b\n", 550, "5.1.1 a  5.1.10 b"),
            (b"550-4 tries\n550 42 hours\n", 550, "4 tries 42 hours"),
        ] {
            let reply = read(bytes).expect("readable").expect("complete");
            assert_eq!((reply.code, reply.text().as_str()), (code, text), "{bytes:?}");
        }
    }

    #[test]
    fn a_reply_may_arrive_in_any_pieces_and_leaves_the_rest() {
        let bytes = b"250-one\r\n250 two\r\n421 bye\r\n";
        let end = bytes.len() - b"421 bye\r\n".len();
        for cut in 0..end {
            let mut reader = ReplyReader::default();
            let (mut first, mut rest) = (bytes[..cut].to_vec(), bytes[cut..].to_vec());
            assert_eq!(reader.read(&mut first), Ok(None), "{cut}");
            let reply = reader.read(&mut rest).expect("readable").expect("complete");
            assert_eq!((reply.code, reply.text().as_str()), (250, "one two"), "{cut}");
            assert_eq!(rest, b"421 bye\r\n");
        }
    }

    #[test]
    fn lines_without_a_code_are_no_reply() {
        for bytes in [
            &b"HTTP/1.1 400 Bad Request\r\n"[..],
            b"\xff\xfe\r\n",
            b"999 x\r\n",
            b"2500 x\r\n",
            b"\r\n",
            b"25\r\n",
        ] {
            let mut reader = ReplyReader::default();
            assert_eq!(reader.read(&mut bytes.to_vec()), Ok(None), "{bytes:?}");
            assert!(reader.has_skipped() && reader.cut_off().is_none(), "{bytes:?}");
        }
    }

    #[test]
    fn codes_of_different_classes_are_no_reply() {
        let mut reader = ReplyReader::default();
        let mixed = Err(ReplyError::MixedCodes("550 two".to_owned()));
        assert_eq!(reader.read(&mut b"250-one\r\n550 two\r\n".to_vec()), mixed);
        assert_eq!(reader.cut_off(), None);
        let mut reader = ReplyReader::default();
        assert_eq!(reader.read(&mut b"250-one\r\n550".to_vec()), Ok(None));
        assert_eq!(reader.cut_off(), None);
    }

    #[test]
    fn the_code_of_a_reply_that_is_cut_off_can_be_read() {
        for (bytes, code) in [
            (&b"2"[..], None),
            (b"25", None),
            (b"250", Some(250)),
            (b"250 2.0.0 tak", Some(250)),
            (b"250-", Some(250)),
            (b"250-one\r\n", Some(250)),
            (b"250-one\r\n25", Some(250)),
            (b"550-5.7.1 no\r\n550", Some(550)),
            (b"", None),
        ] {
            let mut reader = ReplyReader::default();
            assert_eq!(reader.read(&mut bytes.to_vec()), Ok(None));
            assert_eq!(reader.cut_off().map(|reply| reply.code), code, "{bytes:?}");
        }
    }

    #[test]
    fn a_reply_has_a_maximum_length_and_long_lines_are_shortened() {
        let long = [b"250 ".as_slice(), &[b'x'; 5000], b"\r\n"].concat();
        let reply = read(&long).expect("readable").expect("complete");
        assert_eq!((reply.code, reply.text().len()), (250, MAX_LINE_BYTES - 4));
        for endless in [vec![b'2'; MAX_REPLY_BYTES + 1], b"250-\r\n".repeat(MAX_REPLY_BYTES / 6 + 1)] {
            assert_eq!(read(&endless), Err(ReplyError::TooLong));
        }
    }

    fn read(bytes: &[u8]) -> Result<Option<SmtpReply>, ReplyError> {
        ReplyReader::default().read(&mut bytes.to_vec())
    }
}
