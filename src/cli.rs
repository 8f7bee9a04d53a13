//! The command line: what was typed, turned into what is meant, and one function a command.
//!
//! Data goes to standard output, progress and diagnostics to standard error. 0 is fine, 1 findings or failure, 2 wrong usage.

mod backup;
mod check;
mod completions;
mod config;
mod doctor;
mod export;
pub mod inbox;
mod init;
mod restore;
mod serve;
mod site;
mod store;
mod theme;

use std::io::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, CommandFactory as _, Parser, Subcommand};

use crate::config::{Config, Flag};
use crate::store::Place as Inbox;
use crate::web::Address;

/// A company's front desk on the web: serves the website to people and agents, and keeps every form submission.
#[derive(Debug, Parser)]
#[command(
    name = "frontdesk",
    version,
    max_term_width = 100,
    arg_required_else_help = true,
    propagate_version = true
)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Write a complete small site to begin with
    Init {
        /// The folder to write it to; created if it is not there
        dir: PathBuf,
    },
    /// Serve a site
    Serve {
        /// The site's folder
        #[arg(default_value = ".")]
        site: PathBuf,
        #[command(flatten)]
        overrides: Overrides,
        /// Read the site and its configuration again whenever something in its folder changes
        #[arg(long)]
        watch: bool,
    },
    /// Check a site: configuration, front matter, links, anchors, paths, descriptions
    Check {
        /// The site's folder
        #[arg(default_value = ".")]
        site: PathBuf,
        /// One JSON object a line
        #[arg(long)]
        json: bool,
    },
    /// Write the whole site as static files, with its headers and redirects as rules for nginx, for hosts and for other programs
    Export(export::Wanted),
    /// Read what was submitted, and decide what becomes of it
    Inbox {
        #[command(subcommand)]
        command: inbox::InboxCommand,
        /// The site's folder
        #[arg(long, global = true, default_value = ".", value_name = "DIR")]
        site: PathBuf,
        /// Where submissions are kept
        #[arg(long, global = true, value_name = "DIR")]
        data_dir: Option<PathBuf>,
    },
    /// Copy the inbox to a file, also while a server runs: whole, verified, and on stable storage
    Backup {
        /// The file to write, readable by you alone
        file: PathBuf,
        /// Replace the file if it is there already
        #[arg(long)]
        force: bool,
        #[command(flatten)]
        place: Place,
    },
    /// Put a backup in the inbox's place while no server runs
    Restore {
        /// The file that `frontdesk backup` wrote; it is verified first and not changed
        file: PathBuf,
        /// Replace the inbox if there is one, and keep that under another name beside it
        #[arg(long)]
        force: bool,
        #[command(flatten)]
        place: Place,
    },
    /// Bring the inbox's database up to date, or carry it over into another one
    Store {
        #[command(subcommand)]
        command: store::StoreCommand,
        /// The site's folder
        #[arg(long, global = true, default_value = ".", value_name = "DIR")]
        site: PathBuf,
        /// Where submissions are kept
        #[arg(long, global = true, value_name = "DIR")]
        data_dir: Option<PathBuf>,
    },
    /// Send a test message down each channel, look at the sender's domain, and say what to mend
    Doctor {
        /// The site's folder
        #[arg(default_value = ".")]
        site: PathBuf,
        /// Where submissions are kept
        #[arg(long, value_name = "DIR")]
        data_dir: Option<PathBuf>,
        #[command(flatten)]
        wanted: doctor::Wanted,
    },
    /// Show the effective settings and where each comes from
    Config {
        /// The site's folder
        #[arg(default_value = ".")]
        site: PathBuf,
        /// One JSON object a line
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        overrides: Overrides,
    },
    /// List the files of the built-in theme, or copy some into a site to change them
    Theme {
        /// The site's folder
        site: PathBuf,
        /// What to copy to its theme/, such as `style.css` or `partials/header.html`
        files: Vec<String>,
    },
    /// Print a completion script for a shell
    Completions {
        /// The shell
        shell: clap_complete::Shell,
    },
    /// Write the manual pages, for packages and for `man`
    Man {
        /// The folder to write them to
        dir: PathBuf,
    },
}

/// Flags that win over the configuration.
#[derive(Debug, Args)]
struct Overrides {
    /// The public address, or several; port 0 picks a free one, and `unix:PATH` is a socket on this machine
    #[arg(long, value_name = "ADDR:PORT", value_delimiter = ',')]
    listen: Vec<Address>,
    /// The private address for health checks, or `off`
    #[arg(long, value_name = "ADDR:PORT")]
    ops_listen: Option<String>,
    /// Where submissions are kept
    #[arg(long, value_name = "DIR")]
    data_dir: Option<PathBuf>,
}

