//! Requests that servers parse differently, and frontdesk's response to each.

use std::fmt::Write as _;

/// A request as an attacker sends it; in a few cases another request follows on purpose.
pub struct Attack {
    pub name: &'static str,
    pub bytes: Vec<u8>,
    /// The statuses of the answers, and whether the connection is `open` or `closed` after them, as in
    /// `400, closed`.
    pub expected: &'static str,
}

/// The request that attacks hide in bodies and headers. No test requests this resource openly.
pub const SMUGGLED: &str = "GET /robots.txt HTTP/1.1\r\nHost: www.example.com\r\n\r\n";

/// Text that identifies an answer to [`SMUGGLED`].
pub const LOOT: &[u8] = b"User-agent:";

/// A valid form.
const FORM: &str = r#"{"email":"ada@example.com"}"#;

/// The same form as the only chunk of a body.
const CHUNKS: &str = "1b\r\n{\"email\":\"ada@example.com\"}\r\n0\r\n\r\n";

/// All attacks.
pub fn all() -> Vec<Attack> {
    let mut list = List(Vec::new());
    lengths(&mut list);
    codings(&mut list);
    chunks(&mut list);
    lines(&mut list);
    sizes(&mut list);
    targets(&mut list);
    hosts(&mut list);
    methods_and_versions(&mut list);
    one_after_the_other(&mut list);
    list.0
}

struct List(Vec<Attack>);

impl List {
    fn add(&mut self, name: &'static str, bytes: impl Into<Vec<u8>>, expected: &'static str) {
        self.0.push(Attack { name, bytes: bytes.into(), expected });
    }

    /// Adds a form with these header lines, each with its line end.
    fn post(&mut self, name: &'static str, lines: &str, body: &str, expected: &'static str) {
        self.add(name, post(lines, body), expected);
    }

    /// Adds a request for the home page with these header lines, each with its line end.
    fn get(&mut self, name: &'static str, lines: &str, expected: &'static str) {
        self.add(name, format!("GET / HTTP/1.1\r\nHost: www.example.com\r\n{lines}\r\n"), expected);
    }

    /// Adds a request with this request line.
    fn line(&mut self, name: &'static str, line: &str, expected: &'static str) {
        self.add(name, format!("{line}\r\nHost: www.example.com\r\n\r\n"), expected);
    }
}

fn post(lines: &str, body: &str) -> String {
    format!(
        "POST /api/waitlist HTTP/1.1\r\nHost: www.example.com\r\nContent-Type: application/json\r\n{lines}\r\n{body}"
    )
}

