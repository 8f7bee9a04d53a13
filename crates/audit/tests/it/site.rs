//! A site on a loopback address that is right in every respect, unless a test plants a fault.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use frontdesk_audit::{Options, Report, Severity, Url, audit};

use crate::content;

/// A request as the site got it.
#[derive(Clone, Debug, Default)]
pub struct Asked {
    pub method: String,
    /// The path and query.
    pub target: String,
    /// Names in lower case.
    pub headers: Vec<(String, String)>,
    pub body: String,
    /// The scheme and host of the site.
    pub origin: String,
}

impl Asked {
    pub fn path(&self) -> &str {
        self.target.split('?').next().unwrap_or_default()
    }

    /// All lines of a field, joined by commas; empty if there is none.
    pub fn header(&self, name: &str) -> String {
        let lines = self.headers.iter().filter(|(own, _)| own == name).map(|(_, value)| value.as_str());
        lines.collect::<Vec<_>>().join(", ")
    }
}

/// A response. `Content-Length` and `Connection` are added when it is sent.
#[derive(Clone, Debug)]
pub struct Answer {
    pub status: u16,
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
}

impl Answer {
    pub fn new(status: u16, kind: &str, body: impl Into<Vec<u8>>) -> Answer {
        let headers = if kind.is_empty() { vec![] } else { vec![("content-type".into(), kind.into())] };
        Answer { status, headers, body: body.into() }
    }

    /// The value of a field; empty if there is none.
    pub fn header(&self, name: &str) -> &str {
        self.headers.iter().find(|(own, _)| own == name).map_or("", |(_, value)| value)
    }

    /// Replaces a field; an empty value removes it. Names are in lower case.
    #[must_use]
    pub fn with(mut self, name: &str, value: &str) -> Answer {
        self.headers.retain(|(own, _)| own != name);
        if !value.is_empty() {
            self.headers.push((name.to_owned(), value.to_owned()));
        }
        self
    }

    /// Replaces text in an uncompressed body.
    #[must_use]
    pub fn replaced(mut self, from: &str, to: &str) -> Answer {
        self.body = String::from_utf8_lossy(&self.body).replace(from, to).into_bytes();
        self
    }
}

type Fault = dyn Fn(&Asked, Answer) -> Answer + Send + Sync;

/// A running site. Stops when it is dropped.
pub struct FakeSite {
    address: SocketAddr,
    requests: Arc<Mutex<Vec<Asked>>>,
    is_stopped: Arc<AtomicBool>,
}

impl FakeSite {
    /// Starts the site without a fault.
    pub fn correct() -> FakeSite {
        FakeSite::with_fault(|_, answer| answer)
    }

    /// Starts a site whose right answers `fault` changes. It gets them before compression, and before a HEAD
    /// or 304 loses its body; for conditional requests see [`content::conclude`].
    pub fn with_fault(fault: impl Fn(&Asked, Answer) -> Answer + Send + Sync + 'static) -> FakeSite {
        FakeSite::serving(move |asked| content::conclude(asked, fault(asked, content::answer(asked))))
    }

    /// Starts a site whose final answers `fault` changes: compressed, and without body for a HEAD or 304.
    pub fn with_late_fault(fault: impl Fn(&Asked, Answer) -> Answer + Send + Sync + 'static) -> FakeSite {
        FakeSite::serving(move |asked| fault(asked, content::conclude(asked, content::answer(asked))))
    }

    /// Starts a site with its own answers.
    pub fn serving(answer: impl Fn(&Asked) -> Answer + Send + Sync + 'static) -> FakeSite {
        FakeSite::raw(move |asked, stream| {
            let answer = answer(asked);
            let mut head = format!("HTTP/1.1 {} Status\r\n", answer.status);
            for (name, value) in &answer.headers {
                head += &format!("{name}: {value}\r\n");
            }
            if !matches!(answer.status, 204 | 304) && asked.method != "HEAD" {
                head += &format!("content-length: {}\r\n", answer.body.len());
            }
            head += "connection: close\r\n\r\n";
            let _ = stream.write_all(head.as_bytes());
            if asked.method != "HEAD" {
                let _ = stream.write_all(&answer.body);
            }
        })
    }

