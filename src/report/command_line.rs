//! A command line as one text that a POSIX shell reads back.

use super::json;

/// The words that [`json::invocation`] joined to `text`; None if it did not write that text.
pub fn words(text: &str) -> Option<Vec<String>> {
    let words = shlex::split(text)?;
    (json::invocation(&words) == text).then_some(words)
}

/// The command line without where its result goes and how it looks, so that running it again replaces no file. What stands behind `--` is another
/// program's and stays. A line that [`json::invocation`] did not write stays as it is.
pub fn without_destinations(line: &str) -> String {
    const WITH_VALUE: [&str; 5] = ["--output", "--plot", "--format", "--color", "-o"];
    let Some(words) = words(line) else { return line.to_owned() };
    let mut kept: Vec<&str> = Vec::new();
    let mut rest = words.iter().map(String::as_str);
    while let Some(word) = rest.next() {
        let is_attached = WITH_VALUE.iter().any(|option| {
            word.strip_prefix(option)
                .is_some_and(|value| value.starts_with('=') || (*option == "-o" && !value.is_empty()))
        });
        match word {
            "--" => {
                kept.push(word);
                kept.extend(rest.by_ref());
            }
            "-q" | "--quiet" => {}
            option if WITH_VALUE.contains(&option) => drop(rest.next()),
            _ if is_attached => {}
            _ => kept.push(word),
        }
    }
    json::invocation(kept)
}

/// How `found`, which a file says, differs from `expected`, both as [`json::invocation`] writes them: another subcommand, or the first option that differs.
pub fn difference(found: &str, expected: &str) -> String {
    let (Some(found_words), Some(expected_words)) = (words(found), words(expected)) else {
        return format!("its invocation is '{found}', not '{expected}'");
    };
    let subcommand = |words: &[String]| words.get(1).cloned().unwrap_or_default();
    if subcommand(&found_words) != subcommand(&expected_words) {
        return format!("it is of attn {}, not of attn {}", subcommand(&found_words), subcommand(&expected_words));
    }
    let (found, expected) = (options(&found_words), options(&expected_words));
    let shown = |option: &[String]| json::invocation(option);
    let same_name = |a: &[String], b: &[String]| a.first() == b.first();
    for option in &found {
        match expected.iter().find(|other| same_name(other, option)) {
            None => return format!("other parameters: {}, which is not given here", shown(option)),
            Some(other) if other != option => {
                return format!("other parameters: {}, not {}", shown(option), shown(other));
            }
            Some(_) => {}
        }
    }
    let missing = expected.iter().find(|option| !found.iter().any(|other| same_name(other, option)));
    match missing {
        Some(option) => format!("other parameters: the file was made without {}, not with it", shown(option)),
        None => "other parameters: the options stand in another order".to_string(),
    }
}

/// Each option with its value; `--name=value` is told apart as well.
fn options(words: &[String]) -> Vec<Vec<String>> {
    let mut options: Vec<Vec<String>> = Vec::new();
    for word in words.iter().skip(2) {
        match (word.strip_prefix("--"), options.last_mut()) {
            (Some(_), _) => options.push(word.splitn(2, '=').map(String::from).collect()),
            (None, Some(option)) => option.push(word.clone()),
            (None, None) => options.push(vec![word.clone()]),
        }
    }
    options
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_read_back_as_they_were_joined() {
        for list in [vec!["attn", "variance", "--dk", "16..64"], vec!["a b", "", "it's", "$x", "\\", "'", "ä\n,"]] {
            assert_eq!(words(&json::invocation(&list)).as_deref(), Some(&list.map_to_strings()[..]));
        }
        for other in ["a  b", " a", "a ", "'a'", "'a", "a\\", "\"a\""] {
            assert_eq!(words(other), None, "{other}");
        }
    }

    trait Strings {
        fn map_to_strings(&self) -> Vec<String>;
    }

    impl Strings for Vec<&str> {
        fn map_to_strings(&self) -> Vec<String> {
            self.iter().map(ToString::to_string).collect()
        }
    }

    #[test]
    fn the_first_option_that_differs_is_named() {
        for (found, expected, difference_expected) in [
            ("attn mask --dk 3", "attn variance --dk 3", "it is of attn mask, not of attn variance"),
            ("attn mask --dk 3 --seed 1", "attn mask --dk 5 --seed 2", "other parameters: --dk 3, not --dk 5"),
            ("attn mask --mean=-1", "attn mask --mean 1", "other parameters: --mean -1, not --mean 1"),
            ("attn mask --by-row", "attn mask", "other parameters: --by-row, which is not given here"),
            ("attn mask", "attn mask --seed 3", "other parameters: the file was made without --seed 3, not with it"),
        ] {
            assert_eq!(difference(found, expected), difference_expected);
        }
    }

    #[test]
    fn where_a_result_goes_is_no_part_of_how_it_is_made() {
        for (line, kept) in [
            ("attn audit a.npz -o a.json --causal -q", "attn audit a.npz --causal"),
            ("attn complexity -oa.json --plot=a.svg --format json --dk 5", "attn complexity --dk 5"),
            ("attn probe run cases --quiet -- ./mine -q -o out", "attn probe run cases -- ./mine -q -o out"),
            ("attn variance --color never --output 'a b.csv' --offset 1", "attn variance --offset 1"),
            ("written  otherwise -q", "written  otherwise -q"),
        ] {
            assert_eq!(without_destinations(line), kept);
        }
    }

    proptest::proptest! {
        #[test]
        fn any_words_are_read_back(list in proptest::collection::vec(".*", 0..5)) {
            proptest::prop_assert_eq!(words(&json::invocation(&list)), Some(list));
        }
    }
}
