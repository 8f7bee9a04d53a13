//! HTTPS on one core: HTTP/2 by h2load, and new handshakes.

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};

use super::Outcome;
use super::pages::FRONTDESK;
use crate::Bench;
use crate::compare::{self, Rounds};
use crate::content::{Files, LARGE, Page, SMALL, check_headers, write_site};
use crate::cores::Cores;
use crate::figures::{Bar, Unit};
use crate::http::{Asker, get};
use crate::latency::Latencies;
use crate::load::{Load, Sample};
use crate::peer::{Peer, caddy, folder, frontdesk, nginx};
use crate::process;
use crate::rounds::interleave;
use crate::tls::{self, Identity};

/// Connections of h2load, and requests at a time on each.
const CONNECTIONS: usize = 32;
const STREAMS: usize = 10;
/// Requests before anything is counted.
const FEW: u64 = 3_000;
/// h2load must have come to its end.
const PATIENCE: Duration = Duration::from_mins(2);
/// Clients that shake hands at a time.
const CLIENTS: usize = 16;

/// Measures both.
pub fn run(bench: &Bench) -> Result<Outcome> {
    let (site, root, keys) = (folder()?, folder()?, folder()?);
    write_site(site.path())?;
    let identity = Identity::make(keys.path())?;
    let pair = (identity.certificate.as_path(), identity.key.as_path());
    let options = frontdesk::Options::new(FRONTDESK, site.path())
        .set("FRONTDESK_TLS__LISTEN", "127.0.0.1:0")
        .set("FRONTDESK_TLS__CERTIFICATE", pair.0.to_string_lossy())
        .set("FRONTDESK_TLS__KEY", pair.1.to_string_lossy())
        .set("FRONTDESK_TLS__REDIRECT", "false");
    let ours = frontdesk::start(bench, &options)?;
    let files = Files::fetch(ours.address, root.path())?;
    let options = nginx::Options {
        name: "nginx",
        root: root.path(),
        cores: Cores::Servers,
        headers: &files.headers,
        sendfile: false,
        gzip_static: true,
        tls: Some(pair),
    };
    let nginx = nginx::start(bench, &options)?;
    let options = caddy::Options {
        root: root.path(),
        cores: Cores::Servers,
        headers: &files.headers,
        precompressed: true,
        tls: Some(pair),
    };
    let peers = [ours, nginx, caddy::start(bench, &options)?];
    let mut outcome = Outcome::default();
    outcome.condition(
        "HTTP/2",
        format!("h2load, {CONNECTIONS} connections, {STREAMS} requests at a time on each"),
    );
    outcome.condition(
        "handshakes",
        format!("{CLIENTS} clients, TLS 1.3, X25519, AES-128-GCM, ECDSA on P-256, no resumption"),
    );
    for page in [SMALL, LARGE] {
        bench.say(&format!("HTTP/2, {}", page.label));
        let seen = interleave(
            bench.rounds,
            &peers,
            |peer| peer.name.clone(),
            |peer| h2load(bench, peer, page, &files),
        )?;
        let title = format!("HTTP/2 over TLS, HTML, {}", page.label);
        let name = format!("tls-http2-{}", page.label.to_lowercase().replace(' ', ""));
        conclude(&mut outcome, &peers, seen, &name, &title, 1.3)?;
    }
    bench.say("handshakes");
    let config = tls::client(&identity)?;
    let seen = interleave(
        bench.rounds,
        &peers,
        |peer| peer.name.clone(),
        |peer| {
            let secure = peer.secure.context("it listens over TLS")?;
            let request = get(Asker::Browser, address(peer, SMALL), "identity", None);
            let answer = tls::once(&config, 0, secure, &request)?;
            ensure!(
                answer.status == 200 && answer.body == files.body(SMALL.file, None)?,
                "{} answers wrongly",
                peer.name
            );
            if peer.name == FRONTDESK {
                check_headers(&answer, true)?;
            }
            let load = Load {
                machine: bench.machine,
                cores: Cores::Generator,
                connections: CLIENTS,
                warm_up: bench.warm_up,
                length: bench.length,
            };
            tls::handshakes(&load, &config, secure, peer.process(), &request, &answer)
        },
    )?;
    conclude(
        &mut outcome,
        &peers,
        seen,
        "tls-handshakes",
        "New connections with a full handshake and one page of 1 KB",
        2.3,
    )?;
    Ok(outcome)
}

fn conclude(
    outcome: &mut Outcome,
    peers: &[Peer],
    seen: Vec<Vec<Sample>>,
    name: &str,
    title: &str,
    wanted: f64,
) -> Result<()> {
    let mut rounds = Vec::new();
    for (peer, samples) in peers.iter().zip(seen) {
        outcome.keep(name, &peer.name, &samples)?;
        rounds.push(Rounds { label: peer.name.clone(), samples });
    }
    outcome.look_for_disturbance(title, &rounds);
    let (ratio, by) = compare::ratio(&rounds[0], &rounds[1]);
    outcome.bars.push(Bar::at_least(
        format!("{title}: frontdesk beside nginx, {by}"),
        wanted,
        ratio.median,
        Unit::Ratio,
    ));
    outcome.tables.push(compare::table(name, title, "", &rounds, "nginx"));
    Ok(())
}

fn address(peer: &Peer, page: Page) -> &'static str {
    if peer.name == FRONTDESK { page.path } else { page.file }
}

