//! Derives the cause of a refusal from its enhanced status code (RFC 3463).

use frontdesk_inbox::submission::delivery_outcome::Cause;

/// Derives the cause of a 5xx reply to a message from the enhanced status code (RFC 3463, RFC 5248), which is
/// the first word of the reply's text, or from words about the sender. Some servers also use 5xx codes for
/// temporary problems, for example 5.4.5 when a daily quota is exhausted (Gmail).
pub(super) fn cause_of_refusal(text: &str) -> Cause {
    match enhanced_code(text) {
        _ if concerns_account(text) || concerns_authentication(text) => Cause::Channel,
        // The mailbox is disabled; or there is a problem with the network, routing, congestion or a quota.
        Some((_, 2, 1) | (_, 4, _)) => Cause::Channel,
        // The mailbox or the system is full, or does not accept messages. This may depend on the message's
        // size.
        Some((_, 2, 2) | (_, 3, 1 | 2 | 5)) => Cause::Unclear,
        Some((4, ..)) => Cause::Deferred,
        _ => Cause::Refused,
    }
}

/// Whether the reply is about the sender or its account, not about the message or its recipients. The codes
/// are those of Exchange Online: 5.1.8 (the account is blocked), 5.2.252 and 5.7.60 (it may not send as this
/// sender), 5.1.90, 5.7.705 and 5.7.708 (a limit of the account or its organization), 5.7.750 (its domain is
/// not registered), and those of [`is_banned`]. Other servers say so in words only ([`names_sender`]).
pub(super) fn concerns_account(text: &str) -> bool {
    let is_limited =
        matches!(enhanced_code(text), Some((_, 1, 8 | 90) | (_, 2, 252) | (_, 7, 60 | 705 | 708 | 750)));
    is_limited || is_banned(text) || names_sender(text)
}

/// Words of replies that refuse the sender or its account: Amazon SES, SendGrid, iCloud, Fastmail, Postfix,
/// Exim.
const SENDER_WORDS: [&str; 7] = [
    "address is not verified",
    "verified sender identity",
    "from address is not",
    "send from this",
    "sending paused",
    "sender address rejected",
    "sender verify failed",
];

/// Whether the reply has [`SENDER_WORDS`], in upper or lower case. In its sandbox, Amazon SES says the same
/// about a recipient.
pub(super) fn names_sender(text: &str) -> bool {
    let text = text.to_ascii_lowercase();
    SENDER_WORDS.iter().any(|words| text.contains(words))
}

/// Whether Exchange Online has banned the sender (5.7.511) or its IP address (5.7.606 to 5.7.649).
pub(super) fn is_banned(text: &str) -> bool {
    matches!(enhanced_code(text), Some((_, 7, 511 | 606..=649)))
}

/// Whether the reply to a message says that its sender cannot be verified: by SPF, DKIM or reverse DNS
/// (x.7.20 to x.7.27, RFC 7372 and RFC 7505), or in the codes of Gmail (5.7.29 to 5.7.40: TLS, DKIM, the
/// alignment of `From`, DMARC), Yahoo (5.7.9) and Outlook (5.7.509 and 5.7.515). It then refuses every
/// message of this sender.
pub(super) fn concerns_authentication(text: &str) -> bool {
    matches!(enhanced_code(text), Some((_, 7, 9 | 20..=27 | 29..=40 | 509 | 515)))
}

/// Whether a refusal is temporary: by its reply code (RFC 5321) or, although the code is 5xx, by the class of
/// its enhanced status code. So is x.5.3, too many recipients (RFC 3463 §3.6): a message to fewer of them may
/// be accepted.
pub(super) fn is_temporary(code: u16, text: &str) -> bool {
    code < 500 || matches!(enhanced_code(text), Some((4, ..) | (_, 5, 3)))
}

/// The class, the subject and the detail of the enhanced status code with which a negative reply begins.
/// `None` if it does not begin with one of class 4 or 5.
pub(super) fn enhanced_code(text: &str) -> Option<(u16, u16, u16)> {
    let code = text.split_whitespace().next()?;
    let mut numbers = code.split('.').map(|number| number.parse::<u16>().ok());
    let (class, subject, detail) = (numbers.next()??, numbers.next()??, numbers.next()??);
    (matches!(class, 4 | 5) && numbers.next().is_none()).then_some((class, subject, detail))
}
