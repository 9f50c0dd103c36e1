//! Attention by its definition, on plain vectors, for building sound and faulty tensors. Knows nothing of the code under test but its array types.

use std::collections::BTreeMap;

use attn::diagnosis::arrays::{Array, ArraySource, Role};
use attn::diagnosis::audit::{Audit, audit_with};
use attn::diagnosis::contract::{Contract, Declared};
use attn::diagnosis::evidence::MOST_CELLS;
use attn::diagnosis::finding::{Check, Finding, Verdict};
use attn::diagnosis::given_mask::MaskKind;
use attn::diagnosis::matrix::Storage;
use attn::diagnosis::scale_expression::ScaleExpression;

/// A stream of numbers; SplitMix64 (Steele, Lea & Flood 2014).
pub struct Draws(pub u64);

impl Draws {
    pub fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub fn uniform(&mut self) -> f64 {
        (self.bits() >> 11) as f64 / (1u64 << 53) as f64
    }

    pub fn below(&mut self, bound: usize) -> usize {
        (self.bits() % bound as u64) as usize
    }

    /// Box–Muller.
    pub fn normal(&mut self) -> f64 {
        let (u, v) = (1.0 - self.uniform(), self.uniform());
        (-2.0 * u.ln()).sqrt() * (std::f64::consts::TAU * v).cos()
    }

    pub fn normals(&mut self, count: usize) -> Vec<f64> {
        (0..count).map(|_| self.normal()).collect()
    }
}

/// Sizes of an attention.
#[derive(Debug, Clone, Copy)]
pub struct Shape {
    pub batches: usize,
    pub heads: usize,
    pub key_heads: usize,
    pub queries: usize,
    pub keys: usize,
    pub width: usize,
    pub value_width: usize,
}

impl Shape {
    pub const fn of(batches: usize, heads: usize, queries: usize, keys: usize, width: usize) -> Self {
        Self { batches, heads, key_heads: heads, queries, keys, width, value_width: width }
    }
}

/// Q, K, V and what was computed from them.
#[derive(Clone)]
pub struct Case {
    pub shape: Shape,
    pub storage: Storage,
    pub q: Vec<f64>,
    pub k: Vec<f64>,
    pub v: Vec<f64>,
    pub p: Vec<f64>,
    pub o: Vec<f64>,
}

/// What a logit becomes: (batch, head, query, key, raw) → logit, −∞ for hidden.
pub type Logit<'a> = &'a dyn Fn(usize, usize, usize, usize, f64) -> f64;

impl Case {
    /// Unit normal entries, rounded to `storage`.
    pub fn draw(seed: u64, shape: Shape, storage: Storage) -> Self {
        Self::draw_with_size(seed, shape, storage, 1.0)
    }

    /// Normal entries of standard deviation `size`.
    pub fn draw_with_size(seed: u64, shape: Shape, storage: Storage, size: f64) -> Self {
        let mut draws = Draws(seed);
        let mut fill = |count: usize| -> Vec<f64> {
            draws.normals(count).into_iter().map(|value| storage.round(size * value)).collect()
        };
        let q = fill(shape.batches * shape.heads * shape.queries * shape.width);
        let k = fill(shape.batches * shape.key_heads * shape.keys * shape.width);
        let v = fill(shape.batches * shape.key_heads * shape.keys * shape.value_width);
        Self { shape, storage, q, k, v, p: Vec::new(), o: Vec::new() }
    }

    pub fn key_head(&self, head: usize) -> usize {
        head * self.shape.key_heads / self.shape.heads
    }

    /// q·k in the arithmetic of the storage type: f64, or f32 sums.
    pub fn raw(&self, batch: usize, head: usize, key_head: usize, query: usize, key: usize) -> f64 {
        let s = self.shape;
        let a = ((batch * s.heads + head) * s.queries + query) * s.width;
        let b = ((batch * s.key_heads + key_head) * s.keys + key) * s.width;
        let pairs = self.q[a..a + s.width].iter().zip(&self.k[b..b + s.width]);
        match self.storage {
            Storage::F64 => pairs.map(|(q, k)| q * k).sum(),
            _ => f64::from(pairs.fold(0.0f32, |sum, (q, k)| sum + *q as f32 * *k as f32)),
        }
    }

    /// Weights by softmax over the keys, output as weights times values, both rounded to the storage type.
    pub fn attend(mut self, logit: Logit<'_>) -> Self {
        self.p = self.softmax(logit);
        self.o = self.times_values(&self.p);
        self
    }

    pub fn single(&self, value: f64) -> f64 {
        if self.storage == Storage::F64 { value } else { f64::from(value as f32) }
    }

    pub fn softmax(&self, logit: Logit<'_>) -> Vec<f64> {
        let s = self.shape;
        let mut p = Vec::new();
        for batch in 0..s.batches {
            for head in 0..s.heads {
                for query in 0..s.queries {
                    let logits: Vec<f64> = (0..s.keys)
                        .map(|key| {
                            let raw = self.raw(batch, head, self.key_head(head), query, key);
                            self.storage.round(logit(batch, head, query, key, raw))
                        })
                        .collect();
                    let largest = logits.iter().copied().fold(f64::NEG_INFINITY, f64::max);
                    let e: Vec<f64> = logits.iter().map(|l| self.single((l - largest).exp())).collect();
                    let total = self.single(e.iter().sum());
                    let empty = largest == f64::NEG_INFINITY;
                    p.extend(e.iter().map(|e| if empty { 0.0 } else { self.storage.round(self.single(e / total)) }));
                }
            }
        }
        p
    }

