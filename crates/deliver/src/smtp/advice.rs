//! Advice on which options of a mail channel to change, derived from the error of an SMTP session.

use super::enhanced_code::{concerns_account, concerns_authentication, is_banned};
use super::error::{NO_LOGIN, NOT_OFFERED, SmtpError, SmtpErrorKind, SmtpPhase};
use super::{SmtpOptions, SmtpTls, is_this_machine};

/// The advice after an error for which there is no more specific advice.
const CHECK_ADDRESS: &str = "Check `host` and `port`, and whether a mail server is running there.";

impl SmtpOptions {
    /// Which options to change after `error`, or what to ask the mail provider. `None` if the options are
    /// probably correct.
    pub(super) fn advise(&self, error: &SmtpError) -> Option<&'static str> {
        let SmtpError { phase, kind, .. } = error;
        let said = match kind {
            SmtpErrorKind::Refusal(_, text) | SmtpErrorKind::Broken(text) => text.as_str(),
            SmtpErrorKind::Silence(_) => "",
        };
        let about_sender = match kind {
            SmtpErrorKind::Refusal(..) => advise_on_sender(*phase, said),
            _ => None,
        };
        Some(match (phase, kind) {
            (_, SmtpErrorKind::Refusal(code, _)) if concerns_hello_name(*phase, *code, said) => {
                "The mail server refuses the name of this machine: set `helo` to its host name in the DNS."
            }
            _ if about_sender.is_some() => return about_sender,
            // 530 also means that the server requires TLS (RFC 3207 §4), and 538 means only that.
            (_, SmtpErrorKind::Refusal(code @ (530 | 538), _))
                if *code == 538 || said.to_ascii_uppercase().contains("STARTTLS") =>
            {
                "The mail server requires TLS: remove `tls = \"none\"`."
            }
            (_, SmtpErrorKind::Refusal(530, _)) => {
                "The mail server requires a login: set `username` and `password`."
            }
            (SmtpPhase::Tls | SmtpPhase::StartTls, _) => self.advise_on_tls(*phase, said),
            (SmtpPhase::Greeting, SmtpErrorKind::Silence(_)) if self.tls != SmtpTls::Implicit => {
                "The port may begin with TLS, as 465 usually does: set `tls = \"implicit\"`, or check `port`."
            }
            // The server does not support AUTH, or does not support this mechanism.
            (SmtpPhase::Auth, SmtpErrorKind::Refusal(500 | 502..=504, _) | SmtpErrorKind::Broken(_))
                if said == NO_LOGIN || matches!(kind, SmtpErrorKind::Refusal(..)) =>
            {
                "The mail server takes no login here: remove `username` and `password`, or set `port` to the one for logins, usually 587."
            }
            (SmtpPhase::Auth, SmtpErrorKind::Broken(_)) if said.starts_with(NO_LOGIN) => {
                "The mail server takes no passwords: ask the mail provider for a server that does, or for one that knows this machine by its address."
            }
            // For Gmail and Exchange Online: the password may be right, but the account must permit its use.
            (SmtpPhase::Auth, SmtpErrorKind::Refusal(code, _))
                if *code == 534 || said.starts_with("5.7.139") =>
            {
                "The account takes no ordinary password: create an app password, or permit SMTP AUTH for the account."
            }
            (SmtpPhase::Auth, SmtpErrorKind::Refusal(500.., _)) => "Check `username` and `password`.",
            (SmtpPhase::Ehlo, SmtpErrorKind::Refusal(550.., _)) => {
                "The mail server refuses this machine: ask the mail provider why, or set `helo` to the machine's host name in the DNS."
            }
            (SmtpPhase::Mail, SmtpErrorKind::Refusal(..)) => {
                "Check `from`: the mail server does not send for this address."
            }
            (SmtpPhase::Rcpt, SmtpErrorKind::Refusal(..)) if self.login.is_none() => {
                "Check `to`. If the addresses are correct, the mail server may forward only after a login: set `username` and `password`."
            }
            (SmtpPhase::Rcpt, SmtpErrorKind::Refusal(..)) => "Check `to`.",
            (SmtpPhase::Auth, SmtpErrorKind::Refusal(..))
            | (SmtpPhase::Data | SmtpPhase::Content | SmtpPhase::Message, _) => return None,
            _ => CHECK_ADDRESS,
        })
    }

    /// Advice after an error of TLS or STARTTLS. `said` is the text of the error.
    fn advise_on_tls(&self, phase: SmtpPhase, said: &str) -> &'static str {
        let has_no_common_version = ["HandshakeFailure", "ProtocolVersion", "InsufficientSecurity"]
            .iter()
            .any(|alert| said.contains(alert));
        if said.contains("certificate") {
            "Set `host` to a name in the server's certificate. If your own authority has issued the certificate, set `ca_file`."
        } else if has_no_common_version {
            "The mail server has no secure version of TLS: it needs TLS 1.2 with ECDHE and AES-GCM or ChaCha20, or TLS 1.3. Ask the mail provider for another server."
        } else if phase == SmtpPhase::Tls && said.contains("InvalidContentType") {
            // The server has sent its greeting instead of a TLS record.
            "This port does not begin with TLS: remove `tls = \"implicit\"`, or set `port = 465` if the server has it."
        } else if phase == SmtpPhase::StartTls && said == NOT_OFFERED {
            if is_this_machine(&self.host) {
                "Set `tls = \"none\"`, which is allowed because the server runs on this machine."
            } else {
                "Set `tls = \"implicit\"` and `port = 465`, or ask the mail provider which port offers TLS."
            }
        } else {
            CHECK_ADDRESS
        }
    }
}

