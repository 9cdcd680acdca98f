//! `lab ui`: serves or saves the page.

use crate::output::line;
use crate::{Failure, input};
use clap::Args;
use leasehold_lab_page::{fragment, page};
use leasehold_shell::http::{HTML, Page, Server};
use std::io::Write;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::Arc;

/// Build a system on a page, move a slider and see the effect
///
/// Serves one page to a browser on this machine until the program ends; the browser does all
/// computation. With --save the same page is written to a file that any browser opens without a
/// server.
#[derive(Debug, Args)]
pub struct Ui {
    /// A model file to begin with
    file: Option<PathBuf>,
    /// The address to listen on; port 0 selects a free port
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:7800")]
    listen: SocketAddr,
    /// Open the page in the browser
    #[arg(long)]
    open: bool,
    /// Write the page to a file instead
    #[arg(long, value_name = "FILE", conflicts_with_all = ["listen", "open", "file"])]
    save: Option<PathBuf>,
}

pub(crate) fn run(options: &Ui, out: &mut dyn Write) -> Result<(), Failure> {
    if let Some(path) = &options.save {
        std::fs::write(path, page())
            .map_err(|error| Failure::running(format!("{}: {error}", path.display())))?;
        return line(out, &format!("{}", path.display()));
    }
    let model = options.file.as_deref().map(input::model).transpose()?;
    let listen = options.listen;
    let whole: Arc<str> = page().into();
    let pages = move |path: &str| {
        (path == "/").then(|| Page { content_type: HTML, text: whole.to_string().into() })
    };
    let server = Server::new(listen)
        .map_err(|error| Failure::input(format!("cannot listen at {listen}: {error}")))?;
    let address = server.address().map_err(Failure::running)?;
    let begin = model.map_or(String::new(), |model| fragment(&model.to_json()));
    let address = format!("http://{address}/{begin}");
    line(out, &format!("The laboratory is at {address}\nCtrl-C ends it."))?;
    out.flush().map_err(Failure::running)?;
    if options.open {
        open(&address)?;
    }
    server.run(&Arc::new(pages));
    Ok(())
}

fn open(address: &str) -> Result<(), Failure> {
    let opener = if cfg!(target_os = "macos") { "open" } else { "xdg-open" };
    let started = Command::new(opener)
        .arg(address)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn();
    started.map(drop).map_err(|error| Failure::running(format!("{opener}: {error}")))
}