/// Content-Length: RFC 9112 §6.2 and §6.3.
#[expect(clippy::too_many_lines, reason = "a table")]
fn lengths(list: &mut List) {
    let whole = format!("0\r\n\r\n{SMUGGLED}");
    let both = |first: &str, second: &str| format!("{first}\r\n{second}\r\n");
    let length = format!("Content-Length: {}", whole.len());
    let chunked = "Transfer-Encoding: chunked";
    list.post(
        "a length that covers what follows the last chunk",
        &both(&length, chunked),
        &whole,
        "400, closed",
    );
    list.post("the same, the other way round", &both(chunked, &length), &whole, "400, closed");
    list.post(
        "a length that ends within the first chunk",
        &both("Content-Length: 4", chunked),
        CHUNKS,
        "200, closed",
    );
    list.post("two lengths that agree", "Content-Length: 27\r\nContent-Length: 27\r\n", FORM, "200, open");
    list.post(
        "two lengths, the first covers more",
        "Content-Length: 79\r\nContent-Length: 27\r\n",
        FORM,
        "400, closed",
    );
    list.post(
        "two lengths, the second covers more",
        "Content-Length: 27\r\nContent-Length: 79\r\n",
        FORM,
        "400, closed",
    );
    list.post("a list of lengths that agree", "Content-Length: 27, 27\r\n", FORM, "400, closed");
    list.post("a list of lengths that differ", "Content-Length: 27, 79\r\n", FORM, "400, closed");
    for (name, length) in [
        ("a length with a plus sign", "+27"),
        ("a length with a minus sign", "-27"),
        ("a length in hexadecimal", "0x1b"),
        ("a length with a space inside", "2 7"),
        ("a length with a fraction", "27.0"),
        ("a length with an exponent", "27e0"),
        ("a length with a vertical tab", "\x0b27"),
        ("a length with a no-break space", "\u{a0}27"),
        ("a length with a parameter", "27;a=b"),
        ("a length in quotes", "\"27\""),
        ("no length after the colon", ""),
        ("a length 27 over what 64 bits hold", "18446744073709551643"),
    ] {
        list.post(name, &format!("Content-Length: {length}\r\n"), FORM, "400, closed");
    }
    list.post(
        "the longest length that 64 bits hold",
        "Content-Length: 18446744073709551615\r\n",
        FORM,
        "431, closed",
    );
    list.post("a length with zeros before it", "Content-Length: 000027\r\n", FORM, "200, open");
    list.post("a length with spaces around it", "Content-Length: \t27 \r\n", FORM, "200, open");
    list.post(
        "a length with an underscore in its name",
        "Content_Length: 79\r\nContent-Length: 27\r\n",
        FORM,
        "200, open",
    );
    let lines = format!("Content-Length: {}\r\n", SMUGGLED.len());
    list.add(
        "a body for GET",
        format!("GET / HTTP/1.1\r\nHost: www.example.com\r\n{lines}\r\n{SMUGGLED}"),
        "200, open",
    );
    let chunked =
        format!("Transfer-Encoding: chunked\r\n\r\n{:x}\r\n{SMUGGLED}\r\n0\r\n\r\n", SMUGGLED.len());
    list.add(
        "a chunked body for GET",
        format!("GET / HTTP/1.1\r\nHost: www.example.com\r\n{chunked}"),
        "200, open",
    );
}

/// RFC 9112 §6.1 and §7: the server supports only `chunked`, once.
#[expect(clippy::too_many_lines, reason = "a table")]
fn codings(list: &mut List) {
    list.post("chunked", "Transfer-Encoding: chunked\r\n", CHUNKS, "200, open");
    list.post("chunked in capitals", "tRANSFER-eNCODING: ChunKED\r\n", CHUNKS, "200, open");
    list.post(
        "chunked after a tab and before spaces",
        "Transfer-Encoding:\tchunked  \r\n",
        CHUNKS,
        "200, open",
    );
    for (name, coding) in [
        ("chunked, then identity", "chunked, identity"),
        ("identity", "identity"),
        ("xchunked", "xchunked"),
        ("chunked, then gzip", "chunked, gzip"),
        ("no coding after the colon", ""),
        ("chunked after a vertical tab", "\x0bchunked"),
        ("chunked in quotes", "\"chunked\""),
        ("chunked with a parameter", "chunked;a=b"),
        ("chunked and a comma", "chunked,"),
        ("chunked after a no-break space", "\u{a0}chunked"),
    ] {
        list.post(name, &format!("Transfer-Encoding: {coding}\r\n"), CHUNKS, "400, closed");
    }
    for (name, coding) in [
        ("gzip, then chunked", "gzip, chunked"),
        ("identity, then chunked", "identity, chunked"),
        ("chunked twice", "chunked, chunked"),
        ("a comma and chunked", ", chunked"),
    ] {
        list.post(name, &format!("Transfer-Encoding: {coding}\r\n"), CHUNKS, "501, closed");
    }
    for (name, first, second, expected) in [
        ("lines: gzip, chunked", "gzip", "chunked", "501, closed"),
        ("lines: identity, chunked", "identity", "chunked", "501, closed"),
        ("lines: chunked, chunked", "chunked", "chunked", "501, closed"),
        ("lines: chunked, identity", "chunked", "identity", "400, closed"),
    ] {
        list.post(
            name,
            &format!("Transfer-Encoding: {first}\r\nTransfer-Encoding: {second}\r\n"),
            CHUNKS,
            expected,
        );
    }
    let lines = "Host: www.example.com\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n";
    list.add(
        "chunked in HTTP/1.0",
        format!("POST /api/waitlist HTTP/1.0\r\n{lines}\r\n{CHUNKS}"),
        "400, closed",
    );
    for (name, line) in [
        ("a coding with a space before the colon", "Transfer-Encoding : chunked"),
        ("a coding with a tab before the colon", "Transfer-Encoding\t: chunked"),
        ("a coding on a folded line", "Transfer-Encoding:\r\n chunked"),
        ("a coding on a folded line of its own", "X: a\r\n Transfer-Encoding: chunked"),
        ("a coding after a bare carriage return", "X: a\rTransfer-Encoding: chunked"),
        ("a coding after a zero byte", "X: a\0\r\nTransfer-Encoding: chunked"),
        ("a zero byte in a coding's name", "Transfer-Encoding\0: chunked"),
        ("a space before a coding's name", " Transfer-Encoding: chunked"),
    ] {
        list.post(name, &format!("Content-Length: 27\r\n{line}\r\n"), FORM, "400, closed");
    }
    list.post(
        "a coding with an underscore in its name",
        "Transfer_Encoding: chunked\r\nContent-Length: 27\r\n",
        FORM,
        "200, open",
    );
    list.post(
        "a coding after a bare line feed",
        "X: a\nTransfer-Encoding: chunked\r\nContent-Length: 4\r\n",
        CHUNKS,
        "200, closed",
    );
}

