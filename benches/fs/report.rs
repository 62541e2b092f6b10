//! The table.

use crate::corpus::Corpus;
use crate::pairs::{Pairs, Unit};
use crate::target::Target;

/// Rows of a markdown table: a name, the native time, one cell per file system.
pub(crate) struct Report {
    columns: Vec<&'static str>,
    rows: Vec<(&'static str, Vec<Pairs>)>,
}

impl Report {
    pub(crate) fn new(targets: &[Target]) -> Self {
        Self {
            columns: targets.iter().map(|target| target.name()).collect(),
            rows: Vec::new(),
        }
    }

    /// Adds a row; `per_target` is in the order of the columns and may be shorter.
    pub(crate) fn add(&mut self, name: &'static str, per_target: Vec<Pairs>) {
        self.rows.push((name, per_target));
    }

    /// How many measurements of aegisfs gave nothing; a neighbour may fail.
    pub(crate) fn failures(&self) -> usize {
        let ours = self.columns.iter().map(|name| name.starts_with("aegisfs"));
        let ours: Vec<bool> = ours.collect();
        let cells = self
            .rows
            .iter()
            .flat_map(|(_, cells)| cells.iter().zip(&ours));
        cells
            .filter(|(pairs, ours)| **ours && pairs.unit() == Unit::Time && pairs.ratio().is_none())
            .count()
    }

    pub(crate) fn print(&self, corpus: &Corpus) {
        println!(
            "Repository of {} files, large file of {} MiB. Times are ratios to native: the median \
             of pairs (least - most); 1.00 is as fast as native.\n",
            corpus.files(),
            corpus.large() >> 20
        );
        println!(
            "| measurement | native, ms | {} |",
            self.columns.join(" | ")
        );
        println!("|---|---:|{}", "---:|".repeat(self.columns.len()));
        for (name, per_target) in &self.rows {
            let native = per_target.iter().find_map(native);
            let cells: Vec<String> = (0..self.columns.len())
                .map(|column| per_target.get(column).map_or_else(String::new, cell))
                .collect();
            let native = native.unwrap_or_else(|| "-".to_owned());
            println!("| {name} | {native} | {} |", cells.join(" | "));
        }
    }
}

fn native(pairs: &Pairs) -> Option<String> {
    let reference = pairs.reference().filter(|time| *time > 0.0)?;
    Some(format!("{:.1}", reference / 1e6))
}

fn cell(pairs: &Pairs) -> String {
    let (Some((median, least, most)), Some(measured)) = (pairs.ratio(), pairs.measured()) else {
        return "-".to_owned();
    };
    match pairs.unit() {
        Unit::Bytes => format!("{:.0} KiB", measured / 1024.0),
        Unit::Time if pairs.reference() == Some(0.0) => format!("{:.1} ms", measured / 1e6),
        Unit::Time => format!("{median:.2} ({least:.2} - {most:.2})"),
    }
}
