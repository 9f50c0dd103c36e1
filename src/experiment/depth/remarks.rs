//! What a stack of blocks does to its tokens, in words.

use super::{DepthSetting, MlpPart, NormPlace};
use crate::attention::transformer_block::Residual;
use crate::report::Row;

/// From this mean cosine on, tokens are as good as one.
const COLLAPSED: f64 = 0.99;
/// From this on they have more in common than of their own.
const ALIKE: f64 = 0.5;

/// Two sentences for each parameter point: how alike the tokens become, and how far a change of the input carries.
pub fn remarks(settings: &[&DepthSetting], rows: &[Row]) -> Vec<String> {
    let of_point = |setting: &&DepthSetting| {
        let named = |statistic: String| {
            let same = |row: &&Row| {
                row.statistic == statistic
                    && (row.d_k, row.n_queries) == (Some(setting.sizes.d_k as u64), Some(setting.sizes.queries as u64))
            };
            rows.iter().find(same).and_then(|row| row.estimate)
        };
        let cosines: Option<Vec<f64>> =
            (0..=setting.layers).map(|layer| named(format!("token_cosine:layer{layer}"))).collect();
        let gradient = named(format!("gradient_scale:layer{}", setting.layers))?;
        Some(sentences(setting, &cosines?, gradient, settings.len() > 1))
    };
    settings.iter().filter_map(of_point).flatten().collect()
}

fn sentences(setting: &DepthSetting, cosines: &[f64], gradient: f64, name_point: bool) -> Vec<String> {
    let point = if name_point {
        format!(" (n = {}, d_k = {})", setting.sizes.queries, setting.sizes.d_k)
    } else {
        String::new()
    };
    let last = cosines[setting.layers];
    let collapsed = cosines.iter().position(|&cosine| cosine >= COLLAPSED);
    let after = format!("their mean cosine is {last:.2} after {} layers", setting.layers);
    let alike = match collapsed {
        Some(layer) => format!(
            "the tokens collapse to one: their mean cosine is {:.4} after layer {layer} and {last:.4} after the last",
            cosines[layer]
        ),
        None if last >= ALIKE => format!("the tokens grow alike: {after}"),
        None => format!("the tokens stay apart: {after}"),
    };
    let why = match (collapsed, setting.residual, setting.mlp) {
        (Some(_), Residual::LeftOut, MlpPart::LeftOut) => {
            "; attention alone loses rank doubly exponentially with depth (Dong et al. 2021)"
        }
        (Some(_), Residual::LeftOut, MlpPart::Width(_)) => "; the MLP alone does not stop it",
        (None, Residual::Added, _) => {
            "; the residual slows the collapse that attention alone shows (--no-residual --no-mlp)"
        }
        _ => "",
    };
    let size = match gradient {
        gradient if !(0.1..=10.0).contains(&gradient) => format!("{gradient:.1e}"),
        gradient => format!("{gradient:.2}"),
    };
    vec![
        format!("{}{point}: {alike}{why}.", stack(setting)),
        format!(
            "A small change of the input comes out of {} layers{point} with {size} times its mean square; a gradient that \
             comes back to the input is as much larger or smaller.",
            setting.layers
        ),
    ]
}

/// The stack in words.
fn stack(setting: &DepthSetting) -> String {
    let parts = match (setting.residual, setting.mlp) {
        (Residual::LeftOut, MlpPart::LeftOut) => "Pure attention",
        (Residual::LeftOut, MlpPart::Width(_)) => "Attention and MLP without residual",
        (Residual::Added, MlpPart::LeftOut) => "Attention with residual",
        (Residual::Added, MlpPart::Width(_)) => "Attention and MLP with residual",
    };
    let norm = match setting.norm {
        NormPlace::Post => "post-norm",
        NormPlace::Pre => "pre-norm",
        NormPlace::None => "no norm",
    };
    format!("{parts}, {norm}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::attention::Scale;
    use crate::experiment::Sizes;
    use crate::sampling::Entries;
    use crate::theory::multi_head::{Bias, KeyWeights, Layer};

    fn words(residual: Residual, cosines: [f64; 3]) -> String {
        let setting = DepthSetting {
            layers: 2,
            layer: Layer {
                d_model: 6,
                heads: 2,
                key_heads: 2,
                d_k: 3,
                d_v: 3,
                keys: KeyWeights::Separate,
                bias: Bias::Absent,
            },
            sizes: Sizes { d_k: 3, queries: 5, keys: 5 },
            norm: NormPlace::Post,
            residual,
            mlp: MlpPart::LeftOut,
            entries: Entries::Normal,
            scale: Scale::InverseSqrtWidth,
        };
        let row = |name: &str, layer: usize, estimate: f64| Row {
            d_k: Some(3),
            n_queries: Some(5),
            estimate: Some(estimate),
            ..Row::new("depth", format!("{name}:layer{layer}"))
        };
        let mut rows: Vec<Row> =
            cosines.iter().enumerate().map(|(layer, &cosine)| row("token_cosine", layer, cosine)).collect();
        rows.push(row("gradient_scale", 2, 0.003));
        remarks(&[&setting], &rows).join(" ")
    }

    #[test]
    fn collapse_is_told_with_the_layer_where_it_is_there() {
        let text = words(Residual::LeftOut, [0.0, 0.995, 0.9999]);
        assert!(text.starts_with("Pure attention, post-norm: the tokens collapse to one"), "{text}");
        assert!(text.contains("0.9950 after layer 1 and 0.9999 after the last; attention alone loses rank"), "{text}");
        assert!(text.contains("with 3.0e-3 times its mean square"), "{text}");
    }

    #[test]
    fn tokens_that_stay_apart_are_told_with_what_keeps_them() {
        let text = words(Residual::Added, [0.0, 0.1, 0.2]);
        assert!(text.contains("stay apart: their mean cosine is 0.20 after 2 layers; the residual slows"), "{text}");
        // Nothing is claimed of a remedy that is not there.
        assert!(!words(Residual::LeftOut, [0.0, 0.1, 0.2]).contains("the residual"));
        assert!(
            words(Residual::Added, [0.0, 0.1, 0.6]).contains("grow alike: their mean cosine is 0.60 after 2 layers")
        );
    }
}
