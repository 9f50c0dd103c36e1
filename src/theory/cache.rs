//! What decoding with a cache costs, and what the cache holds.

/// Heads, widths and window of a cache; all at least 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CacheCost {
    /// Query heads h.
    pub heads: u64,
    /// Key and value heads h_kv.
    pub key_value_heads: u64,
    /// Width of queries and keys.
    pub d_k: u64,
    /// Width of values.
    pub d_v: u64,
    /// Keys that a token sees, its own counted; None for all before it.
    pub window: Option<u64>,
}

impl CacheCost {
    /// Keys that the token at `position` (from 0) sees.
    pub fn visible(&self, position: u64) -> u64 {
        self.window.map_or(position + 1, |window| window.min(position + 1))
    }

    /// Operations of the attention of one token at `position` with a cache: h·v·(2d_k + 2d_v + 6) for v visible keys (THEORY.md section
    /// 6: a multiply-add is 2, the scale 1, the softmax 5). O(n·d).
    pub fn operations(&self, position: u64) -> u64 {
        self.heads * self.visible(position) * (2 * self.d_k + 2 * self.d_v + 6)
    }

    /// Operations of the same without a cache: the attention of all tokens up to it. Σ v is p(p + 1)/2 while the window W is not
    /// full, and W for each token after. O(n²·d), O(n·W·d) with a window.
    pub fn operations_without_cache(&self, position: u64) -> u64 {
        let tokens = position + 1;
        let growing = self.window.map_or(tokens, |window| window.min(tokens));
        let keys = growing * (growing + 1) / 2 + (tokens - growing) * growing;
        self.heads * keys * (2 * self.d_k + 2 * self.d_v + 6)
    }

    /// Numbers of a cache with `slots` tokens: slots·h_kv·(d_k + d_v), which is 2·n·h_kv·d for d_v = d_k and n slots.
    pub fn numbers(&self, slots: u64) -> u64 {
        slots * self.key_value_heads * (self.d_k + self.d_v)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn costs_are_those_counted_by_hand() {
        // h = 2, d_k = 3, d_v = 5: 22 operations a head and key.
        let all = CacheCost { heads: 2, key_value_heads: 1, d_k: 3, d_v: 5, window: None };
        assert_eq!([0, 1, 6].map(|position| all.operations(position)), [44, 88, 308]);
        // 1 + 2 + 3 + 4 = 10 keys.
        assert_eq!(all.operations_without_cache(3), 440);
        let window = CacheCost { window: Some(3), ..all };
        // 1 + 2 + 3 + 3 + 3 = 12 keys.
        assert_eq!((window.operations(4), window.operations_without_cache(4)), (132, 528));
        assert_eq!(all.numbers(7), 56);
        // 2·n·h_kv·d for d_v = d_k.
        assert_eq!(CacheCost { d_v: 3, key_value_heads: 2, ..all }.numbers(7), 2 * 7 * 2 * 3);
    }
}
