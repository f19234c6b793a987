use proptest::prelude::*;

use super::*;

#[test]
fn conditional_rates_multiply_into_progress() {
    // 0.9 + 0.9 x 0.5 + 0.9 x 0.5 x 0.2 = 1.44; 0.8 + 0.48 + 0.192 = 1.472; 0.85 + 0.255 = 1.105
    for (text, accepted) in [("0.9,0.5,0.2", 1.44), ("0.8, 0.6, 0.4", 1.472), ("0.85,0.3,0", 1.105)]
    {
        let rates: AcceptanceRates = text.parse().unwrap();
        assert!((rates.expected_accepted() - accepted).abs() < 1e-12, "{text}");
        assert!((rates.expected_progress() - accepted - 1.0).abs() < 1e-12, "{text}");
    }
    assert_eq!(AcceptanceRates::default().expected_progress(), 1.0);
}

#[test]
fn unconditional_rates_become_conditional() {
    let convert = |rates: &[f64]| AcceptanceRates::from_unconditional(rates);
    let rates = convert(&[0.9, 0.5, 0.2]).unwrap();
    // Accepted on average: the sum of the unconditional rates.
    assert!((rates.expected_accepted() - 1.6).abs() < 1e-12);
    assert_eq!(rates.rates(), [0.9, 0.5 / 0.9, 0.4]);
    assert_eq!(convert(&[0.5, 0.0, 0.0]).unwrap().rates(), [0.5, 0.0, 0.0]);
    for increasing in [&[0.5, 0.9][..], &[1.0, 0.0, 0.5]] {
        let error = convert(increasing).unwrap_err();
        assert_eq!(error.code(), E_ACCEPT_INVALID);
        assert_eq!(error.path(), format!("[{}]", increasing.len() - 1));
    }
    assert!("0.5,0.9".parse::<AcceptanceRates>().is_ok(), "conditional rates may increase");
}

#[test]
fn a_mean_becomes_certain_drafts_and_a_fraction() {
    let rates = |mean| AcceptanceRates::from_mean_accepted(mean, 3).unwrap().0;
    assert_eq!(rates(0.0), [0.0, 0.0, 0.0]);
    assert_eq!(rates(1.5), [1.0, 0.5, 0.0]);
    assert_eq!(rates(3.0), [1.0, 1.0, 1.0]);
    for mean in [-1.0, 3.1, f64::NAN, f64::INFINITY] {
        let error = AcceptanceRates::from_mean_accepted(mean, 3).unwrap_err();
        assert_eq!(error.code(), E_ACCEPT_INVALID, "{mean}");
    }
    let length = |length| AcceptanceRates::from_mean_length(length, 3);
    assert_eq!(length(4.0).unwrap().0, [1.0, 1.0, 1.0]);
    assert_eq!(length(1.0).unwrap().0, [0.0, 0.0, 0.0]);
    let fraction = length(2.6).unwrap().expected_progress();
    assert!((fraction - 2.6).abs() < 1e-12);
    for beyond in [0.9, 4.1, f64::NAN] {
        assert_eq!(length(beyond).unwrap_err().code(), E_ACCEPT_INVALID);
    }
}

#[test]
fn rates_are_read_from_text_and_written_back() {
    let rates: AcceptanceRates = " 0.80 ,1, 0,-0".parse().unwrap();
    assert_eq!(rates.to_string(), "0.8,1,0,0");
    assert_eq!(rates.to_string().parse(), Ok(rates));
    for text in ["-0.1", "0.5,1.1", "NaN", "0.5,inf", "high", "0.5,,0.1", "0.5,", "1e400"] {
        let error = text.parse::<AcceptanceRates>().unwrap_err();
        assert_eq!((error.code(), error.path().as_str()), (E_ACCEPT_INVALID, ""), "{text}");
    }
    for blank in ["", " \t"] {
        assert_eq!(blank.parse::<AcceptanceRates>().unwrap_err().code(), E_ACCEPT_MISSING);
    }
}

#[test]
fn rates_of_the_older_spelling_are_padded_cut_or_assumed() {
    let rates = |text, depth| AcceptanceRates::legacy(text, depth).unwrap().0;
    assert_eq!(rates(None, 3), [0.85, 0.3, 0.0]);
    assert_eq!(rates(Some("  "), 1), [0.85]);
    assert_eq!(rates(Some("0.5"), 3), [0.5, 0.0, 0.0]);
    assert_eq!(rates(Some("0.5,0.4,0.3"), 2), [0.5, 0.4]);
    assert!(AcceptanceRates::legacy(Some("1.2"), 3).is_err());
    for too_deep in [6, u32::MAX] {
        assert_eq!(AcceptanceRates::legacy(None, too_deep).unwrap_err().code(), E_RANGE);
        let mean = AcceptanceRates::from_mean_accepted(1.0, too_deep);
        assert_eq!(mean.unwrap_err().code(), E_RANGE);
    }
    let exact = AcceptanceRates::new(vec![0.5, 0.4]).unwrap();
    assert!(exact.clone().exactly(2).is_ok());
    for depth in [1, 3] {
        assert_eq!(exact.clone().exactly(depth).unwrap_err().code(), E_ACCEPT_INVALID);
    }
}

#[test]
fn every_request_decodes_its_drafts_and_one_more_row() {
    assert_eq!(decode_rows(2, 2), Ok(6));
    assert_eq!(decode_rows(0, 5), Ok(0));
    assert_eq!(decode_rows(u32::MAX, 0), Ok(u32::MAX));
    for (batch, depth) in [(u32::MAX, 1), (1, u32::MAX), (1 << 31, 1)] {
        assert_eq!(decode_rows(batch, depth).unwrap_err().code(), E_RANGE);
    }
}

proptest! {
    /// Simulated step by step: the chance to reach each level, summed.
    #[test]
    fn rates_convert_both_ways(rates in proptest::collection::vec(0.0..=1.0_f64, 0..=5)) {
        let conditional = AcceptanceRates::new(rates.clone()).unwrap();
        let mut reach = 1.0;
        let unconditional: Vec<f64> = rates.iter().map(|rate| { reach *= rate; reach }).collect();
        let sum: f64 = unconditional.iter().sum();
        prop_assert!((conditional.expected_accepted() - sum).abs() < 1e-12);
        let back = AcceptanceRates::from_unconditional(&unconditional).unwrap();
        prop_assert!((back.expected_accepted() - sum).abs() < 1e-12);
        let depth = u32::try_from(rates.len()).unwrap();
        let steady = AcceptanceRates::from_mean_accepted(sum.min(f64::from(depth)), depth).unwrap();
        prop_assert!((steady.expected_accepted() - sum).abs() < 1e-9);
        prop_assert_eq!(conditional.to_string().parse::<AcceptanceRates>().ok(),
            Some(conditional).filter(|rates| !rates.rates().is_empty()));
    }
}
