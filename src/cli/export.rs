//! `frontdesk export`: writes the site as static files, with rules for other servers.
//!
//! [`frontdesk_app::responses_for_export`] describes every response, [`layout`] assigns files to bodies, and
//! [`manifest`], [`nginx`] and [`hosts`] write the rules in three formats. [`folder`] puts the files in place
//! and removes those of an earlier export.

mod folder;
mod headers_and_redirects;
mod layout;
mod manifest;
mod nginx;
mod nginx_map;
mod nginx_negotiation;

use std::io::Write as _;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context as _, anyhow, bail};
use clap::Args;

use self::folder::ExportFolder;
use self::layout::ExportLayout;
use super::config_and_site_loading::{self, SiteArgument, SiteCache};
use super::config_needs;
use super::diagnostics::{GOOD, WARNING, count_faults, counted, print_faults, with_hint};
use frontdesk_app::responses_for_export::describe;
use frontdesk_config::Config;
use frontdesk_forms::text::visible;
use frontdesk_http::{Address, reachable};
use frontdesk_site::Encodings;

#[derive(Debug, Args)]
pub(super) struct ExportOptions {
    #[command(flatten)]
    site: SiteArgument,
    /// Folder to write to: new, empty, or an earlier export, which is replaced
    #[arg(short, long, value_name = "DIR")]
    output: PathBuf,
    /// Addresses to which nginx forwards form submissions; default: this site's `server.listen`
    #[arg(long, value_name = "HOST:PORT", value_delimiter = ',', value_parser = parse_replica)]
    replica: Vec<String>,
    /// Folder in which nginx finds the pages, if it is not `public` in the output
    #[arg(long, value_name = "DIR")]
    root: Option<PathBuf>,
    /// Data folder, as for `frontdesk serve`; the export uses the compressed files cached there
    #[arg(long, value_name = "DIR", value_parser = config_and_site_loading::parse_data_dir)]
    data_dir: Option<PathBuf>,
}

/// Exports the site to the output folder, and prints the number of files. Compresses all files as strongly as
/// possible first, which can take minutes. Writes nothing if it fails before the files are complete, for
/// example if neither `base_url` nor a domain for ACME is set, if the site has errors, or if
/// [`ExportFolder::claim`] refuses the output folder.
pub(super) fn run(options: &ExportOptions) -> anyhow::Result<ExitCode> {
    let site_folder = options.site.path();
    let config = config_and_site_loading::load_configuration(
        site_folder,
        options.data_dir.clone(),
        config_needs::EVERYTHING,
    )?
    .with_base_url(None);
    if config.base_url.is_none() {
        return Err(with_hint(
            anyhow!("`base_url` is not set, so every absolute link would point to this machine"),
            "set `base_url = \"https://www.example.com\"` in frontdesk.toml, or FRONTDESK_BASE_URL",
        ));
    }
    let folder = ExportFolder::claim(&options.output, site_folder, &config.served_folders)?;
    let (site, faults) =
        config_and_site_loading::load_site(site_folder, &config, &mut SiteCache::of_server(&config));
    let Some(site) = site else {
        print_faults(&faults);
        bail!("the site cannot be exported ({})", count_faults(&faults));
    };
    let site = site.strengthened_now(&Encodings::new(config_and_site_loading::encodings_folder(&config)));
    let description = describe(&site, &config.web.content_security_policy)
        .context("cannot export the site, because a file could not be read")?;
    let layout = ExportLayout::of(description);
    let root = pages_root(options, &folder)?;
    let replicas = replicas(options, &config)?;

    let mut files = layout.files();
    let rules = [
        ("public/_headers", headers_and_redirects::headers(&layout)),
        ("public/_redirects", headers_and_redirects::redirects(&layout, &site.rule_lines())),
        ("nginx/http.conf", nginx::render_http_conf(&layout, &replicas, &config.web)),
        ("nginx/server.conf", nginx::render_server_conf(&layout, &root, &config.web)),
    ];
    files.extend(rules.map(|(name, text)| (name.to_owned(), text.into())));
    let manifest = manifest::compose(&layout, &site.base_url, &files);
    files.insert(folder::MANIFEST.to_owned(), manifest.into());
    let (count, bytes) = (files.len(), files.values().map(bytes::Bytes::len).sum::<usize>());
    let replaced = folder.fill(&files)?;

    let mut stderr = anstream::stderr().lock();
    if !faults.is_empty() {
        let folder = site_folder.display();
        writeln!(stderr, "{}; run `frontdesk check {folder}` for details", count_faults(&faults))?;
    }
    if site.has_rules() {
        writeln!(
            stderr,
            "{WARNING}warning:{WARNING:#} redirects with `*`, `:name` or query parameters are exported to `_redirects`, but not to \
             nginx's configuration: add them there"
        )?;
    }
    let (word, to) = (if replaced { "replaced:" } else { "written:" }, options.output.display());
    writeln!(
        stderr,
        "{GOOD}{word}{GOOD:#} {} in {} ({} KiB) in {to}",
        counted(site.page_count, "page"),
        counted(count, "file"),
        bytes.div_ceil(1024),
    )?;
    Ok(ExitCode::SUCCESS)
}

