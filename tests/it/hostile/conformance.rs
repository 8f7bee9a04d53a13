//! HTTP/2 conformance (RFC 9113): the cases of `httpwg`, each with its required outcome.
//! docs/pages/conformance.md explains the deviations.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::support::{NO_DEADLINES, TestServer, small_site};

/// The number of cases in version 0.2.5 of the tool.
const CASES: usize = 107;

/// The maximum number of runs of a case, which is repeated until its outcome is an allowed one.
const ATTEMPTS: usize = 10;

/// The same for the cases in [`RACY`].
const RACY_ATTEMPTS: usize = 40;

/// The tool's message about a connection error with the code PROTOCOL_ERROR.
const PROTOCOL_ERROR: &str = "but got ProtocolError";

/// The tool's message when it expects a reset stream but gets a complete response.
const RESPONSE: &str = "Timed out while waiting for stream error";

/// Cases that the server does not pass, with the tool's messages. The tool expects another error code (the h2
/// crate reports each of these errors as PROTOCOL_ERROR), a reset instead of a 400, or something that this
/// server does not do.
const STEADY: [(&str, &str); 20] = [
    ("closed sends headers frame", PROTOCOL_ERROR),
    ("closed sends headers frame after rst stream", PROTOCOL_ERROR),
    ("half closed remote sends headers frame", PROTOCOL_ERROR),
    ("invalid header block fragment", PROTOCOL_ERROR),
    ("sends ping frame with invalid length", PROTOCOL_ERROR),
    ("sends priority frame with invalid length", PROTOCOL_ERROR),
    ("sends rst stream frame with invalid length", PROTOCOL_ERROR),
    ("sends settings frame with ack and payload", PROTOCOL_ERROR),
    ("sends settings frame with invalid length", PROTOCOL_ERROR),
    ("sends settings initial window size with exceeded max window size value", PROTOCOL_ERROR),
    ("sends settings initial window size with invalid value", PROTOCOL_ERROR),
    ("sends window update frame with invalid length", PROTOCOL_ERROR),
    ("sends connect without authority", RESPONSE),
    ("sends headers frame with leading space in field value", RESPONSE),
    ("sends headers frame with mismatched host authority", RESPONSE),
    ("sends headers frame with pseudo header in trailer", RESPONSE),
    ("sends headers frame with trailing tab in field value", RESPONSE),
    // The header block is incomplete. The server waits for the rest until its deadline, and then closes the
    // connection.
    ("client sends push promise frame", "Timed out while waiting for connection error"),
    // The connection ends after GOAWAY if no request is in progress. A PING that has already arrived is
    // answered.
    ("sends goaway frame with unknown error code", "peer hung up"),
    // The case posts to `/`, which is answered with 405, and expects 200.
    ("sends headers frame with te trailers", "left: 405"),
];

/// Cases that the server passes if it reads the second frame before it has answered the first. Otherwise the
/// stream is closed, not half-closed, and the answer is a connection error.
const RACY: [(&str, &str); 2] = [
    ("half closed remote sends data frame", PROTOCOL_ERROR),
    ("sends data frame on invalid stream state", PROTOCOL_ERROR),
];

