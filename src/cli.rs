//! The command line: parses arguments and runs the command.
//!
//! Data goes to standard output, progress and diagnostics to standard error. The exit code is 0 for success,
//! 1 if a command fails or finds problems, and 2 for incorrect usage.

mod audit;
mod backup;
mod check;
mod config_and_site_loading;
mod config_needs;
mod convert;
mod current_user;
mod diagnostics;
mod doctor;
mod export;
pub mod inbox;
mod init;
mod mcp;
mod screening;
mod serve;
mod stats;
mod store;
mod text_width;
mod theme;

use std::io::{self, Write as _};
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context as _;
use clap::error::{ContextKind, ContextValue};
use clap::{CommandFactory as _, Parser};
use clap_complete::Shell;

use self::config_and_site_loading::{ConfigOverrides, InboxLocation, SiteArgument, SiteFolder};
use self::diagnostics::{ERROR, write_error};
use self::serve::ServeOptions;
use frontdesk_process::panics;

/// A company's front desk on the web: serves the website to people and agents, and keeps submissions
#[derive(Debug, Parser)]
#[command(
    name = "frontdesk",
    version,
    max_term_width = 100,
    arg_required_else_help = true,
    propagate_version = true,
    disable_help_subcommand = true,
    after_help = "`frontdesk help COMMAND` explains a command, and `frontdesk help --all` lists further commands"
)]
enum Command {
    /// Write a small, complete site to start from
    Init {
        /// Folder to write to; created if missing. With `--prebuilt`, the default is `desk` beside the build
        #[arg(required_unless_present = "prebuilt")]
        dir: Option<PathBuf>,
        /// Folder with the output of a site generator: write only a configuration that publishes it
        #[arg(long, value_name = "BUILD")]
        prebuilt: Option<PathBuf>,
    },
    /// Serve a site, or the output of a site generator
    Serve {
        #[command(flatten)]
        site: SiteArgument,
        #[command(flatten)]
        overrides: ConfigOverrides,
        #[command(flatten)]
        options: ServeOptions,
    },
    /// Check a site: configuration, front matter, links, anchors, paths, descriptions
    #[command(after_help = "Exit codes: 0 if there is nothing to fix, 1 if there is, 2 for incorrect usage")]
    Check {
        #[command(flatten)]
        site: SiteArgument,
        /// Folder for submissions
        #[arg(long, value_name = "DIR", value_parser = config_and_site_loading::parse_data_dir)]
        data_dir: Option<PathBuf>,
        /// Print one JSON object per line
        #[arg(long)]
        json: bool,
        /// Also check drafts, scheduled pages and expired pages
        #[arg(long)]
        drafts: bool,
        /// Only load the site, as a server does before it reloads a changed theme
        #[arg(long, hide = true)]
        load_only: bool,
    },
    /// Check from outside whether a site, on any server, is right for people, agents and caches
    #[command(
        after_help = "Exit codes: 0 without findings of severity `broken`, 1 with or if the site cannot be judged, 2 for \
                      incorrect usage"
    )]
    Audit(audit::AuditOptions),
    /// Print the Markdown of an HTML page, as agents receive it
    #[command(hide = true)]
    Convert(convert::ConvertOptions),
    /// Export the site as static files, with its headers and redirects as rules for nginx and static hosts
    Export(export::ExportOptions),
    /// Read, export and manage submissions
    Inbox {
        #[command(subcommand)]
        command: inbox::InboxCommand,
        #[command(flatten)]
        location: InboxLocation,
        /// Print times in UTC instead of this machine's time zone
        #[arg(long, global = true)]
        utc: bool,
    },
    /// Judge texts as screening would, to see which are marked or held, and why
    Screening {
        #[command(subcommand)]
        command: screening::ScreeningCommand,
        #[command(flatten)]
        location: InboxLocation,
    },
    /// Show page views by day, page, client and referring host
    Stats {
        #[command(flatten)]
        options: stats::StatsOptions,
        #[command(flatten)]
        location: InboxLocation,
    },
    /// Copy the inbox to a file and verify the copy, even while a server is running
    Backup {
        /// File to write, readable only by you
        file: PathBuf,
        #[command(flatten)]
        folder: SiteFolder,
        /// Replace an existing file
        #[arg(long)]
        force: bool,
        #[command(flatten)]
        location: InboxLocation,
    },
    /// Restore the inbox from a backup, while no server is running
    Restore {
        /// File written by `frontdesk backup`; verified first, and left unchanged
        file: PathBuf,
        #[command(flatten)]
        folder: SiteFolder,
        /// Replace an existing inbox, and keep it under another name beside the new one
        #[arg(long)]
        force: bool,
        #[command(flatten)]
        location: InboxLocation,
    },
    /// Create the inbox's tables, or move the inbox to another database
    Store {
        #[command(subcommand)]
        command: store::StoreCommand,
        #[command(flatten)]
        location: InboxLocation,
    },
    /// Send a test message through each channel, check the sender's domain, and report problems
    Doctor {
        #[command(flatten)]
        site: SiteArgument,
        /// Folder for submissions
        #[arg(long, value_name = "DIR", value_parser = config_and_site_loading::parse_data_dir)]
        data_dir: Option<PathBuf>,
        #[command(flatten)]
        options: doctor::DoctorOptions,
    },
    /// Serve the inbox to your own AI assistant (Model Context Protocol on standard input and output)
    Mcp {
        #[command(flatten)]
        site: SiteArgument,
        /// Folder for submissions
        #[arg(long, value_name = "DIR", value_parser = config_and_site_loading::parse_data_dir)]
        data_dir: Option<PathBuf>,
        #[command(flatten)]
        options: mcp::McpOptions,
    },
    /// Show the effective settings and where each comes from
    Config {
        #[command(flatten)]
        site: SiteArgument,
        /// Print one JSON object per line
        #[arg(long)]
        json: bool,
        /// Print a documented configuration file with every key and its default; reads no site
        #[arg(long, exclusive = true)]
        all: bool,
        #[command(flatten)]
        overrides: ConfigOverrides,
    },
    /// List the files of the built-in theme, or copy some of them into a site to change them
    Theme {
        /// The site's folder
        site: PathBuf,
        /// Files to copy to the site's theme/, such as `style.css` or `partials/header.html`
        files: Vec<String>,
    },
    /// Print a completion script for a shell
    #[command(hide = true)]
    Completions {
        /// The shell
        shell: Shell,
    },
    /// Write the manual pages
    #[command(hide = true)]
    Man {
        /// Folder to write to
        dir: PathBuf,
    },
    /// Explain a command, such as `frontdesk help inbox list`
    Help {
        /// The command; without it, all that operators need are listed
        command: Vec<String>,
        /// List every command, including those for packagers and scripts
        #[arg(long, conflicts_with = "command")]
        all: bool,
    },
}

