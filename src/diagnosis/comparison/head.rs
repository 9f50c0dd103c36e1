//! One head of both dumps: NaN and infinities first, then what enters the attention; how that
//! differs in words is in [`super::inputs`], what is made of it in [`super::made`].

use std::collections::BTreeMap;

use super::Dump;
use super::alignment::{Corner, Tokens};
use super::grid::{Difference, Grid, coarser};
use super::order::Orders;
use super::relation::Relation;
use super::weights::{self, Inputs};
use crate::diagnosis::arrays::Role;
use crate::diagnosis::checks::key_head;
use crate::diagnosis::contract::Contract;
use crate::diagnosis::finding::{Check, Finding, Verdict, significant};
use crate::diagnosis::matrix::Matrix;
use crate::diagnosis::naming::Sizes;

/// Which head.
#[derive(Debug, Clone, Copy)]
pub(super) struct Place {
    pub batch: usize,
    pub reference_batch: usize,
    pub head: usize,
}

/// The arrays of one head, cut to the tokens that both dumps have: (file, reference).
pub(super) struct HeadPair<'a> {
    pub at: Place,
    pub tokens: Tokens,
    pub grids: BTreeMap<Role, (Grid, Grid)>,
    /// First cell of each cut in the file.
    pub corners: BTreeMap<Role, Corner>,
    /// Mean weight, per common row, on keys that the other dump does not have: file, reference.
    pub beyond: (f64, f64),
    pub sizes: Sizes,
    /// The factors on QKᵀ that were declared, or the textbook's.
    pub scales: (f64, f64),
    pub contract: &'a Contract,
    /// Whether the dumps were declared to have different scales.
    pub scales_differ: bool,
    broken: BTreeMap<Role, Broken>,
}

/// NaN and infinities of an array.
#[derive(Debug, Clone, Copy, Default)]
struct Broken {
    own: (usize, usize),
    reference: (usize, usize),
    first: Option<(usize, usize)>,
}

impl<'a> HeadPair<'a> {
    /// Reads the arrays of a head.
    ///
    /// # Errors
    /// What cannot be read.
    #[allow(clippy::too_many_arguments)] // One call; a struct of them would be this list again.
    pub fn read(
        own: &'a Dump,
        reference: &'a Dump,
        shared: &[Role],
        at: Place,
        tokens: Tokens,
        orders: &Orders,
        sizes: Sizes,
        scales: (f64, f64),
    ) -> Result<Self, String> {
        let mut pair = Self {
            at,
            tokens,
            grids: BTreeMap::new(),
            corners: BTreeMap::new(),
            beyond: (0.0, 0.0),
            sizes,
            scales,
            contract: &own.contract,
            scales_differ: (scales.0 / scales.1 - 1.0).abs() > 1e-9,
            broken: BTreeMap::new(),
        };
        for &role in shared {
            let (a, b) = (&own.arrays[&role], &reference.arrays[&role]);
            let order = *own.contract.groups.value();
            let own_head = match a.shape[1] {
                1 => 0,
                heads if heads == sizes.heads => at.head,
                heads => key_head(at.head, sizes.heads, heads, order),
            };
            let reference_head = orders.get(&role).map_or(own_head, |order| order[own_head]);
            let (first, second) = (a.at(at.batch, own_head)?, b.at(at.reference_batch, reference_head)?);
            let Some((from, from_reference, rows, columns)) = tokens.window(role, a.shape) else { continue };
            pair.broken.insert(role, Broken::of(role, &first, &second, from, from_reference, rows, columns));
            pair.grids.insert(
                role,
                (Grid::cut(&first, from, rows, columns), Grid::cut(&second, from_reference, rows, columns)),
            );
            pair.corners.insert(role, from);
            if role == Role::Weights {
                pair.beyond = (outside(&first, from, rows, columns), outside(&second, from_reference, rows, columns));
            }
        }
        Ok(pair)
    }

    /// The two grids of a role.
    pub fn pair(&self, role: Role) -> Option<(&Grid, &Grid)> {
        self.grids.get(&role).map(|(own, reference)| (own, reference))
    }

