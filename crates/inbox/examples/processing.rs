//! Prints the CPU time of processing, per row, of an inbox that has a backlog.
#![allow(clippy::disallowed_methods, clippy::print_stdout, missing_docs)]
use std::time::{Duration, Instant};
use frontdesk_inbox::intake::{Intake, IntakeOptions};
use frontdesk_inbox::store::{InboxReader, Store, StoreOptions};

fn main() {
    let path = std::path::PathBuf::from(std::env::args().nth(1).unwrap());
    let options = StoreOptions::new(path.clone());
    let cpu = || { let t = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime); t.tv_sec as f64 + t.tv_nsec as f64 / 1e9 };
    let count = || {
        let out = std::process::Command::new("sqlite3").arg(&path).arg("select count(*) from intake").output().unwrap();
        String::from_utf8(out.stdout).unwrap().trim().parse::<f64>().unwrap()
    };
    let rows = count();
    let store = Store::open(&options).unwrap();
    let (began, before) = (Instant::now(), cpu());
    let intake = Intake::start(store, IntakeOptions::default()).unwrap();
    let mut left = rows;
    while left > 2000.0 { std::thread::sleep(Duration::from_millis(100)); left = count(); }
    let done = rows - left;
    println!("{done} rows, {:.2} us CPU, {:.2} us wall per row", (cpu() - before) * 1e6 / done, began.elapsed().as_secs_f64() * 1e6 / done);
    intake.close();
    let _ = InboxReader::open(path.clone());
}
