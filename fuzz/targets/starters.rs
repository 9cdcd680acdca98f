//! Writes the inputs that fuzzers start from: `starters FOLDER` makes a folder for each target.

use std::io::{Error, ErrorKind};
use std::path::Path;
use std::{env, fs};

use leasehold_fuzz::TARGETS;

fn main() -> Result<(), Error> {
    let folder = env::args_os().nth(1).ok_or_else(|| Error::from(ErrorKind::InvalidInput))?;
    for target in TARGETS {
        let folder = Path::new(&folder).join(target.name);
        fs::create_dir_all(&folder)?;
        for (number, input) in (target.starters)().into_iter().enumerate() {
            fs::write(folder.join(format!("starter-{number}")), input)?;
        }
    }
    Ok(())
}