/// The advice about a refusal of the sender, its account or its domain. `None` for other refusals. Replies to
/// the login are never about SPF, DKIM and DMARC.
fn advise_on_sender(phase: SmtpPhase, said: &str) -> Option<&'static str> {
    let is_after_login =
        matches!(phase, SmtpPhase::Mail | SmtpPhase::Rcpt | SmtpPhase::Data | SmtpPhase::Message);
    if is_banned(said) {
        Some(
            "The receiver has banned the sender or the address of the mail server: ask the mail provider, or ask the receiver to remove it from the list.",
        )
    } else if concerns_account(said) {
        Some("Check `from`: the account may not send as it. The mail provider may have limited the account.")
    } else if is_after_login && concerns_authentication(said) {
        Some(
            "The receiver cannot verify the sender: correct SPF, DKIM and DMARC of the domain of `from`, which `frontdesk doctor` checks.",
        )
    } else {
        None
    }
}

/// Whether a refusal is about the name in EHLO: the code says that the argument of EHLO is wrong (RFC 5321
/// §4.2.2), or the text has the name of the command, or says that the name is that of another machine (Exim's
/// configuration in cPanel). 500 and 502 say that the server does not know the command that they quote, and
/// 503 that it is missing. False in phases other than EHLO, STARTTLS, MAIL and RCPT.
fn concerns_hello_name(phase: SmtpPhase, code: u16, text: &str) -> bool {
    let is_checked =
        matches!(phase, SmtpPhase::Ehlo | SmtpPhase::StartTls | SmtpPhase::Mail | SmtpPhase::Rcpt);
    let is_command = |word: &str| word.eq_ignore_ascii_case("helo") || word.eq_ignore_ascii_case("ehlo");
    let is_about_name = || {
        text.split(|c: char| !c.is_alphanumeric() && !"@._-".contains(c)).any(is_command)
            || text.to_ascii_lowercase().contains("host impersonating")
    };
    match code {
        500 | 502 | 503 => false,
        501 | 504 if phase == SmtpPhase::Ehlo => true,
        _ => is_checked && is_about_name(),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::smtp::tests::bare_options;

    #[test]
    #[expect(clippy::too_many_lines, reason = "a table of cases")]
    fn each_failure_names_the_options_to_change() {
        use SmtpPhase::{Auth, Connect, Ehlo, Greeting, Mail, Message, Rcpt, StartTls, Tls};
        let broken = |words: &str| SmtpErrorKind::Broken(words.to_owned());
        let refused = |code, words: &str| SmtpErrorKind::Refusal(code, words.to_owned());
        let silence = || SmtpErrorKind::Silence(Duration::from_secs(5));
        for (host, phase, kind, expected) in [
            ("localhost", StartTls, broken(NOT_OFFERED), "Set `tls = \"none\"`,"),
            ("127.0.0.1", StartTls, broken(NOT_OFFERED), "Set `tls = \"none\"`,"),
            ("10.0.0.1", StartTls, broken(NOT_OFFERED), "Set `tls = \"implicit\"` and `port = 465`"),
            ("mail.example.com", StartTls, broken(NOT_OFFERED), "Set `tls = \"implicit\"` and"),
            ("localhost", StartTls, broken("invalid peer certificate: Expired"), "Set `host` to a name"),
            ("localhost", Tls, broken("invalid peer certificate: UnknownIssuer"), "Set `host` to a name"),
            (
                "mail.example.com",
                Tls,
                broken("received corrupt message of type InvalidContentType"),
                "This port does not begin with TLS: remove `tls = \"implicit\"`",
            ),
            ("mail.example.com", Greeting, silence(), "The port may begin with TLS"),
            (
                "mail.example.com",
                Auth,
                broken(NO_LOGIN),
                "The mail server takes no login here: remove `username` and `password`",
            ),
            (
                "mail.example.com",
                Message,
                refused(550, "5.7.606 banned sending IP"),
                "The receiver has banned the sender",
            ),
            ("mail.example.com", Auth, refused(535, "5.7.8 no"), "Check `username` and `password`."),
            (
                "mail.example.com",
                Connect,
                broken("Connection refused (os error 111)"),
                "Check `host` and `port`,",
            ),
            ("mail.example.com", Connect, silence(), "Check `host` and `port`,"),
            ("mail.example.com", Connect, broken("DNS lookup failed: no"), "Check `host` and `port`,"),
            ("mail.example.com", Ehlo, broken("the connection was closed"), "Check `host` and `port`,"),
            ("mail.example.com", Mail, refused(550, "5.7.1 no"), "Check `from`:"),
            (
                "mail.example.com",
                Mail,
                refused(530, "5.7.0 Authentication Required"),
                "The mail server requires a login",
            ),
            (
                "mail.example.com",
                Mail,
                refused(530, "Must issue a STARTTLS command"),
                "The mail server requires TLS",
            ),
            (
                "mail.example.com",
                Ehlo,
                refused(550, "Bad HELO - Host impersonating domain name [example.com]"),
                "The mail server refuses the name of this machine: set `helo`",
            ),
            (
                "mail.example.com",
                Rcpt,
                refused(450, "4.7.1 <example.com>: Helo command rejected: Host not found"),
                "The mail server refuses the name of this machine: set `helo`",
            ),
            ("mail.example.com", Mail, refused(503, "5.5.1 send HELO/EHLO first"), "Check `from`:"),
            (
                "mail.example.com",
                Ehlo,
                refused(501, "5.5.4 Invalid domain name"),
                "The mail server refuses the name",
            ),
            (
                "mail.example.com",
                Ehlo,
                refused(504, "5.5.2 <desk>: need a full name"),
                "The mail server refuses the name",
            ),
            (
                "mail.example.com",
                Rcpt,
                refused(550, "REJECTED - Host impersonating [example.com]"),
                "The mail server refuses the name",
            ),
            (
                "mail.example.com",
                Ehlo,
                refused(502, "5.5.2 not recognized: EHLO"),
                "Check `host` and `port`,",
            ),
            (
                "mail.example.com",
                Ehlo,
                refused(500, "unknown: \"EHLO example.com\""),
                "Check `host` and `port`,",
            ),
            ("mail.example.com", Ehlo, refused(550, "5.7.1 go away"), "The mail server refuses this machine"),
            ("mail.example.com", Mail, refused(550, "5.7.1 impersonating a protected user"), "Check `from`:"),
            ("mail.example.com", Rcpt, refused(550, "5.1.1 <helo@example.com>: unknown"), "Check `to`."),
            ("mail.example.com", Rcpt, refused(554, "Relay access denied"), "Check `to`. If"),
            ("mail.example.com", Message, refused(550, "5.7.60 SMTP; no"), "Check `from`: the account"),
            (
                "mail.example.com",
                Message,
                refused(550, "5.7.26 no SPF"),
                "The receiver cannot verify the sender",
            ),
            ("mail.example.com", Rcpt, refused(550, "5.7.23 SPF"), "The receiver cannot verify the sender"),
            (
                "mail.example.com",
                Rcpt,
                refused(553, "5.7.1 <desk@example.com>: Sender address rejected: not owned by user"),
                "Check `from`: the account",
            ),
            ("mail.example.com", Message, refused(554, "Sending paused for this account."), "Check `from`:"),
            ("mail.example.com", Auth, refused(538, "Encryption required"), "The mail server requires TLS"),
            (
                "mail.example.com",
                Auth,
                refused(504, "5.5.4 Unknown mechanism"),
                "The mail server takes no login",
            ),
            ("mail.example.com", Auth, refused(534, "5.7.9 weak"), "The account takes no ordinary"),
            ("mail.example.com", Auth, refused(535, "5.7.139 disabled"), "The account takes no ordinary"),
            (
                "mail.example.com",
                Auth,
                broken(&format!("{NO_LOGIN}, but XOAUTH2")),
                "The mail server takes no passwords",
            ),
        ] {
            let options = SmtpOptions { host: host.to_owned(), tls: SmtpTls::StartTls, ..bare_options() };
            let error = SmtpError::new(phase, kind);
            let advice = options.advise(&error).unwrap_or_default();
            assert!(advice.starts_with(expected), "{host} {error:?}: {advice}");
        }
        for refusal in [(Message, refused(554, "5.7.1 spam")), (Auth, refused(454, "4.7.0 later"))] {
            let refusal = SmtpError::new(refusal.0, refusal.1);
            assert_eq!(bare_options().advise(&refusal), None, "the reply states the reason");
        }
    }
}
