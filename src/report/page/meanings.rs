//! What each statistic is, and the formula that it is held against.

/// A statistic in words and formulas.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Meaning {
    /// The subcommand; empty where it means the same in all.
    command: &'static str,
    /// The statistic without what stands behind a colon, or the stage of a cost.
    statistic: &'static str,
    /// In words.
    pub words: &'static str,
    /// In LaTeX.
    pub formulas: &'static [&'static str],
    /// Where it comes from.
    pub source: &'static str,
}

/// The meaning of a statistic of a subcommand.
pub fn of(command: &str, statistic: &str) -> Option<&'static Meaning> {
    let named = || ALL.iter().filter(|meaning| meaning.statistic == statistic);
    named().find(|meaning| meaning.command == command).or_else(|| named().find(|meaning| meaning.command.is_empty()))
}

const fn any(
    statistic: &'static str,
    words: &'static str,
    formulas: &'static [&'static str],
    source: &'static str,
) -> Meaning {
    Meaning { command: "", statistic, words, formulas, source }
}

const fn only(
    command: &'static str,
    statistic: &'static str,
    words: &'static str,
    formulas: &'static [&'static str],
    source: &'static str,
) -> Meaning {
    Meaning { command, statistic, words, formulas, source }
}

const VASWANI: &str = "Vaswani et al. 2017, section 3.2.1";
const INDEPENDENT: &str = "Independent entries with means μ, variances σ² and fourth moment μ₄ (of variance 1)";
const ENERGY: &str = "Given |q| the logits of a row are normal; this is the random energy model (Derrida 1981)";
const SOFTMAX: &str =
    "φ(t) = E exp(−t e^βz), B_a(t) = E (t e^βz)^a exp(−t e^βz), z normal, t = e^u; then averaged over β = c·|q|";
const HIDDEN: &str = "What is hidden has no weight and no influence";
const ROTATION: &str =
    "The encoding of a position is a rotation by its angles (Vaswani et al. 2017, section 3.5; Su et al. 2021)";
const COUNT: &str =
    "A multiply-add is two operations; N_cells pairs of a query and a key that it sees, n·m without a mask";
const ROUNDING: &str = "Equal but for rounding, within a derived bound";
const STACK: &str = "Dong et al. 2021 (loss of rank), Xiong et al. 2020 (norms and gradients)";