/// One round of h2load, after a short one that is not counted. What is answered is compared once before it, and by its length behind
/// it.
fn h2load(bench: &Bench, peer: &Peer, page: Page, files: &Files) -> Result<Sample> {
    let secure = peer.secure.context("it listens over TLS")?;
    let url = format!("https://{secure}{}", address(peer, page));
    let body = files.body(page.file, None)?;
    let headers: Vec<String> = Asker::Browser
        .headers()
        .iter()
        .filter(|(name, _)| *name != "Connection")
        .map(|(name, value)| format!("--header={}: {value}", name.to_lowercase()))
        .chain(["--header=accept-encoding: identity".to_owned()])
        .collect();
    let output = Command::new("nghttp").args(&headers).arg(&url).output().context("nghttp cannot be run")?;
    ensure!(
        output.status.success() && output.stdout == body,
        "{} answers {url} wrongly over HTTP/2",
        peer.name
    );

    let log = peer.folder().join("h2load.log");
    // A number of requests rather than a time: h2load does not always come to an end at the end of a time.
    let warm = finish(fire(&headers, &url, FEW, &log)?, &body, FEW)?;
    let answers = (FEW as f64 / warm * bench.length.as_secs_f64()).max(FEW as f64) as u64;
    let before = peer.usage();
    let began = Instant::now();
    let child = fire(&headers, &url, answers, &log)?;
    std::thread::sleep(bench.length.mul_f64(0.5));
    let busy = process::usage(child.id()).total() as f64 / 1e9 / began.elapsed().as_secs_f64();
    let seconds = finish(child, &body, answers).with_context(|| peer.name.clone())?;
    let spent = peer.usage().since(&before);
    let mut latencies = Latencies::default();
    for line in std::fs::read_to_string(&log)?.lines() {
        let micros = line.split('\t').nth(2).and_then(|micros| micros.parse::<u64>().ok());
        latencies.note(micros.context("h2load's log has a time in each line")? * 1000);
    }
    let sample = Sample {
        answers,
        seconds,
        server: spent.iter().sum::<u64>() as f64 / 1e9,
        busiest: spent.first().copied().unwrap_or(0) as f64 / 1e9,
        generator: busy.min(1.0),
        ..Sample::default()
    };
    Ok(sample.with(&latencies))
}

/// Starts h2load with so many requests. What each took goes to `log`.
fn fire(headers: &[String], url: &str, requests: u64, log: &Path) -> Result<Child> {
    if log.exists() {
        std::fs::remove_file(log)?;
    }
    let mut command = Command::new("h2load");
    command.args([
        "-t",
        "1",
        "-c",
        &CONNECTIONS.to_string(),
        "-m",
        &STREAMS.to_string(),
        "-n",
        &requests.to_string(),
    ]);
    command.arg(format!("--log-file={}", log.display())).args(headers).arg(url);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    command.spawn().context("h2load cannot be run")
}

/// The seconds that h2load needed. An error if it does not end, or any answer was not right.
fn finish(mut child: Child, body: &[u8], requests: u64) -> Result<f64> {
    let began = Instant::now();
    while child.try_wait()?.is_none() {
        if began.elapsed() > PATIENCE {
            child.kill()?;
            child.wait()?;
            bail!("h2load does not end");
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    let output = child.wait_with_output()?;
    let said = String::from_utf8_lossy(&output.stdout);
    let (answers, bytes, seconds) = understand(&said).with_context(|| format!("h2load says: {said}"))?;
    ensure!(answers == requests, "{answers} of {requests} answers are right");
    ensure!(
        bytes == answers * body.len() as u64,
        "{answers} answers of {} bytes had {bytes} bytes",
        body.len()
    );
    Ok(seconds)
}

/// Right answers, bytes of their bodies, and seconds. None where it reports any failure, or says something else.
fn understand(said: &str) -> Option<(u64, u64, f64)> {
    let line = |begin: &str| said.lines().find_map(|line| line.strip_prefix(begin));
    let requests: Vec<&str> = line("requests: ")?.split(", ").collect();
    let number =
        |what: &str| requests.iter().find_map(|part| part.strip_suffix(what)?.trim().parse::<u64>().ok());
    if (number("failed")?, number("errored")?, number("timeout")?) != (0, 0, 0) {
        return None;
    }
    let codes = line("status codes: ")?;
    let right = codes.split(" 2xx").next()?.parse().ok()?;
    let bytes = line("traffic: ")?.rsplit_once('(')?.1.split(')').next()?.parse().ok()?;
    let took = line("finished in ")?.split(',').next()?;
    let units = [("us", 1e-6), ("ms", 1e-3), ("s", 1.0)];
    let seconds =
        units.iter().find_map(|(unit, of)| Some(took.strip_suffix(unit)?.parse::<f64>().ok()? * of))?;
    Some((right, bytes, seconds))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SAID: &str = "finished in 2.00s, 4500.00 req/s, 5.00MB/s
requests: 9000 total, 9010 started, 9000 done, 9000 succeeded, 0 failed, 0 errored, 0 timeout
status codes: 9000 2xx, 0 3xx, 0 4xx, 0 5xx
traffic: 9.00MB (9437184) total, 100.00KB (102400) headers (space savings 95.00%), 8.58MB (9000000) data
";

    #[test]
    fn what_h2load_says_is_understood() {
        assert_eq!(understand(SAID), Some((9000, 9_000_000, 2.0)));
    }

    #[test]
    fn a_failure_is_no_answer() {
        assert_eq!(understand(&SAID.replace("0 failed", "1 failed")), None);
        assert_eq!(understand("nothing"), None);
        assert_eq!(understand(&SAID.replace("2.00s", "1500.00ms")).map(|said| said.2), Some(1.5));
    }
}
