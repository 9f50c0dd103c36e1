//! How far Q and K are from i.i.d. entries: words for [`super::super::summary`], never a fault.

/// Shown by `--explain assumptions`.
pub const EXPLANATION: &str = "\
How far are Q and K from the derivation's i.i.d. entries of mean 0 and variance 1?
Formula: mean and variance of the entries (divided by their number), E[q²]·E[k²]·d against the variance of the visible raw logits; what is left of \
the ratio is dependence between channels or tokens.
Verdict: always PASS. Var[QKᵀ] = d holds at initialisation; trained heads leave it, and that is no fault.
Blind spots: entries of one head are dependent, so no p-value is given.";
