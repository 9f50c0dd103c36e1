//! Which batch entries, queries and keys of two dumps are the same: a decode step beside a full pass, a padded sequence beside the same without padding.

use std::collections::BTreeMap;

use super::Dump;
use super::grid::root_mean_square;
use crate::diagnosis::arrays::{Array, Role};

/// Rows that both dumps have: `length` of them, from `own` and from `reference` on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Span {
    pub own: usize,
    pub reference: usize,
    pub length: usize,
}

impl Span {
    fn whole(length: usize) -> Self {
        Self { own: 0, reference: 0, length }
    }
}

/// Of queries, of keys; `None` where no array has them.
pub(super) type Counts = (Option<usize>, Option<usize>);

/// How the tokens of two dumps belong together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Tokens {
    /// Queries, if any array has them.
    pub queries: Option<Span>,
    /// Keys, if any array has them.
    pub keys: Option<Span>,
    /// Queries and keys of the file and of the reference.
    pub own: Counts,
    pub reference: Counts,
}

/// What the numbers of tokens say the dumps are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// As many queries and keys.
    Equal,
    /// Fewer queries on one side: a decode step, or a chunk, beside more rows.
    Step,
    /// More keys on one side, and as many more queries.
    Longer,
}

impl Tokens {
    pub fn kind(&self) -> Kind {
        let excess = |own: Option<usize>, reference: Option<usize>| {
            own.zip(reference).map_or(0, |(own, reference)| own as i64 - reference as i64)
        };
        let (queries, keys) = (excess(self.own.0, self.reference.0), excess(self.own.1, self.reference.1));
        match (queries, keys) {
            (0, 0) => Kind::Equal,
            (queries, keys) if queries == keys || queries == 0 || (keys == 0 && self.own.1.is_none()) => Kind::Longer,
            _ => Kind::Step,
        }
    }

    /// The position of the first common query: its index among the keys of the reference, which end with the last query.
    pub fn position(&self) -> i64 {
        let first = self.queries.map_or(0, |span| span.reference as i64);
        match self.reference {
            (Some(queries), Some(keys)) => first + keys as i64 - queries as i64,
            _ => first,
        }
    }

    /// `, aligned left` where the dumps differ in length.
    pub fn words(&self) -> &'static str {
        let span = match (self.queries, self.keys) {
            (Some(span), _) if self.own.0 != self.reference.0 => span,
            (_, Some(span)) => span,
            _ => return "",
        };
        match (span.own, span.reference) {
            (0, 0) => "aligned left",
            _ => "aligned right",
        }
    }

    /// First row and column, and how many, of `role` in the file, in the reference.
    pub fn window(&self, role: Role, shape: [usize; 4]) -> Option<(Corner, Corner, usize, usize)> {
        let queries = self.queries.unwrap_or(Span::whole(shape[2]));
        let keys = self.keys.unwrap_or(Span::whole(shape[2]));
        let [_, _, rows, columns] = shape;
        let of_rows = |span: Span| Some(((span.own, 0), (span.reference, 0), span.length, columns));
        match role {
            Role::Queries | Role::Output | Role::QueriesBeforeRotation => of_rows(queries),
            Role::Keys | Role::Values | Role::KeysBeforeRotation => of_rows(keys),
            Role::Weights | Role::Logits => {
                Some(((queries.own, keys.own), (queries.reference, keys.reference), queries.length, keys.length))
            }
            Role::Mask | Role::Bias if rows > 1 => {
                Some(((queries.own, keys.own), (queries.reference, keys.reference), queries.length, keys.length))
            }
            Role::Mask | Role::Bias | Role::Padding => Some(((0, keys.own), (0, keys.reference), 1, keys.length)),
            Role::LogSumExp => Some(((0, queries.own), (0, queries.reference), 1, queries.length)),
            Role::PositionTable => Some(((0, 0), (0, 0), rows, columns)),
        }
    }
}

/// Row and column.
pub(super) type Corner = (usize, usize);

/// Axis of the queries, of the keys.
fn axes(role: Role) -> Counts {
    match role {
        Role::Queries | Role::Output | Role::QueriesBeforeRotation => (Some(2), None),
        Role::Keys | Role::Values | Role::KeysBeforeRotation => (None, Some(2)),
        Role::Weights | Role::Logits => (Some(2), Some(3)),
        Role::LogSumExp => (Some(3), None),
        Role::Padding => (None, Some(3)),
        Role::Mask | Role::Bias | Role::PositionTable => (None, None),
    }
}

