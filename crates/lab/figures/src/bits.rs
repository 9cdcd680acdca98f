//! Checks that WebAssembly gives the same bits: the program `leasehold-lab-bits`, built natively
//! and for WASI, runs here and in Node.

use crate::Figure;
use std::path::Path;
use std::process::Command;

const PROGRAM: &str = "leasehold-lab-bits";
const TARGET: &str = "wasm32-wasip1";

pub(crate) fn figures() -> Vec<Figure> {
    match compare() {
        Ok((good, of)) => vec![Figure::all("wasm.bit-equal", good, of)],
        Err(why) => {
            eprintln!("wasm.bit-equal: {why}");
            vec![Figure::all("wasm.bit-equal", 0, 0)]
        }
    }
}

/// Returns the number of equal lines of both builds, and the number of all lines.
fn compare() -> Result<(usize, usize), String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../..");
    let target = root.join("target");
    build(&root, &[])?;
    let native = output(&mut Command::new(target.join("release").join(PROGRAM)))?;
    build(&root, &["--target", TARGET])?;
    let wasm = target.join(TARGET).join("release").join(format!("{PROGRAM}.wasm"));
    let host = root.join("crates/lab/bits/run.mjs");
    let foreign = output(Command::new("node").arg("--no-warnings").arg(host).arg(wasm))?;
    let (native, foreign): (Vec<&str>, Vec<&str>) =
        (native.lines().collect(), foreign.lines().collect());
    let same = native.iter().zip(&foreign).filter(|(a, b)| a == b).count();
    Ok((same, native.len().max(foreign.len())))
}

/// Builds the program.
fn build(root: &Path, words: &[&str]) -> Result<(), String> {
    let mut cargo = Command::new("cargo");
    cargo.current_dir(root).args(["build", "--release", "--quiet", "--package", PROGRAM]);
    cargo.args(words);
    output(&mut cargo).map(drop)
}

/// Returns the output of a program.
fn output(command: &mut Command) -> Result<String, String> {
    let name = command.get_program().to_string_lossy().into_owned();
    let output = command.output().map_err(|error| format!("{name}: {error}"))?;
    if output.status.success() {
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    } else {
        Err(format!("{name}: {}", String::from_utf8_lossy(&output.stderr).trim()))
    }
}
