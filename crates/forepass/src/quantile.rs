//! Quantiles of sorted values.

/// Quantile of ascending values with linear interpolation between neighbours.
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
pub(crate) fn interpolated_quantile(ascending: &[f64], share: f64) -> Option<f64> {
    let last = ascending.len().checked_sub(1)?;
    let position = share * last as f64;
    let below = position.floor() as usize;
    let above = (below + 1).min(last);
    let fraction = position - below as f64;
    Some(ascending[below] + fraction * (ascending[above] - ascending[below]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quantile_lies_between_its_neighbours() {
        // Position 1.8 of 10, 20, 30 is 28.
        let values = [10.0, 20.0, 30.0];
        let at = |share| interpolated_quantile(&values, share);
        assert_eq!(
            (at(0.0), at(0.5), at(0.9), at(1.0)),
            (Some(10.0), Some(20.0), Some(28.0), Some(30.0))
        );
        assert_eq!(interpolated_quantile(&[], 0.5), None);
    }
}
