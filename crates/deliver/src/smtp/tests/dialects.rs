//! The dialects of real mail servers: their greetings, and their replies to accepted and refused messages.

use super::*;

/// A server, its deviations from the usual script, and the expected cause: `None` if it accepts the message.
type Dialect = (&'static str, Script, Option<Cause>);

/// A server with this greeting, and this reply to the final dot.
fn says(greeting: &'static str, taken: &'static str) -> Script {
    Script::with(At::Greeting, Do::Say(greeting)).and(At::End, Do::Say(taken))
}

fn raw(greeting: &'static [u8], taken: &'static [u8]) -> Script {
    Script::with(At::Greeting, Do::Raw(greeting)).and(At::End, Do::Raw(taken))
}

fn dialects() -> Vec<Dialect> {
    vec![
        (
            "Postfix",
            says("220 mx.example.org ESMTP Postfix (Debian/GNU)", "250 2.0.0 Ok: queued as 4bXyZ12abc")
                .offering("PIPELINING")
                .offering("SIZE 10240000")
                .offering("ENHANCEDSTATUSCODES")
                .offering("CHUNKING"),
            None,
        ),
        ("Postfix with postscreen", says("220-mx.example.org ESMTP Postfix\r\n220 mx.example.org ESMTP Postfix", "250 2.0.0 Ok: queued as 4bXyZ12abc"), None),
        ("Postfix, a full queue", Script::with(At::Mail, Do::Say("452 4.3.1 Insufficient system storage")), Some(Cause::Deferred)),
        ("Postfix, a milter's refusal", Script::with(At::End, Do::Say("550 5.7.1 Spam message rejected")), Some(Cause::Refused)),
        ("Exim", says("220 mx.example.org ESMTP Exim 4.96 Thu, 26 Nov 2026 12:00:00 +0000", "250 OK id=1uAbCd-0001Xy-2z").and(At::Mail, Do::Say("250 OK")).and(At::Rcpt, Do::Say("250 Accepted")).and(At::Data, Do::Say("354 Enter message, ending with \".\" on a line by itself")), None),
        ("Exim, a long banner", says("220-mx.example.org ESMTP Exim 4.96\r\n220-We do not authorize the use of this system to transport unsolicited,\r\n220 and/or bulk e-mail.", "250 OK id=1uAbCd-0001Xy-2z"), None),
        ("sendmail", says("220 mx.example.org ESMTP Sendmail 8.17.1/8.17.1; Thu, 26 Nov 2026 12:00:00 GMT", "250 2.0.0 5AQC0abc012345 Message accepted for delivery").and(At::Mail, Do::Say("250 2.1.0 <desk@example.com>... Sender ok")).and(At::Data, Do::Say("354 Enter mail, end with \".\" on a line by itself")), None),
        ("sendmail, too busy", Script::with(At::Greeting, Do::Say("421 4.3.2 Connection rate limit exceeded.")), Some(Cause::Deferred)),
        ("OpenSMTPD", says("220 mx.example.org ESMTP OpenSMTPD", "250 2.0.0 1a2b3c4d Message accepted for delivery").and(At::Mail, Do::Say("250 2.0.0 Ok")).and(At::Rcpt, Do::Say("250 2.1.5 Destination address valid: Recipient ok")), None),
        ("Exchange", says("220 MAIL01.example.org Microsoft ESMTP MAIL Service ready at Thu, 26 Nov 2026 13:00:00 +0100", "250 2.6.0 <a@example.com> [InternalId=123, Hostname=MAIL01.example.org] 1234 bytes in 0.1, 9.9 KB/sec Queued mail for delivery").offering("X-ANONYMOUSTLS").offering("AUTH NTLM").offering("X-EXPS GSSAPI NTLM").offering("XRDST"), None),
        ("Exchange Online", says("220 DB5PEPF00014B8B.mail.protection.outlook.com Microsoft ESMTP MAIL Service ready at Thu, 26 Nov 2026 12:00:00 +0000 [08DE2C1A2B3C4D5E]", "250 2.6.0 <a@example.com> [InternalId=1, Hostname=x.prod.outlook.com] 9 bytes in 0.1, 0.1 KB/sec Queued mail for delivery -> 250 2.1.5"), None),
        ("Exchange Online, the limit of a tenant", Script::with(At::End, Do::Say("550 5.7.705 Access denied, tenant has exceeded threshold")), Some(Cause::Channel)),
        ("Exchange, German", raw(b"220 mail.example.org Microsoft ESMTP MAIL Service bereit f\xfcr \xc4nderungen\r\n", b"250 2.6.0 Warteschlange f\xfcr Zustellung\r\n"), None),
        ("Gmail", says("220 mx.google.com ESMTP a640c23a62f3a-b7654321 - gsmtp", "250 2.0.0 OK  1764158400 a640c23a62f3a-b7654321 - gsmtp").and(At::Mail, Do::Say("250 2.1.0 OK a640c23a62f3a - gsmtp")).and(At::Data, Do::Say("354 Go ahead a640c23a62f3a - gsmtp")), None),
        ("Gmail, the daily limit", Script::with(At::End, Do::Say("550-5.4.5 Daily user sending limit exceeded. For more information on Gmail\r\n550-5.4.5 sending limits go to\r\n550 5.4.5  https://support.google.com/a/answer/166852 - gsmtp")), Some(Cause::Channel)),
        ("Gmail, unauthenticated mail", Script::with(At::End, Do::Say("550-5.7.26 Your email has been blocked because the sender is unauthenticated.\r\n550 5.7.26  https://support.google.com/mail/answer/81126 - gsmtp")), Some(Cause::Channel)),
        ("Gmail, a rate limit", Script::with(At::Rcpt, Do::Say("450-4.2.1 The user you are trying to contact is receiving mail at a rate that\r\n450 4.2.1  prevents additional messages from being delivered. - gsmtp")), Some(Cause::Deferred)),
        ("Yandex", raw(b"220 mail-nwsmtp-mxfront-production-main-1.iva.yp-c.yandex.net (Want to use Yandex.Mail for your domain?)\r\n", b"250\r\n").and(At::Mail, Do::Raw(b"250\r\n")).and(At::Data, Do::Raw(b"354\r\n")), None),
        ("Yandex, spam", Script::with(At::End, Do::Say("554 5.7.1 [2] Message rejected under suspicion of SPAM; https://ya.cc/1IrBc")), Some(Cause::Refused)),
        ("QQ", raw(b"220 newxmmxszb6.qq.com MX QQ Mail Server.\r\n", b"250 Ok: queued as \xd3\xca\xbc\xfe\xd2\xd1\xbd\xf8\xc8\xeb\xb6\xd3\xc1\xd0\r\n").and(At::Mail, Do::Raw(b"250 OK\r\n")).and(At::Data, Do::Raw(b"354 End data with <CR><LF>.<CR><LF>.\r\n")), None),
        ("QQ, frequency limited", Script::with(At::End, Do::Raw(b"550 \xb4\xed\xce\xf3: Ip frequency limited\r\n")), Some(Cause::Refused)),
        ("163.com", raw(b"220 163.com Anti-spam GT for Coremail System (163com[20141201])\r\n", b"250 Mail OK queued as zwqz-mx-mta-g2-0,PykvCgD3m7 1764158400\r\n").and(At::Ehlo, Do::Say("250-mail\r\n250-PIPELINING\r\n250-AUTH LOGIN PLAIN\r\n250-AUTH=LOGIN PLAIN\r\n250-coremail 1Uxr2xKj7kG0xkI17xGrU7I0s8FY2U3Uj8Cz28x1UUUUU7Ic2I0Y2UFRrpNm\r\n250 8BITMIME")), None),
        ("qmail", says("220 mx.example.org ESMTP", "250 ok 1764158400 qp 12345").and(At::Ehlo, Do::Say("250-mx.example.org\r\n250-PIPELINING\r\n250 8BITMIME")).and(At::Data, Do::Say("354 go ahead")), None),
        ("qmail, a full disk", Script::with(At::End, Do::Say("451 qq write error or disk full (#4.3.0)")), Some(Cause::Deferred)),
        ("Courier", says("220 mx.example.org ESMTP", "250 Ok. 0000000000A1B2C3.0000000065626364").and(At::Ehlo, Do::Say("250-mx.example.org Ok.\r\n250-XVERP=Courier\r\n250-XEXDATA\r\n250-XSECURITY=NONE,STARTTLS\r\n250-PIPELINING\r\n250 DSN")).and(At::Data, Do::Say("354 Ok.")), None),
        ("Haraka", says("220 mx.example.org ESMTP Haraka/3.0.3 ready", "250 Message Queued (4F1A2B3C-0000-1111-2222-333344445555.1)").and(At::Mail, Do::Say("250 sender <desk@example.com> OK")).and(At::Data, Do::Say("354 go ahead, make my day")), None),
        ("Stalwart", says("220 mx.example.org Stalwart ESMTP at your service", "250 2.0.0 Message queued with id 1a2b3c4d5e6f.").and(At::Ehlo, Do::Say("250-mx.example.org you had me at EHLO\r\n250-STARTTLS\r\n250-SMTPUTF8\r\n250-SIZE 104857600\r\n250-REQUIRETLS\r\n250-NO-SOLICITING\r\n250-FUTURERELEASE 2592000 2026-12-26T12:00:00Z\r\n250-ENHANCEDSTATUSCODES\r\n250 8BITMIME")), None),
        ("Amazon SES", says("220 email-smtp.amazonaws.com ESMTP SimpleEmailService-d-ABCDEFGHI 1a2b3c", "250 Ok 0102019abcdef012-3456789a-bcde-f012-3456-789abcdef012-000000").and(At::Mail, Do::Say("250 Ok")).and(At::Data, Do::Say("354 End data with <CR><LF>.<CR><LF>")), None),
        ("Amazon SES, an unverified address", Script::with(At::End, Do::Say("554 Message rejected: Email address is not verified. The following identities failed the check in region EU-WEST-1: desk@example.com")), Some(Cause::Channel)),
        ("Amazon SES, throttling", Script::with(At::End, Do::Say("454 Throttling failure: Maximum sending rate exceeded.")), Some(Cause::Deferred)),
        ("Mailgun", says("220 Mailgun Influx ready", "250 Great success").and(At::Mail, Do::Say("250 Sender address accepted")).and(At::Rcpt, Do::Say("250 Recipient address accepted")).and(At::Data, Do::Say("354 Continue")), None),
        ("SendGrid", says("220 SG ESMTP service ready at ismtpd0001p1lon1.sendgrid.net", "250 Ok: queued as aBcDeFgHiJkLmNoPqRsTuV").and(At::Mail, Do::Say("250 Sender address accepted")), None),
        ("hMailServer", raw(b"220 MAIL ESMTP\r\n", b"250 Queued (0.047 seconds)\r\n").and(At::Mail, Do::Say("250 OK")), None),
        ("MailEnable", says("220 mx.example.org ESMTP MailEnable Service, Version: 10.48--10.48 ready at 11/26/26 12:00:00", "250 Requested mail action okay, completed").and(At::Mail, Do::Say("250 Requested mail action okay, completed")).and(At::Data, Do::Say("354 Start mail input; end with <CRLF>.<CRLF>")), None),
        ("Lotus Domino", says("220 mx.example.org ESMTP Service (HCL Domino Release 12.0.2) ready at Thu, 26 Nov 2026 13:00:00 +0100", "250 Message accepted for delivery").and(At::Ehlo, Do::Say("250-mx.example.org Hello example.com ([127.0.0.1]), pleased to meet you\r\n250-HELP\r\n250-SIZE\r\n250 PIPELINING")), None),
        ("a gateway without ESMTP", Script::with(At::Ehlo, Do::Say("500 Command unrecognized")).and(At::Helo, Do::Say("250 Hello")), None),
        ("Cisco PIX fixup", Script::with(At::Greeting, Do::Say("220 **************************0******2******200**0*********")).and(At::Ehlo, Do::Say("500 5.5.1 Command unrecognized: \"XXXX\"")), None),
        ("a server with bare line feeds", raw(b"220 old.example.org\n", b"250 ok\n").and(At::Mail, Do::Raw(b"250\n")).and(At::Data, Do::Raw(b"354\n")), None),
        ("a filter that prints warnings", Script::with(At::End, Do::Raw(b"PHP Warning:  Undefined variable\r\n250 2.0.0 queued\r\n")), None),
        ("a scanner with a long verdict", Script::with(At::End, Do::Raw(b"250-2.0.0 scanned\r\n250-X-Verdict: clean\r\n\r\n250 2.0.0 queued\r\n")), None),
        ("a greylisting server", Script::usual().greylisting(), Some(Cause::Deferred)),
        ("a greylisting server that says 5xx", Script::with(At::Rcpt, Do::Say("550 5.7.1 Greylisted, please try again in 300 seconds")), Some(Cause::Channel)),
        ("a tarpit", Script::with(At::Greeting, Do::Late(Duration::from_millis(200))).and(At::Rcpt, Do::Late(Duration::from_millis(200))).and(At::End, Do::Late(Duration::from_millis(200))), None),
        ("a server that hangs up after the dot", Script::with(At::End, Do::Close), Some(Cause::Uncertain)),
        ("a list of blocked addresses", Script::with(At::Greeting, Do::Say("554 5.7.1 Service unavailable; Client host [127.0.0.1] blocked using zen.spamhaus.org")), Some(Cause::Channel)),
    ]
}

#[tokio::test]
async fn the_dialects_of_mail_servers_are_understood() {
    let dialects = dialects();
    assert!(dialects.len() >= 30);
    for (name, script, expected) in dialects {
        let peer = SmtpPeer::start(vec![script]);
        let outcome = channel(&peer).send(&notice("x")).await;
        let cause = match &outcome {
            Outcome::Delivered(_) => None,
            Outcome::Failed(failure) => Some(failure.cause),
        };
        assert_eq!(cause, expected, "{name}: {outcome:?}");
        assert_eq!(peer.record().connections, 1, "{name}");
        let is_taken = peer.record().received.iter().any(|received| received.is_taken);
        assert!(cause.is_some() || is_taken || name.starts_with("a filter"), "{name}: {outcome:?}");
    }
}