/// Runs the command that the process's arguments name. Prints the error of a failed command to standard error
/// and returns failure; a broken pipe counts as success. Exits at once with clap's exit code for incorrect
/// usage, `--help` and `--version`. Installs a panic hook that counts panics.
pub fn main() -> ExitCode {
    let print = std::panic::take_hook();
    panics::set_hook(move |panic, _| print(panic));
    let command = Command::try_parse().unwrap_or_else(|error| improve_usage_error(error).exit());
    match run_command(command) {
        Ok(code) => code,
        // The process that reads standard output has closed it, as `head` does.
        Err(error) if is_broken_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => {
            let label = format!("{ERROR}error:{ERROR:#}");
            let _ = write_error(&label, &error, &mut anstream::stderr().lock());
            ExitCode::FAILURE
        }
    }
}

/// Runs one command. Exits the process with code 2 if the arguments of `inbox` or `audit` cannot be used, and
/// after the help of a command ([`print_help`]).
fn run_command(command: Command) -> anyhow::Result<ExitCode> {
    match command {
        Command::Init { dir, prebuilt } => init::run(dir.as_deref(), prebuilt.as_deref()),
        Command::Serve { site, overrides, options } => serve::run(site.path(), &overrides.flags(), options),
        Command::Check { site, load_only: true, .. } => check::only_load(site.path()),
        Command::Check { site, data_dir, json, drafts, .. } => {
            check::run(site.path(), &config_and_site_loading::data_folder_flags(data_dir), json, drafts)
        }
        Command::Audit(options) => match options.usage_error() {
            Some(message) => exit_with_usage_error(message),
            None => audit::run(&options),
        },
        Command::Convert(options) => convert::run(options),
        Command::Export(options) => export::run(&options),
        Command::Inbox { mut command, location, utc } => {
            let folder = command.take_site_folder().unwrap_or_else(|message| exit_with_usage_error(message));
            inbox::run(&command, &location.load_configuration(folder, command.needs())?, utc)
        }
        Command::Screening { command, location } => screening::run(command, location),
        Command::Stats { mut options, location } => {
            let folder = options.folder.site.take();
            stats::run(&options, &location.load_configuration(folder, config_needs::STORE)?)
        }
        Command::Backup { file, folder, force, location } => {
            let config = location.load_configuration(folder.site, config_needs::STORE_AND_BUILD)?;
            backup::back_up(&config, &file, force)
        }
        Command::Restore { file, folder, force, location } => {
            let config = location.load_configuration(folder.site, config_needs::STORE_AND_BUILD)?;
            backup::restore(&file, &config.store.url, force)
        }
        Command::Store { mut command, location } => {
            let folder = command.take_site_folder();
            store::run(&command, &location.load_configuration(folder, config_needs::STORE_AND_BUILD)?)
        }
        Command::Doctor { site, data_dir, options } => {
            doctor::run(site.path(), &config_and_site_loading::data_folder_flags(data_dir), &options)
        }
        Command::Mcp { site, data_dir, options } => mcp::run(site.path().to_owned(), data_dir, &options),
        Command::Config { all: true, .. } => check::print_complete_file(),
        Command::Config { site, json, overrides, .. } => {
            check::show_settings(site.path(), &overrides.flags(), json)
        }
        Command::Theme { site, files } => theme::run(&site, &files),
        Command::Completions { shell } => {
            let mut script = Vec::new();
            clap_complete::generate(shell, &mut with_all_commands(), "frontdesk", &mut script);
            io::stdout().lock().write_all(&script)?;
            Ok(ExitCode::SUCCESS)
        }
        Command::Man { dir } => {
            std::fs::create_dir_all(&dir).with_context(|| format!("cannot create {}", dir.display()))?;
            clap_mangen::generate_to(with_all_commands(), &dir)
                .with_context(|| format!("cannot write to {}", dir.display()))?;
            Ok(ExitCode::SUCCESS)
        }
        Command::Help { command, all } => print_help(command, all),
    }
}

