//! Set partitions of a few slots: their enumeration, and the coarsest structure that two or more of them force together.

/// A partition of the slots 0, 1, … as bit masks, one per block, in the order of their smallest slots.
pub(crate) type Blocks = Vec<u32>;

/// All set partitions of `slots` slots: Bell(slots) of them (1, 2, 5, 15, 52, 203, …).
pub(crate) fn set_partitions(slots: usize) -> Vec<Blocks> {
    let mut partitions: Vec<Blocks> = vec![Vec::new()];
    for slot in 0..slots {
        let bit = 1_u32 << slot;
        let mut longer = Vec::new();
        for partition in partitions {
            for block in 0..partition.len() {
                let mut joined = partition.clone();
                joined[block] |= bit;
                longer.push(joined);
            }
            let mut alone = partition;
            alone.push(bit);
            longer.push(alone);
        }
        partitions = longer;
    }
    partitions
}

/// The finest partition that every block of `blocks` and of `others` fits into (their join in the partition lattice).
pub(crate) fn join(blocks: &[u32], others: &[u32]) -> Blocks {
    let mut joined = Blocks::new();
    join_into(blocks, others, &mut joined);
    joined
}

/// [`join`] into memory that is there already.
pub(crate) fn join_into(blocks: &[u32], others: &[u32], joined: &mut Blocks) {
    joined.clear();
    joined.extend_from_slice(blocks);
    for &other in others {
        let mut merged = other;
        joined.retain(|&block| {
            let apart = block & other == 0;
            if !apart {
                merged |= block;
            }
            apart
        });
        joined.push(merged);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_number_of_partitions_is_the_bell_number() {
        // OEIS A000110.
        for (slots, bell) in [1, 1, 2, 5, 15, 52, 203, 877].into_iter().enumerate() {
            assert_eq!(set_partitions(slots).len(), bell);
        }
    }

    #[test]
    fn each_partition_covers_every_slot_once_and_appears_once() {
        let mut partitions = set_partitions(5);
        for blocks in &partitions {
            assert_eq!(blocks.iter().sum::<u32>(), 0b11111);
            assert_eq!(blocks.iter().fold(0, |all, block| all | block), 0b11111);
        }
        partitions.sort();
        partitions.dedup();
        assert_eq!(partitions.len(), 52);
    }

    #[test]
    fn a_join_links_blocks_through_shared_slots() {
        // {0,1}{2,3}{4} with {1,2}{0}{3}{4}: 0-1-2-3 hang together, 4 stays alone.
        let mut joined = join(&[0b00011, 0b01100, 0b10000], &[0b00110, 1, 0b01000, 0b10000]);
        joined.sort();
        assert_eq!(joined, vec![0b01111, 0b10000]);
    }
}
