//! Dialogues: text files of events and of the effects that must follow them.
//!
//! A line with `> ` is an event; the lines below it are its effects, one per line. Empty lines, and
//! comments with `#`, are for the reader. Each file starts its own state machine. With
//! `DIALOGUES=rewrite` in the environment the effects are rewritten, for review as a diff.

use core::time::Duration;
use std::fmt::Debug;
use std::{env, fs};

use leasehold_base::units::Time;

/// Plays each file of `src/<core>/dialogues`; `start` creates a state machine, which takes the time
/// and words of an event and prints its effects.
pub(crate) fn play<M>(core: &str, start: impl Fn() -> M)
where
    M: FnMut(Time, &[&str]) -> Vec<String>,
{
    let folder = format!("{}/src/{core}/dialogues", env!("CARGO_MANIFEST_DIR"));
    let mut played = 0;
    for file in fs::read_dir(&folder).expect("the folder exists") {
        let path = file.expect("the folder can be read").path();
        let text = fs::read_to_string(&path).expect("a dialogue can be read");
        let spoken = speak(&text, start());
        if env::var_os("DIALOGUES").is_some_and(|mode| mode == "rewrite") {
            fs::write(&path, &spoken).expect("a dialogue can be written");
        } else {
            assert_eq!(text, spoken, "{}", path.display());
        }
        played += 1;
    }
    assert_ne!(played, 0, "no dialogue in {folder}");
}

/// Returns the text of a dialogue with the effects that the state machine returns now.
fn speak(text: &str, mut machine: impl FnMut(Time, &[&str]) -> Vec<String>) -> String {
    let mut spoken = String::new();
    for line in text.lines() {
        let is_effect = !(line.is_empty() || line.starts_with('#') || line.starts_with("> "));
        if is_effect {
            continue;
        }
        spoken += line;
        spoken.push('\n');
        if let Some(event) = line.strip_prefix("> ") {
            let words: Vec<&str> = event.split_whitespace().collect();
            let (time, words) = words.split_first().expect("an event begins with its time");
            for effect in machine(self::time(time), words) {
                spoken += &effect;
                spoken.push('\n');
            }
        }
    }
    spoken
}

/// A time in seconds, such as `2.5s`.
fn time(word: &str) -> Time {
    let seconds = word.strip_suffix('s').and_then(|seconds| seconds.parse().ok());
    Time::ZERO + Duration::from_secs_f64(seconds.expect("a time such as 2.5s"))
}

/// Returns the value after a word, such as 5 in `xid 5`.
pub(crate) fn value<T: core::str::FromStr>(words: &[&str], name: &str) -> Option<T> {
    let at = words.iter().position(|word| *word == name)?;
    words.get(at + 1)?.parse().ok()
}

/// Returns each effect as a line.
pub(crate) fn lines<T: Debug>(effects: &[T]) -> Vec<String> {
    effects.iter().map(|effect| format!("{effect:?}")).collect()
}
