//! Derives the cause of a refusal from its enhanced status code (RFC 3463).

use frontdesk_inbox::submission::outcome::Cause;

/// Derives the cause of a 5xx reply to a message from the enhanced status code (RFC 3463, RFC 5248), which is
/// the first word of the reply's text. Some servers also use 5xx codes for temporary problems, for example
/// 5.4.5 when a daily quota is exhausted (Gmail).
pub(super) fn cause_of_refusal(text: &str) -> Cause {
    match enhanced_code(text) {
        // The mailbox is disabled; there is a problem with the network, routing, congestion or a quota; or
        // Exchange Online's daily recipient limit or tenant threshold is exceeded.
        Some((2, 1) | (4, _) | (1, 90) | (7, 705)) => Cause::Channel,
        // The mailbox or the system is full, or does not accept messages. This may depend on the message's
        // size.
        Some((2, 2) | (3, 1 | 2 | 5)) => Cause::Unclear,
        _ => Cause::Refused,
    }
}

/// The subject and the detail of the enhanced status code with which a negative reply begins. `None` if it
/// does not begin with one of class 4 or 5.
pub(super) fn enhanced_code(text: &str) -> Option<(u16, u16)> {
    let code = text.split_whitespace().next()?;
    let mut numbers = code.split('.').map(|number| number.parse::<u16>().ok());
    let (class, subject, detail) = (numbers.next()??, numbers.next()??, numbers.next()??);
    (matches!(class, 4 | 5) && numbers.next().is_none()).then_some((subject, detail))
}