/// Chunked bodies: RFC 9112 §7.1.
fn chunks(list: &mut List) {
    let form = FORM;
    let long = "x".repeat(2 << 20);
    let many: String = (0..101).fold(String::new(), |mut all, number| {
        let _ = write!(all, "x-{number}: y\r\n");
        all
    });
    for (name, body, expected) in [
        (
            "a chunk's size with zeros before it",
            format!("00000000000000000000001b\r\n{form}\r\n0\r\n\r\n"),
            "200, open",
        ),
        ("a chunk's size in capitals", format!("1B\r\n{form}\r\n0\r\n\r\n"), "200, open"),
        ("a chunk's size with a space after it", format!("1b \r\n{form}\r\n0\r\n\r\n"), "200, open"),
        ("a chunk's size over 64 bits", format!("1000000000000001b\r\n{form}\r\n0\r\n\r\n"), "400, closed"),
        ("a chunk's size with a plus sign", format!("+1b\r\n{form}\r\n0\r\n\r\n"), "400, closed"),
        ("a chunk's size with a minus sign", format!("-1\r\n{form}\r\n0\r\n\r\n"), "400, closed"),
        ("a chunk's size with 0x", format!("0x1b\r\n{form}\r\n0\r\n\r\n"), "400, closed"),
        ("a chunk's size with a space before it", format!(" 1b\r\n{form}\r\n0\r\n\r\n"), "400, closed"),
        ("a chunk's size with a space inside", format!("1 b\r\n{form}\r\n0\r\n\r\n"), "400, closed"),
        ("a chunk's size with an underscore", format!("1_b\r\n{form}\r\n0\r\n\r\n"), "400, closed"),
        ("a chunk without a size", format!("\r\n{form}\r\n0\r\n\r\n"), "400, closed"),
        ("a chunk's extension", format!("1b;a=b;c=\"d\"\r\n{form}\r\n0\r\n\r\n"), "200, open"),
        ("a chunk's extension of megabytes", format!("1b;{long}\r\n{form}\r\n0\r\n\r\n"), "400, closed"),
        ("a chunk's extension with a line feed", format!("1b;a\n{form}\r\n0\r\n\r\n"), "400, closed"),
        (
            "a chunk's extension with a carriage return",
            format!("1b;a\rb\r\n{form}\r\n0\r\n\r\n"),
            "400, closed",
        ),
        ("a chunk's size that ends in a line feed", format!("1b\n{form}\r\n0\r\n\r\n"), "400, closed"),
        ("a chunk's size that ends in a carriage return", format!("1b\r{form}\r\n0\r\n\r\n"), "400, closed"),
        ("a chunk that ends in nothing", format!("1b\r\n{form}0\r\n\r\n"), "400, closed"),
        ("a chunk that ends in a line feed", format!("1b\r\n{form}\n0\r\n\r\n"), "400, closed"),
        ("a chunk that is longer than it says", format!("1a\r\n{form}\r\n0\r\n\r\n"), "400, closed"),
        ("a last chunk of many zeros", format!("1b\r\n{form}\r\n00000000000\r\n\r\n"), "200, open"),
        ("a last chunk that ends in line feeds", format!("1b\r\n{form}\r\n0\n\n"), "400, closed"),
        ("a trailer", format!("1b\r\n{form}\r\n0\r\nX: y\r\n\r\n"), "200, open"),
        ("a trailer with a length", format!("1b\r\n{form}\r\n0\r\nContent-Length: 79\r\n\r\n"), "200, open"),
        (
            "a trailer with a host",
            format!("1b\r\n{form}\r\n0\r\nHost: evil.example.com\r\n\r\n"),
            "200, open",
        ),
        (
            "a trailer with a coding",
            format!("1b\r\n{form}\r\n0\r\nTransfer-Encoding: gzip\r\n\r\n"),
            "200, open",
        ),
        ("a trailer of megabytes", format!("1b\r\n{form}\r\n0\r\nX: {long}\r\n\r\n"), "400, closed"),
        ("101 trailers", format!("1b\r\n{form}\r\n0\r\n{many}\r\n"), "400, closed"),
        ("a trailer that is a request", format!("1b\r\n{form}\r\n0\r\n{SMUGGLED}"), "400, closed"),
        (
            "a request after a line feed in a trailer",
            format!("1b\r\n{form}\r\n0\r\nX: y\n\n{SMUGGLED}"),
            "200, open",
        ),
    ] {
        list.post(name, "Transfer-Encoding: chunked\r\n", &body, expected);
    }
}

