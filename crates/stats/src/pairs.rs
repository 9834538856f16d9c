//! Paired differences of the costs of cells, block by block.

/// All paired differences of a set of cells. A pair is computed on demand: all pairs of the 20,000 cells of an imported
/// table would take gigabytes.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PairedCosts {
    blocks: usize,
    mean: Vec<f64>,
    /// ln costs minus the mean of their cell, cell by cell.
    centred: Vec<f64>,
}

impl PairedCosts {
    /// Computes the differences of ln costs, one row per block, one column per cell.
    ///
    /// # Panics
    /// If the rows differ in length.
    #[must_use]
    pub fn of(ln_cost: &[Vec<f64>]) -> Self {
        let cells = ln_cost.first().map_or(0, Vec::len);
        assert!(ln_cost.iter().all(|row| row.len() == cells), "blocks differ in their number of cells");
        let n = ln_cost.len() as f64;
        let mean: Vec<f64> = (0..cells).map(|i| ln_cost.iter().map(|row| row[i]).sum::<f64>() / n).collect();
        let of_cell = |i: usize| ln_cost.iter().map(move |row| row[i]);
        let centred = (0..cells).flat_map(|i| of_cell(i).map(|x| x - mean[i]).collect::<Vec<_>>()).collect();
        Self { blocks: ln_cost.len(), mean, centred }
    }

    /// A cell's ln costs minus their mean, by block.
    pub(crate) fn centred(&self, i: usize) -> &[f64] {
        &self.centred[i * self.blocks..][..self.blocks]
    }

    /// The sum of squares of the centred differences of two cells.
    pub(crate) fn square(&self, i: usize, j: usize) -> f64 {
        let square: f64 = self.centred(i).iter().zip(self.centred(j)).map(|(i, j)| (i - j).powi(2)).sum();
        // A rounding error of equal numbers is not spread.
        if square < 1e-24 * self.blocks as f64 { 0.0 } else { square }
    }

    /// d̄ᵢⱼ: the mean of ln(cost i / cost j).
    #[must_use]
    pub fn mean(&self, i: usize, j: usize) -> f64 {
        self.mean[i] - self.mean[j]
    }

    /// seᵢⱼ: the standard error of d̄ᵢⱼ, in ln; NaN for fewer than two blocks.
    #[must_use]
    pub fn error(&self, i: usize, j: usize) -> f64 {
        let n = self.blocks as f64;
        (self.square(i, j) / (n * (n - 1.0))).sqrt()
    }

    /// Number of blocks of every pair.
    #[must_use]
    pub fn blocks(&self) -> usize {
        self.blocks
    }

    /// Number of compared cells.
    #[must_use]
    pub fn cells(&self) -> usize {
        self.mean.len()
    }

    /// The largest `bound(j)` over the cells j except `i` that are `rivals`; 0 without any.
    pub(crate) fn worst(&self, i: usize, rivals: impl Fn(usize) -> bool, bound: impl Fn(usize) -> f64) -> f64 {
        (0..self.cells()).filter(|&j| j != i && rivals(j)).map(bound).reduce(f64::max).unwrap_or(0.0)
    }
}
