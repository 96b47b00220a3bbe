//! A door for the fuzz targets; no part of the API.

use crate::{head::scan_generally, scan::scan};

/// Compares the quick reading of a line with the general one.
///
/// # Panics
/// Where they differ.
pub fn scans_agree(line: &str) {
    if let Some(scanned) = scan(line) {
        assert_eq!(Some(scanned), scan_generally(line), "{line:?}");
    }
}
