// What becomes of a chart's Vega-Lite specification in a page: colours, data, widths.
const themed = (width) => ({
  background: null,
  font: "system-ui, -apple-system, Segoe UI, Roboto, sans-serif",
  view: { stroke: "var(--line)" },
  axis: {
    labelColor: "var(--ink)", titleColor: "var(--ink)", domainColor: "var(--quiet)",
    tickColor: "var(--quiet)", gridColor: "var(--grid)", labelFontSize: 12, titleFontSize: 12,
    titleFontWeight: 500, labelOverlap: true, labelSeparation: 6,
  },
  axisY: { minExtent: width < NARROW ? 40 : 60 },
  legend: {
    labelColor: "var(--ink)", titleColor: "var(--ink)", orient: "top", direction: "horizontal",
    columns: width < NARROW ? 1 : 0, labelFontSize: 12, labelLimit: 320,
    symbolStrokeColor: "var(--quiet)",
  },
  header: { labelColor: "var(--ink)", titleColor: "var(--ink)" },
  title: { color: "var(--ink)" },
  text: { color: "var(--ink)" }, rule: { color: "var(--ink)" }, tick: { color: "var(--ink)" },
  aria: false,
});

function rowsOf(columns) {
  const names = Object.keys(columns), rows = [];
  const length = names.length ? columns[names[0]].length : 0;
  for (let at = 0; at < length; at += 1) {
    const row = {};
    for (const name of names) row[name] = columns[name][at];
    rows.push(row);
  }
  return rows;
}

// Marks of a chart that is zoomed end at the edge of the plot.
function clipped(spec) {
  const mark = typeof spec.mark === "string" ? { type: spec.mark } : spec.mark;
  const made = mark ? { ...spec, mark: { clip: true, ...mark } } : { ...spec };
  for (const key of ["layer", "vconcat", "hconcat", "concat"]) {
    if (spec[key]) made[key] = spec[key].map(clipped);
  }
  return made;
}

// Views side by side do not follow the page's width by themselves.
function hasViews(spec) {
  const keys = ["vconcat", "hconcat", "concat", "facet", "repeat"];
  return keys.some((key) => key in spec) || "row" in (spec.encoding ?? {});
}

function withWidths(spec, width) {
  const made = { ...spec };
  for (const key of ["vconcat", "concat"]) {
    if (spec[key]) made[key] = spec[key].map((part) => withWidths(part, width));
  }
  if (spec.hconcat) {
    const share = width / spec.hconcat.length;
    made.hconcat = spec.hconcat.map((part) => withWidths(part, share));
  }
  if (spec.spec) made.spec = { width, ...spec.spec };
  else if (!made.vconcat && !made.concat && !made.hconcat) made.width = spec.width ?? width;
  return made;
}

// Vega-Lite has each x turned into a number and each point asked whether it has a place. What is
// known of the rows need not be asked.
function lean(made, sets) {
  const turned = (each) => each.type === "formula" && each.expr.startsWith("toNumber(");
  const origin = new Map(Object.keys(sets).map((name) => [name, name]));
  for (const part of made.data ?? []) {
    if (!part.source || !origin.has(part.source)) continue;
    part.transform = (part.transform ?? []).filter((each) => !turned(each));
    if (!part.transform.length) origin.set(part.name, origin.get(part.source));
  }
  const marks = [...(made.marks ?? [])];
  while (marks.length) {
    const mark = marks.pop(), update = mark.encode?.update;
    marks.push(...(mark.marks ?? []));
    const rows = sets[origin.get(mark.from?.data)], asked = update?.defined?.signal;
    if (!rows || !asked) continue;
    const fields = new Set([...asked.matchAll(/datum\["([^"]+)"\]/g)].map((found) => found[1]));
    const gaps = [...fields].filter((field) => !rows.every((row) => Number.isFinite(row[field])));
    if (!gaps.length) delete update.defined;
    else update.defined.signal = gaps.map((field) => `isValid(datum["${field}"])`).join(" && ");
  }
  return made;
}
