//! Reads recorded durations: an HdrHistogram V2 as base64, as clients store the times of their calls.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use hdrhistogram::Histogram;
use hdrhistogram::serialization::Deserializer;

use crate::lifetimes::Durations;

/// The durations of a histogram; `None` if it is damaged.
pub fn durations(encoded: &str) -> Option<Durations> {
    let bytes = BASE64.decode(encoded).ok()?;
    let histogram: Histogram<u64> = Deserializer::new().deserialize(&mut bytes.as_slice()).ok()?;
    Some(histogram.iter_recorded().map(|step| (step.value_iterated_to(), step.count_at_value())).collect())
}

#[cfg(test)]
mod tests {
    use hdrhistogram::serialization::{Serializer, V2Serializer};

    use super::*;

    #[test]
    fn durations_are_read_back() {
        let mut histogram = Histogram::<u64>::new(3).unwrap();
        for (ns, count) in [(7, 2), (900, 1)] {
            histogram.record_n(ns, count).unwrap();
        }
        let mut bytes = Vec::new();
        V2Serializer::new().serialize(&histogram, &mut bytes).unwrap();
        assert_eq!(durations(&BASE64.encode(bytes)), Some(vec![(7, 2), (900, 1)]));
    }

    #[test]
    fn damaged_text_has_no_durations() {
        assert_eq!([durations(""), durations("?"), durations("AAAA")], [None, None, None]);
    }
}
