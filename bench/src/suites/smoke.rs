//! One short round of frontdesk and the yardstick: whether measuring works at all. Nothing is compared.

use anyhow::{Context as _, Result, ensure};

use crate::Bench;
use crate::content::{Files, LARGE, SMALL, check_headers, write_site};
use crate::cores::Cores;
use crate::http::{Asker, ask, get};
use crate::load::{self, Cycle, Expected, Load};
use crate::peer::{folder, frontdesk, yardstick};

/// Starts both and checks what they answer: HTML, Markdown and 304, of both sizes.
pub fn run(bench: &Bench) -> Result<()> {
    let (site, root) = (folder()?, folder()?);
    write_site(site.path())?;
    let ours = frontdesk::start(bench, &frontdesk::Options::new("frontdesk", site.path()))?;
    let files = Files::fetch(ours.address, root.path())?;
    let mut exchanges = Vec::new();
    for page in [SMALL, LARGE] {
        for (asker, file) in [(Asker::Browser, page.file), (Asker::Agent, page.twin)] {
            let request = get(asker, page.path, "identity", None);
            let answer = ask(ours.address, &request)?;
            check_headers(&answer, true)?;
            ensure!(answer.body == files.body(file, None)?, "{} differs from {file}", page.path);
            let etag = answer.header("etag").context("there is a validator")?;
            let again = get(asker, page.path, "identity", Some(etag));
            let known = ask(ours.address, &again)?;
            ensure!(
                known.status == 304 && known.body.is_empty(),
                "a validator is answered with {}",
                known.status
            );
            exchanges.push((request, Expected::like(&answer)));
            exchanges.push((again, Expected::like(&known)));
        }
    }
    let load = Load {
        machine: bench.machine,
        cores: Cores::Generator,
        connections: 16,
        warm_up: bench.warm_up,
        length: bench.length,
    };
    let seen = load::run(&load, ours.address, ours.process(), |_, count| Cycle::new(&exchanges, count))?;
    bench.say(&format!("frontdesk: {} right answers, {:.1} µs each", seen.answers, seen.cost()));
    let request = get(Asker::Browser, SMALL.path, "identity", None);
    let minimal = yardstick::start(bench, &yardstick::bytes_like(&ask(ours.address, &request)?))?;
    let exchange = [(request.clone(), Expected::like(&ask(minimal.address, &request)?))];
    let seen = load::run(&load, minimal.address, minimal.process(), |_, count| Cycle::new(&exchange, count))?;
    bench.say(&format!("yardstick: {} right answers, {:.1} µs each", seen.answers, seen.cost()));
    Ok(())
}