/// Runs all cases at once, then repeats those with a wrong outcome, one at a time and with a timeout of a
/// minute.
///
/// The chance that this fails for a correct server is below 1e-6. A case that must pass fails by chance only
/// if it is missed in [`ATTEMPTS`] = 10 runs. In 75 runs of the tool, 60 of them on two cores with three busy
/// loops, none of the 85 cases that must pass was missed. A miss is therefore rarer than 1 in 2,000 (at 95 %
/// confidence), and 85 × (1/2,000)^10 < 1e-30. A machine that stalls for two seconds misses many cases at
/// once, but only in the first run: later runs wait for a minute. A racy case was missed in a quarter of the
/// runs; even at two thirds, 2 × (2/3)^40 < 2e-7. A case in [`STEADY`] may also pass. It fails the test only
/// if the tool reports a different message in all ten runs.
#[test]
#[ignore = "needs httpwg: scripts/test door"]
fn http2_conformance_cases_end_as_listed() {
    // With its default deadlines the server would close an idle connection before the tool's timeout.
    let server = TestServer::with(&small_site(), &NO_DEADLINES);
    let document =
        std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/pages/conformance.md"))
            .expect("it is there");
    for (case, _) in STEADY.iter().chain(&RACY) {
        assert!(
            document.contains(&format!("| {case} |")),
            "docs/pages/conformance.md does not explain {case:?}"
        );
    }
    let outcomes = (0..ATTEMPTS)
        .map(|_| run(server.address, "", "2000"))
        // The tool exits if it does not find a server within a second.
        .find(|outcomes| outcomes.len() == CASES)
        .expect("the tool runs all of its cases");
    let named =
        STEADY.iter().chain(&RACY).filter(|(case, _)| outcomes.keys().any(|name| short(name) == *case));
    assert_eq!(named.count(), STEADY.len() + RACY.len(), "each listed case exists");
    let passed = outcomes.values().filter(|outcome| **outcome == Outcome::Passed).count();
    eprintln!("{passed} of {CASES} cases passed");
    for (case, first) in outcomes {
        let difference = STEADY.iter().find(|(name, _)| *name == short(&case)).map(|(_, said)| *said);
        let attempts =
            if RACY.iter().any(|(name, _)| *name == short(&case)) { RACY_ATTEMPTS } else { ATTEMPTS };
        let mut outcome = first;
        let mut tried = 1;
        while !is_allowed(&outcome, difference) {
            eprintln!("attempt {tried}: {case}: {outcome:?}");
            assert!(tried < attempts, "{case}: {outcome:?} in each of {attempts} attempts");
            tried += 1;
            outcome =
                run(server.address, &case, "60000").remove(&case).unwrap_or(Outcome::Missed(String::new()));
        }
        if difference.is_some() && outcome == Outcome::Passed {
            eprintln!("passed, though it is listed as a difference: {case}");
        }
    }
    server.expect_anything();
}

fn is_allowed(outcome: &Outcome, difference: Option<&str>) -> bool {
    match outcome {
        Outcome::Passed => true,
        Outcome::Missed(said) => difference.is_some_and(|difference| said.contains(difference)),
    }
}

/// The result of a case.
#[derive(Debug, PartialEq, Eq)]
enum Outcome {
    Passed,
    /// Failed, with the tool's message.
    Missed(String),
}

/// The name of a case without its document and section.
fn short(case: &str) -> &str {
    case.rsplit(" :: ").next().unwrap_or(case)
}

/// Runs all cases whose name contains `filter` at once. `timeout` is the tool's timeout for a frame, in
/// milliseconds.
fn run(address: SocketAddr, filter: &str, timeout: &str) -> BTreeMap<String, Outcome> {
    let tools = std::env::var("TEST_TOOLS").expect("scripts/test says where its tools are");
    let output = Command::new(Path::new(&tools).join("cargo/bin/httpwg"))
        .env("RUST_LOG", "error")
        .env("NO_COLOR", "1")
        .args(["--address", &address.to_string(), "--frame-timeout", timeout, "--connect-timeout", "60000"])
        .args(["--verbose", "--filter", filter])
        .stdin(Stdio::null())
        .output()
        .expect("it is installed: scripts/test door does it");
    let said = without_colors(&String::from_utf8_lossy(&output.stderr));
    let mut outcomes = BTreeMap::new();
    for line in said.lines() {
        if let Some((_, case)) = line.split_once("Running test: ") {
            // A case that panics has no result, and its output is mixed with that of other cases.
            outcomes.entry(case.to_owned()).or_insert_with(|| Outcome::Missed(panics(&said)));
        }
        if let Some((_, case)) = line.split_once("Test passed: ") {
            outcomes.insert(case.to_owned(), Outcome::Passed);
        }
    }
    for (_, rest) in said.match_indices("Test failed: ").map(|(at, words)| said.split_at(at + words.len())) {
        let mut lines = rest.lines();
        let case = lines.next().unwrap_or_default().to_owned();
        let why = lines.find(|line| line.trim_start().starts_with("0: ")).unwrap_or_default();
        outcomes.insert(case, Outcome::Missed(why.trim().to_owned()));
    }
    outcomes
}

/// The distinct messages of all panics.
fn panics(said: &str) -> String {
    let lines: BTreeSet<&str> = said
        .lines()
        .map(str::trim)
        .filter(|line| ["Message: ", "left: "].iter().any(|beginning| line.starts_with(beginning)))
        .collect();
    lines.into_iter().collect::<Vec<_>>().join("; ")
}

/// Removes the escape sequences for colors.
fn without_colors(text: &str) -> String {
    let mut parts = text.split("\x1b[");
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |text, part| text + part.split_once('m').map_or(part, |(_, rest)| rest))
}
