//! README.md: its commands name files of the repository, and subcommands and flags of the command line.

use std::path::Path;

use crate::support::frontdesk;

/// The commands in the `bash` blocks of a text, as words without quotes and comments.
fn block_commands(text: &str) -> Vec<Vec<String>> {
    let blocks = text.split("\n```bash\n").skip(1).filter_map(|rest| rest.split("\n```").next());
    blocks.flat_map(str::lines).map(words).filter(|words| !words.is_empty()).collect()
}

/// The commands that begin with `frontdesk ` in the code spans of a text.
fn inline_commands(text: &str) -> Vec<Vec<String>> {
    let prose = text.lines().filter(|line| !line.contains("```"));
    let spans = prose.flat_map(|line| line.split('`').skip(1).step_by(2));
    spans.filter(|span| span.starts_with("frontdesk ")).map(words).collect()
}

fn words(line: &str) -> Vec<String> {
    let command = line.split("# ").next().unwrap_or_default();
    command.split_whitespace().map(|word| word.trim_matches(['\'', '"']).to_owned()).collect()
}

/// The arguments of `frontdesk`, or of `cargo run … --`.
fn arguments(command: &[String]) -> Option<&[String]> {
    match command.first()?.as_str() {
        "frontdesk" => command.get(1..),
        "cargo" if command.get(1)? == "run" => {
            let separator = command.iter().position(|word| word == "--")?;
            command.get(separator + 1..)
        }
        _ => None,
    }
}

fn readme() -> String {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("README.md");
    std::fs::read_to_string(file).expect("README.md can be read")
}

#[test]
fn the_command_line_knows_the_commands_of_the_readme() {
    let text = readme();
    let commands = [block_commands(&text), inline_commands(&text)].concat();
    let mut checked = 0;
    for command in &commands {
        let Some(arguments) = arguments(command) else { continue };
        // Parses the arguments before it, and runs nothing.
        let output = frontdesk().args(arguments).arg("--help").output().expect("it runs");
        let error = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{}: {error}", command.join(" "));
        checked += 1;
    }
    assert!(checked >= 10, "only {checked} commands were found");
}

#[test]
fn files_in_commands_of_the_readme_exist() {
    let text = readme();
    // The files of a release, which "Install" names, are not in the repository.
    let (start, end) = text.split_once("\n## Install\n").expect("README.md has this section");
    let (_, end) = end.split_once("\n## ").expect("sections follow it");
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut checked = 0;
    for command in [block_commands(start), block_commands(end)].concat() {
        let file = match command[0].as_str() {
            "sh" | "bash" => command.get(1),
            "cargo" => command.iter().skip_while(|word| !matches!(word.as_str(), "--path" | "serve")).nth(1),
            program if program.contains('/') => Some(&command[0]),
            _ => None,
        };
        if let Some(file) = file {
            assert!(root.join(file).exists(), "{}: there is no {file}", command.join(" "));
            checked += 1;
        }
    }
    assert!(checked >= 2, "only {checked} files were found");
}
