//! Golden matrices for tests: one line an entry, `case,name,row,column,value` (scripts/reference/multi_head.py and
//! transformer_block.py).

use std::collections::BTreeMap;

use nalgebra::DMatrix;

use super::multi_head::{Biases, KeyProjections, MultiHeadWeights};

/// The matrices of one case by name.
pub fn matrices(text: &str, case: &str) -> BTreeMap<String, DMatrix<f64>> {
    let mut entries: BTreeMap<String, Vec<(usize, usize, f64)>> = BTreeMap::new();
    for line in text.lines().skip(1) {
        let fields: Vec<&str> = line.split(',').collect();
        if fields[0] == case {
            let number = |index: usize| fields[index].parse::<usize>().expect("an index");
            let value = fields[4].parse().expect("a number");
            entries.entry(fields[1].to_string()).or_default().push((number(2), number(3), value));
        }
    }
    let matrix = |entries: Vec<(usize, usize, f64)>| {
        let rows = entries.iter().map(|entry| entry.0).max().expect("entries") + 1;
        let columns = entries.iter().map(|entry| entry.1).max().expect("entries") + 1;
        let mut matrix = DMatrix::from_element(rows, columns, f64::NAN);
        entries.into_iter().for_each(|(i, j, value)| matrix[(i, j)] = value);
        matrix
    };
    entries.into_iter().map(|(name, entries)| (name, matrix(entries))).collect()
}

/// The layer of the matrices `w_q1` …, `w_o` and, where there are any, the biases `b_q1` …, `b_o`.
pub fn layer(case: &BTreeMap<String, DMatrix<f64>>) -> MultiHeadWeights {
    let all = |symbol: &str| -> Vec<DMatrix<f64>> {
        (1..).map_while(|head| case.get(&format!("{symbol}{head}")).cloned()).collect()
    };
    let rows = |symbol: &str| all(symbol).iter().map(|matrix| matrix.row(0).into_owned()).collect();
    let biases = case.get("b_o").map(|output| Biases {
        queries: rows("b_q"),
        keys: rows("b_k"),
        values: rows("b_v"),
        output: output.row(0).into_owned(),
    });
    MultiHeadWeights {
        queries: all("w_q"),
        keys: KeyProjections::Separate(all("w_k")),
        values: all("w_v"),
        output: case["w_o"].clone(),
        biases,
    }
}

/// Entry by entry, so that NaN fails.
pub fn assert_close(found: &DMatrix<f64>, expected: &DMatrix<f64>, tolerance: f64) {
    assert_eq!(found.shape(), expected.shape());
    let close = found.iter().zip(expected.iter()).all(|(a, b)| (a - b).abs() < tolerance);
    assert!(close, "{found} for {expected}");
}
