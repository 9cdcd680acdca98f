//! The idioms that plain technical English does not use, and the search for them in a sentence.

/// Sequences of words that mark an idiom. `^` stands for the start of a sentence, and `|` separates
/// words of which any one fits.
const IDIOMS: &[&str] = &[
    "^ whether",
    "^ that of",
    "^ that which",
    "^ those",
    "what",
    "whatever",
    "whoever",
    "whomever",
    "whom",
    "anew",
    "lest",
    "for ever",
    "by now",
    "in the way",
    "as good as gone",
    "nobody",
    "somebody",
    "everybody",
    "come|comes|came again",
    "is|are|was|were|be|been told",
    "is|are|was|be had",
    "told of",
    "tells of",
    "is|are good for",
    "goes|go on with",
    "hear|hears|heard of",
    "those that|who|which|of|with|without|whose|it|in|on|at|are|were|have|had|is|to",
    "of|for|with|by|to|than|and those $",
    "that of|which what|it|them",
    "one that|who|of|whose who",
    "with it $",
    "but for",
    "as if of",
    "none the",
    "it is to be",
    "is|are to be had",
];

/// Nouns for people, behind which a sentence may say "who".
const PEOPLE: &[&str] = &[
    "administrator",
    "administrators",
    "anyone",
    "attacker",
    "attackers",
    "author",
    "authors",
    "developer",
    "developers",
    "engineer",
    "engineers",
    "everyone",
    "maintainer",
    "maintainers",
    "newcomer",
    "people",
    "person",
    "reader",
    "readers",
    "someone",
    "stranger",
    "strangers",
    "user",
    "users",
];

/// The first idiom in a sentence, as the words of the sentence that form it.
pub(super) fn find(sentence: &str) -> Option<String> {
    let lower = sentence.to_lowercase();
    let apart = |c: char| !c.is_ascii_alphanumeric() && c != '\'' && c != '`' && c != '-';
    let words: Vec<&str> = lower.split(apart).filter(|word| !word.is_empty()).collect();
    let idiom = (0..words.len()).find_map(|at| {
        let sequences = IDIOMS.iter().filter(|idiom| matches(idiom, &words, at));
        let longest = sequences.map(|idiom| length(idiom)).max()?;
        Some(words[at..words.len().min(at + longest)].join(" "))
    });
    idiom.or_else(|| headless_who(&words))
}

/// The number of words of the sentence that an idiom covers.
fn length(idiom: &str) -> usize {
    idiom.split(' ').filter(|part| !["^", "$"].contains(part)).count()
}

fn matches(idiom: &str, words: &[&str], start: usize) -> bool {
    let mut at = start;
    idiom.split(' ').all(|part| match part {
        "^" => at == 0,
        "$" => at == words.len(),
        part => {
            let fits = words.get(at).is_some_and(|word| part.split('|').any(|one| one == *word));
            at += 1;
            fits
        }
    })
}

/// "Who" without a noun for people before it.
fn headless_who(words: &[&str]) -> Option<String> {
    let is_headless = |at: usize| at == 0 || !PEOPLE.contains(&words[at - 1]);
    let at = (0..words.len()).find(|at| words[*at] == "who" && is_headless(*at))?;
    Some(words[at.saturating_sub(1)..=at].join(" "))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(sentence: &str) -> Option<String> {
        find(sentence)
    }

    #[test]
    fn idioms_are_found_as_whole_words() {
        assert_eq!(found("Whether a lease lasts.").as_deref(), Some("whether"));
        assert_eq!(found("It asks whether a lease lasts."), None);
        assert_eq!(found("The caller is told of it.").as_deref(), Some("is told"));
        assert_eq!(found("A somewhat new lease"), None);
        assert_eq!(found("the keys of those").as_deref(), Some("of those"));
        assert_eq!(found("those keys of the table"), Some("those".to_owned()));
        assert_eq!(found("the keys, and those keys of others"), None);
    }

    #[test]
    fn who_needs_a_noun_for_people() {
        assert_eq!(found("for users who mount it"), None);
        assert_eq!(found("an answer for who waits").as_deref(), Some("for who"));
    }
}