/// Line endings, leading empty lines and malformed field lines: RFC 9112 §2.2 and §5.
fn lines(list: &mut List) {
    list.add("line feeds alone", "GET / HTTP/1.1\nHost: www.example.com\n\n", "200, open");
    list.add("carriage returns alone", "GET / HTTP/1.1\rHost: www.example.com\r\r\n\r\n", "400, closed");
    list.add("an empty line before", "\r\nGET / HTTP/1.1\r\nHost: www.example.com\r\n\r\n", "200, open");
    list.add(
        "many empty lines before",
        format!("{}GET / HTTP/1.1\r\nHost: www.example.com\r\n\r\n", "\r\n".repeat(50)),
        "200, open",
    );
    list.add("a space before", " GET / HTTP/1.1\r\nHost: www.example.com\r\n\r\n", "400, closed");
    list.add(
        "a space before the first field",
        "GET / HTTP/1.1\r\n X: y\r\nHost: www.example.com\r\n\r\n",
        "400, closed",
    );
    for (name, line) in [
        ("a carriage return in a value", "X: a\rb"),
        ("a zero byte in a value", "X: a\0b"),
        ("a zero byte in a name", "X\0Y: a"),
        ("a folded line", "X: a\r\n b"),
        ("a folded line with a tab", "X: a\r\n\tb"),
        ("a space before a colon", "X : a"),
        ("a space in a name", "X Y: a"),
        ("no name", ": a"),
        ("no colon", "X"),
        ("a name that is not ASCII", "Xé: a"),
        ("a name with a parenthesis", "X(Y): a"),
        ("a name in quotes", "\"X\": a"),
        ("a control character in a value", "X: a\x7fb"),
    ] {
        list.get(name, &format!("{line}\r\n"), "400, closed");
    }
    list.get("a value that is not ASCII", "X: é\r\n", "200, open");
    list.get("no value", "X:\r\n", "200, open");
    // A line feed ends a line (RFC 9112 §2.2 leaves this to the recipient), so the body begins after the
    // second one.
    list.post(
        "a header that ends in line feeds",
        &format!("Content-Length: 27\nX: a\n\n{FORM}"),
        "",
        "200, open",
    );
}

