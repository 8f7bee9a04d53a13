//! HTTPS on one core: HTTP/2 with h2load, and new connections.

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};

use crate::content::{Content, LARGE, Page, PageRequest, SMALL};
use crate::figures::Section;
use crate::http::{BROWSER, IDENTITY};
use crate::load::{Load, Sample, handshakes};
use crate::peer::Identity;
use crate::peer::file_server::NGINX_WITHOUT_SENDFILE;
use crate::peer::{Peer, create_folder};
use crate::process;
use crate::rounds::interleave;
use crate::settings::{Bench, report_progress};

const CONNECTIONS: usize = 32;
/// Number of concurrent requests on each HTTP/2 connection.
const STREAMS: usize = 10;
const WARM_UP_REQUESTS: u64 = 3_000;
const H2LOAD_TIMEOUT: &str = "120";
/// Number of concurrent clients that open new connections.
const CLIENTS: usize = 16;

/// Measures HTTP/2 with both pages, and then handshakes. All have targets relative to nginx.
pub fn run(bench: &Bench) -> Result<Section> {
    let keys = create_folder()?;
    let identity = Identity::create(keys.path())?;
    let (content, ours) = Content::start(bench, Some(&identity))?;
    let files = content.file_server(Some(&identity));
    let peers = [ours, files.start_nginx(bench, NGINX_WITHOUT_SENDFILE)?, files.start_caddy(bench)?];
    let mut section = Section::default();
    let http2 = format!("h2load, {CONNECTIONS} connections, {STREAMS} concurrent requests on each");
    section.add_condition("HTTP/2", http2);
    let handshakes =
        format!("{CLIENTS} clients, TLS 1.3, X25519, AES-128-GCM, ECDSA on P-256, no resumption");
    section.add_condition("handshakes", handshakes);
    let mut compare = |name: &str, title: &str, target, measure: &dyn Fn(&Peer) -> Result<Sample>| {
        report_progress(title);
        let servers = interleave(bench.rounds, &peers, |peer| &peer.name, measure)?;
        section.record_disturbance(title, &servers);
        section.compare(title, &servers, "nginx", target)?;
        section.add_table(name, title, "", &servers, "nginx")
    };
    for page in [SMALL, LARGE] {
        let name = format!("tls-http2-{}", page.label.to_lowercase().replace(' ', ""));
        let title = format!("HTTP/2 over TLS, HTML, {}", page.label);
        compare(&name, &title, 1.3, &|peer| run_h2load(bench, peer, page, &content))?;
    }
    let config = handshakes::client_config(&identity)?;
    let title = "New connections with a full handshake and the 1 KB page";
    compare("tls-handshakes", title, 2.3, &|peer| {
        let send = |request: &[u8]| handshakes::send(&config, 0, peer.secure, request);
        let (request, response) = content.exchange_over(peer, PageRequest::html(SMALL), send)?;
        handshakes::run(&Load::new(bench, CLIENTS), &config, peer, &request, &response)
    })?;
    Ok(section)
}

/// Measures one round with h2load. Checks one body before it, and the total length of all bodies after it.
fn run_h2load(bench: &Bench, peer: &Peer, page: Page, content: &Content) -> Result<Sample> {
    let url = format!("https://{}{}", peer.secure, PageRequest::html(page).path_on(peer));
    let body = content.body(&page.file(), IDENTITY)?;
    let headers = BROWSER.lines().filter_map(|line| line.split_once(": "));
    let headers = headers.filter(|(name, _)| *name != "Connection").chain([("Accept-Encoding", IDENTITY)]);
    let headers = headers.map(|(name, value)| format!("--header={}: {value}", name.to_lowercase()));
    let headers: Vec<String> = headers.collect();
    let received = process::output(Command::new("nghttp").args(&headers).arg(&url))?;
    ensure!(received.as_bytes() == body, "{} sent a wrong response for {url} over HTTP/2", peer.name);

    let log = peer.folder.path().join("h2load.log");
    let mut command = Command::new("timeout");
    command.args([H2LOAD_TIMEOUT, "h2load"]);
    command.args(format!("-t 1 -c {CONNECTIONS} -m {STREAMS}").split(' '));
    command.arg(format!("--log-file={}", log.display())).args(headers).arg(url);
    command.stdout(Stdio::piped()).stderr(Stdio::null());
    // h2load does not always end when it is given a duration, so calculate the number of requests that fill a
    // round at the rate of the warm-up.
    let (warm, _) = load_with_h2load(&mut command, WARM_UP_REQUESTS, &body, Duration::ZERO)?;
    let requests = WARM_UP_REQUESTS as f64 * (bench.length.as_secs_f64() / warm).max(1.0);
    std::fs::remove_file(&log)?;
    let before = peer.usage();
    let (seconds, busy) = load_with_h2load(&mut command, requests as u64, &body, bench.length / 2)
        .with_context(|| peer.name.clone())?;
    let spent = process::usage_between(&before, &peer.usage());
    let nanoseconds = |line: &str| Some(line.split('\t').nth(2)?.parse::<u64>().ok()? * 1000);
    let log = std::fs::read_to_string(&log)?;
    let latencies: Option<Vec<u64>> = log.lines().map(nanoseconds).collect();
    let latencies = latencies.context("a line in the log of h2load has no response time")?;
    Sample::new(latencies, Duration::from_secs_f64(seconds), &spent, busy)
}

