// Charts with zoom, a cursor, and readings. Those of one group share zoom and cursor.
class Group {
  constructor() {
    this.charts = [];
    this.domain = this.whole = null;
    this.at = this.kept = null;
    this.waiting = false;
  }

  add(chart) {
    this.charts.push(chart);
    const [from, to] = chart.data.domain ?? [null, null];
    if (from === null) return;
    this.whole = this.whole
      ? [Math.min(from, this.whole[0]), Math.max(to, this.whole[1])] : [from, to];
    this.domain = this.whole;
  }

  show(from, to) {
    const [first, last] = this.whole, least = (last - first) * 1e-9;
    if (!(to - from >= least)) return;
    const span = Math.min(to - from, last - first);
    if (from < first) [from, to] = [first, first + span];
    if (to > last) [from, to] = [last - span, last];
    this.domain = [Math.max(from, first), to];
    if (this.waiting) return;
    this.waiting = true;
    requestAnimationFrame(() => {
      this.waiting = false;
      for (const chart of this.charts) chart.zoomed();
    });
  }

  isWhole() {
    return this.domain[0] <= this.whole[0] && this.domain[1] >= this.whole[1];
  }

  point(at) {
    this.at = at;
    for (const chart of this.charts) chart.read();
  }

  keep(at) {
    this.kept = at;
    for (const chart of this.charts) chart.keep();
  }
}

const groups = new Map();
const ZOOMS = {
  "+": "in", "=": "in", ArrowUp: "in", "-": "out", _: "out", ArrowDown: "out",
  Home: "all", 0: "all",
};

class Chart {
  constructor(figure) {
    this.figure = figure;
    this.id = figure.id;
    this.data = data(this.id);
    // Charts with the same rows have them once.
    if (typeof this.data.columns === "string") {
      this.data.columns = data(this.data.columns).columns;
    }
    this.plot = $(".plot", figure);
    this.xs = this.data.columns[this.data.x] ?? [];
    this.ends = this.data.x2 ? this.data.columns[this.data.x2] : null;
    const name = figure.dataset.group;
    if (!groups.has(name)) groups.set(name, new Group());
    this.group = groups.get(name);
    this.group.add(this);
    this.row = -1;
  }

  async draw() {
    const width = this.plot.clientWidth, { spec, domain, columns, more } = this.data;
    const sets = { rows: rowsOf(columns) };
    for (const [name, set] of Object.entries(more)) sets[name] = rowsOf(set);
    const whole = {
      width: "container", autosize: { type: "fit-x", contains: "padding" },
      data: { name: "rows" }, ...(domain ? clipped(spec) : spec), datasets: sets,
    };
    if (hasViews(spec)) {
      delete whole.width;
      delete whole.autosize;
      Object.assign(whole, withWidths(whole, width - 110));
    }
    const shown = { name: "domain", value: this.group.domain };
    if (domain) whole.params = [...(spec.params ?? []), shown];
    this.result?.finalize();
    this.result = await vegaEmbed($(".marks", this.plot), whole, {
      mode: "vega-lite", renderer: "svg", actions: false, defaultStyle: false, tooltip: false,
      config: themed(width), logLevel: 1, patch: (made) => lean(made, sets),
    });
    this.view = this.result.view;
    this.narrow = width < NARROW;
    if (!this.listening) this.listen();
    this.place();
    this.figure.dataset.ready = "yes";
  }

  // Pixels of the plot, from its left edge: where its x axis begins and ends.
  range() {
    const scale = this.scale();
    if (!scale) return null;
    const left = this.view.origin()[0] + this.view.padding().left, range = scale.range();
    return [left + range[0], left + range[range.length - 1]];
  }

  // null: the x axis has no numbers.
  scale() {
    let scale;
    try {
      scale = this.view.scale("x");
    } catch {
      return null;
    }
    if (!scale?.invert) return null;
    // What is asked for meanwhile counts, even if it is not drawn yet.
    return this.data.domain ? scale.copy().domain(this.group.domain) : scale;
  }

  valueAt(pixel) {
    return this.scale().invert(pixel - this.range()[0] + this.scale().range()[0]);
  }

  pixelOf(value) {
    return this.scale()(value) - this.scale().range()[0] + this.range()[0];
  }

  listen() {
    this.listening = true;
    const tools = $(".tools", this.figure);
    if (tools) {
      tools.hidden = false;
      for (const button of all("button", tools)) {
        button.addEventListener("click", () => this.act(button.dataset.do));
      }
      this.plot.addEventListener("wheel", (event) => this.wheel(event), { passive: false });
    }
    if (this.plot.getAttribute("role") !== "application") return;
    this.plot.addEventListener("keydown", (event) => this.key(event));
    this.plot.addEventListener("pointermove", (event) => this.move(event));
    this.plot.addEventListener("pointerleave", () => {
      if (!this.drag) this.group.point(this.group.kept);
    });
    this.plot.addEventListener("pointerdown", (event) => this.press(event));
    this.plot.addEventListener("pointerup", (event) => this.release(event));
    this.plot.addEventListener("pointercancel", () => this.drop());
    new ResizeObserver(() => this.resized()).observe(this.plot);
  }