    /// Starts a site that writes the bytes of its responses itself.
    pub fn raw(answer: impl Fn(&Asked, &mut TcpStream) + Send + Sync + 'static) -> FakeSite {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let address = listener.local_addr().expect("an address");
        let requests = Arc::new(Mutex::new(Vec::new()));
        let is_stopped = Arc::new(AtomicBool::new(false));
        let (answer, log, stopped) = (Arc::new(answer), requests.clone(), is_stopped.clone());
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                if stopped.load(Ordering::Relaxed) {
                    return;
                }
                let (Ok(stream), answer, log) = (stream, answer.clone(), log.clone()) else { continue };
                std::thread::spawn(move || serve_one(stream, address, &*answer, &log));
            }
        });
        FakeSite { address, requests, is_stopped }
    }

    pub fn url(&self, path: &str) -> Url {
        Url::parse(&format!("http://{}{path}", self.address)).expect("a URL")
    }

    /// All requests so far.
    pub fn requests(&self) -> Vec<Asked> {
        self.requests.lock().expect("no panic").clone()
    }

    /// Audits the site from its home page, without pauses between requests.
    pub fn audit(&self) -> Report {
        self.audit_with(&Options { pace: Duration::ZERO, ..Options::default() })
    }

    pub fn audit_with(&self, options: &Options) -> Report {
        self.try_audit("/", options).unwrap_or_else(|error| panic!("{error}"))
    }

    pub fn try_audit(&self, path: &str, options: &Options) -> Result<Report, frontdesk_audit::AuditError> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        runtime.block_on(audit(&self.url(path), options, 7))
    }

    /// Asserts that the audit reports this rule with this severity, and no other rule.
    #[track_caller]
    pub fn assert_finds(&self, rule: &str, severity: Severity) {
        let report = self.audit();
        let found: Vec<_> = report.findings.iter().map(|f| (f.rule.id, f.severity)).collect();
        let is_right = !found.is_empty() && found.iter().all(|found| *found == (rule, severity));
        assert!(is_right, "expected only {rule}: {}", describe(&report));
    }

    /// The rules and severities of the findings of a group, without repetitions.
    pub fn found_in(&self, group: &str) -> Vec<(&'static str, Severity)> {
        let report = self.audit();
        let own = report.findings.iter().filter(|finding| finding.rule.group.title() == group);
        let mut found: Vec<_> = own.map(|finding| (finding.rule.id, finding.severity)).collect();
        found.dedup();
        found
    }

    /// Asserts that the audit reports nothing.
    #[track_caller]
    pub fn assert_clean(&self) {
        let report = self.audit();
        assert!(report.findings.is_empty(), "{}", describe(&report));
    }
}

/// The findings and what was not judged, a line each.
pub fn describe(report: &Report) -> String {
    let findings = report.findings.iter().map(|finding| {
        let evidence: Vec<_> = finding.evidence.iter().map(|exchange| exchange.summary()).collect();
        format!(
            "{} {} {} {} {evidence:?}",
            finding.severity.word(),
            finding.rule.id,
            finding.url,
            finding.message
        )
    });
    let not_judged =
        report.not_judged.iter().map(|note| format!("not judged {:?}: {}", note.group, note.reason));
    findings.chain(not_judged).collect::<Vec<_>>().join("\n")
}

impl Drop for FakeSite {
    fn drop(&mut self) {
        self.is_stopped.store(true, Ordering::Relaxed);
        let _ = TcpStream::connect(self.address);
    }
}

/// Reads one request, and answers it.
fn serve_one(
    stream: TcpStream,
    address: SocketAddr,
    answer: &(dyn Fn(&Asked, &mut TcpStream) + Send + Sync),
    log: &Mutex<Vec<Asked>>,
) {
    let mut reader = BufReader::new(stream);
    let mut asked = Asked { origin: format!("http://{address}"), ..Asked::default() };
    let mut line = String::new();
    if reader.read_line(&mut line).unwrap_or(0) == 0 {
        return;
    }
    let mut words = line.split_whitespace().map(str::to_owned);
    asked.method = words.next().unwrap_or_default();
    asked.target = words.next().unwrap_or_default();
    loop {
        line.clear();
        if reader.read_line(&mut line).unwrap_or(0) == 0 || line.trim().is_empty() {
            break;
        }
        if let Some((name, value)) = line.split_once(':') {
            asked.headers.push((name.trim().to_ascii_lowercase(), value.trim().to_owned()));
        }
    }
    let length = asked.header("content-length").parse().unwrap_or(0);
    let mut body = vec![0; length];
    let _ = reader.read_exact(&mut body);
    asked.body = String::from_utf8_lossy(&body).into_owned();
    log.lock().expect("no panic").push(asked.clone());
    answer(&asked, reader.get_mut());
}