/// Runs h2load. Returns how many seconds it measured, and its CPU utilisation until `pause` has passed. Fails
/// if a response is incorrect.
fn load_with_h2load(
    command: &mut Command,
    requests: u64,
    body: &[u8],
    pause: Duration,
) -> Result<(f64, f64)> {
    let began = Instant::now();
    let child = command.args(["-n", &requests.to_string()]).spawn().context("cannot run h2load")?;
    std::thread::sleep(pause);
    let usage: u64 = process::cpu_usage(child.id()).values().sum();
    let busy = usage as f64 / 1e9 / began.elapsed().as_secs_f64();
    let output = child.wait_with_output()?;
    ensure!(output.status.success(), "h2load failed or timed out: {}", output.status);
    let text = String::from_utf8_lossy(&output.stdout);
    let (responses, bytes, seconds) =
        parse_h2load_output(&text).with_context(|| format!("unexpected output from h2load: {text}"))?;
    let length = body.len() as u64;
    let is_correct = responses == requests && bytes == responses * length;
    ensure!(
        is_correct,
        "h2load received {responses} correct responses to {requests} requests, and {bytes} bytes instead of {length} each"
    );
    Ok((seconds, busy.min(1.0)))
}

/// The number of correct responses, the bytes in their bodies, and the duration in seconds; `None` if a
/// request failed.
fn parse_h2load_output(output: &str) -> Option<(u64, u64, f64)> {
    let line = |begin: &str| output.lines().find_map(|line| line.strip_prefix(begin));
    let requests: Vec<&str> = line("requests: ")?.split(", ").collect();
    let number =
        |what: &str| requests.iter().find_map(|part| part.strip_suffix(what)?.trim().parse::<u64>().ok());
    if (number("failed")?, number("errored")?, number("timeout")?) != (0, 0, 0) {
        return None;
    }
    let codes = line("status codes: ")?;
    let correct = codes.split(" 2xx").next()?.parse().ok()?;
    let bytes = line("traffic: ")?.rsplit_once('(')?.1.split(')').next()?.parse().ok()?;
    let took = line("finished in ")?.split(',').next()?;
    let units = [("us", 1e-6), ("ms", 1e-3), ("s", 1.0)];
    let seconds =
        units.iter().find_map(|(unit, of)| Some(took.strip_suffix(unit)?.parse::<f64>().ok()? * of))?;
    Some((correct, bytes, seconds))
}

#[cfg(test)]
mod tests {
    use super::*;

    const OUTPUT: &str = "finished in 2.00s, 4500.00 req/s, 5.00MB/s
requests: 9000 total, 9010 started, 9000 done, 9000 succeeded, 0 failed, 0 errored, 0 timeout
status codes: 9000 2xx, 0 3xx, 0 4xx, 0 5xx
traffic: 9.00MB (9437184) total, 100.00KB (102400) headers (space savings 95.00%), 8.58MB (9000000) data
";

    #[test]
    fn the_output_of_h2load_is_parsed() {
        assert_eq!(parse_h2load_output(OUTPUT), Some((9000, 9_000_000, 2.0)));
    }

    #[test]
    fn a_failure_in_the_output_is_an_error() {
        assert_eq!(parse_h2load_output(&OUTPUT.replace("0 failed", "1 failed")), None);
        assert_eq!(parse_h2load_output("nothing"), None);
        assert_eq!(
            parse_h2load_output(&OUTPUT.replace("2.00s", "1500.00ms")).map(|parsed| parsed.2),
            Some(1.5)
        );
    }
}