/// Where the inbox is.
#[derive(Debug, Args)]
struct Place {
    /// The site's folder
    #[arg(long, default_value = ".", value_name = "DIR")]
    site: PathBuf,
    /// Where submissions are kept
    #[arg(long, value_name = "DIR")]
    data_dir: Option<PathBuf>,
}

impl Place {
    /// Reads the configuration of this site, with `data_dir` if it is set.
    fn configuration(self) -> anyhow::Result<Config> {
        let overrides = Overrides { listen: Vec::new(), ops_listen: None, data_dir: self.data_dir };
        site::configuration(&self.site, &overrides.flags())
    }

    /// The database.
    fn database(self) -> anyhow::Result<Inbox> {
        Ok(self.configuration()?.store.place)
    }
}

impl Overrides {
    /// As the configuration lists them. What is typed is relative to where it is typed.
    fn addresses(&self) -> String {
        let whole = self.listen.iter().map(|address| match address {
            Address::Unix(path) => Address::Unix(absolute(path).into()).to_string(),
            address @ Address::Tcp(_) => address.to_string(),
        });
        whole.collect::<Vec<_>>().join(",")
    }

    fn flags(&self) -> Vec<Flag> {
        [
            ("server.listen", "--listen", Some(self.addresses()).filter(|listed| !listed.is_empty())),
            ("server.ops_listen", "--ops-listen", self.ops_listen.clone()),
            ("store.data_dir", "--data-dir", self.data_dir.as_ref().map(absolute)),
        ]
        .into_iter()
        .filter_map(|(key, name, value)| Some(Flag { key, name, value: value? }))
        .collect()
    }
}

/// A path that was typed is relative to where it was typed, not to the site's folder.
fn absolute(path: &PathBuf) -> String {
    std::path::absolute(path).unwrap_or_else(|_| path.clone()).display().to_string()
}

/// Runs the command line of this process.
pub fn main() -> ExitCode {
    match run(Arguments::parse().command) {
        Ok(code) => code,
        // Whoever reads us has seen enough.
        Err(error) if is_broken_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => {
            // Nobody is left to tell if this fails.
            let _ = report(&error);
            ExitCode::FAILURE
        }
    }
}

fn run(command: Command) -> anyhow::Result<ExitCode> {
    match command {
        Command::Init { dir } => init::run(&dir),
        Command::Serve { site, overrides, watch } => serve::run(&site, &overrides.flags(), watch),
        Command::Check { site, json } => check::run(&site, json),
        Command::Export(wanted) => export::run(&wanted),
        Command::Inbox { command, site, data_dir } => {
            let config = Place { site, data_dir }.configuration()?;
            inbox::run(&command, &config)
        }
        Command::Backup { file, force, place } => backup::run(&place.database()?, &file, force),
        Command::Restore { file, force, place } => restore::run(&file, &place.database()?, force),
        Command::Store { command, site, data_dir } => {
            let overrides = Overrides { listen: Vec::new(), ops_listen: None, data_dir };
            store::run(&command, &site::configuration(&site, &overrides.flags())?)
        }
        Command::Doctor { site, data_dir, wanted } => {
            let overrides = Overrides { listen: Vec::new(), ops_listen: None, data_dir };
            doctor::run(&site::configuration(&site, &overrides.flags())?, &wanted)
        }
        Command::Config { site, json, overrides } => config::run(&site, &overrides.flags(), json),
        Command::Theme { site, files } => theme::run(&site, &files),
        Command::Completions { shell } => completions::run(&mut Arguments::command(), shell),
        Command::Man { dir } => completions::manual(Arguments::command(), &dir),
    }
}

fn is_broken_pipe(error: &anyhow::Error) -> bool {
    let mut causes = error.chain().filter_map(|cause| cause.downcast_ref::<std::io::Error>());
    causes.any(|error| error.kind() == std::io::ErrorKind::BrokenPipe)
}

/// Prints `error: …`, what led to it, and a hint where there is one.
fn report(error: &anyhow::Error) -> std::io::Result<()> {
    let mut stderr = anstream::stderr().lock();
    writeln!(stderr, "{}error:{} {error}", style::ERROR, style::ERROR.render_reset())?;
    for cause in error.chain().skip(1) {
        writeln!(stderr, "  because: {cause}")?;
    }
    Ok(())
}

/// Colours of the terminal; left out where `NO_COLOR` is set or nobody would see them.
mod style {
    use anstyle::{AnsiColor, Style};

    pub(super) const ERROR: Style = AnsiColor::Red.on_default().bold();
    pub(super) const WARNING: Style = AnsiColor::Yellow.on_default().bold();
    pub(super) const GOOD: Style = AnsiColor::Green.on_default().bold();
    pub(super) const DIM: Style = Style::new().dimmed();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_well_formed() {
        Arguments::command().debug_assert();
    }
}