/// The limits on a request's header.
fn sizes(list: &mut List) {
    let fields =
        |count: usize| (0..count).fold(String::new(), |all, number| format!("{all}X-{number}: y\r\n"));
    list.get("a field of 20 KiB", &format!("X: {}\r\n", "y".repeat(20 << 10)), "431, closed");
    list.get("a header of 20 KiB in 90 fields", &fields(90).replace('y', &"y".repeat(230)), "431, closed");
    list.get("100 fields", &fields(99), "200, open");
    list.get("101 fields", &fields(100), "431, closed");
    list.line("a target of 20 KiB", &format!("GET /{} HTTP/1.1", "y".repeat(20 << 10)), "431, closed");
    list.line("a method of 20 KiB", &format!("{} / HTTP/1.1", "G".repeat(20 << 10)), "431, closed");
}

/// Request targets: RFC 9112 §3.2 and RFC 3986.
fn targets(list: &mut List) {
    for (name, target, expected) in [
        ("absolute form", "http://www.example.com/", "200, open"),
        ("absolute form with another host", "http://evil.example.com/", "200, open"),
        ("absolute form with a user", "http://ada@www.example.com/", "400, open"),
        ("absolute form without a host", "http:///", "400, closed"),
        ("absolute form with another scheme", "ftp://www.example.com/", "200, open"),
        ("authority form", "www.example.com:80", "400, open"),
        ("asterisk form", "*", "400, open"),
        ("no slash", "about", "400, open"),
        ("two slashes", "//robots.txt", "308, open"),
        ("dot segments", "/about/../robots.txt", "400, open"),
        ("encoded dot segments", "/about/%2e%2e/robots.txt", "400, open"),
        ("an encoded slash", "/about%2f", "400, open"),
        ("an encoded backslash", "/about%5c", "400, open"),
        ("a backslash", "/about\\", "400, open"),
        ("an encoded zero byte", "/about%00", "400, open"),
        ("an encoded line end", "/about%0d%0aX:y", "400, open"),
        ("a percent sign alone", "/about%", "400, open"),
        ("a percent sign and one digit", "/about%2", "400, open"),
        ("a percent sign and letters", "/about%zz", "400, open"),
        ("an overlong encoding", "/about%c0%af", "400, open"),
        ("a double encoding", "/about%252f", "404, open"),
        ("a fragment", "/#robots", "200, open"),
        ("a query with anything", "/?%zz&%00", "200, open"),
        ("a zero byte", "/about\0", "400, closed"),
        ("a tab", "/\trobots.txt", "400, closed"),
        ("a space", "/ /robots.txt", "400, closed"),
        ("a quotation mark", "/\"", "404, open"),
        ("bytes that are not ASCII", "/é", "404, open"),
    ] {
        list.line(name, &format!("GET {target} HTTP/1.1"), expected);
    }
    list.line("CONNECT", "CONNECT www.example.com:443 HTTP/1.1", "400, closed");
    list.line("CONNECT to a path", "CONNECT / HTTP/1.1", "400, closed");
    list.line("OPTIONS of the server", "OPTIONS * HTTP/1.1", "400, open");
}

/// RFC 9112 §3.2: a request with no, several or an invalid Host gets a 400.
fn hosts(list: &mut List) {
    list.add("no host", "GET / HTTP/1.1\r\n\r\n", "400, open");
    list.add("no host in HTTP/1.0", "GET / HTTP/1.0\r\n\r\n", "200, closed");
    list.get("two hosts", "Host: evil.example.com\r\n", "400, open");
    list.get("two hosts that agree", "Host: www.example.com\r\n", "400, open");
    for (name, host, expected) in [
        ("an empty host", "", "200, open"),
        ("a host with a port", "www.example.com:8080", "200, open"),
        ("an IPv6 address", "[2001:db8::1]:80", "200, open"),
        ("two hosts in one line", "www.example.com, evil.example.com", "400, open"),
        ("a host with a user", "ada@www.example.com", "400, open"),
        ("a host with a path", "www.example.com/robots.txt", "400, open"),
        ("a host with a space", "www.example.com evil.example.com", "400, open"),
        ("a host with a port that is none", "www.example.com:80x", "400, open"),
        ("a host that is not ASCII", "www.example.com\u{e9}", "400, open"),
    ] {
        list.add(name, format!("GET / HTTP/1.1\r\nHost: {host}\r\n\r\n"), expected);
    }
}