/// The command line with the commands that the first help screen leaves out.
fn with_all_commands() -> clap::Command {
    Command::command().mut_subcommands(|command| command.hide(false))
}

/// Prints the help of the command with these names as `--help` does, or of `frontdesk` without names, and
/// exits the process: with code 0, or with code 2 if there is no such command. With `all`, prints a list with
/// every command and returns.
fn print_help(names: Vec<String>, all: bool) -> anyhow::Result<ExitCode> {
    if all {
        with_all_commands().after_help(None).print_help()?;
        return Ok(ExitCode::SUCCESS);
    }
    let line = ["frontdesk".to_owned()].into_iter().chain(names).chain(["--help".to_owned()]);
    match Command::try_parse_from(line) {
        Ok(_) => Ok(ExitCode::SUCCESS),
        Err(help) => improve_usage_error(help).exit(),
    }
}

/// Adds a tip to an error about an unknown option that begins with `--port`: use `--listen`. Sorts suggested
/// commands by their similarity to the typed one, the most similar first.
fn improve_usage_error(mut error: clap::Error) -> clap::Error {
    let text = |error: &clap::Error, kind| match error.get(kind) {
        Some(ContextValue::String(text)) => text.clone(),
        _ => String::new(),
    };
    if text(&error, ContextKind::InvalidArg).starts_with("--port") {
        let tip = "`--listen 9090` serves on a port of this machine, and `--listen :9090` on all interfaces";
        error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![tip.into()]));
    }
    let typed = text(&error, ContextKind::InvalidSubcommand);
    if let Some(ContextValue::Strings(names)) = error.get(ContextKind::SuggestedSubcommand) {
        let mut names = names.clone();
        names.sort_by_key(|name| strsim::osa_distance(&typed, name));
        error.insert(ContextKind::SuggestedSubcommand, ContextValue::Strings(names));
    }
    error
}

/// Prints a usage error as clap does, and exits with code 2.
fn exit_with_usage_error(message: String) -> ! {
    Command::command().error(clap::error::ErrorKind::MissingRequiredArgument, message).exit()
}

/// Whether a cause of the error is a broken pipe, no matter which: in practice, standard output or standard
/// error, whose reader has closed it.
fn is_broken_pipe(error: &anyhow::Error) -> bool {
    let mut causes = error.chain().filter_map(|cause| cause.downcast_ref::<io::Error>());
    causes.any(|error| error.kind() == io::ErrorKind::BrokenPipe)
}

#[cfg(test)]
mod tests {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt as _;

    use clap::error::ErrorKind;

    use super::*;

    #[test]
    fn usage_errors_suggest_what_was_meant() {
        for (line, expected) in [
            ("frontdesk serve --port 9090", "`--listen 9090` serves on a port of this machine"),
            ("frontdesk serve --port=9090", "`--listen 9090` serves on a port of this machine"),
            ("frontdesk sevre", "'serve', '"),
        ] {
            let error = Command::try_parse_from(line.split(' ')).expect_err("it is not valid");
            let said = improve_usage_error(error).to_string();
            assert!(said.contains(expected), "{line}: {said}");
        }
    }

    #[test]
    fn a_data_folder_that_no_configuration_can_name_is_refused() {
        let folder = OsStr::from_bytes(b"/d\xffta");
        for line in
            ["serve", "check", "config", "export --output x", "inbox list", "backup x", "doctor", "mcp"]
        {
            let words = || ["frontdesk"].into_iter().chain(line.split(' ')).map(OsStr::new);
            let parse = |folder| Command::try_parse_from(words().chain([OsStr::new("--data-dir"), folder]));
            assert!(parse(OsStr::new("data")).is_ok(), "{line}");
            let error = parse(folder).expect_err("TOML cannot name it");
            assert_eq!(error.kind(), ErrorKind::InvalidUtf8, "{line}");
        }
    }

    #[test]
    fn only_a_target_that_may_be_a_folder_is_called_missing() {
        for (target, may_be_folder) in [
            ("no such folder", true),
            ("https://ada:secret@example.com/", false),
            ("ada:secret@example.com", false),
            ("ftp://example.com/", false),
        ] {
            let command = Command::try_parse_from(["frontdesk", "audit", target]).expect("it is valid");
            let Command::Audit(options) = command else { unreachable!("{command:?}") };
            let message = options.usage_error().expect(target);
            assert_eq!(message.ends_with(", and no folder has this name"), may_be_folder, "{message}");
        }
    }

    #[test]
    fn the_command_line_is_well_formed() {
        Command::command().debug_assert();
    }
}
