//! Prints the Markdown of an HTML page: `convert [FILE|-] [--url URL] [--selector CSS]`.

use std::io::{Read as _, Write as _};
use std::process::ExitCode;

use frontdesk_convert::{Options, Selector, convert, parse_url};

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("convert: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<(), String> {
    let (mut file, mut options) = ("-".to_owned(), Options::default());
    // The first argument may be the word `convert`, as for a program with commands.
    let mut arguments = std::env::args().skip(1).skip_while(|argument| argument == "convert");
    while let Some(argument) = arguments.next() {
        let mut value = || arguments.next().ok_or_else(|| format!("{argument} needs a value"));
        match argument.as_str() {
            "--url" => options.url = Some(parse_url(&value()?)?),
            "--selector" => options.main = Some(Selector::parse(&value()?)?),
            _ => file = argument,
        }
    }
    let mut page = Vec::new();
    let read = if file == "-" {
        std::io::stdin().lock().read_to_end(&mut page).map(drop)
    } else {
        std::fs::read(&file).map(|bytes| page = bytes)
    };
    read.map_err(|error| format!("cannot read {file}: {error}"))?;
    let converted = convert(&String::from_utf8_lossy(&page), &options);
    std::io::stdout().lock().write_all(converted.document().as_bytes()).map_err(|error| error.to_string())
}