/// The absolute path at which nginx finds the pages: `--root`, or else `public` in the output. Fails if
/// nginx's configuration cannot contain it: it is not UTF-8, or has a line break.
fn pages_root(options: &ExportOptions, folder: &ExportFolder) -> anyhow::Result<String> {
    let root = match &options.root {
        Some(root) => std::path::absolute(root)
            .with_context(|| format!("cannot make the path `{}` of `--root` absolute", root.display()))?,
        None => folder.path.join("public"),
    };
    let refused = |why: &str| {
        let root = visible(&root.to_string_lossy());
        let error = anyhow!("the path `{root}` cannot be written to nginx's configuration: {why}");
        with_hint(error, "name the folder of the pages on nginx's machine, as in `--root /var/www/site`")
    };
    let text = root.to_str().ok_or_else(|| refused("it is not UTF-8"))?;
    if text.contains(['\n', '\r']) {
        return Err(refused("it contains a line break"));
    }
    Ok(text.to_owned())
}

/// The addresses to which nginx forwards forms: those of `--replica`, or else of `server.listen`, where
/// 127.0.0.1 stands for an address on all interfaces. Fails for an address of `server.listen` with port 0.
fn replicas(options: &ExportOptions, config: &Config) -> anyhow::Result<Vec<String>> {
    if !options.replica.is_empty() {
        return Ok(options.replica.clone());
    }
    config
        .listen
        .iter()
        .map(|address| match address {
            Address::Tcp(address) if address.port() == 0 => Err(with_hint(
                anyhow!(
                    "nginx cannot forward forms to `server.listen` = `{address}`: port 0 is a different port at each start"
                ),
                "set a port in `server.listen`, or name a server for the forms, as in `--replica 192.0.2.1:8080`",
            )),
            Address::Tcp(address) => Ok(reachable(*address).to_string()),
            Address::Unix(_) => Ok(address.to_string()),
        })
        .collect()
}

/// Checks the address of a server for nginx: an IP address or a host name, each with a port other than 0, or
/// a Unix socket with an absolute path. Returns it unchanged.
fn parse_replica(text: &str) -> Result<String, String> {
    let is_name = |host: &str| {
        !host.is_empty() && host.bytes().all(|byte| byte.is_ascii_alphanumeric() || b".-".contains(&byte))
    };
    let is_port = |port: &str| port.parse::<u16>().is_ok_and(|port| port > 0);
    let is_valid = match text.parse::<Address>() {
        Ok(Address::Unix(path)) => path.is_absolute() && !text.contains(char::is_control),
        // nginx does not know the short forms `8080` and `:8080`.
        Ok(Address::Tcp(address)) if text.parse::<SocketAddr>().is_ok() => address.port() > 0,
        _ => text.rsplit_once(':').is_some_and(|(host, port)| is_name(host) && is_port(port)),
    };
    is_valid.then(|| text.to_owned()).ok_or_else(|| {
        "expected an address or a name with a port, such as `192.0.2.1:8080`, or `unix:/PATH`".to_owned()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_replica_has_the_syntax_of_nginx() {
        for (text, expected) in [
            ("192.0.2.1:8080", true),
            ("[2001:db8::1]:8080", true),
            ("desk-1.example.com:8080", true),
            ("unix:/run/frontdesk/http.sock", true),
            ("unix:http.sock", false),
            ("192.0.2.1", false),
            ("192.0.2.1:0", false),
            ("desk:0", false),
            ("desk:99999", false),
            (":8080", false),
            ("desk;}:8080", false),
            ("$host:8080", false),
            ("", false),
        ] {
            assert_eq!(parse_replica(text).is_ok(), expected, "{text}");
        }
    }
}