  resized() {
    if (this.plot.clientWidth < NARROW !== this.narrow) this.draw();
    else requestAnimationFrame(() => this.place());
  }

  // ---- zoom
  act(what) {
    const range = this.range();
    if (!range || !this.group.whole) return;
    const [left, right] = range, middle = (left + right) / 2;
    if (what === "in") this.zoom(1 / STEP, middle);
    else if (what === "out") this.zoom(STEP, middle);
    else if (what === "left") this.slide(-SLIDE * (right - left));
    else if (what === "right") this.slide(SLIDE * (right - left));
    else this.group.show(...this.group.whole);
  }

  zoom(factor, about) {
    const [left, right] = this.range();
    this.group.show(
      this.valueAt(about - (about - left) * factor), this.valueAt(about + (right - about) * factor)
    );
  }

  slide(pixels) {
    const [left, right] = this.range(), [first, last] = this.group.whole;
    const from = this.pixelOf(first), to = this.pixelOf(last);
    const kept = Math.max(from - left, Math.min(to - right, pixels));
    this.group.show(this.valueAt(left + kept), this.valueAt(right + kept));
  }

  zoomed() {
    if (!this.view) return;
    if (this.data.domain) {
      this.view.signal("domain", this.group.domain);
      this.view.runAsync().then(() => this.place());
      this.extent();
    }
  }

  extent() {
    const { domain, whole } = this.group, words = named(`${this.id}-extent`);
    this.figure.dataset.domain = domain.join(" ");
    const share = (100 * (domain[1] - domain[0])) / (whole[1] - whole[0]);
    const percent = Number(share.toPrecision(2));
    words.textContent = this.group.isWhole() ? "" : `${percent} % of the whole is shown`;
  }

  wheel(event) {
    const wanted = event.ctrlKey || event.metaKey || this.plot.contains(document.activeElement);
    // At the whole, zooming out further scrolls the page.
    if (!wanted || !this.range() || (event.deltaY > 0 && this.group.isWhole())) return;
    event.preventDefault();
    this.zoom(Math.exp(Math.max(-60, Math.min(60, event.deltaY)) * 0.006), this.pixel(event));
  }

  // ---- cursor and readings
  pixel(event) {
    const [left, right] = this.range();
    return Math.max(left, Math.min(right, event.clientX - this.plot.getBoundingClientRect().left));
  }

