//! The share that one of many may take of a common bound.

/// Returns true if an owner of `own` of a bound may take `more`, while `free` is left: not if it
/// would then have more than remains for all others together.
///
/// So no owner takes everything, and a new one finds room behind those that take all they can
/// ([session.3]).
pub fn may_take(own: u64, more: u64, free: u64) -> bool {
    u128::from(own) + 2 * u128::from(more) <= u128::from(free)
}

#[cfg(test)]
mod tests {
    use super::may_take;

    #[test]
    fn those_who_take_all_they_can_leave_room_for_the_next() {
        for greedy in 1..10 {
            let mut free = 10_000_u64;
            let mut taken = vec![0; greedy];
            while let Some(own) = taken.iter_mut().find(|own| may_take(**own, 1, free)) {
                *own += 1;
                free -= 1;
            }
            assert!(
                free >= 10_000 >> greedy && may_take(0, free / 2, free),
                "{greedy} leave {free}"
            );
            assert!(taken.iter().all(|own| *own <= 5_000));
        }
        assert!(!may_take(u64::MAX, 1, u64::MAX) && !may_take(0, u64::MAX, u64::MAX));
    }
}