    /// Q and K of both.
    pub fn inputs(&self) -> Option<Inputs<'_>> {
        let (queries, keys) = (self.pair(Role::Queries)?, self.pair(Role::Keys)?);
        let scale = self.scales.0.abs().max(self.scales.1.abs());
        (queries.1.columns == keys.1.columns).then_some(Inputs { queries, keys, scale })
    }

    /// A finding of this head.
    pub fn finding(&self, check: Check, verdict: Verdict, key: &str, words: impl Into<String>) -> Finding {
        Finding::new(check, verdict, key, words).in_head(self.at.batch, self.at.head)
    }

    /// With a cell of the cut as cell of the file.
    pub fn at_cell(&self, mut finding: Finding, role: Role, cell: Option<(usize, usize)>) -> Finding {
        let (row, column) = self.corners.get(&role).copied().unwrap_or((0, 0));
        finding.cell = cell.map(|cell| (cell.0 + row, Some(cell.1 + column)));
        finding
    }

    /// Whether a cell of an array is not finite.
    pub fn is_broken(&self, role: Role) -> bool {
        self.broken.get(&role).is_some_and(|broken| broken.first.is_some())
    }

    /// PASS with the sizes of the difference; CANNOT TELL if other cells are not finite.
    pub fn agrees(&self, role: Role, difference: &Difference, note: &str) -> Finding {
        let (own, reference) = &self.grids[&role];
        let types = if own.storage == reference.storage {
            own.storage.name().to_string()
        } else {
            format!("{} beside {}", own.storage.name(), reference.storage.name())
        };
        let (verdict, rest) = match self.is_broken(role) {
            true => (Verdict::CannotTell, "; only of the cells that are finite in both"),
            false => (Verdict::Pass, ""),
        };
        let words = if difference.identical {
            format!("{role}: identical ({types}){note}{rest}")
        } else {
            format!(
                "{role}: within rounding ({types}): largest difference {}, {} of its bound, root mean square {} of that of the array{note}{rest}",
                significant(difference.largest, 3),
                significant(difference.ratio, 2),
                significant(difference.relative(), 2)
            )
        };
        let key = if difference.identical { "identical" } else { "rounding" };
        self.finding(Check::Agreement(role), verdict, key, words).with_numbers(difference.ratio, 0.0, "of the bound")
    }

    /// FAIL with the sizes of the difference, its first and its largest cell.
    pub fn differs(&self, role: Role, difference: &Difference, key: &str, why: &str) -> Finding {
        let (own, reference) = &self.grids[&role];
        let (row, column) = difference.largest_at;
        let corner = self.corners[&role];
        let words = format!(
            "{role}: {} of {} cells differ beyond rounding ({}), by up to {} at (row {}, column {}): {} beside {}; root mean square {} of that of the reference{why}",
            difference.beyond,
            difference.cells,
            coarser(own, reference).name(),
            significant(difference.largest, 3),
            row + corner.0,
            column + corner.1,
            significant(own.at(row, column), 4),
            significant(reference.at(row, column), 4),
            significant(difference.relative(), 3)
        );
        let finding = self.finding(Check::Agreement(role), Verdict::Fail, key, words).with_numbers(
            difference.ratio,
            0.0,
            "of the bound",
        );
        self.at_cell(finding, role, difference.first)
    }

    /// Every finding of this head.
    pub fn findings(&self) -> Vec<Finding> {
        let mut findings: Vec<Finding> =
            self.broken.iter().filter_map(|(role, broken)| self.not_finite(*role, broken)).collect();
        let rotary = self.contract.rotary;
        let position = self.tokens.position() + rotary.map_or(0, |rotary| rotary.offset);
        let first_key =
            self.tokens.keys.map_or(0, |span| span.reference as i64) + rotary.map_or(0, |rotary| rotary.offset);
        let relation = |role: Role| {
            let (own, reference) = self.pair(role)?;
            let turn = match role {
                Role::Queries => Some((rotary, position)),
                Role::Keys => Some((rotary, first_key)),
                _ => None,
            };
            Some(Relation::find(own, reference, turn))
        };
        let roles = [
            Role::QueriesBeforeRotation,
            Role::KeysBeforeRotation,
            Role::Queries,
            Role::Keys,
            Role::Values,
            Role::Mask,
            Role::Padding,
            Role::Bias,
            Role::PositionTable,
        ];
        let relations: BTreeMap<Role, Relation> =
            roles.into_iter().filter_map(|role| Some((role, relation(role)?))).collect();
        let is_same = |role: Role| relations.get(&role).is_none_or(Relation::is_same);
        let alike = !is_same(Role::Queries)
            && !is_same(Role::Keys)
            && self.inputs().is_some_and(|inputs| inputs.products_are_equal());
        let later = self.later_is_equal();
        for (&role, relation) in &relations {
            let alike = alike && matches!(role, Role::Queries | Role::Keys);
            findings.extend(self.of_relation(role, relation, alike, later));
        }
        let same = |role: Role| is_same(role) || (alike && matches!(role, Role::Queries | Role::Keys));
        let inputs_same = same(Role::Queries) && same(Role::Keys);
        findings.extend(self.made(inputs_same, same(Role::Values)));
        findings
    }

    fn not_finite(&self, role: Role, broken: &Broken) -> Option<Finding> {
        let first = broken.first?;
        let words = format!(
            "{role}: {} NaN and {} infinities in the file, {} and {} in the reference; a NaN agrees with nothing, in the reference it is an error of the comparison",
            broken.own.0, broken.own.1, broken.reference.0, broken.reference.1
        );
        let count = broken.own.0 + broken.own.1 + broken.reference.0 + broken.reference.1;
        let finding = self
            .finding(Check::Finite, Verdict::Fail, &format!("comparison {role}"), words)
            .with_numbers(count as f64, 0.0, "cells")
            .with_cause("rows without a visible key, or an overflow, on one path", "audit the dump alone");
        Some(self.at_cell(finding, role, Some(first)))
    }

    /// Whether logits, weights or, without them, the output are the same; `None` if there are none.
    fn later_is_equal(&self) -> Option<bool> {
        if let Some((own, reference)) = self.pair(Role::Weights) {
            return Some(weights::difference(own, reference, self.inputs(), false).fits());
        }
        let (own, reference) = self.pair(Role::Logits).or_else(|| self.pair(Role::Output))?;
        Some(Difference::plain(own, reference).fits())
    }
}

