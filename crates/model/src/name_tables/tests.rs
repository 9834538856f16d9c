//! Tests of the catalogue.

use super::*;

#[test]
fn names_are_unique_and_round_trip() {
    for row in TRANSPORTS {
        assert_eq!(row.name.parse::<Transport>().unwrap().to_string(), row.name);
    }
    for row in ARRIVALS {
        assert_eq!(row.name.parse::<Arrivals>().unwrap().to_string(), row.name);
    }
    for row in RCVBUF_ON {
        assert_eq!(row.name.parse::<RcvbufOn>().unwrap().to_string(), row.name);
    }
    for row in PLACEMENTS {
        assert_eq!(row.name.parse::<Placement>().unwrap().to_string(), row.name);
    }
}

#[test]
fn unknown_names_suggest() {
    let error = "tpc".parse::<Transport>().unwrap_err().to_string();
    assert!(error.contains("did you mean `tcp`?"), "{error}");
}

#[test]
fn work_and_fill() {
    assert_eq!("0.5ns".parse::<Work>(), Ok(Work::NsPerByte(0.5)));
    assert_eq!(Work::NsPerByte(0.5).to_string(), "0.5ns");
    assert_eq!("touch".parse::<Fill>(), Ok(Fill::Touch));
    assert!("-1ns".parse::<Work>().is_err());
    assert!("busy".parse::<Work>().is_err());
}
