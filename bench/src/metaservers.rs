//! Several metaservers of one file system, in namespaces with narrow links: names by
//! `metaservers.sh`, data by `links.sh`.

mod data;

use std::error::Error;
use std::path::Path;
use std::process::Command;

use crate::Options;
use crate::figure::Figure;
use crate::names::SPAN;
use crate::servers::ours;

pub(crate) use data::allowed;

type Result<T> = std::result::Result<T, Box<dyn Error>>;

/// The prefixes of the figures of each part of `metaservers.sh`, and the part.
const PARTS: [(&str, &str); 4] =
    [("miss", "miss"), ("creates", "creates"), ("build", "build"), ("lazy.staleness", "staleness")];

/// The limits in milliseconds for a name: for each queried metaserver, and in total.
const MISS_MS: f64 = 1.0;
const CONSTANT_MS: f64 = 2.0;

/// The paper's milliseconds for each queried metaserver.
const PAPER_MS: f64 = 66.0;

/// The default lazy window of the metaservers.
const WINDOW_S: f64 = 3.0;

/// Measures in namespaces, and prints the figures part by part.
pub(crate) fn measure(options: &Options) -> Result<()> {
    for (figure, part) in PARTS {
        if !options.wants(figure) {
            continue;
        }
        let mut command = script("metaservers.sh")?;
        let text = output(command.arg(std::env::current_exe()?).arg(part))?;
        match part {
            "miss" => print_misses(&text)?,
            "creates" => print_creates(&text)?,
            "build" => print_builds(&text)?,
            _ => print_staleness(&text)?,
        }
    }
    data::measure(options)
}

/// Returns a script for namespaces, with our program.
fn script(name: &str) -> Result<Command> {
    let mut command = Command::new("bash");
    command.arg(Path::new(env!("CARGO_MANIFEST_DIR")).join(name)).arg(ours()?);
    Ok(command)
}

fn output(command: &mut Command) -> Result<String> {
    let done = command.output()?;
    if !done.status.success() {
        let said = String::from_utf8_lossy(&done.stderr).into_owned();
        return Err(format!("{command:?}: {}: {said}", done.status).into());
    }
    Ok(String::from_utf8(done.stdout)?)
}

/// Returns the words of each line.
fn lines(text: &str) -> impl Iterator<Item = Vec<&str>> {
    text.lines().map(|line| line.split(' ').collect())
}

fn unexpected<T>(words: &[&str]) -> Result<T> {
    Err(format!("a script wrote {:?}", words.join(" ")).into())
}

/// A lookup of a name that another metaserver has made, in a query order.
struct Miss<'a> {
    order: &'a str,
    count: u32,
    ms: f64,
}

impl Miss<'_> {
    /// Returns the paper's time for the same number of metaservers.
    fn paper_ms(&self) -> f64 {
        PAPER_MS * f64::from(self.count.saturating_sub(1))
    }
}

fn print_misses(text: &str) -> Result<()> {
    let mut misses = Vec::new();
    for words in lines(text) {
        let ["miss", order, count, ms] = *words else { return unexpected(&words) };
        misses.push(Miss { order, count: count.parse()?, ms: ms.parse()? });
    }
    let of = |order: &'static str| misses.iter().filter(move |miss| miss.order == order);
    // From the smallest to the largest: the cost of one more queried metaserver.
    let each = match (of("sequential").next(), of("sequential").next_back()) {
        (Some(few), Some(many)) if many.count > few.count => {
            (many.ms - few.ms) / f64::from(many.count - few.count)
        }
        _ => return Err("one more metaserver was not measured".into()),
    };
    let units = ("ms for each metaserver that is asked", "ms; of the paper");
    Figure::count("miss.ms".to_owned(), (each, PAPER_MS), MISS_MS, units).print();
    let slowest = of("constant").max_by(|one, other| one.ms.total_cmp(&other.ms));
    let slowest = slowest.ok_or("the constant search was not measured")?;
    let units = ("ms, however many there are", "ms; of the paper with as many");
    let both = (slowest.ms, slowest.paper_ms());
    Figure::count("miss.constant.ms".to_owned(), both, CONSTANT_MS, units).print();
    for miss in &misses {
        let name = format!("miss.{}.{}", miss.order, miss.count);
        Figure::beside(name, miss.ms, Some(miss.paper_ms()), "ms; of the paper").print();
    }
    Ok(())
}

/// Returns the part of a figure's name for a mode.
fn in_mode(mode: &str) -> &'static str {
    if mode == "strict" { "strict." } else { "" }
}

