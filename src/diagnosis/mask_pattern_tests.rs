use super::*;
use crate::attention::MaskRule;

/// Cells drawn as in papers: 1 visible, 0 hidden, a row per word.
fn drawn(rows: &str) -> Mask {
    let rows: Vec<&str> = rows.split(' ').collect();
    let cells = rows.iter().flat_map(|row| row.chars().map(|cell| cell == '1')).collect();
    Mask::from_cells(rows.len(), rows[0].len(), cells)
}

fn words(rows: &str) -> String {
    recognise(&drawn(rows)).to_string()
}

#[test]
fn each_rule_is_recognised_from_its_cells() {
    for (rows, expected) in [
        ("111 111", "every key is visible"),
        ("000 000", "no key is visible"),
        ("10000 11000 11100 11110 11111", "causal"),
        // Field reports MA-08: 2 queries, 5 keys.
        ("10000 11000", "causal, top-left"),
        ("11110 11111", "causal, bottom-right"),
        ("00 00 00 10 11", "causal, bottom-right; 3 queries see no key"),
        // MA-01: the triangle taken with offset 0.
        ("00000 10000 11000 11100 11110", "causal with the diagonal hidden; 1 query sees no key"),
        // MA-02.
        ("11111 01111 00111 00011 00001", "causal mask transposed: the past is hidden, the future visible"),
        // MA-11: triu(diagonal=-2) keeps 3 keys.
        ("10000 11000 11100 01110 00111", "window of 3 keys (self and 2 back)"),
        ("00110 00011", "window of 2 keys (self and 1 back), bottom-right"),
        ("11100 11100 11100 11110 11111", "prefix of 3 keys"),
        ("11100 11100", "padding: keys 0..3 are real"),
        ("00111 00111 00111", "padding: keys 2..5 are real"),
        ("00000 00000 00100 00110 00111", "causal, keys 2..5 are real; 2 queries see no key"),
        ("11000 11000 00111 00111 00111", "2 documents of 2, 3 tokens"),
        ("10000 11000 00100 00110 00111", "2 documents of 2, 3 tokens, causal inside"),
        ("11000 11100 01110 00111 00011", "band from 1 keys back to 1 keys ahead"),
        ("10110 01001 11100 00111 10010", "no known rule"),
    ] {
        assert_eq!(words(rows), expected, "{rows}");
    }
}

#[test]
fn a_few_broken_cells_do_not_hide_the_rule_and_are_counted() {
    let rule: MaskRule = "causal".parse().expect("a mask");
    let mask = rule.at(23, 23).expect("fits");
    let mut cells: Vec<bool> =
        (0..23).flat_map(|i| (0..23).map(move |j| (i, j))).map(|(i, j)| mask.is_visible(i, j)).collect();
    cells[3 * 23 + 7] = true;
    cells[11 * 23 + 2] = false;
    let pattern = recognise(&Mask::from_cells(23, 23, cells));
    assert_eq!(pattern.shape, Shape::Causal { placement: Placement::Square });
    assert_eq!((pattern.disagreeing, pattern.first), (2, Some((3, 7))));
    assert!(pattern.to_string().contains("2 cells disagree, the first at query 3, key 7"), "{pattern}");
}

#[test]
fn a_rule_and_its_cells_are_recognised_alike() {
    // The rules themselves are tested in attention::mask against drawings from papers.
    for (rule, queries, keys, expected) in [
        ("causal", 7, 11, "causal, top-left"),
        ("causal@bottom-right", 7, 11, "causal, bottom-right"),
        ("causal@bottom-right", 11, 7, "causal, bottom-right; 4 queries see no key"),
        ("window:3", 7, 11, "window of 3 keys (self and 2 back), top-left"),
        ("window:5@bottom-right", 13, 17, "window of 5 keys (self and 4 back), bottom-right"),
        ("prefix:4@bottom-right", 7, 11, "causal, bottom-right"),
        ("prefix:7@bottom-right", 7, 11, "prefix of 7 keys, bottom-right"),
        ("padding:5", 7, 11, "padding: keys 0..5 are real"),
        ("causal+padding:5", 11, 11, "causal, keys 0..5 are real"),
        ("documents:2,3,5,7", 17, 17, "4 documents of 2, 3, 5, 7 tokens"),
        ("causal+documents:2,3,5,7", 17, 17, "4 documents of 2, 3, 5, 7 tokens, causal inside"),
    ] {
        let mask = rule.parse::<MaskRule>().and_then(|rule| rule.at(queries, keys)).expect("fits");
        let cells =
            (0..queries).flat_map(|i| (0..keys).map(move |j| (i, j))).map(|(i, j)| mask.is_visible(i, j)).collect();
        assert_eq!(recognise(&mask).to_string(), expected, "{rule}");
        assert_eq!(recognise(&Mask::from_cells(queries, keys, cells)).to_string(), expected, "{rule} as cells");
    }
}

#[test]
fn a_window_as_long_as_the_keys_is_causal_and_one_key_is_all() {
    let window: MaskRule = "window:7".parse().expect("a mask");
    assert_eq!(recognise(&window.at(7, 7).expect("fits")).shape, Shape::Causal { placement: Placement::Square });
    assert_eq!(words("1"), "every key is visible");
    assert_eq!(recognise(&Mask::from_cells(0, 0, Vec::new())).shape, Shape::All);
}
