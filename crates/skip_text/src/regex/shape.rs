//! What a part of a regular expression matches: alternatives of templates, and demands beside them.
//!
//! Invariant: a text that the part matches is one of the templates, and the value in which it stands meets the demand.
//! All operations keep the number and the length of templates bounded, by moving templates into the demand.

use crate::{Demand, Encoding, Literal, Symbol, Template};

/// The most templates of a part.
pub(super) const MOST_TEMPLATES: usize = 16;
/// The most symbols of a template. Longer ones are cut, which loses what spans the cut.
pub(super) const MOST_SYMBOLS: usize = 512;
/// The most copies that are made of a part that must come several times.
const MOST_COPIES: u32 = 8;
/// `x+` is `x` or `x…x` where that makes no more templates than this; else `x…`.
const MOST_TEMPLATES_REPEATED: usize = 4;

/// What a part of a regular expression matches.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct RegexShape {
    /// One of these is what the part matches. At least one.
    templates: Vec<Template>,
    /// The whole value meets this too.
    demand: Demand<Literal>,
    encoding: Encoding,
}

impl RegexShape {
    /// A part that matches one of the templates.
    pub fn of(templates: Vec<Template>, encoding: Encoding) -> Self {
        let mut distinct: Vec<Template> = Vec::new();
        for template in templates {
            if !distinct.contains(&template) {
                distinct.push(template);
            }
        }
        Self { templates: distinct, demand: Demand::Anything, encoding }
    }

    /// A part that matches just these symbols; none of them: the empty text.
    pub fn symbols(symbols: impl IntoIterator<Item = Symbol>, encoding: Encoding) -> Self {
        Self::of(vec![Template(symbols.into_iter().collect())], encoding)
    }

    /// What every value meets that the part matches somewhere.
    pub fn demand(self, encoding: Encoding) -> Demand<Literal> {
        if self.demand.is_long() {
            return self.demand;
        }
        let alternatives = Demand::any(self.templates.iter().map(|template| template.demand(encoding)));
        Demand::all([self.demand, alternatives])
    }

    /// The whole value meets this as well. Demands are not joined symbol by symbol: that takes quadratic time.
    fn demand_too(&mut self, more: Demand<Literal>) {
        if more != Demand::Anything && !self.demand.is_long() {
            let demand = std::mem::replace(&mut self.demand, Demand::Anything);
            self.demand = Demand::all([demand, more]);
        }
    }

    /// Moves the templates into the demand and leaves a gap.
    fn flush(&mut self) {
        let encoding = self.encoding;
        let whole = std::mem::replace(self, Self::symbols([Symbol::Gap], encoding));
        self.demand = whole.demand(encoding);
    }

    fn longest(&self) -> usize {
        self.templates.iter().map(|template| template.0.len()).max().unwrap_or(0)
    }

    /// This part, and then `next`.
    pub fn then(&mut self, mut next: RegexShape) {
        if self.longest() + next.longest() > MOST_SYMBOLS {
            self.flush();
        }
        if self.templates.len() * next.templates.len() > MOST_TEMPLATES {
            if self.templates.len() >= next.templates.len() { self.flush() } else { next.flush() }
        }
        if let [only] = &next.templates[..] {
            self.templates.iter_mut().for_each(|template| template.append(only));
        } else {
            let pairs = self
                .templates
                .iter()
                .flat_map(|first| next.templates.iter().map(move |second| (first, second)));
            let joined = pairs.map(|(first, second)| {
                let mut template = first.clone();
                template.append(second);
                template
            });
            self.templates = joined.collect();
        }
        self.demand_too(next.demand);
    }

    /// One of the parts; there is at least one.
    pub fn either(mut parts: Vec<RegexShape>, encoding: Encoding) -> Self {
        if parts.len() == 1 {
            return parts.swap_remove(0);
        }
        if parts.iter().map(|part| part.templates.len()).sum::<usize>() <= MOST_TEMPLATES {
            let demand = Demand::any(parts.iter().map(|part| part.demand.clone()));
            let templates = parts.into_iter().flat_map(|part| part.templates).collect();
            return Self { demand, ..Self::of(templates, encoding) };
        }
        let demand = Demand::any(parts.into_iter().map(|part| part.demand(encoding))).bounded();
        Self { demand, ..Self::symbols([Symbol::Gap], encoding) }
    }

    /// The part at least `least` times, and at most `most` times (None: any number).
    pub fn repeated(self, least: u32, most: Option<u32>) -> Self {
        let encoding = self.encoding;
        let gap = || Self::symbols([Symbol::Gap], encoding);
        match (least, most) {
            (0, Some(0)) => Self::symbols([], encoding),
            (0, Some(1)) if self.templates.len() < MOST_TEMPLATES => {
                // What is demanded beside the templates need not be there.
                let mut templates = self.templates;
                templates.push(Template::default());
                Self::of(templates, encoding)
            }
            (0, _) => gap(),
            (1, Some(1)) => self,
            (1, _) if 2 * self.templates.len() <= MOST_TEMPLATES_REPEATED => {
                let mut several = self.clone();
                several.then(gap());
                several.then(Self { demand: Demand::Anything, ..self.clone() });
                Self::either(vec![self, several], encoding)
            }
            (least, most) => {
                let once = Self { demand: Demand::Anything, ..self.clone() };
                let mut all = self;
                for _ in 1..least.min(MOST_COPIES) {
                    all.then(once.clone());
                }
                if most != Some(least) || least > MOST_COPIES {
                    all.then(gap());
                }
                all
            }
        }
    }
}
