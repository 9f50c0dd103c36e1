//! What a run of multi-head attention shows, in words.

use super::{KeySource, MultiHeadSetting};
use crate::report::Row;
use crate::theory::multi_head::{Bias, KeyWeights, Layer};

/// The matrices and their shapes, that none holds n, and what tied or crossed sources do; one paragraph each.
pub fn remarks(settings: &[&MultiHeadSetting], rows: &[Row]) -> Vec<String> {
    let Some(first) = settings.first() else { return Vec::new() };
    let mut sentences: Vec<String> = Vec::new();
    for setting in settings {
        let sentence = matrices(&setting.layer);
        if !sentences.contains(&sentence) {
            sentences.push(sentence);
        }
    }
    let largest = |statistic: &str| {
        let values = rows.iter().filter(|row| row.statistic == statistic).filter_map(|row| row.estimate);
        values.fold(None, |largest: Option<f64>, value| Some(largest.map_or(value, |largest| largest.max(value))))
    };
    if let Some(difference) = largest("length_difference") {
        let how = match difference {
            0.0 => "to the last bit".to_string(),
            difference => format!("to {difference:.1e} of the size of their terms"),
        };
        sentences.push(format!(
            "No shape holds the number of tokens: the same matrices gave the first tokens alone the logits that they have \
             among all, {how}."
        ));
    }
    if first.layer.keys == KeyWeights::Tied && first.source == KeySource::SameTokens {
        sentences.extend(tied(settings, rows));
    }
    if first.source == KeySource::OtherTokens {
        sentences.push(
            "Cross-attention: queries from one source, keys and values from another, no mask; every pair (i, j) is of two \
             different tokens, so all logits are counted."
                .to_string(),
        );
    }
    sentences
}

/// The list of matrices of a layer.
fn matrices(layer: &Layer) -> String {
    let &Layer { d_model, heads, key_heads, d_k, d_v, keys, bias } = layer;
    let run = |symbol: &str, count: usize, columns: usize| {
        let range = if count == 1 { format!("{symbol},1") } else { format!("{symbol},1 … {symbol},{count}") };
        format!("{range} ({d_model}×{columns}{})", if count == 1 { "" } else { " each" })
    };
    let count = match (keys, key_heads == heads) {
        (KeyWeights::Tied, _) => "2h + 1",
        (_, true) => "3h + 1",
        (_, false) => "h + 2h_kv + 1",
    };
    let of_keys = match keys {
        KeyWeights::Tied => "W_k = W_q".to_string(),
        KeyWeights::Separate => run("W_k", key_heads, d_k),
    };
    format!(
        "{count} = {} matrices: {}, {of_keys}, {}, W_o ({}×{d_model}); {} parameters{}.",
        layer.matrices(),
        run("W_q", heads, d_k),
        run("W_v", key_heads, d_v),
        heads * d_v,
        layer.parameters(),
        if bias == Bias::Drawn { " with the biases" } else { "" },
    )
}

/// How far the diagonal of tied self-attention stands out.
fn tied(settings: &[&MultiHeadSetting], rows: &[Row]) -> Option<String> {
    let row = rows.iter().find(|row| row.statistic == "diagonal_mean")?;
    let setting = settings.iter().find(|setting| Some(setting.layer.d_k as u64) == row.d_k)?;
    let scale = setting.scales.iter().find(|scale| Some(scale.to_string()) == row.scale)?;
    let units = row.estimate? / scale.factor(setting.layer.d_k) / (setting.layer.d_k as f64).sqrt();
    Some(format!(
        "Tied W_q = W_k: S = Sᵀ, and at d_k = {} a token's logit with itself is {units:.2} on average after the scale 1/√d_k, \
         √d_k = {:.2} in theory, where separate matrices give 0.",
        setting.layer.d_k,
        (setting.layer.d_k as f64).sqrt(),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::attention::Scale;
    use crate::experiment::Sizes;
    use crate::sampling::Entries;

    fn setting(layer: Layer) -> MultiHeadSetting {
        let sizes = Sizes { d_k: layer.d_k, queries: 5, keys: 5 };
        let (source, scales) = (KeySource::SameTokens, vec![Scale::None]);
        MultiHeadSetting { layer, sizes, source, entries: Entries::Normal, scales }
    }

    const LAYER: Layer =
        Layer { d_model: 6, heads: 4, key_heads: 4, d_k: 9, d_v: 2, keys: KeyWeights::Separate, bias: Bias::Absent };

    #[test]
    fn the_matrices_are_listed_with_their_shapes() {
        let text = remarks(&[&setting(LAYER)], &[]).concat();
        assert_eq!(
            text,
            "3h + 1 = 13 matrices: W_q,1 … W_q,4 (6×9 each), W_k,1 … W_k,4 (6×9 each), W_v,1 … W_v,4 (6×2 each), W_o (8×6); \
             528 parameters."
        );
        let grouped = Layer { key_heads: 1, bias: Bias::Drawn, ..LAYER };
        let text = remarks(&[&setting(grouped)], &[]).concat();
        assert!(text.starts_with("h + 2h_kv + 1 = 7 matrices: W_q,1 … W_q,4 (6×9 each), W_k,1 (6×9), W_v,1"), "{text}");
    }

    #[test]
    fn the_tied_diagonal_is_told_in_scaled_units() {
        let tied = setting(Layer { keys: KeyWeights::Tied, ..LAYER });
        let row = Row {
            d_k: Some(9),
            scale: Some("none".into()),
            estimate: Some(9.6),
            ..Row::new("multi-head", "diagonal_mean")
        };
        let text = remarks(&[&tied], &[row]);
        assert!(text[0].contains("2h + 1 = 9") && text[0].contains("W_k = W_q"), "{text:?}");
        // 9.6/√9.
        assert!(text[1].contains("itself is 3.20 on average") && text[1].contains("√d_k = 3.00 in theory"), "{text:?}");
    }
}
