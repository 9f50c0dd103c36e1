//! Random matrices. A seed is a promise: the same seed gives the same matrices on every machine, whatever the
//! number of threads and the order of the work.
//!
//! Nothing here has state that is passed along. Every block of random words is Threefry4x32-20 ([`threefry`]) of an
//! address ([`stream`]): key = (seed, parameter point), counter = (block, trial, matrix). Two sources use disjoint
//! block numbers:
//!
//! * **Element-addressed laws** (normal, uniform, Rademacher, Laplace). Sixteen consecutive blocks make a group and
//!   a group makes a fixed number E of consecutive elements: output o of block 16 g + l is element E g + 16 o + l.
//!   E is 64 in f32 (four outputs a block) and 32 in f64 (two); for Rademacher 2048 in both (one bit each). So
//!   element i of a matrix has one value wherever a fill starts or ends. Only additions, multiplications, divisions, square roots,
//!   conversions and bit operations are used, each of which IEEE 754 rounds in one way; nothing is fused. AVX-512,
//!   AVX2 and baseline code therefore agree in every bit.
//! * **Row generators** ([`TrialStream::rng`]) for rejection methods (Student's t), one per row.
//!
//! What changes a draw: seed, point, trial, matrix, element number, law, and f32 or f64 (for Student's t also the
//! width of the rows). Changing how they map to numbers breaks the promise; the tests pin first values and hashes,
//! which `scripts/reference/draws.py` computes independently.
//!
//! ```
//! use attn::sampling::{Entries, MatrixId, TrialStream, fill, parameter_point};
//!
//! let (rows, width) = (7, 5);
//! let stream = TrialStream::new(42, parameter_point(&[5, 7]), 0);
//! let mut queries = vec![0.0_f32; rows * width];
//! fill(Entries::Normal, &stream, MatrixId::QUERIES, 0, width, &mut queries);
//!
//! // Row 3 alone is the same row.
//! let mut row = [0.0_f32; 5];
//! fill(Entries::Normal, &stream, MatrixId::QUERIES, 3 * width, width, &mut row);
//! assert_eq!(row[..], queries[3 * width..4 * width]);
//! ```

mod bulk;
mod entries;
mod laws;
mod normal;
#[cfg(target_arch = "x86_64")]
mod normal_x86;
mod scatter;
pub mod stream;
pub mod threefry;

pub use entries::{Drawable, Entries, ParseEntriesError, fill, sign_words};
pub use scatter::{NormalScatter, draw_normal_scatter};
pub use stream::{CounterRng, MatrixId, TrialStream, parameter_point};
