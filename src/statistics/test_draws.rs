//! Draws for the statistical tests of this module, independent of the code under test and of the project's samplers.

/// SplitMix64 (Steele, Lea & Flood 2014) with Box–Muller normals: enough for tests, a pure function of the seed.
pub(crate) struct Draws {
    state: u64,
    spare: Option<f64>,
}

impl Draws {
    pub(crate) fn new(seed: u64) -> Self {
        Draws { state: seed, spare: None }
    }

    /// Uniform on (0, 1), never 0 or 1.
    pub(crate) fn uniform(&mut self) -> f64 {
        self.state = self.state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.state;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        ((z ^ (z >> 31)) >> 11) as f64 * 2f64.powi(-53) + 2f64.powi(-54)
    }

    pub(crate) fn normal(&mut self) -> f64 {
        if let Some(value) = self.spare.take() {
            return value;
        }
        let radius = (-2.0 * self.uniform().ln()).sqrt();
        let (sine, cosine) = (std::f64::consts::TAU * self.uniform()).sin_cos();
        self.spare = Some(radius * sine);
        radius * cosine
    }

    /// (χ²_ν − ν)/√(2ν): the gamma law of skewness √(8/ν), from its definition.
    pub(crate) fn standard_chi_square(&mut self, degrees: usize) -> f64 {
        let sum: f64 = (0..degrees).map(|_| self.normal().powi(2)).sum();
        (sum - degrees as f64) / (2.0 * degrees as f64).sqrt()
    }

    /// Σ Z_h Z'_h/√D from its definition.
    pub(crate) fn product_normal(&mut self, degrees: usize) -> f64 {
        (0..degrees).map(|_| self.normal() * self.normal()).sum::<f64>() / (degrees as f64).sqrt()
    }
}