/// The number of queries and keys in a dump.
fn tokens_of(dump: &Dump, shared: &[Role]) -> Counts {
    let along = |pick: fn(Counts) -> Option<usize>| {
        shared.iter().find_map(|role| pick(axes(*role)).map(|axis| dump.arrays[role].shape[axis]))
    };
    (along(|axes| axes.0), along(|axes| axes.1))
}

/// Pairs the tokens of batch entry `batch` of the file with those of `reference_batch`.
///
/// Where one dump has fewer, the place is the one at which the norms of the rows agree best: norms do not change with positions. Rows
/// before a rotation and values come first, since nothing turns them.
///
/// # Errors
/// What the arrays cannot read.
pub(super) fn tokens(
    own: &Dump,
    reference: &Dump,
    shared: &[Role],
    (batch, reference_batch): (usize, usize),
) -> Result<Tokens, String> {
    let (own_counts, reference_counts) = (tokens_of(own, shared), tokens_of(reference, shared));
    let span = |pair: Option<(usize, usize)>, roles: &[Role]| -> Result<Option<Span>, String> {
        let Some((own_rows, reference_rows)) = pair else { return Ok(None) };
        if own_rows == reference_rows {
            return Ok(Some(Span::whole(own_rows)));
        }
        let role = roles.iter().find(|role| shared.contains(role));
        let Some(role) = role else {
            let length = own_rows.min(reference_rows);
            return Ok(Some(Span { own: own_rows - length, reference: reference_rows - length, length }));
        };
        let norms = |arrays: &BTreeMap<Role, Array>, batch: usize| -> Result<Vec<f64>, String> {
            let matrix = arrays[role].at(batch, 0)?;
            let mut row = vec![0.0; matrix.columns];
            Ok((0..matrix.rows)
                .map(|index| {
                    matrix.row(index, &mut row);
                    root_mean_square(&row)
                })
                .collect())
        };
        Ok(Some(placed(&norms(&own.arrays, batch)?, &norms(&reference.arrays, reference_batch)?)))
    };
    let both = |a: Option<usize>, b: Option<usize>| a.zip(b);
    Ok(Tokens {
        queries: span(
            both(own_counts.0, reference_counts.0),
            &[Role::QueriesBeforeRotation, Role::Queries, Role::Output],
        )?,
        keys: span(both(own_counts.1, reference_counts.1), &[Role::Values, Role::KeysBeforeRotation, Role::Keys])?,
        own: own_counts,
        reference: reference_counts,
    })
}

/// The place of the shorter in the longer with the smallest mean square difference; the last of equal ones.
fn placed(own: &[f64], reference: &[f64]) -> Span {
    let length = own.len().min(reference.len());
    let starts = own.len().max(reference.len()) - length;
    let at = |start: usize| if own.len() < reference.len() { (0, start) } else { (start, 0) };
    let apart = |start: usize| {
        let (a, b) = at(start);
        (0..length).map(|index| (own[a + index] - reference[b + index]).powi(2)).sum::<f64>()
    };
    let best = (0..=starts).rev().min_by(|a, b| apart(*a).total_cmp(&apart(*b))).unwrap_or(0);
    let (a, b) = at(best);
    Span { own: a, reference: b, length }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_shorter_is_placed_where_its_norms_are() {
        let long = [2.0, 3.0, 5.0, 7.0, 11.0];
        assert_eq!(placed(&[5.0, 7.0], &long), Span { own: 0, reference: 2, length: 2 });
        assert_eq!(placed(&long, &[2.0, 3.0, 5.0]), Span { own: 0, reference: 0, length: 3 });
        // Nothing to tell by: the end, where decode steps are.
        assert_eq!(placed(&[1.0], &[1.0, 1.0, 1.0]), Span { own: 0, reference: 2, length: 1 });
    }

    #[test]
    fn what_the_lengths_say_of_two_dumps() {
        let of = |own: (usize, usize), reference: (usize, usize)| Tokens {
            queries: None,
            keys: None,
            own: (Some(own.0), Some(own.1)),
            reference: (Some(reference.0), Some(reference.1)),
        };
        assert_eq!(of((5, 5), (5, 5)).kind(), Kind::Equal);
        assert_eq!(of((1, 8), (8, 8)).kind(), Kind::Step);
        assert_eq!(of((8, 8), (5, 5)).kind(), Kind::Longer);
        assert_eq!(of((1, 8), (8, 8)).position(), 0);
        let step = Tokens { queries: Some(Span { own: 0, reference: 7, length: 1 }), ..of((1, 8), (8, 8)) };
        assert_eq!(step.position(), 7);
    }
}