#[rustfmt::skip] // A table: one statistic a few lines.
const ALL: &[Meaning] = &[
    any("logit_mean", "The mean of the logits S = c·QKᵀ.",
        &[r"\operatorname{E}[S_{ij}] = c\,d_k\,\mu_q\,\mu_k = 0 \quad \text{for}\ \mu = 0"], INDEPENDENT),
    any("logit_variance", "The variance of the logits S = c·QKᵀ: what the scale 1/√d_k is for.",
        &[r"\operatorname{Var}[S_{ij}] = c^2 d_k \left[(\sigma_q^2+\mu_q^2)(\sigma_k^2+\mu_k^2) - \mu_q^2\mu_k^2\right]",
          r"= c^2 d_k \quad \text{for}\ \mu = 0,\ \sigma = 1", r"= 1 \quad \text{with}\ c = 1/\sqrt{d_k}"], VASWANI),
    any("logit_kurtosis", "The kurtosis of the logits: 3 for a normal law.",
        &[r"\frac{\operatorname{E}[S_{ij}^4]}{\operatorname{E}[S_{ij}^2]^2} = 3 + \frac{\mu_4^2 - 3}{d_k}",
          r"= 3 + \frac{6}{d_k} \quad \text{for normal entries}"], INDEPENDENT),
    any("q_mean", "An assumption of the derivation: entries of Q have mean 0.", &[r"\operatorname{E}[q_{ih}] = 0"], VASWANI),
    any("k_mean", "An assumption of the derivation: entries of K have mean 0.", &[r"\operatorname{E}[k_{jh}] = 0"], VASWANI),
    any("q_variance", "An assumption of the derivation: entries of Q have variance 1.", &[r"\operatorname{Var}[q_{ih}] = 1"], VASWANI),
    any("k_variance", "An assumption of the derivation: entries of K have variance 1.", &[r"\operatorname{Var}[k_{jh}] = 1"], VASWANI),
    any("qk_correlation", "An assumption of the derivation: Q and K are independent.", &[r"\operatorname{Cor}[q_{ih}, k_{ih}] = 0"], VASWANI),
    any("variance_slope", "How the variance of the logits grows with d_k: the slope of its logarithm.",
        &[r"\frac{\mathrm{d} \ln \operatorname{Var}[S]}{\mathrm{d} \ln d_k} = 1 + 2\,\frac{\mathrm{d} \ln c}{\mathrm{d} \ln d_k}",
          r"= 1,\ 0,\ -1 \quad \text{for}\ c = 1,\ 1/\sqrt{d_k},\ 1/d_k"], VASWANI),
    any("diagonal_mean", "The mean of the logits of a token with itself.",
        &[r"\operatorname{E}[S_{ii}] = c\,d_k\,(\rho\,\sigma_q\sigma_k + \mu_q\mu_k)"], "Normal entries, correlation ρ of q and k of one token"),
    only("multi-head", "diagonal_mean", "The mean of the logits of a token with itself: with tied weights it stands out by √d_k scaled units.",
        &[r"\operatorname{E}[S_{ii}] = c\,d_k \quad \text{for}\ W_q = W_k", r"= 0 \quad \text{for separate}\ W_q, W_k"], "Weights of variance 1/d_model, without biases"),
    any("diagonal_variance", "The variance of the logits of a token with itself.",
        &[r"\operatorname{Var}[S_{ii}] = c^2 d_k\,(1+\rho^2)"], "Normal entries of mean 0 and variance 1, correlation ρ of q and k of one token"),

    any("entropy", "The entropy of a row of weights, in nats: ln m where all keys weigh the same, 0 where one holds all.",
        &[r"H_i = -\sum_j p_{ij} \ln p_{ij}", r"\operatorname{E}[H] = \int \left(e^{-t} - \varphi^m\right) \mathrm{d}u - \beta^2 \left(1 - \operatorname{E}{\textstyle\sum} p^2\right)"], SOFTMAX),
    any("participation", "The sum of the squared weights of a row: its inverse is how many keys share the row.",
        &[r"\operatorname{E}\sum_j p_{ij}^2 = m \int B_2\,\varphi^{m-1}\,\mathrm{d}u"], SOFTMAX),
    any("max_weight", "The largest weight of a row.",
        &[r"\operatorname{E}[\max_j p_{ij}] = m \int n(z) \int_0^\infty e^{-s} \left[ \int_{-\infty}^{z} n(y)\, \exp\left(-s\,e^{-\beta(z-y)}\right) \mathrm{d}y \right]^{m-1} \mathrm{d}s\,\mathrm{d}z"],
        "n is the normal density; then averaged over β = c·|q|"),
    any("saturated_rows", "The share of rows whose largest weight passes --saturated-above. It has no theory.",
        &[r"\Pr[\max_j p_{ij} \ge 0.99]"], "Measured"),
    any("jacobian_trace", "The trace of the softmax's derivative: 0 where nothing can be learnt through it any more.",
        &[r"J = \operatorname{diag}(p) - p\,p^{\mathsf{T}}", r"\operatorname{tr} J = 1 - \sum_j p_j^2"], ENERGY),
    any("jacobian_frobenius", "The squared norm of the softmax's derivative: the mean square of the gradient that reaches the logits.",
        &[r"\lVert J \rVert_F^2 = \sum_j p_j^2 - 2 \sum_j p_j^3 + \left(\sum_j p_j^2\right)^2"], ENERGY),
    any("output_variance", "The variance of an output entry for values of variance 1: how spiky the weights are is the scale of the output.",
        &[r"\operatorname{E}[O_{ih}^2] = \operatorname{E}\sum_j p_{ij}^2"], ENERGY),
    any("freezing", "The spread of the logits over that at which a row freezes on a few keys.",
        &[r"\gamma = \frac{\operatorname{sd}[S]}{\sqrt{2 \ln m}} = \frac{c\sqrt{d_k}}{\sqrt{2 \ln m}}"], "The freezing transition of the random energy model (Derrida 1981)"),
    any("underflowed_weights", "The share of weights that are rounded to 0 in this arithmetic. It has no theory.", &[r"\Pr[p_{ij} = 0]"], "Measured"),
    any("row_sum_error", "How far a row of weights is from summing to 1, at worst.", &[r"\max_i \left| \sum_j p_{ij} - 1 \right| = 0"], ROUNDING),

    any("visible_share", "The share of the logits that the mask shows.", &[r"\frac{1}{nm} \sum_{ij} M_{ij}"], "Counted from the mask as claimed"),
    any("fully_masked_rows", "Queries that see no key: their softmax would be 0/0.", &[r"\left|\{ i : M_{ij} = 0 \ \text{for all}\ j \}\right|"], "Counted from the mask as claimed"),
    any("masked_weight_max", "The largest weight of a hidden key.", &[r"\max_{M_{ij} = 0} p_{ij} = 0"], HIDDEN),
    any("leak", "The largest change of the output when hidden keys and values are replaced.", &[r"\max \left| O - O' \right| = 0"], HIDDEN),
    any("leak_nonfinite", "Outputs that are no number once hidden keys and values are replaced by NaN.", &[r"\left|\{ O'_{ih} = \mathrm{NaN} \}\right| = 0"], HIDDEN),
    any("gradient_leak", "The largest gradient that reaches a hidden key.", &[r"\max \left| \frac{\partial O}{\partial k_j} \right| = 0"], HIDDEN),
    any("fill_margin", "The smallest distance of the largest visible logit of a row from the fill value: a weight of exp(−margin) leaks.",
        &[r"\min_i \left( \max_{M_{ij} = 1} S_{ij} - \text{fill} \right)"], "Measured"),
    only("mask", "logit_mean", "The mean of the visible logits: a mask does not look at them.", &[r"\operatorname{E}[S_{ij} \mid M_{ij} = 1] = \operatorname{E}[S_{ij}] = c\,d_k\,\mu_q\,\mu_k"], INDEPENDENT),
    only("mask", "logit_variance", "The variance of the visible logits: a mask does not look at them.", &[r"\operatorname{Var}[S_{ij} \mid M_{ij} = 1] = \operatorname{Var}[S_{ij}] = c^2 d_k \quad \text{for}\ \mu = 0,\ \sigma = 1"], INDEPENDENT),
    only("mask", "entropy", "The entropy of a row of weights, in nats: that of an unmasked row with as many keys as it sees.",
        &[r"H_i = -\sum_j p_{ij} \ln p_{ij}", r"\operatorname{E}[H_i] = \operatorname{E}[H]\big|_{m = \sum_j M_{ij}}"], ENERGY),
    only("mask", "participation", "The sum of the squared weights of a row: that of an unmasked row with as many keys as it sees.",
        &[r"\operatorname{E}\sum_j p_{ij}^2 = \operatorname{E}{\textstyle\sum} p^2\,\big|_{m = \sum_j M_{ij}}"], ENERGY),

    any("angle_error", "The largest error of an angle, in radians.", &[r"\max_{p,i} \left| \theta_{p,i} - p\,\omega_i \right|, \quad \omega_i = b^{-2i/d}"], ROTATION),
    any("map_residual", "What the best linear map from one position to another leaves over.", &[r"\max \left| \mathrm{PE}(p+k) - M_k\,\mathrm{PE}(p) \right| = 0"], ROTATION),
    any("map_error", "How far the fitted map is from the rotation that it should be.", &[r"\max \left| M_k - R(k\,\omega) \right| = 0"], ROTATION),
    any("map_transfer_error", "How well the map of the first positions predicts the others: it does not depend on the position.", &[r"\max_{p \ge n/2} \left| \mathrm{PE}(p+k) - M_k\,\mathrm{PE}(p) \right| = 0"], ROTATION),
    any("norm", "The norm of an encoding, the one farthest from theory.", &[r"\lVert \mathrm{PE}(p) \rVert = \sqrt{d/2}"], ROTATION),
    any("offset_dependence", "How much a product of encodings depends on more than their distance.", &[r"\max_k \left( \max_p - \min_p \right) \mathrm{PE}(p) \cdot \mathrm{PE}(p+k) = 0"], ROTATION),
    any("dot_product", "The product of encodings K positions apart.", &[r"\mathrm{PE}(p) \cdot \mathrm{PE}(p+K) = \sum_i \cos(K\,\omega_i)"], ROTATION),
    any("embedding_variance", "The variance of tokens with their positions added.", &[r"s^2 + \frac{1}{nd-1} \sum \left( \mathrm{PE} - \overline{\mathrm{PE}} \right)^2"], "Entries of variance s²"),
    only("positional", "logit_variance", "The variance of the logits: rotations leave it alone, added positions double it for tokens of variance 1.",
        &[r"\operatorname{Var}[S_{ij}] = c^2 d_k\, s^4 \quad \text{(rotary)}", r"\operatorname{Var}[S_{ij}] = c^2 d_k\,(s^4 + s^2) \quad \text{(sinusoidal)}"], "Entries of variance s²"),
    only("positional", "logit_mean", "The mean of the logits, positions included.",
        &[r"\operatorname{E}[S_{ij}] = 0 \quad \text{(rotary)}", r"\operatorname{E}[S_{ij}] = c\,\mathrm{PE}(i) \cdot \mathrm{PE}(j) \quad \text{(sinusoidal)}"], "Entries of mean 0"),
    any("norm_change", "How much a rotation changes a norm.", &[r"\max \left| \frac{\lVert R_p q \rVert}{\lVert q \rVert} - 1 \right| = 0"], ROTATION),
    any("score_offset_dependence", "How much a score of rotated vectors depends on more than their distance.", &[r"\max_k \left( \max_p - \min_p \right) \frac{(R_p q) \cdot (R_{p+k} k')}{\lVert q \rVert \lVert k' \rVert} = 0"], ROTATION),
    any("score_error", "A score of rotated vectors against that from exact angles.", &[r"\frac{\left| (R_p q) \cdot (R_{p+k} k') - q \cdot R_k k' \right|}{\lVert q \rVert \lVert k' \rVert} = 0"], ROTATION),
    any("self_score", "The score of a vector with itself, K positions on.", &[r"\frac{1}{d} \operatorname{E}[(R_p q) \cdot (R_{p+K} q)] = \frac{2 s^2}{d} \sum_i \cos(K\,\omega_i)"], ROTATION),

    any("weight_matrices", "Weight matrices of multi-head attention with h heads.", &[r"3h + 1"], "2h of d_model × d_k, h of d_model × d_v, one of h·d_v × d_model"),
    any("parameters", "Numbers in the weight matrices: none depends on the number of tokens.", &[r"h\,d_{\mathrm{model}} (2 d_k + d_v) + h\,d_v\,d_{\mathrm{model}}"], "Without biases, each head its own keys and values"),
    any("length_difference", "Logits of the first tokens alone against those among more tokens: no weight knows how many there are.", &[r"\max \left| S_{ij} - S'_{ij} \right| = 0"], ROUNDING),
    any("bias_difference", "Biases against a column of ones appended to X.", &[r"X W + 1 b^{\mathsf{T}} = [X\ 1] \begin{bmatrix} W \\ b^{\mathsf{T}} \end{bmatrix}"], ROUNDING),
    any("symmetry_error", "With tied weights the logits are symmetric.", &[r"W_q = W_k \ \Rightarrow\ S = S^{\mathsf{T}}"], ROUNDING),
    any("transpose_correlation", "The correlation of a logit with that of the same tokens the other way round.", &[r"\operatorname{Cor}[S_{ij}, S_{ji}]"], "Tokens and weights of independent entries"),
    any("head_correlation", "The correlation of the logits of two heads.", &[r"\operatorname{Cor}[S^{(a)}_{ij}, S^{(b)}_{ij}]"], "Tokens and weights of independent entries"),
    only("multi-head", "logit_variance", "The variance of a head's logits over draws of tokens and weights.", &[r"\operatorname{Var}[S_{ij}] = c^2 d_k, \quad i \ne j"], "Tokens of variance 1, weights of variance 1/d_model, without biases"),
    only("multi-head", "logit_mean", "The mean of a head's logits over draws of tokens and weights.", &[r"\operatorname{E}[S_{ij}] = 0, \quad i \ne j"], "Tokens of variance 1, weights of variance 1/d_model, without biases"),
    only("multi-head", "output_variance", "The mean square of an output entry. It has no theory.", &[r"\operatorname{E}[O_{ih}^2]"], "Measured"),
    any("output_gain", "The mean square of an output entry over that of the heads' outputs.", &[r"\frac{\operatorname{E}[(H W_o)^2]}{\operatorname{E}[H^2]} = 1"], "Weights of variance 1/(h·d_v)"),

    any("bound_share", "The largest difference of decoding with a cache from the full causal pass, as a share of its bound on rounding.", &[r"\max \frac{\left| O^{\text{cached}} - O^{\text{full}} \right|}{\text{bound}} \le 1"], ROUNDING),
    any("output_difference", "The largest difference of decoding with a cache from the full causal pass.", &[r"\max \left| O^{\text{cached}} - O^{\text{full}} \right|"], "Measured; bound_share judges it"),
    any("rounding_bound", "The largest bound on rounding.", &[], "Measured; bound_share judges it"),
    any("sequence_difference", "What is generated with a cache against what is generated without.", &[r"\max \left| y^{\text{cached}} - y^{\text{uncached}} \right| = 0"], ROUNDING),
    any("operations_per_token", "Operations of attention per decoded token, counted.", &[r"h\,v\,(2 d_k + 2 d_v + 6), \quad \text{mean over the tokens}"], "v visible keys"),
    any("operations_cached", "Operations of the token at a position with a cache: linear in it.", &[r"h\,v\,(2 d_k + 2 d_v + 6), \quad v = p + 1"], "v visible keys; with a window at most its width"),
    any("operations_uncached", "Operations of the token at a position with nothing kept: quadratic in it.", &[r"h\,\frac{v(v+1)}{2}\,(2 d_k + 2 d_v + 6), \quad v = p + 1"], "Without a window"),
    any("cache_numbers", "Numbers that the cache holds at the end.", &[r"n\,h_{\mathrm{kv}}\,(d_k + d_v)"], "At most the window's tokens"),
    any("cache_bytes", "Bytes that the cache holds at the end.", &[r"n\,h_{\mathrm{kv}}\,(d_k + d_v) \cdot \text{bytes of a number}"], "At most the window's tokens"),
    any("seconds_per_token", "Wall-clock time of a decoded token. It is never judged.", &[], "Measured"),
    any("seconds_uncached", "Wall-clock time of a position with nothing kept. It is never judged.", &[], "Measured"),

    any("token_mean", "The mean of all entries of the tokens, layer by layer.", &[r"\frac{1}{n\,d_{\mathrm{model}}} \sum_{ih} x_{ih}"], STACK),
    any("token_variance", "The variance within a token, layer by layer: 1 after a post-norm.", &[r"\frac{1}{d_{\mathrm{model}}} \sum_h (x_{ih} - \bar{x}_i)^2"], STACK),
    any("token_cosine", "How alike the tokens are, layer by layer: pure attention makes them all the same.", &[r"\operatorname{mean}_{i \ne j} \frac{x_i \cdot x_j}{\lVert x_i \rVert \lVert x_j \rVert}"], STACK),
    any("carried_over", "The weight of a block's input in its output: 1 with a residual, 0 without.", &[r"\frac{\sum x^{\text{out}} x^{\text{in}}}{\sum (x^{\text{in}})^2}"], STACK),
    any("gradient_scale", "The mean square of a gradient that has come back through the layers.", &[r"\frac{\lVert J u \rVert^2}{\lVert u \rVert^2}, \quad J = \frac{\partial X_\ell}{\partial X_0}"], STACK),
    only("depth", "logit_variance", "The variance of the scaled logits of different tokens in a block.", &[r"\operatorname{Var}[S_{ij}] \approx c^2 d_k, \quad i \ne j, \quad \text{in the first block}"], STACK),
    only("depth", "entropy", "The entropy of a row of weights in a block, in nats.", &[r"H_i = -\sum_j p_{ij} \ln p_{ij}"], STACK),
    only("depth", "participation", "The sum of the squared weights of a row in a block.", &[r"\sum_j p_{ij}^2"], STACK),

    any("qk", "The product QKᵀ.", &[r"2\,N_{\text{cells}}\,d_k"], COUNT),
    any("scale_softmax", "Scale and softmax: scale, maximum, subtract, exp, sum, divide.", &[r"6\,N_{\text{cells}}"], COUNT),
    any("pv", "The product of weights and values.", &[r"2\,N_{\text{cells}}\,d_v"], COUNT),
    any("total", "Attention as a whole.", &[r"N_{\text{cells}}\,(2 d_k + 6 + 2 d_v) = O(n^2 d_k)"], COUNT),
    any("projections", "The four projections of a layer.", &[r"2nD\,h\,d_k + 2mD\,g\,(d_k + d_v) + 2n\,h\,d_v D"], "D = d_model, h heads, g heads of keys and values"),
    any("mlp", "The two products of the MLP.", &[r"4\,n\,D\,d_{\mathrm{ff}}"], COUNT),
    any("activation", "The activation of the MLP: one comparison a number.", &[r"n\,d_{\mathrm{ff}}"], COUNT),
    any("residual", "Both residual sums.", &[r"2\,n\,D"], COUNT),
    any("layer_norm", "Both layer norms.", &[r"2n\,(7D + 4)"], COUNT),
    any("layer", "A whole layer.", &[r"O(N^2 D) + O(N D^2)"], "Vaswani et al. 2017, table 1"),
    any("fully_connected", "One matrix from all inputs to all outputs; counted, not run.", &[r"2\,n\,m\,D^2 = O(N^2 D^2)"], COUNT),
    any("cached_token", "One decoded token with a cache: linear in the tokens before it.", &[r"h\,t\,(2 d_k + 2 d_v + 6)"], "t keys in sight"),
    any("recomputed_token", "One decoded token with nothing kept: quadratic in the tokens before it.", &[r"h\,\frac{t(t+1)}{2}\,(2 d_k + 2 d_v + 6)"], "t keys in sight"),
    only("probe", "ratio", "The largest error of the answer, in units of that of the definition computed in the same type (or of its rounding floor).",
        &[r"\frac{\max \left| O - O^{\text{reference}} \right|}{\max \left| O^{\text{definition}} - O^{\text{reference}} \right|} \le \text{multiple}",
          r"O^{\text{reference}} = \operatorname{softmax}(c\,QK^{\mathsf{T}} + \text{mask})\,V"], "The reference is computed in compensated f64; docs/probe.md has the bound"),
    any("counts", "The closed formulas against an instrumented computation, whose numbers count what is done to them.", &[r"\left| N^{\text{formula}} - N^{\text{counted}} \right| = 0"], COUNT),
    any("output_against_definition", "The output of a kernel against that by definition.", &[r"\max \left| O - \operatorname{softmax}(c\,QK^{\mathsf{T}})\,V \right| \le \text{bound}"], ROUNDING),
    any("output_between_kernels", "The outputs of the two kernels.", &[r"\max \left| O^{\text{materialised}} - O^{\text{streaming}} \right| \le \text{bound}"], ROUNDING),
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::page::formula;

    #[test]
    fn every_formula_can_be_set_and_is_well_formed() {
        for formula in ALL.iter().flat_map(|meaning| meaning.formulas) {
            let markup = formula::display(formula);
            assert!(markup.starts_with("<math"), "{formula}: {markup}");
            let mut reader = quick_xml::Reader::from_str(&markup);
            while !matches!(reader.read_event(), Ok(quick_xml::events::Event::Eof)) {
                assert!(reader.error_position() == 0, "{formula}: {markup}");
            }
        }
    }

    #[test]
    fn a_statistic_of_a_subcommand_goes_before_the_general_one() {
        assert!(of("mask", "entropy").is_some_and(|meaning| meaning.words.contains("as many keys as it sees")));
        assert!(of("softmax-spikiness", "entropy").is_some_and(|meaning| meaning.words.contains("ln m")));
        assert_eq!(of("mask", "nothing of the kind"), None);
    }

    #[test]
    fn no_statistic_stands_in_the_table_twice() {
        for (index, meaning) in ALL.iter().enumerate() {
            let same = |other: &Meaning| (other.command, other.statistic) == (meaning.command, meaning.statistic);
            assert!(!ALL[..index].iter().any(same), "{} {}", meaning.command, meaning.statistic);
        }
    }
}