/// Files that were created at one metaserver, and its processor time meanwhile.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Made {
    files: f64,
    cpu_s: f64,
}

impl Made {
    fn parse(word: &str) -> Result<Self> {
        let (files, cpu_s) = word.split_once(':').ok_or("files without processor time")?;
        Ok(Self { files: files.parse()?, cpu_s: cpu_s.parse()? })
    }

    fn cpu_us(self) -> f64 {
        self.cpu_s * 1e6 / self.files
    }
}

fn print_creates(text: &str) -> Result<()> {
    // Files per second and processor time for each at one alone, and files per second at four.
    let (mut one, mut four) = (None, None);
    for words in lines(text) {
        let ["creates", mode, count, made @ ..] = &*words else { return unexpected(&words) };
        let made: Vec<Made> = made.iter().map(|word| Made::parse(word)).collect::<Result<_>>()?;
        let all = Made {
            files: made.iter().map(|it| it.files).sum(),
            cpu_s: made.iter().map(|it| it.cpu_s).sum(),
        };
        let rate = all.files / SPAN.as_secs_f64();
        let (of_one, cpu_of_one) = *one.get_or_insert((rate, all.cpu_us()));
        if (*mode, *count) == ("lazy", "4") {
            four = Some(rate);
        }
        let name = |what: &str| format!("creates.{what}{}{count}", in_mode(mode));
        Figure::beside(name(""), rate, Some(of_one), "a second; of one alone").print();
        let unit = "us of all their processor time for a file; at one alone";
        Figure::beside(name("cpu."), all.cpu_us(), Some(cpu_of_one), unit).print();
        for (number, it) in (1..).zip(&made).filter(|_| made.len() > 1) {
            let name = format!("{}.at{number}", name("cpu."));
            let unit = "us of its processor time for a file made there; at one alone";
            Figure::beside(name, it.cpu_us(), Some(cpu_of_one), unit).print();
        }
    }
    let (one, four) = one.zip(four).ok_or("creates at one and at four were not measured")?;
    let unit = "times the creates of one; the most that there could be";
    Figure::beside("creates.scale4".to_owned(), four / one.0, Some(4.0), unit).print();
    Ok(())
}

fn print_builds(text: &str) -> Result<()> {
    let (mut local, mut unlike, mut objects) = (None, 0.0, 0.0);
    for words in lines(text) {
        match *words {
            ["build", "local", _, seconds] => local = Some(seconds.parse::<f64>()?),
            ["build", mode, count, seconds, wrong, all] => {
                let unit = "s; of a local build";
                let name = format!("build.{}{count}", in_mode(mode));
                Figure::beside(name, seconds.parse()?, local, unit).print();
                unlike += wrong.parse::<f64>()?;
                objects += all.parse::<f64>()?;
            }
            _ => return unexpected(&words),
        }
    }
    if objects == 0.0 {
        return Err("nothing was built".into());
    }
    let units = ("object files that are not as a local build's", "object files, by each mount");
    Figure::count("build.unlike".to_owned(), (unlike, objects), 0.0, units).print();
    Ok(())
}

fn print_staleness(text: &str) -> Result<()> {
    let words: Vec<&str> = text.split_whitespace().collect();
    let ["staleness", seconds] = *words else { return unexpected(&words) };
    let units = ("s old at most", "s; of the window");
    let both = (seconds.parse()?, WINDOW_S);
    Figure::count("lazy.staleness".to_owned(), both, WINDOW_S, units).print();
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn script_output_is_parsed_or_rejected() {
        print_misses("miss sequential 2 0.05\nmiss sequential 16 0.2\nmiss constant 2 0.05\n")
            .expect("read");
        print_misses("miss sequential 2 0.05\n").expect_err("one alone says nothing");
        print_creates("creates lazy 1 300:0.1\ncreates lazy 4 3:1 3:1 3:1 3:1\n").expect("read");
        print_creates("creates lazy 1 300\n").expect_err("no processor time");
        print_builds("build local 0 1.5\nbuild strict 2 3.5 0 50\n").expect("read");
        print_builds("build local 0 1.5\n").expect_err("nothing was built");
        print_staleness("staleness 2.9\n").expect("read");
        print_staleness("").expect_err("nothing was measured");
        let made = Made::parse("200:0.5").expect("read");
        assert_eq!(made, Made { files: 200.0, cpu_s: 0.5 });
        assert_eq!(made.cpu_us(), 2500.0);
    }
}