    pub fn times_values(&self, p: &[f64]) -> Vec<f64> {
        let s = self.shape;
        let mut o = Vec::new();
        for batch in 0..s.batches {
            for head in 0..s.heads {
                let key_head = self.key_head(head);
                for query in 0..s.queries {
                    let row = ((batch * s.heads + head) * s.queries + query) * s.keys;
                    for channel in 0..s.value_width {
                        let value = |key: usize| {
                            self.v[((batch * s.key_heads + key_head) * s.keys + key) * s.value_width + channel]
                        };
                        let terms = (0..s.keys).map(|key| p[row + key] * value(key));
                        let sum = match self.storage {
                            Storage::F64 => terms.sum(),
                            _ => f64::from(terms.fold(0.0f32, |sum, term| sum + term as f32)),
                        };
                        o.push(self.storage.round(sum));
                    }
                }
            }
        }
        o
    }

    pub fn p_at(&mut self, batch: usize, head: usize, query: usize, key: usize) -> &mut f64 {
        let s = self.shape;
        &mut self.p[((batch * s.heads + head) * s.queries + query) * s.keys + key]
    }

    pub fn file(&self) -> File {
        File::new(self)
    }
}

/// Arrays, contract and mask kind, ready to be audited.
pub struct File {
    pub arrays: BTreeMap<Role, Array>,
    pub contract: Contract,
    pub mask_kind: Option<MaskKind>,
}

impl File {
    /// Q, K, V and, if they were computed, weights and output.
    pub fn new(case: &Case) -> Self {
        let s = case.shape;
        let mut arrays = BTreeMap::new();
        let mut put = |role, heads, rows, columns, numbers: &Vec<f64>| {
            if !numbers.is_empty() {
                arrays.insert(role, Array::of([s.batches, heads, rows, columns], case.storage, numbers.clone()));
            }
        };
        put(Role::Queries, s.heads, s.queries, s.width, &case.q);
        put(Role::Keys, s.key_heads, s.keys, s.width, &case.k);
        put(Role::Values, s.key_heads, s.keys, s.value_width, &case.v);
        put(Role::Weights, s.heads, s.queries, s.keys, &case.p);
        put(Role::Output, s.heads, s.queries, s.value_width, &case.o);
        Self { arrays, contract: Contract::default(), mask_kind: None }
    }

    pub fn with(mut self, role: Role, shape: [usize; 4], storage: Storage, numbers: Vec<f64>) -> Self {
        self.arrays.insert(role, Array::of(shape, storage, numbers));
        self
    }

    pub fn without(mut self, role: Role) -> Self {
        self.arrays.remove(&role);
        self
    }

    pub fn contract(mut self, change: impl FnOnce(&mut Contract)) -> Self {
        change(&mut self.contract);
        self
    }

    pub fn scale(self, text: &str) -> Self {
        let scale = ScaleExpression::parse(text).expect("a scale");
        self.contract(|contract| contract.scale = Declared::Yes(scale))
    }

    pub fn kind(mut self, kind: MaskKind) -> Self {
        self.mask_kind = Some(kind);
        self
    }

    pub fn audit(self) -> Audit {
        self.audit_fitted_on(MOST_CELLS)
    }

    /// With fits on about so many cells.
    pub fn audit_fitted_on(self, most_cells: usize) -> Audit {
        let source = ArraySource::new(self.arrays, &self.contract, self.mask_kind).expect("arrays that fit");
        audit_with(&source, &self.contract, most_cells, &|_, _| {}).expect("readable")
    }
}

/// The findings that are neither PASS nor CANNOT TELL, for messages.
pub fn shown(audit: &Audit) -> String {
    let lines = audit.findings.iter().map(|f| {
        format!(
            "{} {} [{}] {:?} {:?}: {} | {} | {:?}",
            f.verdict, f.check, f.key, f.measured, f.place, f.explanation, f.cause, f.symptoms
        )
    });
    lines.collect::<Vec<_>>().join("\n")
}

/// The only finding of FAIL or WARN; anything else beside it is a false alarm.
#[track_caller]
pub fn only(audit: &Audit, verdict: Verdict, check: Check) -> Finding {
    let alarms: Vec<&Finding> =
        audit.findings.iter().filter(|f| matches!(f.verdict, Verdict::Fail | Verdict::Warn)).collect();
    assert!(
        alarms.len() == 1 && (alarms[0].verdict, alarms[0].check) == (verdict, check),
        "expected {verdict} {check} alone\n{}",
        shown(audit)
    );
    alarms[0].clone()
}

/// No FAIL and no WARN.
#[track_caller]
pub fn sound(audit: &Audit) {
    let alarms = audit.count(Verdict::Fail) + audit.count(Verdict::Warn);
    assert_eq!(alarms, 0, "a sound attention raised an alarm\n{}", shown(audit));
}

/// The verdict of a check that has one finding.
#[track_caller]
pub fn verdict(audit: &Audit, check: Check) -> Verdict {
    let found: Vec<Verdict> = audit.of(check).map(|f| f.verdict).collect();
    assert_eq!(found.len(), 1, "{check}\n{}", shown(audit));
    found[0]
}

#[track_caller]
pub fn close(found: Option<f64>, expected: f64, relative: f64) {
    let found = found.expect("a number");
    assert!((found / expected - 1.0).abs() <= relative, "{found} for {expected}");
}