impl Broken {
    fn of(
        role: Role,
        own: &Matrix,
        reference: &Matrix,
        at: Corner,
        reference_at: Corner,
        rows: usize,
        columns: usize,
    ) -> Self {
        let mut found = Self::default();
        // These have infinities by right, in both dumps alike.
        let may_be_infinite = matches!(role, Role::Mask | Role::Bias | Role::Logits | Role::LogSumExp);
        for row in 0..rows {
            for column in 0..columns {
                let a = own.at(at.0 + row, at.1 + column);
                let b = reference.at(reference_at.0 + row, reference_at.1 + column);
                if (a.is_finite() && b.is_finite()) || (may_be_infinite && a == b) {
                    continue;
                }
                for (count, number) in [(&mut found.own, a), (&mut found.reference, b)] {
                    count.0 += usize::from(number.is_nan());
                    count.1 += usize::from(number.is_infinite());
                }
                found.first = found.first.or(Some((row, column)));
            }
        }
        found
    }
}

/// Mean over the rows of the cut of the weight outside its columns.
fn outside(matrix: &Matrix, at: Corner, rows: usize, columns: usize) -> f64 {
    let mut row = vec![0.0; matrix.columns];
    let mut total = 0.0;
    for index in 0..rows {
        matrix.row(at.0 + index, &mut row);
        total += row[..at.1].iter().chain(&row[at.1 + columns..]).filter(|weight| weight.is_finite()).sum::<f64>();
    }
    total / rows.max(1) as f64
}