/// Methods and versions: RFC 9112 §2.3 and §3.
fn methods_and_versions(list: &mut List) {
    for (name, line, expected) in [
        ("HTTP/0.9", "GET /", "400, closed"),
        ("HTTP/1.2", "GET / HTTP/1.2", "400, closed"),
        ("HTTP/1.10", "GET / HTTP/1.10", "400, closed"),
        ("HTTP/2.0", "GET / HTTP/2.0", "400, closed"),
        ("HTTP/3", "GET / HTTP/3", "400, closed"),
        ("HTTP in small letters", "GET / http/1.1", "400, closed"),
        ("a version without digits", "GET / HTTP/", "400, closed"),
        ("two spaces", "GET  / HTTP/1.1", "400, closed"),
        ("tabs for spaces", "GET\t/\tHTTP/1.1", "400, closed"),
        ("a space after the version", "GET / HTTP/1.1 ", "400, closed"),
        ("a method in small letters", "get / HTTP/1.1", "405, open"),
        ("a method that nobody knows", "SMUGGLE / HTTP/1.1", "405, open"),
        ("a method that is no token", "G@T / HTTP/1.1", "400, closed"),
        ("TRACE", "TRACE / HTTP/1.1", "405, open"),
    ] {
        list.line(name, line, expected);
    }
    list.add("HTTP/1.0", "GET / HTTP/1.0\r\nHost: www.example.com\r\n\r\n", "200, closed");
    let lines = "Host: www.example.com\r\nConnection: keep-alive\r\n";
    list.add("HTTP/1.0 that stays", format!("GET / HTTP/1.0\r\n{lines}\r\n"), "200, open");
}

/// The boundary between a request and the next one.
fn one_after_the_other(list: &mut List) {
    let length = |body: &str| format!("Content-Length: {}\r\n", body.len());
    let other =
        format!("POST /api/waitlist HTTP/1.1\r\nHost: www.example.com\r\n{}\r\n{SMUGGLED}", length(SMUGGLED));
    list.add("a body that nobody reads", other.clone(), "400, open");
    list.add("a body that nobody reads, and a form", other + &post(&length(FORM), FORM), "400 200, open");
    list.post("a form whose body is a request", &length(SMUGGLED), SMUGGLED, "400, open");
    list.post(
        "a form that has not arrived when 100 is waited for",
        &format!("Expect: 100-continue\r\n{}", length(FORM)),
        FORM,
        "100 200, open",
    );
    list.post(
        "a form that expects what there is not",
        &format!("Expect: robots\r\n{}", length(FORM)),
        FORM,
        "200, open",
    );
    let unwanted = format!(
        "POST / HTTP/1.1\r\nHost: www.example.com\r\nExpect: 100-continue\r\n{}\r\n",
        length(SMUGGLED)
    );
    list.add("an unwanted body that waits for 100", unwanted.clone(), "405, closed");
    list.add("an unwanted body that should have waited", unwanted + SMUGGLED, "405, closed");
    list.get(
        "an upgrade to HTTP/2",
        "Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQAoAAAAAIAAAAA\r\n",
        "200, open",
    );
    list.post(
        "an upgrade with a body",
        &format!("Connection: Upgrade\r\nUpgrade: websocket\r\n{}", length(SMUGGLED)),
        SMUGGLED,
        "400, open",
    );
    list.get(
        "a request after the last",
        &format!("Connection: close\r\n\r\n{}", SMUGGLED.trim_end()),
        "200, closed",
    );
    list.get(
        "a length that is called a hop's own",
        "Connection: Content-Length\r\nContent-Length: 0\r\n",
        "200, open",
    );
}