  // The last row that begins at or before a value; -1: none does.
  lastBegun(value) {
    let low = 0, high = this.xs.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this.xs[middle] <= value) low = middle + 1;
      else high = middle;
    }
    return low - 1;
  }

  // The row that holds a value, or of points the nearest one; -1: none.
  rowAt(value) {
    if (value === null || !this.xs.length) return -1;
    const at = this.lastBegun(value), last = this.xs.length - 1;
    if (!this.ends) {
      return at < 0 || (at < last && this.xs[at + 1] - value < value - this.xs[at]) ? at + 1 : at;
    }
    if (at < 0) return -1;
    return value < this.ends[at] || (at === last && value <= this.ends[at]) ? at : -1;
  }

  read() {
    const row = this.rowAt(this.group.at), output = named(`${this.id}-reading`);
    this.place();
    if (!output || (row === this.row && row >= 0)) return;
    this.row = row;
    if (row >= 0) output.replaceChildren(this.readings(row, false));
    else if (this.group.at !== null) {
      output.replaceChildren(make("span", "Nothing is known here.", { className: "hint" }));
    }
  }

  readings(row, buttons) {
    const list = make("dl");
    for (const { field, label, code, template } of this.data.readings) {
      const value = this.data.columns[field]?.[row];
      const none = value === null || value === undefined;
      if (none && template) continue;
      const text = none ? NOTHING : template ? this.filled(template, row) : String(value);
      const box = make("div", undefined, { className: code ? "wide" : "" });
      const held = make("dd", code ? undefined : text);
      if (code) {
        const line = make("div", undefined, { className: "line" });
        line.append(make("code", text));
        if (buttons) line.append(copyButton(text));
        held.append(line);
      }
      box.append(make("dt", label), held);
      list.append(box);
    }
    return list;
  }

  filled(template, row) {
    return template.replace(/\{([^{}:]+)(:,)?\}/g, (_, field, grouped) => {
      const value = this.data.columns[field]?.[row] ?? NOTHING;
      return grouped && typeof value === "number" ? value.toLocaleString("en-US") : String(value);
    });
  }

  keep() {
    const box = named(`${this.id}-kept`);
    if (!box) return this.place();
    const row = this.rowAt(this.group.kept);
    box.hidden = row < 0;
    if (row >= 0) {
      const title = make("div", "Kept", { className: "title" });
      const button = make("button", "Drop", { type: "button" });
      button.addEventListener("click", () => {
        this.group.keep(null);
        this.plot.focus();
      });
      title.append(button);
      box.replaceChildren(title, this.readings(row, true));
    }
    this.place();
  }

  place() {
    this.line($(".cursor", this.plot), this.group.at);
    this.line($(".kept-cursor", this.plot), this.group.kept);
  }

  line(line, value) {
    if (!line || !this.view) return;
    const range = this.range(), at = value === null || !range ? NaN : this.pixelOf(value);
    line.hidden = !(at >= range?.[0] - 1 && at <= range?.[1] + 1);
    if (!line.hidden) Object.assign(line.style, { left: `${at}px`, ...this.height() });
  }

  height() {
    const top = this.view.origin()[1] + this.view.padding().top;
    return { top: `${top}px`, height: `${this.view.height()}px` };
  }

  stepRow(by) {
    if (!this.xs.length) return;
    const row = Math.max(0, Math.min(this.xs.length - 1, this.nextRow(by)));
    const at = this.ends ? (this.xs[row] + this.ends[row]) / 2 : this.xs[row];
    const [from, to] = this.group.domain ?? [at, at];
    if (at < from || at > to) this.group.show(at - (to - from) / 2, at + (to - from) / 2);
    this.group.point(at);
  }

  // Where there is no cursor yet, the first row that is shown, or the last one.
  nextRow(by) {
    const here = this.rowAt(this.group.at);
    if (here >= 0) return here + by;
    const [from, to] = this.group.domain ?? [this.xs[0], Infinity];
    const at = this.group.at ?? (by > 0 ? from : to);
    const onRow = this.group.at === null && this.rowAt(at) >= 0;
    return by > 0 && !onRow ? this.lastBegun(at) + 1 : this.lastBegun(at);
  }

  // ---- keys and pointers
  key(event) {
    if (event.altKey || event.ctrlKey || event.metaKey || event.target !== this.plot) return;
    const side = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    const reads = this.data.readings.length > 0, slides = event.shiftKey || !reads;
    if (side && this.data.domain && slides) this.act(side < 0 ? "left" : "right");
    else if (side && reads) this.stepRow(side);
    else if (event.key === "PageUp" && reads) this.stepRow(-10);
    else if (event.key === "PageDown" && reads) this.stepRow(10);
    else if (event.key in ZOOMS && this.data.domain) this.act(ZOOMS[event.key]);
    else if (event.key === "Enter" && reads) this.group.keep(this.group.at);
    else if (event.key === "Escape" && this.group.kept !== null) this.group.keep(null);
    else if (event.key === "Escape" && this.data.domain) this.act("all");
    else return;
    event.preventDefault();
  }

  move(event) {
    if (!this.range()) return;
    const at = this.pixel(event);
    if (this.drag?.pans) {
      const moved = this.drag.last - at;
      this.drag.last = at;
      this.slide(moved);
    } else if (this.drag) this.band(this.drag.from, at);
    if (!this.drag?.pans) this.group.point(this.valueAt(at));
  }

  press(event) {
    if (event.button !== 0 || !this.range()) return;
    const at = this.pixel(event), touch = event.pointerType === "touch";
    this.drag = { from: at, last: at, pans: this.data.domain && (touch || event.shiftKey) };
    if (!touch) this.plot.setPointerCapture(event.pointerId);
  }

  band(from, to) {
    const band = $(".chosen", this.plot);
    band.hidden = !this.data.domain || Math.abs(to - from) < 4;
    Object.assign(band.style, {
      left: `${Math.min(from, to)}px`, width: `${Math.abs(to - from)}px`, ...this.height(),
    });
  }

  drop() {
    this.drag = null;
    $(".chosen", this.plot).hidden = true;
  }

  release(event) {
    const drag = this.drag;
    if (!drag) return;
    this.drop();
    const at = this.pixel(event), moved = Math.abs(at - drag.from);
    if (moved < 4) {
      if (this.data.readings.length) {
        this.group.point(this.valueAt(at));
        this.group.keep(this.rowAt(this.group.at) < 0 ? null : this.group.at);
      }
    } else if (!drag.pans && this.data.domain) {
      this.group.show(this.valueAt(Math.min(drag.from, at)), this.valueAt(Math.max(drag.from, at)));
    }
  }
}
