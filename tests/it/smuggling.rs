//! Request smuggling: responses to requests that other servers parse differently. No request is ever parsed
//! as two.

mod attacks;
mod proxies;

use crate::support::{Connection, TestServer, small_site};
use attacks::{Attack, LOOT};

/// The path that is requested after each attack, to see whether the connection is still open.
const MARKER: &str = "/llms.txt";

#[test]
fn a_request_is_never_read_as_two() {
    let server = TestServer::with(
        &small_site(),
        &[
            ("FRONTDESK_LIMITS__ENABLED", "false"),
            ("FRONTDESK_SERVER__FIRST_BYTE_TIMEOUT", "2s"),
            ("FRONTDESK_SERVER__HEADER_TIMEOUT", "2s"),
            ("FRONTDESK_SERVER__BODY_TIMEOUT", "2s"),
            ("FRONTDESK_SERVER__IDLE_TIMEOUT", "2s"),
        ],
    );
    let marker = server.get(MARKER, &[]).body;
    let wrong: Vec<String> =
        attacks::all().iter().filter_map(|attack| check(&server, attack, &marker).err()).collect();
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
    // All forms that were accepted are the same submission.
    server.expect(1);
}

/// Sends the attack, reads its answers, requests the marker, and compares the results. Returns the difference
/// as an error.
fn check(server: &TestServer, attack: &Attack, marker: &[u8]) -> Result<(), String> {
    let before = requests(server);
    let mut connection = server.connect();
    // The server may close the connection before it has read everything.
    let _ = connection.send(&attack.bytes);
    let answers =
        attack.expected.split(' ').filter(|word| word.ends_with(',') || word.parse::<u16>().is_ok()).count();
    let (said, was_answered) = listen(&mut connection, answers, marker);
    if said != attack.expected {
        return Err(format!("{}: {said} instead of {}", attack.name, attack.expected));
    }
    let seen = requests(server) - before - usize::from(was_answered);
    let most = said
        .split([' ', ','])
        .filter(|status| status.parse::<u16>().is_ok_and(|status| status >= 200))
        .count();
    if seen > most {
        return Err(format!("{}: {seen} requests were seen, and {most} answered", attack.name));
    }
    Ok(())
}

/// Reads this many answers. Returns their statuses, followed by whether the connection is open or closed, and
/// whether the marker was answered.
fn listen(connection: &mut Connection, answers: usize, marker: &[u8]) -> (String, bool) {
    let mut statuses = Vec::new();
    for number in 0.. {
        if number == answers {
            let asked = format!("GET {MARKER} HTTP/1.1\r\nHost: www.example.com\r\n\r\n");
            let _ = connection.send(asked.as_bytes());
        }
        match connection.answer(false) {
            Ok(answer) if answer.status == 200 && answer.body == marker => {
                return (format!("{}, open", statuses.join(" ")), true);
            }
            Ok(answer) => {
                let is_loot = answer.body.windows(LOOT.len()).any(|window| window == LOOT);
                statuses.push(format!("{}{}", answer.status, if is_loot { "(smuggled)" } else { "" }));
            }
            Err(_) => break,
        }
    }
    (format!("{}, closed", statuses.join(" ")), false)
}

/// The number of requests that the server has counted.
fn requests(server: &TestServer) -> usize {
    let metrics = server.ops("/metrics");
    let counts = metrics.text().lines().filter(|line| line.starts_with("frontdesk_requests_total"));
    counts.filter_map(|line| line.rsplit(' ').next()?.parse::<usize>().ok()).sum()
}
