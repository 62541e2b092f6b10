//! The table.

use crate::corpus::Corpus;
use crate::pairs::Pairs;
use crate::target::Target;

/// Rows of a markdown table: a name, the native time, one ratio per file system.
pub(crate) struct Report {
    columns: Vec<&'static str>,
    rows: Vec<(String, Vec<Pairs>)>,
}

impl Report {
    pub(crate) fn new(targets: &[Target]) -> Self {
        Self {
            columns: targets.iter().map(|target| target.name()).collect(),
            rows: Vec::new(),
        }
    }

    /// Adds a row; `per_target` is in the order of the columns and may be shorter.
    pub(crate) fn add(&mut self, name: &str, per_target: Vec<Pairs>) {
        self.rows.push((name.to_owned(), per_target));
    }

    /// How many measurements gave nothing.
    pub(crate) fn failures(&self) -> usize {
        let cells = self.rows.iter().flat_map(|(_, per_target)| per_target);
        cells.filter(|pairs| pairs.ratio().is_none()).count()
    }

    pub(crate) fn print(&self, corpus: &Corpus) {
        println!(
            "Repository of {} files, large file of {} MiB. Ratios are medians of pairs \
             (least - most); 1.00 is as fast as native.\n",
            corpus.files(),
            corpus.large() >> 20
        );
        println!(
            "| measurement | native, ms | {} |",
            self.columns.join(" | ")
        );
        println!("|---|---:|{}", "---:|".repeat(self.columns.len()));
        for (name, per_target) in &self.rows {
            let native = per_target.iter().find_map(Pairs::reference);
            let cells: Vec<String> = (0..self.columns.len())
                .map(|column| per_target.get(column).map_or_else(String::new, cell))
                .collect();
            println!("| {name} | {} | {} |", number(native), cells.join(" | "));
        }
    }
}

fn cell(pairs: &Pairs) -> String {
    match (pairs.ratio(), pairs.measured()) {
        (Some((median, least, most)), Some(time)) => {
            format!("{median:.2} ({least:.2} - {most:.2}), {time:.1} ms")
        }
        _ => "failed".to_owned(),
    }
}

fn number(value: Option<f64>) -> String {
    value.map_or_else(|| "-".to_owned(), |value| format!("{value:.1}"))
}
